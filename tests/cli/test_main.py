import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rewardharness.cli.main import main
from rewardharness.library.store import Library


@pytest.fixture
def images(tmp_path: Path) -> list[str]:
    random = np.random.default_rng(0)
    source = np.asarray(
        Image.fromarray(random.integers(60, 200, (8, 8, 3), dtype=np.uint8)).resize(
            (128, 128), Image.Resampling.BICUBIC
        )
    ).copy()
    edit = source.copy()
    edit[40:90, 40:90] = (210, 30, 30)
    paths = []
    for name, pixels in (("s", source), ("edit", edit), ("same", source)):
        paths.append(str(tmp_path / f"{name}.png"))
        Image.fromarray(pixels).save(paths[-1])
    return paths


def score(images: list[str], *more: str) -> list[str]:
    source, *candidates = images
    named = [part for path in candidates for part in ("--candidate", path)]
    return ["score", "--source", source, *named, "--instruction", "make the box red", *more]


def test_score_prints_one_object_with_the_agreed_shape(images: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(score(images, "--json")) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["preference"] == "A"
    assert record["ranking"] == [["A"], ["B"]]
    assert set(record["scores"]["A"]) == {"reward", "instruction", "quality", "variance"}
    wanted = "preference ranking margin confidence scores judge protocol library_id entries steps usage failure"
    assert set(wanted.split()) <= set(record)
    assert record["failure"] is None


def test_score_for_people_and_overlays(images: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(score(images, "--show-chain", "--save-overlays", str(tmp_path / "overlays"))) == 0
    shown = capsys.readouterr().out
    assert "A is preferred" in shown
    assert "<answer>" in shown
    assert (tmp_path / "overlays" / "A-change-map.png").read_bytes().startswith(b"\x89PNG")


def test_critiques_are_printed_and_kept_in_results(
    images: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(score(images, "--critique")) == 0
    shown = capsys.readouterr().out
    assert "B: Hardly anything was changed. " in shown
    assert "B, next instruction: make the box red. The change must be clearly visible." in shown
    assert main(score(images, "--critique", "--json")) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["critiques"]["B"]["problems"][0].startswith("Hardly anything was changed.")
    assert main(score(images, "--critique", "--judge", "random")) == 1
    assert "random (baseline) writes no critiques" in capsys.readouterr().err
    make_folder(tmp_path / "data", images)
    command = ["score", str(tmp_path / "data"), "--limit", "1", "--json", "--critique", "--run", str(tmp_path / "run")]
    assert main(command) == 0
    [line] = (tmp_path / "run" / "results.jsonl").read_text(encoding="utf-8").splitlines()
    assert set(json.loads(line)["critiques"]) == {"A", "B"}
    assert main([word for word in command if word != "--critique"]) == 1  # another run
    assert "critique" in capsys.readouterr().err


def test_a_missing_image_is_said_in_one_line(images: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(score([*images[:2], "nowhere.png"], "--json")) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert "nowhere.png does not exist" in error["detail"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("score demo --limit -1", "--limit -1"),
        ("data filter demo --min-margin nan -o x.jsonl", "--min-margin nan"),
        ("data pairs demo --holdout 1 -o x", "--holdout 1.0"),
        ("data show demo --audit-share 2", "--audit-share 2.0"),
        ("evolve demo --audit-share 1", "--audit-share 1.0"),
        ("evolve demo --price 1 -1", "--price -1.0"),
        ("evolve demo --limit 0", "--limit 0"),
        ("library search --limit 101", "--limit 101"),
        ("serve --queue 0", "--queue 0"),
        ("serve judge x --gpus 0", "--gpus 0"),
        ("app --port 70000", "--port 70000"),
        ("cache prune --older-than -1", "--older-than -1.0"),
    ],
)
def test_numbers_out_of_range_are_wrong_arguments(command: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command.split()) == 2
    found = capsys.readouterr().err
    assert f"{said} is out of range." in found and "Next: Give a number " in found


def test_five_candidates_are_wrong_arguments(images: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(score([images[0], *[images[1]] * 5])) == 2
    assert "There are 5 candidates" in capsys.readouterr().err


def test_help_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "runs", "rm"]) == 0
    assert "--older-than" in capsys.readouterr().out
    assert main(["help"]) == 0 and "130 interrupted" in capsys.readouterr().out


def test_greedy_is_the_default_schedule_and_a_limit_uses_the_first_examples(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main("evolve demo --schedule greedy --limit 40 --dry-run".split()) == 0
    said = capsys.readouterr().err
    assert "30 training examples, 10 held out" in said and "schedule default" in said


def test_contradicting_answers_are_headlined_as_inconsistent(
    images: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reply = json.dumps({"text": '<answer>{"preference": "A"}</answer>'})
    (tmp_path / "first.jsonl").write_text("\n".join([reply] * 8), encoding="utf-8")
    judge = ["--judge", f"scripted:{tmp_path / 'first.jsonl'}", "--no-cache"]
    assert main(score(images, *judge)) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("The judge was inconsistent: ")
    assert "A tie" not in shown and "A = B" not in shown
    assert main(score(images, *judge, "--json")) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["preference"], record["inconsistent"]) == (None, True)


def test_replies_that_cannot_be_read_are_shown(
    images: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("said.jsonl").write_text('{"text": "As an <answer>expert"}\n' * 99, encoding="utf-8")
    judge = ["--judge", "scripted:said.jsonl", "--no-cache", "--library", "empty"]
    assert main(score(images, *judge)) == 3
    assert "--show-chain" in capsys.readouterr().out
    assert main(score(images, *judge, "--show-chain")) == 3
    assert "<reply>As an ‹answer>expert</reply>" in capsys.readouterr().out
    make_folder(tmp_path / "data", images)
    assert main(["score", "data", *judge, "--run", "run", "--quiet"]) == 3
    capsys.readouterr()
    assert main(["runs", "show", "run", "--failed"]) == 0
    shown = capsys.readouterr().out
    assert "no_answer: " in shown and "reply, A, B: As an ‹answer>expert" in shown and "were not judged" in shown
    assert main(["runs", "show", "run", "--failed", "--json"]) == 0
    failed = json.loads(capsys.readouterr().out)["failed"]
    assert any(step["kind"] == "reply" for each in failed for step in each["steps"])


def test_a_library_without_triggers_is_reported_and_gets_a_proposal(
    images: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "mine")
    assert main(["library", "new", folder]) == 0
    for name, about in (("text-reader", "Check the spelling of text in images."), ("seams", "Look for artifacts.")):
        assert main(["library", "new", folder, "--skill", name, "--description", about]) == 0
    capsys.readouterr()
    assert main(["library", "check", folder]) == 0
    assert "2 of 2 entries have no triggers: seams, text-reader" in capsys.readouterr().out
    assert main(["library", "show", folder, "--for", "add a hat"]) == 0
    assert "decides itself on entries without triggers: seams, text-reader" in capsys.readouterr().out.replace(
        "\n", " "
    )
    assert main(score(images, "--library", folder)) == 3
    assert "cannot use 2 of 2 entries" in capsys.readouterr().out
    make_folder(tmp_path / "data", images)
    run = ["--run", str(tmp_path / "run"), "--quiet"]
    assert main(["score", str(tmp_path / "data"), "--library", folder, *run]) == 3
    assert "Warning: 0 of 2 entries of the Library were consulted in" in capsys.readouterr().out
    assert main(["library", "triggers", folder]) == 0
    shown = capsys.readouterr().out
    assert "+  triggers: always" in shown and "Nothing was written" in shown
    assert main(["library", "triggers", folder, "-o", f"{folder}-2", "--json"]) == 0
    assert {each["name"] for each in json.loads(capsys.readouterr().out)["changed"]} == {"seams", "text-reader"}
    assert main(["library", "triggers", folder, "--write"]) == 0
    assert main(["library", "show", f"{folder}-2", "--for", "add a 'Sale' sign", "--json"]) == 0
    capsys.readouterr()
    assert main(["library", "triggers", folder]) == 0
    assert "All entries have triggers." in capsys.readouterr().out
    assert main(["library", "show", folder, "--for", "add a 'Sale' sign"]) == 0
    assert "text-reader" in capsys.readouterr().out
    assert main(["library", "triggers", "builtin", "--write"]) == 1


def test_a_broken_library_is_named_with_the_next_step(
    images: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lib").mkdir()
    assert main(score(images, "--library", str(tmp_path / "lib"))) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "registry.json" in shown.err
    assert "Traceback" not in shown.err


def make_folder(folder: Path, images: list[str]) -> None:
    folder.mkdir()
    for path in images:
        (folder / Path(path).name).write_bytes(Path(path).read_bytes())
    rows = ["id,instruction,source,candidate_a,candidate_b,preference,label_kind"]
    rows += [f"e{number},make the box red,s.png,edit.png,same.png,A,made" for number in range(3)]
    rows += ["e3,make the box red,s.png,edit.png,gone.png,A,made"]
    (folder / "pairs.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")


@pytest.mark.parametrize("where", ["one", "deep/below/one"])
def test_a_run_folder_inside_the_data_folder_is_no_data(
    where: str, images: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    make_folder(data, images)
    for run in (where, where, "two"):
        assert main(["score", str(data), "--run", str(data / run), "--json"]) == 3
        report = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert (report["n"], report["judged"]) == (4, 3)
    (data / "pairs.csv").unlink()
    rows = [{"source": "s.png", "candidate_a": "edit.png", "candidate_b": "same.png", "instruction": "make it red"}]
    (data / "table.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert main(["score", str(data), "--run", str(data / "three"), "--json"]) == 0
    assert main(["score", str(data), "--run", str(data / "four"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["n"] == 1


def test_score_folder_resumes_and_reports(
    images: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_folder(tmp_path / "data", images)
    command = ["score", str(tmp_path / "data"), "--run", str(tmp_path / "run"), "--json"]
    assert main([*command, "--limit", "2"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["n"] == 2
    assert main(command) == 3
    shown = capsys.readouterr()
    assert "2 of 4 are judged already" in shown.err
    report = json.loads(shown.out.splitlines()[-1])
    assert (report["n"], report["judged"], report["coverage"]) == (4, 3, 0.75)
    assert report["by_label_kind"]["made"]["accuracy"] == 1.0
    assert report["position_consistency"] == 1.0
    assert report["groups"] == {"n": 0, "judged": 0, "best_accuracy": None, "interval": None}
    lines = [json.loads(line) for line in (tmp_path / "run" / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    lines.sort(key=lambda line: str(line["id"]))
    assert [line["id"] for line in lines] == ["e0", "e1", "e2", "e3"]
    assert {"id", "preference", "margin", "scores", "failure"} <= set(lines[0])
    assert lines[3]["preference"] is None
    assert "gone.png" in lines[3]["failure"]["message"]


def test_accuracies_say_who_judged_and_why_something_was_not(
    images: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_folder(tmp_path / "data", images)
    assert main(["score", str(tmp_path / "data"), "--run", str(tmp_path / "run"), "--quiet"]) == 3
    shown = capsys.readouterr().out
    assert "Judge: measured (no VLM), protocol measured; Library " in shown
    assert "Not judged: image 1\nSuch as e3: image: " in shown and "gone.png" in shown


def test_a_library_can_be_begun_in_a_folder_with_underscores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["library", "new", str(tmp_path / "My_library")]) == 0
    assert Library.load(tmp_path / "My_library").meta["id"] == "my-library"
    assert main(["library", "show", str(tmp_path / "none")]) == 1
    assert "create one: rh library new" in capsys.readouterr().err


def test_another_library_in_the_same_run_folder_is_refused(
    images: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_folder(tmp_path / "data", images)
    assert main(["library", "new", str(tmp_path / "lib"), "--copy", "builtin"]) == 0
    new = [
        "library",
        "new",
        str(tmp_path / "lib"),
        "--skill",
        "hats",
        "--description",
        "For hats.",
        "--triggers",
        "hat",
    ]
    assert main(new) == 0
    command = ["score", str(tmp_path / "data"), "--run", str(tmp_path / "run"), "--limit", "1", "--quiet"]
    assert main(command) == 0
    assert main([*command, "--library", str(tmp_path / "lib")]) == 1
    assert "library_id" in capsys.readouterr().err
    assert main([*command, "--library", str(tmp_path / "lib"), "--restart"]) == 0


def test_dry_run_judges_nothing(images: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_folder(tmp_path / "data", images)
    assert main(["score", str(tmp_path / "data"), "--run", str(tmp_path / "run"), "--dry-run"]) == 0
    assert "4 edits" in capsys.readouterr().out
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("spelling", ["{}/lamps", "{}/skills/lamps", "{}/skills/lamps/SKILL.md", "lamps"])
def test_an_entry_written_by_hand_is_added(
    spelling: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    library = tmp_path / "lib"
    monkeypatch.setenv("RH_LIBRARY", str(library))
    assert main(["library", "new", str(library)]) == 0
    place = library / "skills" / "lamps" / "SKILL.md"
    assert main(["library", "add", spelling.format(library)]) == 1
    assert "neither skills/lamps/SKILL.md nor tools" in capsys.readouterr().err.replace(" and ", " nor ")
    place.parent.mkdir(parents=True)
    text = "--- \nname: lamps\nkind: skill\ndescription: How to judge lamps.\n---\n\nLook at the light.\n"
    place.write_text(text)
    (place.parent / "notes.txt").write_text("mine")
    assert main(["library", "add", spelling.format(library)]) == 0
    loaded = Library.load(library).get("lamps")
    assert loaded is not None and loaded.description == "How to judge lamps."
    assert place.read_text() == text and (place.parent / "notes.txt").read_text() == "mine"
    assert main(["library", "add", spelling.format(library)]) == 1
    assert "already exists" in capsys.readouterr().err
    assert main(["library", "remove", spelling.format(library).removesuffix("/SKILL.md")]) == 0
    assert "lamps" not in Library.load(library) and not place.exists()


def test_options_from_a_device_are_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", "demo", "--config", "/dev/zero"]) == 2
    assert "larger than" in capsys.readouterr().err


def test_library_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    library = str(tmp_path / "lib")
    assert main(["library", "new", library, "--copy", "builtin"]) == 0
    assert main(["library", "check", library, "--strict"]) == 0
    assert main(["library", "check", "builtin"]) == 0
    assert "folder does not exist" not in capsys.readouterr().out
    assert main(["library", "diff", "builtin", library]) == 0
    assert "are equal" in capsys.readouterr().out
    assert main(["library", "new", library, "--tool", "hat-finder"]) == 1
    assert "--description" in capsys.readouterr().err
    assert main(["library", "new", library, "--tool", "hat-finder", "--description", "Finds hats."]) == 0
    assert main(["library", "diff", "builtin", library, "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [entry["name"] for entry in found["added"]] == ["hat-finder"]
    assert main(["library", "show", library, "--entry", "nothing"]) == 1
    assert main(["library", "show", library, "--entry", "hat-finder"]) == 0
    assert "Finds hats." in capsys.readouterr().out
    assert main(["library", "remove", f"{library}/hat-finder"]) == 0
    assert main(["library", "remove", f"{library}/hat-finder"]) == 1
    assert "no entry 'hat-finder'" in capsys.readouterr().err
    assert main(["library", "diff", "builtin", library]) == 0
    assert "are equal" in capsys.readouterr().out
    assert main(["library", "show", "--for", "remove the hat", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    consulted = [entry["name"] for entry in shown["entries"] if entry["consulted"]]
    assert "following-removals" in consulted
    assert "style-and-tone-changes" not in consulted


def test_doctor_names_the_state_of_things(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"]
    assert {"python", "numpy", "state folder", "library"} <= {check["name"] for check in report["checks"]}


def test_a_wrong_setting_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("RH_WORKERS", "many")
    assert main(["doctor"]) == 1
    assert "RH_WORKERS='many'" in capsys.readouterr().err


def test_a_wrong_command_line_is_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score"]) == 2
    assert "--source" in capsys.readouterr().err


def test_a_wrong_judge_of_the_environment_is_named(
    images: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RH_JUDGE", "nonsense")
    assert main(score(images)) == 1
    assert "RH_JUDGE: Unknown judge 'nonsense'." in capsys.readouterr().err
    assert main(score(images, "--judge", "other")) == 1
    assert "RH_JUDGE" not in capsys.readouterr().err


def test_equal_scores_are_a_tie_only_where_ties_are_offered(
    images: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    same = [images[0], images[1], images[1]]
    assert main(score(same)) == 0
    assert capsys.readouterr().out.startswith("No preference (A = B)")
    assert main(score(same, "--ties")) == 0
    assert capsys.readouterr().out.startswith("A tie (A = B)")


def test_the_run_folder_of_another_command_is_named(
    images: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_folder(tmp_path / "data", images)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text('{"command": "evolve", "seed": 1}', encoding="utf-8")
    assert main(["score", str(tmp_path / "data"), "--run", str(tmp_path / "run")]) == 1
    assert "holds a run of evolve; this is score" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "Missing: a dataset or one edit."),
        (["--source", "s.png"], "Missing: --candidate, --instruction."),
        (["data", "--source", "s.png"], "--source is for one edit, and data is a dataset."),
        (["--source", "s", "--candidate", "a", "--instruction", "x", "--limit", "3"], "--limit is for a dataset."),
    ],
)
def test_score_takes_a_dataset_or_one_edit(words: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", *words]) == 2
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["runs", "compare"], "Missing: runs"),
        (["release", "deploy"], "needs a release and a target"),
        (["push-library", "mine", "--repo", "a/b", "--version", "1.0.0", "--bump", "minor"], "exclude each other"),
    ],
)
def test_arguments_that_contradict_each_other_are_wrong_use(
    words: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--json"]) == 2
    out, err = capsys.readouterr()
    assert problem in err and json.loads(out)["error"]["title"] == "Wrong arguments"


@pytest.mark.parametrize(
    ("instruction", "status", "parts"),
    [
        ("make the chair red", 0, [{"kind": "color", "asked": ["red"], "measures": ["color_target"]}]),
        ("x", 3, [{"kind": "other", "asked": [], "measures": []}]),
    ],
)
def test_score_says_which_parts_of_the_instruction_were_graded(
    images: list[str], instruction: str, status: int, parts: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    source, _, same = images
    assert main(["score", "--source", source, "--candidate", same, "--instruction", instruction, "--json"]) == status
    record = json.loads(capsys.readouterr().out)
    assert record["parts"] == parts
    reward = record["scores"]["A"]["reward"]
    assert (reward is None) if status else reward < 0.4

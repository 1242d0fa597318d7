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
    assert main(score([*images[:2], "nowhere.png"], "--json")) == 3
    record = json.loads(capsys.readouterr().out)
    assert record["preference"] is None
    assert record["failure"]["code"] == "image"
    assert "nowhere.png" in record["failure"]["message"]


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

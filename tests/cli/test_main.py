import json
from pathlib import Path

import pytest
from commands import Rh
from drawn_pairs import draw_box

from rewardharness.library.store import Library


@pytest.fixture
def images(tmp_path: Path) -> list[str]:
    """A gray box, made red, and left as it was."""
    draw_box(tmp_path / "box")
    return [str(tmp_path / "box" / f"{name}.png") for name in ("source", "red", "same")]


def score(images: list[str], *more: str) -> list[str]:
    source, *candidates = images
    named = [part for path in candidates for part in ("--candidate", path)]
    return ["score", "--source", source, *named, "--instruction", "make the box red", *more]


def test_critiques_are_printed_and_kept_in_results(images: list[str], tmp_path: Path, rh: Rh) -> None:
    shown = rh(*score(images, "--critique")).out
    assert "B: Hardly anything was changed. " in shown
    assert "B, next instruction: make the box red. The change must be clearly visible." in shown
    record = rh(*score(images, "--critique", "--json")).json
    assert record["critiques"]["B"]["problems"][0].startswith("Hardly anything was changed.")
    refused = rh(*score(images, "--critique", "--judge", "random"), status=1)
    assert "random (baseline) writes no critiques" in refused.err
    make_folder(tmp_path / "data", images)
    command = ["score", tmp_path / "data", "--limit", "1", "--run", tmp_path / "run"]
    rh(*command, "--critique")
    [line] = (tmp_path / "run" / "results.jsonl").read_text(encoding="utf-8").splitlines()
    assert set(json.loads(line)["critiques"]) == {"A", "B"}
    assert "critique" in rh(*command, status=1).err  # another run


def test_contradicting_answers_are_headlined_as_inconsistent(images: list[str], tmp_path: Path, rh: Rh) -> None:
    reply = json.dumps({"text": '<answer>{"preference": "A"}</answer>'})
    (tmp_path / "first.jsonl").write_text("\n".join([reply] * 8), encoding="utf-8")
    judge = ["--judge", f"scripted:{tmp_path / 'first.jsonl'}", "--no-cache"]
    shown = rh(*score(images, *judge)).out
    assert shown.startswith("The judge was inconsistent: ") and "A tie" not in shown and "A = B" not in shown
    record = rh(*score(images, *judge, "--json")).json
    assert (record["preference"], record["inconsistent"]) == (None, True)


def test_unreadable_replies_are_shown(
    images: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rh: Rh
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("said.jsonl").write_text('{"text": "As an <answer>expert"}\n' * 99, encoding="utf-8")
    judge = ["--judge", "scripted:said.jsonl", "--no-cache", "--library", "empty"]
    assert "--show-chain" in rh(*score(images, *judge), status=3).out
    assert "<reply>As an ‹answer>expert</reply>" in rh(*score(images, *judge, "--show-chain"), status=3).out
    make_folder(tmp_path / "data", images)
    rh("score", "data", *judge, "--run", "run", "--quiet", status=3)
    shown = rh("runs", "show", "run", "--failed").out
    assert "no_answer: " in shown and "reply, A, B: As an ‹answer>expert" in shown and "were not judged" in shown
    failed = rh("runs", "show", "run", "--failed", "--json").json["failed"]
    assert any(step["kind"] == "reply" for each in failed for step in each["steps"])


def test_a_library_without_triggers_is_reported_and_gets_a_proposal(images: list[str], tmp_path: Path, rh: Rh) -> None:
    folder = str(tmp_path / "mine")
    rh("library", "new", folder)
    for name, about in (("text-reader", "Check the spelling of text in images."), ("seams", "Look for artifacts.")):
        rh("library", "new", folder, "--skill", name, "--description", about)
    assert "2 of 2 entries have no triggers: seams, text-reader" in rh("library", "check", folder).out
    shown = rh("library", "show", folder, "--for", "add a hat").text
    assert "decides itself on entries without triggers: seams, text-reader" in shown
    assert "cannot use 2 of 2 entries" in rh(*score(images, "--library", folder), status=3).out
    make_folder(tmp_path / "data", images)
    run = ["--run", tmp_path / "run", "--quiet"]
    shown = rh("score", tmp_path / "data", "--library", folder, *run, status=3).out
    assert "Warning: 0 of 2 entries of the Library were consulted in" in shown
    shown = rh("library", "triggers", folder).out
    assert "+  triggers: always" in shown and "Nothing was written" in shown
    changed = rh("library", "triggers", folder, "-o", f"{folder}-2", "--json").json["changed"]
    assert {each["name"] for each in changed} == {"seams", "text-reader"}
    rh("library", "triggers", folder, "--write")
    rh("library", "show", f"{folder}-2", "--for", "add a 'Sale' sign", "--json")
    assert "All entries have triggers." in rh("library", "triggers", folder).out
    assert "text-reader" in rh("library", "show", folder, "--for", "add a 'Sale' sign").out
    rh("library", "triggers", "builtin", "--write", status=1)


def make_folder(folder: Path, images: list[str]) -> None:
    folder.mkdir()
    for path in images:
        (folder / Path(path).name).write_bytes(Path(path).read_bytes())
    rows = ["id,instruction,source,candidate_a,candidate_b,preference,label_kind"]
    rows += [f"e{number},make the box red,source.png,red.png,same.png,A,made" for number in range(3)]
    rows += ["e3,make the box red,source.png,red.png,gone.png,A,made"]
    (folder / "pairs.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")


@pytest.mark.usefixtures("small_library")
def test_a_run_folder_inside_the_data_folder_is_no_data(images: list[str], tmp_path: Path, rh: Rh) -> None:
    data = tmp_path / "data"
    make_folder(data, images)
    for run in ("deep/below/one", "two", "two"):
        report = rh("score", data, "--run", data / run, "--json", status=3).json
        assert (report["n"], report["judged"]) == (4, 3)
    (data / "pairs.csv").unlink()
    row = {"source": "source.png", "candidate_a": "red.png", "candidate_b": "same.png", "instruction": "red"}
    (data / "table.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    for run in ("three", "four"):
        assert rh("score", data, "--run", data / run, "--json").json["n"] == 1


def test_a_library_can_be_begun_in_a_folder_with_underscores(tmp_path: Path, rh: Rh) -> None:
    rh("library", "new", tmp_path / "My_library")
    assert Library.load(tmp_path / "My_library").meta["id"] == "my-library"
    assert "create one: rh library new" in rh("library", "show", tmp_path / "none", status=1).err
    assert "--thin belongs to --copy" in rh("library", "new", tmp_path / "half", "--thin", status=2).err
    assert not (tmp_path / "half").exists()
    assert "There is no place for 'agent'" in rh("library", "show", "builtin", "agent", status=2).err


@pytest.mark.parametrize("spelling", ["{}/lamps", "{}/skills/lamps", "{}/skills/lamps/SKILL.md", "lamps"])
def test_an_entry_by_hand_is_added(spelling: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rh: Rh) -> None:
    library, named = tmp_path / "lib", spelling.format(tmp_path / "lib")
    monkeypatch.setenv("RH_LIBRARY", str(library))
    rh("library", "new", library)
    place = library / "skills" / "lamps" / "SKILL.md"
    said = rh("library", "add", named, status=1).err.replace(" and ", " nor ")
    assert "neither skills/lamps/SKILL.md nor tools" in said
    place.parent.mkdir(parents=True)
    text = "--- \nname: lamps\nkind: skill\ndescription: How to judge lamps.\n---\n\nLook at the light.\n"
    place.write_text(text)
    (place.parent / "notes.txt").write_text("mine")
    rh("library", "add", named)
    loaded = Library.load(library).get("lamps")
    assert loaded is not None and loaded.description == "How to judge lamps."
    assert place.read_text() == text and (place.parent / "notes.txt").read_text() == "mine"
    assert "already exists" in rh("library", "add", named, status=1).err
    rh("library", "remove", named.removesuffix("/SKILL.md"))
    assert "lamps" not in Library.load(library) and not place.exists()


@pytest.mark.parametrize(
    ("instruction", "status", "parts"),
    [
        ("make the chair red", 0, [{"kind": "color", "asked": ["red"], "measures": ["color_target"]}]),
        ("x", 3, [{"kind": "other", "asked": [], "measures": []}]),
    ],
)
def test_score_says_which_parts_of_the_instruction_were_graded(
    images: list[str], instruction: str, status: int, parts: list[object], rh: Rh
) -> None:
    source, _, same = images
    words = ["score", "--source", source, "--candidate", same, "--instruction", instruction, "--json"]
    record = rh(*words, status=status).json
    assert record["parts"] == parts
    reward = record["scores"]["A"]["reward"]
    assert (reward is None) if status else reward < 0.4


def test_score_for_people_and_overlays(images: list[str], tmp_path: Path, rh: Rh) -> None:
    shown = rh(*score(images, "--show-chain", "--save-overlays", str(tmp_path / "overlays"))).out
    assert "A is preferred" in shown and "<answer>" in shown
    assert (tmp_path / "overlays" / "A-change-map.png").read_bytes().startswith(b"\x89PNG")


def test_library_commands(tmp_path: Path, rh: Rh) -> None:
    library = str(tmp_path / "lib")
    for words, status, said in (
        (["new", library, "--copy", "builtin"], 0, ""),
        (["check", library, "--strict"], 0, ""),
        (["diff", "builtin", library], 0, "are equal"),
        (["new", library, "--tool", "hat-finder"], 1, "--description"),
        (["new", library, "--tool", "hat-finder", "--description", "Finds hats."], 0, ""),
        (["diff", "builtin", library, "--json"], 0, '"hat-finder"'),
        (["show", library, "--entry", "nothing"], 1, ""),
        (["show", library, "--entry", "hat-finder"], 0, "Finds hats."),
        (["remove", f"{library}/hat-finder"], 0, ""),
        (["remove", f"{library}/hat-finder"], 1, "no entry 'hat-finder'"),
        (["diff", "builtin", library], 0, "are equal"),
        (["check", "builtin"], 0, ""),
    ):
        shown = rh("library", *words, status=status)
        assert said in shown.out + shown.err and "folder does not exist" not in shown.out
    entries = rh("library", "show", "--for", "remove the hat", "--json").json["entries"]
    consulted = [each["name"] for each in entries if each["consulted"]]
    assert "following-removals" in consulted and "style-and-tone-changes" not in consulted


@pytest.mark.usefixtures("small_library")
def test_score_folder_resumes_and_reports(images: list[str], tmp_path: Path, rh: Rh) -> None:
    make_folder(tmp_path / "data", images)
    command = ["score", tmp_path / "data", "--run", tmp_path / "run"]
    assert rh(*command, "--json", "--limit", "2").json["n"] == 2
    shown = rh(*command, "--json", status=3)
    report = shown.json
    assert "2 of 4 are judged already" in shown.err
    assert (report["n"], report["judged"], report["coverage"]) == (4, 3, 0.75)
    assert report["by_label_kind"]["made"]["accuracy"] == 1.0 == report["position_consistency"]
    assert report["groups"] == {"n": 0, "judged": 0, "best_accuracy": None, "interval": None}
    lines = map(json.loads, (tmp_path / "run" / "results.jsonl").read_text(encoding="utf-8").splitlines())
    by_id = {line["id"]: line for line in lines}
    assert sorted(by_id) == ["e0", "e1", "e2", "e3"] and {"margin", "scores", "failure"} <= by_id["e0"].keys()
    assert by_id["e3"]["preference"] is None and "gone.png" in by_id["e3"]["failure"]["message"]
    said = rh(*command, "--quiet", status=3).out
    assert "Judge: measured (no VLM), protocol measured; Library " in said
    assert "Not judged: image 1\nSuch as e3: image: " in said and "gone.png" in said
    assert "library_id" in rh(*command, "--quiet", "--library", "empty", status=1).err
    rh(*command, "--quiet", "--library", "empty", "--restart", status=3)
    (tmp_path / "run" / "run.json").write_text('{"command": "evolve", "seed": 1}', encoding="utf-8")
    assert "holds a run of evolve; this is score" in rh(*command, status=1).err


@pytest.mark.parametrize(("more", "said"), [([], "No preference (A = B)"), (["--ties"], "A tie (A = B)")])
def test_equal_scores_are_a_tie_where_ties_are_offered(images: list[str], more: list[str], said: str, rh: Rh) -> None:
    assert rh(*score([images[0], images[1], images[1]], *more)).out.startswith(said)


def test_help_of_a_command(rh: Rh) -> None:
    assert "--older-than" in rh("help", "runs", "rm").out and "130 interrupted" in rh("help").out


@pytest.mark.parametrize(
    ("variable", "words", "said"),
    [
        ("RH_WORKERS=many", ["doctor"], "RH_WORKERS='many'"),
        ("RH_JUDGE=nonsense", [], "RH_JUDGE: Unknown judge 'nonsense'."),
        ("RH_JUDGE=nonsense", ["--judge", "other"], "Unknown judge 'other'"),
        ("RH_LIBRARY=lib", [], "registry.json"),
    ],
)
def test_a_wrong_setting_is_said(
    variable: str,
    words: list[str],
    said: str,
    images: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rh: Rh,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lib").mkdir()
    monkeypatch.setenv(*variable.split("="))
    shown = rh(*(words if words == ["doctor"] else score(images, *words)), status=1)
    assert said in shown.err and not shown.out
    assert ("RH_JUDGE" in shown.err) == (said.startswith("RH_JUDGE"))


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        ("score demo --limit -1", 2, "--limit -1 is out of range"),
        ("score pairs --concurrency 0", 2, "--concurrency 0 is out of range"),
        ("benchmark pairs --limit 0", 2, "--limit 0 is out of range"),
        ("benchmark reproduce --smoke --pairs 7", 2, "--pairs 7 is out of range"),
        ("data rank samples --limit -1", 2, "--limit -1 is out of range"),
        ("data filter demo --min-margin nan -o x.jsonl", 2, "--min-margin nan is out of range"),
        ("data pairs demo --holdout 1 -o x", 2, "--holdout 1.0 is out of range"),
        ("data show demo --audit-share 2", 2, "--audit-share 2.0 is out of range"),
        ("evolve demo --audit-share 1", 2, "--audit-share 1.0 is out of range"),
        ("evolve demo --price 1 -1", 2, "--price -1.0 is out of range"),
        ("library search --limit 101", 2, "--limit 101 is out of range"),
        ("serve --queue 0", 2, "--queue 0 is out of range"),
        ("serve judge x --gpus 0", 2, "--gpus 0 is out of range"),
        ("app --port 65536", 2, "--port 65536 is out of range"),
        ("cache prune --older-than -1", 2, "--older-than -1.0 is out of range"),
        ("score", 2, "Missing: a dataset or one edit."),
        ("score --source s.png", 2, "Missing: --candidate, --instruction."),
        ("score data --source s.png", 2, "--source is for one edit, and data is a dataset."),
        ("score --source s --candidate a --instruction x --limit 3", 2, "--limit is for a dataset."),
        ("score --source s --instruction x" + " --candidate a" * 5, 2, "There are 5 candidates"),
        ("score demo --config /dev/zero", 2, "larger than"),
        ("score --source s.png --candidate a.png --instruction x", 1, "s.png does not exist"),
        ("runs compare", 2, "Missing: runs"),
        ("release deploy", 2, "needs a release and a target"),
        ("release show nowhere.json", 1, "nowhere.json"),
        ("push-library mine --repo a/b --version 1.0.0 --bump minor", 2, "exclude each other"),
        ("score pairs --nothing", 2, "Unknown option: --nothing"),
        ("library show --nothing new", 2, "Unknown option: --nothing"),
        ("benchmark pairs --nothing", 2, "Unknown option: --nothing"),
    ],
)
def test_a_wrong_command_line_is_said_as_text_and_as_json(command: str, status: int, said: str, rh: Rh) -> None:
    words = command.split()
    shown = rh(*words, status=status)
    assert not shown.out and said in shown.err
    assert status == 1 or f"Help: rh {words[0]} " in shown.err
    if "push-library" not in command and "library search" not in command and "--gpus" not in command:
        error = rh(*words, "--json", status=status).json["error"]
        assert said in error["detail"] and (error["title"] == "Wrong arguments") == (status == 2)

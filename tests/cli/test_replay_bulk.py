"""`rh runs replay` of ranking, filtering and pairs: judgments, decisions, and no file outside its own folder."""

import json
import sys
from pathlib import Path

import pytest

from rewardharness.cli.main import main
from rewardharness.schema import Json

sys.path.insert(0, str(Path(__file__).parents[1] / "bulk"))
from bulk_parts import folders, picture


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RH_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    folders(tmp_path / "samples", edits=3, candidates=3)
    return tmp_path


COMMANDS = {
    "rank": ["--copy-best", "made"],
    "filter": ["--single", "--min-reward", "0.5", "-o", "made/kept.jsonl"],
    "pairs": ["-o", "made", "--margin", "0.01", "--holdout", "0"],
}


def replayed(capsys: pytest.CaptureFixture[str], status: int) -> Json:
    capsys.readouterr()
    assert main(["runs", "replay", "run", "--json"]) == status, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_run_comes_out_the_same_and_writes_into_its_own_folder(
    place: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert main(["data", command, "samples", *COMMANDS[command], "--run", "run", "--quiet"]) == 0
    before, made = contents(place / "run"), contents(place / "made")
    found = replayed(capsys, 0)
    assert found["same"] and found["n"] == 9 and not found["changed"]
    assert (contents(place / "run"), contents(place / "made")) == (before, made)
    output = place / "run-replay" / "output"
    assert output.exists() == (command != "rank")
    if command == "filter":
        assert (output / "kept.jsonl").read_bytes() == (place / "made" / "kept.jsonl").read_bytes()
    if command == "pairs":
        assert (output / "made" / "scores.jsonl").read_bytes() == made["scores.jsonl"]


@pytest.mark.parametrize("command", COMMANDS)
def test_another_decision_is_found(place: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert main(["data", command, "samples", *COMMANDS[command], "--run", "run", "--quiet"]) == 0
    outcome = json.loads((place / "run" / "outcome.json").read_text(encoding="utf-8"))
    key = next(name for name in ("best", "decided", "pairs") if name in outcome)
    name = next(iter(outcome[key]))
    outcome[key][name] = "another"
    (place / "run" / "outcome.json").write_text(json.dumps(outcome), encoding="utf-8")
    found = replayed(capsys, 1)
    assert not found["same"] and [each["place"] for each in found["report"]] == [f"{key}.{name}"]


def test_what_an_earlier_version_ran_is_compared_by_its_judgments(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "rank", "samples", "--run", "run", "--quiet"]) == 0
    (place / "run" / "outcome.json").unlink()
    capsys.readouterr()
    assert main(["runs", "replay", "run"]) == 0
    said = capsys.readouterr()
    assert "only judgments are compared" in said.err and "9 judgments compared" in said.out


def test_data_that_changed_are_said(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "rank", "samples", "--run", "run", "--quiet"]) == 0
    picture(place / "samples" / "edit-0" / "c0.png", 250)
    assert any(line.startswith("data (") for line in replayed(capsys, 1)["changed"])

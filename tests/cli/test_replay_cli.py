"""`rh runs replay` from end to end: exact for the pixel-based judge, cached for models, and what can change."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn_pairs import TIMID, draw_pairs
from halting import Halt

from rewardharness.cli.main import main
from rewardharness.files import read_jsonl, write_text
from rewardharness.library.store import Library

PAIRS = 12


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pairs of a recoloured square and the untouched source. People prefer the one that did something."""
    folder = tmp_path_factory.mktemp("drawn")
    draw_pairs(folder, PAIRS)
    return folder


@pytest.fixture(autouse=True)
def one_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests of this module share what was measured, which takes most of the time."""
    monkeypatch.setenv("RH_HOME", str(tmp_path_factory.getbasetemp() / "replay-home"))


@pytest.fixture
def place(drawn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with `data` and a Library, so that everything is named by relative paths."""
    shutil.copytree(drawn, tmp_path / "data")
    Library((TIMID,)).save(tmp_path / "timid")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def scored(place: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["score", "data", "--library", "timid", "--run", "run", "--quiet"]) == 0
    capsys.readouterr()
    return place / "run"


def replayed(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> dict[str, Any]:
    assert main(["runs", "replay", *words, "--json"]) == status
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 1, "what the command itself has to say is not part of it"
    found: dict[str, Any] = json.loads(captured.out)
    return found


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["runs", "replay", *words]) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and "Traceback" not in captured.err
    return captured.err


def test_a_measured_run_comes_out_the_same_to_the_last_digit(
    scored: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir("/")  # relative paths mean what they meant where the command was given
    found = replayed(capsys, str(scored), "--no-cache")
    assert found["same"] and not found["changed"]
    assert (found["n"], found["moved"], found["asked"]) == (PAIRS, 0, 0)
    replay = Path(found["replay"])
    assert replay == scored.with_name("run-replay")
    assert json.loads((replay / "replay.json").read_text("utf-8")) == found
    record = json.loads((replay / "record.json").read_text("utf-8"))
    assert record["replays"]["folder"] == str(scored) and record["sessions"][0]["arguments"]["no_cache"]
    again = replayed(capsys, str(replay), "--to", str(tmp_path / "of-a-replay"))
    assert again["same"] and Path(again["replay"]) == tmp_path / "of-a-replay"
    assert replayed(capsys, str(scored))["replay"].endswith("run-replay-2")


def test_a_result_that_differs_is_named_and_fails(scored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line for _, line in read_jsonl(scored / "results.jsonl")]
    lines[0]["margin"] = np.nextafter(lines[0]["margin"], 2)
    lines[1]["preference"] = "B" if lines[1]["preference"] == "A" else "A"
    lines[2]["id"] = "p99"
    write_text(scored / "results.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    found = replayed(capsys, str(scored), status=1)
    assert not found["same"]
    assert [each["place"] for each in found["margins"]] == [f"{lines[0]['id']} margin"], "the last digit counts"
    assert [each["place"] for each in found["preferences"]] == [f"{lines[1]['id']} preference"]
    assert found["only_before"] == ["p99"] and len(found["only_after"]) == 1
    assert main(["runs", "replay", str(scored), "--quiet"]) == 1
    shown = capsys.readouterr().out
    assert "The results differ" in shown and "the replay lacks: p99" in shown and "all margins identical" not in shown


def test_data_that_changed_are_told_before_anything_is_judged(
    scored: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = place / "data" / "pairs.jsonl"
    write_text(file, file.read_text("utf-8").replace("make the square red", "make the square blue"))
    assert main(["runs", "replay", str(scored), "--dry-run"]) == 0
    captured = capsys.readouterr()
    assert "Changed since: data (" in captured.err and "Nothing was done" in captured.out
    assert not (place / "run-replay").exists()


def test_a_library_that_changed_is_told_and_one_that_is_gone_refused(
    scored: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Library((replace(TIMID, name="other"),)).save(place / "timid")
    found = replayed(capsys, str(scored), "--dry-run")
    assert [each.split(" (")[0] for each in found["changed"]] == ["library id"]
    shutil.rmtree(place / "timid")
    assert "cannot be replayed, because its data, judge or Library cannot be opened" in refused(capsys, str(scored))
    assert not (place / "run-replay").exists()


def test_data_that_are_gone_are_refused(scored: Path, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(place / "data")
    assert "cannot be opened" in (said := refused(capsys, str(scored))) and "data" in said


def test_other_code_is_told(scored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = scored / "record.json"
    record = json.loads(path.read_text("utf-8"))
    sitting = record["sessions"][0]
    sitting["package"]["sources"], sitting["python"], sitting["packages"]["numpy"] = "0" * 64, "3.9.1", "1.0"
    sitting["arguments"] |= {"ties": True, "gone_since": 3}
    write_text(path, json.dumps(record))
    default, *changed = replayed(capsys, str(scored), "--dry-run")["changed"]
    assert default == "the default of ties (True and False)"
    assert changed[0] == "the code of this package (the version is the same, the sources are not)"
    assert changed[1].startswith("python (3.9.1 and ") and changed[2].startswith("numpy (1.0 and ")


def test_what_cannot_be_replayed_says_why(scored: Path, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "holds no run" in refused(capsys, "nowhere")
    assert "is not empty" in refused(capsys, str(scored), "--to", str(place / "data"))
    path = scored / "record.json"
    text = path.read_text("utf-8")
    for change, why in (
        ({"about": {"command": "paint"}}, "can be replayed"),
        ({"about": {"command": "evolve"}}, "is inconsistent"),
        ({"sessions": []}, "that this version can read"),
        ({"schema": 9}, "that this version can read"),
        ({"sessions": [json.loads(text)["sessions"][0] | {"condition": None}]}, "is not finished: it was killed"),
    ):
        write_text(path, json.dumps(json.loads(text) | change))
        assert why in refused(capsys, str(scored)), why
    write_text(path, text)
    config = scored / "config.json"
    given = json.loads(config.read_text("utf-8"))
    for other, why in (
        ({"odd": 1}, "unknown key odd"),
        ({"limit": "many"}, "limit"),
        ({"limit": 0}, "--limit 0 is out of range"),
        ({"job": "paint"}, "Job types: "),
        ({"judge": "vllm:m@http://…@h"}, "used a password"),
    ):
        write_text(config, json.dumps(given | other))
        assert why in refused(capsys, str(scored)), why
    config.unlink()
    assert "has no config.json" in refused(capsys, str(scored))
    path.unlink()
    assert "has no record" in refused(capsys, str(scored))


def test_a_replay_that_was_killed_goes_on_with_the_same_command(
    scored: Path, place: Path, capsys: pytest.CaptureFixture[str], halt: Halt
) -> None:
    command = [sys.executable, "-m", "rewardharness", "runs", "replay", str(scored), "--no-cache", "--quiet"]
    halt.at("results.jsonl", 1)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        halt.reached().kill()
    found = replayed(capsys, str(scored), "--no-cache")
    assert found["same"] and found["replay"] == str(place / "run-replay")
    sittings = json.loads((place / "run-replay" / "record.json").read_text("utf-8"))["sessions"]
    assert [each["condition"] for each in sittings] == ["killed", "done"]


def says(place: Path, *preferences: str) -> None:
    """Write what the scripted model says, question by question; each example is asked about in both orders."""
    scores = {"A": {"instruction": 3, "quality": 3}, "B": {"instruction": 2, "quality": 2}}
    lines = [
        json.dumps({"text": json.dumps({"preference": each, "scores": scores})}) + "\n"
        for each in preferences
        for _ in range(PAIRS * 2)
    ]
    write_text(place / "script.jsonl", "".join(lines))


MODEL = ["--judge", "scripted:script.jsonl", "--protocol", "direct", "--concurrency", "1", "--library", "timid"]


def test_a_model_that_is_remembered_comes_out_the_same(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    says(place, "A")
    main(["score", "data", *MODEL, "--run", "run", "--quiet"])
    write_text(place / "script.jsonl", "")  # whoever asks again gets no answer
    capsys.readouterr()
    found = replayed(capsys, "run")
    assert found["same"] and found["asked"] == 0 and found["n"] == PAIRS


def test_a_model_that_is_asked_anew_may_move_a_little_but_not_change_its_mind(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    says(place, "A")
    main(["score", "data", *MODEL, "--run", "run", "--quiet", "--no-cache"])
    judged = [line for _, line in read_jsonl(place / "run" / "results.jsonl")]
    assert all(line["failure"] is None and line["usage"]["calls"] for line in judged)
    capsys.readouterr()
    assert replayed(capsys, "run")["asked"] == PAIRS
    for line in judged:
        line["margin"] += 0.05
    write_text(place / "run" / "results.jsonl", "".join(json.dumps(line) + "\n" for line in judged))
    found = replayed(capsys, "run")
    assert found["same"] and found["moved"] == PAIRS and found["largest"] == pytest.approx(0.05)
    assert not replayed(capsys, "run", "--tolerance", "0.01", status=1)["same"]


@pytest.mark.slow
def test_an_evolution_comes_out_the_same_also_one_that_was_killed(
    place: Path, capsys: pytest.CaptureFixture[str], halt: Halt
) -> None:
    words = ["evolve", "--data", "data", "--library", "timid", "--run", "run", "--quiet", "--proposals", "6"]
    command = [sys.executable, "-m", "rewardharness", *words]
    halt.at("events.jsonl", 4)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        halt.reached().kill()
    assert "is not finished" in refused(capsys, "run")
    assert main(words) == 0
    capsys.readouterr()
    shutil.rmtree(place / "timid")  # the run keeps the Library that it began with
    found = replayed(capsys, "run")
    assert found["same"] and not found["report"] and found["n"] >= PAIRS
    [change] = found["changed"]
    assert change.startswith("the Library ") and change.endswith("versions/0000")
    report = json.loads((place / "run" / "report.json").read_text("utf-8"))
    report["audit"]["final"]["accuracy"] = 0.123
    report["passed_over"] += 1
    write_text(place / "run" / "report.json", json.dumps(report))
    places = [each["place"] for each in replayed(capsys, "run", status=1)["report"]]
    assert places == ["audit.final.accuracy", "passed_over"]


def test_a_replay_of_a_foreign_run_writes_to_no_path_that_it_names(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["benchmark", "data", "--library", "timid", "--judge", "closer", "--run", "run/deep", "--quiet"]
    assert main(words) == 0
    write_text(place / "victim", "mine")
    path = place / "run" / "deep" / "config.json"
    given = json.loads(path.read_text("utf-8"))
    write_text(path, json.dumps(given | {"calibrate": "../../victim", "for_library": str(place / "data")}))
    capsys.readouterr()
    for folder in (str(place), str(place / "run" / "deep")):
        record = json.loads((path.parent / "record.json").read_text("utf-8"))
        record["sessions"][-1]["folder"] = folder
        write_text(path.parent / "record.json", json.dumps(record))
        main(["runs", "replay", "run/deep", "--quiet", "--to", f"{folder}/replay"])
    assert (place / "victim").read_text("utf-8") == "mine" and not (place / "data" / "benchmark.json").exists()


@pytest.mark.parametrize("judge", ["hf:org/m", "openrouter:m", "gemini:m"])
def test_a_record_sends_nothing_to_a_service_without_leave(
    judge: str, scored: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HF_TOKEN", "OPENROUTER_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "mine")
    path = scored / "config.json"
    write_text(path, json.dumps(json.loads(path.read_text("utf-8")) | {"judge": judge}))
    assert "This run sends images, and your key if one is set, to " in refused(capsys, str(scored))


def test_a_record_sends_nothing_to_an_address_without_leave(
    scored: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RH_API_KEY", "mine")
    path = scored / "config.json"
    write_text(path, json.dumps(json.loads(path.read_text("utf-8")) | {"judge": "vllm:m@http://127.0.0.1:9/v1"}))
    said = refused(capsys, str(scored))
    assert "your key if one is set, to http://127.0.0.1:9/v1" in said and "no terminal to confirm" in said
    assert not scored.with_name("run-replay").exists()


def test_what_came_from_the_environment_is_part_of_the_run(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RH_LIBRARY", "timid")
    assert main(["score", "data", "--run", "run", "--quiet", "--limit", "4"]) == 0
    monkeypatch.delenv("RH_LIBRARY")
    monkeypatch.setenv("RH_JUDGE", "random")
    capsys.readouterr()
    found = replayed(capsys, "run")
    assert found["same"] and not found["changed"] and found["n"] == 4
    assert os.environ["RH_JUDGE"] == "random"

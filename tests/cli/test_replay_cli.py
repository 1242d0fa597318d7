"""`rh runs replay`: exact for the pixel-based judge, cached for models, what can change; and `test_every_job`."""

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
from commands import Rh
from drawn_pairs import TIMID, draw_pairs
from halting import Halt

from rewardharness.files import read_jsonl, write_text
from rewardharness.library.store import Library

PAIRS = 12


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pairs of a recolored square and the untouched source. People prefer the one that did something."""
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
def scored(place: Path, rh: Rh) -> Path:
    rh("score", "data", "--library", "timid", "--run", "run", "--quiet")
    return place / "run"


def replayed(rh: Rh, *words: object, status: int = 0) -> Any:
    """Replay a run; what its command itself has to say is not part of the output."""
    return rh("runs", "replay", *words, "--json", status=status).json


def refused(rh: Rh, *words: object) -> str:
    shown = rh("runs", "replay", *words, status=1)
    assert shown.out == ""
    return shown.err


def change(file: Path, **values: Any) -> None:
    """Change values of a JSON file."""
    write_text(file, json.dumps(json.loads(file.read_text("utf-8")) | values))


def write_lines(file: Path, lines: list[dict[str, Any]]) -> None:
    write_text(file, "".join(json.dumps(line) + "\n" for line in lines))


def test_a_measured_run_comes_out_the_same_to_the_last_digit(
    scored: Path, rh: Rh, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir("/")  # relative paths mean what they meant where the command was given
    found = replayed(rh, scored, "--no-cache")
    assert found["same"] and not found["changed"]
    assert (found["n"], found["moved"], found["asked"]) == (PAIRS, 0, 0)
    replay = Path(found["replay"])
    assert replay == scored.with_name("run-replay")
    assert json.loads((replay / "replay.json").read_text("utf-8")) == found
    record = json.loads((replay / "record.json").read_text("utf-8"))
    assert record["replays"]["folder"] == str(scored) and record["sessions"][0]["arguments"]["no_cache"]
    again = replayed(rh, replay, "--to", tmp_path / "of-a-replay")
    assert again["same"] and Path(again["replay"]) == tmp_path / "of-a-replay"
    assert replayed(rh, scored)["replay"].endswith("run-replay-2")


def test_a_result_that_differs_is_named_and_fails(scored: Path, rh: Rh) -> None:
    lines = [line for _, line in read_jsonl(scored / "results.jsonl")]
    lines[0]["margin"] = np.nextafter(lines[0]["margin"], 2)
    lines[1]["preference"] = "B" if lines[1]["preference"] == "A" else "A"
    lines[2]["id"] = "p99"
    write_lines(scored / "results.jsonl", lines)
    found = replayed(rh, scored, status=1)
    assert not found["same"]
    assert [each["place"] for each in found["margins"]] == [f"{lines[0]['id']} margin"], "the last digit counts"
    assert [each["place"] for each in found["preferences"]] == [f"{lines[1]['id']} preference"]
    assert found["only_before"] == ["p99"] and len(found["only_after"]) == 1
    shown = rh("runs", "replay", scored, "--quiet", status=1).out
    assert "The results differ" in shown and "the replay lacks: p99" in shown and "all margins identical" not in shown


def test_what_has_changed_is_told_before_anything_is_judged(scored: Path, place: Path, rh: Rh) -> None:
    file = place / "data" / "pairs.jsonl"
    before = file.read_text("utf-8")
    write_text(file, before.replace("make the square red", "make the square blue"))
    shown = rh("runs", "replay", scored, "--dry-run")
    assert "Changed since: data (" in shown.err and "Nothing was done" in shown.out
    write_text(file, before)
    Library((replace(TIMID, name="other"),)).save(place / "timid")
    found = replayed(rh, scored, "--dry-run")
    assert [each.split(" (")[0] for each in found["changed"]] == ["library id"]
    for name in ("timid", "data"):
        shutil.rmtree(place / name)
        assert "cannot be replayed, because its data, judge or Library cannot be opened" in refused(rh, scored)
    assert not (place / "run-replay").exists()


def test_other_code_is_told(scored: Path, rh: Rh) -> None:
    path = scored / "record.json"
    [session] = json.loads(path.read_text("utf-8"))["sessions"]
    session["package"]["sources"], session["python"], session["packages"]["numpy"] = "0" * 64, "3.9.1", "1.0"
    session["arguments"] |= {"ties": True, "gone_since": 3}
    change(path, sessions=[session])
    default, *changed = replayed(rh, scored, "--dry-run")["changed"]
    assert default == "the default of ties (True and False)"
    assert changed[0] == "the code of this package (the version is the same, the sources are not)"
    assert changed[1].startswith("python (3.9.1 and ") and changed[2].startswith("numpy (1.0 and ")


def test_what_cannot_be_replayed_says_why(scored: Path, place: Path, rh: Rh) -> None:
    assert "holds no run" in refused(rh, "nowhere")
    assert "is not empty" in refused(rh, scored, "--to", place / "data")
    record, config = scored / "record.json", scored / "config.json"
    [session] = json.loads(record.read_text("utf-8"))["sessions"]
    for file, values, why in (
        (record, {"about": {"command": "paint"}}, "can be replayed"),
        (record, {"about": {"command": "evolve"}}, "is inconsistent"),
        (record, {"sessions": []}, "that this version can read"),
        (record, {"schema": 9}, "that this version can read"),
        (record, {"sessions": [session | {"condition": None}]}, "is not finished: it was killed"),
        (config, {"odd": 1}, "unknown key odd"),
        (config, {"limit": "many"}, "limit"),
        (config, {"limit": 0}, "--limit 0 is out of range"),
        (config, {"job": "paint"}, "Job types: "),
        (config, {"judge": "vllm:m@http://…@h"}, "used a password"),
    ):
        text = file.read_text("utf-8")
        change(file, **values)
        assert why in refused(rh, scored), why
        write_text(file, text)
    for file, why in ((config, "has no config.json"), (record, "has no record")):
        file.unlink()
        assert why in refused(rh, scored)


def test_a_replay_that_was_killed_goes_on_with_the_same_command(scored: Path, place: Path, rh: Rh, halt: Halt) -> None:
    command = [sys.executable, "-m", "rewardharness", "runs", "replay", str(scored), "--no-cache", "--quiet"]
    halt.at("results.jsonl", 1)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        halt.reached().kill()
    found = replayed(rh, scored, "--no-cache")
    assert found["same"] and found["replay"] == str(place / "run-replay")
    sessions = json.loads((place / "run-replay" / "record.json").read_text("utf-8"))["sessions"]
    assert [each["condition"] for each in sessions] == ["killed", "done"]


MODEL = ["--judge", "scripted:script.jsonl", "--protocol", "direct", "--concurrency", "1", "--library", "timid"]


@pytest.fixture
def script(place: Path) -> Path:
    """A model that prefers A; each example is asked about in both orders."""
    scores = {"A": {"instruction": 3, "quality": 3}, "B": {"instruction": 2, "quality": 2}}
    write_lines(place / "script.jsonl", [{"text": json.dumps({"preference": "A", "scores": scores})}] * PAIRS * 2)
    return place / "script.jsonl"


def test_a_model_that_is_remembered_comes_out_the_same(script: Path, rh: Rh) -> None:
    rh("score", "data", *MODEL, "--run", "run", "--quiet")
    write_text(script, "")  # whoever asks again gets no answer
    found = replayed(rh, "run")
    assert found["same"] and found["asked"] == 0 and found["n"] == PAIRS


def test_a_model_that_is_asked_anew_may_move_a_little_but_not_change_its_mind(script: Path, rh: Rh) -> None:
    rh("score", "data", *MODEL, "--run", "run", "--quiet", "--no-cache")
    results = script.parent / "run" / "results.jsonl"
    judged = [line for _, line in read_jsonl(results)]
    assert all(line["failure"] is None and line["usage"]["calls"] for line in judged)
    assert replayed(rh, "run")["asked"] == PAIRS
    write_lines(results, [line | {"margin": line["margin"] + 0.05} for line in judged])
    found = replayed(rh, "run")
    assert found["same"] and found["moved"] == PAIRS and found["largest"] == pytest.approx(0.05)
    assert not replayed(rh, "run", "--tolerance", "0.01", status=1)["same"]


@pytest.mark.slow
def test_an_evolution_comes_out_the_same_also_one_that_was_killed(place: Path, rh: Rh, halt: Halt) -> None:
    words = ["evolve", "--data", "data", "--library", "timid", "--run", "run", "--quiet", "--proposals", "6"]
    halt.at("events.jsonl", 4)
    with subprocess.Popen([sys.executable, "-m", "rewardharness", *words], stderr=subprocess.DEVNULL):
        halt.reached().kill()
    assert "is not finished" in refused(rh, "run")
    rh(*words)
    shutil.rmtree(place / "timid")  # the run keeps the Library that it began with
    found = replayed(rh, "run")
    assert found["same"] and not found["report"] and found["n"] >= PAIRS
    [changed] = found["changed"]
    assert changed.startswith("the Library ") and changed.endswith("versions/0000")
    report = json.loads((place / "run" / "report.json").read_text("utf-8"))
    report["audit"]["final"]["accuracy"] = 0.123
    report["passed_over"] += 1
    write_text(place / "run" / "report.json", json.dumps(report))
    places = [each["place"] for each in replayed(rh, "run", status=1)["report"]]
    assert places == ["audit.final.accuracy", "passed_over"]


def test_a_replay_of_a_foreign_run_writes_to_no_path_that_it_names(place: Path, rh: Rh) -> None:
    rh("benchmark", "data", "--library", "timid", "--judge", "closer", "--run", "run/deep", "--quiet")
    write_text(place / "victim", "mine")
    run = place / "run" / "deep"
    change(run / "config.json", calibrate="../../victim", for_library=str(place / "data"))
    [session] = json.loads((run / "record.json").read_text("utf-8"))["sessions"]
    for folder, status in ((place, 0), (run, 1)):
        change(run / "record.json", sessions=[session | {"folder": str(folder)}])
        rh("runs", "replay", "run/deep", "--quiet", "--to", folder / "replay", status=status)
    assert (place / "victim").read_text("utf-8") == "mine" and not (place / "data" / "benchmark.json").exists()


@pytest.mark.parametrize("judge", ["hf:org/m", "openrouter:m", "gemini:m", "vllm:m@http://127.0.0.1:9/v1"])
def test_a_record_sends_nothing_to_a_service_or_an_address_without_leave(
    judge: str, scored: Path, rh: Rh, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HF_TOKEN", "OPENROUTER_API_KEY", "GEMINI_API_KEY", "RH_API_KEY"):
        monkeypatch.setenv(name, "mine")
    change(scored / "config.json", judge=judge)
    said = refused(rh, scored)
    assert f"your key if one is set, to {judge.rpartition('@')[2] if '@' in judge else ''}" in said
    assert "no terminal to confirm" in said and not scored.with_name("run-replay").exists()


def test_what_the_environment_gave_is_part_of_the_run(place: Path, rh: Rh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RH_LIBRARY", "timid")
    rh("score", "data", "--run", "run", "--quiet", "--limit", "4")
    monkeypatch.delenv("RH_LIBRARY")
    monkeypatch.setenv("RH_JUDGE", "random")
    found = replayed(rh, "run")
    assert found["same"] and not found["changed"] and found["n"] == 4
    assert os.environ["RH_JUDGE"] == "random"

"""`rh evolve` and `rh runs` from end to end: the pixel-based judge, the built-in orchestrator, small drawn pictures."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from halting import Halt
from model_server import Call, ModelServer
from PIL import Image

from rewardharness.cli.main import main
from rewardharness.data.corrections import append_correction, corrections_file
from rewardharness.data.folder import read_folder
from rewardharness.data.source import split
from rewardharness.files import write_text
from rewardharness.library.entry import Entry
from rewardharness.library.rubric import Criterion, Rubric
from rewardharness.library.store import Library
from rewardharness.runs.records import read_record
from rewardharness.runs.store import RunFolder
from rewardharness.settings import Settings

PAIRS = 32
COLORS = {"red": (200, 30, 30), "green": (30, 160, 40), "blue": (40, 60, 200), "yellow": (220, 200, 40)}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pairs of a recoloured square and the untouched source. People prefer the one that did something."""
    folder = tmp_path_factory.mktemp("data")
    random = np.random.default_rng(0)
    rows = []
    for number in range(PAIRS):
        source = np.full((64, 64, 3), random.integers(90, 200, 3), np.uint8)
        source += random.integers(0, 12, source.shape, dtype=np.uint8)
        source[20:44, 20:44] = (128, 128, 128)
        color = list(COLORS)[number % len(COLORS)]
        edited = source.copy()
        edited[20:44, 20:44] = COLORS[color]
        pictures = [source, edited, source] if number % 2 else [source, source, edited]
        for name, pixels in zip(("s", "a", "b"), pictures, strict=True):
            Image.fromarray(pixels).save(folder / f"{name}{number}.png")
        row = {"id": f"p{number:02d}", "source": f"s{number}.png", "candidate_a": f"a{number}.png"}
        row |= {"candidate_b": f"b{number}.png", "instruction": f"make the square {color}", "label_kind": "drawn"}
        rows.append(row | {"preference": "A" if number % 2 else "B"})
    write_text(folder / "pairs.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Library that only asks whether nothing changed, and so prefers those who did nothing."""
    folder = tmp_path_factory.mktemp("library") / "timid"
    rubric = Rubric((Criterion("untouched", "Nothing changed.", measure="structure_kept"),))
    Library((Entry("timid", "skill", "For all.", "Change nothing.", {"triggers": "always"}, rubric=rubric),)).save(
        folder
    )
    return folder


@pytest.fixture(autouse=True)
def one_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests of this module share what was measured, which takes most of the time."""
    monkeypatch.setenv("RH_HOME", str(tmp_path_factory.getbasetemp() / "evolve-home"))


def arguments(data: Path, library: Path, run: Path, *more: str) -> list[str]:
    return ["evolve", "--data", str(data), "--library", str(library), "--run", str(run), *more]


def report_of(output: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return found


@pytest.fixture
def finished(data: Path, library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(arguments(data, library, tmp_path / "run", "--quiet", "--json")) == 0
    capsys.readouterr()
    return tmp_path / "run"


def test_a_library_grows_and_the_audit_says_by_how_much(
    data: Path, library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(data, library, tmp_path / "run")) == 0
    said = capsys.readouterr()
    assert "Expected: about" in said.err and "No model judges" in said.err and "not included" not in said.err
    assert (
        "accepted: " in said.err
        and "Finished. No detectable change on held-out examples (38% → 100%, n 8, p 0.062)." in said.err
    )
    assert said.out.startswith("No detectable change") and "no Library" not in said.out
    assert "Test set: final Library" in said.out and "always gives the same answer" in said.out
    report = json.loads((tmp_path / "run" / "report.json").read_text(encoding="utf-8"))
    audit = report["audit"]
    assert audit["n"] == 8 and audit["start"]["accuracy"] < 0.5 and audit["final"]["accuracy"] == 1.0
    evolved = Library.load(tmp_path / "run" / "library")
    assert evolved.lineage and evolved.lineage[0]["source"].startswith("built-in")


def test_the_help_is_short(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["evolve", "--help"]) == 0
    assert len(capsys.readouterr().out.splitlines()) <= 86


CAUTION = "was evolved on the same data, so expect lower accuracy on other data."


@pytest.mark.slow
def test_numbers_on_the_data_of_the_evolution_are_said_to_be(
    data: Path, library: Path, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By `rh benchmark` and `rh score`, also of a release; not of the starting Library, nor on other data."""
    grown, other, release = finished / "library", tmp_path / "other", tmp_path / "release.json"
    shutil.copytree(data, other)
    rows = (other / "pairs.jsonl").read_text(encoding="utf-8").splitlines()
    write_text(other / "pairs.jsonl", "".join(line + "\n" for line in rows[1:]))
    assert main(["release", "create", "--library", str(grown), "-o", str(release)]) == 0
    for number, (who, where, told) in enumerate(
        (
            (("--library", str(grown)), data, True),
            (("--release", str(release)), data, True),
            (("--library", str(library)), data, False),
            (("--library", str(grown)), other, False),
            (("--release", str(release)), other, False),
            (("--library", str(grown), "--judge", "closer"), data, False),
        )
    ):
        run = tmp_path / f"run{number}"
        for words in (["benchmark", str(where), "--no-baseline"], ["score", str(where)]):
            command = [*words, *who, "--run", str(run / words[0]), "--quiet"]
            capsys.readouterr()
            assert main(command) == 0
            assert (CAUTION in " ".join(capsys.readouterr().out.split())) == told, command
            assert main([*command, "--json"]) == 0
            found = report_of(capsys.readouterr().out)
            row = found["rows"][0] if "rows" in found else found
            assert row.get("evolved_on", False) is told, command
    assert main(["benchmark", "report", str(tmp_path / "run0" / "benchmark"), "--for-library", str(grown)]) == 0
    assert CAUTION in " ".join(capsys.readouterr().out.split())
    assert main(["library", "card", str(grown), "--repo", "me/mine"]) == 0
    assert CAUTION in capsys.readouterr().out
    places = [str(tmp_path / f"run{number}" / "benchmark") for number in (2, 0)]
    assert main(["benchmark", "compare", *places]) == 0
    assert " ".join(capsys.readouterr().out.split()).count(CAUTION) == 1


@pytest.mark.parametrize("more", [[], ["--judge", "measured", "--yes"], ["--quiet"]])
def test_a_finished_run_says_so_and_asks_for_nothing(
    data: Path, library: Path, finished: Path, capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    record = (finished / "record.json").read_bytes()
    assert main(arguments(data, library, finished, *more)) == 0
    said = capsys.readouterr()
    assert ("is complete" in said.err) == ("--quiet" not in more) and "Expected" not in said.err + said.out
    assert said.out.startswith("No detectable change") and "no Library" not in said.out
    assert "Test set: final Library" in said.out and f"Library: {finished / 'library'}" in said.out
    assert main(arguments(data, library, finished, "--dry-run", *more)) == 0
    said = capsys.readouterr()
    assert "is complete" in said.err and "Expected" not in said.err
    assert str(finished / "report.html") in said.out and (finished / "report.html").is_file()
    assert main(arguments(data, library, finished, "--dry-run", "--json", *more)) == 0
    told = report_of(capsys.readouterr().out)
    assert told["finished"] and told["expected"] is None and not told["goes_on"]
    assert (finished / "record.json").read_bytes() == record, "looking at a run is no sitting of it"
    assert main(arguments(data, library, finished, "--dry-run", "--seed", "9")) == 1
    assert "differs in: seed" in capsys.readouterr().err
    assert main(arguments(data, library, finished, "--dry-run", "--restart", "--quiet")) == 0
    assert "Expected: about" in capsys.readouterr().err, "a restart does cost something"


def test_nothing_is_done_in_a_dry_run(
    data: Path, library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(data, library, tmp_path / "run", "--dry-run")) == 0
    assert "Expected" in capsys.readouterr().err
    assert main(arguments(data, library, tmp_path / "run", "--dry-run", "--json", "--quiet")) == 0
    told = report_of(capsys.readouterr().out)
    assert (told["pool"], told["audit"], told["corrections"]) == (24, 8, 0)
    assert told["expected"]["begin"] == 24 and told["expected"]["requests"] == 0
    assert not told["finished"]
    assert main(arguments(data, library, tmp_path / "run", "--dry-run", "--budget-calls", "24")) == 1
    assert "leaves nothing to search with" in capsys.readouterr().err, "not told only when it is started"
    assert not (tmp_path / "run").exists()


def test_what_the_orchestrators_model_is_asked_is_told_with_the_cost(
    data: Path, library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ("--orchestrator", "openai:boss@http://127.0.0.1:9/v1")
    assert main(arguments(data, library, tmp_path / "run", "--dry-run", *model)) == 0
    said = capsys.readouterr().err
    assert "No model judges" in said and "Requests to the Orchestrator openai:boss are not included" in said


def test_the_run_folder_says_how_it_was_asked_for(finished: Path, data: Path, library: Path) -> None:
    sitting = read_record(finished)["sessions"][-1]
    asked = sitting["arguments"]
    assert sitting["words"] == arguments(data, library, finished, "--quiet", "--json")
    assert sitting["folder"] == str(Path.cwd())
    assert asked["data"] == str(data) and asked["library"] == str(library) and asked["how"] is None
    assert asked["taken"].keys() == {"ties", "corrections", "cache"}
    assert asked["taken"]["ties"] is False and Path(asked["taken"]["cache"]).is_dir()
    assert not (finished / "asked.json").exists(), "one record is enough"


def test_corrected_labels_count_for_what_is_learned_from_alone(
    data: Path, library: Path, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset, file = read_folder(data), tmp_path / "said.jsonl"
    pool, audit = split(dataset.examples, share=0.25, seed=0)
    for example in (pool[0], audit[0]):
        append_correction(file, example, "B" if example.preference == "A" else "A")
    words = arguments(data, library, tmp_path / "other", "--corrections", str(file), "--quiet", "--json")
    assert main([*words, "--dry-run"]) == 0
    assert report_of(capsys.readouterr().out)["corrections"] == 1
    usual = corrections_file(Settings.from_env().home, dataset.digest)
    write_text(usual, file.read_text(encoding="utf-8"))
    assert (
        main([*words[: words.index("--corrections")], "--corrections", "auto", "--dry-run", "--json", "--quiet"]) == 0
    )
    assert report_of(capsys.readouterr().out)["corrections"] == 1, "those of this data"
    usual.unlink()
    assert main([*words, "--proposals", "1"]) == 0
    report = report_of(capsys.readouterr().out)
    before = json.loads((finished / "report.json").read_text(encoding="utf-8"))
    gained = report["pool"]["start"]["accuracy"] - before["pool"]["start"]["accuracy"]
    assert abs(gained) == pytest.approx(1 / 24, abs=1e-6) or abs(gained) == pytest.approx(0.5 / 24, abs=1e-6), (
        "one label of the pool is the other way round"
    )
    assert report["audit"]["start"] == before["audit"]["start"], "those of the audit stay as they were given"
    assert main(arguments(data, library, finished, "--corrections", str(file), "--quiet")) == 1
    assert "differs in: corrections" in capsys.readouterr().err, "another pool is another run"


@pytest.mark.slow
def test_killing_the_process_amid_a_round_pays_for_no_reply_twice(data: Path, library: Path, tmp_path: Path) -> None:
    processes: list[subprocess.Popen[bytes]] = []
    begun, killed = threading.Event(), threading.Event()
    skill = {"name": "bold", "description": "Of squares.", "triggers": "square", "body": "Prefer the bolder one."}

    def answer(call: Call) -> str:
        if call.text.startswith("You study"):
            case = call.text.split('<case name="')[1].split('"')[0]
            return json.dumps({"findings": [{"statement": "Squares are misjudged.", "examples": [case]}]})
        if not killed.is_set():  # its findings have come; what it asks for now never does
            killed.set()
            begun.wait()
            processes[0].send_signal(signal.SIGKILL)
            processes[0].wait()
            return "Too late."
        return json.dumps({"operator": "add", "statement": "It helps.", "entry": skill})

    with ModelServer(answer) as server:
        words = arguments(data, library, tmp_path / "run", "--proposals", "2", "--json", "--quiet", "--yes")
        words += ["--orchestrator", f"vllm:judge@{server.url}"]
        for code in (-signal.SIGKILL, 0):
            command = [sys.executable, "-m", "rewardharness", *words]
            processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
            begun.set()
            said, errors = processes[-1].communicate()
            assert processes[-1].returncode == code, errors.decode()
        asked = [(call.text.startswith("You study"), call.body) for call in server.calls]
    spent = report_of(said.decode())["spent"]["orchestrator"]
    assert len(set(asked)) < len(asked), "what was never answered is asked again"
    assert spent["calls"] == len(set(asked)) and spent["input_tokens"] == 10 * spent["calls"]
    findings = [body for study, body in asked if study]
    assert findings and len(set(findings)) == len(findings), "what was answered is not"


def test_an_orchestrator_that_wants_another_key_pauses_the_run_and_says_so_once(
    data: Path, library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ModelServer(key="right") as server:
        words = arguments(data, library, tmp_path / "run", "--proposals", "2", "--yes")
        assert main([*words, "--orchestrator", f"vllm:judge@{server.url}"]) == 1
    said = capsys.readouterr().err
    assert said.count("gives no answer (unauthorized)") == 1 and "RH_ORCHESTRATOR_API_KEY" in said


def test_ctrl_c_ends_cleanly_and_says_how_to_go_on(data: Path, library: Path, tmp_path: Path, halt: Halt) -> None:
    words = arguments(data, library, tmp_path / "the run", "--quiet")
    command = [sys.executable, "-m", "rewardharness", *words]
    halt.at("events.jsonl", 1)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    halt.reached().send_signal(signal.SIGINT)
    process.send_signal(signal.SIGCONT)
    _, errors = process.communicate()
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    again = errors.split("Resume with: rh ")[1].splitlines()[0]
    assert shlex.split(again) == words, "a shell takes it as it stands, blanks in names and all"


def test_runs_can_be_looked_at(
    finished: Path, data: Path, library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*words: str) -> str:
        assert main(["runs", *words]) == 0
        return capsys.readouterr().out

    listed = json.loads(run("list", "--folder", str(finished.parent), "--json"))
    assert [each["condition"] for each in listed["runs"]] == ["finished"]
    assert listed["runs"][0]["audit"] == {
        "n": 8,
        "judged": 8,
        "accuracy": 1.0,
        "interval": [pytest.approx(0.68, abs=0.01), 1.0],
    }
    table = run("list", "--folder", str(finished.parent))
    assert "finished" in table and "1.000 [0.676, 1.000], 8 of 8" in table and "optimistic" in table
    shown = run("show", str(finished))
    assert "status: finished" in shown and "100.0% [67.6%, 100.0%]" in shown
    assert "Test set: final Library" in shown and "Judge: measured (no VLM), protocol measured; Library " in shown
    (finished / "report.html").unlink()
    report = json.loads(run("show", str(finished), "--json"))["report"]
    assert report["audit"]["final"]["judged"] == 8 and (finished / "report.html").is_file(), "its page is written again"
    assert "Finished." in run("follow", str(finished))
    assert "is not running" in run("stop", str(finished))
    assert main(arguments(data, library, tmp_path / "paper", "--schedule", "paper", "--quiet")) == 0
    capsys.readouterr()
    compared = json.loads(run("compare", str(finished), str(tmp_path / "paper"), "--json"))
    assert compared["same_audit"] and [each["schedule"] for each in compared["runs"]] == ["default", "paper"]
    assert "paper" in run("compare", str(finished), str(tmp_path / "paper"))


def test_a_run_under_way_shows_how_far_it_has_come(
    data: Path,
    library: Path,
    tmp_path: Path,
    halt: Halt,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "run"
    halt.at("results.jsonl", 3)
    process = subprocess.Popen([sys.executable, "-m", "rewardharness", *arguments(data, library, folder, "--quiet")])
    halted = halt.reached()
    assert main(["runs", "show", str(folder)]) == 0
    assert re.search(r"progress: judging the training examples: \d of 24", capsys.readouterr().out)
    write_text(folder / "progress.json", json.dumps({"phase": "audit", "done": 3, "total": 8, "left": 40.0}))
    assert main(["runs", "show", str(folder)]) == 0
    assert "progress: judging the held-out examples: 3 of 8; about 40 s left\n" in capsys.readouterr().out

    def sleep(seconds: float) -> None:
        halted.resume()
        process.wait()

    monkeypatch.setattr("rewardharness.cli.output.SILENT_SECONDS", 0.0)
    monkeypatch.setattr("rewardharness.cli.runs.time", SimpleNamespace(sleep=sleep))
    assert main(["runs", "follow", str(folder)]) == 0
    assert "judging the held-out examples: 3 of 8; about 40 s left" in capsys.readouterr().err
    assert main(["runs", "show", str(folder)]) == 0
    assert "progress:" not in capsys.readouterr().out, "a finished run has none"


def test_stop_ends_a_run_from_outside(data: Path, library: Path, tmp_path: Path, halt: Halt) -> None:
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "rewardharness", *arguments(data, library, folder, "--quiet")]
    halt.at("events.jsonl", 1)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    halted = halt.reached()
    assert main(["runs", "stop", str(folder)]) == 0
    halted.resume()
    assert process.communicate() and process.returncode == 130


@pytest.mark.parametrize(
    ("words", "problem", "status"),
    [
        (["--budget-calls", "0"], "--budget-calls 0", 2),
        (["--budget-money", "1"], "--price", 1),
        (["--audit-share", "1.5"], "--audit-share 1.5", 2),
        (["--judge", "vllm:m@http://127.0.0.1:9/v1"], "no terminal to confirm", 1),
        (["--orchestrator", "magic"], "Unknown model", 1),
        (["--corrections", "/nowhere"], "nowhere", 1),
        (["--seed", "1", "--seed", "2"], "--seed", 2),
    ],
)
def test_what_cannot_work_is_said_in_one_sentence(
    data: Path,
    library: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    problem: str,
    status: int,
) -> None:
    monkeypatch.setattr(sys, "stdin", open(os.devnull, encoding="utf-8"))  # noqa: SIM115
    assert main(arguments(data, library, tmp_path / "run", *words)) == status
    said = capsys.readouterr().err
    assert problem in said and "Traceback" not in said
    sys.stdin.close()


def test_runs_of_every_kind_are_listed_and_shown(
    data: Path, library: Path, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = tmp_path / "deep" / "scores"
    assert main(["score", str(data), "--run", str(scores), "--quiet", "--limit", "1"]) == 0
    RunFolder(tmp_path / "bare", {"command": "benchmark", "task": "x", "judge_name": "measured"}).close()
    (tmp_path / "broken").mkdir()
    write_text(tmp_path / "broken" / "run.json", "[")
    capsys.readouterr()

    assert main(["runs", "list", "--folder", str(tmp_path), "--json"]) == 0
    said = capsys.readouterr()
    rows = {Path(each["folder"]).name: each for each in json.loads(said.out)["runs"]}
    kinds = {name: (each["kind"], each["condition"]) for name, each in rows.items()}
    assert kinds == {
        "run": ("evolve", "finished"),
        "scores": ("score", "finished"),
        "bare": ("benchmark", "unknown"),
    }
    assert "broken: " in said.err
    assert all(each.keys() >= {"reason", "manifest"} for each in rows.values())
    assert rows["scores"]["command"][:2] == ["score", str(data)] and rows["scores"]["begun"]
    assert main(["runs", "list", "--folder", str(tmp_path)]) == 0
    table = capsys.readouterr().out
    assert "deep/scores" in table and "score" in table and "optimistic" in table
    assert main(["runs", "list", "--folder", str(scores)]) == 0
    assert "optimistic" not in capsys.readouterr().out, "there is no pool in it"

    assert main(["runs", "show", str(scores)]) == 0
    shown = capsys.readouterr().out
    for line in (
        f"command: rh score {data} --run",
        f"working directory: {Path.cwd()}",
        "status: finished",
        "started: 20",
    ):
        assert line in shown
    assert str(scores / "results.jsonl") in shown
    assert main(["runs", "show", str(scores), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "score"
    assert main(["runs", "show", str(tmp_path / "bare")]) == 0
    shown = capsys.readouterr().out
    assert f"rh benchmark report {tmp_path / 'bare'}" in shown and "has no record" in shown


def test_runs_of_another_kind_and_unfinished_ones_are_told_apart(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["score", str(data), "--run", str(tmp_path / "scores"), "--quiet", "--limit", "1"]) == 0
    for command in ("follow", "compare"):
        assert main(["runs", command, str(tmp_path / "scores")]) == 1
        said = capsys.readouterr().err
        assert "another kind: score" in said and f"rh runs show {tmp_path / 'scores'}" in said
    assert main(["runs", "list", "--folder", str(tmp_path / "nowhere")]) == 0
    assert "no runs" in capsys.readouterr().out
    assert main(["runs", "show", "nothing-of-this-name"]) == 1
    assert "holds no run" in capsys.readouterr().err

"""`rh evolve` and `rh runs` from end to end: the pixel-based judge, the built-in orchestrator, small drawn pictures."""

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from commands import Rh, Shown
from drawn_pairs import TIMID, draw_pairs
from halting import Halt
from model_server import Call, ModelServer

from rewardharness.cli.main import main
from rewardharness.data.folder import read_folder
from rewardharness.data.source import split
from rewardharness.data.votes import append_correction, corrections_file
from rewardharness.evolution import job
from rewardharness.files import write_text
from rewardharness.library.store import Library
from rewardharness.runs.store import RunFolder
from rewardharness.settings import Settings

PAIRS = 32
CAUTION = "was evolved on the same data, so expect lower accuracy on other data."


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pairs of a recolored square and the untouched source. People prefer the one that did something."""
    folder = tmp_path_factory.mktemp("data")
    draw_pairs(folder, PAIRS)
    return folder


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Library that only asks whether nothing changed, and so prefers those who did nothing."""
    folder = tmp_path_factory.mktemp("library") / "timid"
    Library((TIMID,)).save(folder)
    return folder


@pytest.fixture(scope="module")
def made(data: Path, library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, beside what was said of it."""
    folder = tmp_path_factory.mktemp("made")
    out, err = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setenv("RH_HOME", str(tmp_path_factory.getbasetemp() / "evolve-home"))
        assert main(arguments(data, library, folder / "run")) == 0
    for name, said in (("out", out), ("err", err)):
        write_text(folder / name, said.getvalue())
    return folder / "run"


@pytest.fixture(autouse=True)
def one_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests of this module share what was measured, which takes most of the time."""
    monkeypatch.setenv("RH_HOME", str(tmp_path_factory.getbasetemp() / "evolve-home"))
    monkeypatch.setattr(job, "TIMED", 2)  # a plan judges so many examples to learn how long they take


def arguments(data: Path, library: Path, run: Path, *more: str) -> list[str]:
    return ["evolve", "--data", str(data), "--library", str(library), "--run", str(run), *more]


@pytest.fixture
def finished(made: Path, tmp_path: Path) -> Path:
    """A copy of the finished run, which the test may change."""
    shutil.copytree(made, tmp_path / "run")
    return tmp_path / "run"


def test_a_library_grows_and_the_audit_says_by_how_much(made: Path) -> None:
    said = Shown(*((made.parent / name).read_text(encoding="utf-8") for name in ("out", "err")))
    assert "Expected: about" in said.err and "No model judges" in said.err and "not included" not in said.err
    ended = "Finished. Higher on held-out examples (19% → 100%, 95% CI 68% to 100%, n 8, McNemar p 0.016)."
    assert "accepted: " in said.err and ended in said.err
    assert said.out.startswith("Higher on held-out examples") and "no Library" not in said.out
    assert "Test set: final Library" in said.out and "always gives the same answer" in said.out
    audit = json.loads((made / "report.json").read_text(encoding="utf-8"))["audit"]
    assert audit["n"] == 8 and audit["start"]["accuracy"] < 0.5 and audit["final"]["accuracy"] == 1.0
    evolved = Library.load(made / "library")
    assert evolved.lineage and evolved.lineage[0]["source"].startswith("built-in")


@pytest.mark.slow
def test_a_rubric_for_texts_is_found_without_a_model(tmp_path: Path, rh: Rh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RH_HOME", str(tmp_path / "home"))
    said = rh("evolve", "demo:text", "--run", tmp_path / "run", "--yes")
    assert "builtin:thin-text" in said.err
    comparison = json.loads((tmp_path / "run" / "report.json").read_text())["audit"]
    assert comparison["final_against_start"]["p"] < 0.01
    skill = (tmp_path / "run" / "library" / "skills" / "preferences-for-all-responses" / "SKILL.md").read_text()
    assert "task: text" in skill and "an edit" not in skill
    by_category = rh("score", "demo:text", "--library", tmp_path / "run" / "library", "--run", tmp_path / "s", "--json")
    assert by_category.json["by_label_kind"]["rank"]["accuracy"] == pytest.approx(0.95)


def test_the_help_is_short(rh: Rh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert len(rh("evolve", "--help").out.splitlines()) <= 86


@pytest.mark.slow
def test_numbers_on_the_same_data_are_said_to_be(
    data: Path, library: Path, finished: Path, tmp_path: Path, rh: Rh
) -> None:
    """By `rh benchmark` and `rh score`, also of a release; not of the starting Library, nor on other data."""
    grown, other, release = finished / "library", tmp_path / "other", tmp_path / "release.json"
    shutil.copytree(data, other)
    rows = (other / "pairs.jsonl").read_text(encoding="utf-8").splitlines()
    write_text(other / "pairs.jsonl", "".join(line + "\n" for line in rows[1:]))
    rh("release", "create", "--library", grown, "-o", release)
    for number, (who, where, told) in enumerate(
        (
            (("--library", grown), data, True),
            (("--release", release), data, True),
            (("--library", library), data, False),
            (("--library", grown), other, False),
            (("--release", release), other, False),
            (("--library", grown, "--judge", "closer"), data, False),
        )
    ):
        run = tmp_path / f"run{number}"
        for words in (["benchmark", where, "--no-baseline"], ["score", where]):
            command = [*words, *who, "--run", run / words[0], "--quiet"]
            assert (CAUTION in " ".join(rh(*command).out.split())) == told, command
            found = rh(*command, "--json").json
            row = found["rows"][0] if "rows" in found else found
            assert row.get("evolved_on", False) is told, command
    assert CAUTION in rh("benchmark", "report", tmp_path / "run0" / "benchmark", "--for-library", grown).text
    assert CAUTION in rh("library", "card", grown, "--repo", "me/mine").out
    places = [tmp_path / f"run{number}" / "benchmark" for number in (2, 0)]
    assert rh("benchmark", "compare", *places).text.count(CAUTION) == 1


def test_a_finished_run_says_so_and_asks_for_nothing(data: Path, library: Path, finished: Path, rh: Rh) -> None:
    record, words = (finished / "record.json").read_bytes(), arguments(data, library, finished)
    for more in ([], ["--judge", "measured", "--yes"], ["--quiet"]):
        said = rh(*words, *more)
        assert ("is complete" in said.err) == ("--quiet" not in more) and "Expected" not in said.err + said.out
    assert said.out.startswith("Higher on held-out examples") and "no Library" not in said.out
    assert "Test set: final Library" in said.out and f"Library: {finished / 'library'}" in said.out
    steps = (f"RH_LIBRARY={finished / 'library'} rh app --open", "rh push-library", "rh benchmark")
    assert all(step in said.out for step in steps)
    said = rh(*words, "--dry-run", "--quiet")
    assert "is complete" in said.err and "Expected" not in said.err
    assert str(finished / "report.html") in said.out and (finished / "report.html").is_file()
    told = rh(*words, "--dry-run", "--json").json
    assert told["finished"] and told["expected"] is None and not told["goes_on"]
    assert (finished / "record.json").read_bytes() == record, "looking at a run is no session of it"
    assert "differs in: seed" in rh(*words, "--dry-run", "--seed", "9", status=1).err
    assert "Expected: about" in rh(*words, "--dry-run", "--restart", "--quiet").err, "a restart does cost something"


def test_the_plan_is_told_in_a_dry_run(data: Path, library: Path, tmp_path: Path, rh: Rh) -> None:
    words = arguments(data, library, tmp_path / "run", "--dry-run")
    assert "Expected" in rh(*words).err
    told = rh(*words, "--json", "--quiet").json
    assert (told["pool"], told["audit"], told["corrections"]) == (24, 8, 0)
    assert told["expected"]["begin"] == 24 and told["expected"]["requests"] == 0 and not told["finished"]
    assert "leaves nothing to search with" in rh(*words, "--budget-calls", "24", status=1).err
    said = rh(*words, "--orchestrator", "openai:boss@http://127.0.0.1:9/v1").err
    assert "No model judges" in said and "Requests to the Orchestrator openai:boss are not included" in said
    said = rh("evolve", data, "--library", library, "--limit", "20", "--dry-run").err
    assert "15 training examples, 5 held out" in said and "schedule default" in said
    assert not (tmp_path / "run").exists()


def test_corrected_labels_count_in_training_alone(
    data: Path, library: Path, finished: Path, tmp_path: Path, rh: Rh
) -> None:
    dataset, file = read_folder(data), tmp_path / "said.jsonl"
    pool, audit = split(dataset.examples, share=0.25, seed=0)
    for example in (pool[0], audit[0]):
        append_correction(file, example, "B" if example.preference == "A" else "A")
    words = arguments(data, library, tmp_path / "other", "--quiet", "--json")
    assert rh(*words, "--corrections", file, "--dry-run").json["corrections"] == 1
    usual = corrections_file(Settings.from_env().home, dataset.digest)
    write_text(usual, file.read_text(encoding="utf-8"))
    assert rh(*words, "--corrections", "auto", "--dry-run").json["corrections"] == 1, "those of this data"
    usual.unlink()
    report = rh(*words, "--corrections", file, "--proposals", "1").json
    before = json.loads((finished / "report.json").read_text(encoding="utf-8"))
    gained = abs(report["pool"]["start"]["accuracy"] - before["pool"]["start"]["accuracy"])
    assert any(gained == pytest.approx(part / 24, abs=1e-6) for part in (0.5, 1)), "one label is the other way round"
    assert report["audit"]["start"] == before["audit"]["start"], "those of the audit stay as they were given"
    refused = rh(*arguments(data, library, finished, "--corrections", str(file), "--quiet"), status=1)
    assert "differs in: corrections" in refused.err, "another pool is another run"


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
    spent = json.loads(said)["spent"]["orchestrator"]
    assert len(set(asked)) < len(asked), "what was never answered is asked again"
    assert spent["calls"] == len(set(asked)) and spent["input_tokens"] == 10 * spent["calls"]
    findings = [body for study, body in asked if study]
    assert findings and len(set(findings)) == len(findings), "what was answered is not"


def test_an_orchestrator_with_another_key_pauses_the_run_once(
    data: Path, library: Path, tmp_path: Path, rh: Rh
) -> None:
    with ModelServer(key="right") as server:
        words = arguments(data, library, tmp_path / "run", "--proposals", "2", "--yes")
        said = rh(*words, "--orchestrator", f"vllm:judge@{server.url}", status=1).err
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


def test_runs_can_be_looked_at(finished: Path, data: Path, library: Path, tmp_path: Path, rh: Rh) -> None:
    [listed] = rh("runs", "list", "--folder", finished.parent, "--json").json["runs"]
    interval = [pytest.approx(0.68, abs=0.01), 1.0]
    assert listed["condition"] == "finished"
    assert listed["audit"] == {"n": 8, "judged": 8, "accuracy": 1.0, "interval": interval}
    table = rh("runs", "list", "--folder", finished.parent).out
    assert "finished" in table and "1.000 [0.676, 1.000], 8 of 8" in table and "optimistic" in table
    shown = rh("runs", "show", finished).out
    assert "status: finished" in shown and "100.0% [67.6%, 100.0%]" in shown
    assert "Test set: final Library" in shown and "Judge: measured (no VLM), protocol measured; Library " in shown
    (finished / "report.html").unlink()
    report = rh("runs", "show", finished, "--json").json["report"]
    assert report["audit"]["final"]["judged"] == 8 and (finished / "report.html").is_file(), "its page is written again"
    assert "Finished." in rh("runs", "follow", finished).out
    assert "is not running" in rh("runs", "stop", finished).out
    rh(*arguments(data, library, tmp_path / "paper", "--schedule", "paper", "--quiet"))
    compared = rh("runs", "compare", finished, tmp_path / "paper", "--json").json
    assert compared["same_audit"] and [each["schedule"] for each in compared["runs"]] == ["default", "paper"]
    assert "paper" in rh("runs", "compare", finished, tmp_path / "paper").out


def test_a_run_under_way_shows_how_far_it_has_come_and_is_stopped_from_outside(
    data: Path, library: Path, tmp_path: Path, halt: Halt, rh: Rh, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    halt.at("results.jsonl", 3)
    command = [sys.executable, "-m", "rewardharness", *arguments(data, library, folder, "--quiet")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    halted = halt.reached()
    assert re.search(r"progress: judging the training examples: \d of 24", rh("runs", "show", folder).out)
    write_text(folder / "progress.json", json.dumps({"phase": "audit", "done": 3, "total": 8, "left": 40.0}))
    assert "progress: judging the held-out examples: 3 of 8; about 40 s left\n" in rh("runs", "show", folder).out
    assert "will stop" in rh("runs", "stop", folder).out

    def sleep(seconds: float) -> None:
        halted.resume()
        process.communicate()

    monkeypatch.setattr("rewardharness.cli.output.SILENT_SECONDS", 0.0)
    monkeypatch.setattr("rewardharness.cli.runs.time", SimpleNamespace(sleep=sleep))
    assert "judging the held-out examples: 3 of 8; about 40 s left" in rh("runs", "follow", folder).err
    assert "progress:" not in rh("runs", "show", folder).out, "a run that has ended has none"
    assert process.returncode == 130 and "status: stopped" in rh("runs", "show", folder).out


@pytest.mark.parametrize(
    ("words", "problem", "status"),
    [
        (["--budget-usd", "1"], "--price", 1),
        (["--judge", "vllm:m@http://127.0.0.1:9/v1"], "no terminal to confirm", 1),
        (["--orchestrator", "magic"], "Unknown model", 1),
        (["--corrections", "/nowhere"], "nowhere", 1),
        (["--seed", "1", "--seed", "2"], "--seed", 2),
    ],
)
def test_what_cannot_work_is_said_in_one_sentence(
    data: Path, library: Path, tmp_path: Path, rh: Rh, words: list[str], problem: str, status: int
) -> None:
    assert problem in rh(*arguments(data, library, tmp_path / "run", *words), status=status).err


def test_runs_of_every_kind_are_listed_and_shown(data: Path, finished: Path, tmp_path: Path, rh: Rh) -> None:
    scores = tmp_path / "deep" / "scores"
    rh("score", data, "--run", scores, "--quiet", "--limit", "1")
    RunFolder(tmp_path / "bare", {"command": "benchmark", "task": "x", "judge_name": "measured"}).close()
    (tmp_path / "broken").mkdir()
    write_text(tmp_path / "broken" / "run.json", "[")
    said = rh("runs", "list", "--folder", tmp_path, "--json")
    rows = {Path(each["folder"]).name: each for each in said.json["runs"]}
    kinds = {name: (each["kind"], each["condition"]) for name, each in rows.items()}
    assert kinds == {"run": ("evolve", "finished"), "scores": ("score", "finished"), "bare": ("benchmark", "unknown")}
    assert "broken: " in said.err and all(each.keys() >= {"reason", "manifest"} for each in rows.values())
    assert rows["scores"]["command"][:2] == ["score", str(data)] and rows["scores"]["begun"]
    table = rh("runs", "list", "--folder", tmp_path).out
    assert "deep/scores" in table and "score" in table and "optimistic" in table
    assert "optimistic" not in rh("runs", "list", "--folder", scores).out, "there is no pool in it"
    shown = rh("runs", "show", scores).out
    places = f"command: rh score {data} --run", f"working directory: {Path.cwd()}", str(scores / "results.jsonl")
    assert all(line in shown for line in (*places, "status: finished", "started: 20"))
    assert rh("runs", "show", scores, "--json").json["kind"] == "score"
    shown = rh("runs", "show", tmp_path / "bare").out
    assert f"rh benchmark report {tmp_path / 'bare'}" in shown and "has no record" in shown
    for command in ("follow", "compare"):
        said = rh("runs", command, scores, status=1)
        assert "another kind: score" in said.err and f"rh runs show {scores}" in said.err
    assert "no runs" in rh("runs", "list", "--folder", tmp_path / "nowhere").out
    assert "holds no run" in rh("runs", "show", "nothing-of-this-name", status=1).err

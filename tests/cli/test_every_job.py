"""What every job keeps to: dry run, --json, resume, restart, kill -9, replay, tracking, retries, budgets, stopping."""

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from drawn_pairs import TIMID, draw_pairs
from halting import Halt
from model_server import Call, Fault, ModelServer

from rewardharness import telemetry
from rewardharness.cli import output
from rewardharness.cli.main import main
from rewardharness.files import write_text
from rewardharness.judging import evaluate
from rewardharness.library.store import Library
from rewardharness.runs.reader import RunReader
from rewardharness.runs.store import RESULTS

sys.path.insert(0, str(Path(__file__).parents[1] / "bulk"))
from bulk_parts import INSTRUCTION, picture, table

PAIRS = 8
MEASURED = {
    "score": ["score", "data"],
    "shards": ["score", "data", "--part-rows", "2", "--output", "made"],
    "rank": ["data", "rank", "data", "--copy-best", "made", "--allow-ungradable"],
    "filter": ["data", "filter", "data", "--min-margin", "0.01", "-o", "made/kept.jsonl"],
    "pairs": ["data", "pairs", "data", "-o", "made", "--margin", "0.01", "--holdout", "0", "--allow-ungradable"],
    "benchmark": ["benchmark", "data", "--baselines", "always-a", "--for-library", "made"],
    "arena": ["arena", "data", "--editors", "folder:first,folder:second", "--allow-ungradable"],
    "refine": "refine data/s0.png KEPT --editor folder:first --rounds 1 --n 1 --candidate data/b0.png".split(),
    "evolve": ["evolve", "data", "--proposals", "2"],
}
"""Words of a command of each job, with the pixel-based judge."""
LINES = {"rank": 2 * PAIRS, "pairs": 2 * PAIRS, "benchmark": 2 * PAIRS, "refine": 3}
"""Judgments of a run, where they are not one per pair."""


@pytest.fixture(scope="session")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tests share what was measured, which takes most of the time."""
    return tmp_path_factory.mktemp("jobs-home")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared_home: Path) -> Path:
    """A working directory with `data` and the Library `timid`, so that everything is named by relative paths."""
    monkeypatch.setenv("RH_HOME", str(shared_home))
    monkeypatch.setattr("rewardharness.evolution.job.TIMED", 2)  # examples that a plan judges for the time they take
    monkeypatch.chdir(tmp_path)
    draw_pairs(tmp_path / "data", PAIRS)
    Library((TIMID,)).save(tmp_path / "timid")
    return tmp_path


def words(job: str, *more: str, run: str = "run") -> list[str]:
    library = "builtin" if job == "refine" else "timid"
    command = ["Keep the image as it is." if word == "KEPT" else word for word in MEASURED[job]]
    return [*command, "--library", library, "--quiet", *([] if job == "shards" else ["--run", run]), *more]


def prepare(job: str) -> None:
    """Make what a command writes into, if it must be there."""
    if job == "benchmark":
        Library((TIMID,)).save(Path("made"))
    if job == "refine":
        Path("first").mkdir(exist_ok=True)
        shutil.copy("data/s0.png", "first/refine.png")
    if job == "arena":
        for row in map(json.loads, Path("data/pairs.jsonl").read_text("utf-8").splitlines()):
            for name, image in (("first", row["candidate_a"]), ("second", row["candidate_b"])):
                Path(name).mkdir(exist_ok=True)
                shutil.copy(Path("data") / image, Path(name) / f"{row['id']}.png")


def contents(folder: Path, pattern: str = "**/*") -> dict[str, bytes]:
    files = {str(path.relative_to(folder)): path for path in folder.glob(pattern) if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if not name.endswith((".lock", "spent.json"))}


def judged(folder: Path, name: str = RESULTS) -> dict[str, Any]:
    """Result lines by id, without what they cost."""
    lines = map(json.loads, (folder / name).read_text("utf-8").splitlines())
    return {line["id"]: {name: value for name, value in line.items() if name != "usage"} for line in lines}


def told(capsys: pytest.CaptureFixture[str], command: list[str], status: int = 0) -> Any:
    """Run a command that prints one JSON object, and return it."""
    capsys.readouterr()
    assert main([*command, "--json"]) == status, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("job", MEASURED)
def test_a_run_is_planned_logged_printed_as_one_object_replayed_and_a_second_time_nothing_is_judged(
    job: str, place: Path, capsys: pytest.CaptureFixture[str], shared_home: Path
) -> None:
    prepare(job)
    before = contents(place)
    plan = told(capsys, words(job, "--dry-run"))
    cost = plan["cost"] if job == "evolve" else plan
    assert cost["requests"] == 0 and plan["folder" if job != "shards" else "parts"]
    assert job == "evolve" or cost["judgments"] == LINES.get(job, PAIRS)
    assert main(words(job, "--dry-run")) == 0
    assert contents(place) == before, "a dry run does nothing"
    track = () if job == "shards" else ("--track", "tensorboard")
    first, folder = told(capsys, words(job, *track)), place / ("made" if job == "shards" else "run")
    before = contents(folder, "judged/*" if job == "shards" else RESULTS)
    again = told(capsys, words(job))
    assert contents(folder, "judged/*" if job == "shards" else RESULTS) == before != {}
    assert {**again, "seconds_left": 0} == {**first, "seconds_left": 0}
    plan = told(capsys, words(job, "--dry-run"))
    assert plan["finished"] if job == "evolve" else plan["known"] == plan["judgments"]
    if job == "shards":
        return
    name = json.loads((folder / "tracking.json").read_text("utf-8"))["run"]
    [file] = (shared_home / "tensorboard" / "rewardharness" / name).iterdir()
    assert (b"spent/judgments" if job == "evolve" else b"progress/judgments") in file.read_bytes()
    status = RunReader(folder).look()
    assert (status.kind, status.condition) == (job, "finished") and status.command[-1] == "--json"
    assert json.loads((folder / "config.json").read_text("utf-8"))["job"] == job
    replay(job, place, capsys)
    assert main(words(job, "--restart")) == 0
    assert judged(folder).keys() == judged(folder, f"{RESULTS}.old").keys() and RunReader(folder).look().sessions == 1
    picture(place / "data" / ("s0.png" if job == "refine" else "a0.png"), 77)
    assert main(words(job)) == 1
    error = capsys.readouterr().err
    assert "differs in: data" in error and "judged already" not in error


@pytest.mark.slow
@pytest.mark.parametrize("job", MEASURED)
def test_killing_the_process_changes_nothing(job: str, place: Path, halt: Halt) -> None:
    prepare(job)
    if job == "shards":
        halt.before("part-000002.json")
    else:
        halt.at(RESULTS, 2)
    one = [] if job == "refine" else ["--concurrency", "1"]
    process = subprocess.Popen([sys.executable, "-m", "rewardharness", *words(job, *one)])
    halt.reached().kill()
    process.communicate()
    if job == "shards":
        assert len(list((place / "made" / "done").iterdir())) < 4
        assert main(words(job)) == 0 == main(["score", "verify", "made"])
        killed = contents(place / "made", "judged/*")
        (place / "made").rename(place / "killed")
        assert main(words(job)) == 0 and contents(place / "made", "judged/*") == killed
        return
    assert RunReader(place / "run").look().condition == "interrupted"
    for run in ("run", "whole"):
        assert main(words(job, run=run)) == 0
    assert judged(place / "run") == judged(place / "whole")
    lines = [(place / run / RESULTS).read_text("utf-8").splitlines() for run in ("run", "whole")]
    assert len(lines[0]) == len(lines[1]), "nothing was judged twice"
    if (place / "run" / "report.json").is_file():
        first, second = (json.loads((place / run / "report.json").read_text("utf-8")) for run in ("run", "whole"))
        for report in (first, second):
            report.pop("spent", None)
            report.pop("run", None)
        assert untimed(first) == untimed(second)
    assert [session["condition"] for session in sessions(place / "run")] == ["killed", "done"]


def untimed(report: Any) -> Any:
    """Return a report without the measured times, which differ from run to run."""
    if isinstance(report, dict):
        return {key: untimed(value) for key, value in report.items() if key != "seconds"}
    return [untimed(value) for value in report] if isinstance(report, list) else report


def sessions(run: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((run / "record.json").read_text("utf-8"))["sessions"]
    return found


def replay(job: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A replay gives the same, writes into its own folder, and finds another decision."""
    before = contents(place)
    found = told(capsys, ["runs", "replay", "run"])
    assert found["same"] and found["n"] >= LINES.get(job, PAIRS) and not found["changed"]
    after = contents(place)
    assert {name: after[name] for name in before} == before
    assert all(name.startswith("run-replay/") for name in after.keys() - before.keys())
    made = {Path(name).name: after[name] for name in after if name.startswith("run-replay/output")}
    assert {name: before[f"made/{name}"] for name in made if name.endswith(".jsonl")} == {
        name: data for name, data in made.items() if name.endswith(".jsonl")
    }
    assert bool(made) == (job in {"filter", "pairs"})
    report = next((name for name in ("outcome.json", "report.json") if f"run/{name}" in before), "")
    if not report:
        return
    decided = json.loads(before[f"run/{report}"])
    key = next(name for name in ("best", "decided", "pairs", "rows", "ending", "wins") if name in decided)
    decided[key] = "another"
    write_text(place / "run" / report, json.dumps(decided))
    assert [each["place"] for each in told(capsys, ["runs", "replay", "run"], 1)["report"]] == [key]
    if report == "outcome.json":  # as an earlier version left it
        (place / "run" / report).unlink()
        assert main(["runs", "replay", "run"]) == 0
        assert "only judgments are compared" in capsys.readouterr().err


# ---- with a model


GRADES = json.dumps({"instruction": 3, "quality": 3})
ASKED = ("score", "shards", "rank", "filter", "pairs", "benchmark")
EXAMPLES = 6
"""Candidates, each judged in one request."""


def answer(call: Call) -> str:
    """Answer like a judge; also what the server is probed with."""
    return GRADES


def command(job: str, root: Path, server: ModelServer, *more: str) -> list[str]:
    """Return the words of a command that judges six candidates one by one, or two edits of three."""
    samples = root / "samples"
    if not samples.exists():
        table(samples)
    how = ["--judge", f"openai:judge@{server.url}", "--protocol", "pointwise", "--no-cache", "--library", "empty"]
    where = [str(root / "out")] if job == "shards" else ["--run", str(root / "run")]
    words = {
        "score": ["score", str(samples)],
        "shards": ["score", str(samples), "--part-rows", "1", "--output"],
        "rank": ["data", "rank", str(samples)],
        "filter": ["data", "filter", str(samples), "--single", "--min-reward", "0", "-o", str(root / "kept.jsonl")],
        "pairs": ["data", "pairs", str(samples), "--repeats", "1", "--margin", "0.1", "-o", str(root / "pairs")],
        "benchmark": ["benchmark", str(samples), "--no-baseline", "--yes"],
    }[job]
    return [*words, *where, *how, *more]


def lines(root: Path) -> list[dict[str, Any]]:
    file = root / "run" / RESULTS
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.is_file() else []


def asked(server: ModelServer) -> int:
    return sum(INSTRUCTION in call.text for call in server.calls)


@pytest.fixture
def labeled(tmp_path: Path) -> None:
    """Label the samples, as a benchmark needs them."""
    file = table(tmp_path / "samples") / "candidates.jsonl"
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    file.write_text("".join(json.dumps({**row, "preference": "A"}) + "\n" for row in rows), "utf-8")


@pytest.mark.parametrize("job", ASKED)
@pytest.mark.usefixtures("labeled")
def test_a_failed_run_is_resumed_and_a_budget_ends_one(
    job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reply: Callable[[Call], Any] = lambda call: Fault("401")  # noqa: E731
    with ModelServer(lambda call: reply(call)) as server:
        # One at a time: others that are on their way when a run ends would be counted for the next one.
        assert main(command(job, tmp_path, server, "--concurrency", "1")) == 1
        said = capsys.readouterr().err
        assert "gives no access" in said and "OPENAI_API_KEY" in said
        failed, before, reply = len(lines(tmp_path)), asked(server), answer
        for budget, most in (("3", 3), ("3", 3), ("100", EXAMPLES)):
            status = main(command(job, tmp_path, server, "--budget-requests", budget))
            assert asked(server) - before == most and status == (130 if most < EXAMPLES else status)
            said = capsys.readouterr().err
            assert ("budget of 3 requests" in said) == (most < EXAMPLES) and "price is unknown" in said
            assert job == "shards" or most == EXAMPLES or not failed or f"{failed} failed before; asking" in said
            failed = 0
        results = {line["id"]: line for line in lines(tmp_path)}
        assert all(line["failure"] is None for line in results.values())
        main(command(job, tmp_path, server))
        assert asked(server) - before == EXAMPLES, "nothing is judged twice"
    if job == "score":
        assert "2 of 2 judged" in " ".join(capsys.readouterr().out.split())


def test_a_run_of_an_earlier_version_is_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each failure has its reason as one text; those of the input are asked again only on request."""
    with ModelServer(answer) as server:
        words = command("score", tmp_path, server)
        assert main(words) == 0
        reasons = {"e0": "timeout: No answer.", "e1": "refused: No."}
        old = [{"id": line["id"], "winner": None, "reason": reasons[line["id"]]} for line in lines(tmp_path)]
        (tmp_path / "run" / RESULTS).write_text("".join(json.dumps(line) + "\n" for line in old), "utf-8")
        capsys.readouterr()
        for more, again, status in (([], 3, 3), ([], 0, 3), (["--retry-failed"], 3, 0)):
            before = asked(server)
            assert (main([*words, *more]), asked(server) - before) == (status, again)
    said = capsys.readouterr().err
    assert "1 failed before; asking again." in said and "1 failed before because of the input" in said


def test_a_run_that_is_killed_during_retries_is_resumed(tmp_path: Path) -> None:
    reply: Callable[[Call], Any] = lambda call: Fault("500") if INSTRUCTION in call.text else GRADES  # noqa: E731
    with ModelServer(lambda call: reply(call)) as server:
        words = command("score", tmp_path, server)
        process = subprocess.Popen([sys.executable, "-m", "rewardharness", *words], stderr=subprocess.DEVNULL)
        assert server.wait_for(lambda: asked(server) > EXAMPLES)
        process.kill()
        process.wait()
        reply = answer
        assert main(words) == 0
    results = {line["id"]: line for line in lines(tmp_path)}
    assert len(results) == 2 and all(line["failure"] is None for line in results.values())


@pytest.mark.parametrize(
    ("budget", "most"),
    [(("--budget-tokens", "45"), 3), (("--budget-usd", "0.000045"), 3), (("--budget-money", "1"), EXAMPLES)],
)
def test_what_one_request_costs_is_known_after_the_first(tmp_path: Path, budget: tuple[str, str], most: int) -> None:
    with ModelServer(answer) as server:
        main(command("rank", tmp_path, server, "--price", "1", "1", *budget))
        assert asked(server) == most


@pytest.mark.parametrize("job", ["score", "shards", "filter", "benchmark"])
@pytest.mark.usefixtures("labeled")
@pytest.mark.parametrize("fault", [None, Fault("429", retry_after="30")])
def test_a_stop_request_ends_a_run(
    job: str, fault: Fault | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also while the server asks to wait: what is in progress is given up after a while, and judged later."""
    monkeypatch.setattr(evaluate, "GRACE", 0.2)
    monkeypatch.setattr(evaluate, "LOOK", 0.05)
    folder = tmp_path / ("out" if job == "shards" else "run")
    stopped = False

    def reply(call: Call) -> Any:
        nonlocal stopped
        if not stopped and INSTRUCTION in call.text:
            stopped = True
            assert main(["runs", "stop", str(folder)]) == 0
        return answer(call) if fault is None or not blocked else fault

    with ModelServer(reply) as server:
        blocked = True
        words = command(job, tmp_path, server, "--concurrency", "1")
        assert main(words) == 130
        said = capsys.readouterr()
        assert "nothing is lost" in said.err and "Resume with: rh " in said.err and "will stop" in said.out
        assert asked(server) <= 3
        blocked = False
        assert main(words) == 0
        assert all(line["failure"] is None for line in lines(tmp_path))


def test_spending_is_asked_for_once_on_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ModelServer(answer) as server:
        words = command("rank", tmp_path, server)
        samples = tmp_path / "samples"
        edit = ["score", "--source", str(samples / "s0.png"), "--candidate", str(picture(samples / "x.png", 9))]
        edit += ["--instruction", INSTRUCTION, *words[words.index("--judge") :]]
        for each in (words, edit):
            before = asked(server)
            assert main([*each, "--dry-run"]) == 0
            said = capsys.readouterr().err
            assert "requests to models" in said and "tokens" in said and "price is unknown (--price)" in said
            for stream in ("stdin", "stderr"):
                monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)
            monkeypatch.setattr("sys.stdin.readline", lambda: "n\n")
            assert main(each) == 1 and asked(server) == before
            said = capsys.readouterr().err
            assert said.count("Continue?") == 1 and "requests to models" in said
            assert main([*each, "--yes"]) == 0 and asked(server) > before
            assert main([*each, "--price", "0", "0", "--restart"][: None if each is words else -1]) == 0, "it is free"
            assert "Continue?" not in capsys.readouterr().err
        assert main([*edit, "--budget-requests", "1", "--candidate", str(samples / "c0-0.png"), "--yes"]) == 1
        assert "budget of 1 requests does not cover" in capsys.readouterr().err
    assert main(["data", "rank", str(samples), "--quiet"]) == 0 and "Continue?" not in capsys.readouterr().err


@pytest.mark.parametrize("job", ["score", "edit"])
def test_what_a_run_waits_for_is_shown(
    job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "SILENT_SECONDS", 0.01)
    shown = threading.Event()
    note = output.note
    monkeypatch.setattr(output, "note", lambda text: (note(text), "429" in text and shown.set()))

    def reply(call: Call) -> Any:
        if INSTRUCTION in call.text:
            telemetry.on_wait("429 from here, again in 2 s; 1 of 6 waiting")
            assert shown.wait(50)
        return answer(call)

    with ModelServer(reply) as server:
        words = command("score", tmp_path, server)
        if job == "edit":
            samples = tmp_path / "samples"
            edit = ["score", "--source", str(samples / "s0.png"), "--candidate", str(samples / "c0-0.png")]
            words = [*edit, "--instruction", INSTRUCTION, *words[words.index("--judge") :]]
        assert main(words) == 0
    assert "429 from here, again in 2 s; 1 of 6 waiting." in capsys.readouterr().err

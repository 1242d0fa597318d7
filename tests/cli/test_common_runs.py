"""What all commands that run a job have in common: retries, budgets, the question before spending, and stopping."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from model_server import Call, Fault, ModelServer

from rewardharness import waiting
from rewardharness.cli import output
from rewardharness.cli.main import main
from rewardharness.jobs import read_config
from rewardharness.judging import evaluate
from rewardharness.runs.store import RESULTS

sys.path.insert(0, str(Path(__file__).parents[1] / "bulk"))
from bulk_parts import INSTRUCTION, picture, table

GRADES = json.dumps({"instruction": 3, "quality": 3})
JOBS = ("score", "shards", "rank", "filter", "pairs", "benchmark")
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


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.usefixtures("labeled")
def test_a_run_that_failed_is_resumed(job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reply: Callable[[Call], Any] = lambda call: Fault("401")  # noqa: E731
    with ModelServer(lambda call: reply(call)) as server:
        assert main(command(job, tmp_path, server)) == 1
        said = capsys.readouterr().err
        assert "gives no access" in said and "OPENAI_API_KEY" in said
        failed = len(lines(tmp_path))
        reply = answer
        before = asked(server)
        assert main(command(job, tmp_path, server)) in {0, 1}  # pairs of equal rewards are none
        assert asked(server) - before == EXAMPLES
        if job != "shards":
            assert f"{failed} failed before; asking again." in capsys.readouterr().err
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


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.usefixtures("labeled")
def test_a_budget_ends_a_run_that_can_be_resumed(job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ModelServer(answer) as server:
        for budget, most in (("3", 3), ("3", 3), ("100", EXAMPLES)):
            status = main(command(job, tmp_path, server, "--budget-requests", budget))
            assert asked(server) == most and status == (130 if most < EXAMPLES else status)
            said = capsys.readouterr().err
            assert ("budget of 3 requests" in said) == (most < EXAMPLES) and "price is unknown" in said
        assert len({line["id"] for line in lines(tmp_path)}) == len(lines(tmp_path))


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
            waiting.on_wait("429 from here, again in 2 s; 1 of 6 waiting")
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


def test_a_configuration_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"job": "evolve", "data": "demo", "budget_money": 2.0}', "utf-8")
    assert vars(read_config(tmp_path)[1])["budget_usd"] == 2.0

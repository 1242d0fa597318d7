"""Ending an evaluation from outside, against a server that never answers."""

import asyncio
import os
import signal
import threading

import pytest
from judge_parts import edit
from model_server import Fault, ModelServer

from rewardharness.judging.evaluate import Cancel, evaluate, run_to_end
from rewardharness.judging.interface import unjudged
from rewardharness.judging.judge import Judge
from rewardharness.judging.model_config import ModelJudgeConfig
from rewardharness.judging.subagent import SubAgent
from rewardharness.library.store import EMPTY, Library
from rewardharness.models.open import open_model
from rewardharness.schema import Example, Failure, Judgment

EXAMPLE = edit(100, 200)


def several(count: int) -> list[Example]:
    return [edit(100, 200, name=str(number)) for number in range(count)]


def test_a_model_that_hangs_is_given_up_at_once_and_its_connections_with_it() -> None:
    cancel = Cancel()
    with ModelServer(lambda call: Fault("hang")) as server:
        agent = SubAgent(open_model(f"vllm:judge@{server.url}"), ModelJudgeConfig(protocol="direct", deadline=500))
        told: list[list[tuple[Example, Judgment]]] = []
        judging = threading.Thread(target=lambda: told.append(evaluate(agent, EMPTY, [EXAMPLE], cancel=cancel)))
        judging.start()
        assert server.wait_for(lambda: server.in_flight == 2), "both orders are asked"
        cancel()
        judging.join(100)
        assert told == [[]]
        assert server.wait_for(lambda: server.open_connections == 0)
    cancel()  # after the end, harmless


class Quick(Judge):
    """A judge that ends the evaluation while it judges."""

    name = protocol = revision = "quick"

    def __init__(self, cancel: Cancel) -> None:
        self._cancel = cancel
        self.closed = 0

    async def judge(self, example: Example, library: Library) -> Judgment:
        if example.id == "1":
            self._cancel()
        return unjudged(example, self, library, Failure("input", "never"))

    async def close(self) -> None:
        self.closed += 1


def test_what_was_done_before_the_end_is_kept() -> None:
    cancel = Cancel()
    judge = Quick(cancel)
    examples = several(9)
    done = evaluate(judge, EMPTY, examples, concurrency=1, cancel=cancel)
    assert [each.id for each, _ in done] == ["0", "1"]
    assert judge.closed == 1


def test_an_end_that_was_asked_for_before_the_beginning_begins_nothing() -> None:
    cancel = Cancel()
    cancel()
    assert evaluate(Quick(Cancel()), EMPTY, [EXAMPLE], cancel=cancel) == []


class Broken(Quick):
    async def judge(self, example: Example, library: Library) -> Judgment:
        raise ZeroDivisionError(f"in {example.id}")


def test_an_internal_error_fails_each_example_and_is_shown_once(caplog: pytest.LogCaptureFixture) -> None:
    examples = several(4)
    done = evaluate(Broken(Cancel()), EMPTY, examples, concurrency=1)
    failures = [judgment.failure for _, judgment in done]
    assert failures == [Failure("defect", f"ZeroDivisionError: in {n}") for n in range(4)]
    (record,) = caplog.records
    assert record.levelname == "ERROR" and record.exc_info and "0 failed unexpectedly" in record.getMessage()


def test_it_works_inside_a_running_event_loop() -> None:
    judge = Quick(Cancel())

    async def notebook() -> list[tuple[Example, Judgment]]:
        return evaluate(judge, EMPTY, [EXAMPLE])

    [(judged, judgment)] = asyncio.run(notebook())
    assert judged is EXAMPLE and judgment.failure is not None and judge.closed == 1

    def full(example: Example, judgment: Judgment) -> None:
        raise OSError("the disk is full")

    async def callback_fails() -> None:
        evaluate(judge, EMPTY, [EXAMPLE], on_judgment=full)

    with pytest.raises(OSError, match="the disk is full"):
        asyncio.run(callback_fails())


def test_ctrl_c_in_a_running_event_loop_ends_what_is_under_way() -> None:
    ended = threading.Event()

    async def endless() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            ended.set()

    async def notebook() -> None:
        threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()  # to the process, as a terminal sends it
        run_to_end(endless())

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            loop = asyncio.new_event_loop()  # as notebooks do; asyncio.run handles the signal itself
            loop.run_until_complete(notebook())
        loop.close()
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.is_set()

"""Ending an evaluation from outside, against a server that never answers."""

import threading
from pathlib import Path

import numpy as np
import pytest
from model_server import Fault, ModelServer
from PIL import Image

from rewardharness.judging.evaluate import Cancel, evaluate
from rewardharness.judging.judge import unjudged
from rewardharness.judging.subagent import SubAgent, SubAgentSettings
from rewardharness.library.store import EMPTY, Library
from rewardharness.models.open import open_model
from rewardharness.schema import Example, Failure, ImageInput, Judgment


@pytest.fixture
def example(tmp_path: Path) -> Example:
    images = []
    for level in (10, 100, 200):
        path = tmp_path / f"{level}.png"
        Image.fromarray(np.full((16, 16, 3), level, np.uint8)).save(path)
        images.append(ImageInput(str(level), path))
    return Example("x", "make it brighter", images[0], tuple(images[1:]))


def test_a_model_that_hangs_is_given_up_at_once_and_its_connections_with_it(example: Example) -> None:
    cancel = Cancel()
    with ModelServer(lambda call: Fault("hang")) as server:
        agent = SubAgent(open_model(f"vllm:judge@{server.url}"), SubAgentSettings(protocol="direct", deadline=500))
        told: list[list[tuple[Example, Judgment]]] = []
        judging = threading.Thread(target=lambda: told.append(evaluate(agent, EMPTY, [example], cancel=cancel)))
        judging.start()
        assert server.wait_for(lambda: server.in_flight == 2), "both orders are asked"
        cancel()
        judging.join(100)
        assert told == [[]]
        assert server.wait_for(lambda: server.open_connections == 0)
    cancel()  # after the end, harmless


class Quick:
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


def test_what_was_done_before_the_end_is_kept(example: Example) -> None:
    cancel = Cancel()
    judge = Quick(cancel)
    examples = [Example(str(n), "x", example.source, example.candidates) for n in range(9)]
    done = evaluate(judge, EMPTY, examples, concurrency=1, cancel=cancel)
    assert [each.id for each, _ in done] == ["0", "1"]
    assert judge.closed == 1


def test_an_end_that_was_asked_for_before_the_beginning_begins_nothing(example: Example) -> None:
    cancel = Cancel()
    cancel()
    assert evaluate(Quick(Cancel()), EMPTY, [example], cancel=cancel) == []

"""Judging when things go wrong: every example ends judged rightly or with its reason, once, and in its place."""

import asyncio
import json
import random
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from judge_parts import PREFERS_A, code, flat, judge_one
from model_server import Call, Fault, ModelServer

from rewardharness.files import sha256
from rewardharness.judging.evaluate import evaluate
from rewardharness.judging.model_config import PROTOCOLS, ModelJudgeConfig, Protocol
from rewardharness.judging.subagent import SubAgent
from rewardharness.library.opening import open_library
from rewardharness.library.store import EMPTY
from rewardharness.models.base import ChatRequest, ErrorCode, Reply
from rewardharness.models.endpoints import EndpointPool
from rewardharness.models.limits import ByteBudget, EndpointSettings
from rewardharness.models.open import ScriptedModel
from rewardharness.models.openai_compatible import OpenAICompatibleModel
from rewardharness.schema import Example, ImageInput, Judgment

NUMBER = 1000
PASSING = ["429", "503", "500", "reset", "truncated", "null", "no_choices", "garbage", "empty", "number_content"]
"""Faults that may pass when the request is made again."""
LASTING = ["refusal", "bad_image", "context", "length"]
"""Faults that end a judgment, or have it asked in another way; they are made rare."""
FASTER = 200.0
"""Seconds of the pool per second of the machine: nothing in it waits for longer than some milliseconds."""


PICTURES = [flat(level, 16).data for level in range(256)]
LEVELS = {sha256(data): level for level, data in enumerate(PICTURES)}


def make_examples(number: int) -> list[Example]:
    """Examples whose better candidate is the brighter one."""
    chance = random.Random(7)
    found = []
    for each in range(number):
        levels = chance.sample(range(256), 3)
        source, *candidates = (ImageInput("image", data=PICTURES[level]) for level in levels)
        label = "A" if levels[1] > levels[2] else "B"
        found.append(Example(f"e{each}", f"make it brighter ({each})", source, tuple(candidates), preference=label))
    return found


def brighter(call: Call) -> str:
    """Answer as a model does that sees."""
    _, a, b = (LEVELS[str(uuid)] for _, uuid in call.images)
    grades = {"A": 4 if a > b else 1, "B": 4 if b > a else 1}
    scores = {label: {"instruction": grade, "quality": 3} for label, grade in grades.items()}
    return json.dumps({"preference": "A" if a > b else "B", "scores": scores})


class Unreliable:
    """Lets half of all requests fail, at random but the same way each time."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.met: Counter[str] = Counter()

    def __call__(self, call: Call) -> Fault | str:
        if self.chance.random() < 0.5:
            self.met["answer"] += 1
            return brighter(call)
        name = self.chance.choice(LASTING if self.chance.random() < 0.04 else PASSING)
        self.met[name] += 1
        after = self.chance.choice([None, "1", "3"]) if name in {"429", "503"} else None
        return Fault(name, retry_after=after)


def clock() -> float:
    return time.monotonic() * FASTER


async def pause(seconds: float) -> None:
    await asyncio.sleep(seconds / FASTER)


@pytest.mark.slow
def test_half_of_all_requests_fail_and_no_example_is_lost_doubled_or_wrong() -> None:
    examples = make_examples(NUMBER)
    answers = [Unreliable(seed) for seed in (1, 2)]
    with ModelServer(answers[0]) as first, ModelServer(answers[1]) as second:
        urls = [first.url, second.url]
        aliases = [f"127.0.0.1:{server.port}" for server in (first, second)]
        pool = EndpointPool(aliases, EndpointSettings(), clock=clock, sleep=pause, chance=random.Random(3).random)
        model = OpenAICompatibleModel("vllm", "judge", urls, EndpointSettings())
        model.pool = pool
        told: list[str] = []
        agent = SubAgent(model, ModelJudgeConfig(protocol="direct"))
        judged = evaluate(agent, EMPTY, examples, concurrency=64, on_judgment=lambda each, _: told.append(each.id))

    assert [example.id for example, _ in judged] == [example.id for example in examples]
    assert [judgment.example_id for _, judgment in judged] == [example.id for example in examples]
    assert Counter(told) == Counter(example.id for example in examples)
    failed: Counter[str] = Counter()
    for example, judgment in judged:
        if judgment.judged:
            found = judgment.preference, judgment.margin, judgment.position_consistent, judgment.failure
            assert found == (example.preference, 1.0, True, None)
        else:
            assert judgment.failure.code in {*get_args(ErrorCode), "truncated"} and judgment.failure.message
            assert (judgment.preference, judgment.margin, judgment.scores) == (None, None, {})
            failed[judgment.failure.code] += 1
    # Both ends were met, and what could pass did pass.
    assert failed["refused"] and failed["context_too_long"] and failed["bad_request"]
    assert sum(failed.values()) < NUMBER / 4
    met = sum((answer.met for answer in answers), Counter[str]())
    assert set(met) == {"answer", *PASSING, *LASTING}
    assert 0.45 < met["answer"] / met.total() < 0.55
    # What the client counts is what the servers saw, and nothing is still under way.
    assert met.total() == first.requests + second.requests
    assert [endpoint.in_flight for endpoint in pool.endpoints] == [0, 0]
    assert first.open_connections == second.open_connections == 0


def test_a_server_that_dies_midway_is_done_without() -> None:
    examples = make_examples(120)
    count = 0
    with ModelServer(brighter) as healthy, ModelServer(brighter) as dying:
        aliases = [f"127.0.0.1:{server.port}" for server in (healthy, dying)]
        pool = EndpointPool(aliases, EndpointSettings(), clock=clock, sleep=pause)
        model = OpenAICompatibleModel("vllm", "judge", [healthy.url, dying.url])
        model.pool = pool

        def on_judgment(example: Example, judgment: Judgment) -> None:
            nonlocal count
            count += 1
            if count == 30:
                dying.refuse()

        agent = SubAgent(model, ModelJudgeConfig(protocol="direct"))
        judged = evaluate(agent, EMPTY, examples, concurrency=16, on_judgment=on_judgment)
        served = dying.requests
    assert all(judgment.preference == example.preference for example, judgment in judged)
    assert 0 < served < 240
    assert count == 120


def test_a_server_that_serves_nothing_leaves_every_example_with_its_reason() -> None:
    with ModelServer(lambda call: Fault("500")) as server:
        pool = EndpointPool([f"127.0.0.1:{server.port}"], EndpointSettings(), clock=clock, sleep=pause)
        model = OpenAICompatibleModel("vllm", "judge", [server.url])
        model.pool = pool
        judged = evaluate(SubAgent(model, ModelJudgeConfig(protocol="direct")), EMPTY, make_examples(30))
    assert [judgment.failure.code for _, judgment in judged if judgment.failure] == ["server_error"] * 30


DRAFT = '<answer>{"preference": "A", "instruction": 4, "quality": 4, "c1": 4, "c2": 4, "c3": 4}</answer> no wait, that'


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize(
    ("text", "finish"),
    [
        ('{"preference": "A", "scores": {"A": {"instruction": 4', "length"),
        (f"<think>Draft {DRAFT} is far too high", "length"),
        (f"<think>Draft {DRAFT} is far too high", "stop"),
        (f"Draft {DRAFT} is far too high", "length"),
    ],
)
def test_a_reply_that_is_cut_off_is_no_judgment(protocol: Protocol, number: int, text: str, finish: str) -> None:
    [pair] = make_examples(1)
    example = replace(pair, candidates=pair.candidates[:number], preference=None)
    model = ScriptedModel(lambda request: Reply(text, finish_reason=finish))
    judgment = judge_one(SubAgent(model, ModelJudgeConfig(protocol)), example, open_library("builtin"))
    wanted = "no_logprobs" if protocol == "logprob" else "truncated" if finish == "length" else "no_answer"
    assert (judgment.preference, judgment.scores, code(judgment)) == (None, {}, wanted)


def test_a_damaged_image_that_only_a_tool_notices_is_named() -> None:
    whole = ImageInput.of(np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8))
    half = ImageInput("second", data=whole.data[: len(whole.data) // 2])
    model = ScriptedModel(lambda request: '<tool>{"name": "change-map", "images": ["A", "B"]}</tool>')
    judgment = judge_one(
        SubAgent(model), Example("x", "make the box red", whole, (whole, half)), open_library("builtin")
    )
    assert code(judgment) == "image" and "damaged" in judgment.failure.message


class Watching:
    """A model that notes how many judgments are under way, by their source images."""

    id = "watching"

    def __init__(self) -> None:
        self.under_way: Counter[str] = Counter()
        self.most = 0

    async def ask(self, request: ChatRequest) -> Reply:
        source = request.images[0].sha256
        self.under_way[source] += 1
        self.most = max(self.most, sum(count > 0 for count in self.under_way.values()))
        for _ in range(20):
            await asyncio.sleep(0)
        self.under_way[source] -= 1
        return Reply(PREFERS_A)

    async def close(self) -> None:
        pass


def test_images_in_memory_are_bounded_whatever_the_concurrency(tmp_path: Path) -> None:
    examples = []
    for number in range(12):
        paths = [tmp_path / f"{number}-{name}.png" for name in "sab"]
        for path, level in zip(paths, (number, 100, 200), strict=True):
            path.write_bytes(PICTURES[level])
        images = [ImageInput(path.name, path) for path in paths]
        examples.append(Example(f"e{number}", "make it brighter", images[0], tuple(images[1:])))
    each = sum(path.stat().st_size for path in paths)
    for room, most in ((3 * each + each // 2, 3), (1, 1), (100 * each, 12)):
        model = Watching()
        agent = SubAgent(model, ModelJudgeConfig(protocol="direct"), room=ByteBudget(room))
        judged = evaluate(agent, EMPTY, examples, concurrency=12)
        assert len([judgment for _, judgment in judged if judgment.usage.calls == 2]) == 12
        assert model.most <= most
        assert agent.room.held == 0
    assert model.most > 3

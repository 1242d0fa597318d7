"""What a server can do is found out once, and only when it has to be asked at all."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from judge_parts import PREFERS_A, edit, judge_one
from model_server import Call, ModelServer, instance

from rewardharness.judging.evaluate import evaluate
from rewardharness.judging.model_config import ModelJudgeConfig
from rewardharness.judging.model_wrappers import WarmUpModel
from rewardharness.judging.opening import open_judge
from rewardharness.judging.subagent import SubAgent
from rewardharness.library.store import EMPTY
from rewardharness.models.base import ChatRequest, Message, Reply
from rewardharness.models.open import ScriptedModel
from rewardharness.models.probe import Probe
from rewardharness.models.wire import Capabilities
from rewardharness.schema import Example
from rewardharness.settings import Settings

HELLO = ChatRequest((Message.of("user", "hello"),))


def example(number: int) -> Example:
    return edit(90, 90, name=f"e{number}", instruction=f"make it red ({number})")


def respond(call: Call) -> str | None:
    """Answer a comparison; everything else gets a healthy server's answer."""
    if len(call.images) != 3 or call.is_probe:
        return None
    return json.dumps(instance(call.json["response_format"]["json_schema"]["schema"]))


def test_what_is_remembered_needs_no_server(own_home: Path) -> None:
    with ModelServer(respond) as server:
        spec, settings = f"vllm:judge@{server.url}", Settings.from_env()
        first = judge_one(open_judge(spec, settings, protocol="direct"), example(0))
        found_out = len(server.calls) - 2
        assert found_out > 2
        asked = len(server.calls)
        again = judge_one(open_judge(spec, settings, protocol="direct"), example(0))
        assert len(server.calls) == asked
        judge = open_judge(spec, settings, protocol="direct")
        evaluate(judge, EMPTY, [example(number) for number in range(1, 9)], concurrency=8)
        evaluate(judge, EMPTY, [example(9)])
        assert len(server.calls) == asked + found_out + 18, "found out once, also over several loops"
    third = judge_one(open_judge(spec, settings, protocol="direct"), example(0))
    assert first.judged and again.ranking == third.ranking == first.ranking
    assert (again.usage.calls, third.usage.calls) == (0, 0)


def test_a_search_that_came_to_nothing_is_made_again() -> None:
    tried = 0

    async def find_out() -> Sequence[Probe]:
        nonlocal tried
        tried += 1
        if tried == 1:
            raise RuntimeError("broken")
        if tried == 2:
            await asyncio.sleep(3600)
        return [Probe("dead", None), Probe("host", Capabilities() if tried == 4 else None)]

    agent = SubAgent(ScriptedModel(lambda request: PREFERS_A), ModelJudgeConfig(protocol="direct"), find_out=find_out)
    broken = judge_one(agent, example(0))
    assert broken.failure is not None

    async def give_up() -> None:
        judging = asyncio.ensure_future(agent.judge(example(0), EMPTY))
        while tried < 2:
            await asyncio.sleep(0)
        judging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await judging

    asyncio.run(give_up())
    judgment = judge_one(agent, example(0))
    assert judgment.judged
    evaluate(agent, EMPTY, [example(number) for number in range(1, 4)])
    assert tried == 4, "no server answered: asked again by the next run, once"
    evaluate(agent, EMPTY, [example(4)])
    assert tried == 4


@pytest.mark.parametrize("remembers", [True, False])
def test_those_who_follow_wait_for_the_first_answer_where_that_helps(remembers: bool) -> None:
    async def main() -> list[int]:
        under_way = most = 0

        class Busy:
            id = "busy"

            async def ask(self, request: ChatRequest) -> Reply:
                nonlocal under_way, most
                under_way += 1
                most = max(most, under_way)
                peaks.append(most)
                for _ in range(5):
                    await asyncio.sleep(0)
                under_way -= 1
                return Reply("x")

            async def close(self) -> None:
                pass

        async def remember() -> bool:
            await asyncio.sleep(0)
            return remembers

        peaks: list[int] = []
        model = WarmUpModel(Busy(), remember)
        await asyncio.gather(*(model.ask(HELLO) for _ in range(4)))
        return peaks

    assert asyncio.run(main()) == ([1, 1, 2, 3] if remembers else [1, 2, 3, 4])

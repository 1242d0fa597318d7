"""Critiques over HTTP: only if requested, remembered apart, and refused where the judge writes none."""

from dataclasses import replace

import pytest
from serving_parts import ONE, TWO, ReadyJudge, Running, edit, group

from rewardharness.critique import Critique
from rewardharness.judging.interface import Traits
from rewardharness.judging.judge import Judge
from rewardharness.library.store import Library
from rewardharness.schema import Example, Judgment
from rewardharness.serving.client import Ask, RewardClient, RewardServerError

FOUND = Critique(("Too <b>dark</b>.",), "make it lighter, clearly")


class Critic(ReadyJudge):
    """A ready judge that writes critiques."""

    traits = Traits(writes_critiques=True)
    critical = False

    def with_critiques(self) -> Judge:
        other = Critic()
        other.asked, other.critical = self.asked, True
        return other

    async def judge(self, example: Example, library: Library) -> Judgment:
        judgment = await super().judge(example, library)
        return replace(judgment, critiques=dict.fromkeys(example.labels, FOUND)) if self.critical else judgment


@pytest.mark.parametrize("path", ["/score", "/batch_score"])
def test_a_critique_comes_only_if_requested(path: str) -> None:
    judge = Critic()
    body = {"items": [edit()]} if path == "/batch_score" else edit()
    with Running(judge) as server:
        [plain] = server.post(path, body).json["results"]
        [given] = server.post(path, body | {"critique": True}).json["results"]
        [again] = server.post(path, body | {"critique": True}).json["results"]
    assert plain["critique"] is None
    said = {"problems": ["Too <b>dark</b>."], "next_instruction": "make it lighter, clearly", "limits": ""}
    assert given["critique"] == said
    assert (given["reward"], given["cached"], again["cached"]) == (plain["reward"], False, True)
    assert again["critique"] == given["critique"] and len(judge.asked) == 2


def test_the_client_reads_critiques() -> None:
    ask = Ask("make it lighter", ONE, TWO)
    with Running(Critic()) as server, RewardClient(server.url) as client:
        [plain], [told] = client.score([ask]), client.score([ask], critique=True)
    assert (plain.critique, told.critique, told.reward) == (None, FOUND, plain.reward)
    refused = pytest.raises(RewardServerError, match="writes no critiques")
    with Running(ReadyJudge()) as server, RewardClient(server.url) as client, refused:
        client.score([ask], critique=True)


def test_candidates_that_are_judged_together_have_one_each() -> None:
    with Running(Critic()) as server:
        reply = server.post("/score", group(ONE, TWO, critique=True)).json
    assert [item["critique"]["problems"] for item in reply["results"]] == [["Too <b>dark</b>."]] * 2


def test_a_judge_without_critiques_refuses_the_request() -> None:
    with Running(ReadyJudge()) as server:
        reply = server.post("/score", edit() | {"critique": True})
        other = server.post("/compare", edit() | {"critique": True})
    assert reply.status == other.status == 422 and "writes no critiques" in reply.json["error"]["message"]

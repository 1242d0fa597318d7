"""A judge opened by its spelling, over HTTP, against a server that speaks as vLLM does."""

from pathlib import Path

import pytest
from judge_parts import PREFERS_A, code, edit, judge_one
from model_server import Call, ModelServer

from rewardharness.judging.opening import open_judge
from rewardharness.settings import Settings

EXAMPLE = edit(2, 3)


def image_parts(call: Call) -> list[dict[str, object]]:
    content = [part for message in call.json["messages"] for part in message["content"] if isinstance(part, dict)]
    return [part for part in content if part.get("type") == "image_url"]


@pytest.mark.parametrize("remembers", [True, False])
def test_the_bytes_of_an_image_are_sent_once_where_the_server_remembers_them(remembers: bool) -> None:
    def respond(call: Call) -> str | None:
        """Answer a comparison; what is asked to find out about the server gets a healthy server's answer."""
        return f"<think>x</think><answer>{PREFERS_A}</answer>" if len(image_parts(call)) == 3 else None

    with ModelServer(respond, uuid_cache=remembers) as server:
        judge = open_judge(f"vllm:judge@{server.url}", Settings.from_env(), no_cache=True)
        judgment = judge_one(judge, EXAMPLE)
    assert judgment.judged, judgment.failure
    asked = [call for call in server.calls if len(image_parts(call)) == 3 and not call.is_probe]
    assert len(asked) == 2, "both orders"
    sent = [sum(part["image_url"] is not None for part in image_parts(call)) for call in asked]
    assert sent == ([3, 0] if remembers else [3, 3])


def test_an_endpoint_that_is_not_there_is_no_judgment(tmp_path: Path) -> None:
    options = {"no_cache": True, "retries": 0, "protocol": "direct", "deadline": 20}
    judge = open_judge("vllm:judge@http://127.0.0.1:9/v1", Settings.from_env(), **options)
    judgment = judge_one(judge, EXAMPLE)
    assert (judgment.preference, code(judgment)) == (None, "unreachable")

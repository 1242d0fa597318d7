import asyncio
import json

import pytest
from model_server import Answer, Call, ModelServer

from rewardharness.models.base import ChatRequest, Message, ModelError
from rewardharness.models.limits import EndpointSettings
from rewardharness.models.openai_compatible import OpenAICompatibleModel

HELLO = ChatRequest((Message.of("user", "hello"),), max_tokens=64, temperature=0.0)


def refusal(field: str, code: str) -> Answer:
    body = {
        "error": {
            "message": f"'{field}' is not supported.",
            "type": "invalid_request_error",
            "param": field,
            "code": code,
        }
    }
    return Answer(json.dumps(body).encode(), 400)


def as_reasoning_models_do(call: Call) -> Answer | None:
    """Refuse what OpenAI's reasoning models refuse, one field at a time."""
    if "max_tokens" in call.json:
        return refusal("max_tokens", "unsupported_parameter")
    if "temperature" in call.json:
        return refusal("temperature", "unsupported_value")
    return None


def ask(server: ModelServer, times: int = 1) -> list[str]:
    async def main() -> list[str]:
        model = OpenAICompatibleModel("openai", "judge", [server.url], EndpointSettings())
        try:
            return [(await model.ask(HELLO)).text for _ in range(times)]
        finally:
            await model.close()

    return asyncio.run(main())


def test_fields_that_a_model_refuses_are_left_out_from_then_on():
    with ModelServer(as_reasoning_models_do) as server:
        assert len(ask(server, times=3)) == 3
    assert len(server.calls) == 5, "each field is refused once"
    last = server.calls[-1].json
    assert last["max_completion_tokens"] == 64 and "temperature" not in last and "max_tokens" not in last


def test_abilities_that_a_server_lacks_are_learned():
    def respond(call: Call) -> Answer | None:
        wrong = sorted({"response_format", "logprobs", "seed"} & set(call.json))
        return refusal(wrong[0], "unknown_parameter") if wrong else None

    asked = ChatRequest(HELLO.messages, seed=0, schema={"type": "object"}, top_logprobs=2)

    async def main() -> list[str]:
        model = OpenAICompatibleModel("openai", "judge", [server.url + "/chat/completions/"], EndpointSettings())
        try:
            return [(await model.ask(asked)).text for _ in range(2)]
        finally:
            await model.close()

    with ModelServer(respond) as server:
        assert len(asyncio.run(main())) == 2
    assert len(server.calls) == 5, "each field is refused once, and the full address of the chat is accepted"


def test_ordinary_servers_get_the_ordinary_fields():
    with ModelServer() as server:
        ask(server)
    assert server.calls[0].json["max_tokens"] == 64 and server.calls[0].json["temperature"] == 0


@pytest.mark.parametrize(
    "answer",
    [
        refusal("max_tokens", "unsupported_parameter"),
        refusal("temperature", "unsupported_value"),
        refusal("messages", "unsupported_value"),
        refusal("max_tokens", "invalid_value"),
        Answer(b'{"error": "no"}', 400),
        Answer(b"[]", 400),
    ],
)
def test_a_refusal_that_stays_is_one_error(answer):
    with ModelServer(lambda call: answer) as server, pytest.raises(ModelError) as caught:
        ask(server)
    assert caught.value.code == "bad_request" and len(server.calls) <= 2

import asyncio
import base64
import json
import ssl
import sys
import traceback
from dataclasses import replace
from functools import cache, partial

import pytest
from model_server import Answer, Fault, ModelServer, refused_url

from rewardharness.errors import InputError, MissingPackageError
from rewardharness.models.base import ChatRequest, ImagePart, Message, ModelError
from rewardharness.models.gemini import GeminiModel
from rewardharness.models.limits import EndpointSettings
from rewardharness.models.open import open_model
from rewardharness.settings import Settings

KEY = "AIza-" + "secret"
KEYS = replace(Settings.from_env({}), gemini_key=KEY)
QUICK = EndpointSettings(
    backoff=0.001, longest_backoff=0.002, shortest_aside=0.002, longest_aside=0.01, request_timeout=100.0
)
PICTURE = ImagePart(b"\x89PNG" + bytes(range(256)), "image/png")
LOOK = ChatRequest((Message.of("system", "Judge."), Message.of("user", "source", PICTURE, "which?")), max_tokens=64)


@pytest.fixture(autouse=True, scope="module")
def client():
    """Import what takes long only in the process that needs it, and read the certificates of authorities once."""
    pytest.importorskip("google.genai", reason="google-genai is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", cache(ssl.create_default_context))
        yield


class GeminiServer(ModelServer):
    """A local server that speaks as Gemini does."""

    def reply(self, call):
        self.calls.append(call)
        said = self.respond(call) if self.respond else None
        if said is None:
            said = generated("A")
        return said if isinstance(said, (Answer, Fault)) else Answer(json.dumps(said).encode())

    @property
    def base(self):
        return f"http://127.0.0.1:{self.port}"


def generated(text, finish="STOP", **candidate):
    content = {"role": "model", "parts": [{"text": "hidden", "thought": True}, {"text": text}]}
    return {
        "candidates": [{"content": content, "finishReason": finish, "index": 0, **candidate}],
        "usageMetadata": {
            "promptTokenCount": 500,
            "candidatesTokenCount": 2,
            "thoughtsTokenCount": 30,
            "cachedContentTokenCount": 100,
            "totalTokenCount": 532,
        },
        "modelVersion": "gemini-test-001",
    }


def failure(status, word, message, details=(), headers=None):
    body = {"error": {"code": status, "message": message, "status": word, "details": list(details)}}
    return Answer(json.dumps(body).encode(), status, {"Content-Type": "application/json", **(headers or {})})


def ask(base, request=LOOK, **options):
    async def main():
        model = GeminiModel("gemini-test", KEYS, replace(QUICK, **options), base_url=base)
        try:
            return await model.ask(request)
        finally:
            await model.close()
            await model.close()

    return asyncio.run(main())


def test_a_question_and_its_reply():
    with GeminiServer() as server:
        reply = ask(server.base)
        assert server.wait_for(lambda: server.open_connections == 0)
    assert (reply.text, reply.finish_reason, reply.model, reply.attempts) == ("A", "stop", "gemini-test-001", 1)
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cached_tokens) == (500, 32, 100)
    assert reply.endpoint == f"127.0.0.1:{server.port}"
    (call,) = server.calls
    assert call.path.endswith("/models/gemini-test:generateContent") and call.headers["x-goog-api-key"] == KEY
    body = call.json
    assert body["systemInstruction"]["parts"] == [{"text": "Judge."}]
    (turn,) = body["contents"]
    assert turn["role"] == "user" and [part.get("text") for part in turn["parts"]] == ["source", None, "which?"]
    inline = turn["parts"][1]["inlineData"]
    data = inline["data"].replace("-", "+").replace("_", "/")
    assert base64.b64decode(data) == PICTURE.data and "image/png" in inline.values()
    assert body["generationConfig"] == {"maxOutputTokens": 64, "temperature": 0.0}


def test_options():
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    messages = (Message.of("user", "x"), Message.of("assistant", "y"), Message.of("user", "z"))
    with GeminiServer() as server:
        ask(server.base, ChatRequest(messages, schema=schema, seed=5, stop=("</answer>",)))
        ask(server.base, ChatRequest(messages, choices=("A", "B"), top_logprobs=4))
    config = server.calls[0].json["generationConfig"]
    assert config["responseMimeType"] == "application/json" and config["responseJsonSchema"] == schema
    assert config["seed"] == 5 and config["stopSequences"] == ["</answer>"]
    assert [turn["role"] for turn in server.calls[0].json["contents"]] == ["user", "model", "user"]
    config = server.calls[1].json["generationConfig"]
    assert config["responseMimeType"] == "text/x.enum" and config["responseSchema"]["enum"] == ["A", "B"]
    assert config["responseLogprobs"] is True and config["logprobs"] == 4


def test_logprobs():
    tops = {
        "topCandidates": [
            {"candidates": [{"token": "A", "logProbability": -0.1}, {"token": "B", "logProbability": -2}]}
        ],
        "chosenCandidates": [{"token": "A", "logProbability": -0.1}],
    }
    with GeminiServer(lambda call: generated("A", logprobsResult=tops)) as server:
        reply = ask(server.base, ChatRequest(LOOK.messages, top_logprobs=2))
    assert reply.top_logprobs == ({"A": -0.1, "B": -2.0},)


def test_a_reply_that_was_cut_off_says_so():
    def cut(call):
        return {"candidates": [{"finishReason": "MAX_TOKENS", "index": 0}]}

    with GeminiServer(cut) as server:
        reply = ask(server.base)
    assert (reply.text, reply.finish_reason) == ("", "length")


PER_DAY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3600s"}

TOO_LONG = "The input token count exceeds the maximum number of tokens"
FAULTS = {
    "key": (lambda: failure(400, "INVALID_ARGUMENT", "API key not valid."), "unauthorized", 1),
    "denied": (lambda: failure(403, "PERMISSION_DENIED", KEY), "unauthorized", 1),
    "model": (lambda: failure(404, "NOT_FOUND", "models/x is not found"), "model_not_found", 1),
    "argument": (lambda: failure(400, "INVALID_ARGUMENT", f"bad {KEY}"), "bad_request", 1),
    "too long": (lambda: failure(400, "X", TOO_LONG), "context_too_long", 1),
    "busy": (lambda: failure(429, "RESOURCE_EXHAUSTED", "quota"), "rate_limited", 8),
    "busy for long": (lambda: failure(429, "RESOURCE_EXHAUSTED", "quota", [PER_DAY]), "rate_limited", 1),
    "busy by header": (lambda: failure(429, "X", "quota", headers={"Retry-After": "3600"}), "rate_limited", 1),
    "overloaded": (lambda: failure(503, "UNAVAILABLE", "overloaded"), "server_error", 5),
    "defect": (lambda: failure(500, "INTERNAL", "internal"), "server_error", 5),
    "page": (lambda: Answer(b"<html>", 502, {"Content-Type": "text/html"}), "server_error", 5),
    "blocked": (lambda: {"promptFeedback": {"blockReason": "SAFETY"}}, "refused", 1),
    "stopped": (lambda: {"candidates": [{"finishReason": "SAFETY"}]}, "refused", 1),
    "no text": (lambda: {"candidates": [{"finishReason": "STOP", "content": {"parts": []}}]}, "bad_response", 3),
    "nothing": (dict, "bad_response", 3),
    "odd": (lambda: {"candidates": "x"}, "bad_response", 3),
    "list": (lambda: Answer(b"[1]"), "bad_response", 3),
    "null": (lambda: Answer(b"null"), "bad_response", 3),
    **{name: (partial(Fault, name), "bad_response", 3) for name in ("html", "garbage", "empty")},
    **{name: (partial(Fault, name), "unreachable", 8) for name in ("reset", "truncated")},
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_one_clear_error(name):
    make, code, sent = FAULTS[name]
    with GeminiServer(lambda call: make()) as server:
        with pytest.raises(ModelError) as caught:
            ask(server.base)
        assert len(server.calls) == sent
    problem = caught.value
    assert problem.code == code
    shown = f"{problem!r} {problem.next_step} {''.join(traceback.format_exception(problem))}"
    assert KEY not in shown


def test_a_fault_that_passes_is_invisible():
    delay = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.01s"}

    def respond(call):
        busy = failure(429, "RESOURCE_EXHAUSTED", "quota", [delay])
        return [busy, Fault("reset"), failure(503, "UNAVAILABLE", "x")][call.number] if call.number < 3 else None

    with GeminiServer(respond) as server:
        reply = ask(server.base)
    assert reply.text == "A" and reply.attempts == 4


def test_nobody_listens():
    with pytest.raises(ModelError) as caught:
        ask(refused_url().removesuffix("/v1"))
    assert caught.value.code == "unreachable"


def test_a_deadline_closes_the_connection():
    with GeminiServer(lambda call: Fault("hang")) as server:
        with pytest.raises(ModelError) as caught:
            ask(server.base, ChatRequest(LOOK.messages, timeout=0.1))
        assert caught.value.code == "timeout" and server.wait_for(lambda: server.open_connections == 0)


def test_opening_by_name(monkeypatch):
    monkeypatch.setenv("GEMINI_API_KEY", "from the environment")
    with pytest.raises(InputError, match="key"):
        open_model("gemini:gemini-test")
    assert open_model("gemini:gemini-test", KEYS).id == "gemini:gemini-test"
    project = replace(KEYS, gemini_key=None, cloud_project="p", cloud_location="europe-west4")
    vertex = open_model("gemini:gemini-test", project)
    assert vertex.pool.endpoints[0].alias == "vertex" and KEY not in repr(KEYS) + repr(vertex)


def test_without_googles_client(monkeypatch):
    monkeypatch.setitem(sys.modules, "google.genai", None)
    monkeypatch.setitem(sys.modules, "google", None)
    with pytest.raises(MissingPackageError):
        GeminiModel("gemini-test", KEYS)

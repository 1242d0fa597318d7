import asyncio
import base64
import json
import random
import threading
import traceback
from collections import Counter
from dataclasses import replace
from functools import partial

import pytest
from clocks import PutOnLoop
from endpoint_parts import opened as opened_model
from model_server import Answer, Fault, ModelServer, completion, refused_url

from rewardharness.errors import InputError, describe
from rewardharness.models import transport
from rewardharness.models.base import ChatRequest, ImagePart, Message, ModelError, Reply
from rewardharness.models.limits import EndpointSettings
from rewardharness.models.openai_compatible import OpenAICompatibleModel

PAUSES = {"backoff": 0.001, "longest_backoff": 0.002, "shortest_aside": 0.002, "longest_aside": 0.01}
QUICK = EndpointSettings(request_timeout=100.0, **PAUSES)
PICTURE = ImagePart(b"\x89PNG" + bytes(range(256)), "image/png")
KEY = "sk-" + "secret"  # in two parts, so that the lines of code in a traceback do not hold it
HELLO = ChatRequest((Message.of("user", "hello"),))
LOOK = ChatRequest((Message.of("system", "Judge."), Message.of("user", "source", PICTURE, "which?")), max_tokens=64)


opened = partial(opened_model, settings=QUICK)


def ask(server, request=HELLO, settings=QUICK, urls=None, loop=None) -> Reply:
    """Ask once, with a model that is opened and closed for it."""

    async def main():
        async with opened(*(urls or [server.url]), settings=settings) as model:
            return await model.ask(request)

    with asyncio.Runner(loop_factory=None if loop is None else lambda: loop) as runner:
        return runner.run(main())


def fails(server, *asked, **named) -> ModelError:
    with pytest.raises(ModelError) as caught:
        ask(server, *asked, **named)
    return caught.value


def first_then(fault, number=1):
    """Answer the first requests with a fault, the others well."""
    return lambda call: fault if call.number < number else None


# ---- what goes over the wire


def test_a_question_with_an_image_and_its_reply():
    with ModelServer(lambda call: completion("A", prompt_tokens=42, top_logprobs=2), key="k") as server:
        request = ChatRequest(LOOK.messages, top_logprobs=2, seed=3, choices=("A", "B"))
        reply = ask(server, request, replace(QUICK, api_key="k"))
    (call,) = server.calls
    assert (reply.text, reply.finish_reason, reply.model, reply.attempts) == ("A", "stop", "judge", 1)
    assert reply.usage.input_tokens == 42 and reply.fingerprint == "local-1" and reply.seconds > 0
    assert reply.endpoint == f"127.0.0.1:{server.port}" and list(reply.top_logprobs) == [{"A": -0.25, "A1": -2.5}]
    ((url, uuid),) = call.images
    assert base64.b64decode(url.partition(",")[2]) == PICTURE.data and uuid == PICTURE.sha256
    assert call.json["messages"][0] == {"role": "system", "content": "Judge."}
    assert call.json["structured_outputs"] == {"choice": ["A", "B"]} and call.headers["authorization"] == "Bearer k"
    assert call.headers["content-type"] == "application/json" and "cookie" not in call.headers


def test_a_request_passes_through_at_most_five_functions(monkeypatch):
    connections: list[list[str]] = []
    exchange = transport._Connection.exchange

    def connected(connection, head, body):
        connections.append([each.name for each in traceback.extract_stack() if "rewardharness/models" in each.filename])
        return exchange(connection, head, body)

    monkeypatch.setattr(transport._Connection, "exchange", connected)
    with ModelServer() as server:
        ask(server)
    assert connections == [["ask", "run", "_exchange", "exchange"]], "the connection itself is the fifth"


async def test_connections_are_kept():
    with ModelServer() as server:
        async with opened(server.url) as model:
            for _ in range(50):
                await model.ask(HELLO)
            await model.close()
        assert server.connections == 1
        assert server.wait_for(lambda: server.open_connections == 0)


def test_a_model_outlives_its_event_loop():
    with ModelServer() as server:
        model = OpenAICompatibleModel("vllm", "judge", [server.url], QUICK)

        async def ask_and_close():
            await model.ask(HELLO)
            await model.close()

        for _ in range(2):
            asyncio.run(ask_and_close())
        assert server.requests == 2
        assert server.wait_for(lambda: server.open_connections == 0)


def test_connections_of_an_earlier_event_loop_are_forgotten():
    with ModelServer() as server:
        model = OpenAICompatibleModel("vllm", "judge", [server.url], QUICK)
        loops = [asyncio.new_event_loop() for _ in range(2)]
        for loop in loops:  # not closed in between: nothing complains of a connection that was left open
            assert loop.run_until_complete(model.ask(HELLO)).attempts == 1
        loops[1].run_until_complete(model.close())
        assert server.connections == 2
        server.refuse()
        loops[0].run_until_complete(asyncio.sleep(0.01))
        for loop in loops:
            loop.close()


# ---- faults, one by one


ALWAYS = [  # fault, code, requests that are sent, retryable
    *((name, "unreachable", 8, True) for name in ("reset", "truncated")),
    *((name, "bad_response", 3, True) for name in ("huge", "garbage", "empty", "html", "null")),
    *((name, "bad_response", 3, True) for name in ("no_choices", "null_content", "number_content")),
    *((name, "refused", 1, False) for name in ("refusal", "content_filter")),
    *((name, "bad_request", 1, False) for name in ("bad_request", "bad_schema", "bad_image", "too_many_images")),
    *((name, "bad_request", 1, False) for name in ("413", "redirect")),
    *((name, "unauthorized", 1, False) for name in ("401", "403")),
    *((name, "server_error", 5, True) for name in ("500", "503")),
    ("context", "context_too_long", 1, False),
    ("404", "model_not_found", 1, False),
    ("429", "rate_limited", 8, True),
]


@pytest.mark.parametrize(("name", "code", "sent", "retryable"), ALWAYS)
def test_a_fault_that_stays_is_one_clear_error(name, code, sent, retryable):
    with ModelServer(lambda call: Fault(name)) as server:
        problem = fails(server, LOOK, replace(QUICK, api_key=KEY))
        assert server.requests == sent
        assert server.wait_for(lambda: server.open_connections == 0)
    assert (problem.code, problem.retryable) == (code, retryable)
    assert f"127.0.0.1:{server.port}" in str(problem) and describe(problem).title == "The model did not answer"
    # Neither the key, nor the image, nor the server's words; also not in a traceback that somebody logs.
    shown = f"{problem!r} {describe(problem)} {''.join(traceback.format_exception(problem))}"
    assert KEY not in shown and "base64" not in shown and "iVBOR" not in shown


@pytest.mark.parametrize("name", [name for name, _, _, retryable in ALWAYS if retryable and name != "huge"])
def test_a_fault_that_passes_is_invisible(name):
    with ModelServer(first_then(Fault(name), 2)) as server:
        reply = ask(server, LOOK)
    assert reply.attempts == 3 and reply.text.startswith("Once upon")


@pytest.mark.parametrize("name", ["hang", "slow_body"])
@pytest.mark.parametrize(("seconds", "deadline", "sent"), [(QUICK.request_timeout, None, 3), (50.0, 50.0, 1)])
def test_a_server_that_is_too_slow_for_an_attempt_or_for_all_of_them(name, seconds, deadline, sent):
    def respond(call):
        loop.put_on(seconds)
        return Fault(name)

    loop = PutOnLoop()
    with ModelServer(respond) as server:
        problem = fails(server, ChatRequest(HELLO.messages, timeout=deadline), loop=loop)
        assert (problem.code, server.requests) == ("timeout", sent)
        assert server.wait_for(lambda: server.open_connections == 0)


@pytest.mark.parametrize("url", ["", "http://no-such-host.invalid/v1"])
def test_nobody_listens(url):
    assert fails(None, urls=[url or refused_url()]).code == "unreachable"


def test_not_http_at_all():
    with ModelServer() as server:
        problem = fails(server, urls=[server.url.replace("http:", "https:")])
    assert problem.code == "unreachable" and "TLS" in str(problem)


@pytest.mark.parametrize("after", ["0", "0.01", "-5", "soon", "Thu, 01 Jan 1970 00:00:00 GMT"])
def test_retry_after_of_all_kinds(after):
    with ModelServer(first_then(Fault("429", retry_after=after))) as server:
        assert ask(server).attempts == 2


def test_retry_after_an_hour_is_reported_at_once():
    with ModelServer(lambda call: Fault("429", retry_after="3600")) as server:
        problem = fails(server)
    assert problem.code == "rate_limited" and 3590 < problem.retry_after <= 3600 and server.requests == 1


def test_a_redirect_is_not_followed_with_the_key():
    with ModelServer() as thief:
        target = {"Location": f"{thief.url}/chat/completions"}
        with ModelServer(lambda call: Answer(b"", 307, target)) as server:
            fails(server, settings=replace(QUICK, api_key=KEY))
        assert thief.requests == 0


# ---- many endpoints, many faults


async def test_others_take_over_from_a_dead_endpoint():
    with ModelServer() as live, ModelServer() as dead:
        async with opened(dead.url, live.url, refused_url()) as model:
            replies = await asyncio.gather(*(model.ask(HELLO) for _ in range(50)))
            dead.refuse()
            replies += await asyncio.gather(*(model.ask(HELLO) for _ in range(50)))
            dead.listen()
        assert live.requests + dead.requests == len(replies) == 100
    assert {reply.endpoint for reply in replies[50:]} == {f"127.0.0.1:{live.port}"}


BAD = ["reset", "truncated", "garbage", "empty", "html", "null", "no_choices", "429", "500", "503", "context"]


async def test_half_of_all_requests_fail_and_nothing_is_lost_or_doubled():
    chance = random.Random(7)
    answered = Counter()
    lock = threading.Lock()

    def respond(call):
        with lock:
            if chance.random() < 0.5:
                return Fault(chance.choice(BAD))
            answered[call.text] += 1
            return f"echo {call.text}"

    async def one(number):
        try:
            return await model.ask(ChatRequest((Message.of("user", f"question {number}"),), timeout=500.0))
        except ModelError as problem:
            return problem

    with ModelServer(respond) as a, ModelServer(respond) as b, ModelServer(respond) as c:
        async with opened(a.url, b.url, c.url) as model:
            results = await asyncio.gather(*map(one, range(300)))
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert all(server.wait_for(lambda server=server: server.open_connections == 0) for server in (a, b, c))
    for number, result in enumerate(results):
        if isinstance(result, Reply):
            assert result.text == f"echo question {number}" and answered[f"question {number}"] == 1
        else:
            assert result.code in {"context_too_long", "bad_response", "server_error", "rate_limited", "unreachable"}
    assert sum(isinstance(result, Reply) for result in results) > 240
    assert all(endpoint.in_flight == 0 for endpoint in model.pool.endpoints)


async def test_cancellation_closes_its_connections():
    with ModelServer(lambda call: Fault("hang")) as server:
        async with opened(server.url, settings=EndpointSettings(start=32)) as model:
            tasks = [asyncio.create_task(model.ask(LOOK)) for _ in range(60)]
            await asyncio.to_thread(server.wait_for, lambda: server.in_flight == 32)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert asyncio.all_tasks() == {asyncio.current_task()}
            assert model.pool.endpoints[0].in_flight == 0 and model._budget.held == 0
            assert await asyncio.to_thread(server.wait_for, lambda: server.open_connections == 0)


async def test_bytes_in_flight_are_bounded():
    large = ChatRequest((Message.of("user", ImagePart(bytes(750_000), "image/png"), "?"),))
    settings = EndpointSettings(start=16, bytes_in_flight=2_500_000)
    with ModelServer(latency=500.0) as server:
        async with opened(server.url, settings=settings) as model:
            asked = asyncio.gather(*(model.ask(large) for _ in range(16)))
            for number in range(2, 17, 2):
                arrived = partial(lambda number: server.requests == number and server.in_flight == 2, number)
                assert await asyncio.to_thread(server.wait_for, arrived)
                server.let_pass(server.latency)
            await asked
        assert server.peak == 2 and server.requests == 16


# ---- images that are sent once


def looks(number):
    return ChatRequest((Message.of("user", ImagePart(b"image %d" % number, "image/png"), "?"),))


def run_with(server, questions, respond=None, **settings):
    """Probe, then answer as told, ask one question after the other, and return the replies and what it can do."""

    async def main():
        async with opened(server.url, settings=replace(QUICK, **settings)) as model:
            await model.probe()
            server.calls.clear()
            server.respond = respond
            return [await model.ask(question) for question in questions], model.capabilities[0]

    return asyncio.run(main())


def left_out(server):
    """For each request, whether the bytes of its image were left out."""
    return [call.images[0][0] is None for call in server.calls]


@pytest.mark.parametrize("once", [True, False])
def test_an_image_is_sent_once_if_wanted(once):
    with ModelServer() as server:
        run_with(server, [looks(1), looks(1), looks(2), looks(1)], send_once=once)
        assert left_out(server) == [False, once, False, once]


def test_an_image_that_was_forgotten_is_sent_again():
    with ModelServer() as server:

        def forget_once(call):
            if len(server.calls) == 2:
                server.cached.clear()

        replies, can = run_with(server, [looks(1), looks(1), looks(1)], forget_once, send_once=True)
        assert left_out(server) == [False, True, False, True]
        assert [reply.attempts for reply in replies] == [1, 1, 1] and can.send_once


def test_a_server_that_keeps_forgetting_is_sent_everything():
    with ModelServer() as server:

        def forget(call):
            server.cached.clear()

        replies, can = run_with(server, [looks(1)] * 20, forget, send_once=True)
        assert len(replies) == 20 and not can.send_once and not any(left_out(server)[-8:])


# ---- fields that a model refuses


def refusal(field, code="unsupported_parameter"):
    error = {"message": f"'{field}' is not supported.", "type": "invalid_request_error", "param": field, "code": code}
    return Answer(json.dumps({"error": error}).encode(), 400)


FULL = ChatRequest(HELLO.messages, seed=0, schema={"type": "object"}, top_logprobs=2)


@pytest.mark.parametrize("request_", [HELLO, FULL])
@pytest.mark.parametrize("refused", [("max_tokens", "temperature"), ("response_format", "logprobs", "seed")])
async def test_fields_that_a_model_refuses_are_left_out_from_then_on(request_, refused):
    def respond(call):
        return next((refusal(field) for field in refused if field in call.json), None)

    with ModelServer(respond) as server:
        async with opened(server.url + "/chat/completions/", kind="openai") as model:
            for _ in range(3):
                assert (await model.ask(request_)).text
    first, last = server.calls[0].json, server.calls[-1].json
    sent = [field for field in refused if field in first]
    assert len(server.calls) == 3 + len(sent), "each field is refused once"
    assert not set(refused) & set(last) and last.get("max_completion_tokens", 0) == 2048 * ("max_tokens" in sent)


@pytest.mark.parametrize(
    "answer",
    [
        *(refusal(field) for field in ("max_tokens", "temperature", "messages")),
        refusal("max_tokens", "invalid_value"),
        Answer(b'{"error": "no"}', 400),
        Answer(b"[]", 400),
    ],
)
def test_a_refusal_that_stays_is_one_error(answer):
    with ModelServer(lambda call: answer) as server:
        assert fails(server).code == "bad_request" and len(server.calls) <= 2


# ---- opening


UNUSABLE = ["host:8000", "ftp://host/v1", "http://", "http://host:99999/v1", "http://user:sk-secret@host/v1"]
UNUSABLE += ["http://host/v1?key=sk-secret", "http://a b/v1", "http://" + "a" * 64 + "/v1", "http://[::1/v1"]


@pytest.mark.parametrize(
    "urls", [[], ["http://a/v1", "http://a/v1/"], ["http://a/v1", ""], *([url] for url in UNUSABLE)]
)
def test_addresses_that_cannot_be_used(urls):
    with pytest.raises(InputError) as caught:
        OpenAICompatibleModel("vllm", "m", urls)
    assert "sk-secret" not in str(caught.value) and caught.value.next_step


@pytest.mark.parametrize("key", ["two words", "new\nline", "schlüssel"])
def test_a_key_that_cannot_be_one(key):
    with pytest.raises(InputError) as caught:
        OpenAICompatibleModel("vllm", "m", ["http://a/v1"], EndpointSettings(api_key=key))
    assert key not in str(caught.value)


def test_an_address_without_a_path_means_v1():
    with ModelServer() as server:
        assert ask(server, urls=[f"http://127.0.0.1:{server.port}"]).text
        assert server.calls[0].path == "/v1/chat/completions"


def test_endpoints_of_one_host_are_told_apart():
    model = OpenAICompatibleModel("openai", "m", ["http://h/a", "http://h/b", "http://[::1]:80/v1", "http://bücher.de"])
    assert [endpoint.alias for endpoint in model.pool.endpoints] == ["h/a", "h/b", "[::1]:80", "xn--bcher-kva.de"]
    assert model.id == "openai:m"

import asyncio
import zlib

import pytest
from endpoint_parts import opened
from model_server import Answer, Fault, ModelServer, completion

from rewardharness.models.base import ChatRequest, Message
from rewardharness.models.limits import EndpointSettings
from rewardharness.models.probe import picture
from rewardharness.models.wire import Capabilities

CHOICE = ChatRequest((Message.of("user", picture(), "?"),), choices=("A", "B"), top_logprobs=2)


def probe(*servers, name="judge", key=None):
    async def main():
        async with opened(
            *(server.url for server in servers), name=name, settings=EndpointSettings(api_key=key)
        ) as model:
            return await model.probe()

    return asyncio.run(main())


def capabilities(**options) -> Capabilities:
    with ModelServer(**options) as server:
        (found,) = probe(server)
    assert found.error is None and found.endpoint == f"127.0.0.1:{server.port}"
    return found.capabilities


def test_the_picture_is_a_png():
    data = picture().data
    assert data.startswith(b"\x89PNG\r\n\x1a\n") and data.endswith(b"IEND\xaeB`\x82")
    start = data.index(b"IDAT") + 4
    assert len(zlib.decompressobj().decompress(data[start:])) == 64 * (1 + 3 * 64)


def test_a_server_that_does_everything():
    assert capabilities() == Capabilities(
        send_once=True, proven=True, models=("judge",), max_model_len=8192, fingerprint="local-1"
    )


def blind(call):
    call.json["messages"][0]["content"] = call.text


@pytest.mark.parametrize("respond", [blind, lambda call: Fault("bad_image") if call.images else None])
def test_images_that_are_dropped_or_refused_are_found_out(respond):
    assert not capabilities(respond=respond).vision


def test_an_image_that_is_named_and_ignored_is_no_image():
    """A server that drops a null image answers, but about nothing."""

    def forgetful(call):
        return completion("A", prompt_tokens=10 + 9 * sum(url is not None for url, _ in call.images))

    can = capabilities(respond=forgetful)
    assert can.vision and can.uuid and not can.send_once


@pytest.mark.parametrize(
    "tokens",
    [
        lambda call: 10 + 9 * len(call.images),  # any hash is accepted
        lambda call: 10 + 9 * sum(uuid is not None for _, uuid in call.images),  # the pixels are not looked at
    ],
)
def test_a_server_that_ignores_hashes_is_sent_pixels(tokens):
    can = capabilities(respond=lambda call: completion("A", prompt_tokens=tokens(call)))
    assert can.vision and not can.send_once


def test_a_constraint_that_only_seems_to_hold():
    assert not capabilities(respond=lambda call: '{"word": "sea"}').schema
    assert not capabilities(respond=lambda call: completion("zq-heron-18")).choice


async def test_what_was_found_is_used():
    with ModelServer(rejects=("uuid", "structured_outputs")) as server:
        async with opened(server.url) as model:
            await model.probe()
            server.calls.clear()
            await model.ask(CHOICE)
        (call,) = server.calls
        assert "structured_outputs" not in call.json and call.images[0][1] is None


@pytest.mark.parametrize("answer", [Answer(b'{"detail":"Not Found"}', 404), Answer(b'{"data": [1, null]}')])
def test_a_server_without_a_list_of_models(answer, monkeypatch):
    monkeypatch.setattr(ModelServer, "get", lambda server, path: answer)
    with ModelServer() as server:
        (found,) = probe(server)
    assert found.capabilities.models == () and found.capabilities.vision


def test_an_unknown_model_is_named_with_those_that_are_served():
    with ModelServer() as server:
        (found,) = probe(server, name="another")
    assert found.capabilities is None and found.error.code == "model_not_found"
    assert "'another'" in str(found.error) and "'judge'" in str(found.error)


def test_each_endpoint_is_reported():
    with ModelServer() as good, ModelServer(key="k") as locked, ModelServer() as dead:
        dead.refuse()
        results = probe(good, locked, dead)
    assert [result.error and result.error.code for result in results] == [None, "unauthorized", "unreachable"]

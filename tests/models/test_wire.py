import base64
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewardharness.files import sha256
from rewardharness.models.base import ChatRequest, ImagePart, Message, ModelError
from rewardharness.models.wire import OPENAI, VLLM, RequestBody, request_body

TEXT = st.text(st.characters(exclude_categories=("Cs",)))
PARTS = st.lists(st.one_of(TEXT, st.builds(ImagePart, st.binary(max_size=300), st.sampled_from(["image/png"]))))
MESSAGES = st.lists(st.builds(lambda role, parts: Message.of(role, *parts), st.sampled_from(["system", "user"]), PARTS))


def written(body: RequestBody) -> dict:
    data = b"".join(body.pieces())
    assert len(data) == body.size
    return json.loads(data)


def ask(*parts, **options) -> ChatRequest:
    return ChatRequest((Message.of("user", *parts),), **options)


@settings(max_examples=30)
@given(MESSAGES, st.text(min_size=1))
def test_a_body_is_what_was_asked(messages, model):
    body = request_body(ChatRequest(tuple(messages)), model.encode("utf-8", "ignore").decode(), VLLM)
    value = written(body)
    assert [message["role"] for message in value["messages"]] == [message.role for message in messages]
    for said, message in zip(value["messages"], messages, strict=True):
        content = said["content"]
        if isinstance(content, str):
            assert [content] == [part.text for part in message.parts]
            continue
        for got, part in zip(content, message.parts, strict=True):
            if isinstance(part, ImagePart):
                url = got["image_url"]["url"]
                assert url.startswith("data:image/png;base64,")
                assert base64.b64decode(url.partition(",")[2], validate=True) == part.data
                assert got["uuid"] == sha256(part.data)
            else:
                assert got == {"type": "text", "text": part.text}


@pytest.mark.parametrize("size", [0, 1, 2, 3, 196607, 196608, 196609, 1_000_000])
def test_images_of_every_size_arrive_whole(size):
    data = bytes(number * 7 % 256 for number in range(size))
    value = written(request_body(ask(ImagePart(data, "image/webp"), "?"), "m", OPENAI))
    url = value["messages"][0]["content"][0]["image_url"]["url"]
    assert base64.b64decode(url.partition(",")[2], validate=True) == data
    assert "uuid" not in value["messages"][0]["content"][0]


def test_a_body_is_never_in_memory_as_a_whole():
    body = request_body(ask(ImagePart(bytes(6_000_000), "image/png")), "m", VLLM)
    assert body.size > 8_000_000 and max(len(piece) for piece in body.pieces()) < 500_000


def test_small_bodies_go_out_in_one_piece():
    body = request_body(ask(*[ImagePart(bytes(12_000), "image/png")] * 3, "?"), "m", VLLM)
    assert len(list(body.pieces())) == 1


def test_options():
    schema = {"type": "object"}
    value = written(request_body(ask("hi", seed=7, stop=("x",), schema=schema, top_logprobs=5), "m", VLLM))
    assert value == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 2048,
        "temperature": 0.0,
        "stream": False,
        "seed": 7,
        "stop": ["x"],
        "response_format": {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema, "strict": True}},
        "logprobs": True,
        "top_logprobs": 5,
    }
    value = written(request_body(ask("hi", choices=("A", "B")), "m", VLLM))
    assert value["structured_outputs"] == {"choice": ["A", "B"]}
    assert "structured_outputs" not in written(request_body(ask("hi", choices=("A", "B")), "m", OPENAI))


def test_a_known_image_is_named_without_its_bytes():
    known, new = ImagePart(b"known", "image/png"), ImagePart(b"new", "image/png")
    body = request_body(ask(known, new, "?"), "m", VLLM, {known.sha256})
    first, second, _ = written(body)["messages"][0]["content"]
    assert first == {"type": "image_url", "image_url": None, "uuid": known.sha256}
    assert second["image_url"]["url"].startswith("data:") and second["uuid"] == new.sha256
    assert body.left_out == {known.sha256} and body.uuids == {known.sha256, new.sha256}


def test_an_image_is_always_called_by_its_own_hash():
    assert ImagePart(b"abc", "image/png").sha256 == sha256(b"abc")
    with pytest.raises(TypeError):
        ImagePart(b"abc", "image/png", "0" * 64)


@pytest.mark.parametrize(
    "request_",
    [ask("lone \ud800 surrogate"), ask("x", schema={"enum": [object()]}), ask("x", schema={}, choices=("A",))],
)
def test_what_cannot_be_written_is_an_error(request_):
    with pytest.raises(ModelError) as caught:
        request_body(request_, "m", VLLM)
    assert caught.value.code == "bad_request" and not caught.value.retryable

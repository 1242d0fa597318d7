import asyncio
import json
from collections.abc import MutableMapping
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from serving_parts import ReadyJudge, b64, picture, reward_of

from rewardharness.schema import Failure
from rewardharness.serving.body import LIFTED, ClientGoneError, Parsed, parse_body, read_body
from rewardharness.serving.faults import RefusedError
from rewardharness.serving.limits import Limits

LONG = "A" * 20_000


def put_back(value: Any, parsed: Parsed) -> Any:
    """The JSON as it was, with what was lifted out."""
    if isinstance(value, dict):
        if set(value) == {LIFTED}:
            lifted = parsed.lifted[value[LIFTED]]
            return lifted if isinstance(lifted, str) else bytes(lifted).decode()
        return {key: put_back(each, parsed) for key, each in value.items()}
    return [put_back(each, parsed) for each in value] if isinstance(value, list) else value


texts = st.one_of(st.text(), st.just(LONG), st.text(alphabet='\\"{}[]:,é').map(lambda text: text + LONG))
trees = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**60), 2**60), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)),
    max_leaves=12,
)


@settings(max_examples=40)
@given(trees, st.booleans())
@example(["\\" * 100 + '"' + LONG], True)
@example({'"\\': LONG, "b": ['\\"' * 6000, LONG]}, True)
def test_what_is_lifted_out_changes_nothing(tree: Any, spaced: bool) -> None:
    body = json.dumps(tree, ensure_ascii=False, indent=1 if spaced else None).encode()
    parsed = parse_body("application/json; charset=utf-8", body, Limits())
    assert put_back(parsed.tree, parsed) == tree


@given(st.binary(max_size=200))
def test_any_bytes_are_json_or_refused(noise: bytes) -> None:
    body = noise + b'"' + LONG.encode() + b'"' + noise
    try:
        parse_body("application/json", body, Limits())
    except RefusedError as error:
        assert error.status in {400, 413}


def test_images_stay_where_they_are() -> None:
    parsed = parse_body("application/json", json.dumps({"a": LONG, "b": "short"}).encode(), Limits())
    assert parsed.tree == {"a": {LIFTED: 0}, "b": "short"} and len(parsed.lifted[0]) == len(LONG)


names = st.text(alphabet="abcXYZ019._-", min_size=1, max_size=20).filter(lambda name: name != "request")
contents = st.binary(max_size=80) | st.sampled_from([b"", b"\r\n", b"\r\n--x", b"--xx--", b"\r\n--x-y\r\n\r\n"])


@settings(max_examples=40)
@given(st.dictionaries(names, contents.filter(lambda data: b"\r\n--bound" not in data), max_size=5))
def test_parts_come_out_as_they_went_in(parts: dict[str, bytes]) -> None:
    body = b'--bound\r\nContent-Disposition: form-data; name="request"\r\n\r\n{"a": 1}'
    for name, data in parts.items():
        body += b'\r\n--bound\r\nContent-Type: image/png\r\nContent-Disposition: form-data; filename="f.png"; name="'
        body += name.encode() + b'"\r\n\r\n' + data
    for boundary in ("bound", '"bound"'):
        parsed = parse_body(f"multipart/form-data; boundary={boundary}", body + b"\r\n--bound--\r\n", Limits())
        assert parsed.tree == {"a": 1} and parsed.parts == parts


@given(st.binary(max_size=300))
def test_any_bytes_are_parts_or_refused(noise: bytes) -> None:
    for body in (
        noise,
        b"--b" + noise + b"\r\n--b--",
        b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n' + noise,
    ):
        with pytest.raises(RefusedError) as caught:
            parse_body("multipart/form-data; boundary=b", body, Limits())
        assert caught.value.status in {400, 413}


@pytest.mark.parametrize(
    "body",
    [
        b'--b\r\nContent-Disposition: form-data; name="request"\r\n\r\n{}\r\n'
        b'--b\r\nContent-Disposition: form-data; name="request"\r\n\r\n{}\r\n--b--',
        b'--b\r\nContent-Disposition: form-data; name="../x"\r\n\r\n{}\r\n--b--',
        b'--b\r\nContent-Disposition: form-data; name="request"' + b" " * 5000 + b"\r\n\r\n{}\r\n--b--",
        b"--b\r\n\r\n{}\r\n--b--",
    ],
)
def test_parts_without_a_name_of_their_own_are_refused(body: bytes) -> None:
    with pytest.raises(RefusedError) as caught:
        parse_body("multipart/form-data; boundary=b", body, Limits())
    assert caught.value.status == 400


def test_too_many_parts_or_too_much_text_is_too_much() -> None:
    part = b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n'
    for kind, body in (
        ("multipart/form-data; boundary=b", part * 3000 + b"--b--"),
        ("application/json", b'{"a": "' + b'\\"' * (5 << 20) + b'"}'),
    ):
        with pytest.raises(RefusedError) as caught:
            parse_body(kind, body, Limits())
        assert caught.value.status == 413


class Channel:
    """An ASGI channel that says what it is told; at the end nothing more comes."""

    def __init__(self, *messages: MutableMapping[str, Any]) -> None:
        self._messages = list(messages)

    async def __call__(self) -> MutableMapping[str, Any]:
        if not self._messages:
            await asyncio.get_running_loop().create_future()
        return self._messages.pop(0)


async def no_wait(size: int) -> None:
    """There is always room."""


def piece(data: bytes, more: bool = True) -> MutableMapping[str, Any]:
    return {"type": "http.request", "body": data, "more_body": more}


def test_a_body_is_read_in_pieces_up_to_the_limit() -> None:
    limits = Limits(body_bytes=10, read_seconds=0.01)

    def read(*messages: MutableMapping[str, Any]) -> bytes:
        return asyncio.run(read_body(Channel(*messages), no_wait, limits))

    assert read(piece(b"12345"), piece(b"67890", more=False)) == b"1234567890"
    with pytest.raises(RefusedError) as too_large:
        read(piece(b"12345"), piece(b"678901"))
    with pytest.raises(RefusedError) as too_slow:
        read(piece(b"1"))
    with pytest.raises(ClientGoneError):
        read(piece(b"1"), {"type": "http.disconnect"})
    assert (too_large.value.status, too_slow.value.status) == (413, 408)


BEFORE, BAD = picture(1), picture(66)


@pytest.fixture(scope="module")
def judge() -> ReadyJudge:
    """A judge that fails on one image."""
    lost = Failure("timeout", "It took too long.")
    return ReadyJudge(lambda example: lost if example.candidates[0].data == BAD else None)


def test_an_internal_error_is_told_without_its_text(server, monkeypatch):
    async def broken(*_: object) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr(server.service, "answer", broken)
    for path in ("/score", "/unirl/score", "/flow_factory/compute"):
        reply = server.post(path, {})
        assert (reply.status, reply.code) == (500, "defect") and b"secret" not in reply.body


def turn(image: bytes | None, text: str = "make it red") -> dict:
    return {"text": text, **({} if image is None else {"image_b64": b64(image)})}


def edit(edited: bytes | None, **more: object) -> dict:
    return {"history": [turn(BEFORE), turn(edited)], "required_rewards": ["rewardharness"], "metadata": {}, **more}


def requests(*edits: object) -> dict:
    return {"requests": list(edits)}


def test_unirl_gets_rewards_and_errors_by_name(server):
    said = server.post("/unirl/score", requests(edit(picture(2)), edit(BAD))).json
    assert said["results"][0]["rewardharness"]["reward"] == pytest.approx(reward_of(picture(2)))
    assert set(said["results"][0]["rewardharness"]) == {"reward", "instruction_following", "visual_quality"}
    assert said["results"][1] == {} and said["errors"][1]["rewardharness"].startswith("timeout: ")
    assert said["errors"][0] == {}


UNIRL = [
    (requests(edit(picture(2), required_rewards=["EditReward"])), "requests[0].required_rewards"),
    (requests(edit(picture(2), history=[turn(BEFORE)])), "two turns"),
    (requests(edit(None)), "history[1] has no image_b64"),
    (requests(edit(picture(2), history="x")), "two turns"),
    (requests("x"), "requests[0] is no object"),
    *((body, "no list of edits") for body in ({}, [], None, {"requests": []})),
]
FLOW_FACTORY = [
    ([], "prompt is no list"),
    ({"prompt": ["a"], "image": ["x"], "condition_images": None}, "condition_images is no list"),
    ({"prompt": ["a"], "image": ["x"], "condition_images": [[]]}, "condition_images[0] does not begin"),
    ({"prompt": ["a"], "image": ["x"], "condition_images": []}, "1 images, 1 prompts and 0 condition_images"),
    ({"prompt": [], "image": [], "condition_images": []}, "0 images"),
    ({"prompt": [3], "image": ["x"], "condition_images": [["x"]]}, "instruction"),
]


@pytest.mark.parametrize(
    ("path", "wrong", "said"),
    [*(("/unirl/score", *row) for row in UNIRL), *(("/flow_factory/compute", *row) for row in FLOW_FACTORY)],
)
def test_unirl_and_flow_factory_are_told_what_is_wrong(server, path, wrong, said):
    reply = server.post(path, wrong)
    assert reply.status == 422 and said in reply.json["error"]["message"]

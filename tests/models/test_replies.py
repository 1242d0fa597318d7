import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_server import completion

from rewardharness.models.base import ChatRequest, Message, ModelError, Reply
from rewardharness.models.faults import CacheMissError, read_error
from rewardharness.models.raw import RawReply, read_retry_after
from rewardharness.models.replies import read_reply

ASKED = ChatRequest((Message.of("user", "?"),), top_logprobs=3)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.integers(19, 300).map(lambda digits: 10**digits)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def read(value, request=ASKED) -> Reply:
    return read_reply(RawReply("host", 200, json.dumps(value).encode()), request)


def test_a_reply():
    value = completion("A because", prompt_tokens=42, top_logprobs=3)
    value["usage"]["prompt_tokens_details"] = {"cached_tokens": 32}
    reply = read(value)
    assert (reply.text, reply.finish_reason, reply.model, reply.fingerprint) == (
        "A because",
        "stop",
        "judge",
        "local-1",
    )
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cached_tokens) == (42, 2, 32)
    assert list(reply.top_logprobs[0].items()) == [("A", -0.25), ("A1", -2.5), ("A2", -3.5)]
    assert len(reply.top_logprobs) == 2


def test_what_a_server_does_not_tell_is_zero_or_empty():
    reply = read({"choices": [{"message": {"content": "x"}}]})
    assert reply == Reply("x", finish_reason="", endpoint="host")


ODD = [{"token": "A", "logprob": "-0.1", "top_logprobs": []}]
TRUE = [{"token": "A", "logprob": -0.1, "top_logprobs": [{"token": "B", "logprob": False}]}]


@pytest.mark.parametrize("count", [-1, True, "7", 7.0, 10**9 + 1, 2**63, 2**64, 1e300, None])
def test_counts_of_tokens_that_cannot_be_are_zero(count):
    usage = {"prompt_tokens": count, "completion_tokens": count, "prompt_tokens_details": {"cached_tokens": count}}
    found = read({"choices": [{"message": {"content": "x"}}], "usage": usage}).usage
    assert (found.input_tokens, found.output_tokens, found.cached_tokens) == (0, 0, 0)


def test_logprobs_that_are_missing_are_empty_and_broken_ones_are_an_error():
    value = completion("A", top_logprobs=2)
    value["choices"][0]["logprobs"] = None
    assert read(value).top_logprobs == ()
    for rows in ([{"token": "A"}], [{"token": "A", "logprob": "x", "top_logprobs": []}], [None], 7, ODD, TRUE):
        value["choices"][0]["logprobs"] = {"content": rows}
        with pytest.raises(ModelError, match="log-probabilities"):
            read(value)


@pytest.mark.parametrize(
    "logprobs",
    [
        {"content": [{"token": "A", "logprob": -0.1, "top_logprobs": [{"token": "B", "logprob": -2.4}]}]},
        {"tokens": ["A"], "token_logprobs": [-0.1], "top_logprobs": [{"B": -2.4, "A": -0.1}]},
    ],
)
def test_both_forms_of_logprobs_are_read(logprobs):
    value = completion("A")
    value["choices"][0]["logprobs"] = logprobs
    assert read(value).top_logprobs == ({"A": -0.1, "B": -2.4},)
    value["choices"][0]["logprobs"] = {"content": [{"token": "A", "logprob": -0.1, "top_logprobs": None}]}
    assert read(value).top_logprobs == ({"A": -0.1},)


PARTS = ["message", "logprobs", "finish_reason"]


@settings(max_examples=60)
@given(st.sampled_from(["", "choices", "usage", "model", "system_fingerprint", *PARTS]), JSON)
def test_any_reply_and_any_field_may_be_anything(name, value):
    reply = completion("A", top_logprobs=2)
    if name in PARTS:
        reply["choices"][0][name] = value
    try:
        found = read(reply | ({name: value} if name and name not in PARTS else {}) if name else value)
    except ModelError as problem:
        assert name in {"", "choices", *PARTS} and problem.code in {"bad_response", "refused", "server_error"}
    else:
        assert isinstance(found.text, str) and found.usage.input_tokens >= 0


@given(st.binary())
def test_any_bytes_are_an_error(data):
    with pytest.raises(ModelError):
        read_reply(RawReply("host", 200, data), ASKED)


def test_a_miss_of_the_image_cache_is_told_apart():
    text = b'{"error":{"message":"Cache miss for image at index 0 but data is not provided."}}'
    assert isinstance(read_error(RawReply("host", 400, text)), CacheMissError)
    assert not isinstance(read_error(RawReply("host", 500, text)), CacheMissError)


@given(st.integers(100, 599), st.binary(max_size=200))
def test_any_status_with_any_body_is_an_error_that_quotes_nothing(status, data):
    problem = read_error(RawReply("host", status, b"sk-secret " + data))
    assert "sk-secret" not in f"{problem} {problem.next_step}"


DATE = "Thu, 01 Jan 1970 00:{}:{} GMT"
WAITS = {"0": 0.0, "2.5": 2.5, "3600": 3600.0, DATE.format("16", "50"): 10.0, DATE.format("00", "00"): 0.0}
NO_WAITS = [None, "-5", "soon", "nan", "inf", "Thu, 99 Jan 1970 00:00:00 GMT", ""]


@pytest.mark.parametrize("value", [*WAITS, *NO_WAITS])
def test_retry_after(value):
    assert read_retry_after(value, now=1000.0) == WAITS.get(value)


@given(st.text())
def test_retry_after_of_any_text(value):
    seconds = read_retry_after(value, now=1000.0)
    assert seconds is None or 0 <= seconds < float("inf")

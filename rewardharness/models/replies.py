"""Parse replies of OpenAI-compatible servers strictly.

Every reply becomes a `Reply` or a `ModelError`. Error messages never quote the server, which may repeat keys, prompts
or images.
"""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import orjson

from rewardharness.codec import finite
from rewardharness.models.base import ChatRequest, ErrorCode, ModelError, Reply, TokenUsage


class CacheMissError(ModelError):
    """The server does not have an image that was referenced by its `uuid` alone."""


class FieldRefusedError(ModelError):
    """The model rejects a field that other models need, such as OpenAI's reasoning models.

    Args:
        alias: The endpoint's name for messages.
        field: `max_tokens` or `temperature`.
    """

    def __init__(self, alias: str, field: str) -> None:
        super().__init__("bad_request", f"{alias} answered 400: it does not accept the field {field}.", status=400)
        self.field = field


_REASONS: tuple[tuple[str, ErrorCode, str], ...] = (
    (r"context.length|context_length|max_model_len|maximum.*tokens|too many tokens|prompt is too long|longer than the "
     r"maximum", "context_too_long", "prompt and reply exceed the model's context length"),
    (r"api key not valid|api_key_invalid|invalid_api_key", "unauthorized", "the key is wrong"),
    (r"content_policy|content_filter|content management policy", "refused", "a content filter declined the request"),
    (r"json.?schema|grammar|structured|response_format", "bad_request", "the server does not support the schema"),
    (r"at most \d+ (image|multimodal)", "bad_request", "the request has more images than the server allows"),
    (r"identify image|(decode|load|invalid).{0,20}image|image.{0,40}(corrupt|invalid|truncated)|not a multimodal|"
     r"image input|support image", "bad_request", "the server cannot process an image"),
    (r"logprobs", "bad_request", "the server does not support this many log-probabilities"),
    (r"uuid|unexpected field|extra.{0,10}(field|input|forbidden)|unrecognized|unknown (field|parameter)", "bad_request",
     "the server does not support a field of the request"),
)  # fmt: skip
"""Patterns in bodies of status 400, in lowercase, with their meaning. The first match counts."""

_MOST_TOKENS = 10**9

_MISS = re.compile(r"cache miss.{0,60}(not provided|missing)", re.IGNORECASE)


def read_error(alias: str, status: int, data: bytes, retry_after: float | None, model: str) -> ModelError:
    """Return the error for a status other than 200.

    Args:
        alias: The endpoint's name for messages.
        status: The HTTP status.
        data: The beginning of the body; never quoted in messages.
        retry_after: Seconds that the server asks to wait.
        model: The requested model.
    """
    text = data[:20_000].decode("utf-8", "replace")
    if status in {401, 403}:
        what = "the key is missing or wrong" if status == 401 else "the key lacks permission"
        return ModelError("unauthorized", f"{alias} answered {status}: {what}.", status=status)
    if status == 402:
        step = "Add credit in the billing settings of the account, or choose another model or provider."
        return ModelError("unauthorized", f"{alias} answered 402: no credit is left.", status=status, next_step=step)
    if status == 404:
        message = f"{alias} answered 404: it does not serve {model!r} at this address."
        return ModelError("model_not_found", message, status=status)
    if status in {429, 529}:
        if "insufficient_quota" in text:
            message, step = f"{alias} answered {status}: the account's quota is used up.", "Raise the quota."
            return ModelError("unauthorized", message, status=status, next_step=step)
        message = f"{alias} answered {status}: too many requests."
        return ModelError("rate_limited", message, status=status, retry_after=retry_after)
    if status == 408:
        return ModelError("timeout", f"{alias} answered 408: the request took too long to arrive.", status=status)
    if status >= 500:
        message = f"{alias} answered {status}: the server failed."
        return ModelError("server_error", message, status=status, retry_after=retry_after)
    if 300 <= status < 400:
        message, step = f"{alias} answered {status}: redirects are not followed.", "Use the final address."
        return ModelError("bad_request", message, status=status, next_step=step)
    if status == 413:
        message, step = f"{alias} answered 413: the request is too large.", "Use fewer or smaller images."
        return ModelError("bad_request", message, status=status, next_step=step)
    if status == 400 and (field := _refused_field(data)):
        return FieldRefusedError(alias, field)
    if status == 400 and _MISS.search(text):
        return CacheMissError("bad_request", f"{alias} no longer has an image that was sent before.", status=status)
    lowered = text.lower()
    for pattern, code, reason in _REASONS:
        if re.search(pattern, lowered):
            return ModelError(code, f"{alias} answered {status}: {reason}.", status=status)
    return ModelError("bad_request", f"{alias} answered {status}: it does not accept the request.", status=status)


def _refused_field(data: bytes) -> str | None:
    """Return the unsupported field of OpenAI's error object if it can be omitted."""
    try:
        error = orjson.loads(data)["error"]
        code, field = str(error["code"]), error["param"]
    except (orjson.JSONDecodeError, KeyError, TypeError, IndexError):
        return None
    return field if code.startswith("unsupported_") and field in {"max_tokens", "temperature"} else None


def read_retry_after(value: str | None, now: float) -> float | None:
    """Parse the header Retry-After.

    Args:
        value: Seconds or an HTTP date.
        now: Unix time in seconds, for dates.

    Returns:
        Seconds to wait, 0 or more; None if the value is invalid.
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - now
        except (ValueError, TypeError, OverflowError):
            return None
        return max(0.0, seconds)
    return seconds if finite(seconds) is not None and seconds >= 0 else None


def read_reply(alias: str, data: bytes, request: ChatRequest) -> Reply:
    """Parse the body of a status 200.

    Args:
        alias: The endpoint's name for messages.
        data: The whole body.
        request: The request.

    Raises:
        ModelError: `refused` if the model or a filter declined, `bad_response` if it is not a chat completion.
    """
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise _bad(alias, "it is not JSON") from None
    if not isinstance(value, dict):
        raise _bad(alias, "it is not a JSON object")
    choices = value.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise _bad(alias, "it has no choices")
    choice = choices[0]
    message = choice.get("message")
    if not isinstance(message, dict):
        raise _bad(alias, "it has no message")
    finish = choice.get("finish_reason")
    if message.get("refusal") or finish == "content_filter":
        what = "a content filter stopped the reply" if finish == "content_filter" else "the model declined"
        raise ModelError("refused", f"{alias}: {what}.", status=200)
    text = message.get("content")
    if text is None and finish == "length":
        text = ""  # all tokens were hidden reasoning
    if not isinstance(text, str):
        raise _bad(alias, "its message has no text")
    return Reply(
        text=text,
        finish_reason=finish if isinstance(finish, str) else "",
        usage=_usage(value.get("usage")),
        top_logprobs=_logprobs(alias, choice.get("logprobs")) if request.top_logprobs else (),
        model=_word(value.get("model")),
        fingerprint=_word(value.get("system_fingerprint")),
        endpoint=alias,
    )


def _bad(alias: str, what: str) -> ModelError:
    return ModelError("bad_response", f"{alias} sent an invalid reply: {what}.", status=200)


def _usage(value: Any) -> TokenUsage:
    if not isinstance(value, dict):
        return TokenUsage()
    details = value.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else 0
    return TokenUsage(
        read_count(value.get("prompt_tokens")), read_count(value.get("completion_tokens")), read_count(cached)
    )


def read_count(value: Any) -> int:
    """Return a token count, 0 if it is not a plausible number."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS else 0


def _word(value: Any) -> str:
    """Return a name from the server as printable text."""
    if not isinstance(value, str):
        return ""
    return value if len(value) <= 200 and value.isprintable() else "".join(filter(str.isprintable, value[:200]))


def _logprobs(alias: str, value: Any) -> tuple[Mapping[str, float], ...]:
    """Return the log-probabilities of each token, most likely first."""
    rows = value.get("content") if isinstance(value, dict) else None
    if rows is None:
        return ()
    try:
        return tuple(_row([row, *row["top_logprobs"]]) for row in rows)
    except (TypeError, KeyError, ValueError):
        raise _bad(alias, "its log-probabilities are invalid") from None


def _row(entries: list[Any]) -> Mapping[str, float]:
    """Return the alternatives of one token; the chosen token comes first and usually again among the others."""
    found: dict[str, float] = {}
    for entry in entries:
        token, logprob = entry["token"], finite(entry["logprob"])
        if not isinstance(token, str) or logprob is None:
            raise ValueError
        found[token] = max(logprob, found.get(token, logprob))
    return dict(sorted(found.items(), key=lambda item: -item[1]))

"""Read everything that OpenAI-compatible servers answer: one reader for every body, whatever its status."""

import re
from collections.abc import Mapping
from typing import Any

import orjson

from rewardharness.codec import finite
from rewardharness.models.base import FINISHED, ChatRequest, ModelError, Reply, TokenUsage
from rewardharness.models.faults import read_error
from rewardharness.models.raw import RawReply, part_text, printable, read_document

_MOST_TOKENS = 10**9


def read_reply(raw: RawReply, request: ChatRequest) -> Reply:
    """Read the answer to a request.

    Args:
        raw: The answer.
        request: The request.

    Raises:
        ModelError: If it is an error or no chat completion, or the model or a filter declined.
    """
    if not 200 <= raw.status < 300:
        raise read_error(raw)
    try:
        value = read_document(raw)
    except ValueError as error:
        raise _bad(raw, str(error)) from None
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, dict):
        raise _bad(raw, "it is not a JSON object")
    choices = value.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        if {"error", "errors", "message", "detail", "code", "base_resp"}.isdisjoint(value):
            raise _bad(raw, "it has no choices")
        raise read_error(raw, value)
    if failure := value.get("error") or choice.get("error"):
        raise read_error(raw, failure)
    message = choice.get("message") or choice.get("delta") or {"content": choice.get("text")}
    if not isinstance(message, dict):
        raise _bad(raw, "it has no message")
    said = message.get("content")
    parts = [part for part in said if isinstance(part, dict)] if isinstance(said, list) else []
    if message.get("refusal") or any(part.get("type") == "refusal" for part in parts):
        raise ModelError("refused", f"{raw.alias}: the model declined.", status=raw.status)
    native = choice.get("native_finish_reason")
    finish = read_finish(raw, choice.get("finish_reason") or native)
    if finish in FINISHED and str(native).lower() in _CUT:
        finish = "length"
    text = _text(raw, message, finished=finish in FINISHED)
    for end in request.stop:  # some servers ignore or refuse `stop`
        text, cut, _ = text.partition(end)
        finish = "stop" if cut else finish
    return Reply(
        text=text,
        finish_reason=finish,
        usage=_usage(value.get("usage")),
        top_logprobs=_logprobs(raw, choice.get("logprobs")) if request.top_logprobs else (),
        model=printable(value.get("model")),
        fingerprint=printable(value.get("system_fingerprint")),
        endpoint=raw.alias,
    )


_REFUSALS = re.compile(
    r"filter|safety|sensitive|recitation|block|prohibit|spii|refus|guardrail|moderation|flag|escalat"
)
_FAILURES = re.compile(r"error|network|insufficient|timeout|time_out|fail|unavailable|overload")
_CUT = frozenset({"length", "model_length", "max_tokens", "max_length", "max_output_tokens", "max_completion_tokens"})


def read_finish(raw: RawReply, reason: Any) -> str:
    """Return the finish reason: `stop` for a finished reply, `length` for one truncated at a limit, or another word.

    Only `FINISHED` means that a reply is complete, whatever its case; an unknown reason means that it is truncated.

    Args:
        raw: The answer, for messages.
        reason: The reason that the server gives.

    Raises:
        ModelError: If the model or a filter declined, or the server failed.
    """
    reason = reason.get("type") if isinstance(reason, dict) else reason
    word = printable(str(reason or "")).lower().removeprefix("finishreason.").removeprefix("finish_reason_")
    if _REFUSALS.search(word):
        raise ModelError("refused", f"{raw.alias}: the reply was stopped ({word[:40]}).", status=raw.status)
    if _FAILURES.search(word):
        raise raw.error("server_error", f"the server broke the reply off ({word[:40]})")
    return "length" if word in _CUT else "stop" if word and word in FINISHED else word


def _text(raw: RawReply, message: Mapping[str, Any], *, finished: bool) -> str:
    """Return the text of a message; empty for one that was truncated before it.

    Some servers file the whole reply under reasoning. It counts only if nothing in it can be a draft: what follows the
    end of the reasoning, or a text that is one JSON object.
    """
    text = part_text(message.get("content"))
    if (text and text.strip()) or not finished:
        return text or ""
    name = next((key for key in ("reasoning_content", "reasoning") if isinstance(message.get(key), str)), None)
    reasoning = message[name].strip() if name else ""
    if not reasoning:
        if text is None:
            raise _bad(raw, "its message has no text")
        return text
    answer = reasoning.rpartition("</think>")[2].strip()
    try:
        if answer and (answer != reasoning or isinstance(orjson.loads(answer), dict)):
            return str(answer)
    except orjson.JSONDecodeError:
        pass
    raise _bad(raw, f"its message has reasoning ({name}) and no text")


def _bad(raw: RawReply, what: str) -> ModelError:
    return ModelError("bad_response", f"{raw.alias} sent an invalid reply: {what}.", status=raw.status)


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


def _logprobs(raw: RawReply, value: Any) -> tuple[Mapping[str, float], ...]:
    """Return the log-probabilities of each token, most likely first.

    Some servers give a mapping per token, as in the older API for completions.
    """
    given = value if isinstance(value, dict) else {}
    try:
        rows = [[row, *(row.get("top_logprobs") or ())] for row in given.get("content") or ()]
        mappings = () if rows else given.get("top_logprobs") or ()
        rows += [[{"token": token, "logprob": each} for token, each in row.items()] for row in mappings]
        return tuple(map(_row, rows))
    except (TypeError, KeyError, ValueError, AttributeError):
        raise _bad(raw, "its log-probabilities are invalid") from None


def _row(entries: list[Any]) -> Mapping[str, float]:
    """Return the alternatives of one token; the chosen token comes first and usually again among the others."""
    logprobs: dict[str, float] = {}
    for entry in entries:
        token, logprob = entry["token"], finite(entry["logprob"])
        if not isinstance(token, str) or logprob is None:
            raise ValueError
        logprobs[token] = max(logprob, logprobs.get(token, logprob))
    return dict(sorted(logprobs.items(), key=lambda item: -item[1]))

"""Errors of model servers, recognized by tables: servers differ in how they word a fault and where they put it.

Messages quote the server's own message shortened, on one line, without keys, data URIs and other long words.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rewardharness.models.base import ErrorCode, ModelError
from rewardharness.models.raw import RawReply, read_document


class CacheMissError(ModelError):
    """The server does not have an image that was referenced by its `uuid` alone."""


class FieldRefusedError(ModelError):
    """The server rejects a field of the request that can be omitted.

    Args:
        message: See `ModelError`.
        status: The HTTP status.
        refused: Name of the field.
    """

    def __init__(self, message: str, status: int, refused: str) -> None:
        super().__init__("bad_request", message, status=status)
        self.field = refused


_Signature = tuple[str, ErrorCode, str, str | None]
"""Regular expression over the texts of an error in lowercase, and its meaning: code, problem and next step."""

_TOO_LONG = "prompt and reply exceed the model's context length"
_NO_CREDIT = "Add credit in the billing settings of the account, or choose another model or provider."
_NO_CHAT = "there is no chat endpoint at this address"

_LIMITS: tuple[_Signature, ...] = (
    (r"insufficient_quota", "unauthorized", "the account's quota is used up", "Raise the quota."),
    (r"insufficient.{0,10}(credit|balance|fund)|credit balance|billing hard limit|余额",
     "unauthorized", "no credit is left", _NO_CREDIT),
    (r"context.?(length|size|window).{0,9}exceed|exceed.{0,40}context|maximum context|request too large for|"
     r"reduce the (length|number of tokens)|tokens must be reduced", "context_too_long", _TOO_LONG, None),
)  # fmt: skip
"""Faults that no later try can repair, although their status may say "too many requests"."""

_BEFORE_FIELDS: tuple[_Signature, ...] = (
    *_LIMITS,
    (r"api key not valid|api_key_invalid|(incorrect|invalid).api.key", "unauthorized", "the key is wrong", None),
    (r"at most \d+ (image|multi)|too many images|only (one|\d+) images?|images?\b.{0,30}(more than|at most|up to|"
     r"limit)|(number of|input) images.{0,30}exceed|(maximum|most|limit|up to)( number)?( of)?( \d+)? images",
     "bad_request",
     "the request has more images than the server allows", "Allow more, or compare fewer candidates at once."),
    (r"max_model_len|max_(seq|input|total|prompt)\w*(len|tokens)|context.?(length|size|window|limit|the overflows)|"
     r"longer than the (maximum|model|context)|prompt.{0,30}too (long|large|many)|input.{0,30}too long|"
     r"too many (input |prompt )?tokens|token (count|limit)|maximum (prompt|input|sequence|number of tokens)|"
     r"(input|prompt|sequence|token)s?\b.{0,60}(exceed|longer than|greater than the|too large for|less than \d)|"
     r"exceed.{0,40}(token|max(imum)? (length|input))|inputs`? tokens \+|range of input length|current length is|"
     r"max_\w*tokens.{0,60}(must|should) be.{0,20}((at least|than|to|>|>=) ?[01]\b|positive)|"
     r"(输入|长度|token).{0,20}(过长|超)|超.{0,20}(长度|上下文|token)",
     "context_too_long", _TOO_LONG, None),
    (r"content.{0,2}(policy|filter|moderation|safety|violat)|content management|moderation|flagged|guardrail|"
     r"responsible.?ai|inspection.?fail|inappropriate|sensitive (content|info|word)|usage (policies|guidelines)|"
     r"exists risk|safety (system|filter|setting|check|polic)|safety_|prohibited|敏感|不安全|违规", "refused",
     "a content filter declined the request", None),
    (r"logprobs.{0,80}(max|at most|between|less than|greater|exceed|<=|range)", "bad_request",
     "the server does not support this many log-probabilities", None),
)  # fmt: skip
"""Faults that may name a field, although no field is refused."""

_AFTER_FIELDS: tuple[_Signature, ...] = (
    (r"identify image|(decode|load|open|process|download|fetch|parse|invalid|corrupt\w*|unsupported|bad) .{0,30}image|"
     r"image.{0,40}(corrupt|invalid|truncated|could not|cannot be|unreadable|too (small|large|big)|format|mime)|"
     r"image.{0,60}exceed", "bad_request", "the server cannot process an image", None),
    (r"(not|n't|unable to|cannot) .{0,20}(support|accept|process|handle|take|allow).{0,30}(image|vision|multi-?modal)|"
     r"(image|vision|multi-?modal).{0,40}(not supported|unsupported|not (allowed|available|enabled))|not a multimodal|"
     r"(support|required for) image|image input|mmproj|text[- ]only|image_url|content.{0,3} must be a string|"
     r"content.{0,3} : value must be a string", "bad_request", "the model does not accept images",
     "Choose a vision-language model, or a server that passes images to the model."),
    (r"(unexpected|unknown) endpoint|endpoint not found|cannot (post|get) /|invalid url \(|unrecognized request url|"
     r"no route|method not allowed",
     "wrong_address", _NO_CHAT, None),
    (r"model_not_found|(unknown|invalid|no such) model|model.{0,80}(not (found|exist|available)|does ?n.t exist|"
     r"not supported by any provider|no longer|decommissioned)|deploymentnotfound|no endpoints found for",
     "model_not_found", "it does not serve this model", None),
)  # fmt: skip

_NO_ROUTE = re.compile(r"^\W*(error\W*)?(404\W*)?((page|resource|file)\W*)?(not[ _]?found)?\W*$|\b(route|path|url)\b")
"""What a server says that knows no such path."""

_IMPLIED: tuple[tuple[str, int], ...] = (
    (r"rate.?limit|too many requests|overload|capacity", 429),
    (r"credit|payment|balance", 402),
    (r"unauthori|authenticat|api.?key", 401),
    (r"permission|forbidden", 403),
    (r"not.?found", 404),
    (r"invalid|bad.?request|unsupported|validation", 400),
)
"""Words of an error in a reply with status 200, and the status that it should have had; 500 by default."""

_Meaning = tuple[ErrorCode, str, str | None]
_UNKNOWN: _Meaning = ("bad_request", "it does not accept the request", None)
_FAILED: _Meaning = ("server_error", "the server failed", None)
_REDIRECT: _Meaning = ("bad_request", "redirects are not followed", "Use the final address.")
_STATUSES: Mapping[int, _Meaning] = {
    401: ("unauthorized", "the key is missing or wrong", None),
    402: ("unauthorized", "no credit is left", _NO_CREDIT),
    403: ("unauthorized", "the key lacks permission, or this input is not allowed", None),
    405: ("wrong_address", _NO_CHAT, None),
    451: ("refused", "a content filter declined the request", None),
    408: ("timeout", "the request took too long to arrive", None),
    413: ("bad_request", "the request is too large", "Use fewer or smaller images."),
    429: ("rate_limited", "too many requests", None),
    529: ("rate_limited", "too many requests", None),
}

_OMITTABLE = {
    **{name: name for name in ("stop", "seed", "temperature", "max_tokens", "max_completion_tokens", "uuid")},
    "logprobs": "(?:top_)?logprobs",
    "response_format": "response_format|json.?schema|grammar|structured.output",
    "structured_outputs": "structured_outputs|guided_choice",
}
"""Fields that can be omitted, each with a regular expression of the names that errors use."""

_NOT_TAKEN = (
    r"un(supported|known|recogni[sz]ed|expected|available)|\bnot\b|n't|extra|forbidden|deprecated|invalid|no longer|"
    r"cannot|must be|should be|fail|error|不支持|无效"
)
"""Words of an error about a field that it names without quotes."""

_NO_FIELD = r"unsupported|not (supported|permitted|allowed)|unknown|unrecogni|extra|deprecated|不支持"
"""Words of an error about a field rather than about its value."""

_ECHOES = frozenset({"input", "inputs", "ctx", "messages", "prompt", "body", "headers", "request", "request_id", "id"})
"""Fields of an error that repeat the request."""

_FLAGGED = frozenset({"flagged_input", "reasons"})
"""Fields of an error about input that a filter declined."""

_MISS = re.compile(r"cache miss.{0,60}(not provided|missing)")


@dataclass(frozen=True)
class _Complaint:
    """An error object, or the text of an error."""

    message: str
    """For people."""
    text: str
    """All texts of it, in lowercase."""
    names: tuple[str, ...] = ()
    """Fields that it names in `param`, `loc` or a code."""
    status: int | None = None
    """The status in its code."""

    @classmethod
    def of(cls, value: Any) -> "_Complaint":
        """Read an error of any form."""
        parts = list(_texts(value))
        numbers = (text for key, text in parts if key in {"code", "status", "status_code"} and text.isdigit())
        status = next((int(text) for text in numbers if 400 <= int(text[:4]) < 600), None)
        said = [
            text
            for key, text in parts
            if key in {"message", "msg", "detail", "error", "errormessage", "status_msg", ""}
        ]
        names = tuple(text.lower() for key, text in parts if key in {"param", "parameter", "loc", "field", "code"})
        text = "\n".join(text for key, text in parts if key != "loc").lower()
        return cls(next(filter(None, said), ""), text[:20_000], names, status)


def _texts(value: Any, key: str = "", depth: int = 12) -> Iterator[tuple[str, str]]:
    """Yield the texts and numbers in a value, each with its field, except those that repeat the request."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            if name in _FLAGGED and part:
                yield name, "flagged"
            elif depth and name not in _ECHOES:
                yield from _texts(part, name.lower(), depth - 1)
    elif isinstance(value, list):
        for part in value[:100] if depth else ():
            yield from _texts(part, key, depth - 1)
    elif isinstance(value, str | int) and not isinstance(value, bool):
        yield key, str(value)


def read_error(raw: RawReply, value: Any = None) -> ModelError:
    """Return the error that a server answered with, whatever its status.

    An error about this input alone is `bad_request`, `refused` or `context_too_long`.

    Args:
        raw: The answer.
        value: The error in its body; None for the whole body.
    """
    try:
        complaint = _Complaint.of(read_document(raw) if value is None else value)
    except ValueError:
        text = raw.body[:20_000].decode("utf-8", "replace")
        page = text.lstrip().startswith("<")
        complaint = _Complaint("" if page else text, "" if page else text.lower())
    status = raw.status
    if status < 300:
        status = complaint.status or next(
            (number for pattern, number in _IMPLIED if re.search(pattern, complaint.text)), 500
        )
    error = _error(raw, status, complaint)
    error.status = status  # of the error, in a reply whose own status may be 200
    return error


def _error(raw: RawReply, status: int, complaint: _Complaint) -> ModelError:
    """Return the error for what a server complains about."""
    said = complaint.message
    if status == 401:  # its text may hold a part of the key
        return raw.error(*_STATUSES[401][:2])
    if status == 400 and _MISS.search(complaint.text):
        return CacheMissError("bad_request", raw.words("it no longer has an image that was sent before"), status=400)
    busy = status in {429, 529}
    if error := _identified(raw, _LIMITS if busy else _BEFORE_FIELDS, complaint):
        return error
    if not busy and (refused := _refused_field(raw, status, complaint)):
        return FieldRefusedError(raw.words(f"it does not accept the field {refused}", said), raw.status, refused)
    if not busy and (error := _identified(raw, _AFTER_FIELDS, complaint)):
        return error
    if status == 404:
        return _missing(raw, complaint)
    other = _FAILED if status >= 500 else _REDIRECT if 300 <= status < 400 else _UNKNOWN
    code, what, step = _STATUSES.get(status, other)
    wait = raw.retry_after if busy or code == "server_error" else None
    return raw.error(code, what, said=said, next_step=step, retry_after=wait)


def _identified(raw: RawReply, table: Collection[_Signature], complaint: _Complaint) -> ModelError | None:
    for pattern, code, what, step in table:
        if re.search(pattern, complaint.text):
            return raw.error(code, what, said=complaint.message, next_step=step)
    return None


def _missing(raw: RawReply, complaint: _Complaint) -> ModelError:
    """Return the error for status 404: a missing path, a missing model, or something that this request needs."""
    if _NO_ROUTE.search(complaint.message.lower()):
        return raw.error("wrong_address", _NO_CHAT, said=complaint.message)
    if re.search(r"model|deployment", complaint.text) or raw.model.lower() in complaint.text:
        return raw.error("model_not_found", f"it does not serve {raw.model!r}", said=complaint.message)
    return raw.error("bad_request", "it cannot serve this request", said=complaint.message)


def _refused_field(raw: RawReply, status: int, complaint: _Complaint) -> str | None:
    """Return the field that an error names, of those that were sent and can be omitted."""
    text = re.split(r"expected one of|\b(?:supported|allowed|valid) (?:field|param|value|argument)", complaint.text)[0]
    wrong = re.search(_NOT_TAKEN, text) is not None
    for refused, name in _OMITTABLE.items():
        word = rf"(?<![\w-])(?:{name})(?![\w-])"
        named = re.search(word, "\n".join(complaint.names)) or re.search(rf"['\"`\[{{](?:{name})['\"`\]}}:,]", text)
        is_refused = (named and status in {400, 422}) or (wrong and re.search(word, text))
        if refused in raw.sent and is_refused and not (refused.startswith("max_") and not re.search(_NO_FIELD, text)):
            return refused
    return None

"""What a model server sent, before its meaning: the framing of JSON, texts and headers."""

import contextlib
import re
import zlib
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

import orjson

from rewardharness.codec import finite
from rewardharness.errors import shown
from rewardharness.models.base import ErrorCode, ModelError


@dataclass(frozen=True)
class RawReply:
    """The answer of a server as it arrived, and what was sent to it."""

    alias: str
    """The endpoint's name for messages."""
    status: int
    body: bytes = field(repr=False)
    retry_after: float | None = None
    """Seconds that the server asks to wait."""
    encoding: str = ""
    """The header Content-Encoding."""
    model: str = ""
    """The requested model."""
    sent: frozenset[str] = frozenset()
    """Fields of the request that can be omitted."""
    secret: str = field(default="", repr=False)
    """The key, which messages never contain."""

    def error(self, code: ErrorCode, what: str, *, said: str = "", **more: Any) -> ModelError:
        """Return an error that names the endpoint, the status and the problem, and quotes what the server said."""
        return ModelError(code, self.words(what, said), status=self.status, **more)

    def words(self, what: str, said: str = "") -> str:
        """Return the message of an error."""
        said = said.replace(self.secret, "…") if self.secret else said
        quoted = shown(" ".join(_SECRETS.sub("…", said[:2000]).split()), 200)
        return f"{self.alias} answered {self.status}: {what}" + (f' ("{quoted}").' if quoted else ".")


_SECRETS = re.compile(r"data:\S*|\b(?:sk|pk|hf|gsk|xai|nvapi|aiza|ya29|bearer)[-_. ]*\S+|\S{64,}", re.IGNORECASE)
"""What is never quoted: data URIs, keys and other long words."""

_LARGEST = 32 << 20
"""Maximum size of a decompressed body, in bytes."""


_FRAME = re.compile(rb"\s*(?::|event:|id:|retry:)")
"""Beginning of a line of an event stream that is no data."""
_DONE = re.compile(rb"data:\s*\[DONE\]\s*\Z")


def read_document(raw: RawReply) -> Any:
    """Parse a body: JSON, also compressed or with the frame of an event stream, or a whole event stream.

    Raises:
        ValueError: If it is something else, with the problem.
    """
    data = raw.body
    with contextlib.suppress(orjson.JSONDecodeError):
        return orjson.loads(data)
    try:
        if data[:1] in {b"\x1f", b"\x78"}:
            data = zlib.decompressobj(47).decompress(data, _LARGEST)
        data = _DONE.sub(b"", data.removeprefix(b"\xef\xbb\xbf"))
        lines = [re.sub(rb"^data:", b"", line) for line in data.splitlines() if not _FRAME.match(line)]
        if not any(map(bytes.strip, lines)):
            raise ValueError("it is empty")
        try:
            return orjson.loads(b"\n".join(lines))
        except orjson.JSONDecodeError:
            if not re.search(rb"^data:", data, re.MULTILINE):
                raise
            return _joined([orjson.loads(line) for line in lines if line.strip()])
    except (orjson.JSONDecodeError, zlib.error):
        packed = raw.encoding.lower() not in {"", "identity"}
        what = f"it is compressed as {printable(raw.encoding)[:20]}" if packed else "it is not JSON"
        raise ValueError("it is an incomplete event stream" if b"data:" in data[:1000] else what) from None


def _joined(events: list[Any]) -> Any:
    """Join the events of a stream to a completion. One that does not say that it is finished is truncated."""
    whole: dict[str, Any] = {}
    message = {"content": "", "reasoning_content": "", "reasoning": "", "refusal": ""}
    finish: Any = "incomplete"
    for event in events:
        choices = event.get("choices") if isinstance(event, dict) else None
        if not isinstance(choices, list) or (choices and not isinstance(choices[0], dict)):
            return event  # an error
        if event.get("error") or (choices and choices[0].get("error")):
            return event
        whole |= {name: value for name, value in event.items() if value}
        for choice in choices[:1]:
            delta = choice.get("delta") or choice.get("message")
            for name in message if isinstance(delta, dict) else ():
                message[name] += part_text(delta.get(name)) or ""
            finish = choice.get("finish_reason") or finish
    return whole | {"choices": [{"message": message, "finish_reason": finish}]}


def part_text(content: Any) -> str | None:
    """Return the text of a message's content, which may be a list of parts; None without one. Reasoning is omitted."""
    if content is None or isinstance(content, str):
        return content
    parts = [{"text": part} if isinstance(part, str) else part for part in content] if isinstance(content, list) else [content]  # fmt: skip  # noqa: E501
    texts = [
        part["text"]
        for part in parts
        if isinstance(part, dict)
        and part.get("type") in {None, "text", "output_text"}
        and isinstance(part.get("text"), str)
        and not part.get("thought")
    ]
    return "".join(texts) if texts else None


def printable(value: Any) -> str:
    """Return a name from the server as printable text."""
    if not isinstance(value, str):
        return ""
    return value if len(value) <= 200 and value.isprintable() else "".join(filter(str.isprintable, value[:200]))


def read_retry_after(value: str | None, now: float) -> float | None:
    """Parse the header Retry-After.

    Args:
        value: Seconds or an HTTP date.
        now: Unix time in seconds, for dates.

    Returns:
        Seconds to wait, 0 or more; None if the value is invalid.
    """
    if not value:
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

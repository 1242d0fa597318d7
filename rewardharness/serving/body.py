"""Bodies of requests: read within a size and a time, and taken apart without touching the images in them.

Images are nearly all of a body. As text in JSON they would be checked, copied and made into strings, which for tens
of megabytes stops everything else for a tenth of a second. So long strings are lifted out first: what is parsed is
small, and the images stay where they are until they are decoded. What remains has a limit of its own, in bytes and in
values, before it is parsed: a body full of small values costs far more to parse and check than to send.
"""

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from rewardharness.serving.faults import TOO_MANY, Fault, RefusedError, too_large
from rewardharness.serving.limits import BYTES_PER_SECOND, Limits, Take

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

LIFTED = f"lifted-{secrets.token_hex(8)}"
"""Key of the object that stands for a string that was lifted out. Nobody outside can know it."""

_LONG = 1 << 10
"""Bytes from which a string is lifted out."""
_QUOTES = 4
"""Quotation marks for each allowed value at most, those inside strings included."""
_BACKSLASH = 0x5C
_PARTS = 1024
"""Parts of one multipart body at most."""
_PART_HEAD = 4096
"""Bytes of one part's headers at most."""
_BOUNDARY = re.compile(r"""multipart/form-data\s*;.*?\bboundary=(?:"([^"]{1,70})"|([^\s";,]{1,70}))""", re.IGNORECASE)
NAME = r"[A-Za-z0-9._-]{1,100}"
"""What an image may be called."""
_PART_NAME = re.compile(
    rf'^content-disposition:\s*form-data\s*;(?:[^\r\n]*?;)?\s*name="({NAME})"'.encode("ascii"),
    re.IGNORECASE | re.MULTILINE,
)
REQUEST_PART = "request"
"""The part of a multipart body that holds what would otherwise be the JSON body."""


@dataclass(frozen=True)
class Parsed:
    """A body that has been taken apart."""

    tree: Any
    """The JSON, in which `{LIFTED: number}` stands for a string that was lifted out."""
    lifted: tuple[memoryview | str, ...] = ()
    """The strings that were lifted out, without their quotes; text where one held an escape."""
    parts: Mapping[str, bytes] = field(default_factory=dict)
    """Parts of a multipart body other than `REQUEST_PART`, by name."""


Parse = Callable[[str, bytes, Limits], Parsed]
"""Takes a body apart, given its media type and the limits."""


class ClientGoneError(Exception):
    """The caller went away before the request was complete."""


async def read_body(receive: Receive, take: Take, limits: Limits) -> bytes:
    """Read a body.

    Args:
        receive: The ASGI channel.
        take: Finds room for the bytes that arrived.
        limits: How many bytes, and how patient to be.

    Raises:
        RefusedError: 413 if it is too large, 408 if it comes too slowly, 429 if there is no room.
        ClientGoneError: If the caller went away.
    """
    most = limits.body_bytes
    pieces: list[bytes] = []
    held = 0
    clock = asyncio.get_running_loop().time
    ends = clock() + limits.read_seconds
    while True:
        try:
            async with asyncio.timeout_at(ends):
                message = await receive()
        except TimeoutError:
            step = "Send it again, or in pieces."
            fault = Fault("too_slow", "The body of the request did not come in time.", step, True)
            raise RefusedError(408, fault) from None
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        piece = message.get("body", b"")
        held += len(piece)
        if held > most:
            raise body_too_large(most)
        arrived = clock()
        if piece:
            await take(len(piece))
        ends += clock() - arrived + len(piece) / BYTES_PER_SECOND  # only bytes that came earn more time
        pieces.append(piece)
        if not message.get("more_body", False):
            return b"".join(pieces)


def body_too_large(most: int) -> RefusedError:
    """Make the refusal of a body that is over the limit."""
    return too_large("The body of the request", f"{most} bytes", "Send fewer or smaller images at once.")


def parse_body(content_type: str, body: bytes, limits: Limits) -> Parsed:
    """Take a body apart, by its media type.

    Raises:
        RefusedError: 415 for another media type; 400 if it breaks its format; 413 or 422 if there is too much in it.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/json":
        return _parse_json(body, limits)
    boundary = _BOUNDARY.match(content_type)
    if boundary is None:
        step = "Send application/json, or multipart/form-data with a boundary."
        raise RefusedError(415, Fault("unsupported_media_type", "The body's media type is not understood.", step))
    parts = _split_parts(body, (boundary[1] or boundary[2]).encode("latin-1"))
    if REQUEST_PART not in parts:
        raise _malformed(f"The multipart body has no part {REQUEST_PART!r}.")
    parsed = _parse_json(parts.pop(REQUEST_PART), limits)
    return Parsed(parsed.tree, parsed.lifted, parts)


def _parse_json(body: bytes, limits: Limits) -> Parsed:
    try:
        text, lifted = _lift(body, limits)
        return Parsed(orjson.loads(text), lifted)
    except orjson.JSONDecodeError:
        raise _malformed("The body is not JSON.") from None


def _lift(body: bytes, limits: Limits) -> tuple[bytes, tuple[memoryview | str, ...]]:
    """Take long strings out of a JSON text; objects with a number stand for them.

    Raises:
        RefusedError: 413 if what remains is too long; 422 if it holds too many values.
        orjson.JSONDecodeError: If a long string is no JSON.
    """
    view = memoryview(body)
    pieces: list[bytes | memoryview] = []
    outside: list[memoryview] = []
    lifted: list[memoryview | str] = []
    kept = at = quotes = 0
    most = _QUOTES * limits.values
    while len(body) > _LONG and quotes <= most and (start := body.find(b'"', at)) >= 0:
        end, looked = start, start
        while (end := body.find(b'"', end + 1)) > 0:
            quotes += 1
            if body[end - 1] != _BACKSLASH:
                break
            inside = body[looked + 1 : end]
            if (len(inside) - len(inside.rstrip(b"\\"))) % 2 == 0 or quotes > most:
                break
            looked = end
        if end < 0 or quotes > most:
            break  # not JSON, as the parser will find, or too much of it
        quotes += 1
        outside.append(view[at:start])
        at = end + 1
        if end - start > _LONG:
            pieces += [view[kept:start], b'{"%s":%d}' % (LIFTED.encode("ascii"), len(lifted))]
            escaped = body.find(b"\\", start, end) >= 0
            lifted.append(orjson.loads(view[start:at]) if escaped else view[start + 1 : end])
            kept = at
    text = b"".join([*pieces, view[kept:]]) if lifted else body
    if len(text) > limits.text_bytes:
        raise too_large("The request without its images", f"{limits.text_bytes} bytes", "Send fewer edits at once.")
    syntax = b"".join([*outside, view[at:]])
    if quotes > most or sum(map(syntax.count, b",[{")) > limits.values:
        fault = Fault(TOO_MANY, f"The request holds more than {limits.values} values.", "Send fewer edits at once.")
        raise RefusedError(422, fault)
    return text, tuple(lifted)


def _split_parts(body: bytes, boundary: bytes) -> dict[str, bytes]:
    """Split a multipart body (RFC 2046, 5.1; RFC 7578) into its parts by name."""
    delimiter = b"--" + boundary
    if not body.startswith(delimiter):
        raise _malformed("The multipart body does not begin with its boundary.")
    pieces = body[len(delimiter) :].split(b"\r\n" + delimiter, _PARTS)
    if len(pieces) > _PARTS:
        raise too_large("The number of parts", str(_PARTS), "Send fewer edits at once.")
    if len(pieces) < 2 or not pieces[-1].startswith(b"--"):
        raise _malformed("The multipart body is not complete.")
    parts: dict[str, bytes] = {}
    for piece in pieces[:-1]:
        end = piece.find(b"\r\n\r\n", 0, _PART_HEAD)
        name = _PART_NAME.search(piece, 0, max(end, 0)) if end >= 0 else None
        if name is None:
            raise _malformed("A part of the multipart body has no name that can be used.")
        key = name[1].decode("ascii")
        if key in parts:
            raise _malformed("Two parts of the multipart body have the same name.")
        parts[key] = piece[end + 4 :]
    return parts


def _malformed(message: str) -> RefusedError:
    return RefusedError(400, Fault("malformed", message, "Correct the request; /openapi.json describes it."))

"""Requests as they go over the wire to an OpenAI-compatible server.

A request with images is megabytes of base64. It is never held as a whole: a `Body` knows its length and yields its
bytes in pieces, each image encoded on the way out.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import orjson
import pybase64

from rewardharness.models.base import ChatRequest, ImagePart, ModelError, TextPart

_CHUNK = 3 << 16
"""Bytes of an image that are encoded at a time. Divisible by 3, so that the pieces join to one base64 text."""

_PIECE = 1 << 17
"""Small pieces are joined until they have this many bytes."""


@dataclass(frozen=True)
class Capabilities:
    """What an endpoint does with a request. Servers drop unknown fields silently, so this is found out by trying."""

    vision: bool = True
    """Images reach the model."""
    schema: bool = True
    """A JSON schema of the reply is enforced (`response_format`)."""
    choice: bool = True
    """A list of possible replies is enforced (vLLM's `structured_outputs`)."""
    logprobs: bool = True
    """Log-probabilities are reported."""
    uuid: bool = True
    """Images may carry a `uuid` beside them."""
    send_once: bool = False
    """An image that was sent before may be named by its `uuid` alone."""
    proven: bool = False
    """Whether this was found out; if not, it is what servers of the kind usually do."""
    models: tuple[str, ...] = ()
    """Models that the server lists; empty when it lists none."""
    max_model_len: int | None = None
    """Tokens of prompt and reply together at most, if the server tells."""
    fingerprint: str = ""
    """The server's version and configuration, if it tells."""


VLLM = Capabilities()
"""What a vLLM server is taken to do until it is probed."""

OPENAI = Capabilities(choice=False, uuid=False)
"""What other OpenAI-compatible servers are taken to do until they are probed."""


@dataclass(frozen=True)
class Dialect:
    """Fields that servers name differently or refuse. Learnt from what a server refuses, see `FieldRefusedError`."""

    limit: str = "max_tokens"
    """What the bound of a reply's length is called; OpenAI's reasoning models say `max_completion_tokens`."""
    temperature: bool = True
    """Whether the temperature may be given; those models have one of their own, and their answers vary."""

    def without(self, field: str) -> "Dialect":
        """The dialect of a server that has refused a field."""
        if field == "max_tokens":
            return replace(self, limit="max_completion_tokens")
        return replace(self, temperature=False)


@dataclass(frozen=True)
class Body:
    """The body of a request."""

    segments: tuple[bytes | ImagePart, ...]
    """Bytes that go out as they are, and images that go out as base64."""
    size: int
    """Bytes in all."""
    uuids: frozenset[str]
    """Images in it that carry their `uuid`, with their bytes or without."""
    left_out: frozenset[str]
    """Images that are named by their `uuid` alone."""

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes, in pieces of some 100 kB. Can be repeated."""
        pending: list[bytes] = []
        length = 0
        for segment in self.segments:
            if isinstance(segment, bytes):
                pending.append(segment)
                length += len(segment)
                continue
            view = memoryview(segment.data)
            for start in range(0, len(view), _CHUNK):
                pending.append(pybase64.b64encode(view[start : start + _CHUNK]))
                length += len(pending[-1])
                if length >= _PIECE:
                    yield pending[0] if len(pending) == 1 else b"".join(pending)
                    pending.clear()
                    length = 0
        if pending:
            yield b"".join(pending)


def request_body(
    request: ChatRequest, model: str, can: Capabilities, known: Collection[str] = (), dialect: Dialect = Dialect()
) -> Body:
    """Write a request.

    Args:
        request: What is asked. What the server cannot do is left out: schema, choices, log-probabilities.
        model: The model's name on the server.
        can: What the server can do.
        known: Hashes of images that it has; their bytes are left out.
        dialect: How it wants its fields.

    Raises:
        ModelError: If the request contradicts itself or is no valid Unicode or JSON.
    """
    if request.schema is not None and request.choices:
        raise ModelError("bad_request", "A request has a schema and choices; it can have one of them.", next_step="")
    segments: list[bytes | ImagePart] = []
    text = [b'{"model":', _json(model), b',"messages":[']
    for number, message in enumerate(request.messages):
        text += (b',{"role":"' if number else b'{"role":"', message.role.encode(), b'","content":')
        if len(message.parts) == 1 and isinstance(message.parts[0], TextPart):
            text += (_json(message.parts[0].text), b"}")  # plain text is what the most servers understand
        else:
            text.append(b"[")
            for place, part in enumerate(message.parts):
                text.append(b"," if place else b"")
                if isinstance(part, TextPart):
                    text += (b'{"type":"text","text":', _json(part.text), b"}")
                else:
                    _write_image(part, segments, text, can.uuid, part.sha256 in known)
            text.append(b"]}")
    text += (b"],", _json(_options(request, can, dialect))[1:])
    segments.append(b"".join(text))
    size = 0
    for segment in segments:
        size += len(segment) if isinstance(segment, bytes) else 4 * ((len(segment.data) + 2) // 3)
    uuids = frozenset(image.sha256 for image in request.images) if can.uuid else frozenset()
    return Body(tuple(segments), size, uuids, uuids.intersection(known) if known else frozenset())


def _write_image(
    image: ImagePart, segments: list[bytes | ImagePart], text: list[bytes], with_uuid: bool, is_known: bool
) -> None:
    """Write an image: the text so far becomes a segment, and so does the image, if the server does not have it."""
    text.append(b'{"type":"image_url","image_url":')
    if with_uuid and is_known:
        text.append(b"null")
    else:
        text += (b'{"url":"data:', _json(image.mime)[1:-1], b";base64,")
        segments += (b"".join(text), image)
        text[:] = (b'"}',)
    # The server trusts this blindly; the hash of the very bytes can never name another image.
    text += (b',"uuid":"', image.sha256.encode(), b'"}') if with_uuid else (b"}",)


def _options(request: ChatRequest, can: Capabilities, dialect: Dialect) -> dict[str, Any]:
    """Return the fields of a request besides model and messages."""
    fields: dict[str, Any] = {dialect.limit: request.max_tokens}
    if dialect.temperature:
        fields["temperature"] = request.temperature
    if request.seed is not None:
        fields["seed"] = request.seed
    if request.stop:
        fields["stop"] = list(request.stop)
    if request.schema is not None and can.schema:
        schema = {"name": "reply", "schema": request.schema, "strict": True}
        fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    if request.choices and can.choice:
        fields["structured_outputs"] = {"choice": list(request.choices)}
    if request.top_logprobs and can.logprobs:
        fields["logprobs"] = True
        fields["top_logprobs"] = request.top_logprobs
    return fields


def _json(value: Any) -> bytes:
    try:
        return orjson.dumps(value, default=dict)
    except TypeError:  # orjson's own error is one
        message = "A request holds something that is not valid Unicode text or JSON."
        raise ModelError("bad_request", message, next_step="Check the instruction and the Library.") from None

"""Encode requests for OpenAI-compatible servers.

A request with images contains megabytes of base64. It is never in memory as a whole: a `RequestBody` has a
known length and encodes its images while it is sent.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import orjson
import pybase64

from rewardharness.models.base import ChatRequest, ImagePart, ModelError, TextPart

_CHUNK = 3 << 16
"""Image bytes encoded at a time. Divisible by 3, so that the pieces concatenate to one base64 text."""

_PIECE = 1 << 17
"""Size to which small pieces are joined, in bytes."""


@dataclass(frozen=True)
class Capabilities:
    """Capabilities of an endpoint. They are probed, because servers silently drop unknown fields."""

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
    """An image that was sent before can be referenced by its `uuid` alone."""
    refused: tuple[str, ...] = ()
    """Fields that the server rejects and that are therefore omitted."""
    problem: str = ""
    """Why a request as judging sends it is rejected; empty if it is accepted."""
    proven: bool = False
    """Whether the capabilities were probed rather than assumed."""
    models: tuple[str, ...] = ()
    """Models that the server lists."""
    max_model_len: int | None = None
    """Maximum context length in tokens, if reported."""
    fingerprint: str = ""
    """Version and configuration of the server, if reported."""


VLLM = Capabilities()
"""Assumed capabilities of a vLLM server before probing."""

OPENAI = Capabilities(choice=False, uuid=False)
"""Assumed capabilities of other OpenAI-compatible servers before probing."""


@dataclass(frozen=True)
class RequestBody:
    """The body of a request."""

    segments: tuple[bytes | ImagePart, ...]
    """Raw bytes, and images to send as base64."""
    size: int
    """Total bytes."""
    uuids: frozenset[str]
    """Hashes of images sent with a `uuid`, with or without bytes."""
    left_out: frozenset[str]
    """Hashes of images referenced by `uuid` alone."""
    fields: frozenset[str] = frozenset()
    """Fields that can be omitted."""

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes in pieces of about 100 kB. Repeatable."""
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
    request: ChatRequest, model: str, can: Capabilities, known: Collection[str] = (), refused: Collection[str] = ()
) -> RequestBody:
    """Encode a request.

    Args:
        request: The request. Unsupported options are omitted: schema, choices, log-probabilities.
        model: The model's name on the server.
        can: Capabilities of the server.
        known: Hashes of images that the server has; their bytes are omitted.
        refused: Fields that the server rejects; they are omitted.

    Raises:
        ModelError: If the request is contradictory, or not valid Unicode or JSON.
    """
    if request.schema is not None and request.choices:
        raise ModelError("bad_request", "A request cannot have both a schema and choices.", next_step="")
    segments: list[bytes | ImagePart] = []
    text = [b'{"model":', _json(model), b',"messages":[']
    for number, message in enumerate(request.messages):
        text += (b',{"role":"' if number else b'{"role":"', message.role.encode(), b'","content":')
        if len(message.parts) == 1 and isinstance(message.parts[0], TextPart):
            text += (_json(message.parts[0].text), b"}")  # most servers support plain text
        else:
            text.append(b"[")
            for place, part in enumerate(message.parts):
                text.append(b"," if place else b"")
                if isinstance(part, TextPart):
                    text += (b'{"type":"text","text":', _json(part.text), b"}")
                else:
                    _write_image(part, segments, text, can.uuid, part.sha256 in known)
            text.append(b"]}")
    options = _options(request, can, refused)
    text += (b"],", _json(options)[1:])
    segments.append(b"".join(text))
    size = 0
    for segment in segments:
        size += len(segment) if isinstance(segment, bytes) else 4 * ((len(segment.data) + 2) // 3)
    uuids = frozenset(image.sha256 for image in request.images) if can.uuid else frozenset()
    fields = frozenset(options) | ({"uuid"} if uuids else set())
    return RequestBody(tuple(segments), size, uuids, uuids.intersection(known) if known else frozenset(), fields)


def _write_image(
    image: ImagePart, segments: list[bytes | ImagePart], text: list[bytes], with_uuid: bool, is_known: bool
) -> None:
    """Encode an image: the preceding text becomes a segment, followed by the image if the server does not have it."""
    text.append(b'{"type":"image_url","image_url":')
    if with_uuid and is_known:
        text.append(b"null")
    else:
        text += (b'{"url":"data:', _json(image.mime)[1:-1], b";base64,")
        segments += (b"".join(text), image)
        text[:] = (b'"}',)
    # The server does not verify this; the hash of the bytes always identifies this image.
    text += (b',"uuid":"', image.sha256.encode(), b'"}') if with_uuid else (b"}",)


def _options(request: ChatRequest, can: Capabilities, refused: Collection[str]) -> dict[str, Any]:
    """Return the request fields other than model and messages."""
    limit = "max_completion_tokens" if "max_tokens" in refused else "max_tokens"  # OpenAI's reasoning models
    # Some gateways stream unless told otherwise.
    fields: dict[str, Any] = {limit: request.max_tokens, "temperature": request.temperature, "stream": False}
    fields |= request.more
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
    return {name: value for name, value in fields.items() if name not in refused}


def _json(value: Any) -> bytes:
    try:
        return orjson.dumps(value, default=dict)
    except TypeError:  # orjson's error is a TypeError
        message = "A request contains invalid Unicode or JSON."
        raise ModelError("bad_request", message, next_step="Check the instruction and the Library.") from None

"""Probe the capabilities of an endpoint.

Servers silently drop unknown request fields, so a requested constraint may never be applied. Each capability is
therefore tested with a request whose expected answer no model would give without it.
"""

import json
import struct
import zlib
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection, HTTPException
from typing import Any

import orjson

from rewardharness.models.base import ChatRequest, ImagePart, Message, ModelError, Reply
from rewardharness.models.wire import Capabilities

_CANARIES = ("zq-heron-17", "zq-osprey-23")
"""Words that no model writes unprompted."""

_SMALL_TALK = Message.of("user", "Write one short sentence about the sea.")

_SIDE = 64
"""Width and least height of test images, in pixels."""

Ask = Callable[[ChatRequest, Capabilities, frozenset[str]], Awaitable[Reply]]
"""Sends one request, encoded for these capabilities and these cached images."""

Listing = tuple[tuple[str, int | None], ...]
"""The models that a server lists, each with its maximum context length in tokens, if reported."""


@dataclass(frozen=True)
class Probe:
    """The capabilities of an endpoint, or the error of probing it."""

    endpoint: str
    """Host and port."""
    capabilities: Capabilities | None
    error: ModelError | None = None
    seconds: float = field(default=0.0, compare=False)
    """Duration of all probe requests."""


async def examine(ask: Ask, listing: Listing, model: str) -> Capabilities:
    """Probe an endpoint with about ten small sequential requests.

    Args:
        ask: Sends one request to the endpoint.
        listing: The models that it lists.
        model: The model to probe.

    Raises:
        ModelError: If the endpoint does not answer a plain request.
    """
    plain = Capabilities(vision=False, schema=False, choice=False, logprobs=False, uuid=False)
    first = await ask(ChatRequest((_SMALL_TALK,), max_tokens=1), plain, frozenset())
    capabilities = replace(
        plain,
        models=tuple(name for name, _ in listing),
        max_model_len=dict(listing).get(model),
        fingerprint=first.fingerprint,
        schema=await _keeps_schema(ask),
        choice=await _keeps_choice(ask),
        logprobs=await _reports_logprobs(ask),
    )
    capabilities = await _try_images(ask, capabilities)
    return replace(capabilities, problem=await _why_refused(ask, capabilities), proven=True)


async def _why_refused(ask: Ask, can: Capabilities) -> str:
    """Send a request with everything that judging sends; return why it is rejected. Refused fields are learned."""
    messages = (
        Message.of("system", "Answer with one word."),
        Message.of("user", *map(picture, (0, 128, 255)), "Which?"),
    )
    try:
        await ask(ChatRequest(messages, max_tokens=1, seed=0, stop=("</tool>",)), can, frozenset())
    except ModelError as error:
        if error.code not in {"bad_request", "bad_response", "context_too_long", "refused", "server_error"}:
            raise
        return error.message
    return ""


def picture(shade: int = 128, height: int = _SIDE) -> ImagePart:
    """Return a small PNG image of one gray."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes([shade] * 3) * _SIDE) * height
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", _SIDE, height, 8, 2, 0, 0, 0))
    data = b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return ImagePart(data, "image/png")


async def _try(ask: Ask, request: ChatRequest, can: Capabilities, known: frozenset[str] = frozenset()) -> Reply | None:
    """Send a request; return None if the server does not accept it."""
    try:
        return await ask(request, can, known)
    except ModelError as error:
        if error.code in {"bad_request", "bad_response", "server_error"}:
            return None
        raise


_BARE = Capabilities(vision=True, schema=False, choice=False, logprobs=False, uuid=False)


async def _keeps_schema(ask: Ask) -> bool:
    value = {"type": "string", "enum": [_CANARIES[0]]}
    schema = {"type": "object", "properties": {"word": value}, "required": ["word"], "additionalProperties": False}
    request = ChatRequest((_SMALL_TALK,), max_tokens=64, schema=schema)
    reply = await _try(ask, request, replace(_BARE, schema=True))
    try:
        return reply is not None and orjson.loads(reply.text) == {"word": _CANARIES[0]}
    except orjson.JSONDecodeError:
        return False


async def _keeps_choice(ask: Ask) -> bool:
    request = ChatRequest((_SMALL_TALK,), max_tokens=32, choices=_CANARIES)
    reply = await _try(ask, request, replace(_BARE, choice=True))
    return reply is not None and reply.text in _CANARIES


async def _reports_logprobs(ask: Ask) -> bool:
    request = ChatRequest((_SMALL_TALK,), max_tokens=1, top_logprobs=2)
    reply = await _try(ask, request, replace(_BARE, logprobs=True))
    return reply is not None and len(reply.top_logprobs) > 0


async def _try_images(ask: Ask, capabilities: Capabilities) -> Capabilities:
    """Probe images: whether they reach the model, and whether their hash can replace them."""
    black, white, unknown = picture(0), picture(255, 4 * _SIDE), picture(77)
    question = "Is this image black or white?"

    def about(*images: ImagePart) -> ChatRequest:
        return ChatRequest((Message.of("user", *images, question),), max_tokens=4)

    without = await _try(ask, about(), _BARE)
    named = await _try(ask, about(black), replace(_BARE, uuid=True))
    reply = named or await _try(ask, about(black), _BARE)
    if reply is None or without is None:
        return capabilities
    tokens = reply.usage.input_tokens
    if tokens and tokens <= without.usage.input_tokens:
        return capabilities  # accepted but dropped
    capabilities = replace(capabilities, vision=True, uuid=named is not None)
    if named is None or not tokens:
        return capabilities

    async def by_hash(image: ImagePart) -> tuple[str, int] | None:
        return _said(await _try(ask, about(image), replace(_BARE, uuid=True), frozenset({image.sha256})))

    # A server that ignores unknown fields accepts any hash, or answers alike about different images.
    other = _said(await _try(ask, about(white), replace(_BARE, uuid=True)))
    if other is None or other == _said(named) or await by_hash(unknown) is not None:
        return capabilities
    return replace(capabilities, send_once=await by_hash(black) == _said(named) and await by_hash(white) == other)


def _said(reply: Reply | None) -> tuple[str, int] | None:
    """Return what shows which image a reply is about: its text and the number of tokens that were read."""
    return None if reply is None else (reply.text, reply.usage.input_tokens)


PORTS: Mapping[str, int] = {"vLLM": 8000, "SGLang": 30000, "llama.cpp": 8080, "Ollama": 11434, "LM Studio": 1234}
"""Default port of each server."""
_SECONDS = 0.5
_MOST_BYTES = 1_000_000
_SEEING = frozenset({"vision", "multimodal", "image"})
"""What servers call the ability to read images."""


@dataclass(frozen=True)
class LocalModel:
    """A model that a server on this computer serves."""

    name: str
    images: bool | None
    """Whether it accepts images; None if the server does not say."""


@dataclass(frozen=True)
class LocalServer:
    """A server with the OpenAI protocol on this computer."""

    usual: str
    """The program that uses this port by default; another one may run there."""
    url: str
    """Base URL."""
    models: tuple[LocalModel, ...]

    @property
    def kind(self) -> str:
        """Kind of model in a specification."""
        return "vllm" if self.usual == "vLLM" else "openai"


def find_local_servers(ports: Mapping[str, int] = PORTS) -> list[LocalServer]:
    """Return the servers that answer on these ports of 127.0.0.1. Takes at most about two seconds."""
    with ThreadPoolExecutor(max(1, len(ports))) as threads:
        servers = threads.map(_find, ports.keys(), ports.values())
        return [server for server in servers if server is not None]


def _find(usual: str, port: int) -> LocalServer | None:
    listed = _ask(port, "/v1/models")
    rows = listed.get("data") if isinstance(listed, dict) else None
    if not isinstance(rows, list):
        return None
    named = [row for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str) and row["id"]]
    models = tuple(LocalModel(row["id"], _accepts_images(usual, port, row)) for row in named)
    return LocalServer(usual, f"http://127.0.0.1:{port}/v1", models)


def _accepts_images(usual: str, port: int, row: Mapping[str, Any]) -> bool | None:
    """Read what the server says: llama.cpp in its list; Ollama and LM Studio in interfaces of their own."""
    if usual == "Ollama":
        row = _ask(port, "/api/show", {"model": row["id"]})
    elif usual == "LM Studio":
        known = _ask(port, "/api/v0/models")
        rows = known.get("data") if isinstance(known, dict) else None
        own = (entry for entry in rows or () if isinstance(entry, dict) and entry.get("id") == row["id"])
        kind = next(own, {}).get("type")
        return kind == "vlm" if isinstance(kind, str) else None
    can = row.get("capabilities") if isinstance(row, dict) else None
    return bool(_SEEING & {feature for feature in can if isinstance(feature, str)}) if isinstance(can, list) else None


def _ask(port: int, path: str, body: Mapping[str, str] | None = None) -> Any:
    """Return the JSON reply of a server on this computer; None without one."""
    connection = HTTPConnection("127.0.0.1", port, timeout=_SECONDS)
    with suppress(OSError, HTTPException, ValueError, RecursionError):
        try:
            connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body))
            reply = connection.getresponse()
            if reply.status == 200:
                return json.loads(reply.read(_MOST_BYTES))
        finally:
            connection.close()
    return None

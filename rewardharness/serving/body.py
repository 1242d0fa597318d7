"""Reading and parsing of request bodies within limits of size and time, also in the protocols of other trainers.

Images make up almost all of a body. Parsing tens of megabytes of base64 as JSON strings would block the event loop for
about 0.1 s. Long strings are therefore lifted out first and decoded later. The rest has its own limits in bytes and in
values, since many small values are far more expensive to parse than to send.

Judging, limits, metrics and log are the same for trainers that do not speak the protocol of the reward server.

None of these trainers supports a missing reward. A number is never made up for an edit that was not judged.

Flow-Factory (`GET /flow_factory/health`, `POST /flow_factory/compute`). Its client,
`flow_factory.rewards.my_reward_remote.RemotePointwiseRewardModel`, stops the training at an `error` in the reply:

    {"prompt": [instruction], "image": [edited], "condition_images": [[source, second, ...]], "kwargs": null}
    -> {"rewards": [0.62]}

UniRL by Tencent (`GET /unirl/health`, which lists the reward, and `POST /unirl/score`). An edit is a conversation of
two turns; its reference images are a list of base64 in `metadata.references`. Sub-metrics without a grade are left out:

    {"requests": [{"history": [{"text": instruction, "image_b64": source},
                               {"text": instruction, "image_b64": edited}],
                   "required_rewards": ["rewardharness"], "metadata": {}}]}
    -> {"results": [{"rewardharness": {"reward": 0.62, "instruction_following": 3.0, "visual_quality": 2.0}}],
        "errors": [{}]}
"""

import asyncio
import contextlib
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from rewardharness.schema import Json
from rewardharness.serving.faults import TOO_MANY, Fault, RefusedError, invalid, too_large
from rewardharness.serving.limits import BYTES_PER_SECOND, Limits, Take
from rewardharness.serving.results import RewardReply, not_judged

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

LIFTED = f"lifted-{secrets.token_hex(8)}"
"""Key of the object that replaces a lifted string. It is random, so callers cannot use it."""

_LONG = 1 << 10
"""Minimum length of a lifted string, in bytes."""
_QUOTES = 4
"""Maximum number of quotation marks per allowed value, including those inside strings."""
_BACKSLASH = 0x5C
_PARTS = 2048
"""Maximum number of parts of a multipart body."""
_PART_HEAD = 4096
"""Maximum size of the headers of a part, in bytes."""
_BOUNDARY = re.compile(r"""multipart/form-data\s*;.*?\bboundary=(?:"([^"]{1,70})"|([^\s";,]{1,70}))""", re.IGNORECASE)
NAME = r"[A-Za-z0-9._-]{1,100}"
"""Pattern of image names."""
_PART_NAME = re.compile(
    rf'^content-disposition:\s*form-data\s*;(?:[^\r\n]*?;)?\s*name="({NAME})"'.encode("ascii"),
    re.IGNORECASE | re.MULTILINE,
)
REQUEST_PART = "request"
"""Part of a multipart body that holds the JSON of the request."""


@dataclass(frozen=True)
class Parsed:
    """A parsed body."""

    tree: Any
    """The JSON, in which `{LIFTED: number}` replaces a lifted string."""
    lifted: tuple[memoryview | str, ...] = ()
    """The lifted strings without quotes; text if the string contains an escape."""
    parts: Mapping[str, bytes] = field(default_factory=dict)
    """Other parts of a multipart body than `REQUEST_PART`, by name."""


Parse = Callable[[str, bytes, Limits], Parsed]
"""Parses a body, given its media type and the limits."""


class ClientGoneError(Exception):
    """The client disconnected before the request was complete."""


class Incoming:
    """The ASGI channel of a request, which knows whether more of the body is to come.

    Args:
        receive: The channel of the server.
        headers: Headers of the request, by lowercase name.
    """

    def __init__(self, receive: Receive, headers: Mapping[bytes, bytes]) -> None:
        self._receive = receive
        self.more = b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"

    async def __call__(self) -> MutableMapping[str, Any]:
        """Receive the next message."""
        message = await self._receive()
        self.more = message.get("more_body", False)
        return message

    async def discard(self, seconds: float) -> None:
        """Receive the rest of the body without keeping it, for at most this long.

        Many clients read a reply only after they sent the whole body. If the connection were closed before, they
        would report a broken connection instead of the reply.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.more:
                    await self()


async def read_body(receive: Receive, take: Take, limits: Limits) -> bytes:
    """Read a body.

    Args:
        receive: The ASGI channel.
        take: Waits for free memory for received bytes.
        limits: Limits of size and time.

    Raises:
        RefusedError: 413 if the body is too large, 408 if it is too slow, 429 if there is no free memory.
        ClientGoneError: If the client disconnected.
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
        ends += clock() - arrived + len(piece) / BYTES_PER_SECOND  # received bytes extend the deadline
        pieces.append(piece)
        if not message.get("more_body", False):
            return b"".join(pieces)


def body_too_large(most: int) -> RefusedError:
    """Return the error for a body that exceeds the limit."""
    return too_large("The body of the request", f"{most} bytes", "Send fewer or smaller images at once.")


def parse_body(content_type: str, body: bytes, limits: Limits) -> Parsed:
    """Parse a body according to its media type.

    Raises:
        RefusedError: 415 for another media type; 400 for a malformed body; 413 or 422 if it exceeds a limit.
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
    """Replace long strings in a JSON text by numbered objects.

    Raises:
        RefusedError: 413 if the rest is too long; 422 if it has too many values.
        orjson.JSONDecodeError: If a long string is not valid JSON.
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
            break  # not valid JSON, or over the limit
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


UNIRL_REWARD = "rewardharness"
"""Name of the reward for UniRL."""

_TURNS = 2


@dataclass(frozen=True)
class Dialect:
    """How a batch is read and answered."""

    parse: Parse
    """Makes of a body what `BatchRequest` reads."""
    write: Callable[[RewardReply], bytes]
    """Returns the body of the reply, as JSON."""


def _read_flow_factory(content_type: str, body: bytes, limits: Limits) -> Parsed:
    parsed = parse_body(content_type, body, limits)
    tree = parsed.tree if isinstance(parsed.tree, dict) else {}
    for name in ("prompt", "image", "condition_images"):
        if not isinstance(tree.get(name), list):
            raise invalid(f"{name} is no list; an edit has a prompt, an image and condition_images.")
    images, prompts, sources = tree["image"], tree["prompt"], tree["condition_images"]
    if not len(images) == len(prompts) == len(sources) > 0:
        raise invalid(f"There are {len(images)} images, {len(prompts)} prompts and {len(sources)} condition_images.")
    items = []
    for number, (prompt, image, several) in enumerate(zip(prompts, images, sources, strict=True)):
        if not isinstance(several, list) or not several:
            raise invalid(f"condition_images[{number}] does not begin with a source image.")
        item = {"instruction": prompt, "source": several[0], "edited": image}
        items.append({**item, "references": several[1:]} if len(several) > 1 else item)
    return Parsed({"items": items}, parsed.lifted)


def _write_flow_factory(reply: RewardReply) -> bytes:
    error = not_judged(reply.results)
    return orjson.dumps({"error": error} if error else {"rewards": [item.reward for item in reply.results]})


def _read_unirl(content_type: str, body: bytes, limits: Limits) -> Parsed:
    parsed = parse_body(content_type, body, limits)
    requests = parsed.tree.get("requests") if isinstance(parsed.tree, dict) else None
    if not isinstance(requests, list) or not requests:
        raise invalid("requests is no list of edits.")
    items = [_unirl_item(request, f"requests[{number}]") for number, request in enumerate(requests)]
    return Parsed({"items": items}, parsed.lifted)


def _unirl_item(request: Any, where: str) -> Json:
    if not isinstance(request, dict):
        raise invalid(f"{where} is no object.")
    if request.get("required_rewards") != [UNIRL_REWARD]:
        raise invalid(f"{where}.required_rewards is not [{UNIRL_REWARD!r}], the one reward that is given here.")
    history = request.get("history")
    if not isinstance(history, list) or len(history) != _TURNS or not all(isinstance(turn, dict) for turn in history):
        raise invalid(f"{where}.history does not have two turns: the source, and the edited image.")
    for number, turn in enumerate(history):
        if turn.get("image_b64") is None:
            raise invalid(f"{where}.history[{number}] has no image_b64; paths and videos are not read.")
    before, after = history
    text = after.get("text") or before.get("text")
    item = {"instruction": text, "source": before["image_b64"], "edited": after["image_b64"]}
    metadata = request.get("metadata")
    references = metadata.get("references") if isinstance(metadata, dict) else None
    return item if references is None else {**item, "references": references}


def _write_unirl(reply: RewardReply) -> bytes:
    results: list[Json] = []
    for item in reply.results:
        numbers = {"reward": item.reward, "instruction_following": item.instruction, "visual_quality": item.quality}
        known = {name: number for name, number in numbers.items() if number is not None}
        results.append({} if item.reward is None else {UNIRL_REWARD: known})
    errors = [{UNIRL_REWARD: item.reason} if item.reward is None else {} for item in reply.results]
    return orjson.dumps({"results": results, "errors": errors})


DIALECTS = {
    "/unirl/score": Dialect(_read_unirl, _write_unirl),
    "/flow_factory/compute": Dialect(_read_flow_factory, _write_flow_factory),
}
"""JSON protocols by path."""
HEALTH_PATHS = ("/unirl/health", "/flow_factory/health")
"""Both trainers ask for this before they train."""

"""The pickle dialects of older reward servers: `POST /` as flow_grpo asks, `POST /mode/NAME` as Edit-R1 does.

A pickle is a program. Ours is read only after every one of its instructions was found to be one that makes plain data:
bytes, texts, numbers, lists and mappings. It can name no class, call nothing, and nest nothing that could be hashed.
Even so the routes exist only with `rh serve --allow-pickle`, on an address that this machine alone can reach.

    {"images": [edited, ...], "ref_images": [source, ...], "prompts": [...]}        Edit-R1, and flow_grpo with sources
    {"images": [edited, ...], "ref_images": [[source, second, ...], ...], "prompts": [...]}  several sources
    {"images": [edited, ...], "prompts": [...], "metadata": {"source": [...]}}      verl-omni, flow_grpo
    {"images": {"source": [...], "edited": [...]}, "prompts": [...]}                deepgen

The reply is `{"scores": [...]}`, numbers in [0, 1]. These trainers know no missing reward: where one edit was not
judged, the whole reply is status 500 with `{"error": ...}`, which they ask again. 0.0 is never sent in its place.
"""

import io
import pickle
import pickletools
from collections.abc import Sequence
from typing import Any

from rewardharness.serving.body import Parsed
from rewardharness.serving.dialects import Dialect, batch_items
from rewardharness.serving.faults import Fault, RefusedError, invalid
from rewardharness.serving.limits import Limits
from rewardharness.serving.results import RewardReply, not_judged

CONTENT_TYPE = "application/octet-stream"

_PLAIN = frozenset(
    "PROTO FRAME STOP MARK POP POP_MARK DUP NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT "
    "SHORT_BINUNICODE BINUNICODE BINUNICODE8 SHORT_BINBYTES BINBYTES BINBYTES8 SHORT_BINSTRING BINSTRING "
    "EMPTY_LIST APPEND APPENDS LIST EMPTY_DICT SETITEM SETITEMS DICT "
    "MEMOIZE BINPUT LONG_BINPUT BINGET LONG_BINGET".split()
)
"""Opcodes that create plain data. Tuples are excluded, since hashing nested tuples can take exponential time."""

_STEPS = 4
"""Maximum number of opcodes per allowed value."""
_BITS = 64
"""Maximum number of bits of an integer. Longer integers allow hash collisions in mappings."""
_SOURCES = ("source", "source_image", "ref_image")


class _Plain(pickle.Unpickler):  # noqa: S301  # it can make nothing but plain data
    """Unpickler for plain data only, as a second line of defense after the check of the opcodes."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError("a pickle must not refer to classes")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("a pickle must not refer to external objects")


def load_plain(data: bytes, limits: Limits) -> Any:
    """Read a pickle that holds plain data.

    Raises:
        RefusedError: 400 if it is none, or holds anything else.
    """
    try:
        for number, (instruction, argument, _) in enumerate(pickletools.genops(data)):
            name = instruction.name
            if name not in _PLAIN:
                raise _malformed(f"The pickle has the instruction {name}; plain lists and mappings have not.")
            if number > _STEPS * limits.values:
                raise _malformed("The pickle has too many instructions.")
            if name == "LONG_BINPUT" and (argument or 0) > number:  # the unpickler would allocate all lower indices
                raise _malformed("The pickle numbers its values with gaps.")
            if name == "LONG1" and (argument or 0).bit_length() > _BITS:
                raise _malformed(f"The pickle holds a number of more than {_BITS} bits.")
        return _Plain(io.BytesIO(data)).load()
    except RefusedError:
        raise
    except Exception:  # malformed pickles raise exceptions of many types
        raise _malformed("The body is no pickle that can be read.") from None
    except MemoryError:
        raise _malformed("The pickle claims to be larger than it is.") from None


def read_pickled(content_type: str, body: bytes, limits: Limits) -> Parsed:
    """Take a pickled request apart, as `body.parse_body` does with others: into what `BatchRequest` reads.

    Raises:
        RefusedError: 400 if it is no plain pickle; 422 if it does not hold edits with their sources.
    """
    request: Any = load_plain(body, limits)
    if not isinstance(request, dict):
        raise invalid("The pickle does not hold a mapping.")
    images: Any = request.get("images")
    sources: Any = request.get("ref_images")
    if isinstance(images, dict):
        images, sources = images.get("edited"), images.get("source")
    edited = _all(images, bytes, "images")
    prompts = _all(request.get("prompts"), str, "prompts")
    before = _all(sources if sources is not None else _from_metadata(request, len(edited)), (bytes, list), "ref_images")
    parts: dict[str, bytes] = {}  # what a pickle holds once is decoded once

    def refs(several: Any) -> list[dict[str, str]]:
        named = {f"i{id(image)}": image for image in _all(several, bytes, "ref_images")}
        parts.update(named)
        return [{"ref": f"i{id(image)}"} for image in several]

    lists = [refs(several if isinstance(several, list) else [several]) for several in before]
    return Parsed({"items": batch_items(refs(edited), prompts, lists, "ref_images")}, parts=parts)


def write_pickled(reply: RewardReply) -> tuple[int, bytes]:
    """Return status and body of the reply."""
    error = not_judged(reply.results)
    if error:
        return 500, pickle.dumps({"error": error})
    scores = [item.reward for item in reply.results]
    return 200, pickle.dumps({"scores": scores, "rewards": scores})


def write_refusal(error: RefusedError) -> tuple[int, str, bytes]:
    """Return the reply for a refused request. Statuses that clients retry are kept; all others become 400."""
    status = error.status if error.status in {408, 429, 500, 503} else 400
    return status, CONTENT_TYPE, pickle.dumps({"error": error.fault.message})


PICKLED = Dialect(read_pickled, write_pickled, CONTENT_TYPE, "pickle", write_refusal)


def _all(values: Any, kind: type | tuple[type, ...], what: str) -> Sequence[Any]:
    if not isinstance(values, list) or not all(isinstance(value, kind) for value in values):
        held = "texts" if kind is str else "encoded images"
        raise invalid(f"{what} is no list of {held}; arrays of numpy and pictures of Pillow are not read.")
    return values


def _from_metadata(request: dict[str, Any], count: int) -> Any:
    """Return the source images from the metadata: one mapping with a list, or a list of mappings."""
    for key in ("metadata", "metadatas", "meta_datas"):
        metadata = request.get(key)
        if isinstance(metadata, dict):
            for name in _SOURCES:
                value: Any = metadata.get(name, metadata.get(f"{name}s"))
                if value is not None:
                    return [value] * count if isinstance(value, bytes) else value
        if isinstance(metadata, list) and metadata and all(isinstance(entry, dict) for entry in metadata):
            values = [next((entry[name] for name in _SOURCES if name in entry), None) for entry in metadata]
            if None not in values:
                return values
    raise invalid("There are no source images to judge edits by. Give ref_images, or `source` in the metadata.")


def _malformed(message: str) -> RefusedError:
    return RefusedError(400, Fault("malformed", message, "Send plain lists, texts and bytes; or JSON to /batch_score."))

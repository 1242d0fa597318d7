"""The pickle dialects of older reward servers: `POST /` as flow_grpo asks, `POST /mode/NAME` as Edit-R1 does.

A pickle is a program. Ours is read only after every one of its instructions was found to be one that makes plain data:
bytes, texts, numbers, lists and mappings. It can name no class, call nothing, and nest nothing that could be hashed.
Even so the routes exist only with `rh serve --allow-pickle`, on an address that this machine alone can reach.

    {"images": [edited, ...], "ref_images": [source, ...], "prompts": [...]}        Edit-R1, and flow_grpo with sources
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
from rewardharness.serving.faults import Fault, RefusedError, invalid
from rewardharness.serving.limits import Limits
from rewardharness.serving.results import Reply

CONTENT_TYPE = "application/octet-stream"

_PLAIN = frozenset(
    "PROTO FRAME STOP MARK POP POP_MARK DUP NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT "
    "SHORT_BINUNICODE BINUNICODE BINUNICODE8 SHORT_BINBYTES BINBYTES BINBYTES8 SHORT_BINSTRING BINSTRING "
    "EMPTY_LIST APPEND APPENDS LIST EMPTY_DICT SETITEM SETITEMS DICT "
    "MEMOIZE BINPUT LONG_BINPUT BINGET LONG_BINGET".split()
)
"""Instructions that make plain data. Tuples are not among them: nested ones can take for ever to hash."""

_STEPS = 4
"""Instructions for each value that a request may hold at most."""
_BITS = 64
"""Bits of a number at most. Among longer ones there are thousands that are equally hard to tell apart in a mapping."""
_SOURCES = ("source", "source_image", "ref_image")


class _Plain(pickle.Unpickler):  # noqa: S301  # it can make nothing but plain data
    """Makes nothing but plain data, whatever the check before it has missed."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError("a pickle may name no class here")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("a pickle may refer to nothing outside itself")


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
            if name == "LONG_BINPUT" and (argument or 0) > number:  # its reader would make room for all numbers below
                raise _malformed("The pickle numbers its values with gaps.")
            if name == "LONG1" and (argument or 0).bit_length() > _BITS:
                raise _malformed(f"The pickle holds a number of more than {_BITS} bits.")
        return _Plain(io.BytesIO(data)).load()
    except RefusedError:
        raise
    except Exception:  # whatever a broken pickle does to its reader
        raise _malformed("The body is no pickle that can be read.") from None
    except MemoryError:
        raise _malformed("The pickle claims to be larger than it is.") from None


def read_pickled(content_type: str, body: bytes, limits: Limits) -> Parsed:
    """Take a pickled request apart, as `body.parse_body` does with others: into what `BatchRequest` reads.

    Raises:
        RefusedError: 400 if it is no plain pickle; 422 if it does not hold edits with their sources.
    """
    wish: Any = load_plain(body, limits)
    if not isinstance(wish, dict):
        raise invalid("The pickle does not hold a mapping.")
    images: Any = wish.get("images")
    sources: Any = wish.get("ref_images")
    if isinstance(images, dict):
        images, sources = images.get("edited"), images.get("source")
    edited = _all(images, bytes, "images")
    prompts = _all(wish.get("prompts"), str, "prompts")
    before = _all(sources if sources is not None else _from_metadata(wish, len(edited)), bytes, "ref_images")
    if not len(edited) == len(prompts) == len(before) > 0:
        raise invalid(f"There are {len(edited)} images, {len(prompts)} prompts and {len(before)} source images.")
    parts: dict[str, bytes] = {}
    items = []
    for prompt, source, image in zip(prompts, before, edited, strict=True):
        names = [f"i{id(each)}" for each in (source, image)]  # what a pickle holds once is decoded once
        parts.update(zip(names, (source, image), strict=True))
        items.append({"instruction": prompt, "source": {"ref": names[0]}, "edited": {"ref": names[1]}})
    return Parsed({"items": items}, parts=parts)


def write_pickled(reply: Reply) -> tuple[int, bytes]:
    """Write the reply.

    Returns:
        Status and body.
    """
    failed = [item.error.code for item in reply.results if item.error is not None]
    if failed:
        return 500, pickle.dumps({"error": f"{len(failed)} of {len(reply.results)} edits were not judged: {failed[0]}"})
    scores = [item.reward for item in reply.results]
    return 200, pickle.dumps({"scores": scores, "rewards": scores})


def write_refusal(error: RefusedError) -> tuple[int, bytes]:
    """Write why a request was not taken. Statuses that these clients ask again on stay; all others are 400."""
    status = error.status if error.status in {408, 429, 500, 503} else 400
    return status, pickle.dumps({"error": error.fault.message})


def _all(values: Any, kind: type, what: str) -> Sequence[Any]:
    if not isinstance(values, list) or not all(isinstance(each, kind) for each in values):
        held = "encoded images" if kind is bytes else "texts"
        raise invalid(f"{what} is no list of {held}; arrays of numpy and pictures of Pillow are not read.")
    return values


def _from_metadata(wish: dict[str, Any], count: int) -> Any:
    """Look for the source images in the metadata: one mapping with a list, or a list of mappings."""
    for key in ("metadata", "metadatas", "meta_datas"):
        found = wish.get(key)
        if isinstance(found, dict):
            for name in _SOURCES:
                value: Any = found.get(name, found.get(f"{name}s"))
                if value is not None:
                    return [value] * count if isinstance(value, bytes) else value
        if isinstance(found, list) and found and all(isinstance(each, dict) for each in found):
            values = [next((each[name] for name in _SOURCES if name in each), None) for each in found]
            if None not in values:
                return values
    raise invalid("There are no source images to judge edits by. Give ref_images, or `source` in the metadata.")


def _malformed(message: str) -> RefusedError:
    return RefusedError(400, Fault("malformed", message, "Send plain lists, texts and bytes; or JSON to /batch_score."))

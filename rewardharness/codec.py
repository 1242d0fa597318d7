"""Conversion of frozen dataclasses to JSON and back, strictly, with `msgspec`.

A field may be of a plain type, a `Literal`, a dataclass, a tuple, a mapping, `Annotated` with `msgspec.Meta`, or any of
these `| None`. A field with the value `UNSET` is omitted. Reading rejects unknown keys, missing keys and values of
another type; the error names the place.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, TypedDict, TypeVar

import msgspec

from rewardharness.errors import InputError

T = TypeVar("T")

_LEAVES = frozenset({str, int, float, bool, type(None)})
_OBJECTS, _ARRAYS = (dict, Mapping), (list, tuple)  # the usual type first, as checks of abstract types are slow

UNSET = msgspec.UNSET
"""The value of a field that is omitted."""
UnsetType = msgspec.UnsetType
"""Its type."""
Text = Annotated[str, msgspec.Meta(pattern=r"\S")]
"""A string that is not blank."""
Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]
"""A SHA-256 digest in 64 hexadecimal digits."""
Count = Annotated[int, msgspec.Meta(ge=0)]
"""A whole number from 0."""
Positive = Annotated[int, msgspec.Meta(ge=1)]
"""A whole number from 1."""
Unsigned = Annotated[float, msgspec.Meta(ge=0)]
"""A number from 0."""


READS, WRITES, SENDS, TEXT = ({"use": use} for use in ("reads", "writes", "sends", "text"))
"""Metadata of the fields of a configuration that hold free text or a path: what is named is read, is written to, gets
data (a model, an address), or nothing is named."""


class ValidationError(InputError):
    """A value that does not fit its type. The message names the place, as in `body.trainer.config`."""


def to_json(value: Any) -> Any:
    """Convert a value to dicts, lists, strings and numbers."""
    return msgspec.to_builtins(value, enc_hook=_encode)


def from_json(kind: type[T], value: Any, *, coerce: bool = False) -> T:
    """Convert plain JSON to a value of a type.

    Args:
        kind: A dataclass, or any type that `msgspec` supports.
        value: Dicts, lists, strings and numbers.
        coerce: Accept numbers that are written as strings, as on a command line.

    Raises:
        ValidationError: If the value does not fit, or the dataclass rejects it.
    """
    try:
        result = msgspec.convert(value, kind, strict=not coerce, dec_hook=_decode)
    except (msgspec.ValidationError, RecursionError) as error:
        message = str(error).replace(", got `str`", "") if coerce else str(error)
        raise ValidationError(_plain_message(message)) from None
    if unknown := _complete(value, result):
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in unknown)
        place = "".join(steps).removeprefix(".")
        raise ValidationError(
            f"unknown key {place if place.isprintable() and len(place) <= 200 else ascii(place[:200])}"
        )
    return result


def named(kind: Any, use: Mapping[str, str]) -> list[str]:
    """Return the fields of a configuration with a use, such as `WRITES`."""
    return [field.name for field in fields(kind) if field.metadata == use]


def decode(data: bytes, kind: Any = Any) -> Any:
    """Parse JSON. NaN, infinity, lone surrogates and too deep nesting are errors.

    Args:
        data: The JSON text.
        kind: Expected type, of tuples and plain values. For dataclasses use `from_json`.

    Raises:
        ValidationError: If it is not JSON, or a value is of another type.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise ValidationError(_plain_message(str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValidationError(f"not valid JSON: {error}") from None


@lru_cache(maxsize=64)
def fields_reader(names: Iterable[str]) -> Callable[[bytes], dict[str, Any]]:
    """Return a function that parses some fields of a JSON object, which is much faster than parsing all of a long one.

    It raises ValueError for anything but a JSON object, NaN and lone surrogates included.

    Args:
        names: Keys of the object, hashable; those that it does not have are omitted.
    """
    kind = TypedDict("kind", dict.fromkeys(names, Any), total=False)  # type: ignore[misc]
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(kind)
    return decoder.decode


def finite(value: object) -> float | None:
    """Return a JSON number as a float; None for other types, NaN, infinity and integers beyond the range of floats."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _complete(source: Any, result: Any) -> tuple[Any, ...]:
    """Set omitted fields in instances of dataclasses, and return the place of a key that was given and is not known.

    `msgspec` leaves defaults to the class, and then omits them; and it skips unknown keys of dataclasses.
    """
    if result is source:
        return ()
    kind: Any = type(result)
    names = _field_names(kind)
    known: Any = vars(result) if names else result
    if len(known) < len(names):
        known |= {name: getattr(result, name) for name in names if name not in known}
    parts: Iterable[tuple[Any, Any]] = ()
    if isinstance(source, _ARRAYS) and isinstance(known, _ARRAYS):
        parts = enumerate(source)
    elif isinstance(source, _OBJECTS) and isinstance(known, _OBJECTS):
        if not source.keys() <= known.keys():
            return (next(str(key) for key in source if key not in known),)
        parts = source.items()
    for key, value in parts:
        if type(value) not in _LEAVES and (unknown := _complete(value, known[key])):
            return (key, *unknown)
    return ()


@lru_cache(maxsize=1024)
def _field_names(kind: Any) -> tuple[str, ...]:
    """Return the fields of a dataclass; none of another type."""
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()


def _encode(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} has no JSON form")


def _decode(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise ValueError(f"Expected `{kind.__name__}`, got `{type(value).__name__}`")


def _plain_message(message: str) -> str:
    """Put the place first: "Expected `str`, got `int` - at `$.name`" becomes "name: expected `str`, got `int`"."""
    what, _, place = message.partition(" - at `$")
    place = place.rstrip("`").lstrip(".")
    what = what.replace("matching regex '\\\\S'", "that is not empty").replace(
        "matching regex '^[0-9a-f]{64}$'", "with a SHA-256 in 64 hexadecimal digits"
    )
    return f"{place}: {what[:1].lower()}{what[1:]}" if place else what

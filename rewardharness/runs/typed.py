"""Reads plain JSON into frozen dataclasses, strictly: a key too many or too few, or a value of another type, is named.

Types that fields may have: `str`, `int`, `float`, `bool`, `Literal`, a dataclass, `tuple[X, ...]`, `tuple[X, X]`, any
of these `| None`, and `Mapping[str, Any]` for JSON of any form. A field with a default may be left out when read, and
is always written.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from rewardharness.errors import InputError

T = TypeVar("T")

DEPTH = 32
"""How deep JSON of any form may be nested."""

_HASH = re.compile(r"[0-9a-f]{64}")

LARGEST = 2**63
"""Whole numbers are smaller than this."""


class Misfit(InputError):
    """A value that does not fit. The message names the place, as in `trainer.config`, and what was expected."""


def read_as(kind: type[T], value: Any, place: str = "") -> T:
    """Read a JSON object into a dataclass.

    Raises:
        Misfit: If it does not fit, or the dataclass refuses the values.
    """
    if not isinstance(value, dict):
        raise Misfit(f"{place or 'the top'} must be an object")
    hints, known = get_type_hints(kind), fields(kind)  # type: ignore[arg-type]
    unknown = sorted(value.keys() - {field.name for field in known})
    if unknown:
        raise Misfit(f"{_at(place, unknown[0])} is no known key")
    found: dict[str, Any] = {}
    for field in known:
        if field.name in value:
            found[field.name] = _read(hints[field.name], value[field.name], _at(place, field.name))
        elif field.default is MISSING and field.default_factory is MISSING:
            raise Misfit(f"{_at(place, field.name)} is missing")
    try:
        return kind(**found)
    except Misfit as error:
        raise Misfit(f"{place}: {error}" if place else str(error)) from None


def to_json(value: Any) -> Any:
    """Put a dataclass of the types above into JSON."""
    if is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: to_json(each) for key, each in value.items()}
    return [to_json(each) for each in value] if isinstance(value, list | tuple) else value


def filled(name: str, text: str) -> None:
    """Make sure that a text says something; raises `Misfit`."""
    if not text.strip():
        raise Misfit(f"{name} is empty")


def hashed(name: str, text: str) -> None:
    """Make sure that a text is a SHA-256; raises `Misfit`."""
    if _HASH.fullmatch(text) is None:
        raise Misfit(f"{name} must be a SHA-256 in 64 hexadecimal digits")


def at_least(name: str, value: float | None, low: int) -> None:
    """Make sure that a number is not too small, when there is one; raises `Misfit`."""
    if value is not None and value < low:
        raise Misfit(f"{name} must be {low} or more")


def distinct(name: str, values: Sequence[str]) -> None:
    """Make sure that nothing is named twice; raises `Misfit`."""
    twice = next((each for each in values if values.count(each) > 1), None)
    if twice is not None:
        raise Misfit(f"{name} names {twice} twice")


def _read(hint: Any, value: Any, place: str) -> Any:
    origin = get_origin(hint)
    if origin in {UnionType, Union}:
        if value is None:
            return None
        [inner] = [each for each in get_args(hint) if each is not NoneType]
        return _read(inner, value, place)
    if origin is Literal:
        if not isinstance(value, str) or value not in get_args(hint):
            raise Misfit(f"{place} must be one of {', '.join(get_args(hint))}")
        return value
    if origin is tuple:
        return _read_tuple(get_args(hint), value, place)
    if is_dataclass(hint):
        return read_as(hint, value, place)  # type: ignore[arg-type]
    if hint in _PLAIN:
        return _read_plain(hint, value, place)
    if not isinstance(value, dict):
        raise Misfit(f"{place} must be an object")
    _check_free(value, place, 0)
    return value


def _read_tuple(hints: tuple[Any, ...], value: Any, place: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise Misfit(f"{place} must be a list")
    if hints[-1] is not Ellipsis:
        if len(value) != len(hints):
            raise Misfit(f"{place} must have {len(hints)} members")
        return tuple(
            _read(hint, each, f"{place}[{n}]") for n, (hint, each) in enumerate(zip(hints, value, strict=True))
        )
    return tuple(_read(hints[0], each, f"{place}[{number}]") for number, each in enumerate(value))


_PLAIN = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def _read_plain(hint: type, value: Any, place: str) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if hint is float and number and abs(value) < 1e300:
        return float(value)
    whole = isinstance(value, int) and number and abs(value) < LARGEST
    if hint is float or (not whole if hint is int else not isinstance(value, hint)):
        raise Misfit(f"{place} must be {_PLAIN[hint]}")
    _check_text(value, place)
    return value


def _check_free(value: Any, place: str, depth: int) -> None:
    """Make sure that JSON of any form can be written and read back."""
    if depth > DEPTH:
        raise Misfit(f"{place} is nested too deeply")
    if isinstance(value, dict):
        for key, each in value.items():
            if not isinstance(key, str):
                raise Misfit(f"{place} has a key that is no text")
            _check_text(key, place)
            _check_free(each, _at(place, key), depth + 1)
    elif isinstance(value, list | tuple):
        for number, each in enumerate(value):
            _check_free(each, f"{place}[{number}]", depth + 1)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise Misfit(f"{place} is no finite number")
    elif value is not None and not isinstance(value, str | int):
        raise Misfit(f"{place} is of a type that JSON does not have")
    elif isinstance(value, int) and abs(value) >= LARGEST:
        raise Misfit(f"{place} is too large a number")
    else:
        _check_text(value, place)


def _check_text(value: Any, place: str) -> None:
    if isinstance(value, str) and any("\ud800" <= each <= "\udfff" for each in value):
        raise Misfit(f"{place} is no valid text")


def _at(place: str, name: str) -> str:
    shown = name if name.isprintable() and len(name) <= 60 else ascii(name[:60])
    return f"{place}.{shown}" if place else shown

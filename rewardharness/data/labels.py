"""Parse preference labels: words, orders such as `A>B`, scores and ranks.

Numeric labels are ambiguous (candidates are counted from 0 or from 1), so they require a value map.
"""

import math
import re
from collections.abc import Mapping, Sequence

from rewardharness.errors import InputError
from rewardharness.schema import LABELS, TIE

Values = Mapping[str, str | None]
"""Meaning of label values by `label_key`: a letter, `tie`, or None for no label."""

COUNTED = {f"from-{start}": {str(start + place): label for place, label in enumerate(LABELS)} for start in (0, 1)}
"""Shorthands for candidate indices that start at 0 or 1."""

_NAMES = ("", "candidate ", "image ", "option ", "response ", "output ", "edit ", "model ")
_WORDS: dict[str, str | None] = {
    **{f"{name}{label.lower()}": label for name in _NAMES for label in LABELS},
    **{f"{side}{rest}": label for side, label in (("left", "A"), ("right", "B")) for rest in ("", "vote", " vote")},
    **dict.fromkeys(("tie", "tievote", "tie vote", "same", "equal", "draw", "no preference"), TIE),
    **dict.fromkeys(("bothbad", "both bad", "bothbad vote", "tie (bothbad)", "tie (both bad)"), TIE),
}
_ORDER = re.compile(r"\[*([a-z])((?:(?:>+|<+|=+)[a-z])+)\]*")
_STEP = re.compile(r"([<>=])[<>=]*([a-z])")


class UnknownLabelError(ValueError):
    """A label value is not recognized."""


def label_key(value: object) -> str:
    """Normalize a label value: one spelling, case-folded, without surrounding spaces.

    Returns:
        The key; empty for None, an empty text and NaN.
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return " ".join(str(value).casefold().replace("_", " ").split())


def read_values(mapping: object) -> Values:
    """Parse a value map.

    Args:
        mapping: A mapping from values to letters, `tie` or nothing; or `from-0` or `from-1`.

    Raises:
        InputError: If the map is invalid.
    """
    step = "Map each value to A, B, C, D, tie or nothing, or use from-0 or from-1."
    if isinstance(mapping, str) and mapping in COUNTED:
        return dict(COUNTED[mapping])
    if not isinstance(mapping, Mapping) or not mapping:
        raise InputError(f"{str(mapping)[:80]!r} is not a valid map of label values.", next_step=step)
    meant = {label.lower(): label for label in LABELS} | {TIE: TIE, "": None, "none": None}
    values: dict[str, str | None] = {}
    for value, meaning in mapping.items():
        key, word = label_key(value), label_key(meaning)
        if not key or word not in meant:
            message = f"The label {str(value)[:40]!r} cannot be mapped to {str(meaning)[:40]!r}."
            raise InputError(message, next_step=step)
        if values.setdefault(key, meant[word]) != meant[word]:
            raise InputError(f"The label {key!r} is mapped twice.", next_step=step)
    return values


def read_label(value: object, count: int, values: Values | None = None) -> str | None:
    """Parse one label.

    Args:
        value: The value in the table.
        count: Number of candidates, 2 to 4.
        values: Meaning of values; None for common words, letters, and orders such as `A>B` or `B<A=C`.

    Returns:
        The letter of the best candidate; `tie` if several are best; None for no label.

    Raises:
        UnknownLabelError: If the value is unknown or refers to a missing candidate.
    """
    key = label_key(value)
    if not key:
        return None
    if values is not None:
        if key not in values:
            raise UnknownLabelError(key)
        label = values[key]
    else:
        label = _WORDS[key] if key in _WORDS else _best_of_order(key, count)
    if label not in (None, TIE, *LABELS[:count]):
        raise UnknownLabelError(key)
    return label


def _best_of_order(key: str, count: int) -> str:
    """Parse `A>B`, `[[B>>A]]`, `A=B` or `C<A=B`: every candidate once, all signs in one direction."""
    found = _ORDER.fullmatch(key.replace(" ", ""))
    steps = _STEP.findall(found[2]) if found else []
    signs = {sign for sign, _ in steps} - {"="}
    letters = [found[1], *(letter for _, letter in steps)] if found else []
    if len(signs) > 1 or sorted(letters) != [label.lower() for label in LABELS[:count]]:
        raise UnknownLabelError(key)
    if "<" in signs:
        steps = [(sign, before) for (sign, _), before in zip(reversed(steps), reversed(letters[:-1]), strict=True)]
        letters.reverse()
    return TIE if steps[0][0] == "=" else letters[0].upper()


def best_by_score(scores: Sequence[object], *, lowest: bool = False) -> str | None:
    """Return the best candidate by scores or ranks.

    Args:
        scores: One number per candidate, possibly as text.
        lowest: Whether the lowest number is the best, as for ranks.

    Returns:
        Its letter; `tie` if several are best; None if a number is missing.

    Raises:
        UnknownLabelError: If a value is not a number.
    """
    numbers = [_number(score) for score in scores]
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers):
        return None
    best = min(known) if lowest else max(known)
    return TIE if known.count(best) > 1 else LABELS[known.index(best)]


def _number(value: object) -> float | None:
    if not label_key(value):
        return None
    try:
        number = math.nan if isinstance(value, bool) else float(str(value))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UnknownLabelError(str(value))
    return number

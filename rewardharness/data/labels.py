"""Reads what datasets write for a preference: words, orders such as `A>B`, scores and ranks.

Nothing is guessed. A number says nothing by itself (candidates are counted from 0 here and from 1 there), so numbers
are read only where a map of values says what they mean.
"""

import math
import re
from collections.abc import Mapping, Sequence

from rewardharness.errors import InputError
from rewardharness.schema import LABELS, TIE

Values = Mapping[str, str | None]
"""What each value of a label means, by `label_key`: a letter, `tie`, or None for no label."""

COUNTED = {f"from-{start}": {str(start + place): label for place, label in enumerate(LABELS)} for start in (0, 1)}
"""Short for the two ways of counting candidates."""

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
    """A value that no rule reads."""


def label_key(value: object) -> str:
    """Write a value of a label so that equal values are equal: one spelling, no case, no spaces around.

    Returns:
        The key; empty for what is no label: None, an empty text, a number that is none.
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return " ".join(str(value).casefold().replace("_", " ").split())


def read_values(given: object) -> Values:
    """Read a map of values as a user writes it.

    Args:
        given: A mapping from values to letters, `tie` or nothing; or `from-0` or `from-1`.

    Raises:
        InputError: If it says something else.
    """
    step = "Map each value to A, B, C, D, tie or nothing; or write from-0 or from-1."
    if isinstance(given, str) and given in COUNTED:
        return dict(COUNTED[given])
    if not isinstance(given, Mapping) or not given:
        raise InputError(f"{str(given)[:80]!r} does not say what labels mean.", next_step=step)
    meant = {label.lower(): label for label in LABELS} | {TIE: TIE, "": None, "none": None}
    values: dict[str, str | None] = {}
    for value, meaning in given.items():
        key, word = label_key(value), label_key(meaning)
        if not key or word not in meant:
            raise InputError(f"The label {str(value)[:40]!r} cannot mean {str(meaning)[:40]!r}.", next_step=step)
        if values.setdefault(key, meant[word]) != meant[word]:
            raise InputError(f"The label {key!r} is given two meanings.", next_step=step)
    return values


def read_label(value: object, count: int, values: Values | None = None) -> str | None:
    """Read one label.

    Args:
        value: What stands in the table.
        count: Number of candidates, 2 to 4.
        values: What values mean; None for the usual words, letters, and orders such as `A>B` or `B<A=C`.

    Returns:
        The letter of the best candidate; `tie` when the first are level; None for no label.

    Raises:
        UnknownLabelError: If it cannot be read, or names a candidate that is not there.
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
    """Read `A>B`, `[[B>>A]]`, `A=B` or `C<A=B`: every candidate once, all signs in one direction."""
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
    """Find the best candidate by numbers.

    Args:
        scores: One for each candidate: numbers, or texts that are numbers.
        lowest: Whether the lowest is the best, as of ranks.

    Returns:
        Its letter; `tie` when the first are level; None when a number is missing.

    Raises:
        UnknownLabelError: If something is not a number.
    """
    numbers = [_number(score) for score in scores]
    if any(number is None for number in numbers):
        return None
    known = [number for number in numbers if number is not None]
    best = min(known) if lowest else max(known)
    return TIE if known.count(best) > 1 else LABELS[known.index(best)]


def _number(value: object) -> float | None:
    if isinstance(value, bool):
        raise UnknownLabelError(str(value))
    if not label_key(value):
        return None
    try:
        number = float(str(value))
    except ValueError:
        raise UnknownLabelError(str(value)) from None
    if not math.isfinite(number):
        raise UnknownLabelError(str(value))
    return number

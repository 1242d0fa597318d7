"""Rows that cannot be used: all refused in one error that names them, or left out by choice and counted."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from rewardharness.data.source import SkippedRow
from rewardharness.errors import DataError

SKIP = "--skip-bad-rows"
"""Option of the command line that leaves bad rows out."""

_SHOWN = 5
_LISTED = 20


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be used."""

    number: int
    """Of the row, from 1; in a file of text of its line."""
    problem: str
    """Names the column, the value and what is wrong with it."""
    remedy: str
    before: int
    """How many usable examples stand before it."""
    file: str = ""
    """The file that the line is of; empty for rows of a table."""

    @property
    def place(self) -> str:
        """Where it stands, as in `row 3` or `pairs.jsonl line 3`."""
        return f"{self.file} line {self.number}" if self.file else f"row {self.number}"


def settle(name: str, bad: Sequence[BadRow], *, usable: int, skip: bool) -> tuple[SkippedRow, ...]:
    """Decide what becomes of bad rows.

    Args:
        name: What the dataset is called in an error; empty when the places say it.
        bad: The rows, in order.
        usable: How many rows can be used.
        skip: Whether the user chose to leave bad rows out.

    Returns:
        The rows that are left out, with their reasons.

    Raises:
        DataError: If there are bad rows and no such choice, or nothing else; names rows, columns, values and remedies.
    """
    if bad and not (skip and usable):
        raise _refusal(name, bad, usable=usable)
    return tuple(SkippedRow(each.place, each.problem, each.before) for each in bad)


def _refusal(name: str, bad: Sequence[BadRow], *, usable: int) -> DataError:
    alike: dict[tuple[str, str], list[int]] = defaultdict(list)
    for each in bad:
        alike[each.file, each.problem].append(each.number)
    shown = "; ".join(f"{_places(*key, numbers)}" for key, numbers in list(alike.items())[:_SHOWN])
    hidden = sum(len(numbers) for numbers in list(alike.values())[_SHOWN:])
    count = f"{len(bad)} row{'s' * (len(bad) != 1)}"
    which = f"None of the {count} can be used" if not usable and len(bad) > 1 else f"{count} cannot be used"
    steps = list(dict.fromkeys(each.remedy for each in bad))[:_SHOWN]
    if usable:
        steps.append(f"Or go on without such rows, counted as not judged: {SKIP}.")
    message = f"{which}: {shown}{f'; and {hidden} more' if hidden else ''}."
    return DataError(f"{name}: {message}" if name else message, next_step=" ".join(steps))


def _places(file: str, problem: str, numbers: Sequence[int]) -> str:
    listed = ", ".join(map(str, numbers[:_LISTED]))
    more = f" and {len(numbers) - _LISTED} more" if len(numbers) > _LISTED else ""
    what = f"{file} line" if file else "row"
    return f"{what}{'s' * (len(numbers) != 1)} {listed}{more}: {problem}"

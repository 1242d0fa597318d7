"""Invalid rows: reported in a single error, or skipped on request and counted."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from rewardharness.data.source import SkippedRow
from rewardharness.errors import DataError

SKIP = "--skip-bad-rows"
"""Command-line option that skips invalid rows."""

_SHOWN = 5
_LISTED = 20


class BadRowError(Exception):
    """A row is invalid.

    Args:
        problem: The column, the value and the reason; equal for all rows with the same cell.
        remedy: What to do about it.
    """

    def __init__(self, problem: str, remedy: str = "Correct these rows.") -> None:
        super().__init__(problem)
        self.remedy = remedy


@dataclass(frozen=True)
class BadRow:
    """An invalid row."""

    number: int
    """Row number from 1; line number in a text file."""
    problem: str
    """The column, the value and the reason."""
    remedy: str
    before: int
    """Number of valid examples before it."""
    file: str = ""
    """File name of the line; empty for rows of a table."""

    @property
    def place(self) -> str:
        """Location, such as `row 3` or `pairs.jsonl line 3`."""
        return f"{self.file} line {self.number}" if self.file else f"row {self.number}"


def settle(name: str, bad: Sequence[BadRow], *, usable: int, skip: bool) -> tuple[SkippedRow, ...]:
    """Skip invalid rows, or raise an error that lists them.

    Args:
        name: Name of the dataset in the error; empty if the locations include it.
        bad: The rows, in order.
        usable: Number of valid rows.
        skip: Whether to skip invalid rows.

    Returns:
        The skipped rows, with their reasons.

    Raises:
        DataError: If there are invalid rows and `skip` is false, or no valid rows; lists rows, columns and values.
    """
    if bad and not (skip and usable):
        raise _refusal(name, bad, usable=usable)
    return tuple(SkippedRow(row.place, row.problem, row.before) for row in bad)


def _refusal(name: str, bad: Sequence[BadRow], *, usable: int) -> DataError:
    alike: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row in bad:
        alike[row.file, row.problem].append(row.number)
    first = list(alike.items())[:_SHOWN]
    named = [(f"{file} line" if file else "row", problem, numbers) for (file, problem), numbers in first]
    shown = "; ".join(f"{numbered(noun, numbers)}: {problem}" for noun, problem, numbers in named)
    hidden = sum(len(numbers) for numbers in list(alike.values())[_SHOWN:])
    count = f"{len(bad)} row{'s' * (len(bad) != 1)}"
    which = f"None of the {count} can be used" if not usable and len(bad) > 1 else f"{count} cannot be used"
    steps = list(dict.fromkeys(row.remedy for row in bad))[:_SHOWN]
    if usable:
        steps.append(f"To skip these rows and count them as not judged, add {SKIP}.")
    message = f"{which}: {shown}{f'; and {hidden} more' if hidden else ''}."
    return DataError(f"{name}: {message}" if name else message, next_step=" ".join(steps))


def numbered(noun: str, numbers: Sequence[int]) -> str:
    """Return numbers in words, such as `rows 1, 3`; many are shortened."""
    listed = ", ".join(map(str, numbers[:_LISTED]))
    more = f" and {len(numbers) - _LISTED} more" if len(numbers) > _LISTED else ""
    return f"{noun}{'s' * (len(numbers) != 1)} {listed}{more}"

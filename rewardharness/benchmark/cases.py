"""Reads rows into cases: what is compared, and what is true.

A row that cannot be used is named and counted, never dropped in silence.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from rewardharness.benchmark.ratings import Edit
from rewardharness.benchmark.task import BOTH_BAD, Label, Part, Task
from rewardharness.errors import DataError
from rewardharness.files import content_id
from rewardharness.schema import LABELS, TIE, ImageInput

Row = Mapping[str, Any]
"""One row: values by column; images are `ImageInput`."""

NOT_JUDGED = "not judged"
"""What becomes of a row that cannot be used."""

_PLACEHOLDER = re.compile(r"<image(?:_\d+)?>")
_SWAPPED = {"A": "B", "B": "A"}


@dataclass(frozen=True)
class Case:
    """One row that was understood."""

    id: str
    """Unique within the task; begins with the part."""
    part: str
    instruction: str
    source: ImageInput
    candidates: tuple[ImageInput, ...]
    truth: str | float | None
    """The best candidate's letter by its place in `candidates`, `tie`, `both bad`, a human score, or None: no label."""
    group: str = ""
    """Cases of one group belong together; begins with the part. Empty for a case of its own."""
    letters: tuple[str, ...] = LABELS[:2]
    """What the candidates are called within their group."""
    category: str = ""
    dimension: str = ""
    editors: tuple[str, ...] = ()
    excluded: str = ""
    """Why it is judged but not counted; empty for a case that counts."""


@dataclass(frozen=True)
class Problem:
    """Something odd about the data of a task, with what follows from it."""

    code: str
    """A fixed word or two for tables, as in `incomplete group`."""
    part: str
    message: str
    """What it is, in a sentence."""
    n: int
    """How many rows or groups."""
    consequence: str
    """What was done about it, as in `not counted`."""
    ids: tuple[str, ...] = ()
    """The first of them."""


class _Odd(Exception):
    """A row cannot be used.

    Args:
        code: Which kind of problem it is.
        message: About this row.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def read_part(
    task: Task, part: Part, columns: Sequence[str], rows: Iterable[Row], human: Mapping[Edit, float] | None = None
) -> tuple[list[Case], list[Problem]]:
    """Read the rows of one part.

    Args:
        task: What it is a part of.
        part: The part.
        columns: The columns that the rows have.
        rows: The rows, read once.
        human: Human scores by editor and item, where raters' tables hold them.

    Returns:
        The cases in the order of the rows, and what is odd about rows that gave none.

    Raises:
        DataError: If a column that the task needs is missing, or no row could be used.
    """
    assert task.columns is not None and task.label is not None
    _check_columns(task, part, columns)
    cases: list[Case] = []
    odd: dict[str, list[tuple[str, str]]] = {}
    for number, row in enumerate(rows):
        if not all(str(row.get(name, value)) == value for name, value in part.where.items()):
            continue
        name = f"{part.name}/{_name(row, task.columns.id, part, number)}"
        try:
            case = _case(task, part, name, row, human or {})
        except _Odd as error:
            odd.setdefault(error.code, []).append((name, str(error)))
            continue
        cases.append(_shuffled(case) if task.shuffle and len(case.candidates) == 2 else case)
    problems = [
        Problem(code, part.name, found[0][1], len(found), NOT_JUDGED, tuple(name for name, _ in found[:20]))
        for code, found in odd.items()
    ]
    if not cases:
        first = f": {problems[0].message}" if problems else ""
        raise DataError(f"{task.name}, part {part.name}: none of the rows can be used{first}.", next_step=_LOOK)
    return cases, problems


_LOOK = "Compare the data with `rh benchmark show TASK`; --source names a local copy."


def _check_columns(task: Task, part: Part, columns: Sequence[str]) -> None:
    assert task.columns is not None and task.label is not None
    group = (part.group.column,) if part.group else ()
    wanted = dict.fromkeys((*task.columns.required(), *task.label.required(), *group))
    missing = [name for name in wanted if name not in columns]
    if missing:
        raise DataError(
            f"{task.name}, part {part.name}: the data have no column {', '.join(missing)}; "
            f"they have {', '.join(columns) or 'none'}.",
            next_step=_LOOK,
        )


def _name(row: Row, columns: Sequence[str], part: Part, number: int) -> str:
    """Name a row: by its own id, or by its place."""
    if not columns:
        return f"{part.split or 'row'}-{number:06d}"
    return ":".join(_words(row.get(column)) for column in columns)


def _case(task: Task, part: Part, name: str, row: Row, human: Mapping[Edit, float]) -> Case:
    assert task.columns is not None and task.label is not None
    columns = task.columns
    instruction = _PLACEHOLDER.sub("", _words(row.get(columns.instruction))).strip()
    if not instruction:
        raise _Odd("no instruction", f"{name} has no instruction")
    sources = _images(row, columns.source)
    if len(sources) != 1:
        raise _Odd("not one source image", f"{name} has {len(sources)} source images; judges look at one")
    candidates = tuple(image for column in columns.candidates for image in _images(row, column))
    wanted = 1 if task.scores else 2
    if len(candidates) != wanted:
        raise _Odd("wrong number of candidates", f"{name} has {len(candidates)} candidates instead of {wanted}")
    letters = _letters(task.label, row, name)
    truth: str | float
    if task.label.rule == "raters":
        truth = _rated(task.label, row, name, human)
    else:
        truth = _truth(task.label, part, row, letters, name)
    return Case(
        name,
        part.name,
        instruction,
        sources[0],
        candidates,
        truth,
        group=f"{part.name}/{_group(part, row)}" if part.group else "",
        letters=letters[: len(candidates)],
        category=_words(row.get(columns.category)) if columns.category else "",
        dimension=_words(row.get(columns.dimension)) if columns.dimension else "",
        editors=tuple(_words(row.get(column)) for column in columns.editors),
    )


def _words(value: Any) -> str:
    """A value as text. A name that ends as those of images do was taken for an image; it is still a name."""
    if isinstance(value, ImageInput):
        return value.name
    if isinstance(value, list | tuple):
        return " ".join(_words(each) for each in value)
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else str(value)


def _images(row: Row, column: str) -> list[ImageInput]:
    value = row.get(column)
    many = value if isinstance(value, list | tuple) else [value]
    return [each for each in many if isinstance(each, ImageInput)]


def _group(part: Part, row: Row) -> str:
    assert part.group is not None
    name = _words(row.get(part.group.column))
    before, found, _ = name.partition(part.group.until)
    return before if found else name[: part.group.else_first]


def _letters(label: Label, row: Row, name: str) -> tuple[str, str]:
    """The letters of a pair within its group, as in `AvsC`."""
    if not label.letters:
        return LABELS[0], LABELS[1]
    text = _words(row.get(label.letters))
    first, _, second = text.partition("vs")
    if first not in LABELS or second not in LABELS or first == second:
        raise _Odd("label not understood", f"{name}: {text!r} does not name two candidates")
    return first, second


def _truth(label: Label, part: Part, row: Row, letters: tuple[str, str], name: str) -> str | float:
    truth = _read_truth(label, row, letters, name)
    if isinstance(truth, str) and truth not in part.labels:
        raise _Odd("label not understood", f"{name}: the label {truth!r} is none of {', '.join(part.labels)}")
    return truth


def _read_truth(label: Label, row: Row, letters: tuple[str, str], name: str) -> str | float:
    if label.rule == "first":
        return "A"
    if label.rule == "human":
        return fmean(_number(row.get(column), name) for column in label.columns)
    if label.rule == "scores":
        first, second = (_number(row.get(column), name) for column in label.columns)
        return TIE if first == second else "A" if first > second else "B"
    raw = _words(row.get(label.column)).strip()
    if label.rule == "values":
        if raw not in label.values:
            raise _Odd("label not understood", f"{name}: the label {raw!r} is not in the declaration")
        return label.values[raw]
    first_letter, second_letter = letters
    compact = raw.replace(" ", "")
    said = {
        f"{first_letter}>{second_letter}": "A",
        f"{second_letter}<{first_letter}": "A",
        f"{second_letter}>{first_letter}": "B",
        f"{first_letter}<{second_letter}": "B",
        f"{first_letter}={second_letter}": TIE,
        f"{second_letter}={first_letter}": TIE,
        f"{first_letter}={second_letter}=Good": TIE,
        f"{first_letter}={second_letter}=Bad": BOTH_BAD,
    }
    if compact not in said:
        raise _Odd("label not understood", f"{name}: {raw!r} is no ranking of {first_letter} and {second_letter}")
    return said[compact]


def _rated(label: Label, row: Row, name: str, human: Mapping[Edit, float]) -> float:
    """What raters said of an edit, on average."""
    editor, item = (_words(row.get(column)) for column in label.columns)
    if (editor, item) not in human:
        raise _Odd("no human score", f"{name}: the raters' tables hold no score of {editor!r} for {item!r}")
    return human[editor, item]


def _number(value: Any, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool) or not math.isfinite(number):
        raise _Odd("label not understood", f"{name}: {value!r} is no number")
    return number


def _shuffled(case: Case) -> Case:
    """Put two candidates in an order that says nothing about the truth: by chance that hangs on the id alone."""
    if int(content_id(["order", case.id])[:8], 16) % 2:
        return case
    truth = _SWAPPED.get(case.truth, case.truth) if isinstance(case.truth, str) else case.truth
    return replace(
        case,
        candidates=case.candidates[::-1],
        letters=case.letters[::-1],
        editors=case.editors[::-1],
        truth=truth,
    )

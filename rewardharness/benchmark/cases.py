"""Reading rows of a benchmark into cases: source, candidates and label.

Every row that cannot be used is named and counted.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from statistics import fmean
from typing import Any

from rewardharness.benchmark.ratings import Edit
from rewardharness.benchmark.task import BOTH_BAD, Label, Task, TaskPart
from rewardharness.errors import DataError
from rewardharness.files import content_id
from rewardharness.schema import LABELS, SOURCES, TIE, Candidate, FramesInput, ImageInput, images_of

Row = Mapping[str, Any]
"""One row: values by column. Images are `ImageInput`."""

NOT_JUDGED = "not judged"
"""Consequence for a row that cannot be used."""

MOST_IDS = 20
"""Maximum number of ids that a problem lists."""

_PLACEHOLDER = re.compile(r"<image(?:_(\d+))?>")
_SWAPPED = {"A": "B", "B": "A"}


@dataclass(frozen=True, kw_only=True)
class CaseFacts:
    """What a row and a question about it have in common."""

    id: str
    """Unique id within the task, prefixed with the part."""
    part: str
    instruction: str = ""
    truth: str | float | None
    """Letter of the best candidate by position, `tie`, `both bad`, a human score, or None without a label."""
    group: str = ""
    """Id of the group, prefixed with the part; empty without a group."""
    letters: tuple[str, ...] = LABELS[:2]
    """Letters of the candidates within their group."""
    category: str = ""
    dimension: str = ""
    editors: tuple[str, ...] = ()
    excluded: str = ""
    """Why it is judged but not counted; empty for one that counts."""


@dataclass(frozen=True, kw_only=True)
class BenchmarkCase(CaseFacts):
    """One valid row."""

    source: ImageInput | FramesInput | None
    """As in `Example`."""
    candidates: tuple[Candidate, ...]
    references: tuple[ImageInput, ...] = ()
    """Images 2, 3, ... of the instruction."""

    @property
    def sources(self) -> tuple[ImageInput | FramesInput, ...]:
        """The source and its references; nothing for text."""
        return () if self.source is None else (self.source, *self.references)

    @property
    def media(self) -> tuple[Candidate, ...]:
        """The sources, then the candidates."""
        return (*self.sources, *self.candidates)

    @property
    def images(self) -> tuple[ImageInput, ...]:
        """All images, frames included."""
        return tuple(image for media in self.media for image in images_of(media))


@dataclass(frozen=True)
class DataProblem:
    """An issue with the data of a task, and its consequence."""

    code: str
    """Fixed short name for tables, such as `incomplete group`."""
    part: str
    message: str
    """Description in a sentence."""
    n: int
    """Number of affected rows or groups."""
    consequence: str
    """How the affected rows are treated, such as `not counted`."""
    ids: tuple[str, ...] = ()
    """First affected ids."""


def list_problem(code: str, part: str, message: str, names: Sequence[str], consequence: str) -> DataProblem:
    """Return a problem of some rows or groups, with the first of their names."""
    text = f"{message}: {', '.join(names[:3])}"
    return DataProblem(code, part, text, len(names), consequence, tuple(names[:MOST_IDS]))


class _UnusableRow(Exception):
    """A row cannot be used; the arguments are the kind of the problem and a description for this row."""


def read_part(
    task: Task, part: TaskPart, columns: Sequence[str], rows: Iterable[Row], human: Mapping[Edit, float] | None = None
) -> tuple[list[BenchmarkCase], list[DataProblem]]:
    """Read the rows of one part.

    Args:
        task: The task of the part.
        part: The part.
        columns: Column names of the rows.
        rows: The rows; iterated once.
        human: Human scores by editor and item, for tasks whose scores are in raters' tables.

    Returns:
        The cases in the order of the rows, and the problems of rows that cannot be used.

    Raises:
        DataError: If a required column is missing, or no row can be used.
    """
    assert task.columns is not None and task.label is not None
    _check_columns(task, part, columns)
    cases: list[BenchmarkCase] = []
    unusable: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for number, row in enumerate(rows):
        if not all(str(row.get(name, value)) == value for name, value in part.where.items()):
            continue
        name = f"{part.name}/{_name(row, task.columns.id, part, number)}"
        try:
            case = _case(task, part, name, row, human or {})
        except _UnusableRow as error:
            code, message = error.args
            unusable[code].append((name, message))
            continue
        cases.append(_shuffled(case) if task.shuffle and len(case.candidates) == 2 else case)
    problems = [
        DataProblem(code, part.name, bad[0][1], len(bad), NOT_JUDGED, tuple(name for name, _ in bad[:MOST_IDS]))
        for code, bad in unusable.items()
    ]
    if not cases:
        first = f": {problems[0].message}" if problems else ""
        raise DataError(f"{task.name}, part {part.name}: none of the rows can be used{first}.", next_step=_LOOK)
    return cases, problems


_LOOK = "Compare the data with `rh benchmark show TASK`; use --source to select a local copy."


def _check_columns(task: Task, part: TaskPart, columns: Sequence[str]) -> None:
    assert task.columns is not None and task.label is not None
    group = (part.group.column,) if part.group else ()
    wanted = dict.fromkeys((*task.columns.required(), *task.label.required(), *group))
    missing = [name for name in wanted if name not in columns]
    if missing:
        message = f"{task.name}, part {part.name}: missing columns: {', '.join(missing)}"
        raise DataError(f"{message}; available columns: {', '.join(columns) or 'none'}.", next_step=_LOOK)


def _name(row: Row, columns: Sequence[str], part: TaskPart, number: int) -> str:
    """Return the name of a row: its id, or its index."""
    if not columns:
        return f"{part.split or 'row'}-{number:06d}"
    return ":".join(_words(row.get(column)) for column in columns)


def _case(task: Task, part: TaskPart, name: str, row: Row, human: Mapping[Edit, float]) -> BenchmarkCase:
    assert task.columns is not None and task.label is not None
    columns = task.columns
    sources = [image for column in (columns.source, *columns.references) for image in _images(row, column)]
    instruction = _instruction(_words(row.get(columns.instruction)), len(sources))
    if not instruction:
        raise _UnusableRow("no instruction", f"{name} has no instruction")
    if not _images(row, columns.source) or len(sources) > SOURCES:
        problem = f"{name} has {len(sources)} source and reference images instead of 1 to {SOURCES}"
        raise _UnusableRow("wrong number of source images", problem)
    candidates = tuple(image for column in columns.candidates for image in _images(row, column))
    wanted = 1 if task.scores else 2
    if len(candidates) != wanted:
        raise _UnusableRow("wrong number of candidates", f"{name} has {len(candidates)} candidates instead of {wanted}")
    letters = _letters(task.label, row, name)
    truth = _truth(task.label, row, letters, name, human)
    if isinstance(truth, str) and truth not in part.labels:
        raise _misread(name, f"the label {truth!r} is none of {', '.join(part.labels)}")
    return BenchmarkCase(
        id=name,
        part=part.name,
        instruction=instruction,
        source=sources[0],
        candidates=candidates,
        truth=truth,
        group=_group(part, row),
        letters=letters[: len(candidates)],
        category=_words(row.get(columns.category)),
        dimension=_words(row.get(columns.dimension)),
        editors=tuple(_words(row.get(column)) for column in columns.editors),
        references=tuple(sources[1:]),
    )


def _instruction(text: str, sources: int) -> str:
    """Return an instruction whose placeholders are removed or, with several source images, name them."""
    if sources < 2:
        return _PLACEHOLDER.sub("", text).strip()
    numbers = count(1)
    return _PLACEHOLDER.sub(lambda match: f"image {match[1] or next(numbers)}", text).strip()


def _words(value: Any) -> str:
    """Return a value as text. A text that looks like an image file name may have been read as an image."""
    if isinstance(value, ImageInput):
        return value.name
    if isinstance(value, list | tuple):
        return " ".join(_words(item) for item in value)
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else str(value)


def _images(row: Row, column: str) -> list[ImageInput]:
    value = row.get(column)
    return [item for item in (value if isinstance(value, list | tuple) else [value]) if isinstance(item, ImageInput)]


def _group(part: TaskPart, row: Row) -> str:
    if part.group is None:
        return ""
    name = _words(row.get(part.group.column))
    before, separator, _ = name.partition(part.group.until)
    return f"{part.name}/{before if separator else name[: part.group.else_first]}"


def _letters(label: Label, row: Row, name: str) -> tuple[str, str]:
    """Return the letters of a pair within its group, such as A and C for `AvsC`."""
    if not label.letters:
        return LABELS[0], LABELS[1]
    text = _words(row.get(label.letters))
    first, _, second = text.partition("vs")
    if first not in LABELS or second not in LABELS or first == second:
        raise _misread(name, f"{text!r} does not name two candidates")
    return first, second


def _truth(label: Label, row: Row, letters: tuple[str, str], name: str, human: Mapping[Edit, float]) -> str | float:
    """Return the label of a row by the rule of its task."""
    if label.rule == "first":
        return "A"
    if label.rule == "raters":
        editor, item = (_words(row.get(column)) for column in label.columns)
        if (editor, item) not in human:
            raise _UnusableRow("no human score", f"{name}: the raters' tables have no score of {editor!r} for {item!r}")
        return human[editor, item]
    if label.rule == "human":
        return fmean(_number(row.get(column), name) for column in label.columns)
    if label.rule == "scores":
        first, second = (_number(row.get(column), name) for column in label.columns)
        return TIE if first == second else "A" if first > second else "B"
    raw = _words(row.get(label.column)).strip()
    if label.rule == "values":
        if raw not in label.values:
            raise _misread(name, f"the label {raw!r} is not in the declaration")
        return label.values[raw]
    one, other = letters
    truths = {f"{one}={other}=Good": TIE, f"{one}={other}=Bad": BOTH_BAD}
    for a, b, better, worse in ((one, other, "A", "B"), (other, one, "B", "A")):
        truths |= {f"{a}>{b}": better, f"{a}<{b}": worse, f"{a}={b}": TIE}
    truth = truths.get(raw.replace(" ", ""))
    if truth is None:
        raise _misread(name, f"{raw!r} is not a ranking of {one} and {other}")
    return truth


def _misread(name: str, problem: str) -> _UnusableRow:
    return _UnusableRow("label not understood", f"{name}: {problem}")


def _number(value: Any, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool) or not math.isfinite(number):
        raise _misread(name, f"{value!r} is not a number")
    return number


def _shuffled(case: BenchmarkCase) -> BenchmarkCase:
    """Order two candidates independently of the truth, by a hash of the id."""
    if int(content_id(["order", case.id])[:8], 16) % 2:
        return case
    turned = {name: getattr(case, name)[::-1] for name in ("candidates", "letters", "editors")}
    return replace(case, **turned, truth=_SWAPPED.get(str(case.truth), case.truth))

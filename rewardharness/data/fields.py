"""Turns the rows of a table into examples: which column is which, and what its labels mean.

A map of fields in YAML; every key is optional, what it leaves out is recognized by the names of the columns:

    source: source_image                       # the image before
    instruction: instruction
    candidates: [left_image, right_image]      # two to four columns, or one that holds a list
    preference: vote_type                      # the label; or else one of the next three:
    scores: [left_score, right_score]          #   numbers for each candidate, higher is better
    ranks: [rank_left, rank_right]             #   numbers for each candidate, lower is better
    first_wins: true                           #   the first candidate is always the better one
    values: {leftvote: A, rightvote: B}        # what values of the label mean; from-0 or from-1 for counted ones
    id: dev_id                                 # made from the content where there is none
    category: category
    source_id: source_id
    label_kind: kind                           # where each label comes from, or for all of them:
    label_kind_text: human
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from rewardharness import files
from rewardharness.data.bad_rows import BadRow, settle
from rewardharness.data.labels import UnknownLabelError, Values, best_by_score, read_label, read_values
from rewardharness.data.row_store import Rows
from rewardharness.data.source import Dataset
from rewardharness.data.tables import is_image_name
from rewardharness.errors import DataError, InputError
from rewardharness.schema import LABELS, TIE, Example, ImageInput

NONE = "-"
"""Written for a column, it says that there is none."""

_SHOWN = 5
_LISTED = 20
_SEVERAL = ("candidates", "preference", "scores", "ranks")
_ALL = ("source", "instruction", *_SEVERAL, "id", "category", "source_id", "label_kind")


@dataclass(frozen=True)
class FieldMap:
    """Which column of a table is which field of an example. An empty one is not known, or not there."""

    source: str = ""
    instruction: str = ""
    candidates: tuple[str, ...] = ()
    """Two to four columns in order, or one that holds a list. Columns at the end may be empty in a row."""
    preference: tuple[str, ...] = ()
    """Columns of the label; the first that is not empty counts."""
    scores: tuple[str, ...] = ()
    """A column of numbers for each candidate, or one with a list of them: the highest is the best."""
    ranks: tuple[str, ...] = ()
    """The same, where the lowest is the best."""
    first_wins: bool = False
    """Whether the first candidate is always the better one. Places are then changed by chance, the same every time."""
    values: Values | None = field(default=None, hash=False)
    """What values of the label mean, see `labels`; None for the usual words."""
    id: str = ""
    category: str = ""
    source_id: str = ""
    label_kind: str = ""
    label_kind_text: str = ""
    """Where all labels come from, when no column says it."""

    @property
    def labelled(self) -> bool:
        """Whether anything says which candidate is better."""
        return bool(self.preference or self.scores or self.ranks or self.first_wins)

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """The columns of each field that has any."""
        named = {name: getattr(self, name) for name in _ALL}
        return {name: (value,) if isinstance(value, str) else value for name, value in named.items() if value}

    def over(self, other: "FieldMap") -> "FieldMap":
        """Return this map with what it leaves open taken from another one."""
        known = {each.name: getattr(self, each.name) for each in fields(self)}
        given = {name: value for name, value in known.items() if value not in ("", (), None, False)}
        if given.keys() & {"preference", "scores", "ranks", "first_wins"}:
            other = replace(other, preference=(), scores=(), ranks=(), first_wins=False)
            if "values" not in given:
                other = replace(other, values=None)
        return replace(other, **given)

    def settled(self) -> "FieldMap":
        """Return this map with `-` taken as what it means: there is no such column."""
        gone = {name: type(getattr(self, name))() for name, columns in self.columns.items() if columns == (NONE,)}
        return replace(self, **gone)


def parse_fields(given: Mapping[str, Any], where: str) -> FieldMap:
    """Read a map of fields from plain values.

    Args:
        given: Names of fields to columns: a name, a list of them, or names separated by commas.
        where: What messages call it.

    Raises:
        InputError: If it names fields that there are not, or values of the wrong kind.
    """
    known = {each.name for each in fields(FieldMap)}
    strange = [str(name) for name in given if name not in known]
    if strange:
        step = f"Fields are: {', '.join(sorted(known))}."
        raise InputError(f"{where}: there is no field {strange[0][:40]!r}.", next_step=step)
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name == "values":
            found[name] = read_values(_pairs(value))
        elif name == "first_wins":
            if str(value).lower() not in {"true", "false"}:
                raise InputError(f"{where}: {name} is {value!r}.", next_step="Write true or false.")
            found[name] = str(value).lower() == "true"
        elif name in _SEVERAL:
            parts = value.split(",") if isinstance(value, str) else value
            if not isinstance(parts, Sequence) or not all(isinstance(part, str) for part in parts):
                raise InputError(f"{where}: {name} is no list of columns.", next_step="Write [left, right].")
            found[name] = tuple(part.strip() for part in parts if part.strip())
        elif isinstance(value, str):
            found[name] = value.strip()
        else:
            raise InputError(f"{where}: {name} is no name of a column.", next_step="Write one name.")
    return FieldMap(**found)


def _pairs(value: Any) -> Any:
    """Read `leftvote:A,rightvote:B` as the mapping that it is in YAML."""
    if not isinstance(value, str) or ":" not in value:
        return value
    return {key.strip(): meaning for key, _, meaning in (part.rpartition(":") for part in value.split(","))}


def read_fields(path: Path) -> FieldMap:
    """Read a map of fields from a YAML file.

    Raises:
        DataError: If there is no such file or it is not YAML.
        InputError: If it says something that cannot be meant.
    """
    import yaml

    try:
        given = yaml.safe_load(files.read_text(path))
    except (yaml.YAMLError, RecursionError) as error:
        where = getattr(error, "problem_mark", None)
        line = f" (line {where.line + 1})" if where else ""
        raise DataError(f"{path} is not valid YAML{line}.", next_step="Write `field: column` lines.") from None
    if not isinstance(given, Mapping):
        raise DataError(f"{path} is no mapping.", next_step="Write `field: column` lines.")
    return parse_fields({str(name): value for name, value in given.items()}, str(path))


def read_examples(
    rows: Rows, given: FieldMap, *, name: str, notes: Iterable[str] = (), skip_bad_rows: bool = False
) -> Dataset:
    """Turn rows into a dataset. Rows without a label stay, unlabelled.

    Args:
        rows: The table.
        given: Its fields, complete.
        name: Name of the dataset.
        notes: More that a user should know.
        skip_bad_rows: Leave rows out that lack an image or an instruction, or whose label cannot be read.

    Returns:
        The dataset; what is odd about its rows stands in `problems`, what was left out in `skipped`.

    Raises:
        DataError: If columns are not there or hold something else, or a row cannot be used; names it, its column, the
            value and the remedy.
    """
    check_columns(rows, given)
    reading = _Reading(given)
    for number, row in enumerate(rows, 1):
        reading.add(number, row)
    skipped = settle(name, reading.bad, usable=len(reading.examples), skip=skip_bad_rows)
    if not reading.examples:
        step = "Name other columns with --field, or another config and split."
        raise DataError(f"{name} has no rows.", next_step=step)
    problems = [*notes, *rows.notes, *reading.problems()]
    return Dataset.of(name, reading.examples.values(), problems=problems, skipped=skipped)


def check_columns(rows: Rows, given: FieldMap) -> None:
    """Make sure that the columns of a map are there, and that images are images.

    Raises:
        DataError: If they are not; lists those there are.
    """
    there = ", ".join(rows.columns)
    for name, columns in given.columns.items():
        for column in columns:
            if column not in rows.columns:
                step = f"Its columns are: {there}. Name one with --field {name}=COLUMN, or {NONE} for none."
                raise DataError(f"{rows.name} has no column {column!r} for {name}.", next_step=step)
            if name in {"source", "candidates"} and column not in rows.images:
                raise _no_images(rows, name, column)
    lacking = [name for name in ("source", "instruction", "candidates") if name not in given.columns]
    if lacking:
        images = ", ".join(name for name in rows.columns if name in rows.images) or "none"
        step = f"Name it with --field {lacking[0]}=COLUMN. Columns: {there}. Those that hold images: {images}."
        raise DataError(f"{rows.name}: no column was recognized as the {lacking[0]}.", next_step=step)


def _no_images(rows: Rows, name: str, column: str) -> DataError:
    given = [row[column] for row in rows if row[column] not in (None, "", [])]
    odd = next((value for value in given if not is_image_name(value)), given[0] if given else None)
    held = "It is empty." if odd is None else f"It holds {str(odd)[:80]!r}."
    step = (
        "Images must be in the table, or be named relative to it and lie below its folder, with endings such as .png."
    )
    return DataError(f"{rows.name}: the column {column!r}, meant as {name}, has no images. {held}", next_step=step)


class _BadCell(Exception):
    """A row cannot be used. Its words fit all rows with the same cell."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.remedy = remedy


class _Reading:
    """What has been read so far."""

    def __init__(self, given: FieldMap) -> None:
        self._given = given
        self.examples: dict[str, Example] = {}
        self.bad: list[BadRow] = []
        self._again: dict[str, list[int]] = defaultdict(list)
        self._level: list[int] = []

    def add(self, number: int, row: Mapping[str, Any]) -> None:
        """Take one row."""
        try:
            example = self._example(row, number)
        except _BadCell as error:
            self.bad.append(BadRow(number, str(error), error.remedy, len(self.examples)))
            return
        self.examples[example.id] = example

    def _example(self, row: Mapping[str, Any], number: int) -> Example:
        given = self._given
        source, candidates = row[given.source], _candidates(row, given)
        instruction = _text(row[given.instruction])
        if not isinstance(source, ImageInput):
            raise _no_image(source, given.source, "source")
        if not instruction:
            raise _BadCell(f"the column {given.instruction!r} (instruction) is empty", "Write what was asked for.")
        preference = _preference(row, given, len(candidates))
        if preference == TIE and len(candidates) > 2:
            self._level.append(number)
            preference = None
        content = [instruction, source.name, *(image.name for image in candidates)]
        name = self._name(_text(row[given.id]) if given.id else "", content, number)
        if given.first_wins:
            place = int(files.content_id([name, "place"])[:8], 16) % len(candidates)
            candidates = (*candidates[1 : place + 1], candidates[0], *candidates[place + 1 :])
            preference = LABELS[place]
        return Example(
            name,
            instruction,
            source,
            candidates,
            preference,
            (_text(row[given.label_kind]) if given.label_kind else "") or given.label_kind_text,
            _text(row[given.category]) if given.category else "",
            _text(row[given.source_id]) if given.source_id else "",
        )

    def _name(self, stated: str, content: list[str], number: int) -> str:
        """The id of a row. One that is taken already gets a number of its own, and that is reported."""
        stem = stated or f"r-{files.content_id(content)[:12]}"
        name, times = stem, 1
        while name in self.examples:
            times += 1
            name = f"{stem}#{times}"
        if stated and times > 1:
            self._again[stem].append(number)
        return name

    def problems(self) -> list[str]:
        """What is odd, a sentence each."""
        found = []
        if self._level:
            found.append(f"Left unlabelled, several candidates come first: {_rows(self._level)}.")
        if self._again:
            shown = ", ".join(f"{name!r} ({_rows(numbers)})" for name, numbers in list(self._again.items())[:_SHOWN])
            more = f" and {len(self._again) - _SHOWN} more" if len(self._again) > _SHOWN else ""
            found.append(f"Ids that occur again were given a number (id#2): {shown}{more}.")
        return found


def _rows(numbers: Sequence[int]) -> str:
    listed = ", ".join(map(str, numbers[:_LISTED]))
    more = f" and {len(numbers) - _LISTED} more" if len(numbers) > _LISTED else ""
    return f"row{'s' * (len(numbers) != 1)} {listed}{more}"


def _text(value: Any) -> str:
    """A value as text; what is none is empty."""
    if isinstance(value, list):
        return ", ".join(filter(None, map(_text, value)))
    return "" if value is None else str(value).strip()


def _candidates(row: Mapping[str, Any], given: FieldMap) -> tuple[ImageInput, ...]:
    cells: list[tuple[str, Any]] = []
    for column in (*given.candidates, ""):
        while cells and cells[-1][1] is None and (not column or isinstance(row[column], tuple)):
            cells.pop()  # columns that are empty in this row, at the end or before a list
        if column:
            held = row[column]
            cells += [(column, each) for each in (held if isinstance(held, tuple) else (held,))]
    odd = next(((column, cell) for column, cell in cells if not isinstance(cell, ImageInput)), None)
    if odd is not None:
        raise _no_image(odd[1], odd[0], "candidate")
    if not 2 <= len(cells) <= len(LABELS):
        images = f"{len(cells)} image{'s' * (len(cells) != 1)}"
        where = ", ".join(map(repr, given.candidates))
        problem = f"{images} in the column{'s' * (len(given.candidates) != 1)} {where} (candidates)"
        raise _BadCell(problem, f"A row needs 2 to {len(LABELS)} candidates.")
    return tuple(cell for _, cell in cells)


def _no_image(value: Any, column: str, role: str) -> _BadCell:
    """Say what stands where an image should be."""
    held = "is empty" if value is None else f"holds {str(value)[:80]!r}, which is no image that can be read"
    step = "Put the image there, or its name relative to the table and below its folder, as in images/a.png."
    return _BadCell(f"the column {column!r} ({role}) {held}", step)


def _preference(row: Mapping[str, Any], given: FieldMap, count: int) -> str | None:
    for column in given.preference:
        try:
            label = read_label(row[column], count, given.values)
        except UnknownLabelError as error:
            raise _no_label((column,), str(error)) from None
        if label is not None:
            return label
    for columns, lowest in ((given.scores, False), (given.ranks, True)):
        if columns:
            cells = [row[column] for column in columns]
            numbers = list(cells[0]) if len(cells) == 1 and isinstance(cells[0], (list, tuple)) else cells
            try:
                return None if len(numbers) < count else best_by_score(numbers[:count], lowest=lowest)
            except UnknownLabelError as error:
                raise _no_label(columns, str(error), "number") from None
    return None


def _no_label(columns: Sequence[str], value: str, wanted: str = "label") -> _BadCell:
    """Say which label cannot be read."""
    where = f"the column{'s' * (len(columns) != 1)} {', '.join(map(repr, columns))}"
    holds = "holds" if len(columns) == 1 else "hold"
    if wanted == "number":
        return _BadCell(f"{where} (label) {holds} {value!r}, which is no number", "Write a number, or nothing.")
    example = f"{value}:A"
    step = f"Say what labels mean, as in --field values={example},... (A, B, C, D or tie), or name another column."
    return _BadCell(f"{where} (label) {holds} {value!r}, which is not understood", step)

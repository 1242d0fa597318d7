"""Convert the rows of a table to examples with a field map.

A field map in YAML; every key is optional, and omitted fields are inferred from the column names:

    source: source_image                       # image before the edit; a list holds image 1, image 2, ...
    references: [image_2, image_3]             # images 2 to 4 of the instruction: columns, or one with a list
    instruction: instruction
    candidates: [left_image, right_image]      # two to four columns, or one with a list
    preference: vote_type                      # the label; or one of the following three:
    scores: [left_score, right_score]          #   a number per candidate, higher is better
    ranks: [rank_left, rank_right]             #   a number per candidate, lower is better
    first_wins: true                           #   the first candidate is always preferred
    values: {leftvote: A, rightvote: B}        # meaning of label values; from-0 or from-1 for indices
    id: dev_id                                 # default: derived from the content
    category: category
    source_id: source_id
    label_kind: kind                           # origin of each label, or of all labels:
    label_kind_text: human
    editors: [left_model, right_model]         # what made the candidates; no judge sees it
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from rewardharness import files
from rewardharness.data.cells import (
    BadRowError,
    UnknownLabelError,
    Values,
    best_by_score,
    identity_of,
    media_of,
    names_image,
    numbered,
    read_label,
    read_values,
    settle,
    sources_of,
    texts_of,
)
from rewardharness.data.row_store import DataTable
from rewardharness.data.source import Dataset, SkippedRow, derived_id, free_id
from rewardharness.data.tables import is_image_name
from rewardharness.errors import DataError, InputError
from rewardharness.garbage import collection_paused
from rewardharness.schema import LABELS, TIE, Example, FramesInput, ImageInput

NONE = "-"
"""Value for a field without a column."""

_FORM = "Use lines of the form `field: column`."
_SHOWN = 5
_PEEK = 20
"""Rows that are read to distinguish texts from paths of images."""
_SEVERAL = ("references", "candidates", "preference", "scores", "ranks", "editors")
_ALL = ("source", "instruction", *_SEVERAL, "id", "category", "source_id", "label_kind")


@dataclass(frozen=True)
class FieldMap:
    """Mapping from fields of an example to table columns. Empty fields are unknown or absent."""

    source: str = ""
    """One image, or a list of image 1 and its references."""
    instruction: str = ""
    candidates: tuple[str, ...] = ()
    """Two to four columns in order, or one with a list. Trailing columns may be empty in a row."""
    preference: tuple[str, ...] = ()
    """Label columns; the first non-empty one counts."""
    scores: tuple[str, ...] = ()
    """A number column per candidate, or one with a list; the highest number is the best."""
    ranks: tuple[str, ...] = ()
    """Like `scores`, but the lowest number is the best."""
    first_wins: bool = False
    """Whether the first candidate is always preferred. The order is then shuffled deterministically."""
    values: Values | None = field(default=None, hash=False)
    """Meaning of label values (see `labels`); None for common spellings."""
    id: str = ""
    category: str = ""
    source_id: str = ""
    label_kind: str = ""
    label_kind_text: str = ""
    """Origin of all labels, without a column."""
    references: tuple[str, ...] = ()
    """Up to three columns in order, or one with a list. Trailing columns may be empty in a row."""
    editors: tuple[str, ...] = ()
    """A column per candidate, or one with a list: what made them. No judge sees it."""

    @property
    def labeled(self) -> bool:
        """Whether the table has labels."""
        return bool(self.preference or self.scores or self.ranks or self.first_wins)

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """Columns by field, without empty fields."""
        named = {name: getattr(self, name) for name in _ALL}
        return {name: (value,) if isinstance(value, str) else value for name, value in named.items() if value}

    def over(self, other: "FieldMap") -> "FieldMap":
        """Return this map with its empty fields taken from another map."""
        known = {item.name: getattr(self, item.name) for item in fields(self)}
        set_fields = {name: value for name, value in known.items() if value not in ("", (), None, False)}
        if set_fields.keys() & {"preference", "scores", "ranks", "first_wins"}:
            other = replace(other, preference=(), scores=(), ranks=(), first_wins=False)
            if "values" not in set_fields:
                other = replace(other, values=None)
        return replace(other, **set_fields)

    def settled(self) -> "FieldMap":
        """Return this map with `-` resolved to an empty field."""
        gone = {name: type(getattr(self, name))() for name, columns in self.columns.items() if columns == (NONE,)}
        return replace(self, **gone)


def parse_fields(values: Mapping[str, Any], where: str) -> FieldMap:
    """Parse a field map from plain values.

    Args:
        values: Field names mapped to columns: a name, a list of names, or comma-separated names.
        where: Name used in messages.

    Raises:
        InputError: If a field is unknown or a value has the wrong type.
    """
    known = {item.name for item in fields(FieldMap)}
    if unknown := [str(name) for name in values if name not in known]:
        step = f"Choose one of: {', '.join(sorted(known))}."
        raise InputError(f"{where}: unknown field {unknown[0][:40]!r}.", next_step=step)
    parsed: dict[str, Any] = {}
    for name, value in values.items():
        if name == "values":
            parsed[name] = read_values(_pairs(value))
        elif name == "first_wins":
            if str(value).lower() not in {"true", "false"}:
                raise InputError(f"{where}: {name} is {value!r}.", next_step="Use true or false.")
            parsed[name] = str(value).lower() == "true"
        elif name in _SEVERAL:
            parts = value.split(",") if isinstance(value, str) else value
            if not isinstance(parts, Sequence) or not all(isinstance(part, str) for part in parts):
                step = "Use a list such as [left, right]."
                raise InputError(f"{where}: {name} is not a list of columns.", next_step=step)
            parsed[name] = tuple(part.strip() for part in parts if part.strip())
        elif isinstance(value, str):
            parsed[name] = value.strip()
        else:
            raise InputError(f"{where}: {name} is not a column name.", next_step="Use a single column name.")
    return FieldMap(**parsed)


def _pairs(value: Any) -> Any:
    """Parse `leftvote:A,rightvote:B` to a mapping."""
    if not isinstance(value, str) or ":" not in value:
        return value
    return {key.strip(): meaning for key, _, meaning in (part.rpartition(":") for part in value.split(","))}


def read_fields(path: Path) -> FieldMap:
    """Read a field map from a YAML file.

    Raises:
        DataError: If the file does not exist or is not YAML.
        InputError: If the field map is invalid.
    """
    import yaml

    try:
        values = yaml.safe_load(files.read_text(path))
    except (yaml.YAMLError, RecursionError) as error:
        where = getattr(error, "problem_mark", None)
        line = f" (line {where.line + 1})" if where else ""
        raise DataError(f"{path} is not valid YAML{line}.", next_step=_FORM) from None
    if not isinstance(values, Mapping):
        raise DataError(f"{path} is not a mapping.", next_step=_FORM)
    return parse_fields({str(name): value for name, value in values.items()}, str(path))


@collection_paused()
def read_examples(
    rows: DataTable, field_map: FieldMap, *, name: str, notes: Iterable[str] = (), skip_bad_rows: bool = False
) -> Dataset:
    """Convert rows to a dataset. Rows without a label become unlabeled examples.

    Args:
        rows: The table.
        field_map: The complete field map.
        name: Name of the dataset.
        notes: Additional notes for the user.
        skip_bad_rows: Skip rows without an image or an instruction, or with an invalid label.

    Returns:
        The dataset, with warnings in `problems` and skipped rows in `skipped`.

    Raises:
        DataError: If columns are missing or have the wrong type, or a row is invalid; states row, column, value and
            next step.
    """
    check_columns(rows, field_map)
    reading = ExampleReader(field_map, holds_text(rows, field_map))
    for number, row in enumerate(rows, 1):
        reading.add(number, row)
    skipped = settle(name, reading.bad, usable=len(reading.examples), skip=skip_bad_rows)
    if not reading.examples:
        raise DataError(f"{name} has no rows.", next_step="Choose another config or split.")
    problems = [*notes, *rows.notes, *reading.problems()]
    return Dataset.of(name, reading.examples.values(), problems=problems, skipped=skipped)


def check_columns(rows: DataTable, field_map: FieldMap) -> None:
    """Check that the mapped columns exist and that image columns contain images.

    Raises:
        DataError: If a column is missing or has the wrong type; lists the existing columns.
    """
    there, text = ", ".join(rows.columns), holds_text(rows, field_map)
    pictured = {"source", "references"} if text else {"source", "references", "candidates"}
    for name, column in ((name, column) for name, columns in field_map.columns.items() for column in columns):
        if column not in rows.columns:
            step = f"Columns: {there}. Choose one with --field {name}=COLUMN, or {NONE} for none."
            raise DataError(f"{rows.name} has no column {column!r} for {name}.", next_step=step)
        if name in pictured and column not in rows.images:
            raise _no_images(rows, name, column)
    needed = ("instruction", "candidates") if text else ("source", "instruction", "candidates")
    if lacking := [name for name in needed if name not in field_map.columns]:
        if lacking[0] in rows.columns and lacking[0] in pictured:
            raise _no_images(rows, lacking[0], lacking[0])
        images = ", ".join(name for name in rows.columns if name in rows.images) or "none"
        step = f"Set it with --field {lacking[0]}=COLUMN. Columns: {there}. Image columns: {images}."
        raise DataError(f"{rows.name}: no column for the field {lacking[0]!r} was found.", next_step=step)


def holds_text(rows: DataTable, field_map: FieldMap) -> bool:
    """Return whether the candidates of a table are texts: there is no source, and no candidate names an image."""
    if field_map.source or not field_map.candidates or any(column in rows.images for column in field_map.candidates):
        return False
    return not any(names_image(row.get(column)) for row in islice(rows, _PEEK) for column in field_map.candidates)


def _no_images(rows: DataTable, name: str, column: str) -> DataError:
    filled = [row[column] for row in rows if row[column] not in (None, "", [])]
    value = next((value for value in filled if not is_image_name(value)), filled[0] if filled else None)
    content = "It is empty." if value is None else f"It contains {str(value)[:80]!r}."
    step = "Images must be in the table, or be paths inside its folder, such as images/a.png. URLs are not fetched."
    return DataError(f"{rows.name}: the column {column!r} ({name}) has no images. {content}", next_step=step)


class ExampleReader:
    """Converts rows to examples, and keeps the examples and invalid rows that were added.

    Args:
        field_map: The complete field map.
        text: Whether the candidates are texts.
        least: Minimum number of candidates of a row.
    """

    def __init__(self, field_map: FieldMap, text: bool, least: int = 2) -> None:
        self._field_map = field_map
        self._text = text
        self._least = least
        self.examples: dict[str, Example] = {}
        self.bad: list[SkippedRow] = []
        self._again: dict[str, list[int]] = defaultdict(list)
        self._level: list[int] = []

    def add(self, number: int, row: Mapping[str, Any]) -> None:
        """Convert one row."""
        try:
            example = self.example(row, number)
        except BadRowError as error:
            self.bad.append(SkippedRow(f"row {number}", str(error), len(self.examples), error.remedy))
            return
        self.examples[example.id] = example

    def example(self, row: Mapping[str, Any], number: int) -> Example:
        """Convert one row without keeping the example.

        Raises:
            BadRowError: If the row is invalid.
        """
        field_map = self._field_map
        candidates = (texts_of if self._text else media_of)(row, field_map.candidates, self._least)
        videos = any(isinstance(candidate, FramesInput) for candidate in candidates)
        cells = [row[column] for column in field_map.editors]
        editors = cells[0] if len(cells) == 1 and isinstance(cells[0], (list, tuple)) else cells
        candidates = tuple(
            replace(candidate, editor=_text(editor)) if editor and isinstance(candidate, ImageInput) else candidate
            for candidate, editor in zip_longest(candidates, editors[: len(candidates)])
        )
        columns = (field_map.source, field_map.references)
        source, references = (None, ()) if self._text else sources_of(row, *columns, video=videos)
        fields = ("instruction", "id", "label_kind", "category", "source_id")
        texts = {name: _text(row[column]) if (column := getattr(field_map, name)) else "" for name in fields}
        instruction = texts["instruction"]
        if not instruction:
            problem = f"the column {field_map.instruction!r} (instruction) is empty"
            raise BadRowError(problem, "Enter the instruction of the edit.")
        preference = _preference(row, field_map, len(candidates))
        if preference == TIE and len(candidates) > 2:
            self._level.append(number)
            preference = None
        content = [instruction, *map(identity_of, (*([] if source is None else [source]), *references, *candidates))]
        name = self._name(texts["id"], content, number)
        if field_map.first_wins:
            place = int(files.content_id([name, "place"])[:8], 16) % len(candidates)
            candidates = (*candidates[1 : place + 1], candidates[0], *candidates[place + 1 :])
            preference = LABELS[place]
        kind = texts["label_kind"] or field_map.label_kind_text
        about = (kind, texts["category"], texts["source_id"], references)
        return Example(name, instruction, source, candidates, preference, *about)

    def _name(self, stated: str, content: list[str], number: int) -> str:
        """Return the id of a row; a duplicate id gets a number suffix and is reported."""
        stem = stated or derived_id(content)
        name = free_id(stem, self.examples, "#")
        if stated and name != stem:
            self._again[stem].append(number)
        return name

    def problems(self) -> list[str]:
        """Return one warning per kind of problem."""
        warnings = []
        if self._level:
            rows = numbered("row", self._level)
            warnings.append(f"Unlabeled because several candidates are tied for first place: {rows}.")
        if repeated := list(self._again.items()):
            listed = ", ".join(f"{name!r} ({numbered('row', numbers)})" for name, numbers in repeated[:_SHOWN])
            more = f" and {len(repeated) - _SHOWN} more" if len(repeated) > _SHOWN else ""
            warnings.append(f"Duplicate ids got a number suffix (id#2): {listed}{more}.")
        return warnings


def _text(value: Any) -> str:
    """Return a value as text; None is empty."""
    if isinstance(value, list):
        return ", ".join(filter(None, map(_text, value)))
    if isinstance(value, ImageInput):  # a text that looks like the name of a file, such as the id a.png
        return value.name
    return "" if value is None else str(value).strip()


def _preference(row: Mapping[str, Any], field_map: FieldMap, count: int) -> str | None:
    for column in field_map.preference:
        try:
            label = read_label(row[column], count, field_map.values)
        except UnknownLabelError as error:
            raise _no_label((column,), str(error)) from None
        if label is not None:
            return label
    for columns, lowest in ((field_map.scores, False), (field_map.ranks, True)):
        if columns:
            cells = [row[column] for column in columns]
            numbers = list(cells[0]) if len(cells) == 1 and isinstance(cells[0], (list, tuple)) else cells
            try:
                return None if len(numbers) < count else best_by_score(numbers[:count], lowest=lowest)
            except UnknownLabelError as error:
                raise _no_label(columns, str(error), "number") from None
    return None


def _no_label(columns: Sequence[str], value: str, wanted: str = "label") -> BadRowError:
    """Return the error for an invalid label."""
    where = f"the column{'s' * (len(columns) != 1)} {', '.join(map(repr, columns))}"
    verb = "contains" if len(columns) == 1 else "contain"
    if wanted == "number":
        return BadRowError(f"{where} (label) {verb} {value!r}, which is not a number", "Use a number or an empty cell.")
    example = f"{value}:A"
    step = f"Map label values, for example --field values={example},... (A, B, C, D or tie), or choose another column."
    return BadRowError(f"{where} (label) {verb} {value!r}, which is not a known label", step)

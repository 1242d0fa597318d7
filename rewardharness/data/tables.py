"""Tables of any kind as one value, and the reading of those that are text: JSON lines, JSON and CSV.

Rows are given raw. What the value of a column means is told by its shape, so that images are found wherever they are
nested and nothing else is ever taken for one:

    None                 a plain value
    "image"              an image: encoded bytes, the name of a file, or a mapping of `bytes` and `path`
    "json"               JSON in a text
    {"names": [...]}     a class by its number; the value is its name
    {"list": shape}      a list
    {"keys": {...}}      a mapping with a shape for each key
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from rewardharness import files
from rewardharness.data.folder import csv_rows
from rewardharness.errors import DataError
from rewardharness.files import megabytes

Shape = str | dict[str, Any] | None
"""What the values of a column are; see the module. Can be written as JSON."""

IMAGE = "image"
"""Shape of an image."""

ENDINGS = frozenset({".png", ".jpg", ".jpeg", ".jfif", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".avif"})
"""Endings by which a text is known as the name of an image."""

TEXT_TABLES = frozenset({".jsonl", ".ndjson", ".json", ".csv", ".tsv"})
"""Endings of the tables that are read here."""

MAX_TEXT = 512 << 20
"""Bytes of a table that is text, at most: all of it is held in memory while it is read."""

_SHOWN = 5


@dataclass(frozen=True)
class Table:
    """One table, ready to be read row by row."""

    columns: Mapping[str, Shape]
    """Shape of each column, in order."""
    count: int
    """Number of rows."""
    rows: Callable[[], Iterator[Mapping[str, Any]]]
    """Begins a reading."""


def read_text_table(path: Path) -> Table:
    """Read a table that is text. A column holds images where most values are relative names that end as theirs do.

    Most, and not all: one bad cell must not hide a column. What such a cell holds is reported with its row.

    Args:
        path: A file with an ending of `TEXT_TABLES`.

    Raises:
        DataError: If it is not what its ending says; names the lines.
    """
    ending = path.suffix.lower()
    if path.is_file() and path.stat().st_size > MAX_TEXT:
        message = f"{path} is larger than {megabytes(MAX_TEXT)} MB, which is too much for a table of text."
        raise DataError(message, next_step="Write it as Parquet.")
    if ending in {".csv", ".tsv"}:
        rows = _read_csv(path, "\t" if ending == ".tsv" else None)
    else:
        rows = _read_json(path) if ending == ".json" else _read_lines(path)
    columns = dict.fromkeys(key for row in rows for key in row)
    shapes = {name: _shape(row.get(name) for row in rows) for name in columns}
    return Table(shapes, len(rows), lambda: iter(rows))


def _shape(values: Iterable[Any]) -> Shape:
    """Images where most values are the name of one, or lists of such names alone."""
    given = [value for value in values if value not in (None, "", [])]
    if 2 * sum(is_image_name(value) for value in given) > len(given):
        return IMAGE
    if 2 * sum(isinstance(value, list) and all(map(is_image_name, value)) for value in given) > len(given):
        return {"list": IMAGE}
    return None


def is_image_name(value: object) -> bool:
    """Whether a cell of text names an image below the folder that it is relative to."""
    return isinstance(value, str) and is_inside(value) and PurePosixPath(value.strip()).suffix.lower() in ENDINGS


def is_inside(name: str) -> bool:
    """Whether a name can only be that of a file below the folder that it is relative to."""
    name = name.strip()
    if any(letter < " " or letter == "\x7f" for letter in name) or "\\" in name or "://" in name:
        return False
    return not (PureWindowsPath(name).drive or name.startswith(("/", "~")) or ".." in name.split("/"))


def _read_lines(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    wrong: list[str] = []
    for number, line in enumerate(files.read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            what = error.msg if isinstance(error, json.JSONDecodeError) else "too deep or too large"
            wrong.append(f"line {number} is not valid JSON ({what})")
            continue
        if isinstance(row, dict):
            rows.append(row)
        else:
            wrong.append(f"line {number} is not a JSON object")
    if wrong:
        more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise DataError(f"{path}: {'; '.join(wrong[:_SHOWN])}{more}.", next_step="Correct the lines named.")
    return rows


def _read_json(path: Path) -> list[dict[str, Any]]:
    """A JSON array of objects, or lines after all: both are found under this ending."""
    if not files.read_text(path).lstrip().startswith("["):
        return _read_lines(path)
    rows = files.read_json(path)
    wrong = [number for number, row in enumerate(rows, 1) if not isinstance(row, dict)]
    if wrong:
        message = f"{path}: item {wrong[0]} is not a JSON object."
        raise DataError(message, next_step="Write a list of objects, one for each row.")
    return list(rows)


def _read_csv(path: Path, delimiter: str | None) -> list[dict[str, Any]]:
    text = files.read_text(path)
    delimiter = delimiter or max(",;\t", key=lambda mark: _cells(text, mark))
    lines = csv_rows(path, text, delimiter)
    header = [name.strip() for name in next(lines, (0, []))[1]]
    doubled = [name or "without a name" for name in header if header.count(name) > 1 or not name]
    if doubled:
        step = "Give every column a name of its own."
        raise DataError(f"{path} line 1 has the column {doubled[0]!r} twice, or without a name.", next_step=step)
    rows = []
    for number, cells in lines:
        if len(cells) > len(header):
            message = f"{path} line {number} has {len(cells)} cells, but the header names {len(header)}."
            raise DataError(message, next_step="Put texts that hold the separator into quotation marks.")
        rows.append({name: cell or None for name, cell in zip(header, cells, strict=False)})
    return rows


def _cells(text: str, delimiter: str) -> int:
    """How many columns the first line has with a separator."""
    try:
        return len(next(csv.reader(io.StringIO(text), delimiter=delimiter), []))
    except csv.Error:
        return 0

"""Rows on disk: the values of a table as JSON lines, and its images as the files they were.

    tables/<key>.jsonl    one row a line; an image stands there as the name of its file and its size
    tables/<key>.json     the columns and their shapes; written last, so a table without it was never finished
    images/<sha256>.png   the bytes of an image as they were stored, once, however many rows show it

An image that already lies beside a table on this disk is not copied; its row holds its name alone.
"""

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from rewardharness import files
from rewardharness.data.feedback import extension
from rewardharness.data.tables import IMAGE, Shape, Table, is_inside
from rewardharness.errors import DataError
from rewardharness.files import check_space
from rewardharness.schema import ImageInput

FORMAT = 2
"""Version of what is written; tables of another one are written anew."""

_CHUNK = 32
_LEAST = 1 << 20
_SHOWN = 5


@dataclass(frozen=True)
class Rows:
    """A table that can be read again and again, row by row, without holding its images in memory.

    Each row is a mapping from every column to its value. An image is a `schema.ImageInput` that lies on disk, exactly
    as it was stored; a list of images is a tuple of them. A cell of such a column that holds something else is that as
    text. Everything else is a plain JSON value; a column that a row does not have is None, as is a number that is none.
    """

    name: str
    """How people call it: `org/name`, with `:config/split` where there are several, or the name of a file."""
    revision: str
    """The full id of the commit; for what lies on this disk, a SHA-256 of the tables."""
    columns: tuple[str, ...]
    count: int
    """Number of rows."""
    shapes: Mapping[str, Shape] = field(repr=False)
    """What the values of each column are, see `tables`."""
    lines: Path = field(repr=False)
    """The file that holds the rows."""
    beside: Path = field(repr=False)
    """The folder that images which were not copied lie in."""
    notes: tuple[str, ...] = ()
    """What a user should know, in sentences."""

    @property
    def images(self) -> frozenset[str]:
        """The columns that hold an image, or a list of images."""
        return frozenset(name for name, shape in self.shapes.items() if shape in (IMAGE, {"list": IMAGE}))

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        image = partial(_image, folder=self.lines.parents[1], beside=self.beside)
        with self.lines.open(encoding="utf-8") as stream:
            for line in stream:
                row = json.loads(line)
                yield {name: _decoded(row.get(name), shape, image) for name, shape in self.shapes.items()}


@dataclass(frozen=True)
class Part:
    """One file of a table that is about to be written."""

    table: Table
    folder: str
    """Where it lies in its dataset, with `/`; names of images in it are relative to that. Empty at the top."""


Fetch = Callable[[Collection[str]], Mapping[str, Path]]
"""Fetches files of a dataset by name, and tells where those that exist lie."""


def open_stored(folder: Path, key: str, *, name: str, revision: str, beside: Path) -> Rows | None:
    """Open a table that was written before; None when it was not, or when something of it has gone."""
    lines, about = _places(folder, key)
    with suppress(DataError, OSError, ValueError, LookupError, TypeError, AttributeError):
        stated = files.read_json(about)
        if stated["format"] != FORMAT or lines.stat().st_size != stated["bytes"]:
            return None
        if any((folder / image).stat().st_size != size for image, size in stated["images"].items()):
            return None
        shapes, notes = stated["shapes"], tuple(stated["notes"])
        return Rows(name, revision, tuple(shapes), stated["count"], shapes, lines, beside, notes)
    return None


def store(
    folder: Path,
    key: str,
    parts: Sequence[Part],
    *,
    beside: Path,
    fetch: Fetch | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write a table. What a killed process left of it is made use of.

    Args:
        folder: The folder of its dataset.
        key: Name of the table in it.
        parts: Its files in order.
        beside: The folder that images which are not copied lie in.
        fetch: Fetches the images that the table names, to be copied; None when they lie beside it and stay there.
        progress: Told the number of rows that are written, and of all.

    Raises:
        DataError: If the files do not belong together, not one image is where they say, or the disk has no room.
    """
    files.remove_stale(folder / "images")
    shapes = _merged(part.table for part in parts)
    keeping = _Keeping(folder, beside, fetch)
    lines: list[str] = []
    total = sum(part.table.count for part in parts)
    for part in parts:
        for chunk in _chunks(part.table.rows()):
            check_space(folder, _LEAST, "write rows and images")
            keeping.prepare(chunk, part)
            for row in chunk:
                keep = partial(keeping.cell, folder=part.folder)
                values = {name: _encoded(row.get(name), shape, keep) for name, shape in shapes.items()}
                lines.append(_line(values, len(lines) + 1))
            if progress is not None:
                progress(len(lines), total)
    notes = keeping.notes()
    content = "".join(lines).encode("utf-8")
    path, about = _places(folder, key)
    files.write_bytes(path, content)
    stated = {"format": FORMAT, "count": len(lines), "bytes": len(content), "shapes": shapes, "notes": notes}
    files.write_json(about, {**stated, "images": keeping.sizes})


def _chunks(rows: Iterator[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    while chunk := list(islice(rows, _CHUNK)):
        yield chunk


def _places(folder: Path, key: str) -> tuple[Path, Path]:
    return folder / "tables" / f"{key}.jsonl", folder / "tables" / f"{key}.json"


def _merged(tables: Iterable[Table]) -> dict[str, Shape]:
    """Columns of all files. One that is empty in a file has no shape there."""
    shapes: dict[str, Shape] = {}
    for table in tables:
        for name, shape in table.columns.items():
            before = shapes.get(name)
            if before is not None and shape is not None and before != shape:
                step = "Name one of its files, or another config."
                raise DataError(
                    f"The column {name!r} is of one kind in a file and of another elsewhere.", next_step=step
                )
            shapes[name] = shape if before is None else before
    return shapes


class _Keeping:
    """Puts the images of a table on disk, and remembers what went wrong."""

    def __init__(self, folder: Path, beside: Path, fetch: Fetch | None) -> None:
        self.sizes: dict[str, int] = {}
        self._folder, self._beside, self._fetch = folder, beside.resolve(), fetch
        self._fetched: Mapping[str, Path] = {}
        self._named: set[str] = set()
        self._outside: dict[str, None] = {}

    def prepare(self, chunk: Iterable[Mapping[str, Any]], part: Part) -> None:
        """Fetch the images that the next rows name."""
        if self._fetch is None:
            return
        wanted: dict[str, None] = {}

        def note(value: Any) -> None:
            content, name = _content(value)
            if name and not content and is_inside(name):
                wanted[_joined(part.folder, name)] = None

        for row in chunk:
            for column, shape in part.table.columns.items():
                _encoded(row.get(column), shape, note)
        self._fetched = self._fetch(wanted) if wanted else {}

    def cell(self, value: Any, folder: str) -> list[str | int] | str | None:
        """Put one image on disk and return what stands for it in a row; text for what is no image; None for nothing."""
        content, name = _content(value)
        if content:
            return self._keep(content)
        if not name or not name.strip():
            return None if value is None or isinstance(value, (str, bytes, Mapping)) else str(value)
        inside = _joined(folder, name) if is_inside(name) else ""
        if not inside or (self._fetch is None and not (self._beside / inside).resolve().is_relative_to(self._beside)):
            self._outside[name] = None
            return name
        if inside in self._fetched:
            return self._keep(self._fetched[inside].read_bytes())
        self._named.add(inside)
        return [inside]

    def notes(self) -> list[str]:
        """Say what a user should know.

        Raises:
            DataError: If the table names images, and not one of them is there.
        """
        if self._fetch is not None and self._named and not self.sizes:
            message = f"The table names {len(self._named)} images, and none of them is a file of the dataset."
            raise DataError(message, next_step="Are they in an archive? Download and unpack it, and name the table.")
        if not self._outside:
            return []
        shown = ", ".join(repr(name[:80]) for name in list(self._outside)[:_SHOWN])
        return [f"{len(self._outside)} images have names that lead out of the dataset and were not read: {shown}."]

    def _keep(self, content: bytes) -> list[str | int]:
        name = f"images/{files.sha256(content)}.{extension(content)}"
        path = self._folder / name
        if name not in self.sizes and not (path.is_file() and path.stat().st_size == len(content)):
            files.write_bytes(path, content)
        self.sizes[name] = len(content)
        return [name, len(content)]


def _joined(folder: str, name: str) -> str:
    return str(PurePosixPath(folder) / name.strip())


def _content(value: Any) -> tuple[bytes | None, str | None]:
    """The bytes of an image, or else its name."""
    if isinstance(value, Mapping):
        content, name = value.get("bytes"), value.get("path")
        return content if isinstance(content, bytes) else None, name if isinstance(name, str) else None
    return (value, None) if isinstance(value, bytes) else (None, value if isinstance(value, str) else None)


def _image(cell: list[Any], folder: Path, beside: Path) -> ImageInput:
    """What a cell stands for: with a size a file of ours, else one beside the table."""
    name = str(cell[0])
    return ImageInput(name, (folder if len(cell) == 2 else beside) / name)


def _encoded(value: Any, shape: Shape, keep: Callable[[Any], Any]) -> Any:
    if value is None or shape is None:
        return _plain(value)
    if shape == IMAGE:
        return keep(value)
    if shape == "json":
        with suppress(ValueError, RecursionError):
            return _plain(json.loads(value))
        return _plain(value)
    assert isinstance(shape, dict)
    if shape == {"list": IMAGE} and not isinstance(value, list):
        return str(value)
    if "list" in shape and isinstance(value, list):
        return [_encoded(each, shape["list"], keep) for each in value]
    if "keys" in shape and isinstance(value, Mapping):
        return {key: _encoded(each, shape["keys"].get(key), keep) for key, each in value.items()}
    if "names" in shape and isinstance(value, int):
        return shape["names"][value] if 0 <= value < len(shape["names"]) else None
    return _plain(value)


def _decoded(value: Any, shape: Shape, image: Callable[[list[Any]], ImageInput]) -> Any:
    if value is None or not shape or shape == "json":
        return value
    if shape == IMAGE:
        return image(value) if isinstance(value, list) else value
    assert isinstance(shape, dict)
    if "list" in shape and isinstance(value, list):
        items = (_decoded(each, shape["list"], image) for each in value)
        return tuple(items) if shape["list"] == IMAGE else list(items)
    if "keys" in shape and isinstance(value, Mapping):
        return {key: _decoded(each, shape["keys"].get(key), image) for key, each in value.items()}
    return value


def _plain(value: Any) -> Any:
    """A value as JSON can hold it: what is no number is None, and what has no counterpart is text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return None if isinstance(value, bytes) else str(value)


def _line(values: Mapping[str, Any], row: int) -> str:
    line = json.dumps(values, ensure_ascii=False, allow_nan=False) + "\n"
    try:
        line.encode("utf-8")
    except UnicodeEncodeError:
        message = f"Row {row} holds half of a surrogate pair, which is no character."
        raise DataError(message, next_step="Correct the row.") from None
    return line

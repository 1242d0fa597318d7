"""Store tables on disk: values as JSON Lines, images as their original files.

    tables/<key>.jsonl    one row per line; an image is the name and size of its file
    tables/<key>.json     the columns and their shapes; written last, so a table without it is incomplete
    images/<sha256>.png   the original bytes of an image, stored once

Local images next to a table are not copied; their rows contain only the name.
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
from rewardharness.data.folder import BaseFolder
from rewardharness.data.tables import IMAGE, SHAPES, Shape, TableFile, image_content, is_inside, store_image
from rewardharness.errors import DataError
from rewardharness.files import check_space
from rewardharness.schema import ImageInput

FORMAT = 2
"""Format version; tables of other versions are written again."""

_CHUNK = 32
_LEAST = 1 << 20
_SHOWN = 5


@dataclass(frozen=True)
class DataTable:
    """A table in memory, or its columns and first rows."""

    name: str
    """Display name: `org/name`, with `:config/split` if there are several, or a file name."""
    shapes: Mapping[str, Shape] = field(repr=False)
    """Shape of each column, in order (see `tables`)."""
    first: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    """Rows in memory."""
    notes: tuple[str, ...] = ()
    """Warnings for the user, as sentences."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.shapes)

    @property
    def images(self) -> frozenset[str]:
        """The columns with images, lists of images, or lists of videos."""
        return frozenset(name for name, shape in self.shapes.items() if shape in SHAPES)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self.first)


@dataclass(frozen=True)
class Rows(DataTable):
    """A table that can be iterated repeatedly without loading its images.

    Each row maps every column to its value. An image is a `schema.ImageInput` with a file on disk; a list of images is
    a tuple. Other values in an image column are text. All other values are plain JSON; missing values and NaN are None.
    """

    revision: str = ""
    """The full commit id; for local tables, their SHA-256."""
    count: int = 0
    """Number of rows."""
    lines: Path = field(default=Path(), repr=False)
    """The file with the rows."""
    beside: Path = field(default=Path(), repr=False)
    """The folder of images that were not copied."""

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        image = partial(_image, folder=self.lines.parents[1], beside=self.beside)
        with self.lines.open(encoding="utf-8") as stream:
            for line in stream:
                row = json.loads(line)
                yield {name: _decoded(row.get(name), shape, image) for name, shape in self.shapes.items()}


Fetch = Callable[[Collection[str]], Mapping[str, Path]]
"""Downloads files of a dataset by name and returns the paths of those that exist."""


def open_stored(folder: Path, key: str, *, name: str, revision: str, beside: Path) -> Rows | None:
    """Open a stored table; return None if it is missing or incomplete."""
    lines, about = _places(folder, key)
    with suppress(DataError, OSError, ValueError, LookupError, TypeError, AttributeError):
        stated = files.read_json(about)
        if stated["format"] != FORMAT or lines.stat().st_size != stated["bytes"]:
            return None
        if any((folder / image).stat().st_size != size for image, size in stated["images"].items()):
            return None
        rows = Rows(name, stated["shapes"], (), tuple(stated["notes"]), revision, stated["count"], lines, beside)
        return rows if isinstance(rows.shapes, dict) else None
    return None


def store(
    folder: Path,
    key: str,
    parts: Sequence[tuple[TableFile, str]],
    *,
    beside: Path,
    fetch: Fetch | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Store a table, reusing files of an interrupted process.

    Args:
        folder: The folder of its dataset.
        key: Name of the table in it.
        parts: Its files in order, with the folder in the dataset that image names are relative to; empty at the top.
        beside: The folder of images that are not copied.
        fetch: Downloads the referenced images to copy; None if they are local and stay in place.
        progress: Called with the number of written rows and of all rows.

    Raises:
        DataError: If the files have different columns, no referenced image exists, or the disk is full.
    """
    files.remove_stale(folder / "images")
    shapes = _merged(table for table, _ in parts)
    keeping = _ImageStore(folder, beside, fetch)
    lines: list[bytes] = []
    total = sum(table.count for table, _ in parts)
    for table, place in parts:
        rows = table.rows()
        while chunk := list(islice(rows, _CHUNK)):
            check_space(folder, _LEAST, "write rows and images")
            keeping.prepare(chunk, table, place)
            for row in chunk:
                keep = partial(keeping.cell, folder=place)
                values = {name: _encoded(row.get(name), shape, keep) for name, shape in shapes.items()}
                lines.append(_line(values, len(lines) + 1))
            if progress is not None:
                progress(len(lines), total)
    notes = keeping.notes()
    content = b"".join(lines)
    path, about = _places(folder, key)
    files.write_bytes(path, content)
    stated = {"format": FORMAT, "count": len(lines), "bytes": len(content), "shapes": shapes, "notes": notes}
    files.write_json(about, {**stated, "images": keeping.sizes})


def _places(folder: Path, key: str) -> tuple[Path, Path]:
    return folder / "tables" / f"{key}.jsonl", folder / "tables" / f"{key}.json"


def _merged(tables: Iterable[TableFile]) -> dict[str, Shape]:
    """Merge the columns of all files. An empty column has no shape."""
    shapes: dict[str, Shape] = {}
    for table in tables:
        for name, shape in table.columns.items():
            shapes[name] = shapes.get(name) or shape
            if shape not in (None, shapes[name]):
                step = "Choose a single file, or another config."
                raise DataError(f"The column {name!r} has different types in different files.", next_step=step)
    return shapes


class _ImageStore:
    """Stores the images of a table and collects problems."""

    def __init__(self, folder: Path, beside: Path, fetch: Fetch | None) -> None:
        self.sizes: dict[str, int] = {}
        self._folder, self._beside, self._fetch = folder, BaseFolder(beside.resolve()), fetch
        self._fetched: Mapping[str, Path] = {}
        self._named: set[str] = set()
        self._outside: dict[str, None] = {}

    def prepare(self, chunk: Iterable[Mapping[str, Any]], table: TableFile, folder: str) -> None:
        """Download the images that the next rows refer to."""
        if self._fetch is None:
            return
        wanted: dict[str, None] = {}

        def note(value: Any) -> None:
            content, name = image_content(value)
            if name and not content and is_inside(name):
                wanted[_joined(folder, name)] = None

        for row in chunk:
            for column, shape in table.columns.items():
                _encoded(row.get(column), shape, note)
        self._fetched = self._fetch(wanted) if wanted else {}

    def cell(self, value: Any, folder: str) -> list[str | int] | str | None:
        """Store one image and return its reference; text if it is not an image; None if it is empty."""
        content, name = image_content(value)
        if content:
            return self._keep(content)
        if not name or not name.strip():
            return None if value is None or isinstance(value, (str, bytes, Mapping)) else str(value)
        inside = _joined(folder, name) if is_inside(name) else ""
        if not inside or (self._fetch is None and not self._beside.contains(inside)):
            self._outside[name] = None
            return name
        if inside in self._fetched:
            return self._keep(self._fetched[inside].read_bytes())
        self._named.add(inside)
        return [inside]

    def notes(self) -> list[str]:
        """Return warnings for the user.

        Raises:
            DataError: If the table refers to images and none of them exists.
        """
        if self._fetch is not None and self._named and not self.sizes:
            message = f"The table refers to {len(self._named)} images, but none of them is in the dataset."
            step = "If they are in an archive, download and unpack it, and open the local table."
            raise DataError(message, next_step=step)
        if not self._outside:
            return []
        paths = ", ".join(repr(name[:80]) for name in list(self._outside)[:_SHOWN])
        return [f"Ignored image paths outside the dataset ({len(self._outside)}): {paths}."]

    def _keep(self, content: bytes) -> list[str | int]:
        name = store_image(self._folder, content)
        self.sizes[name] = len(content)
        return [name, len(content)]


def _joined(folder: str, name: str) -> str:
    return str(PurePosixPath(folder) / name.strip())


def _image(cell: list[Any], folder: Path, beside: Path) -> ImageInput:
    """Return the image of a cell: a stored file if it has a size, otherwise one next to the table."""
    name = str(cell[0])
    return ImageInput(name, (folder if len(cell) == 2 else beside) / name)


def plain_row(row: Mapping[str, Any], shapes: Mapping[str, Shape], image: Callable[[Any], Any]) -> dict[str, Any]:
    """Return a row of a table file in the form of `Rows`, without storing it.

    Args:
        row: The raw values.
        shapes: Shape of each column.
        image: Converts an image cell to an `ImageInput`, to text if it is none, or to None if it is empty.
    """
    return {name: _decoded(_encoded(row.get(name), shape, image), shape, image) for name, shape in shapes.items()}


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
    if shape == {"list": IMAGE} and not isinstance(value, (list, tuple)):
        return str(value)
    if "list" in shape and isinstance(value, (list, tuple)):
        return [_encoded(item, shape["list"], keep) for item in value]
    if "keys" in shape and isinstance(value, Mapping):
        return {key: _encoded(item, shape["keys"].get(key), keep) for key, item in value.items()}
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
        items = (_decoded(item, shape["list"], image) for item in value)
        return tuple(items) if shape["list"] == IMAGE else list(items)
    if "keys" in shape and isinstance(value, Mapping):
        return {key: _decoded(item, shape["keys"].get(key), image) for key, item in value.items()}
    return value


def _plain(value: Any) -> Any:
    """Return a value as JSON: NaN is None, and infinity and unsupported types are text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None if math.isnan(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return None if isinstance(value, bytes) else str(value)


def _line(values: Mapping[str, Any], row: int) -> bytes:
    try:
        return json.dumps(values, ensure_ascii=False, allow_nan=False).encode("utf-8") + b"\n"
    except UnicodeEncodeError:
        raise DataError(f"Row {row} contains an unpaired surrogate.", next_step="Correct the row.") from None

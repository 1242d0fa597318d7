"""The table type, and reading of text tables: JSON Lines, JSON and CSV.

Rows contain raw values. The shape of a column defines their meaning and the location of nested images:

    None                 a plain value
    "image"              an image: encoded bytes, a file name, or a mapping of `bytes` and `path`
    "json"               JSON as text
    {"names": [...]}     a class index, which is replaced by its name
    {"list": shape}      a list
    {"keys": {...}}      a mapping with a shape per key
"""

import base64
import codecs
import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any
from urllib.parse import unquote

from rewardharness import files
from rewardharness.errors import DataError
from rewardharness.files import megabytes
from rewardharness.schema import ImageInput

_LEAST_BASE64 = 64
"""Least length of base64 that can be an image."""
_DATA_URI = re.compile(r"\s*data:[\w.+/-]*(?:;[\w.=-]+)*;base64,", re.IGNORECASE)
_PLAIN = str.maketrans("-_", "+/")
_MAGIC = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpg", b"GIF8": "gif", b"BM": "bmp"}
_MAGIC |= dict.fromkeys((b"II*\x00", b"MM\x00*"), "tif")


def extension(content: bytes) -> str:
    """Return the file extension for the image format of the bytes; `img` for any other content."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "webp"
    if content[4:10] in {b"ftypav", b"ftyphe"}:
        return "avif" if content[8:9] == b"a" else "heic"
    return next((ending for magic, ending in _MAGIC.items() if content.startswith(magic)), "img")


def image_path(content: bytes) -> str:
    """Return the relative path under which an image is stored: it says nothing but what the bytes are."""
    return f"images/{files.sha256(content)}.{extension(content)}"


def store_image(folder: Path, content: bytes) -> str:
    """Write an image below a folder unless it is there; return its relative path."""
    name = image_path(content)
    path = folder / name
    if not (path.is_file() and path.stat().st_size == len(content)):
        files.write_bytes(path, content)
    return name


def original_bytes(image: ImageInput, remedy: str = "Restore the file, or remove the example.") -> bytes:
    """Return the original encoded bytes of an image.

    Raises:
        DataError: If its file cannot be read; `remedy` is the next step.
    """
    try:
        return image.path.read_bytes() if image.data is None and image.path is not None else image.data or b""
    except OSError as error:
        raise DataError(f"The image {image.name} cannot be read: {error.strerror}.", next_step=remedy) from None


def embedded_image(value: object) -> bytes | None:
    """Return the image that a text, or a text in bytes, holds as base64 or as a `data:` URI; None for other values.

    The URL-safe alphabet, white space and missing padding are accepted. Only a text that begins like an image is
    decoded as a whole.
    """
    if isinstance(value, bytes):
        value = value.decode("latin-1") if extension(value) == "img" else None
    if not isinstance(value, str) or len(value) < _LEAST_BASE64:
        return None
    uri = _DATA_URI.match(value)
    start = uri.end() if uri else 0
    try:
        head = "".join(value[start : start + 256].split())[:24].translate(_PLAIN)
        if extension(base64.b64decode(head)) == "img":
            return None
        text = "".join((unquote(value[start:]) if uri else value).split()).translate(_PLAIN).rstrip("=")
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        return None


def image_content(value: Any) -> tuple[bytes | None, str | None]:
    """Return the bytes of an image, or its name."""
    name = None
    if isinstance(value, Mapping):
        value, name = value.get("bytes"), value.get("path")
    data = embedded_image(value) or (value if isinstance(value, bytes) else None)
    return data, None if data else value if isinstance(value, str) else name if isinstance(name, str) else None


Shape = str | dict[str, Any] | None
"""Shape of a column (see the module). JSON-serializable."""

IMAGE = "image"
"""Shape of an image."""

ENDINGS = frozenset(
    {".png", ".jpg", ".jpeg", ".jfif", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".avif", ".heic", ".heif"}
)
"""File extensions of images."""

TEXT_TABLES = frozenset({".jsonl", ".ndjson", ".json", ".csv", ".tsv"})
"""Extensions of the tables that this module reads."""

SHAPES: tuple[Shape, ...] = (IMAGE, {"list": IMAGE}, {"list": {"list": IMAGE}})
"""Shapes of columns with images, lists of images or frames, and lists of videos."""

MAX_TEXT = 512 << 20
"""Maximum size of a text table in bytes; it is read into memory."""

MAX_CELL = 32 << 20
"""Maximum length of a cell of a CSV file in characters."""

NO_OBJECT = "not a JSON object"
"""Problem of a line that is JSON, and no row."""

MAX_LINE = 128 << 20
"""Maximum length of a line of JSON Lines in bytes, of files that are read line by line."""

_SHOWN = 5


@dataclass(frozen=True)
class TableFile:
    """A table that can be read row by row."""

    columns: Mapping[str, Shape]
    """Shape of each column, in order."""
    count: int
    """Number of rows."""
    rows: Callable[[], Iterator[Mapping[str, Any]]]
    """Returns a new iterator over the rows."""


def read_text_table(path: Path) -> TableFile:
    """Read a text table. A column contains images if most of its values are relative paths with image extensions.

    A majority suffices, so that one invalid cell does not hide a column. Invalid cells are reported with their row.

    Args:
        path: A file with an extension in `TEXT_TABLES`.

    Raises:
        DataError: If the content does not match the extension; lists the lines.
    """
    ending = path.suffix.lower()
    if path.is_file() and path.stat().st_size > MAX_TEXT:
        message = f"{path} is larger than {megabytes(MAX_TEXT)} MB, the maximum for a text table."
        raise DataError(message, next_step="Convert it to Parquet.")
    if ending in {".csv", ".tsv"}:
        rows = _read_csv(path, "\t" if ending == ".tsv" else None)
    else:
        rows = _read_json(path) if ending == ".json" else _read_lines(path)
    if not rows:
        what = "has no rows" if files.read_text(path).strip() else "is empty"
        raise DataError(f"{path} {what}.", next_step="Choose a table with at least one row.")
    columns = dict.fromkeys(key for row in rows for key in row)
    shapes = {name: column_shape(row.get(name) for row in rows) for name in columns}
    return TableFile(shapes, len(rows), lambda: iter(rows))


def holds_image(value: object) -> bool:
    """Return whether a value is an image as text or bytes, or a mapping of `bytes` and `path` with one."""
    if isinstance(value, Mapping):
        return {"bytes", "path"} >= set(value) and holds_image(value.get("bytes"))
    return embedded_image(value) is not None or (isinstance(value, bytes) and extension(value) != "img")


def column_shape(values: Iterable[Any], *, named: bool = True, holds: Callable[[Any], bool] = holds_image) -> Shape:
    """Return the image shape if most values are images, lists of them, or lists of videos as lists of them.

    Args:
        values: Values of the column.
        named: Whether the name of an image file counts as an image, besides images that are in the table.
        holds: Decides whether a value is an image in the table.
    """

    def is_image(value: object) -> bool:
        return holds(value) or (named and is_image_name(value))

    filled = [value for value in values if not (value is None or (isinstance(value, (str, list, tuple)) and not value))]
    if 2 * sum(map(is_image, filled)) > len(filled):
        return IMAGE
    lists = [value for value in filled if isinstance(value, (list, tuple))]
    if 2 * sum(all(map(is_image, value)) for value in lists) > len(filled):
        return {"list": IMAGE}
    videos = (all(isinstance(part, (list, tuple)) and all(map(is_image, part)) for part in value) for value in lists)
    if 2 * sum(videos) > len(filled):
        return {"list": {"list": IMAGE}}
    return None


def is_image_name(value: object) -> bool:
    """Return whether a text is the relative path of an image inside its base folder."""
    return isinstance(value, str) and is_inside(value) and PurePosixPath(value.strip()).suffix.lower() in ENDINGS


def is_inside(name: str) -> bool:
    """Return whether a path is relative and stays inside its base folder."""
    name = name.strip()
    if any(letter < " " or letter == "\x7f" for letter in name) or "\\" in name or "://" in name:
        return False
    return not (PureWindowsPath(name).drive or name.startswith(("/", "~")) or ".." in name.split("/"))


def index_lines(path: Path, rows: int) -> Iterator[tuple[int, int]]:
    """Yield the position in bytes and the number of rows of consecutive groups of the rows of JSON Lines.

    Args:
        path: The file. Blank lines are no rows.
        rows: Number of rows of each group; the last one may have fewer.
    """
    start = count = place = 0
    with path.open("rb") as stream:
        for line in _bounded(stream, path):
            place += len(line)
            if not line.strip():
                continue
            count += 1
            if count == rows:
                yield start, count
                start, count = place, 0
    if count:
        yield start, count


def lines_from(path: Path, position: int) -> Iterator[dict[str, Any] | str]:
    """Yield the rows of JSON Lines from a position in bytes; of an invalid row its problem, as text."""
    with path.open("rb") as stream:
        stream.seek(position)
        for line in _bounded(stream, path):
            if line.strip():
                yield parsed_line(line)


def _bounded(stream: IO[bytes], path: Path) -> Iterator[bytes]:
    """Yield the lines of a file with a limit of their length."""
    while line := stream.readline(MAX_LINE + 1):
        if len(line) > MAX_LINE:
            message = f"{path} has a line of more than {megabytes(MAX_LINE)} MB."
            raise DataError(message, next_step="Store large images as files beside the table.")
        yield line


def parsed_line(line: bytes | str) -> dict[str, Any] | str:
    """Return a line of JSON Lines as a row, or its problem as text."""
    try:
        row = json.loads(line.removeprefix(codecs.BOM_UTF8) if isinstance(line, bytes) else line)
    except UnicodeDecodeError:
        return "not UTF-8 text"
    except (ValueError, RecursionError) as error:
        return f"not valid JSON ({error.msg if isinstance(error, json.JSONDecodeError) else 'too deep or too large'})"
    return row if isinstance(row, dict) else NO_OBJECT


def _read_lines(path: Path) -> list[dict[str, Any]]:
    lines = enumerate(files.read_text(path).split("\n"), 1)
    rows = [(number, parsed_line(line)) for number, line in lines if line.strip()]
    if wrong := [f"line {number} is {row}" for number, row in rows if isinstance(row, str)]:
        more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise DataError(f"{path}: {'; '.join(wrong[:_SHOWN])}{more}.", next_step="Correct these lines.")
    return [row for _, row in rows if isinstance(row, dict)]


def _read_json(path: Path) -> list[dict[str, Any]]:
    """Read a JSON array of objects, an object of objects, whose keys become the column `key`, or JSON Lines."""
    text = files.read_text(path)
    if not text.lstrip().startswith("["):
        with suppress(ValueError, RecursionError):
            document = json.loads(text)
            if document and isinstance(document, dict) and all(isinstance(row, dict) for row in document.values()):
                return [{"key": name, **row} for name, row in document.items()]
        return _read_lines(path)
    rows = files.read_json(path)
    if wrong := [number for number, row in enumerate(rows, 1) if not isinstance(row, dict)]:
        message = f"{path}: item {wrong[0]} is not a JSON object."
        raise DataError(message, next_step="Use a list with one object per row.")
    return list(rows)


def _read_csv(path: Path, delimiter: str | None) -> list[dict[str, Any]]:
    text = files.read_text(path)
    delimiter = delimiter or best_delimiter(text, len)
    lines = csv_rows(path, text, delimiter)
    header = [name.strip() for name in next(lines, (0, []))[1]]
    if doubled := [name for name in header if header.count(name) > 1 or not name]:
        step = "Give every column a unique name."
        raise DataError(f"{path} line 1 has a duplicate or unnamed column: {doubled[0]!r}.", next_step=step)
    rows = []
    for number, cells in lines:
        if len(cells) > len(header):
            message = f"{path} line {number} has {len(cells)} cells, but the header has {len(header)}."
            raise DataError(message, next_step="Quote cells that contain the separator.")
        rows.append({name: cell or None for name, cell in zip_longest(header, cells)})
    return rows


def best_delimiter(text: str, known: Callable[[list[str]], int]) -> str:
    """Return the separator of a CSV text for which a number about the cells of its first line is highest."""

    def number(delimiter: str) -> int:
        try:
            return known(next(_csv_reader(text, delimiter), []))
        except csv.Error:
            return 0

    return max(",;\t", key=number)


def _csv_reader(text: str, delimiter: str) -> Any:
    """Return a reader of rows of cells with at most `MAX_CELL` characters, such as an image in base64."""
    csv.field_size_limit(MAX_CELL)  # of the process; by default 131,072
    return csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)


def csv_rows(file: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield non-empty rows with the number of their first line."""
    reader = _csv_reader(text, delimiter)
    while True:
        begin = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            step = 'Close all quotation marks, and escape one inside a cell as "".'
            raise DataError(f"{file} line {begin}: {error}.", next_step=step) from None
        if any(cell.strip() for cell in cells):
            yield begin, cells

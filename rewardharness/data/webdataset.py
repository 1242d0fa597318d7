"""Read WebDataset archives: tar files in which consecutive members with the same key form one sample.

The key of a member is its path up to the first dot of its file name; the rest names the column
(https://github.com/webdataset/webdataset):

    000017.source.png  000017.a.png  000017.b.png  000017.json    columns source, a, b, and the keys of the JSON object
    000018.source.png  000018.a.png  000018.b.png  000018.txt     columns source, a, b, text

Members are read by position. Nothing is extracted to disk, and names, links and special files are never followed.
"""

import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from rewardharness.data.tables import ENDINGS, IMAGE, Shape, column_shape
from rewardharness.errors import DataError
from rewardharness.files import megabytes

ENDING = ".tar"
"""Extension of uncompressed archives, the only ones that can be read by position."""

KEY = "__key__"
"""Column with the key of a sample."""

MAX_MEMBER = 256 << 20
"""Maximum size of a member in bytes."""

_MAX_RECORDS = 16 << 10
"""Maximum size of an extended header in bytes."""
_EXTENDED = b"xgXLK"
"""Types of extended headers: records of the pax format, and long names and links of GNU."""
_TEXT_NAMES = {"txt": "text", "cls": "label"}
"""Column of a member without a name of its own, by extension."""


@dataclass(frozen=True)
class TarSamples:
    """Consecutive samples of an archive."""

    offset: int
    """Position of the first member's header in bytes."""
    count: int
    """Number of samples."""


def index_samples(path: Path, rows: int) -> Iterator[TarSamples]:
    """Yield the samples of an archive in groups, reading headers only.

    Args:
        path: The archive.
        rows: Number of samples of each group; the last one may have fewer.

    Raises:
        DataError: If it is damaged, or compressed.
    """
    start = count = 0
    before: str | None = None
    with path.open("rb") as stream:
        for member in _members(stream, path):
            key = _split(member.name)[0]
            if key == before:
                continue
            if count == rows:
                yield TarSamples(start, count)
                start, count = member.offset, 0
            elif before is None:
                start = member.offset
            before, count = key, count + 1
    if count:
        yield TarSamples(start, count)


def read_samples(path: Path, samples: TarSamples) -> Iterator[dict[str, Any]]:
    """Yield samples as rows: column to value. An image is a mapping of `bytes` and `path`.

    Raises:
        DataError: If the archive is damaged, or a member is too large.
    """
    row: dict[str, Any] = {}
    count = 0
    with path.open("rb") as stream:
        stream.seek(samples.offset)
        for member in _members(stream, path):
            key, column = _split(member.name)
            if row.get(KEY) != key:
                if row:
                    yield row
                if count == samples.count:
                    return
                row, count = {KEY: key}, count + 1
            row |= _cells(stream, member, column, path)
    if row:
        yield row


def shapes_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Shape]:
    """Return the shape of each column of the first rows."""
    cells = {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}
    pictured = {name for name, values in cells.items() if any(isinstance(value, _Picture) for value in values)}
    return {name: IMAGE if name in pictured else column_shape(values, named=False) for name, values in cells.items()}


class _Picture(dict[str, Any]):
    """The `bytes` and the `path` of an image."""


class _Header(tarfile.TarInfo):
    """A header, with a limit of the headers that belong to it: long names, and the records of the pax format."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.size < 0:
            raise tarfile.ReadError("a member has a negative size")
        if self.size > _MAX_RECORDS and self.type in _EXTENDED:
            raise tarfile.ReadError(f"an extended header has {self.size} bytes; at most {_MAX_RECORDS} are read")
        header: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]  # not in the stubs
        return header


def _members(stream: IO[bytes], path: Path) -> Iterator[tarfile.TarInfo]:
    """Yield the regular files of an archive from the current position of a stream."""
    try:
        with tarfile.open(fileobj=stream, mode="r:", tarinfo=_Header) as archive:
            # Iterating an open archive keeps every header in memory; `next` with a cleared list does not.
            while (member := archive.next()) is not None:
                archive.members.clear()  # type: ignore[attr-defined]
                if member.size < 0:
                    raise tarfile.ReadError("a member has a negative size")
                if member.isreg():
                    yield member
            stream.seek(archive.offset)
            if (block := stream.read(tarfile.BLOCKSIZE)).strip(b"\0") or len(block) % tarfile.BLOCKSIZE:
                raise tarfile.ReadError("it ends in the middle of a member, or has other data")
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        step = f"Write it again as an uncompressed {ENDING} file."
        raise DataError(f"{path} cannot be read as a tar archive: {error}.", next_step=step) from None


def _split(name: str) -> tuple[str, str]:
    """Return the key and the column of a member."""
    folder, _, base = name.rpartition("/")
    stem, _, rest = base.partition(".")
    return f"{folder}/{stem}" if folder else stem, rest.lower()


def _cells(stream: IO[bytes], member: tarfile.TarInfo, column: str, path: Path) -> dict[str, Any]:
    """Return the columns that a member fills."""
    if member.size > MAX_MEMBER:
        message = f"{path}: the member {member.name[:80]!r} has {megabytes(member.size)} MB."
        raise DataError(message, next_step=f"Members have at most {megabytes(MAX_MEMBER)} MB.")
    stream.seek(member.offset_data)
    data = stream.read(member.size)
    if len(data) < member.size:
        raise DataError(f"{path} is truncated.", next_step="Download or write it again.")
    name, _, ending = column.rpartition(".")
    if f".{ending}" in ENDINGS:
        return {name or "image": _Picture(bytes=data, path=PurePosixPath(member.name).name)}
    try:
        text = data.decode("utf-8")
        value = json.loads(text) if ending == "json" else text.strip()
    except (ValueError, RecursionError):
        return {name or ending: None}  # no image, text or JSON: an unused column
    if ending == "json" and not name and isinstance(value, dict):
        return {str(key): cell for key, cell in value.items() if key != KEY}
    return {name or _TEXT_NAMES.get(ending, ending): value}

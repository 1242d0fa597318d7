"""Datasets of any size as parts: consecutive rows that are read one by one, on any machine that reaches the data.

parquet   row groups of Parquet files, on this disk, or streamed from a dataset on the Hub
tar       samples of WebDataset archives, by position; those of a dataset on the Hub are downloaded
lines     lines of a JSON Lines table, by position
folder    lines of pairs.jsonl and groups.jsonl, by position
memory    all other datasets that `data.opening` reads, in memory without their images
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from rewardharness.data.cells import BadRowError
from rewardharness.data.fields import ExampleReader, FieldMap
from rewardharness.data.folder import BaseFolder, row_example
from rewardharness.data.hf_datasets import parquet_rows
from rewardharness.data.row_store import plain_row
from rewardharness.data.tables import Shape, extension, image_content, is_inside, lines_from
from rewardharness.data.webdataset import TarSamples, read_samples
from rewardharness.errors import DataError
from rewardharness.files import content_id, sha256
from rewardharness.hub.repository import Access, Repo
from rewardharness.schema import Example, ImageInput
from rewardharness.settings import Settings

Format = Literal["parquet", "tar", "lines", "folder", "memory"]


@dataclass(frozen=True)
class Part:
    """Consecutive rows of one file."""

    number: int
    """Number of the part in its stream, from 0."""
    first: int
    """Number of its first row in the stream, from 0."""
    count: int
    """Number of its rows."""
    file: str
    """Path of the file, relative to `Stream.root` or in the repository."""
    start: int
    """First row group, position in bytes, or index of the first example."""
    groups: int = 0
    """Number of row groups."""
    skip: int = 0
    """Number of rows of the first row group that belong to earlier parts."""


@dataclass(frozen=True)
class Row:
    """One row: an example, or the reason why it is none."""

    number: int
    """Number in the stream, from 0."""
    example: Example | None
    problem: str = ""
    """The column, the value and the reason; empty for an example."""
    name: str | None = None
    """Id of a row that is no example, if it has one."""


@dataclass(frozen=True)
class Stream:
    """A dataset as parts. It can be sent to other machines, which need access to the same files."""

    name: str
    """Display name."""
    format: Format
    root: Path = Path()
    """Folder of the files."""
    hub: tuple[str, str] | None = None
    """Repository and commit on the Hub; None for local files."""
    files: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Digest by file."""
    shapes: Mapping[str, Shape] = field(default_factory=dict, repr=False)
    fields: FieldMap = field(default_factory=FieldMap)
    text: bool = False
    """Whether the candidates are texts."""
    examples: tuple[Example | str, ...] = field(default=(), repr=False)
    """The examples of a dataset in memory, and the problems of its invalid rows in their places."""
    how: str = ""
    """One sentence on how the fields were determined."""
    parts: tuple[Part, ...] = field(default=(), repr=False)

    @property
    def count(self) -> int:
        """Number of rows."""
        return sum(part.count for part in self.parts)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the files and the fields."""
        columns = {name: list(columns) for name, columns in self.fields.columns.items()}
        return content_id([self.format, list(self.hub or ()), dict(self.files), columns, str(self.fields.values)])

    def rows(self, part: Part, settings: Settings) -> Iterator[Row]:
        """Read the rows of a part one by one.

        Raises:
            DataError: If the file cannot be read, or has fewer rows than when the stream was opened.
        """
        count = 0
        for count, content in enumerate(islice(self._contents(part, settings), part.skip, part.skip + part.count), 1):
            yield self._row(part, part.first + count - 1, content)
        if count != part.count:
            step = "Restore it, or start over with another output folder."
            raise DataError(f"{part.file} of {self.name} has changed: rows are missing.", next_step=step)

    def _contents(self, part: Part, settings: Settings) -> Iterator[Any]:
        """Read examples, raw rows, or problems of rows as text."""
        where = self.root / part.file
        if self.format == "memory":
            return iter(self.examples[part.start :])
        if self.format in {"lines", "folder"}:
            return lines_from(where, part.start)
        groups = range(part.start, part.start + part.groups)
        if self.hub is not None:
            repo, commit = Repo(self.hub[0], dataset_access(settings), "dataset"), self.hub[1]
            if self.format == "parquet":
                return _streamed(repo, commit, part.file, groups)
            where = repo.fetch(commit, [part.file], repo.tree(commit))[part.file]
        if self.format == "parquet":
            return parquet_rows(where, str(where), groups)
        return read_samples(where, TarSamples(part.start, part.count))

    def _row(self, part: Part, number: int, content: Any) -> Row:
        if isinstance(content, Example):
            return Row(number, content)
        try:
            if isinstance(content, str):
                return Row(number, None, content)
            if self.format == "folder":
                example = row_example(content, self._folder)
                return Row(number, example if example.id else replace(example, id=f"row-{number + 1}"))
            beside = None if self.hub or self.format == "tar" else self._beside(part.file)
            row = plain_row(content, self.shapes, partial(_image, beside=beside))
            return Row(number, self._reader.example(row, number + 1))
        except BadRowError as error:
            name = content.get(self.fields.id or "id")
            return Row(number, None, str(error), str(name).strip() or None if isinstance(name, str | int) else None)

    @cached_property
    def _reader(self) -> ExampleReader:
        """The reader of rows. A list of candidates may have one; of several columns, two must be filled."""
        return ExampleReader(self.fields, self.text, least=2 if len(self.fields.candidates) > 1 else 1)

    @cached_property
    def _folder(self) -> BaseFolder:
        return BaseFolder(self.root.resolve())

    def _beside(self, file: str) -> BaseFolder:
        """Return the folder of a table."""
        folder = self._folder.root / PurePosixPath(file).parent
        return self._folders.setdefault(folder, BaseFolder(folder))

    @cached_property
    def _folders(self) -> dict[Path, BaseFolder]:
        return {}


def dataset_access(settings: Settings) -> Access:
    """Return how datasets on the Hub are reached: with the token of this computer."""
    return Access(None, settings.hub_endpoint, settings.hub_cache)


def _streamed(repo: Repo, commit: str, path: str, groups: Sequence[int]) -> Iterator[Mapping[str, Any]]:
    with repo.streamed(commit, path) as file:
        yield from parquet_rows(file, path, groups)


def _image(value: Any, beside: BaseFolder | None) -> ImageInput | str | None:
    """Return the image of a cell: its bytes, or a file in the folder `beside`; text if it is no image."""
    data, name = image_content(value)
    if data:
        return ImageInput(f"images/{sha256(data)}.{extension(data)}", data=data)
    if not name or not name.strip():
        return None if value is None or isinstance(value, str | bytes | Mapping) else str(value)
    name = name.strip()
    if beside is None or not is_inside(name) or not beside.contains(name):
        return name
    return ImageInput(name, beside.root / name)

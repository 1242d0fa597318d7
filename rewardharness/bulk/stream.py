"""Datasets of any size as parts: consecutive rows that are read one by one, on any machine that reaches the data.

parquet   row groups of Parquet files, on this disk, or streamed from a dataset on the Hub
tar       samples of WebDataset archives, by position; those of a dataset on the Hub are downloaded
lines     lines of a JSON Lines table, by position
folder    lines of pairs.jsonl and groups.jsonl, by position
memory    all other datasets that `data.opening` reads, in memory without their images
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from rewardharness.data.cells import BadRowError
from rewardharness.data.columns import SINGLE, complete
from rewardharness.data.fields import ExampleReader, FieldMap, check_columns, holds_text
from rewardharness.data.folder import BaseFolder, row_example
from rewardharness.data.hf_datasets import parquet_groups, parquet_rows
from rewardharness.data.opening import open_data, parse_spec
from rewardharness.data.row_store import DataTable, plain_row
from rewardharness.data.rows import Progress, locate_remote
from rewardharness.data.tables import (
    IMAGE,
    Shape,
    column_shape,
    extension,
    image_content,
    index_lines,
    is_inside,
    lines_from,
)
from rewardharness.data.webdataset import ENDING, KEY, TarSamples, index_samples, read_samples, shapes_of
from rewardharness.errors import DataError
from rewardharness.files import content_id, data_files, quick_digest, sha256, user_path
from rewardharness.hub.repository import Access, Repo
from rewardharness.schema import GROUPS, PAIRS, Example, ImageInput
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


PART_ROWS = 1000
"""Default number of rows of a part."""

_PEEK = 200
"""Rows that decide on the columns of a table."""
_LINES = frozenset({".jsonl", ".ndjson"})


def open_stream(
    spec: str,
    settings: Settings,
    *,
    fields: FieldMap | None = None,
    rows: int = PART_ROWS,
    limit: int | None = None,
    progress: Progress | None = None,
) -> Stream:
    """Open a dataset as a stream.

    Args:
        spec: A dataset as for `open_data`, a WebDataset archive (`.tar`), or a folder of them.
        settings: Hub settings, and where generated datasets are stored.
        fields: Field map of a table; omitted fields are inferred from the column names.
        rows: Maximum number of rows of a part.
        limit: Number of rows that are read; None for all.
        progress: Called with the progress of downloads.

    Raises:
        DataError: If the dataset does not exist, cannot be read, or has no rows.
        InputError: If the specification or a field is invalid.
    """
    stream = _open(spec, settings, fields, progress)
    parts = _parts(stream, rows, settings)
    return replace(stream, parts=tuple(_first(parts, limit, stream.name)))


def _open(spec: str, settings: Settings, fields: FieldMap | None, progress: Progress | None) -> Stream:
    path = user_path(spec)
    stream = _local(path) if path.exists() else _remote(spec, settings)
    if stream is None:
        dataset = open_data(spec, settings, fields=fields, progress=progress, skip_bad_rows=True)
        rows: list[Example | str] = list(dataset.examples)
        for skipped in reversed(dataset.skipped):
            rows.insert(skipped.before, f"{skipped.place}: {skipped.reason}")
        return Stream(dataset.name, "memory", files={"": dataset.digest}, examples=tuple(rows))
    if stream.format == "folder" and fields is None:
        return stream
    table = _table(stream, settings)
    if not table.columns:
        raise DataError(f"{stream.name} has no rows.", next_step="Choose data with rows.")
    columns = complete(table, fields or FieldMap(), stream.hub[0] if stream.hub else "")
    known = _completed(columns.fields, table)
    check_columns(table, known)
    text = holds_text(table, known)
    return replace(stream, shapes=table.shapes, fields=known, text=text, how=columns.how)


def _local(path: Path) -> Stream | None:
    """Return a stream without parts; None if the data are not of a streamed format."""
    if path.is_file():
        kinds = {ENDING: "tar", ".parquet": "parquet", **dict.fromkeys(_LINES, "lines")}
        form = kinds.get(path.suffix.lower())
        return None if form is None else _files(path.name, form, path.parent, [path])
    own = [path / name for name in (PAIRS, GROUPS) if (path / name).is_file()]
    if own:
        return _files(path.resolve().name, "folder", path, own)
    formats = {
        form: sorted(file for file in data_files(path) if file.suffix.lower() == ending)
        for ending, form in ((ENDING, "tar"), (".parquet", "parquet"))
    }
    if all(formats.values()):
        raise DataError(
            f"{path} holds both .tar and .parquet files.", next_step="Name one file, or a folder of one kind."
        )
    form = next((form for form, files in formats.items() if files), None)
    return None if form is None else _files(path.resolve().name, form, path, formats[form])


def _files(name: str, form: Any, root: Path, paths: Sequence[Path]) -> Stream:
    return Stream(name, form, root, files={path.relative_to(root).as_posix(): quick_digest(path) for path in paths})


def _remote(spec: str, settings: Settings) -> Stream | None:
    """Return a stream of a dataset on the Hub; None if its files are not of a streamed format."""
    source = parse_spec(spec)
    if source is None or not source.hub:
        return None
    repo = Repo(source.hub, dataset_access(settings), "dataset")
    name, commit, paths = locate_remote(source, repo, settings)
    endings = {Path(path).suffix.lower() for path in paths}
    if endings not in ({".parquet"}, {ENDING}):
        return None
    form: Format = "parquet" if endings == {".parquet"} else "tar"
    return Stream(name, form, hub=(source.hub, commit), files=dict.fromkeys(paths, commit))


def _table(stream: Stream, settings: Settings) -> DataTable:
    """Read the columns and the first rows."""
    file = next(iter(stream.files))
    if stream.format == "parquet":
        with _opened(stream, file, settings) as place:
            shapes, groups = parquet_groups(place, file)
        with _opened(stream, file, settings) as place:
            rows = list(islice(parquet_rows(place, file, range(len(groups))), 1 if stream.hub else _PEEK))
        columns = {name: [row[name] for row in rows] for name in shapes}  # a local table may name images beside it
        shapes = {name: shape or column_shape(columns[name], named=not stream.hub) for name, shape in shapes.items()}
        return _head(stream, shapes, rows)
    if stream.format == "tar":
        samples = list(islice(read_samples(_fetched(stream, file, settings), TarSamples(0, _PEEK)), _PEEK))
        return _head(stream, shapes_of(samples), samples)
    lines = [row for row in islice(lines_from(stream.root / file, 0), _PEEK) if isinstance(row, dict)]
    names = dict.fromkeys(name for row in lines for name in row)
    return _head(stream, {name: column_shape(row.get(name) for row in lines) for name in names}, lines)


def _head(stream: Stream, shapes: Mapping[str, Shape], rows: Iterable[Mapping[str, Any]]) -> DataTable:
    return DataTable(stream.name, shapes, [{name: row.get(name) for name in shapes} for row in rows])


def _completed(fields: FieldMap, table: DataTable) -> FieldMap:
    """Add the column of a single candidate, and the keys of samples as ids."""
    if not fields.candidates:
        images = {name.lower(): name for name in table.columns if table.shapes[name] == IMAGE and name != fields.source}
        single = next((images[name] for name in SINGLE if name in images), "")
        fields = replace(fields, candidates=(single,)) if single else fields
    return replace(fields, id=fields.id or (KEY if KEY in table.columns else ""))


def _parts(stream: Stream, rows: int, settings: Settings) -> Iterator[Part]:
    """Divide the rows of all files, in order."""
    number = first = 0
    for file in stream.files:
        for start, count, groups, skip in _divided(stream, file, rows, settings):
            yield Part(number, first, count, file, start, groups, skip)
            number, first = number + 1, first + count


def _divided(stream: Stream, file: str, rows: int, settings: Settings) -> Iterator[tuple[int, int, int, int]]:
    """Yield start, rows, row groups and skipped rows of each part of a file."""
    if stream.format == "memory":
        count = len(stream.examples)
        yield from ((start, min(rows, count - start), 0, 0) for start in range(0, count, rows))
    elif stream.format == "tar":
        path = _fetched(stream, file, settings)
        yield from ((samples.offset, samples.count, 0, 0) for samples in index_samples(path, rows))
    elif stream.format == "parquet":
        with _opened(stream, file, settings) as place:
            _, counts = parquet_groups(place, file)
        yield from divided_groups(counts, rows)
    else:
        yield from ((start, count, 0, 0) for start, count in index_lines(stream.root / file, rows))


def divided_groups(counts: Sequence[int], rows: int) -> Iterator[tuple[int, int, int, int]]:
    """Collect small row groups up to a number of rows, and divide larger ones.

    Args:
        counts: Rows of each row group of a file.
        rows: Maximum number of rows of a part.

    Yields:
        First row group, number of rows, number of row groups, and rows of the first one to skip.
    """
    start = held = 0
    for group, count in enumerate(counts):
        if held and held + count > rows:
            yield start, held, group - start, 0
            held = 0
        start = start if held else group
        if count > rows:
            yield from ((group, min(rows, count - skip), 1, skip) for skip in range(0, count, rows))
        else:
            held += count
    if held:
        yield start, held, len(counts) - start, 0


def _first(parts: Iterable[Part], limit: int | None, name: str) -> Iterator[Part]:
    """Yield the parts of the first rows."""
    part = None
    for part in parts:
        if limit is not None and part.first + part.count >= limit:
            yield replace(part, count=limit - part.first)
            return
        yield part
    if part is None:
        raise DataError(f"{name} has no rows.", next_step="Choose other data.")


def _fetched(stream: Stream, file: str, settings: Settings) -> Path:
    """Return a file, after its download if it is on the Hub."""
    if stream.hub is None:
        return stream.root / file
    repo = Repo(stream.hub[0], dataset_access(settings), "dataset")
    return repo.fetch(stream.hub[1], [file], repo.tree(stream.hub[1]))[file]


def _opened(stream: Stream, file: str, settings: Settings) -> AbstractContextManager[Any]:
    """Open a Parquet file on the Hub; of a local one, return its path."""
    if stream.hub is None:
        return nullcontext(stream.root / file)
    return Repo(stream.hub[0], dataset_access(settings), "dataset").streamed(stream.hub[1], file)

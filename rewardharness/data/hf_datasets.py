"""Read tables with `datasets` and `pyarrow`: configs, splits, column types and rows.

This is the only module that imports them. `datasets` provides the rules for configs and splits, the features of
columns, and `save_to_disk` folders. `pyarrow` reads Parquet in batches: `load_dataset` would download every split of a
config, copy it to Arrow, and read the Hub address from the environment only. Dataset code is never executed.
"""

import uuid
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from rewardharness import files
from rewardharness.data.tables import IMAGE, TEXT_TABLES, Shape, TableFile, column_shape, read_text_table
from rewardharness.errors import DataError, MissingPackageError
from rewardharness.files import megabytes

ARROW_TABLES = frozenset({".parquet", ".arrow"})
"""Extensions of the tables that this module reads."""

TABLES = ARROW_TABLES | TEXT_TABLES
"""Extensions of all supported tables."""

CARD = "README.md"
"""Dataset card; its header may define the files of each split."""

DISK_STATE = "state.json"
"""File that marks a folder written by `save_to_disk`."""

DISK_SPLITS = "dataset_dict.json"
"""File that marks a folder with one such folder per split."""

DEFAULT = "default"
"""Config name of a dataset without named configs."""

MAX_GROUP = 4 << 30
"""Maximum uncompressed size of a Parquet row group, in bytes."""

_BATCH = 16
_BUFFER = 1 << 20
_MAX_HEADER = 200_000
_MAX_DEPTH = 20
_BINARY = ("binary", "large_binary", "binary_view")
_LEFT_OUT = ("Audio", "Video", "Pdf", "Nifti", "Mesh", "BioSequence", "BioStructure")
"""Features that are not used; their columns are skipped."""


@dataclass(frozen=True)
class Layout:
    """The tables of a dataset."""

    configs: Mapping[str, Mapping[str, tuple[str, ...]]]
    """File paths by config and split."""
    default: str
    """Name of the default config; empty if there is none."""


def find_layout(paths: Collection[str], card: str) -> Layout:
    """Return the configs and splits of a dataset by the rules of `datasets`.

    Args:
        paths: Its files, relative, with `/`.
        card: Text of its card, empty without one.

    Returns:
        The layout; without configs if there is no supported table.

    Raises:
        DataError: If the header of the card is invalid.
        MissingPackageError: If `datasets` is not installed.
    """
    with _packages():
        from datasets.utils.metadata import MetadataConfigs
    tables = [path for path in paths if PurePosixPath(path).suffix.lower() in TABLES and ".." not in path.split("/")]
    try:
        stated = MetadataConfigs.from_dataset_card_data(_header(card))
        default = stated.get_default_config_name() or ""
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        reason = " ".join(str(error).split())[:200]
        step = "Correct `configs` in its README.md."
        raise DataError(f"The dataset card is invalid: {reason}", next_step=step) from None
    with _as_files(tables) as root:
        configs = {} if stated else {DEFAULT: _splits(root, None)}
        for name, config in stated.items():
            folder = _inside(config.get("data_dir") or "")
            configs[str(name)] = _splits(f"{root}/{folder}".rstrip("/"), config.get("data_files"), root)
    return Layout({name: splits for name, splits in configs.items() if splits}, default if stated else DEFAULT)


def _header(card: str) -> dict[str, Any]:
    """Return the header of an untrusted card, rejecting anchors, aliases and deep nesting."""
    import yaml

    lines = [line.rstrip() for line in card.split("\n")]
    if lines[0] != "---" or "---" not in lines[1:]:
        return {}
    text = "\n".join(lines[1 : lines.index("---", 1)])
    if len(text) > _MAX_HEADER:
        raise ValueError(f"its header is longer than {_MAX_HEADER} characters")
    depth = 0
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if getattr(event, "anchor", None) or depth > _MAX_DEPTH:
                raise ValueError("its header has anchors, aliases, or too many levels")
        header = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"its header is not valid YAML ({type(error).__name__})") from None
    return header if isinstance(header, dict) else {}


@contextmanager
def _as_files(paths: Collection[str]) -> Iterator[str]:
    """Create empty files in memory, for the pattern matching of `datasets`. Yields their root."""
    import fsspec

    memory = fsspec.filesystem("memory")
    root = f"/{uuid.uuid4().hex}"
    memory.mkdir(root)
    try:
        for path in paths:
            memory.pipe_file(f"{root}/{path}", b"")
        yield f"memory://{root}"
    finally:
        memory.rm(root, recursive=True)


def _splits(base: str, patterns: Any, root: str = "") -> dict[str, tuple[str, ...]]:
    """Return the files of each split with the most common extension."""
    from datasets.data_files import get_data_patterns, resolve_pattern, sanitize_patterns

    try:
        named = get_data_patterns(base) if patterns is None else sanitize_patterns(patterns)
    except FileNotFoundError:
        return {}
    start = len(root or base) + 1
    splits: dict[str, set[str]] = defaultdict(set)
    for split, pattern in ((split, pattern) for split, patterns in named.items() for pattern in patterns):
        with suppress(FileNotFoundError):
            splits[str(split)] |= {path[start:] for path in resolve_pattern(_inside(str(pattern)), base)}
    return {split: _of_one_kind(sorted(paths)) for split, paths in splits.items() if paths}


def _inside(pattern: str) -> str:
    """Return a pattern after checking that it stays in the repository."""
    if "://" in pattern or "::" in pattern or pattern.startswith(("/", "~")) or ".." in pattern.split("/"):
        raise DataError(f"The dataset card refers to files outside the repository: {pattern[:100]!r}.")
    return pattern.removeprefix("./")


def _of_one_kind(paths: list[str]) -> tuple[str, ...]:
    kinds = [PurePosixPath(path).suffix.lower() for path in paths]
    main = max(sorted(TABLES), key=lambda kind: (kinds.count(kind), kind in ARROW_TABLES))
    return tuple(path for path, kind in zip(paths, kinds, strict=True) if kind == main)


def disk_layout(folder: Path) -> Layout | None:
    """Return the layout of a `save_to_disk` folder, or None."""
    if (folder / DISK_STATE).is_file():
        return Layout({DEFAULT: {"train": (".",)}}, DEFAULT)
    if not (folder / DISK_SPLITS).is_file():
        return None
    stated = files.read_json(folder / DISK_SPLITS)
    splits = stated.get("splits") if isinstance(stated, dict) else None
    if not isinstance(splits, list) or not all(_is_plain_name(name) for name in splits):
        raise DataError(f"{folder / DISK_SPLITS} has no valid list of splits.", next_step="Save the dataset again.")
    return Layout({DEFAULT: {name: (name,) for name in splits}}, DEFAULT)


def _is_plain_name(name: object) -> bool:
    return isinstance(name, str) and name not in {"", ".", ".."} and Path(name).name == name


def read_table(path: Path) -> TableFile:
    """Open a table: a file with an extension in `TABLES`, or a `save_to_disk` folder.

    Raises:
        DataError: If it is damaged or does not match its extension.
        MissingPackageError: If `datasets` is not installed and required.
    """
    ending = path.suffix.lower()
    if ending in TABLES and path.is_file() and not path.stat().st_size:
        raise DataError(f"{path} is empty.", next_step="Download or write it again.")
    if ending in TEXT_TABLES and not path.is_dir():
        return read_text_table(path)
    if not path.is_dir() and ending not in ARROW_TABLES:
        listed = ", ".join(sorted(TABLES))
        raise DataError(f"{path} is not a supported table.", next_step=f"Supported extensions: {listed}.")
    with _packages(), _reading(path):
        return _read_parquet(path) if ending == ".parquet" and not path.is_dir() else _read_arrow(path)


@contextmanager
def _packages() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in {"datasets", "pyarrow", "fsspec"}:
            raise
        raise MissingPackageError("datasets", "data", "datasets on the Hub and Parquet files") from None


@contextmanager
def _reading(path: Path | str) -> Iterator[None]:
    """Convert exceptions of damaged tables to DataError."""
    from pyarrow import ArrowException

    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path} does not exist.", next_step="Check the path.") from None
    except (ArrowException, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        if isinstance(error, OSError) and error.errno:
            raise  # a disk error, not a damaged table
        message = f"{path} cannot be read: {' '.join(str(error).split())[:200].rstrip('.')}."
        raise DataError(message, next_step="Download or write it again.") from None


def _read_parquet(path: Path) -> TableFile:
    shapes, groups = parquet_groups(path, str(path))
    plain = [name for name, shape in shapes.items() if shape is None]
    rows = partial(parquet_rows, path, str(path), range(len(groups)))
    return TableFile(_with_embedded(shapes, rows(plain)), sum(groups), rows)


def _with_embedded(shapes: Mapping[str, Shape], rows: Iterator[Mapping[str, Any]]) -> dict[str, Shape]:
    """Return the shapes of columns, with those of texts that are images by the first rows."""
    first: list[Mapping[str, Any]] = []
    with suppress(DataError):  # reading all rows raises it again
        first += islice(rows, _BATCH)
    return {name: shape or column_shape((row[name] for row in first), named=False) for name, shape in shapes.items()}


def parquet_groups(file: Any, name: str, limit: int | None = None) -> tuple[dict[str, Shape], list[int]]:
    """Read the columns of a Parquet file, and the number of rows of each row group.

    Args:
        file: Its path, or a file object.
        name: Name in messages.
        limit: Maximum uncompressed size of a row group, in bytes; None for `MAX_GROUP`.

    Raises:
        DataError: If it is damaged, or a row group is too large.
        MissingPackageError: If `datasets` is not installed.
    """
    with _packages(), _reading(name):
        import pyarrow.parquet as parquet

        with parquet.ParquetFile(file) as opened:
            names, shapes, footer = opened.schema_arrow.names, _shapes(opened.schema_arrow), opened.metadata
            groups = [footer.row_group(number) for number in range(opened.num_row_groups)]
            largest = max((group.total_byte_size for group in groups), default=0)
            counts = [group.num_rows for group in groups]
    if doubled := [column for column, count in Counter(names).items() if count > 1]:
        raise DataError(f"{name} has the column {doubled[0]!r} twice.", next_step="Keep one of them.")
    if largest > (MAX_GROUP if limit is None else limit) or min(counts, default=0) < 0:
        message = f"{name} has a row group of {megabytes(largest)} MB, which would have to fit in memory."
        raise DataError(message, next_step="Write it again with a smaller row_group_size.")
    return shapes, counts


def parquet_rows(
    file: Any, name: str, groups: Sequence[int], columns: Collection[str] | None = None
) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of some row groups of a Parquet file. One row group is in memory at a time.

    Args:
        file: Its path, or a file object.
        name: Name in messages.
        groups: Numbers of the row groups.
        columns: The columns; None for all.

    Raises:
        DataError: If it is damaged.
    """
    with _packages(), _reading(name):
        import pyarrow.parquet as parquet

        # Buffered and without threads, only one row group is in memory.
        with parquet.ParquetFile(file, buffer_size=_BUFFER, pre_buffer=False) as table:
            wanted = [column for column in _shapes(table.schema_arrow) if columns is None or column in columns]
            for batch in table.iter_batches(_BATCH, row_groups=list(groups), columns=wanted, use_threads=False):
                yield from batch.to_pylist()


def _read_arrow(path: Path) -> TableFile:
    """Read an Arrow file or a `save_to_disk` folder, memory-mapped."""
    import datasets

    if path.is_dir():
        stated = files.read_json(path / DISK_STATE)
        if not all(_is_plain_name(file["filename"]) for file in stated["_data_files"]):
            raise ValueError(f"{DISK_STATE} refers to files outside the folder")
        table = datasets.load_from_disk(str(path), keep_in_memory=False)
    else:
        table = datasets.Dataset.from_file(str(path), in_memory=False)
    return table_of(table, path)


def table_of(dataset: Any, path: Path = Path("The dataset")) -> TableFile:
    """Return a `datasets.Dataset` as a table with its original image bytes.

    Args:
        dataset: The dataset.
        path: Path on disk, for messages.
    """
    shapes = _shapes(dataset.features.arrow_schema)

    def rows() -> Iterator[Mapping[str, Any]]:
        with _reading(path):
            for batch in dataset.select_columns(list(shapes)).with_format("arrow").iter(_BATCH):
                yield from batch.to_pylist()

    return TableFile(_with_embedded(shapes, rows()), len(dataset), rows)


def _shapes(schema: Any) -> dict[str, Shape]:
    """Return the shape of each supported column."""
    from datasets import Features

    try:
        features = Features.from_arrow_schema(schema)
    except (ValueError, LookupError, TypeError, AttributeError):  # invalid metadata in the file
        features = Features.from_arrow_schema(schema.remove_metadata())
    return {name: _shape(feature) for name, feature in features.items() if type(feature).__name__ not in _LEFT_OUT}


def _shape(feature: Any) -> Shape:
    from datasets import ClassLabel, Image, LargeList, List, Value

    if isinstance(feature, dict):
        if set(feature) == {"bytes", "path"} and getattr(feature["bytes"], "dtype", "") in {*_BINARY, "null"}:
            return IMAGE  # an `Image` stored without its feature
        inner = {key: shape for key, child in feature.items() if (shape := _shape(child)) is not None}
        return {"keys": inner} if inner else None
    if isinstance(feature, (List, LargeList)):
        shape = _shape(feature.feature)
        return shape and {"list": shape}
    if isinstance(feature, ClassLabel):
        return {"names": list(feature.names)}
    if isinstance(feature, Image) or (isinstance(feature, Value) and feature.dtype in _BINARY):
        return IMAGE
    return "json" if type(feature).__name__ == "Json" else None

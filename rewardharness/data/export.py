"""Export tables with images as Parquet or JSON Lines, and publish them as dataset repositories.

Parquet files store the original image bytes in a struct of `bytes` and `path`, like the Image feature of `datasets`,
and the features in the schema, so that `load_dataset` decodes images.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from rewardharness import files
from rewardharness.data.tables import image_path, original_bytes, store_image
from rewardharness.errors import DataError, MissingPackageError
from rewardharness.hub.repository import MAIN, Access, Repo, Token
from rewardharness.schema import ImageInput
from rewardharness.settings import Settings

Kind = Literal["text", "float", "int", "bool", "texts", "floats", "image", "images", "messages"]
"""Type of a column. `messages`: a conversation, a list of mappings with `role` and `content`."""

_ROWS = 64
"""Number of rows in memory at a time."""


def write_parquet(path: Path, columns: Mapping[str, Kind], rows: Iterable[Mapping[str, Any]]) -> int:
    """Write a table as one Parquet file, atomically.

    Args:
        path: The file.
        columns: Type of each column, in order.
        rows: The rows. Missing columns are null; images are `ImageInput`s.

    Returns:
        Number of rows.

    Raises:
        DataError: If an image cannot be read, or the disk is full.
        MissingPackageError: If `datasets` is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet
        from datasets import Features
    except ImportError:
        raise MissingPackageError("datasets", "data", "writing Parquet") from None
    schema = Features(_features(columns)).arrow_schema
    path.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    try:
        with TemporaryDirectory(prefix=".export-", dir=path.parent) as scratch:
            part = Path(scratch) / path.name
            with pyarrow.parquet.ParquetWriter(part, schema) as writer:
                left = iter(rows)
                while chunk := list(islice(left, _ROWS)):
                    cells = [
                        {name: _cell(row.get(name), kind, _struct) for name, kind in columns.items()} for row in chunk
                    ]
                    writer.write_table(pyarrow.Table.from_pylist(cells, schema=schema))
                    count += len(chunk)
            part.replace(path)
    except OSError as error:
        step = "Free disk space, or choose another location."
        raise DataError(f"{path} cannot be written: {error.strerror or error}.", next_step=step) from None
    return count


def write_lines(path: Path, columns: Mapping[str, Kind], rows: Iterable[Mapping[str, Any]]) -> int:
    """Write a table as JSON Lines, atomically, with its images in a folder `images` next to it.

    Returns:
        Number of rows.

    Raises:
        DataError: If an image cannot be read.
    """
    lines, stored = [], lambda image: store_image(path.parent, original_bytes(image))
    for row in rows:
        cells = {name: _cell(row.get(name), kind, stored) for name, kind in columns.items()}
        lines.append(json.dumps(cells, ensure_ascii=False))
    files.write_text(path, "".join(line + "\n" for line in lines))
    return len(lines)


def push_dataset(
    repo: str, uploads: Mapping[str, Path], settings: Settings, *, private: bool, message: str, token: Token = None
) -> str:
    """Publish files to a dataset repository in one commit. Existing files are not deleted.

    Args:
        repo: `org/name`; created if it does not exist.
        uploads: The files, by their paths in the repository.
        settings: Hub settings.
        private: Whether a new repository is private.
        message: Commit message.
        token: A Hub token; None for the token stored on this computer.

    Returns:
        The commit id.

    Raises:
        HubError: If the name is invalid, or the Hub rejects the request or is unreachable.
    """
    target = Repo(repo, Access(token, settings.hub_endpoint, settings.hub_cache), "dataset")
    target.create(private=private)
    return target.commit(uploads, (), target.head(MAIN).commit, (message, ""))[0]


def _features(columns: Mapping[str, Kind]) -> dict[str, Any]:
    from datasets import Image, List, Value

    values = {"text": "string", "float": "float64", "int": "int64", "bool": "bool"}
    kinds: dict[str, Any] = {kind: Value(name) for kind, name in values.items()} | {"image": Image()}
    kinds |= {f"{kind}s": List(kinds[kind]) for kind in ("text", "float", "image")}
    kinds["messages"] = List({"role": Value("string"), "content": Value("string")})
    return {name: kinds[kind] for name, kind in columns.items()}


def _cell(value: Any, kind: Kind, image: Callable[[ImageInput], Any]) -> Any:
    if kind == "image" and value is not None:
        return image(value)
    if kind == "images" and value is not None:
        return [image(picture) for picture in value]
    return list(value) if isinstance(value, tuple) else value


def _struct(image: ImageInput) -> dict[str, Any]:
    """Return an image as `datasets` stores it, without its file name, which may identify the editor."""
    data = original_bytes(image)
    return {"bytes": data, "path": image_path(data).removeprefix("images/")}

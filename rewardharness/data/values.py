"""Read examples from Python objects: a `datasets.Dataset`, mappings with images, or examples."""

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from rewardharness.data.columns import complete
from rewardharness.data.fields import FieldMap, parse_fields, read_examples
from rewardharness.data.opening import open_data
from rewardharness.data.row_store import DataTable, plain_row
from rewardharness.data.source import Dataset
from rewardharness.data.tables import ENDINGS, Shape, column_shape, embedded_image
from rewardharness.errors import DataError, ImageError
from rewardharness.files import sha256
from rewardharness.schema import Example, ImageInput
from rewardharness.settings import Settings

_OBJECTS = ("save", "read", "shape")
"""Attributes of images in memory: of Pillow images, open files and arrays."""


def read_data(
    data: Any, settings: Settings, *, fields: Mapping[str, Any] | None = None, skip_bad_rows: bool = False
) -> Dataset:
    """Read a dataset from any supported source.

    Args:
        data: A folder, a table or a dataset name (see `open_data`); a `datasets.Dataset`; mappings from columns to
            values, with images as paths, bytes, Pillow images or arrays; examples; or a `Dataset`.
        settings: Data folder and Hub settings.
        fields: Field map such as `{"source": "before"}`; omitted fields are inferred from the column names.
        skip_bad_rows: Skip invalid rows. Otherwise an invalid row is an error.

    Raises:
        DataError: If the type is not supported, or a row is invalid.
        InputError: If `fields` contains unknown fields.
    """
    chosen = None if fields is None else parse_fields(fields, "fields")
    if isinstance(data, Dataset):
        return data
    if isinstance(data, str | Path):
        return open_data(str(data), settings, fields=chosen, skip_bad_rows=skip_bad_rows)
    step = "Use a folder, a dataset name, a datasets.Dataset, or a list of dicts or rh.Example objects."
    if isinstance(data, Mapping):
        splits = f" with the splits {', '.join(map(str, data))}" if hasattr(data, "num_rows") else ""
        raise DataError(f"A {type(data).__name__}{splits} is not a list of rows.", next_step=step)
    if not isinstance(data, Iterable):
        raise DataError(f"A {type(data).__name__} is not a dataset.", next_step=step)
    if hasattr(data, "features") and hasattr(data, "with_format") and hasattr(data, "__len__"):
        from rewardharness.data.hf_datasets import table_of

        table = table_of(data)
        return _read(table.rows(), chosen, "datasets.Dataset", skip_bad_rows, dict(table.columns))
    held = list(data)
    if held and all(isinstance(item, Example) for item in held):
        return Dataset.of("examples", held)
    wrong = next((item for item in held if not isinstance(item, Mapping)), None)
    if wrong is not None or not held:
        what = "are empty" if not held else f"contain {type(wrong).__name__!r} instead of a row"
        raise DataError(f"The data {what}.", next_step=step)
    return _read(held, chosen, "rows", skip_bad_rows)


def _read(
    rows: Iterable[Mapping[str, Any]],
    fields: FieldMap | None,
    name: str,
    skip_bad_rows: bool,
    shapes: dict[str, Shape] | None = None,
) -> Dataset:
    held = list(rows)
    if shapes is None:
        cells = {key: [row.get(key) for row in held] for key in dict.fromkeys(key for row in held for key in row)}
        shapes = {key: column_shape(values, named=False, holds=_holds_image) for key, values in cells.items()}
    table = DataTable(name, shapes, [plain_row(row, shapes, _image) for row in held])
    inferred = complete(table, fields or FieldMap())
    notes = [inferred.how] if inferred.guessed else []
    return read_examples(table, inferred.fields, name=name, notes=notes, skip_bad_rows=skip_bad_rows)


def _image(cell: Any) -> Any:
    """Return an image, named by its content if it has no file; text if it is not an image."""
    cell = embedded_image(cell) or cell
    if isinstance(cell, str) and not _holds_image(cell):
        return cell
    try:
        image = ImageInput.of(cell)
    except ImageError:
        return str(cell)
    if image.data is None or isinstance(cell, ImageInput):
        return image
    return ImageInput(f"image {sha256(image.data)[:16]}", data=image.data)


def _holds_image(value: Any) -> bool:
    if isinstance(value, str):
        return PurePosixPath(value).suffix.lower() in ENDINGS or embedded_image(value) is not None
    if isinstance(value, Mapping):
        return {"bytes", "path"} >= set(value) != set()
    return isinstance(value, bytes | bytearray | Path | ImageInput) or any(hasattr(value, name) for name in _OBJECTS)

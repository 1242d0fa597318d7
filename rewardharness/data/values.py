"""Reads examples that Python holds already: a `datasets.Dataset`, mappings with images, or examples."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from rewardharness.data.columns import complete
from rewardharness.data.fields import FieldMap, parse_fields, read_examples
from rewardharness.data.opening import open_data
from rewardharness.data.row_store import Rows
from rewardharness.data.source import Dataset
from rewardharness.data.tables import ENDINGS, IMAGE, Shape
from rewardharness.errors import DataError, ImageError
from rewardharness.files import sha256
from rewardharness.schema import Example, ImageInput
from rewardharness.settings import Settings


def read_data(
    data: Any, settings: Settings, *, fields: Mapping[str, Any] | None = None, skip_bad_rows: bool = False
) -> Dataset:
    """Read a dataset, whatever holds it.

    Args:
        data: A folder, a table or the name of a dataset (see `open_data`); a `datasets.Dataset`; mappings from columns
            to values, whose images are paths, bytes, Pillow images or arrays; examples; or a `Dataset`.
        settings: Where this project's own data are, and how the Hub is reached.
        fields: Which column is which field, as in `{"source": "before"}`; what it leaves out is recognized by name.
        skip_bad_rows: Leave out rows that cannot be used. Without it one such row is an error.

    Raises:
        DataError: If it is none of these, or a row cannot be used.
        InputError: If `fields` names fields that do not exist.
    """
    chosen = None if fields is None else parse_fields(fields, "fields")
    if isinstance(data, Dataset):
        return data
    if isinstance(data, str | Path):
        return open_data(str(data), settings, fields=chosen, skip_bad_rows=skip_bad_rows)
    step = "Give a folder, the name of a dataset, a datasets.Dataset, or a list of dicts or of rh.Example."
    if isinstance(data, Mapping):
        splits = f" with the splits {', '.join(map(str, data))}" if hasattr(data, "num_rows") else ""
        raise DataError(f"The data are a {type(data).__name__}{splits}, not a list of rows.", next_step=step)
    if not isinstance(data, Iterable):
        raise DataError(f"A {type(data).__name__} holds no examples.", next_step=step)
    if hasattr(data, "features") and hasattr(data, "with_format") and hasattr(data, "__len__"):
        from rewardharness.data.hf_datasets import table_of

        table = table_of(data)
        return _read(table.rows(), chosen, "datasets.Dataset", skip_bad_rows, dict(table.columns))
    held = list(data)
    if held and all(isinstance(each, Example) for each in held):
        return Dataset.of("examples", held)
    wrong = next((each for each in held if not isinstance(each, Mapping)), None)
    if wrong is not None or not held:
        what = "are empty" if not held else f"hold a {type(wrong).__name__} where a row is expected"
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
    columns = dict.fromkeys(key for row in held for key in row)
    shapes = shapes or {key: _shape([row.get(key) for row in held]) for key in columns}
    table = _HeldRows(name, "", tuple(shapes), len(held), shapes, Path(), Path(), held=tuple(held))
    found = complete(table, fields or FieldMap())
    notes = [found.how] if found.guessed else []
    return read_examples(table, found.fields, name=name, notes=notes, skip_bad_rows=skip_bad_rows)


@dataclass(frozen=True)
class _HeldRows(Rows):
    """Rows in memory."""

    held: tuple[Mapping[str, Any], ...] = ()

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        for row in self.held:
            yield {name: _value(row.get(name), shape) for name, shape in self.shapes.items()}


def _value(cell: Any, shape: Shape) -> Any:
    if cell is not None and shape == IMAGE:
        return _image(cell)
    if isinstance(shape, dict) and shape.get("list") == IMAGE and isinstance(cell, list | tuple):
        return tuple(_image(each) for each in cell)
    if isinstance(shape, dict) and "names" in shape and isinstance(cell, int):
        return shape["names"][cell] if 0 <= cell < len(shape["names"]) else None
    return cell


def _image(cell: Any) -> Any:
    """An image, named by its content where it has no file; text for what is none, which is reported with its row."""
    if isinstance(cell, str) and not _holds_image(cell):
        return cell
    try:
        image = ImageInput.of(cell)
    except ImageError:
        return str(cell)
    if image.data is None or isinstance(cell, ImageInput):
        return image
    return ImageInput(f"image {sha256(image.data)[:16]}", data=image.data)


def _shape(values: list[Any]) -> Shape:
    """Images, or lists of images, by the first value of a column that is not empty."""
    first = next((value for value in values if value is not None and not (isinstance(value, str) and not value)), None)
    if isinstance(first, list | tuple):
        return {"list": IMAGE} if first and all(map(_holds_image, first)) else None
    return IMAGE if _holds_image(first) else None


def _holds_image(value: Any) -> bool:
    if isinstance(value, str):
        return PurePosixPath(value).suffix.lower() in ENDINGS
    if isinstance(value, Mapping):
        return {"bytes", "path"} >= set(value) != set()
    return isinstance(value, bytes | bytearray | Path | ImageInput) or hasattr(value, "save") or hasattr(value, "shape")

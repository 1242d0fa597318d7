"""Writes rows of a table for download, and examples as data that every job and the Vote tab read."""

import csv
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rewardharness.data.export import Kind, write_lines, write_parquet
from rewardharness.errors import InputError
from rewardharness.schema import PAIRS, Example, ImageInput, Json, Judgment

Judged = tuple[Example, Judgment]

EXPORTS = {"csv": "CSV", "jsonl": "JSON Lines", "parquet": "Parquet", "zip": "Zip of the examples"}
"""Title of each format."""


def _rewards(example: Example, judgment: Judgment) -> list[float | None]:
    return [judgment.scores[label].reward if label in judgment.scores else None for label in example.labels]


_COLUMNS: Mapping[str, tuple[Kind, Callable[[Example, Judgment], Any]]] = {
    "id": ("text", lambda example, _: example.id),
    "instruction": ("text", lambda example, _: example.instruction),
    "preference": ("text", lambda example, _: example.preference),
    "judged_preference": ("text", lambda _, judgment: judgment.preference),
    "margin": ("float", lambda _, judgment: judgment.margin),
    "confidence": ("float", lambda _, judgment: judgment.confidence),
    "rewards": ("floats", _rewards),
    "reason": ("text", lambda _, judgment: judgment.reasons[0] if judgment.reasons else None),
    "failure": ("text", lambda _, judgment: judgment.failure.code if judgment.failure else None),
    "judge": ("text", lambda _, judgment: judgment.judge),
    "protocol": ("text", lambda _, judgment: judgment.protocol),
    "library_id": ("text", lambda _, judgment: judgment.library_id),
}
"""Kind and value of each column of a saved table; `preference` is the label."""

COLUMNS: dict[str, Kind] = {name: kind for name, (kind, _) in _COLUMNS.items()}

_EXAMPLE: dict[str, Kind] = dict.fromkeys(("id", "instruction", "preference", "label_kind", "category"), "text")
_EXAMPLE |= {"source_id": "text", "source": "image", "references": "images", "candidates": "images"}


def export(path: Path, judged: Iterable[Judged]) -> Path:
    """Write examples with their judgments, or only the examples.

    Args:
        path: The file, whose ending is one of `EXPORTS`.
        judged: The examples and judgments.

    Raises:
        InputError: If the format is unknown, or nothing can be written in it.
        MissingPackageError: If a package that writes Parquet is not installed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    ending = path.suffix[1:]
    if ending not in EXPORTS:
        raise InputError("Unknown format.", next_step=f"Choose from: {', '.join(EXPORTS)}.")
    if ending == "zip":
        return write_pairs(path, (example for example, _ in judged))
    records = ({name: value(*each) for name, (_, value) in _COLUMNS.items()} for each in judged)
    if ending == "csv":
        _write_csv(path, records)
    else:
        (write_parquet if ending == "parquet" else write_lines)(path, COLUMNS, records)
    return path


def write_pairs(path: Path, examples: Iterable[Example]) -> Path:
    """Write image edits with two to four candidates as a zip archive, which `open_data` reads.

    Raises:
        InputError: If there are none.
        DataError: If an image cannot be read.
    """
    with TemporaryDirectory(prefix="pairs-") as scratch:
        rows = ({name: getattr(each, name) for name in _EXAMPLE} for each in examples if _is_pair(each))
        if not write_lines(Path(scratch) / PAIRS, _EXAMPLE, rows):
            raise InputError("No row has two to four edited images.", next_step="Select other rows.")
        path.parent.mkdir(parents=True, exist_ok=True)
        return Path(shutil.make_archive(str(path.with_suffix("")), "zip", scratch))


def _is_pair(example: Example) -> bool:
    media = (*example.sources, *example.candidates)
    return len(example.candidates) > 1 and bool(example.sources) and all(isinstance(each, ImageInput) for each in media)


def _write_csv(path: Path, records: Iterator[Json]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(COLUMNS))
        writer.writeheader()
        for record in records:
            writer.writerow({name: _csv_cell(value) for name, value in record.items()})


def _csv_cell(value: object) -> object:
    """Return a cell; a spreadsheet would run text that begins like a formula, so it gets an apostrophe."""
    if isinstance(value, list):
        return json.dumps(value)
    return f"'{value}" if isinstance(value, str) and value[:1] in tuple("=+-@\t") else value

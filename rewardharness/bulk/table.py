"""Writes what was decided on a dataset as a table: the edits with their images, the numbers and the reasons."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from rewardharness.bulk.filtering import Kept
from rewardharness.data.export import Kind, write_lines, write_parquet
from rewardharness.schema import Json

COLUMNS: Mapping[str, Kind] = {
    "id": "text",
    "source": "image",
    "instruction": "text",
    "candidates": "images",
    "preference": "text",
    "label_kind": "text",
    "category": "text",
    "judged_preference": "text",
    "reward": "float",
    "rewards": "floats",
    "margin": "float",
    "keep": "bool",
    "code": "text",
    "reason": "text",
    "judge": "text",
    "protocol": "text",
    "library_id": "text",
    "release": "text",
}
"""`preference` is the label, `judged_preference` the judge's; `rewards` are those of the candidates in order."""


def write_decisions(path: Path, decided: Iterable[Kept], identity: Mapping[str, str]) -> int:
    """Write a table.

    Args:
        path: A `.parquet` file, or a `.jsonl` file with the images beside it.
        decided: The edits.
        identity: Judge, protocol and Library.

    Returns:
        Number of rows.

    Raises:
        DataError: If an image cannot be read any more, or the disk has no room.
        MissingPackageError: If a package that writes Parquet is not installed.
    """
    write = write_parquet if path.suffix == ".parquet" else write_lines
    return write(path, COLUMNS, _rows(decided, identity))


def _rows(decided: Iterable[Kept], identity: Mapping[str, str]) -> Iterator[Json]:
    for each in decided:
        example, judgment = each.example, each.judgment
        rewards = [judgment.scores[label].reward for label in example.labels if label in judgment.scores]
        yield {
            "id": example.id,
            "source": example.source,
            "instruction": example.instruction,
            "candidates": example.candidates,
            "preference": example.preference,
            "label_kind": example.label_kind,
            "category": example.category,
            "judged_preference": judgment.preference,
            "reward": each.reward,
            "rewards": rewards if len(rewards) == len(example.candidates) else None,
            "margin": judgment.margin,
            "keep": each.keep,
            "code": each.code,
            "reason": each.reason,
            **identity,
        }

"""Tables of filtered datasets: the edits with images, numbers and reasons."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from rewardharness.bulk.filtering import Kept
from rewardharness.data.export import Kind, write_lines, write_parquet
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.schema import Json

COLUMNS: Mapping[str, Kind] = {
    "id": "text",
    "source": "image",
    "references": "images",
    "instruction": "text",
    "candidates": "images",
    "source_file": "text",
    "candidate_files": "texts",
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
    "judge_revision": "text",
    "protocol": "text",
    "library_id": "text",
    "release": "text",
}
"""`source_file` and `candidate_files` are the names of the original files. `preference` is the label,
`judged_preference` that of the judge; `rewards` are in the order of the candidates."""


def write_decisions(path: Path, decided: Iterable[Kept], identity: JudgeIdentity) -> int:
    """Write a table.

    Args:
        path: A `.parquet` file, or a `.jsonl` file with the images beside it.
        decided: The edits.
        identity: What judged.

    Returns:
        Number of rows.

    Raises:
        DataError: If an image cannot be read, or the disk is full.
        MissingPackageError: If a package that writes Parquet is not installed.
    """
    write = write_parquet if path.suffix == ".parquet" else write_lines
    return write(path, COLUMNS, _rows(decided, identity))


def _rows(decided: Iterable[Kept], identity: JudgeIdentity) -> Iterator[Json]:
    for decision in decided:
        example, judgment = decision.example, decision.judgment
        rewards = [judgment.scores[label].reward for label in example.labels if label in judgment.scores]
        yield {
            "id": example.id,
            "source": example.source,
            "references": example.references,
            "instruction": example.instruction,
            "candidates": example.candidates,
            "source_file": example.source_image.name,
            "candidate_files": [image.name for image in example.candidate_images],
            "preference": example.preference,
            "label_kind": example.label_kind,
            "category": example.category,
            "judged_preference": judgment.preference,
            "reward": decision.reward,
            "rewards": rewards if len(rewards) == len(example.candidates) else None,
            "margin": judgment.margin,
            "keep": decision.keep,
            "code": decision.code,
            "reason": decision.reason,
            **identity.to_json(),
        }

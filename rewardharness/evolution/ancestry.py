"""Reads from the folder of an evolution what a lineage needs of it: where it began, on what data, what it changed."""

from collections.abc import Iterable
from pathlib import Path

from rewardharness.errors import HarnessError
from rewardharness.evolution.checkpoint import CHAMPION, version_folder
from rewardharness.evolution.report import REPORT
from rewardharness.evolution.status import is_evolution
from rewardharness.files import read_json, read_jsonl
from rewardharness.library.reader import LINEAGE_FILE
from rewardharness.runs.graph import Evolution
from rewardharness.runs.store import read_manifest


def read_evolution(folder: Path) -> Evolution:
    """Read what a lineage needs of one evolution, also of one that is under way.

    Raises:
        RunError: If the folder holds no run.
        DataError: If its report is damaged.
    """
    manifest = read_manifest(folder)
    report = read_json(folder / REPORT) if (folder / REPORT).exists() else {}
    before = sum(1 for _ in read_jsonl(version_folder(folder, 0) / LINEAGE_FILE))
    lines = [line for _, line in read_jsonl(folder / CHAMPION / LINEAGE_FILE)]
    return Evolution(
        name=folder.name,
        data=str(manifest.get("data", "")),
        data_name=str(manifest.get("data_name", "")),
        start=str(manifest.get("library_id", "")),
        final=report.get("library", {}).get("final_id"),
        edits=tuple(lines[before:]),
    )


def read_evolutions(folders: Iterable[Path]) -> list[Evolution]:
    """Read the evolutions among some run folders; runs of other kinds, and damaged ones, are passed over."""
    found = []
    for folder in folders:
        try:
            if is_evolution(folder):
                found.append(read_evolution(folder))
        except HarnessError:
            continue
    return found

"""Run folders of evolutions as parts of a lineage: starting Library, data, accepted edits."""

from collections.abc import Iterable
from pathlib import Path

from rewardharness.errors import HarnessError
from rewardharness.evolution.checkpoint import CHAMPION, version_folder
from rewardharness.evolution.report import REPORT
from rewardharness.files import read_json, read_jsonl
from rewardharness.library.reader import LINEAGE_FILE
from rewardharness.lineage.graph import EvolutionSummary
from rewardharness.runs.store import read_manifest


def read_evolution(folder: Path) -> EvolutionSummary:
    """Read one evolution, finished or not.

    Raises:
        RunError: If the folder is not a run folder.
        RunError: If its report is damaged.
    """
    manifest = read_manifest(folder)
    report = read_json(folder / REPORT) if (folder / REPORT).exists() else {}  # of any version
    before = sum(1 for _ in read_jsonl(version_folder(folder, 0) / LINEAGE_FILE))
    lines = [line for _, line in read_jsonl(folder / CHAMPION / LINEAGE_FILE)]
    return EvolutionSummary(
        name=folder.name,
        data=str(manifest.get("data", "")),
        data_name=str(manifest.get("data_name", "")),
        start=str(manifest.get("library_id", "")),
        final=report.get("library", {}).get("final_id"),
        edits=tuple(lines[before:]),
    )


def read_evolutions(folders: Iterable[Path]) -> list[EvolutionSummary]:
    """Read the evolutions among some run folders. Other runs, and damaged ones, are skipped."""
    found = []
    for folder in folders:
        try:
            if read_manifest(folder).get("command") == "evolve":
                found.append(read_evolution(folder))
        except HarnessError:
            continue
    return found

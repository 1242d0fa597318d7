"""Why an evolution ends or pauses, besides what all runs have in common (`runs.stop`, `runs.spending`)."""

import shutil
from collections.abc import Callable
from pathlib import Path

from rewardharness.runs.stop import RunPaused

RESERVE = 32 * 1024 * 1024
"""Free bytes on the disk below which nothing is judged, so that results can still be saved."""

NO_PROPOSALS = "the Orchestrator proposed nothing more that could be tested"
"""Why a search ended that no limit ended."""


def ended(reason: str) -> str:
    """Say in a sentence why a search ended."""
    nothing = "No further idea could be tested on these examples."
    return nothing if reason == NO_PROPOSALS else f"The search ended because {reason}."


class Exhausted(Exception):
    """The budget is spent. Not an error: the run concludes with what it has."""


def free_bytes(path: Path) -> int:
    """Return the free bytes of the disk of a path."""
    return shutil.disk_usage(path).free


def check_disk(folders: tuple[Path, ...], free: Callable[[Path], int] = free_bytes) -> None:
    """Check that judgments can be saved.

    Args:
        folders: Folders that results are saved in.
        free: Returns the free bytes at a path.

    Raises:
        RunPaused: If a disk is nearly full.
    """
    for folder in folders:
        left = free(folder)
        if left < RESERVE:
            raise RunPaused(
                f"Only {left / 2**20:.0f} MiB are free at {folder}, too little to save more judgments.",
                next_step=f"Free at least {RESERVE // 2**20} MiB, then give the same command again.",
                kind="disk",
            )

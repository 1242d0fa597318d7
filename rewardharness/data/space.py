"""Room on the disk, asked for before something large is written."""

import shutil
from pathlib import Path

from rewardharness.errors import DataError

SPARE_BYTES = 256 << 20
"""What is left free on a disk."""


def check_space(folder: Path, needed: int, doing: str) -> None:
    """Make sure that a disk has room.

    Args:
        folder: Where something is to be written; it need not exist yet.
        needed: Bytes. With 0 nothing is checked.
        doing: What needs them, as in `download org/name`.

    Raises:
        DataError: If they would not leave `SPARE_BYTES` free; names the folder and the numbers.
    """
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if needed and free < needed + SPARE_BYTES:
        wanted = f"{megabytes(needed)} MB, and {megabytes(SPARE_BYTES)} MB to spare"
        message = f"Not enough room to {doing}: it needs {wanted}, and {folder} has {megabytes(free)} MB."
        step = "Free some space, or let RH_HOME and HF_HOME name folders on a larger disk; then run it again."
        raise DataError(message, next_step=step)


def megabytes(count: int) -> int:
    """Bytes as whole megabytes, rounded up."""
    return -(-count // 1_000_000)

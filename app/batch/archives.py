"""Zip archives of visitors: checked, unpacked into a folder of their own, and removed after a time."""

import os
import shutil
import threading
import time
import zipfile
from collections import Counter
from functools import lru_cache
from pathlib import Path, PurePosixPath

from app.run_panel.jobs import Jobs
from rewardharness.data.opening import unpack
from rewardharness.errors import InputError
from rewardharness.settings import Settings

TABLES = {".csv", ".tsv", ".jsonl", ".json"}
IMAGES = {".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif", ".heic", ".heif"}
MAX_FILES = 2000
"""Maximum number of files of a visitor's archive."""
MAX_ARCHIVES = 40
"""Maximum number of archives; of who has most, older ones are removed when another one is given."""
MAX_OWN = 8
"""Maximum number of archives of one address."""
OWN_SIZES = 3
"""Size of the unpacked archives of one address, as a multiple of the maximum of one."""
MAX_UNPACKED = 10
"""Maximum size of the unpacked files, as a multiple of the maximum size of the archive."""
MEGABYTE = 1_000_000
HOUR = 3600


class Archives:
    """The archives of visitors.

    Args:
        settings: The settings, with the limits.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folder = settings.home / "visitors"
        self._most = settings.batch_megabytes * MEGABYTE
        self._turn = threading.Lock()

    def take(self, path: Path, jobs: Jobs, owner: str = "") -> Path:
        """Check and unpack an archive, and return the folder with the examples.

        Args:
            path: The archive.
            jobs: The runs, whose archives are kept.
            owner: Pseudonym of the address that it comes from.

        Raises:
            HarnessError: If it is no zip archive, holds other files than images and tables, or is too large.
        """
        with self._turn:
            try:
                with zipfile.ZipFile(path) as archive:
                    size = self._check(path, [member for member in archive.infolist() if not member.is_dir()])
                self._make_room(owner, size, jobs)
                folder = unpack(path, self._folder, f"{owner}-" if owner else "")
            except (OSError, ValueError, zipfile.BadZipFile) as error:
                step = "Pack the images and the table that names them as zip."
                raise InputError("This is no zip archive that can be unpacked.", next_step=step) from error
            self.touch(folder)
        return folder

    def _make_room(self, owner: str, size: int, jobs: Jobs) -> None:
        """Remove archives for another one: of the address within its limits, else of the address with most of them.

        Those of kept runs stay, but an address that is at its limit loses those of its own runs that have ended.
        """
        while True:
            held = self._by_age()
            count = Counter(_owner(folder) for folder in held)
            own = sum(_size(folder) for folder in held if _owner(folder) == owner)
            full = count[owner] >= MAX_OWN or own + size > OWN_SIZES * MAX_UNPACKED * self._most
            if not full and len(held) < MAX_ARCHIVES:
                return
            used = self._used(jobs, alive=full)
            count[owner] += 1
            free = [path for path in held if path not in used and (not full or _owner(path) == owner)]
            if not free:
                step = "Try again when a batch has ended, or install the app on your own computer."
                raise InputError("There is no room for another archive.", next_step=step)
            shutil.rmtree(max(free, key=lambda path: count[_owner(path)]))  # of equals the first, which is the oldest

    def _check(self, path: Path, members: list[zipfile.ZipInfo]) -> int:
        """Check size and members of an archive, and return its size unpacked."""
        size = sum(member.file_size for member in members)
        if path.stat().st_size > self._most or size > MAX_UNPACKED * self._most:
            text = f"The archive has more than {self._settings.batch_megabytes} MB."
            raise InputError(text, next_step="Split it, or install the app on your own computer.")
        if len(members) > MAX_FILES:
            raise InputError(f"The archive has more than {MAX_FILES:,} files.", next_step="Split it.")
        for member in members:
            name = PurePosixPath(member.filename)
            if not (name.suffix.lower() in TABLES | IMAGES or name.name == ".DS_Store" or "__MACOSX" in name.parts):
                step = "Pack only images and tables (CSV, TSV or JSON Lines)."
                raise InputError(f"The archive holds a file of another kind: {name.name[:80]!r}.", next_step=step)
        return size

    def touch(self, folder: Path) -> None:
        """Restart the time for which an archive is kept."""
        os.utime(self._top(folder))

    def _top(self, folder: Path) -> Path:
        """Return the folder of an archive that holds a folder."""
        return self._folder / next(iter(folder.resolve().relative_to(self._folder.resolve()).parts), "")

    def _used(self, jobs: Jobs, *, alive: bool = False) -> set[Path]:
        """Return the archives of runs; see `Jobs.visitor_data`."""
        return {self._top(path) for path in map(Path, jobs.visitor_data(alive=alive)) if self.holds(path)}

    def _by_age(self) -> list[Path]:
        folders = self._folder.iterdir() if self._folder.is_dir() else ()
        return sorted(folders, key=lambda folder: folder.stat().st_mtime)

    def holds(self, path: Path) -> bool:
        """Whether a folder is one of a visitor's archive."""
        return path.resolve().is_relative_to(self._folder.resolve()) and path.is_dir()

    def tidy(self, jobs: Jobs) -> list[str]:
        """Remove batches that were started, and archives that were given, before the time that they are kept.

        Returns:
            The names of the removed batches.
        """
        oldest = time.time() - self._settings.batch_hours * HOUR
        removed = jobs.remove_visitors("score", oldest)
        used = self._used(jobs)
        for folder in self._by_age():
            if folder.stat().st_mtime < oldest and folder not in used:
                shutil.rmtree(folder, ignore_errors=True)
        return removed


def _owner(folder: Path) -> str:
    return folder.name.rpartition("-")[0]


@lru_cache(maxsize=4 * MAX_ARCHIVES)
def _size(folder: Path) -> int:
    """Return the bytes of an unpacked archive, which does not change."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())

"""Zip archives of visitors: checked, unpacked into a folder of their own, and removed after a time."""

import os
import shutil
import time
import zipfile
from pathlib import Path, PurePosixPath

from app.jobs import Jobs
from rewardharness.data.archive import unpack
from rewardharness.errors import InputError
from rewardharness.settings import Settings

TABLES = {".csv", ".tsv", ".jsonl", ".json"}
IMAGES = {".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff"}
MAX_FILES = 2000
"""Maximum number of files of a visitor's archive."""
MAX_ARCHIVES = 40
"""Maximum number of archives; older ones are removed when another one is given."""
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

    def take(self, path: Path) -> Path:
        """Check and unpack an archive, and return the folder with the examples.

        Raises:
            HarnessError: If it is no zip archive, holds other files than images and tables, or is too large.
        """
        try:
            with zipfile.ZipFile(path) as archive:
                self._check(path, [member for member in archive.infolist() if not member.is_dir()])
            found = unpack(path, self._folder)
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            step = "Pack the images and the table that names them as zip."
            raise InputError("This is no zip archive that can be unpacked.", next_step=step) from error
        self.touch(found)
        for old in self._by_age()[:-MAX_ARCHIVES]:
            shutil.rmtree(old, ignore_errors=True)
        return found

    def _check(self, path: Path, members: list[zipfile.ZipInfo]) -> None:
        most = self._settings.batch_megabytes * MEGABYTE
        if path.stat().st_size > most or sum(member.file_size for member in members) > MAX_UNPACKED * most:
            text = f"The archive has more than {self._settings.batch_megabytes} MB."
            raise InputError(text, next_step="Split it, or install the app on your own computer.")
        if len(members) > MAX_FILES:
            raise InputError(f"The archive has more than {MAX_FILES:,} files.", next_step="Split it.")
        for member in members:
            name = PurePosixPath(member.filename)
            if not (name.suffix.lower() in TABLES | IMAGES or name.name == ".DS_Store" or "__MACOSX" in name.parts):
                step = "Pack only images and tables (CSV, TSV or JSON Lines)."
                raise InputError(f"The archive holds a file of another kind: {name.name[:80]!r}.", next_step=step)

    def touch(self, folder: Path) -> None:
        """Restart the time for which an archive is kept."""
        os.utime(self._folder / folder.resolve().relative_to(self._folder.resolve()).parts[0])

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
        alive = jobs.alive_visitors()
        for folder in self._by_age():
            if folder.stat().st_mtime < oldest and not alive:
                shutil.rmtree(folder, ignore_errors=True)
        return removed

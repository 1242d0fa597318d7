"""Unpacks a zip archive of examples: images and the table that names them."""

import lzma
import shutil
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from tempfile import mkdtemp

from rewardharness.errors import DataError, shown
from rewardharness.files import sha256_file

MAX_FILES = 100_000
"""Maximum number of files of an archive."""

MAX_BYTES = 20 << 30
"""Maximum size of the unpacked files, in bytes."""

MAX_RATIO = 200
"""Maximum ratio of unpacked to packed size; images hardly compress."""

MAX_NAME = 255
"""Maximum length of a part of a name in bytes, as file systems have it."""

MAX_PATH = 1000
"""Maximum length of a name in bytes."""

_DAMAGED = (zipfile.BadZipFile, RuntimeError, EOFError, OSError, ValueError, zlib.error, lzma.LZMAError)


def unpack(path: Path, folder: Path, prefix: str = "") -> Path:
    """Unpack an archive once, into a folder named by its content. Nothing remains of one that cannot be unpacked.

    Args:
        path: The archive.
        folder: Where unpacked archives are kept.
        prefix: Begins the name of the folder.

    Returns:
        The folder with the examples: where the archive holds only one folder, that one.

    Raises:
        DataError: If it is no zip archive, is damaged, too large, or holds a name that cannot be a file in the folder.
    """
    target = folder / f"{prefix}{sha256_file(path)[:32]}"
    if not target.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        part = Path(mkdtemp(".part", prefix, folder))
        try:
            with zipfile.ZipFile(path) as archive:
                _extract(archive, part, path)
            part.rename(target)
        except _DAMAGED as error:
            if not target.is_dir():  # unless it was unpacked in the meantime
                why = getattr(error, "strerror", None) or error
                raise DataError(f"{path.name} cannot be unpacked: {why}.", next_step="Pack it again as zip.") from error
        finally:
            shutil.rmtree(part, ignore_errors=True)
    inside = [path for path in target.iterdir() if path.name != "__MACOSX"]
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else target


def _extract(archive: zipfile.ZipFile, folder: Path, path: Path) -> None:
    members = [member for member in archive.infolist() if not member.is_dir()]
    size = sum(member.file_size for member in members)
    packed = max(1, sum(member.compress_size for member in members))
    if len(members) > MAX_FILES or size > MAX_BYTES or size / packed > MAX_RATIO:
        step = f"At most {MAX_FILES:,} files and {MAX_BYTES >> 30} GiB; use a folder or a dataset on the Hub."
        raise DataError(f"{path.name} is too large.", next_step=step)
    for name, member in _named(members, path).items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(member) as source, target.open("xb") as copy:
            shutil.copyfileobj(source, copy)


def _named(members: list[zipfile.ZipInfo], path: Path) -> dict[PurePosixPath, zipfile.ZipInfo]:
    """Return the members by their checked names, before anything is written.

    Raises:
        DataError: If a name would leave the folder, is no name of a file, or is taken by another file or folder.
    """
    named: dict[PurePosixPath, zipfile.ZipInfo] = {}
    for member in members:
        text = member.filename.replace("\\", "/")
        name, size = PurePosixPath(text), len(text.encode("utf-8", "replace"))
        if name.is_absolute() or ".." in name.parts or ":" in "".join(name.parts[:1]):
            step = "Pack the folder with relative names."
            raise DataError(f"{path.name} holds a file outside of its folder: {shown(text, 80)}.", next_step=step)
        longest = max((len(part.encode("utf-8", "replace")) for part in name.parts), default=0)
        if not name.parts or longest > MAX_NAME or size > MAX_PATH or name in named:
            problem = "two files of one name" if name in named else "a name that no file can have"
            raise DataError(f"{path.name} holds {problem}: {shown(text, 80)}.", next_step="Rename it, and pack again.")
        named[name] = member
    if both := next((parent for name in named for parent in name.parents if parent in named), None):
        message = f"{path.name} holds a file and a folder of one name: {shown(str(both), 80)}."
        raise DataError(message, next_step="Rename one of them, and pack again.")
    return named

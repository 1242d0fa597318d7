"""Unpacks a zip archive of examples: images and the table that names them."""

import shutil
import zipfile
from pathlib import Path, PurePosixPath

from rewardharness.errors import DataError
from rewardharness.files import sha256_file

MAX_FILES = 100_000
"""Maximum number of files of an archive."""

MAX_BYTES = 20 << 30
"""Maximum size of the unpacked files, in bytes."""

MAX_RATIO = 200
"""Maximum ratio of unpacked to packed size; images hardly compress."""


def unpack(path: Path, folder: Path) -> Path:
    """Unpack an archive once, into a folder named by its content.

    Args:
        path: The archive.
        folder: Where unpacked archives are kept.

    Returns:
        The folder with the examples: where the archive holds only one folder, that one.

    Raises:
        DataError: If it is no zip archive, is damaged, too large, or holds a file that would leave the folder.
    """
    target = folder / sha256_file(path)[:32]
    if not target.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        part = target.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        try:
            with zipfile.ZipFile(path) as archive:
                _extract(archive, part, path)
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
            shutil.rmtree(part, ignore_errors=True)
            raise DataError(f"{path.name} cannot be unpacked: {error}.", next_step="Pack it again as zip.") from error
        except DataError:
            shutil.rmtree(part, ignore_errors=True)
            raise
        part.rename(target)
    inside = [each for each in target.iterdir() if each.name != "__MACOSX"]
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else target


def _extract(archive: zipfile.ZipFile, folder: Path, path: Path) -> None:
    members = [member for member in archive.infolist() if not member.is_dir()]
    size = sum(member.file_size for member in members)
    packed = max(1, sum(member.compress_size for member in members))
    if len(members) > MAX_FILES or size > MAX_BYTES or size / packed > MAX_RATIO:
        step = f"At most {MAX_FILES:,} files and {MAX_BYTES >> 30} GiB; use a folder or a dataset on the Hub."
        raise DataError(f"{path.name} is too large.", next_step=step)
    folder.mkdir()
    for member in members:
        name = PurePosixPath(member.filename.replace("\\", "/"))
        if name.is_absolute() or ".." in name.parts or ":" in name.parts[0]:
            step = "Pack the folder with relative names."
            raise DataError(f"{path.name} holds a file outside of its folder: {name}.", next_step=step)
        target = folder.joinpath(*name.parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(member) as source, target.open("wb") as copy:
            shutil.copyfileobj(source, copy)

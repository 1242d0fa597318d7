"""Files that records name: hashed when they are recorded, looked at again when something refers to them."""

import json
import os
from pathlib import Path
from typing import Literal

from rewardharness.errors import InputError
from rewardharness.files import content_id, read_text, sha256_file
from rewardharness.runs.forms import Release
from rewardharness.runs.typed import Misfit, read_as

State = Literal["as recorded", "changed", "not here"]
"""How a file is now. What is on another machine, or behind an address, is not here."""


def digest_of(path: Path) -> tuple[str, int]:
    """Hash a file, or a folder over the paths and hashes of its files.

    Returns:
        SHA-256 and size in bytes.

    Raises:
        InputError: If there is nothing to hash, or it cannot be read.
    """
    try:
        if path.is_file():
            return sha256_file(path), path.stat().st_size
        rows, size = [], 0
        for folder, folders, names in os.walk(path):
            links = [name for name in folders if (Path(folder) / name).is_symlink()]
            for name in (*names, *links):
                each = Path(folder) / name
                where = each.relative_to(path).as_posix()
                if name in links or not each.is_file():
                    raise InputError(f"{each} is neither a file nor a folder.", next_step="Leave it out.")
                rows.append([where, sha256_file(each)])
                size += each.stat().st_size
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.", next_step="Check the path.") from None
    if not rows:
        raise InputError(f"{path} does not exist or holds no files.", next_step="Check the path.")
    return content_id(sorted(rows)), size


def read_release(path: Path) -> Release:
    """Read what a lineage needs of a reward release: its id, its Library's id and the hash of the file.

    The file is a JSON object. Of its keys these are read: `id`, a text, and `library`, an object with `id`.

    Raises:
        InputError: If it is no release.
    """
    text = read_text(path)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    known = found if isinstance(found, dict) else {}
    library = known.get("library")
    library_id = library.get("id") if isinstance(library, dict) else None
    try:
        return read_as(
            Release,
            {"id": known.get("id"), "file": str(path.resolve()), "sha256": sha256_file(path), "library": library_id},
        )
    except Misfit as error:
        raise InputError(f"{path} is no reward release: {error}.", next_step="Make one with: rh release") from None


def state_of(place: str, digest: str) -> State:
    """Say how a file is now.

    Args:
        place: Its path or address.
        digest: Its hash when it was recorded.
    """
    if "://" in place or not os.path.exists(place):
        return "not here"
    return "as recorded" if digest_of(Path(place))[0] == digest else "changed"

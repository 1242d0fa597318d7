"""Files that records name: hashed when they are recorded, and checked when another record refers to them."""

import os
from pathlib import Path
from typing import Literal

from rewardharness.codec import ValidationError, from_json
from rewardharness.errors import InputError
from rewardharness.files import content_id, read_json, sha256_file
from rewardharness.judging.release_file import load_release
from rewardharness.lineage.records import ReleaseRef

State = Literal["as recorded", "changed", "not here"]
"""State of a file. One on another machine, or behind a URL, is `not here`."""


def digest_of(path: Path) -> tuple[str, int]:
    """Hash a file, or the paths and digests of the files in a folder.

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
                file = Path(folder) / name
                if name in links or not file.is_file():
                    raise InputError(f"{file} is neither a file nor a folder.", next_step="Leave it out.")
                rows.append([file.relative_to(path).as_posix(), sha256_file(file)])
                size += file.stat().st_size
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.", next_step="Check the path.") from None
    if not rows:
        raise InputError(f"{path} does not exist or contains no files.", next_step="Check the path.")
    return content_id(sorted(rows)), size


def read_release(path: Path) -> ReleaseRef:
    """Read the id and the Library id of a reward release. A release that `rh release create` made is verified.

    Args:
        path: A JSON object with `id`, and `library` with `id`.

    Raises:
        InputError: If it is not a release.
        ReleaseError: If its hashes do not match its content.
    """
    document = read_json(path)
    document = document if isinstance(document, dict) else {}
    library = document.get("library")
    facts = {"id": document.get("id"), "library": library.get("id") if isinstance(library, dict) else None}
    try:
        release = from_json(ReleaseRef, {**facts, "file": str(path.resolve()), "sha256": sha256_file(path)})
    except ValidationError as error:
        message = f"{path} is not a reward release: {error}."
        raise InputError(message, next_step="Create one with: rh release create") from None
    if "format" in document:
        load_release(path)
    return release


def state_of(place: str, digest: str) -> State:
    """Return the state of a file.

    Args:
        place: Its path or URL.
        digest: Its digest in the record.
    """
    if "://" in place or not os.path.exists(place):
        return "not here"
    return "as recorded" if digest_of(Path(place))[0] == digest else "changed"

"""Records the origin of a Library's folder, so that a later push can determine what changed.

The origin is stored in the file `.rh-origin.json` in the folder. This file is never pushed.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rewardharness.errors import LibraryError
from rewardharness.files import recover_folder, replace_folder, sha256, write_json
from rewardharness.library.folder import Folder, special_kind
from rewardharness.library.problems import FormatError
from rewardharness.library.store import check_replaceable

ORIGIN_FILE = ".rh-origin.json"
MAX_BYTES = 4 * 1024 * 1024
"""Maximum size of the origin file in bytes."""

_DIGEST = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Origin:
    """Origin of a folder."""

    repo: str
    """`org/name`."""
    commit: str
    """The commit that was last pulled or pushed."""
    version: str | None = None
    """The version of that commit, such as `v1.2.0`, if any."""
    files: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of each file at that commit, by path."""


def read_origin(folder: Path) -> Origin | None:
    """Return the origin of a folder, or None if it is not recorded."""
    try:
        value = json.loads(Folder(folder).read(ORIGIN_FILE, MAX_BYTES) or "null")
    except (FormatError, ValueError, RecursionError):
        return None
    return _origin(value) if isinstance(value, dict) else None


def write_origin(folder: Path, origin: Origin) -> None:
    """Record the origin of a folder."""
    write_json(folder / ORIGIN_FILE, _json(origin))


def put_in_place(folder: Path, files: Mapping[str, bytes], origin: Origin) -> None:
    """Write a pulled Library to a folder atomically.

    A folder that was pulled from the same repository and has no local changes is updated. Other files in it are kept.

    Args:
        folder: A folder that does not exist, is empty, or was pulled from the same repository.
        files: Contents by path.
        origin: Origin of the files.

    Raises:
        LibraryError: If local changes would be lost, or the folder cannot be written.
    """
    try:
        recover_folder(folder)
        kept = [name for name in _kept(folder, origin) if name not in files]
        text = (json.dumps(_json(origin), indent=2) + "\n").encode("utf-8")
        replace_folder(folder, {**files, ORIGIN_FILE: text}, kept=kept)
    except OSError as error:
        message = f"Could not save the Library to {folder}: {error.strerror or error}. Nothing was changed."
        raise LibraryError(message, next_step="Check its permissions, or choose another folder.") from error


def _kept(folder: Path, origin: Origin) -> list[str]:
    """Return the files that are kept when a folder is updated."""
    if not folder.exists():
        return []
    check_replaceable(folder)
    if not any(folder.iterdir()):
        return []
    previous = read_origin(folder)
    if previous is None or previous.repo != origin.repo:
        step = "Choose a folder that is empty or does not exist."
        raise LibraryError(f"{folder} contains files that were not pulled from {origin.repo}.", next_step=step)
    changed = [name for name in previous.files if sha_of(folder, name) != previous.files[name]]
    kept = []
    for name, status in Folder(folder).list():
        if name == ORIGIN_FILE or name in previous.files:
            continue
        if special_kind(status.st_mode) not in {None, "a link"}:
            raise LibraryError(f"{folder}/{name} is not a file and cannot be kept.", next_step="Move it elsewhere.")
        if name.startswith(("skills/", "tools/")):
            changed.append(name)
        kept.append(name)
    if changed:
        message = f"{folder} has changes that were not pushed: {', '.join(changed[:5])}."
        raise LibraryError(message, next_step="Push them with --rebase, or pull to another folder with --to.")
    return kept


def sha_of(folder: Path, name: str) -> str | None:
    """Return the SHA-256 of a regular file of a folder, or None if it does not exist."""
    try:
        text = Folder(folder).read(name, MAX_BYTES)
    except FormatError:
        return None
    return None if text is None else sha256(text.encode("utf-8"))


def _json(origin: Origin) -> dict[str, Any]:
    files = dict(sorted(origin.files.items()))
    return {"repo": origin.repo, "commit": origin.commit, "version": origin.version, "files": files}


def _origin(value: Mapping[str, Any]) -> Origin | None:
    repo, commit, version, files = (value.get(key) for key in ("repo", "commit", "version", "files"))
    if not isinstance(repo, str) or not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        return None
    listed = dict(_digests(files)) if isinstance(files, dict) else {}
    return Origin(repo, commit, version if isinstance(version, str) else None, listed)


def _digests(files: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, digest in files.items():
        if isinstance(digest, str) and _DIGEST.fullmatch(digest):
            yield name, digest

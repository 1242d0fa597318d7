"""Remembers where a Library's folder came from, so that a later push knows what it changes.

The note is the file `.rh-origin.json` in the folder. It is never pushed.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rewardharness.errors import LibraryError
from rewardharness.files import recover_folder, replace_folder, sha256, write_json
from rewardharness.library.folder import Folder, odd_kind
from rewardharness.library.problems import FormatError
from rewardharness.library.store import check_replaceable

ORIGIN_FILE = ".rh-origin.json"
MAX_BYTES = 4 * 1024 * 1024
"""Size of the note, at most."""

_DIGEST = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Origin:
    """Where a folder came from."""

    repo: str
    """`org/name`."""
    commit: str
    """The commit that it was pulled from, or was last pushed as."""
    version: str | None = None
    """The version of that commit, as in `v1.2.0`, if it has one."""
    files: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of each file as it was then, by path."""


def read_origin(folder: Path) -> Origin | None:
    """Read where a folder came from; None when it does not say."""
    try:
        value = json.loads(Folder(folder).read(ORIGIN_FILE, MAX_BYTES) or "null")
    except (FormatError, ValueError, RecursionError):
        return None
    return _origin(value) if isinstance(value, dict) else None


def write_origin(folder: Path, origin: Origin) -> None:
    """Note where a folder came from."""
    write_json(folder / ORIGIN_FILE, _json(origin))


def put_in_place(folder: Path, files: Mapping[str, bytes], origin: Origin) -> None:
    """Write a pulled Library to a folder, as a whole.

    A folder that holds what was pulled from the same repository before, and nothing newer, is brought up to date.
    Files that did not come from there stay.

    Args:
        folder: A folder that does not exist, is empty, or was pulled from the same repository.
        files: Contents by path.
        origin: Where they come from.

    Raises:
        LibraryError: If the folder holds something that would be lost, or cannot be written.
    """
    try:
        recover_folder(folder)
        kept = [name for name in _kept(folder, origin) if name not in files]
        note = (json.dumps(_json(origin), indent=2) + "\n").encode("utf-8")
        replace_folder(folder, {**files, ORIGIN_FILE: note}, kept=kept)
    except OSError as error:
        message = f"The Library could not be saved to {folder}: {error.strerror or error}. Nothing was changed."
        raise LibraryError(message, next_step="Check the folder and its mode, or choose another one.") from error


def _kept(folder: Path, origin: Origin) -> list[str]:
    """List what stays in a folder that is brought up to date."""
    if not folder.exists():
        return []
    check_replaceable(folder)
    if not any(folder.iterdir()):
        return []
    before = read_origin(folder)
    if before is None or before.repo != origin.repo:
        step = "Choose a folder that is empty or does not exist."
        raise LibraryError(f"{folder} holds something that was not pulled from {origin.repo}.", next_step=step)
    changed = [name for name in before.files if sha_of(folder, name) != before.files[name]]
    kept = []
    for name, status in Folder(folder).list():
        if name == ORIGIN_FILE or name in before.files:
            continue
        if odd_kind(status.st_mode) not in {None, "a link"}:
            raise LibraryError(f"{folder}/{name} is no file.", next_step="Move it away; it cannot be kept.")
        if name.startswith(("skills/", "tools/")):
            changed.append(name)
        kept.append(name)
    if changed:
        message = f"{folder} has changes that were not pushed: {', '.join(changed[:5])}."
        raise LibraryError(message, next_step="Push them with --rebase, or pull to another folder with --to.")
    return kept


def sha_of(folder: Path, name: str) -> str | None:
    """SHA-256 of a file of a folder; None when there is no such regular file."""
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

"""Reads the folder of a Library, following no links. Loading and checking both use this, so they always agree."""

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from rewardharness.errors import shown
from rewardharness.library import entry as entries
from rewardharness.library.entry import ENTRY_FILE, FOLDERS, RUBRIC_FILE, Entry, EntryPlaces, Kind
from rewardharness.library.problems import Findings, FormatError, Problem
from rewardharness.library.registry import MAX_BYTES as MAX_REGISTRY
from rewardharness.library.registry import REGISTRY_FILE, Registry, read_registry
from rewardharness.library.rubric import MAX_BYTES as MAX_RUBRIC

MAX_TOTAL = 10 * 1024 * 1024
"""Maximum number of bytes that are read from one Library."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def special_kind(mode: int) -> str | None:
    """Return the type of a file that is not regular, such as `a link`; None for a regular file."""
    return next((name for test, name in _KINDS if test(mode)), None)


@dataclass
class Folder:
    """An untrusted folder, with the number of bytes read from it."""

    root: Path
    """The folder. It may be a link because the user named it."""
    total: int = field(default=0, init=False)
    """Bytes read so far; at most `MAX_TOTAL`."""

    def read(self, where: str, limit: int) -> str | None:
        """Read a UTF-8 text file.

        Each part of the path is opened relative to its parent and never through a link, so the file is always inside
        the folder, even if the folder changes concurrently.

        Args:
            where: Relative path of the file, with `/`.
            limit: Maximum size in bytes.

        Returns:
            The exact text, or None if the file does not exist.

        Raises:
            FormatError: If the file is not regular, is too large, is not UTF-8, or cannot be read.
        """
        try:
            data = self._bytes(where, limit)
            return None if data is None else data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            raise _refusal(where, f"This is not UTF-8 text (byte {error.start}).", "Save it as UTF-8.", line) from None
        except OSError as error:
            message = f"The file cannot be read: {error.strerror or error}."
            raise _refusal(where, message, "Check the file and its permissions.") from None

    def _bytes(self, where: str, limit: int) -> bytes | None:
        steps = PurePosixPath(where).parts
        handle = os.open(self.root, _FOLDER)
        try:
            for number, step in enumerate(steps, 1):
                last = number == len(steps)
                try:
                    mode = os.stat(step, dir_fd=handle, follow_symlinks=False).st_mode
                except FileNotFoundError:
                    return None
                if not (stat.S_ISREG(mode) if last else stat.S_ISDIR(mode)):
                    message = f"`{shown(step)}` is {special_kind(mode) or 'a file'}."
                    raise _refusal(where, message, "Replace it with a regular file or folder.")
                inner = os.open(step, _FILE if last else _FOLDER | os.O_NOFOLLOW, dir_fd=handle)
                os.close(handle)
                handle = inner
            return self._contents(handle, where, limit)
        finally:
            os.close(handle)

    def _contents(self, handle: int, where: str, limit: int) -> bytes:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise _refusal(where, "This is not a regular file.", "Use a regular file.")
        if status.st_size > limit:
            raise _refusal(where, f"The file has {status.st_size} bytes; the limit is {limit}.", "Shorten it.")
        allowed = min(limit, MAX_TOTAL - self.total)
        with os.fdopen(handle, "rb", closefd=False) as stream:
            data = stream.read(allowed + 1)
        if len(data) > allowed:
            message = f"The Library is larger than {MAX_TOTAL} bytes."
            raise _refusal(where, message, "Reduce the size of the Library.")
        self.total += len(data)
        return data

    def list(self, skipped: frozenset[str] = frozenset()) -> Iterator[tuple[str, os.stat_result]]:
        """List everything that is not a folder, at any depth, without following links.

        Args:
            skipped: Names of folders that are not listed.

        Yields:
            Relative path with `/` and file status, sorted by name within each folder.

        Raises:
            OSError: If a folder cannot be listed.
        """
        folders = [""]
        while folders:
            folder = folders.pop()
            with os.scandir(self.root / folder) as scan:
                items = sorted(scan, key=lambda item: item.name)
            subfolders = []
            for item in items:
                status = item.stat(follow_symlinks=False)
                if not stat.S_ISDIR(status.st_mode):
                    yield f"{folder}{item.name}", status
                elif item.name not in skipped:
                    subfolders.append(f"{folder}{item.name}/")
            folders.extend(reversed(subfolders))


def _refusal(where: str, message: str, remedy: str, line: int | None = None) -> FormatError:
    return FormatError(Problem("error", where, line, message, remedy))


LINEAGE_FILE = "lineage.jsonl"


@dataclass(frozen=True)
class ReadEntry:
    """A valid entry and the locations of its parts."""

    entry: Entry
    places: EntryPlaces


@dataclass(frozen=True)
class FolderContent:
    """Content of a Library's folder."""

    registry: Registry
    entries: tuple[ReadEntry, ...]
    """The valid entries of the registry."""
    lineage: str
    """The text of `lineage.jsonl`; empty if the file does not exist."""
    findings: Findings = field(repr=False)
    """Errors, warnings, and notes."""


def read_folder(path: Path) -> FolderContent:
    """Read the folder of a Library. Invalid content never causes an exception; see `FolderContent.findings`."""
    findings = Findings("")
    empty = FolderContent(Registry(), (), "", findings)
    if not path.is_dir():
        message = "This is not a folder." if path.exists() else "The folder does not exist."
        findings.error(
            message, remedy="Name the folder that contains registry.json, or create one: rh library new FOLDER"
        )
        return empty
    folder = Folder(path)
    text = _read(folder, REGISTRY_FILE, MAX_REGISTRY, findings)
    if text is None:
        if not findings.failed:
            findings.error(f"There is no {REGISTRY_FILE}.", remedy="Name the folder of a Library, or create a Library.")
        return empty
    in_registry = findings.at(REGISTRY_FILE)
    registry = read_registry(text, in_registry)
    read_entries = []
    for name, kind in registry.kinds.items():
        read = read_one(folder, kind, name, findings)
        if read is not None and not registry.describes(read.entry):
            message = f"The registry and the file of `{name}` have different descriptions; the file is used."
            in_registry.warning(message, registry.line(name), "Copy the description from the file.")
        read_entries += [read] if read is not None else []
    lineage = _read(folder, LINEAGE_FILE, MAX_TOTAL, findings) or ""
    for number, line in enumerate(lineage.split("\n"), 1):
        if line.strip() and json_object(line) is None:
            message = "This line is not a JSON object and is ignored."
            findings.at(LINEAGE_FILE).warning(message, number, "Remove the line.")
    _find_orphans(path, registry, findings)
    return FolderContent(registry, tuple(read_entries), lineage, findings)


def json_object(line: str) -> dict[str, Any] | None:
    """Parse a line of a lineage; return None if it is not a JSON object."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _read(folder: Folder, where: str, limit: int, findings: Findings) -> str | None:
    try:
        return folder.read(where, limit)
    except FormatError as error:
        findings.found.append(error.problem)
        return None


def read_one(folder: Folder, kind: Kind, name: str, findings: Findings) -> ReadEntry | None:
    """Read an entry of a kind from its files; None with an error in `findings`."""
    base = f"{FOLDERS[kind]}/{name}"
    here = Findings(f"{base}/{ENTRY_FILE}")
    text = _read(folder, here.where, entries.MAX_BYTES, here)
    rubric_text = _read(folder, f"{base}/{RUBRIC_FILE}", MAX_RUBRIC, here) if kind == "skill" else None
    entry = places = None
    if text is not None:
        entry, places = entries.read_entry(text, name, kind, rubric_text, here)
    elif not here.failed:
        message = f"`{name}` is registered, but this file does not exist."
        here.error(message, None, "Add the file, or remove the registration.")
    findings.found.extend(here.found)
    return None if entry is None or places is None or here.failed else ReadEntry(entry, places)


def _find_orphans(path: Path, registry: Registry, findings: Findings) -> None:
    for kind, folder in FOLDERS.items():
        try:
            names = sorted(os.listdir(path / folder)) if not (path / folder).is_symlink() else []
        except OSError:
            continue
        for name in names:
            registered = registry.kinds.get(name)
            reported = name in registry.records and registered is None
            if reported or registered == kind or not os.path.lexists(path / folder / name / ENTRY_FILE):
                continue
            message = "This entry is not in the registry, so it is not loaded."
            remedy = "Register it with rh library add, or delete it."
            if registered:
                message = f"`{shown(name)}` is registered as a {registered}; this file is not loaded."
                remedy = "Delete it."
            elif entries.loadable_name_problem(name) is not None:
                message, remedy = "The name is invalid, so this entry is not loaded.", "Rename or delete it."
            findings.at(f"{folder}/{shown(name)}/{ENTRY_FILE}").warning(message, None, remedy)

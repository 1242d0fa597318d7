"""Reads the folder of a Library. Loading and checking both use this module, so they always agree."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rewardharness.errors import shown
from rewardharness.library import entry as entries
from rewardharness.library.entry import ENTRY_FILE, FOLDERS, RUBRIC_FILE, Entry, EntryPlaces, Kind
from rewardharness.library.folder import MAX_TOTAL, Folder
from rewardharness.library.problems import Findings, FormatError
from rewardharness.library.registry import MAX_BYTES as MAX_REGISTRY
from rewardharness.library.registry import REGISTRY_FILE, Registry, read_registry
from rewardharness.library.rubric import MAX_BYTES as MAX_RUBRIC

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
        findings.error(message, remedy="Name the folder that contains registry.json, or create one: rh library new")
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

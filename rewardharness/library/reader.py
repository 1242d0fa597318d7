"""Reads the folder of a Library. Loading and checking both use this module, so they always agree."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from rewardharness.errors import shown
from rewardharness.library.entry import (
    ENTRY_FILE,
    FOLDERS,
    MAX_BYTES,
    RUBRIC_FILE,
    Entry,
    EntryPlaces,
    Kind,
    loadable_name_problem,
    read_entry,
)
from rewardharness.library.folder import MAX_TOTAL, Folder
from rewardharness.library.problems import Findings, FormatError
from rewardharness.library.registry import MAX_BYTES as MAX_REGISTRY
from rewardharness.library.registry import REGISTRY_FILE, Registry, description_differs, read_registry
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
    registry = read_registry(text, findings.at(REGISTRY_FILE))
    entries = [_read_registered(folder, registry, name, findings) for name in registry.kinds]
    lineage = _read(folder, LINEAGE_FILE, MAX_TOTAL, findings) or ""
    _check_lineage(lineage, findings.at(LINEAGE_FILE))
    _find_orphans(path, registry, findings)
    return FolderContent(registry, tuple(entry for entry in entries if entry), lineage, findings)


def _read(folder: Folder, where: str, limit: int, findings: Findings) -> str | None:
    try:
        return folder.read(where, limit)
    except FormatError as error:
        findings.found.append(error.problem)
        return None


def _read_registered(folder: Folder, registry: Registry, name: str, findings: Findings) -> ReadEntry | None:
    read = read_one(folder, registry.kinds[name], name, findings)
    if read is not None and description_differs(registry.record(name), read.entry.description):
        message = f"The registry and the file of `{name}` have different descriptions; the file is used."
        findings.at(REGISTRY_FILE).warning(message, registry.line(name), "Copy the description from the file.")
    return read


def read_one(folder: Folder, kind: Kind, name: str, findings: Findings) -> ReadEntry | None:
    """Read an entry of a kind from its files; None with an error in `findings`."""
    base = f"{FOLDERS[kind]}/{name}"
    here = Findings(f"{base}/{ENTRY_FILE}")
    text = _read(folder, here.where, MAX_BYTES, here)
    rubric_text = _read(folder, f"{base}/{RUBRIC_FILE}", MAX_RUBRIC, here) if kind == "skill" else None
    entry = places = None
    if text is not None:
        entry, places = read_entry(text, name, kind, rubric_text, here)
    elif not here.failed:
        here.error(
            f"`{name}` is registered, but this file does not exist.", None, "Add the file, or remove the registration."
        )
    findings.found.extend(here.found)
    return None if entry is None or places is None or here.failed else ReadEntry(entry, places)


def _check_lineage(text: str, findings: Findings) -> None:
    for number, line in enumerate(text.split("\n"), 1):
        try:
            valid = not line.strip() or isinstance(json.loads(line), dict)
        except (ValueError, RecursionError):
            valid = False
        if not valid:
            findings.warning("This line is not a JSON object and is ignored.", number, "Remove the line.")


def _find_orphans(path: Path, registry: Registry, findings: Findings) -> None:
    for kind, folder in FOLDERS.items():
        try:
            names = sorted(os.listdir(path / folder)) if not (path / folder).is_symlink() else []
        except OSError:
            continue
        for name in names:
            reported = name in registry.records and name not in registry.kinds
            if reported or registry.kinds.get(name) == kind or not os.path.lexists(path / folder / name / ENTRY_FILE):
                continue
            orphan = findings.at(f"{folder}/{shown(name)}/{ENTRY_FILE}")
            if name in registry.kinds:
                registered = registry.kinds[name]
                message = f"`{shown(name)}` is registered as a {registered}; this file is not loaded."
                orphan.warning(message, None, "Delete it.")
            elif loadable_name_problem(name) is None:
                orphan.warning(
                    "This entry is not in the registry, so it is not loaded.",
                    None,
                    "Register it with rh library add, or delete it.",
                )
            else:
                orphan.warning("The name is invalid, so this entry is not loaded.", None, "Rename or delete it.")

"""Reads a Library's folder into values and problems. Both loading and checking begin here, so they cannot disagree."""

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
    Places,
    loadable_name_problem,
    read_entry,
)
from rewardharness.library.folder import MAX_TOTAL, Folder
from rewardharness.library.problems import Findings, FormatError
from rewardharness.library.registry import (
    MAX_BYTES as MAX_REGISTRY,
)
from rewardharness.library.registry import (
    REGISTRY_FILE,
    Registry,
    description_differs,
    read_registry,
)
from rewardharness.library.rubric import MAX_BYTES as MAX_RUBRIC

LINEAGE_FILE = "lineage.jsonl"


@dataclass(frozen=True)
class ReadEntry:
    """An entry that could be read, and where its parts stand."""

    entry: Entry
    places: Places


@dataclass(frozen=True)
class Reading:
    """What came of reading a folder."""

    registry: Registry
    entries: tuple[ReadEntry, ...]
    """Those of the registry that could be read."""
    lineage: str
    """The text of `lineage.jsonl`; empty when there is none."""
    findings: Findings = field(repr=False)
    """Everything wrong or odd that was met."""


def read_folder(path: Path) -> Reading:
    """Read a Library's folder. Its content never makes this raise; what is wrong with it is in the findings."""
    findings = Findings("")
    nothing = Reading(Registry(), (), "", findings)
    if not path.is_dir():
        message = "This is not a folder." if path.exists() else "There is no such folder."
        findings.error(message, remedy="Name the folder that holds registry.json, or begin one with: rh library new")
        return nothing
    folder = Folder(path)
    text = _read(folder, REGISTRY_FILE, MAX_REGISTRY, findings)
    if text is None:
        if not findings.failed:
            findings.error(f"There is no {REGISTRY_FILE}.", remedy="Name a Library's folder, or make a new Library.")
        return nothing
    registry = read_registry(text, findings.at(REGISTRY_FILE))
    entries = [_read_entry(folder, registry, name, findings) for name in registry.kinds]
    lineage = _read(folder, LINEAGE_FILE, MAX_TOTAL, findings) or ""
    _check_lineage(lineage, findings.at(LINEAGE_FILE))
    _find_orphans(path, registry, findings)
    return Reading(registry, tuple(each for each in entries if each), lineage, findings)


def _read(folder: Folder, where: str, limit: int, findings: Findings) -> str | None:
    try:
        return folder.read(where, limit)
    except FormatError as error:
        findings.found.append(error.problem)
        return None


def _read_entry(folder: Folder, registry: Registry, name: str, findings: Findings) -> ReadEntry | None:
    kind = registry.kinds[name]
    base = f"{FOLDERS[kind]}/{name}"
    here = Findings(f"{base}/{ENTRY_FILE}")
    text = _read(folder, here.where, MAX_BYTES, here)
    rubric_text = _read(folder, f"{base}/{RUBRIC_FILE}", MAX_RUBRIC, here) if kind == "skill" else None
    entry = places = None
    if text is not None:
        entry, places = read_entry(text, name, kind, rubric_text, here)
    elif not here.failed:
        here.error(f"`{name}` is registered, but this file does not exist.", None, "Add it, or unregister it.")
    findings.found.extend(here.found)
    if entry is None or places is None or here.failed:
        return None
    if description_differs(registry.record(name), entry.description):
        message = f"The registry describes `{name}` in other words than its own file, whose words are used."
        findings.at(REGISTRY_FILE).warning(message, registry.line(name), "Copy the description from the file.")
    return ReadEntry(entry, places)


def _check_lineage(text: str, findings: Findings) -> None:
    for number, line in enumerate(text.split("\n"), 1):
        try:
            sound = not line.strip() or isinstance(json.loads(line), dict)
        except (ValueError, RecursionError):
            sound = False
        if not sound:
            findings.warning("This line is not a JSON object; it is passed over.", number, "Remove the line.")


def _find_orphans(path: Path, registry: Registry, findings: Findings) -> None:
    for kind, folder in FOLDERS.items():
        try:
            names = sorted(os.listdir(path / folder)) if not (path / folder).is_symlink() else []
        except OSError:
            continue
        for name in names:
            refused = name in registry.records and name not in registry.kinds  # reported already
            if refused or registry.kinds.get(name) == kind or not os.path.lexists(path / folder / name / ENTRY_FILE):
                continue
            orphan = findings.at(f"{folder}/{shown(name)}/{ENTRY_FILE}")
            if name in registry.kinds:
                other = registry.kinds[name]
                orphan.warning(f"`{shown(name)}` is registered as a {other}; this is not loaded.", None, "Delete it.")
            elif loadable_name_problem(name) is None:
                orphan.warning("This is not in the registry, so it is not loaded.", None, "Register or delete it.")
            else:
                orphan.warning("This has no usable name and is not loaded.", None, "Rename and register, or delete it.")

"""Three-way merge of Libraries, entry by entry."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from rewardharness.errors import shown
from rewardharness.library.entry import Entry
from rewardharness.library.store import AddEntry, Library, RemoveEntry, ReplaceEntry

T = TypeVar("T")


@dataclass(frozen=True)
class Conflict:
    """An item that both sides changed differently."""

    name: str
    """Name of the entry, the document, or the registry key."""
    what: str
    """Description of both changes, in a sentence."""

    def __str__(self) -> str:
        return f"{self.name}: {self.what}"


@dataclass(frozen=True)
class Merge:
    """Result of merging two Libraries."""

    library: Library
    """The merged Library. Conflicting items have the value of the other side."""
    conflicts: tuple[Conflict, ...]
    """Sorted by name. The merged Library is usable only if there are no conflicts."""


def merge_libraries(base: Library, ours: Library, theirs: Library) -> Merge:
    """Apply the changes between `base` and `ours` to `theirs`.

    If only one side changed an entry, its version is used. If both sides changed it differently, the entry is a
    conflict. Lineage records of `theirs` come before those of `ours`.

    Args:
        base: The common ancestor.
        ours: The local Library.
        theirs: The other Library.
    """
    entries, entry_conflicts = three_way(_entries(base), _entries(ours), _entries(theirs))
    meta, meta_conflicts = three_way(base.meta, ours.meta, theirs.meta)
    conflicts = [Conflict(name, _explain(base.get(name), ours.get(name), theirs.get(name))) for name in entry_conflicts]
    conflicts += [Conflict(f"library.{shown(key)} of the registry", "both sides changed it.") for key in meta_conflicts]
    merged = theirs
    for name in sorted({*_entries(theirs), *entries}):
        merged = _with_entry(merged, merged.get(name), entries.get(name))
    merged = replace(merged, meta=meta, lineage_text=_lineage(ours.lineage_text, theirs.lineage_text))
    return Merge(merged, tuple(conflicts))


def three_way(base: Mapping[str, T], ours: Mapping[str, T], theirs: Mapping[str, T]) -> tuple[dict[str, T], list[str]]:
    """Merge mappings key by key.

    Returns:
        The merged mapping, in which conflicting keys have the value of `theirs`, and the sorted conflicting keys.
    """
    merged: dict[str, T] = {}
    conflicts = []
    for key in sorted({*base, *ours, *theirs}):
        original, our, their = base.get(key), ours.get(key), theirs.get(key)
        value = our if their == original else their
        if our not in (original, their) and their != original:
            conflicts.append(key)
        if value is not None:
            merged[key] = value
    return merged, conflicts


def _entries(library: Library) -> dict[str, Entry]:
    return {entry.name: entry for entry in library.entries}


def _with_entry(library: Library, current: Entry | None, new: Entry | None) -> Library:
    """Return the Library with `current` replaced by `new`."""
    if current == new:
        return library
    if current is not None and new is not None and current.kind == new.kind:
        return library.apply(ReplaceEntry(new))
    if current is not None:
        library = library.apply(RemoveEntry(current.name))
    return library if new is None else library.apply(AddEntry(new))


def _explain(base: Entry | None, ours: Entry | None, theirs: Entry | None) -> str:
    if base is None:
        return "both sides added it, with different content."
    if ours is None:
        return "your side removed it, and the other side changed it."
    if theirs is None:
        return "your side changed it, and the other side removed it."
    return "both sides changed it differently."


def _lineage(ours: str, theirs: str) -> str:
    """Append the records of `ours` that `theirs` does not contain."""
    existing = set(map(_normal, theirs.split("\n")))
    new = [line for line in ours.split("\n") if line.strip() and _normal(line) not in existing]
    if not new:
        return theirs
    return theirs + ("\n" if theirs and not theirs.endswith("\n") else "") + "\n".join(new) + "\n"


def _normal(line: str) -> str:
    try:
        return json.dumps(json.loads(line), sort_keys=True)
    except (ValueError, RecursionError):
        return line.strip()

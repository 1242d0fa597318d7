"""Three-way merge of Libraries, entry by entry."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from rewardharness.errors import shown
from rewardharness.library.entry import Entry
from rewardharness.library.reader import json_object
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


def merge_libraries(base: Library, ours: Library, theirs: Library) -> tuple[Library, tuple[Conflict, ...]]:
    """Apply the changes between `base` and `ours` to `theirs`.

    If only one side changed an entry, its version is used. If both sides changed it differently, the entry is a
    conflict. Lineage records of `theirs` come before those of `ours`.

    Args:
        base: The common ancestor.
        ours: The local Library.
        theirs: The other Library.

    Returns:
        The merged Library, in which conflicting items have the value of the other side, and the conflicts, sorted by
        name. It is usable only if there are none.
    """
    sides = [{entry.name: entry for entry in library.entries} for library in (base, ours, theirs)]
    entries, entry_conflicts = three_way(*sides)
    meta, meta_conflicts = three_way(base.meta, ours.meta, theirs.meta)
    conflicts = [Conflict(name, _explain(*(side.get(name) for side in sides))) for name in entry_conflicts]
    conflicts += [Conflict(f"library.{shown(key)} of the registry", "both sides changed it.") for key in meta_conflicts]
    merged = theirs
    for name in sorted({*sides[2], *entries}):
        current, new = merged.get(name), entries.get(name)
        if current is not None and new is not None and current != new and current.kind == new.kind:
            merged = merged.apply(ReplaceEntry(new))
        elif current != new:
            merged = merged if current is None else merged.apply(RemoveEntry(name))
            merged = merged if new is None else merged.apply(AddEntry(new))
    merged = replace(merged, meta=meta, lineage_text=_lineage(ours.lineage_text, theirs.lineage_text))
    return merged, tuple(conflicts)


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

    def content(line: str) -> object:
        record = json_object(line)
        return line.strip() if record is None else json.dumps(record, sort_keys=True)

    existing = set(map(content, theirs.split("\n")))
    new = [line for line in ours.split("\n") if line.strip() and content(line) not in existing]
    gap = "\n" if new and theirs and not theirs.endswith("\n") else ""
    return theirs + gap + "".join(f"{line}\n" for line in new)

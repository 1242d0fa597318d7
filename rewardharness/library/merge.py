"""Brings together two Libraries that have grown from the same one, entry by entry."""

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
    """Something that both sides changed, each in its own way."""

    name: str
    """The entry, the document, or the key of the registry."""
    what: str
    """What happened to it, in a sentence."""

    def __str__(self) -> str:
        return f"{self.name}: {self.what}"


@dataclass(frozen=True)
class Merge:
    """What came of bringing two Libraries together."""

    library: Library
    """Both sides together; where they conflict, theirs."""
    conflicts: tuple[Conflict, ...]
    """By name; empty when the Library can be used."""


def merge_libraries(base: Library, ours: Library, theirs: Library) -> Merge:
    """Apply what we changed since the base to what they made of it.

    An entry that one side changed is taken from that side. One that both changed alike is taken once. One that
    both changed differently is a conflict. The lineage keeps their records first, then ours.

    Args:
        base: What both began with.
        ours: Our side.
        theirs: Their side.
    """
    entries, conflicts = three_way(_entries(base), _entries(ours), _entries(theirs))
    meta, other = three_way(base.meta, ours.meta, theirs.meta)
    found = [Conflict(name, _story(base.get(name), ours.get(name), theirs.get(name))) for name in conflicts]
    found += [Conflict(f"library.{shown(str(key))} of the registry", "both sides changed it.") for key in other]
    merged = theirs
    for name in sorted({*_entries(theirs), *entries}):
        merged = _settled(merged, merged.get(name), entries.get(name))
    merged = replace(merged, meta=meta, lineage_text=_lineage(ours.lineage_text, theirs.lineage_text))
    return Merge(merged, tuple(found))


def three_way(base: Mapping[str, T], ours: Mapping[str, T], theirs: Mapping[str, T]) -> tuple[dict[str, T], list[str]]:
    """Merge mappings key by key.

    Returns:
        The merged mapping, with their value where both sides conflict; and the keys that conflict, in order.
    """
    merged: dict[str, T] = {}
    conflicts = []
    for key in sorted({*base, *ours, *theirs}):
        was, our, their = base.get(key), ours.get(key), theirs.get(key)
        value = our if their == was else their
        if our not in (was, their) and their != was:
            conflicts.append(key)
        if value is not None:
            merged[key] = value
    return merged, conflicts


def _entries(library: Library) -> dict[str, Entry]:
    return {entry.name: entry for entry in library.entries}


def _settled(library: Library, now: Entry | None, wanted: Entry | None) -> Library:
    """Return a Library with one entry as it is wanted."""
    if now == wanted:
        return library
    if now is not None and wanted is not None and now.kind == wanted.kind:
        return library.apply(ReplaceEntry(wanted))
    if now is not None:
        library = library.apply(RemoveEntry(now.name))
    return library if wanted is None else library.apply(AddEntry(wanted))


def _story(base: Entry | None, ours: Entry | None, theirs: Entry | None) -> str:
    if base is None:
        return "both sides added it, with different content."
    if ours is None:
        return "you removed it, they changed it."
    return "you changed it, they removed it." if theirs is None else "both sides changed it, each in its own way."


def _lineage(ours: str, theirs: str) -> str:
    """Put our records after theirs. A record that both have is kept once."""
    known = set(map(_normal, theirs.split("\n")))
    new = [line for line in ours.split("\n") if line.strip() and _normal(line) not in known]
    if not new:
        return theirs
    return theirs + ("\n" if theirs and not theirs.endswith("\n") else "") + "\n".join(new) + "\n"


def _normal(line: str) -> str:
    try:
        return json.dumps(json.loads(line), sort_keys=True)
    except (ValueError, RecursionError):
        return line.strip()

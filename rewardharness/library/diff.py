"""Compares Libraries, describes the differences in words and as JSON, and merges them entry by entry."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import unified_diff
from typing import Any, TypeVar

from rewardharness.errors import shown
from rewardharness.library.entry import ENTRY_FILE, RUBRIC_FILE, Entry, print_entry
from rewardharness.library.reader import json_object
from rewardharness.library.rubric import Criterion, Rubric, print_rubric
from rewardharness.library.store import AddEntry, Library, RemoveEntry, ReplaceEntry

T = TypeVar("T")


@dataclass(frozen=True)
class EntryDiff:
    """Difference between two versions of one entry."""

    before: Entry
    after: Entry
    notes: tuple[str, ...]
    """Descriptions of the differences, one sentence each."""
    document: str
    """Unified diff of the normalized `SKILL.md`; empty if equal."""
    rubric: str
    """Unified diff of the normalized `rubric.yaml`; empty if equal."""

    @property
    def name(self) -> str:
        """Name of the entry."""
        return self.after.name


@dataclass(frozen=True)
class LibraryDiff:
    """Difference between two Libraries."""

    before_id: str
    after_id: str
    added: tuple[Entry, ...]
    removed: tuple[Entry, ...]
    changed: tuple[EntryDiff, ...]

    @property
    def is_empty(self) -> bool:
        """Whether all entries are equal."""
        return not (self.added or self.removed or self.changed)

    @property
    def signed(self) -> tuple[tuple[str, Entry], ...]:
        """The differing entries with the signs `+` for added, `~` for changed, and `-` for removed."""
        changed = tuple(("~", change.after) for change in self.changed)
        return (*(("+", entry) for entry in self.added), *changed, *(("-", entry) for entry in self.removed))


def diff_libraries(before: Library, after: Library) -> LibraryDiff:
    """Compare two Libraries entry by entry, ignoring formatting."""
    return LibraryDiff(
        before.id,
        after.id,
        added=tuple(entry for entry in after.entries if entry.name not in before),
        removed=tuple(entry for entry in before.entries if entry.name not in after),
        changed=tuple(
            diff_entries(old, entry) for entry in after.entries if (old := before.get(entry.name)) not in (None, entry)
        ),
    )


def diff_entries(before: Entry, after: Entry) -> EntryDiff:
    """Compare two versions of one entry."""
    old_rubric = print_rubric(before.rubric) if before.rubric else ""
    new_rubric = print_rubric(after.rubric) if after.rubric else ""
    return EntryDiff(
        before,
        after,
        notes=(*_entry_notes(before, after), *_rubric_notes(before.rubric, after.rubric)),
        document=_unified(print_entry(before), print_entry(after), ENTRY_FILE),
        rubric=_unified(old_rubric, new_rubric, RUBRIC_FILE),
    )


def diff_json(diff: LibraryDiff) -> dict[str, Any]:
    """Return the difference of two Libraries as a JSON object."""
    keys = ("name", "kind", "description", "entry_id")
    sides = {
        side: [{key: getattr(entry, key) for key in keys} for entry in getattr(diff, side)]
        for side in ("added", "removed")
    }
    changed = [
        {"name": change.name, "kind": change.after.kind, "notes": list(change.notes)}
        | {"document_diff": change.document, "rubric_diff": change.rubric}
        for change in diff.changed
    ]
    return {"before_id": diff.before_id, "after_id": diff.after_id, **sides, "changed": changed}


def _unified(before: str, after: str, name: str) -> str:
    lines = unified_diff(before.split("\n"), after.split("\n"), f"before/{name}", f"after/{name}", lineterm="")
    return "\n".join(lines)


def _entry_notes(before: Entry, after: Entry) -> Iterator[str]:
    if before.kind != after.kind:
        yield f"The kind changed from {before.kind} to {after.kind}."
    if before.description != after.description:
        yield f"The description changed from {before.description!r} to {after.description!r}."
    yield from _trigger_notes(before, after)
    yield from _mapping_notes("metadata", {**before.metadata, "triggers": None}, {**after.metadata, "triggers": None})
    yield from _value_note("The measure", before.measure, after.measure)
    for key, label in (("system_prompt", "The system prompt"), ("body", "The body")):
        old, new = getattr(before, key) or "", getattr(after, key) or ""
        if old != new:
            yield f"{label} changed from {len(old)} to {len(new)} characters."
    for key in ("input_schema", "output_schema", "extra"):
        yield from _mapping_notes(key, getattr(before, key) or {}, getattr(after, key) or {})


def _trigger_notes(before: Entry, after: Entry) -> Iterator[str]:
    old, new = (list(map(str, entry.triggers)) for entry in (before, after))
    for verb, listed, others in (("added", new, old), ("removed", old, new)):
        differing = [trigger for trigger in listed if trigger not in others]
        if differing:
            yield f"Triggers {verb}: {', '.join(differing)}."
    if old and not new:
        yield "All triggers were removed; the description determines when the entry applies."


def _value_note(label: str, old: Any, new: Any) -> Iterator[str]:
    if old is None and new is not None:
        yield f"{label} {_format(new)} was added."
    elif new is None and old is not None:
        yield f"{label} {_format(old)} was removed."
    elif old != new:
        yield f"{label} changed from {_format(old)} to {_format(new)}."


def _format(value: Any) -> str:
    """Format a value: quoted text, a comma-separated tuple, or JSON."""
    if isinstance(value, tuple):
        return ", ".join(value)
    return repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _mapping_notes(label: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted({*old, *new}):
        yield from _value_note(f"{label}.{key}", old.get(key), new.get(key))


def _rubric_notes(before: Rubric | None, after: Rubric | None) -> Iterator[str]:
    old, new = ({row.id: row for row in rubric.criteria} if rubric else {} for rubric in (before, after))
    old_shares, new_shares = (rubric.weights() if rubric else {} for rubric in (before, after))
    for name in (name for name in new if name not in old):
        yield f"Criterion {name!r} was added with {new_shares[name]:.0%} of the weight."
    for name in old:
        if name not in new:
            yield f"Criterion {name!r} was removed; it had {old_shares[name]:.0%} of the weight."
        else:
            yield from _criterion_notes(old[name], new[name], old_shares[name], new_shares[name])


def _criterion_notes(old: Criterion, new: Criterion, old_share: float, new_share: float) -> Iterator[str]:
    label = f"Criterion {old.id!r}:"
    if old.weight != new.weight:
        yield f"{label} the weight changed from {old.weight:g} ({old_share:.0%}) to {new.weight:g} ({new_share:.0%})."
    if old.text != new.text:
        yield f"{label} the text changed."
    if tuple(old.scale) != tuple(new.scale):
        before, after = ("[{:g}, {:g}]".format(*criterion.scale) for criterion in (old, new))
        yield f"{label} the scale changed from {before} to {after}."
    yield from _value_note(f"{label} the dimension", old.dimension, new.dimension)
    yield from _value_note(f"{label} the measure", old.measure, new.measure)
    yield from _value_note(f"{label} the kinds of edit", old.applies or None, new.applies or None)


def merge_libraries(base: Library, ours: Library, theirs: Library) -> tuple[Library, tuple[str, ...]]:
    """Apply the changes between `base` and `ours` to `theirs`.

    If only one side changed an entry, its version is used. If both sides changed it differently, the entry is a
    conflict. Lineage records of `theirs` come before those of `ours`.

    Args:
        base: The common ancestor.
        ours: The local Library.
        theirs: The other Library.

    Returns:
        The merged Library, in which conflicting items have the value of the other side, and the conflicts, each as
        `NAME: BOTH CHANGES.`, sorted by name. It is usable only if there are none.
    """
    sides = [{entry.name: entry for entry in library.entries} for library in (base, ours, theirs)]
    entries, entry_conflicts = three_way(*sides)
    meta, meta_conflicts = three_way(base.meta, ours.meta, theirs.meta)
    conflicts = [f"{name}: {_explain(*(side.get(name) for side in sides))}" for name in entry_conflicts]
    conflicts += [f"library.{shown(key)} of the registry: both sides changed it." for key in meta_conflicts]
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

"""Compares Libraries and describes the differences in words and as JSON."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any

from rewardharness.library.entry import ENTRY_FILE, RUBRIC_FILE, Entry, print_entry
from rewardharness.library.rubric import Criterion, Rubric, print_rubric
from rewardharness.library.store import Library


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

    def to_json(self) -> dict[str, Any]:
        """Return the difference as a JSON object."""
        texts = {"document_diff": self.document, "rubric_diff": self.rubric}
        return {"name": self.name, "kind": self.after.kind, "notes": list(self.notes), **texts}


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

    def to_json(self) -> dict[str, Any]:
        """Return the difference as a JSON object."""
        return {
            "before_id": self.before_id,
            "after_id": self.after_id,
            "added": [_summary(entry) for entry in self.added],
            "removed": [_summary(entry) for entry in self.removed],
            "changed": [entry.to_json() for entry in self.changed],
        }


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


def _summary(entry: Entry) -> dict[str, Any]:
    return {"name": entry.name, "kind": entry.kind, "description": entry.description, "entry_id": entry.entry_id}


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

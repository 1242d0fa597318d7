"""Tells what differs between two Libraries, for people and for machines."""

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
    """What differs between two versions of one entry."""

    before: Entry
    after: Entry
    notes: tuple[str, ...]
    """The differences in words, one sentence each."""
    document: str
    """Unified diff of `SKILL.md`, formatting apart; empty when it says the same."""
    rubric: str
    """Unified diff of `rubric.yaml`, formatting apart; empty when it says the same."""

    @property
    def name(self) -> str:
        """Name of the entry, the same in both versions."""
        return self.after.name

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "name": self.name,
            "kind": self.after.kind,
            "notes": list(self.notes),
            "document_diff": self.document,
            "rubric_diff": self.rubric,
        }


@dataclass(frozen=True)
class LibraryDiff:
    """What differs between two Libraries."""

    before_id: str
    after_id: str
    added: tuple[Entry, ...]
    removed: tuple[Entry, ...]
    changed: tuple[EntryDiff, ...]

    @property
    def is_empty(self) -> bool:
        """Whether the entries are the same."""
        return not (self.added or self.removed or self.changed)

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "before_id": self.before_id,
            "after_id": self.after_id,
            "added": [_summary(entry) for entry in self.added],
            "removed": [_summary(entry) for entry in self.removed],
            "changed": [each.to_json() for each in self.changed],
        }


def diff_libraries(before: Library, after: Library) -> LibraryDiff:
    """Compare two Libraries entry by entry. How entries are formatted does not count."""
    changed = []
    for entry in after.entries:
        old = before.get(entry.name)
        if old is not None and old != entry:
            changed.append(diff_entries(old, entry))
    return LibraryDiff(
        before.id,
        after.id,
        added=tuple(entry for entry in after.entries if entry.name not in before),
        removed=tuple(entry for entry in before.entries if entry.name not in after),
        changed=tuple(changed),
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
        yield f"It was a {before.kind} and is a {after.kind}."
    if before.description != after.description:
        yield f"The description was {before.description!r} and is {after.description!r}."
    yield from _trigger_notes(before, after)
    for key in sorted({*before.metadata, *after.metadata} - {"triggers"}):
        yield from _value_note(f"metadata.{key}", before.metadata.get(key), after.metadata.get(key))
    yield from _value_note("The measure", before.measure, after.measure)
    for key, words in (("system_prompt", "The system prompt"), ("body", "The body")):
        old, new = getattr(before, key) or "", getattr(after, key) or ""
        if old != new:
            yield f"{words} changed: {len(old)} characters before, {len(new)} after."
    for key in ("input_schema", "output_schema", "extra"):
        yield from _mapping_notes(key, getattr(before, key) or {}, getattr(after, key) or {})


def _trigger_notes(before: Entry, after: Entry) -> Iterator[str]:
    old, new = [str(trigger) for trigger in before.triggers], [str(trigger) for trigger in after.triggers]
    added = [trigger for trigger in new if trigger not in old]
    removed = [trigger for trigger in old if trigger not in new]
    if added:
        yield f"New triggers: {', '.join(added)}."
    if removed:
        yield f"Triggers removed: {', '.join(removed)}."
    if old and not new:
        yield "It has no triggers any more: its description decides when it applies."


def _value_note(what: str, old: Any, new: Any) -> Iterator[str]:
    if old == new:
        return
    if old is None:
        yield f"{what} is now {_words(new)}; there was none."
    elif new is None:
        yield f"{what} was {_words(old)} and is gone."
    else:
        yield f"{what} was {_words(old)} and is {_words(new)}."


def _words(value: Any) -> str:
    """Put a value of an entry into words: a text in quotes, several texts one after the other, all else as JSON."""
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, tuple):
        return ", ".join(value)
    return json.dumps(value, ensure_ascii=False, default=str)


def _mapping_notes(what: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted({*old, *new}):
        yield from _value_note(f"{what}.{key}", old.get(key), new.get(key))


def _rubric_notes(before: Rubric | None, after: Rubric | None) -> Iterator[str]:
    old = {each.id: each for each in before.criteria} if before else {}
    new = {each.id: each for each in after.criteria} if after else {}
    old_shares, new_shares = before.weights() if before else {}, after.weights() if after else {}
    for name in new:
        if name not in old:
            yield f"New criterion {name!r} with {new_shares[name]:.0%} of the weight."
    for name in old:
        if name not in new:
            yield f"Criterion {name!r} is gone; it had {old_shares[name]:.0%} of the weight."
        else:
            yield from _criterion_notes(old[name], new[name], old_shares[name], new_shares[name])


def _criterion_notes(old: Criterion, new: Criterion, old_share: float, new_share: float) -> Iterator[str]:
    what = f"Criterion {old.id!r}:"
    if old.weight != new.weight:
        yield f"{what} the weight was {old.weight:g} ({old_share:.0%}) and is {new.weight:g} ({new_share:.0%})."
    if old.text != new.text:
        yield f"{what} the text changed."
    if tuple(old.scale) != tuple(new.scale):
        was, now = (f"{each.scale[0]:g} to {each.scale[1]:g}" for each in (old, new))
        yield f"{what} the scale was {was} and is {now}."
    yield from _value_note(f"{what} the dimension", old.dimension, new.dimension)
    yield from _value_note(f"{what} the measure", old.measure, new.measure)
    yield from _value_note(f"{what} the kinds of edit", old.applies or None, new.applies or None)

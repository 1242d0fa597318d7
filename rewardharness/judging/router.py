"""Selection of the entries of a Library for an instruction. Each entry is selected independently.

Editing an entry therefore changes the context only of instructions that its old or new version matches. Evolution
relies on this to judge only these examples again.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from rewardharness.files import content_id
from rewardharness.judging.appeals import without_appeals
from rewardharness.judging.instruction import read_instruction
from rewardharness.library.entry import Entry
from rewardharness.library.registry import MAX_ENTRIES
from rewardharness.library.store import Library
from rewardharness.library.triggers import searched
from rewardharness.schema import RoutedEntry, Usage

LEXICAL_THRESHOLD = 0.2
"""Share of an entry's descriptive words that an instruction must contain when the entry has no triggers."""

_WORD = re.compile(r"[a-z]{3,}")
_STOP = frozenset(
    "the and for with that this from into are was were has have had not but you your its it's their them they then "
    "than when where which while who what how whether any all each one two both other such can may must should would "
    "could will been being does did doing over under about between through image images edit edits edited "
    "editing evaluate evaluating evaluation evaluates guidance guidelines guideline judge judging how apply "
    "applies use used using "
    "rubric skill tool check checks checking verify verifies verifying whether candidate candidates source instruction "
    "instructions quality score scoring asks asked change changes changed".split()
)


@dataclass(frozen=True)
class Route:
    """The entries consulted for one instruction."""

    entries: tuple[Entry, ...]
    """In the order of the Library: Skills, then Tools, each by name."""
    reasons: tuple[RoutedEntry, ...]
    """The reasons, in the same order."""
    usage: Usage = Usage()
    """What it cost to ask a model; zero without one."""

    @property
    def skills(self) -> tuple[Entry, ...]:
        """The consulted Skills."""
        return tuple(entry for entry in self.entries if entry.kind == "skill")

    @property
    def tools(self) -> tuple[Entry, ...]:
        """The consulted Tools."""
        return tuple(entry for entry in self.entries if entry.kind == "tool")

    @property
    def context_id(self) -> str:
        """Content id of the entries. Equal ids give equal judgments."""
        return content_id([entry.entry_id for entry in self.entries])


@lru_cache(maxsize=4096)
def route(library: Library, instruction: str) -> Route:
    """Select the entries that apply to an instruction. Recent results are cached.

    Args:
        library: The Library.
        instruction: The instruction, which alone decides. Sentences that are addressed to the judge are left out.

    Returns:
        The matching entries, each with the reason.
    """
    instruction = without_appeals(instruction)
    return make_route((entry, fires(entry, instruction)) for entry in (*library.skills, *library.tools))


def make_route(reasons: Iterable[tuple[Entry, str | None]], usage: Usage = Usage()) -> Route:
    """Return the route of the entries that have a reason."""
    chosen = [(entry, reason) for entry, reason in reasons if reason is not None]
    routed = tuple(RoutedEntry(entry.name, entry.kind, reason) for entry, reason in chosen)
    return Route(tuple(entry for entry, _ in chosen), routed, usage)


def fires(entry: Entry, instruction: str) -> str | None:
    """Return why an entry applies to an instruction by its triggers, or by its description if it has none.

    Returns:
        The reason; None if the entry does not apply.
    """
    if entry.triggers:
        by_kind = any(trigger.kind == "edit" for trigger in entry.triggers)
        text = searched(instruction, read_instruction(instruction).kinds if by_kind else ())
        starts = text.starts
        for trigger in entry.triggers:
            if starts and (start := trigger.start) and start not in starts:  # most triggers, without a call
                continue
            matched = trigger.find(text)
            if matched is not None:
                return {"always": "always", "edit": f"kind of edit {matched!r}"}.get(
                    trigger.kind, f"the instruction says {matched!r}"
                )
        return None
    score = lexical_score(entry, instruction)
    return f"similar wording ({score:.2f})" if score >= LEXICAL_THRESHOLD else None


def unconsulted(route: Route, library: Library) -> tuple[str, ...]:
    """Return a note if none of the entries of a Library is consulted; none for an empty Library."""
    if route.entries or not len(library):
        return ()
    return (f"0 of {len(library)} entries of the Library were consulted: none applies to this instruction.",)


def left_to_model(route: Route, library: Library) -> str:
    """Return a sentence that names the entries on which a model as judge decides; empty without any."""
    names = [entry.name for entry in (*library.skills, *library.tools) if not entry.triggers]
    here = f" {len({*names} & {entry.name for entry in route.entries})} of them are chosen here by their description."
    return f"A model as judge decides itself on entries without triggers: {', '.join(names)}.{here}" if names else ""


def lexical_score(entry: Entry, instruction: str) -> float:
    """Return the share of the descriptive words of an entry that an instruction contains, in [0, 1].

    Words are compared by their first five letters, which equates most inflections of one English word.
    """
    wanted = _descriptive_stems(entry.name, entry.description)
    if not wanted:
        return 0.0
    return len(wanted & _instruction_stems(instruction)) / len(wanted)


@lru_cache(maxsize=2 * MAX_ENTRIES)
def _descriptive_stems(name: str, description: str) -> frozenset[str]:
    return _stems(f"{name.replace('-', ' ').replace('_', ' ')} {description}")


@lru_cache(maxsize=64)
def _instruction_stems(instruction: str) -> frozenset[str]:
    return _stems(instruction)


def _stems(text: str) -> frozenset[str]:
    return frozenset(word[:5] for word in _WORD.findall(text.lower()) if word not in _STOP)

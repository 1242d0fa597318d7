"""Contrastive revision: an edit that fixes more than it breaks, but breaks too much, gets one narrower attempt."""

import re
from collections.abc import Sequence
from dataclasses import replace

from rewardharness.evolution.analyzer import kind_of
from rewardharness.evolution.proposal import Proposal
from rewardharness.library.entry import Entry
from rewardharness.library.rubric import Criterion
from rewardharness.library.store import AddEntry, Change, Library, ReplaceEntry
from rewardharness.library.triggers import Trigger
from rewardharness.schema import Example

MOST_WORDS = 6
"""Words that take the place of an entry's triggers, at most."""

_WORD = re.compile(r"[a-z]{3,}")
_COMMON = frozenset(
    "the and for with that this from into are was his her its their them has have image picture photo make please "
    "change edit one two all some onto over under out off".split()
)


def narrow(
    proposal: Proposal, library: Library, fixed: Sequence[Example], broken: Sequence[Example]
) -> Proposal | None:
    """Narrow an edit to where it helps.

    A new entry gets triggers that fire on what it fixed and not on what it broke. A changed rubric keeps its old
    criteria, and its new ones apply only to kinds of edit that it fixed and did not break.

    Args:
        proposal: One change: of several together it is not known which one did the harm.
        library: The Library that it was tried on.
        fixed: Examples that became better.
        broken: Examples that became worse.

    Returns:
        The narrower edit, or None when there is no telling the two apart, or it would keep less than half of the fixes.
    """
    if len(proposal.changes) != 1 or not fixed or not broken:
        return None
    change = proposal.changes[0]
    narrower: Change | None = None
    if isinstance(change, AddEntry):
        entry = _fewer_instructions(change.entry, fixed, broken)
        narrower = replace(change, entry=entry) if entry is not None else None
    elif isinstance(change, ReplaceEntry):
        old = library.get(change.entry.name)
        entry = _fewer_kinds(old, change.entry, fixed, broken) if old is not None else None
        narrower = replace(change, entry=entry) if entry is not None else None
    if narrower is None:
        return None
    statement = f"{proposal.statement} Narrowed to where it helped."
    idea = (*proposal.idea, "narrowed") if proposal.idea else ()
    return replace(proposal, changes=(narrower,), statement=statement, idea=idea)


def _fewer_instructions(entry: Entry, fixed: Sequence[Example], broken: Sequence[Example]) -> Entry | None:
    """The entry with words as triggers that tell what it fixed from what it broke."""
    safe: dict[str, set[str]] = {}
    for word in sorted({word for example in fixed for word in _WORD.findall(example.instruction.lower())} - _COMMON):
        trigger = Trigger("words", word)
        if not any(trigger.matches(example.instruction) for example in broken):
            safe[word] = {example.id for example in fixed if trigger.matches(example.instruction)}
    chosen: list[str] = []
    covered: set[str] = set()
    while safe and len(chosen) < MOST_WORDS:
        best = min(safe, key=lambda word: (-len(safe[word] - covered), word))
        if not safe[best] - covered:
            break
        covered |= safe.pop(best)
        chosen.append(best)
    if 2 * len(covered) < len(fixed):
        return None
    return replace(entry, metadata={**entry.metadata, "triggers": ", ".join(sorted(chosen))})


def _fewer_kinds(old: Entry, new: Entry, fixed: Sequence[Example], broken: Sequence[Example]) -> Entry | None:
    """The entry with its new criteria limited to kinds of edit that were fixed and not broken."""
    if new.rubric is None:
        return None
    kinds = {kind_of(example) for example in fixed} - {kind_of(example) for example in broken}
    kept = [example for example in fixed if kind_of(example) in kinds]
    known = {each.id for each in old.rubric.criteria} if old.rubric else set()
    if 2 * len(kept) < len(fixed) or all(each.id in known for each in new.rubric.criteria):
        return None

    def limited(criterion: Criterion) -> Criterion:
        if criterion.id in known:
            return criterion
        applies = kinds & set(criterion.applies) if criterion.applies else kinds
        return replace(criterion, applies=tuple(sorted(applies)))

    criteria = tuple(limited(each) for each in new.rubric.criteria)
    if any(each.id not in known and not each.applies for each in criteria):
        return None
    return replace(new, rubric=replace(new.rubric, criteria=criteria))

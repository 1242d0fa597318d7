"""The built-in orchestrator: proposes edits without a model, from what the measures say of failures and successes.

It works out what every edit that it knows how to make would change, and proposes those that would turn more failures
into successes than the other way round. That is a forecast from the same examples; the gate decides.
"""

from collections.abc import Iterator, Sequence

from rewardharness.evolution.analyzer import analyze
from rewardharness.evolution.builtin.criteria import (
    criteria_for_all,
    criteria_for_kinds,
    divided_criteria,
    fewer_criteria,
    other_weights,
)
from rewardharness.evolution.builtin.entries import fewer_triggers, measured_tools, merged_skills, wider_triggers
from rewardharness.evolution.builtin.forecast import Effect, Forecast
from rewardharness.evolution.builtin.ideas import Idea, Workshop
from rewardharness.evolution.proposal import MAX_CITED, Dropped, Finding, Proposal, View
from rewardharness.files import content_id
from rewardharness.library.store import AddEntry, Library, ReplaceEntry
from rewardharness.measure.table import MEASURES
from rewardharness.schema import Usage

NAME = "built-in (no model)"
"""How this orchestrator is named everywhere."""

_SILENT = frozenset({"change_map"})
"""Measures that observe and never grade."""


class BuiltinOrchestrator:
    """Proposes by rules. Deterministic: the same View gives the same proposals."""

    name = NAME
    spent = Usage()
    dropped: tuple[Dropped, ...] = ()

    def __init__(self) -> None:
        self.findings: tuple[Finding, ...] = ()

    def propose(self, view: View) -> Sequence[Proposal]:
        """Propose edits, the most promising first; none when nothing promises more than it costs."""
        self.findings = analyze(view.outcomes)
        measures = tuple(name for name in view.known_measures if name in MEASURES and name not in _SILENT)
        shop = Workshop(Forecast(view), measures)
        known = {tried.signature for tried in view.rejected}
        if view.phase == "skills":
            found = _improving(shop)
        elif view.phase == "tools":
            found = [] if _ignores_tools(view) else [(promise, idea, None) for promise, idea in measured_tools(shop)]
        else:
            found = [(0.0, idea, None) for idea in merged_skills(shop)]
        ranked = sorted(found, key=lambda each: _rank(each[0], each[1], each[2], view.seed))
        fresh = ((idea, effect) for _, idea, effect in ranked if _proposal(idea, effect).signature not in known)
        return [_proposal(idea, effect) for idea, effect in _apart(fresh, view.limit)]

    def repair(self, view: View, proposal: Proposal, problem: str) -> Proposal | None:
        """Nothing: its Tools measure and have no prompt that could be tried."""
        return None


def _rank(promise: float, idea: Idea, effect: Effect | None, seed: int) -> tuple[float, int, str]:
    """The most promising first; of equal ones that which touches fewer examples, for it costs less to try."""
    return -promise, effect.touched if effect else 0, content_id([seed, *idea.key])


def _improving(shop: Workshop) -> list[tuple[float, Idea, Effect | None]]:
    """Ideas that would fix more examples than they break, with what they would gain."""
    reads = _reads_criteria(shop.forecast.view)
    found: list[tuple[float, Idea, Effect | None]] = []
    for idea in _ideas(shop):
        if not reads and not _changes_words(idea, shop.library):
            continue
        effect = shop.forecast.effect(idea.changes)
        if effect.gain > 0 and len(effect.fixed) > len(effect.broken):
            found.append((effect.gain, idea, effect))
    return found


def _ideas(shop: Workshop) -> Iterator[Idea]:
    yield from criteria_for_kinds(shop)
    yield from criteria_for_all(shop)
    yield from other_weights(shop)
    yield from fewer_criteria(shop)
    yield from divided_criteria(shop)
    yield from wider_triggers(shop)
    yield from fewer_triggers(shop)
    yield from merged_skills(shop)


def _apart(ranked: Iterator[tuple[Idea, Effect | None]], limit: int) -> Iterator[tuple[Idea, Effect | None]]:
    """Choose ideas that touch different entries, and each of which fixes something that none before it fixes.

    Each is brought to the gate on its own, and one that is kept must not spoil the others.
    """
    taken: set[str] = set()
    fixed: set[str] = set()
    count = 0
    for idea, effect in ranked:
        if count == limit:
            return
        if taken & idea.names or (effect and len(set(effect.fixed) - fixed) <= len(effect.broken)):
            continue
        taken |= idea.names
        fixed |= set(effect.fixed) if effect else set()
        count += 1
        yield idea, effect


def _proposal(idea: Idea, effect: Effect | None) -> Proposal:
    says, cited = idea.says, tuple[str, ...]()
    if effect is not None:
        cited = effect.fixed[:MAX_CITED]
        says += f" Foreseen on {effect.touched} examples: {len(effect.fixed)} fixed, {len(effect.broken)} broken."
    return Proposal(idea.operator, idea.changes, says, cited, NAME, idea.key)


def _reads_criteria(view: View) -> bool:
    """Whether the judge weighs criteria. Others read the bodies of Skills alone."""
    protocols = {outcome.judgment.protocol for outcome in view.outcomes}
    return all(protocol.startswith(("measured", "rubric")) for protocol in protocols)


def _ignores_tools(view: View) -> bool:
    """Whether the judge calls no Tools, so that none could prove itself."""
    return not any(outcome.judgment.protocol.startswith("chain") for outcome in view.outcomes)


def _changes_words(idea: Idea, library: Library) -> bool:
    """Whether an idea changes what a judge reads or when it reads it, and not numbers alone."""
    for change in idea.changes:
        if not isinstance(change, AddEntry | ReplaceEntry):
            return True
        old = library.get(change.entry.name)
        if old is None or (old.body, old.metadata) != (change.entry.body, change.entry.metadata):
            return True
    return False

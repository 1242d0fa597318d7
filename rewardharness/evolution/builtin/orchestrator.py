"""The built-in Orchestrator: proposes edits by rules, without a model, from the measures of failures and successes.

It predicts the effect of each kind of edit on the examples, and proposes those that fix more examples than they break.
The acceptance test decides on other examples.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

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
from rewardharness.evolution.builtin.ideas import Idea, RoundContext
from rewardharness.evolution.operators import condition_problem
from rewardharness.evolution.proposal import MAX_CITED, Dropped, Finding, Mutation, Proposal, View
from rewardharness.files import content_id
from rewardharness.library.store import AddEntry, Library, ReplaceEntry
from rewardharness.measure.table import MEASURES
from rewardharness.schema import Usage

NAME = "built-in (no model)"
"""Name of this Orchestrator."""

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
        """Propose edits, the most promising first."""
        self.findings = analyze(view.outcomes)
        known_measures = (name for name in view.known_measures if name in MEASURES and name not in _SILENT)
        measures = tuple(name for name in known_measures if not MEASURES[name].same_look)
        context = RoundContext(Forecast(view), measures)
        known = {tried.signature for tried in view.rejected}
        if view.phase == "skills":
            found = _improving(context)
        elif view.phase == "tools":
            found = [] if _ignores_tools(view) else [(promise, idea, None) for promise, idea in measured_tools(context)]
        else:
            found = [(0.0, idea, None) for idea in merged_skills(context)]
        ranked = sorted(found, key=lambda each: _rank(each[0], each[1], each[2], view.seed))
        fresh = (
            (idea, effect)
            for _, idea, effect in ranked
            if (proposal := _proposal(idea, effect)).signature not in known
            and (not view.mutations or _mutation(proposal, view))
        )
        chosen = (_proposal(idea, effect) for idea, effect in _apart(fresh, view.limit))
        return [replace(proposal, mutation=_mutation(proposal, view)) for proposal in chosen]

    def repair(self, view: View, proposal: Proposal, problem: str) -> Proposal | None:
        """Return nothing: its Tools have no prompt."""
        return None


def _mutation(proposal: Proposal, view: View) -> Mutation | None:
    """Return the first wanted operator whose condition a proposal meets."""
    return next((name for name in view.mutations if not condition_problem(name, proposal, view)), None)


def _rank(promise: float, idea: Idea, effect: Effect | None, seed: int) -> tuple[float, int, str]:
    """Sort by expected gain; then by the number of touched examples, which the test costs."""
    return -promise, effect.touched if effect else 0, content_id([seed, *idea.key])


def _improving(context: RoundContext) -> list[tuple[float, Idea, Effect | None]]:
    """Return ideas that fix more examples than they break, with their gain."""
    reads = _reads_criteria(context.forecast.view)
    found: list[tuple[float, Idea, Effect | None]] = []
    for idea in _ideas(context):
        if not reads and not _changes_words(idea, context.library):
            continue
        effect = context.forecast.effect(idea.changes)
        if effect.gain > 0 and len(effect.fixed) > len(effect.broken):
            found.append((effect.gain, idea, effect))
    return found


def _ideas(context: RoundContext) -> Iterator[Idea]:
    yield from criteria_for_kinds(context)
    yield from criteria_for_all(context)
    yield from other_weights(context)
    yield from fewer_criteria(context)
    yield from divided_criteria(context)
    yield from wider_triggers(context)
    yield from fewer_triggers(context)
    yield from merged_skills(context)


def _apart(ranked: Iterator[tuple[Idea, Effect | None]], limit: int) -> Iterator[tuple[Idea, Effect | None]]:
    """Choose ideas that touch different entries and fix different examples, because they are tested in one bundle."""
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
        says += f" Predicted on {effect.touched} examples: {len(effect.fixed)} fixed, {len(effect.broken)} broken."
    return Proposal(idea.operator, idea.changes, says, cited, NAME, idea.key)


def _reads_criteria(view: View) -> bool:
    """Return whether the judge weights criteria. Other judges read only the bodies of Skills."""
    protocols = {outcome.judgment.protocol for outcome in view.outcomes}
    return all(protocol.startswith(("measured", "rubric")) for protocol in protocols)


def _ignores_tools(view: View) -> bool:
    """Return whether the judge calls no Tools."""
    return not any(outcome.judgment.protocol.startswith("chain") for outcome in view.outcomes)


def _changes_words(idea: Idea, library: Library) -> bool:
    """Return whether an idea changes a text or when it is read, and not only numbers."""
    for change in idea.changes:
        if not isinstance(change, AddEntry | ReplaceEntry):
            return True
        old = library.get(change.entry.name)
        if old is None or (old.body, old.metadata) != (change.entry.body, change.entry.metadata):
            return True
    return False

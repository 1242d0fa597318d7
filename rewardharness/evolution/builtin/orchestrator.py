"""The built-in Orchestrator: proposes edits by rules, without a model, from the measures of failures and successes.

It predicts the effect of each kind of edit on the examples, and proposes those that fix more examples than they break.
The acceptance test decides on other examples.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

from rewardharness.evolution.analyzer import analyze
from rewardharness.evolution.builtin.forecast import Effect, Forecast
from rewardharness.evolution.builtin.ideas import IDEAS, NAME, measured_tools, merged_skills
from rewardharness.evolution.operators import condition_problem
from rewardharness.evolution.proposal import MAX_CITED, Dropped, Finding, Mutation, Proposal, View, name_of
from rewardharness.files import content_id
from rewardharness.library.store import Library
from rewardharness.schema import Usage

_Ranked = tuple[float, Proposal, Effect | None]
"""The expected gain of a proposal, and its predicted effect where one can be predicted."""


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
        forecast, tried = Forecast(view), {rejected.signature for rejected in view.rejected}
        offered: list[_Ranked] = []
        if view.phase == "skills":
            offered = _improving(forecast)
        elif view.phase == "prune":
            offered = [(0.0, proposal, None) for proposal in merged_skills(forecast)]
        elif any(outcome.judgment.protocol.startswith("chain") for outcome in view.outcomes):  # others call no Tools
            offered = [(promise, proposal, None) for promise, proposal in measured_tools(forecast)]
        # By expected gain; then by the number of touched examples, which the test costs.
        offered.sort(
            key=lambda item: (-item[0], item[2].touched if item[2] else 0, content_id([view.seed, *item[1].idea]))
        )
        new = (item for item in offered if item[1].signature not in tried)
        fresh = ((replace(proposal, mutation=_mutation(proposal, view)), effect) for _, proposal, effect in new)
        return _apart((item for item in fresh if item[0].mutation or not view.mutations), view.limit)

    def repair(self, view: View, proposal: Proposal, problem: str) -> Proposal | None:
        """Return nothing: its Tools have no prompt."""
        return None


def _mutation(proposal: Proposal, view: View) -> Mutation | None:
    """Return the first wanted operator whose condition a proposal meets."""
    return next((name for name in view.mutations if not condition_problem(name, proposal, view)), None)


def _improving(forecast: Forecast) -> list[_Ranked]:
    """Return ideas that fix more examples than they break, with their gain."""
    view = forecast.view
    protocols = {outcome.judgment.protocol for outcome in view.outcomes}
    weighs = all(protocol.startswith(("measured", "rubric")) for protocol in protocols)  # others read bodies only
    improving: list[_Ranked] = []
    for proposal in chain.from_iterable(ideas(forecast) for ideas in IDEAS):
        if not weighs and not _changes_text(proposal, view.library):
            continue
        effect = forecast.effect(proposal.changes)
        fixed, broken = len(effect.fixed), len(effect.broken)
        if effect.gain > 0 and fixed > broken:
            says = f"{proposal.statement} Predicted on {effect.touched} examples: {fixed} fixed, {broken} broken."
            proposal = replace(proposal, statement=says, cited=effect.fixed[:MAX_CITED])
            improving.append((effect.gain, proposal, effect))
    return improving


def _apart(ranked: Iterable[tuple[Proposal, Effect | None]], limit: int) -> list[Proposal]:
    """Choose proposals that touch different entries and fix different examples, because they are tested in a bundle."""
    chosen: list[Proposal] = []
    taken, fixed = set[str](), set[str]()
    for proposal, effect in ranked:
        if len(chosen) == limit:
            break
        if taken.intersection(proposal.names) or (effect and len({*effect.fixed} - fixed) <= len(effect.broken)):
            continue
        taken.update(proposal.names)
        fixed.update(effect.fixed if effect else ())
        chosen.append(proposal)
    return chosen


def _changes_text(proposal: Proposal, library: Library) -> bool:
    """Return whether a proposal changes a text or when it is read, and not only numbers."""
    pairs = ((library.get(name_of(one)), getattr(one, "entry", None)) for one in proposal.changes)
    return any(not old or not new or (old.body, old.metadata) != (new.body, new.metadata) for old, new in pairs)

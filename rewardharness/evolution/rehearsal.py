"""Rehearsals: a new prompted Tool is called on a few examples before its acceptance test.

A Tool with unusable replies would spoil every judgment that calls it. Unusable replies are sent to the Orchestrator
once; if the repaired Tool has unusable replies too, the proposal is skipped. A rehearsal is a step of its own, so that
a killed run asks neither the model nor the Orchestrator twice.
"""

from collections.abc import Sequence
from dataclasses import replace

from rewardharness.errors import LibraryError
from rewardharness.evolution.events import Rehearsed
from rewardharness.evolution.proposal import Proposal, RejectedProposal
from rewardharness.evolution.state import Pending, State
from rewardharness.evolution.steps import Run, emit_proposed, skip, view_of
from rewardharness.judging.tool_calls import Observation
from rewardharness.library.entry import Entry
from rewardharness.library.store import RemoveEntry
from rewardharness.models.base import ModelError
from rewardharness.schema import Example

MOST_EXAMPLES = 3
"""Examples that a Tool is called on."""


def new_tool(proposal: Proposal) -> Entry | None:
    """Return the prompted Tool that a proposal adds or changes; None if there is none."""
    entries = [change.entry for change in proposal.changes if not isinstance(change, RemoveEntry)]
    return next((each for each in entries if each.kind == "tool" and each.measure is None), None)


def unrehearsed(run: Run, state: State, waiting: Pending) -> bool:
    """Return whether a pending proposal has a Tool that must be rehearsed first."""
    tool = new_tool(waiting.proposal)
    if tool is None or waiting.rehearsed or not run.evaluator.calls_tools or waiting.stale(state.library):
        return False
    old = state.library.get(tool.name)
    new = (tool.system_prompt, tool.output_schema, tool.body, tool.description)
    return old is None or new != (old.system_prompt, old.output_schema, old.body, old.description)


def rehearse(run: Run, state: State, waiting: Pending) -> State:
    """Rehearse a Tool: its proposal stays pending, is replaced by a repaired one, or is skipped.

    Raises:
        Stopped, Exhausted, Paused: As `Evaluator.judge`.
    """
    proposal = waiting.proposal
    bad = _call(run, state, proposal, repaired=False)
    if not bad:
        return _instead(state, waiting, replace(waiting, rehearsed=True))
    better = _repaired(run, state, proposal, bad)
    if isinstance(better, str):
        return _drop(run, state, waiting, f"{_problem(bad)} {better}".strip())
    if new_tool(better) is not None:
        bad = _call(run, state, better, repaired=True)
        if bad:
            reason = f"Called, repaired and called again: {_problem(bad)}"
            return _drop(run, _remembering(state, better, reason), waiting, reason)
    emit_proposed(run, state, better, better.applied_to(state.library))
    state = _remembering(state, proposal, "Its replies were unusable; a repaired Tool replaces it.")
    return _instead(state, waiting, replace(Pending.of(better, state.library), rehearsed=True))


def _call(run: Run, state: State, proposal: Proposal, *, repaired: bool) -> list[Observation]:
    """Call the Tool; return the observations with unusable replies."""
    tool = new_tool(proposal)
    assert tool is not None
    seen = [item for item in run.evaluator.rehearse(tool, _examples(run, state, proposal)) if not item.lost]
    bad = [item for item in seen if item.problem]
    if seen:
        replies = tuple({"example": item.example, "said": item.said, "problem": item.problem} for item in seen)
        run.emit(Rehearsed(tool.name, proposal.signature, replies, not bad, repaired, step=state.step))
    return bad


def _problem(bad: Sequence[Observation]) -> str:
    return " ".join(dict.fromkeys(each.problem for each in bad))


def _examples(run: Run, state: State, proposal: Proposal) -> list[Example]:
    """Return the examples that the proposal cites, or else the first that it touches."""
    pool = {example.id: example for example in run.pool}
    cited = [pool[name] for name in proposal.cited if name in pool]
    if not cited:
        try:
            cited = list(run.evaluator.affected(state.library, proposal.applied_to(state.library), run.pool))
        except LibraryError:  # it no longer fits; the acceptance test reports that
            cited = []
    return cited[:MOST_EXAMPLES]


def _repaired(run: Run, state: State, proposal: Proposal, bad: Sequence[Observation]) -> Proposal | str:
    """Ask the Orchestrator for a repaired proposal; return the reason as text if there is none."""
    said = "\n".join(f"- {each.problem} The reply: {each.said or '(nothing)'}" for each in bad)
    outcomes = [state.outcomes[example.id] for example in run.sides[0] if example.id in state.outcomes]
    view = replace(view_of(run, state, outcomes, 1), phase="tools", rejected=state.rejected)
    try:
        better = run.orchestrator.repair(view, proposal, said)
    except ModelError as error:
        return f"The Orchestrator gave no answer when asked to repair it ({error.code})."
    if better is None:
        dropped = " ".join(each.problem for each in run.orchestrator.dropped)
        return f"The Orchestrator did not repair it. {dropped}"
    if better.signature in {proposal.signature, *(tried.signature for tried in state.rejected)}:
        return "The Orchestrator returned the same proposal."
    try:
        better.applied_to(state.library)
    except LibraryError as error:
        return f"The repaired proposal does not fit: {error.message}"
    return better


def _drop(run: Run, state: State, waiting: Pending, reason: str) -> State:
    """Skip a proposal, and remember it as rejected."""
    skip(run, state, waiting.proposal, reason)
    rest = tuple(each for each in state.pending if each is not waiting)
    return replace(_remembering(state, waiting.proposal, reason), pending=rest)


def _remembering(state: State, proposal: Proposal, reason: str) -> State:
    return replace(state, rejected=(*state.rejected, RejectedProposal.of(proposal, reason)))


def _instead(state: State, waiting: Pending, other: Pending) -> State:
    return replace(state, pending=tuple(other if each is waiting else each for each in state.pending))

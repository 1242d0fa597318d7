"""Rehearsals: a new prompted Tool makes its call on a few examples before a gate spends anything on it.

A Tool that answers in prose, or not at all, would cost every judgment that calls it. What comes back unusable goes to
the Orchestrator once, with the replies; what is still unusable then is passed over. A rehearsal is a step of its own,
so that a killed run asks neither the model nor the Orchestrator twice.
"""

from collections.abc import Sequence
from dataclasses import replace

from rewardharness.errors import LibraryError
from rewardharness.evolution.events import Rehearsed
from rewardharness.evolution.proposal import Proposal, Tried
from rewardharness.evolution.state import Pending, State
from rewardharness.evolution.steps import Run, announce, passed, view_of
from rewardharness.judging.tool_calls import Observation
from rewardharness.library.entry import Entry
from rewardharness.library.store import RemoveEntry
from rewardharness.models.base import ModelError
from rewardharness.schema import Example

MOST_EXAMPLES = 3
"""Examples that a Tool is tried on."""


def new_tool(proposal: Proposal) -> Entry | None:
    """The prompted Tool that a proposal adds or changes the wording of; None when there is none."""
    entries = [change.entry for change in proposal.changes if not isinstance(change, RemoveEntry)]
    return next((each for each in entries if each.kind == "tool" and each.measure is None), None)


def unrehearsed(run: Run, state: State, waiting: Pending) -> bool:
    """Whether a waiting proposal holds a Tool whose call has to be tried first."""
    tool = new_tool(waiting.proposal)
    if tool is None or waiting.rehearsed or not run.bench.calls_tools or waiting.stale(state.library):
        return False
    old = state.library.get(tool.name)
    said = (tool.system_prompt, tool.output_schema, tool.body, tool.description)
    return old is None or said != (old.system_prompt, old.output_schema, old.body, old.description)


def rehearse(run: Run, state: State, waiting: Pending) -> State:
    """Take the step of trying a Tool: afterwards its proposal waits on, waits repaired, or is gone.

    Raises:
        Stopped, Exhausted, Paused: As `Bench.judge`.
    """
    proposal = waiting.proposal
    bad = _try(run, state, proposal, repaired=False)
    if not bad:
        return _instead(state, waiting, replace(waiting, rehearsed=True))
    better = _repaired(run, state, proposal, bad)
    if isinstance(better, str):
        return _drop(run, state, waiting, f"{_problem(bad)} {better}".strip())
    if new_tool(better) is not None:
        bad = _try(run, state, better, repaired=True)
        if bad:
            reason = f"Tried, repaired and tried again: {_problem(bad)}"
            return _drop(run, _remembering(state, better, reason), waiting, reason)
    announce(run, state, better, better.applied_to(state.library))
    known = _remembering(state, proposal, "Its reply was of no use; another takes its place.")
    return _instead(known, waiting, replace(Pending.of(better, state.library), rehearsed=True))


def _try(run: Run, state: State, proposal: Proposal, *, repaired: bool) -> list[Observation]:
    """Call the Tool; return what came back and is of no use."""
    tool = new_tool(proposal)
    assert tool is not None
    seen = [each for each in run.bench.rehearse(tool, _examples(run, state, proposal)) if not each.lost]
    bad = [each for each in seen if each.problem]
    if not seen:
        return []
    run.tell(
        lambda: Rehearsed(
            tool.name,
            proposal.signature,
            tuple({"example": each.example, "said": each.said, "problem": each.problem} for each in seen),
            usable=not bad,
            repaired=repaired,
            step=state.step,
        )
    )
    return bad


def _problem(bad: Sequence[Observation]) -> str:
    return " ".join(dict.fromkeys(each.problem for each in bad))


def _examples(run: Run, state: State, proposal: Proposal) -> list[Example]:
    """Those that the proposal cites; where it cites none, the first that it touches."""
    pool = {example.id: example for example in run.pool}
    cited = [pool[name] for name in proposal.cited if name in pool]
    if not cited:
        try:
            cited = list(run.bench.affected(state.library, proposal.applied_to(state.library), run.pool))
        except LibraryError:  # it no longer fits, which the gate is going to say
            cited = []
    return cited[:MOST_EXAMPLES]


def _repaired(run: Run, state: State, proposal: Proposal, bad: Sequence[Observation]) -> Proposal | str:
    """Ask the Orchestrator for a better one; a text says why there is none."""
    said = "\n".join(f"- {each.problem} The reply: {each.said or '(nothing)'}" for each in bad)
    outcomes = [state.outcomes[example.id] for example in run.sides[0] if example.id in state.outcomes]
    view = replace(view_of(run, state, outcomes, 1), phase="tools")
    try:
        better = run.orchestrator.repair(view, proposal, said)
    except ModelError as error:
        return f"The Orchestrator was asked to repair it and gave no answer ({error.code})."
    if better is None:
        dropped = " ".join(each.problem for each in run.orchestrator.dropped)
        return f"The Orchestrator did not repair it. {dropped}"
    if better.signature in {proposal.signature, *(tried.signature for tried in state.rejected)}:
        return "The Orchestrator sent the same again."
    try:
        better.applied_to(state.library)
    except LibraryError as error:
        return f"What the Orchestrator sent instead does not fit: {error.message}"
    return better


def _drop(run: Run, state: State, waiting: Pending, reason: str) -> State:
    """Pass a proposal over, and remember that it was."""
    passed(run, state, waiting.proposal, reason)
    rest = tuple(each for each in state.pending if each is not waiting)
    return replace(_remembering(state, waiting.proposal, reason), pending=rest)


def _remembering(state: State, proposal: Proposal, reason: str) -> State:
    return replace(state, rejected=(*state.rejected, Tried.of(proposal, reason)))


def _instead(state: State, waiting: Pending, other: Pending) -> State:
    return replace(state, pending=tuple(other if each is waiting else each for each in state.pending))

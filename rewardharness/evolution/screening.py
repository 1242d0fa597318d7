"""What happens to proposals before their acceptance test: screening by successive halving, and rehearsals of Tools.

Screening is for judges whose judgments are expensive. The proposals of a round are judged on a few of the examples that
they are written from. The lower half is dropped, except for edits that fixed something; the others are judged on more
examples, and those are tested that fixed more than they broke. The examples that count as evidence are not judged, so
screening leaves the error rate of the acceptance test as it is. It makes tests rarer and their edits better: each test
uses a part of the error budget. Therefore edits also wait, until enough of them are left for a test that is likely to
succeed.

A rehearsal calls a new prompted Tool on a few examples, as one with unusable replies would spoil every judgment that
calls it. Unusable replies are sent to the Orchestrator once; if the repaired Tool has unusable replies, too, its
proposal is skipped. Both are steps of their own, so that a killed run asks neither model twice.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter

from rewardharness.errors import LibraryError
from rewardharness.evolution.events import Rehearsed
from rewardharness.evolution.gate import GateDecision, sign_test
from rewardharness.evolution.proposal import Proposal
from rewardharness.evolution.state import Pending, State, Trial, seed_of
from rewardharness.evolution.steps import Run, emit_decided, emit_proposed, skip, trial_of, view_of
from rewardharness.judging.tools import Observation
from rewardharness.library.entry import Entry
from rewardharness.models.base import ModelError
from rewardharness.schema import Example

MOST_EXAMPLES = 3
"""Examples that a Tool is called on."""

RUNGS = (2, 5)
"""Examples that a proposal is judged on before each decision; chosen with `benchmarks/evolution_calls.py`."""

POLICY = "successive halving"
"""Name of screening in records."""


def unscreened(state: State) -> bool:
    """Return whether a pending proposal must be screened before its test."""
    return any(not (item.screened or item.single) for item in state.pending)


def promising(waiting: Sequence[Pending], alpha: float) -> bool:
    """Return whether screened proposals would pass a test of this level by the fixes and breaks of their screening.

    The evidence has more examples, and chosen edits do worse on it than they did in screening; counting both as equal
    balances the two.
    """
    return sign_test(sum(item.fixes for item in waiting), sum(item.breaks for item in waiting)) <= alpha


def screen(run: Run, state: State) -> State:
    """Screen the pending proposals: those that fixed more than they broke stay pending, the others are rejected.

    It is one step of a run; a killed step is repeated with cached judgments.

    Raises:
        Stopped, Exhausted, RunPaused: As `Evaluator.judge`.
    """
    waiting = [item for item in state.pending if not (item.screened or item.single)]
    alive = trials = [_candidate(run, state, item.proposal) for item in waiting]
    for number in RUNGS:
        for trial in alive:
            trial.ask(trial.touched[:number])
        alive = sorted(alive, key=_gain, reverse=True)  # stable: the Orchestrator's order decides ties
        if number != RUNGS[-1]:
            half = math.ceil(len(alive) / 2)
            alive = [one for rank, one in enumerate(alive) if _gain(one) > 0 or (rank < half and not _gain(one))]
    for item, trial in zip(waiting, trials, strict=True):
        tally, gain = trial.tally, _gain(trial)
        state = state.judged(trial.outcomes, run.noise, accepted=False)
        if trial in alive and gain > 0:
            state = state.instead(item, replace(item, screened=True, fixes=tally.fixes, breaks=tally.breaks))
            continue
        # The Orchestrator has seen these examples, so it may know how the edit does on them.
        reason = f"On {tally.judged} examples that you know it fixed {tally.fixes} and broke {tally.breaks}."
        state = state.instead(item).rejecting(item.proposal, reason)
        why = "other edits of the round did better" if gain > 0 else "not more fixes than breaks"
        counts = f"{tally.fixes} fixed, {tally.breaks} broken of {tally.judged} in screening"
        emit_decided(run, state, item.proposal, trial.evidence(GateDecision("reject", f"{counts}: {why}"), POLICY))
    return state


def _gain(trial: Trial) -> float:
    """Return the net gain, extrapolated to all examples that an edit affects."""
    tally = trial.tally
    return (tally.fixes - tally.breaks) / max(1, tally.judged) * len(trial.touched)


def _candidate(run: Run, state: State, proposal: Proposal) -> Trial:
    """Return the trial of a proposal on the examples that proposals are written from."""
    trial = trial_of(run, state, proposal, run.sides[0])
    seed = seed_of(run.seed, "screen", state.step, proposal.signature)
    trial.touched, trial.unsteady = trial.expect(trial.touched, state.histories, run.noise, seed), 0
    return trial


def new_tool(proposal: Proposal) -> Entry | None:
    """Return the prompted Tool that a proposal adds or changes; None if there is none."""
    return next((entry for entry in proposal.entries if entry.kind == "tool" and entry.measure is None), None)


def unrehearsed(run: Run, state: State, waiting: Pending) -> bool:
    """Return whether a pending proposal has a Tool that must be rehearsed first."""
    tool = new_tool(waiting.proposal)
    if tool is None or waiting.rehearsed or not run.evaluator.calls_tools or waiting.stale(state.library):
        return False
    old, read = state.library.get(tool.name), attrgetter("system_prompt", "output_schema", "body", "description")
    return old is None or read(tool) != read(old)


def rehearse(run: Run, state: State, waiting: Pending) -> State:
    """Rehearse a Tool: its proposal stays pending, is replaced by a repaired one, or is skipped.

    Raises:
        Stopped, Exhausted, Paused: As `Evaluator.judge`.
    """
    proposal = waiting.proposal
    bad = _call(run, state, proposal, repaired=False)
    if not bad:
        return state.instead(waiting, replace(waiting, rehearsed=True))
    better = _repaired(run, state, proposal, bad)
    reason = f"{_problem(bad)} {better}".strip()
    if not isinstance(better, str):
        bad = _call(run, state, better, repaired=True)
        if not bad:
            emit_proposed(run, state, better, better.applied_to(state.library))
            state = state.rejecting(proposal, "Its replies were unusable; a repaired Tool replaces it.")
            return state.instead(waiting, replace(Pending.of(better, state.library), rehearsed=True))
        reason = f"Called, repaired and called again: {_problem(bad)}"
        state = state.rejecting(better, reason)
    skip(run, state, proposal, reason)
    return state.instead(waiting).rejecting(proposal, reason)


def _call(run: Run, state: State, proposal: Proposal, *, repaired: bool) -> list[Observation]:
    """Call the Tool, if there is one; return the observations with unusable replies."""
    tool = new_tool(proposal)
    if tool is None:
        return []
    seen = [item for item in run.evaluator.rehearse(tool, _examples(run, state, proposal)) if not item.lost]
    bad = [item for item in seen if item.problem]
    if seen:
        replies = tuple({"example": item.example, "said": item.said, "problem": item.problem} for item in seen)
        run.emit(Rehearsed(tool.name, proposal.signature, replies, not bad, repaired, step=state.step))
    return bad


def _problem(bad: Sequence[Observation]) -> str:
    return " ".join(dict.fromkeys(observation.problem for observation in bad))


def _examples(run: Run, state: State, proposal: Proposal) -> list[Example]:
    """Return the examples that the proposal cites, or else the first that it touches."""
    training = {example.id: example for example in run.pool}
    cited = [training[name] for name in proposal.cited if name in training]
    if not cited:
        with suppress(LibraryError):  # it no longer fits; the acceptance test reports that
            cited = [*run.evaluator.affected(state.library, proposal.applied_to(state.library), run.pool)]
    return cited[:MOST_EXAMPLES]


def _repaired(run: Run, state: State, proposal: Proposal, bad: Sequence[Observation]) -> Proposal | str:
    """Ask the Orchestrator for a repaired proposal; return the reason as text if there is none."""
    replies = "\n".join(f"- {item.problem} The reply: {item.said or '(nothing)'}" for item in bad)
    outcomes = [state.outcomes[example.id] for example in run.sides[0] if example.id in state.outcomes]
    view = replace(view_of(run, state, outcomes, 1), phase="tools", rejected=state.rejected)
    try:
        better = run.orchestrator.repair(view, proposal, replies)
    except ModelError as error:
        return f"The Orchestrator gave no answer when asked to repair it ({error.code})."
    if better is None:
        dropped = " ".join(failure.problem for failure in run.orchestrator.dropped)
        return f"The Orchestrator did not repair it. {dropped}"
    if better.signature in {proposal.signature, *(tried.signature for tried in state.rejected)}:
        return "The Orchestrator returned the same proposal."
    try:
        better.applied_to(state.library)
    except LibraryError as error:
        return f"The repaired proposal does not fit: {error.message}"
    return better

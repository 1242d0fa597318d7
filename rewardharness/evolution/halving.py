"""Screening of proposals by successive halving, for judges whose judgments are expensive.

The proposals of a round are judged on a few of the examples that they are written from. The lower half is dropped,
except for edits that fixed something; the others are judged on more examples, and those are tested that fixed more than
they broke. The examples that count as evidence are not
judged, so screening leaves the error rate of the acceptance test as it is. It makes tests rarer and their edits better:
each test uses a part of the error budget. Therefore edits also wait, until enough of them are left for a test that is
likely to succeed.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rewardharness.evolution.gate import Evidence, Tally, sign_test
from rewardharness.evolution.proposal import Outcome, RejectedProposal
from rewardharness.evolution.state import Pending, State, seed_of
from rewardharness.evolution.steps import Run, emit_decided
from rewardharness.evolution.trial import alternate, check_coverage, credit_change, credit_of
from rewardharness.library.store import Library
from rewardharness.schema import Example

RUNGS = (2, 5)
"""Examples that a proposal is judged on before each decision; chosen with `benchmarks/evolution_calls.py`."""

POLICY = "successive halving"
"""Name of screening in records."""


def unscreened(state: State) -> bool:
    """Return whether a pending proposal must be screened before its test."""
    return any(not (item.screened or item.single) for item in state.pending)


def promising(waiting: Iterable[Pending], alpha: float) -> bool:
    """Return whether screened proposals would pass a test of this level by the fixes and breaks of their screening.

    The evidence has more examples, and chosen edits do worse on it than they did in screening; counting both as equal
    balances the two.
    """
    counts = [(item.fixes, item.breaks) for item in waiting]
    return sign_test(sum(fixes for fixes, _ in counts), sum(breaks for _, breaks in counts)) <= alpha


def screen(run: Run, state: State) -> State:
    """Screen the pending proposals: those that fixed more than they broke stay pending, the others are rejected.

    It is one step of a run; a killed step is repeated with cached judgments.

    Raises:
        Stopped, Exhausted, RunPaused: As `Evaluator.judge`.
    """
    everyone = [_candidate(run, state, item) for item in state.pending if not (item.screened or item.single)]
    alive = everyone
    for examples in RUNGS:
        for candidate in alive:
            candidate.judge(run, examples)
        alive = sorted(alive, key=lambda candidate: -candidate.gain)  # stable: the Orchestrator's order decides ties
        if examples != RUNGS[-1]:
            half = math.ceil(len(alive) / 2)
            alive = [item for rank, item in enumerate(alive) if item.gain > 0 or (rank < half and item.gain == 0)]
    passed = [candidate for candidate in alive if candidate.gain > 0]
    pending = {item.proposal.signature: item for item in state.pending}
    for candidate in everyone:
        state = state.judged(candidate.outcomes, run.noise, accepted=False)
        item, tally = candidate.waiting, candidate.tally
        if candidate in passed:
            pending[item.proposal.signature] = replace(item, screened=True, fixes=tally.fixes, breaks=tally.breaks)
            continue
        del pending[item.proposal.signature]
        # The Orchestrator has seen these examples, so it may know how the edit does on them.
        reason = f"On {tally.judged} examples that you know it fixed {tally.fixes} and broke {tally.breaks}."
        state = replace(state, rejected=(*state.rejected, RejectedProposal.of(item.proposal, reason)))
        emit_decided(run, state, item.proposal, candidate.evidence())
    return replace(state, pending=tuple(pending.values()))


@dataclass(eq=False)
class _Candidate:
    """A proposal, and how it does so far."""

    waiting: Pending
    after: Library
    affected: Sequence[Example]
    """The examples that it affects, of those that proposals are written from; in the order in which they are judged."""
    before: Mapping[str, Outcome]
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)

    @property
    def gain(self) -> float:
        """The net gain, extrapolated to all examples that it affects."""
        return (self.tally.fixes - self.tally.breaks) / max(1, self.tally.judged) * len(self.affected)

    def judge(self, run: Run, number: int) -> None:
        """Judge it on so many examples in all."""
        new = self.affected[len(self.outcomes) : number]
        for outcome in run.evaluator.judge(self.after, new):
            self.outcomes[outcome.example.id] = outcome
            before, after = credit_of(self.before[outcome.example.id]), credit_of(outcome)
            if before is not None and after is not None:
                self.tally.count(before, after)
        check_coverage(self.outcomes.values())

    def evidence(self) -> Evidence:
        """Return the evidence of its rejection."""
        tally = self.tally
        changes = {name: credit_change(self.before[name], outcome) for name, outcome in self.outcomes.items()}
        why = "other edits of the round did better" if self.gain > 0 else "not more fixes than breaks"
        return Evidence(
            decision="reject",
            reason=f"{tally.fixes} fixed, {tally.breaks} broken of {tally.judged} in screening: {why}",
            policy=POLICY,
            fixes=tally.fixes,
            breaks=tally.breaks,
            ties=tally.ties,
            failed=len(self.outcomes) - tally.judged,
            judged=tally.judged,
            affected=len(self.affected),
            calls=len(self.outcomes),
            fixed=tuple(name for name, change in changes.items() if change > 0),
            broken=tuple(name for name, change in changes.items() if change < 0),
        )


def _candidate(run: Run, state: State, waiting: Pending) -> _Candidate:
    after = waiting.proposal.applied_to(state.library)
    affected = run.evaluator.affected(state.library, after, run.sides[0])
    steady = [
        example
        for example in affected
        if example.id in state.histories and not state.histories[example.id].unsteady(run.noise)
    ]
    seed = seed_of(run.seed, "screen", state.step, waiting.proposal.signature)
    return _Candidate(waiting, after, alternate(steady, state.outcomes, seed), state.outcomes)

"""Schedules: the order in which a run proposes, tests and prunes. The schedule of the paper is in `paper`.

A schedule turns one state into the next, one step at a time. It has no state of its own, so that a run can be resumed
after any step.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from rewardharness.errors import LibraryError
from rewardharness.evolution.events import PhaseBegan
from rewardharness.evolution.gate import ALPHA, SignTest, level
from rewardharness.evolution.joint.step import fit_next, fits
from rewardharness.evolution.proposal import Outcome, Phase, Proposal
from rewardharness.evolution.screening import promising, rehearse, screen, unrehearsed, unscreened
from rewardharness.evolution.state import Pending, State
from rewardharness.evolution.steps import (
    PRUNING,
    Run,
    bundle_of,
    decide,
    emit_proposed,
    pending_of,
    prune_order,
    removal,
    request_proposals,
    skip,
)
from rewardharness.evolution.trial import GateSettings
from rewardharness.schema import Example

FIT = 0.3
"""Part of the error budget for the joint fit, where there is one."""

BUNDLES = 0.8
"""Part of the rest of the error budget for the first tests of rounds; what remains is for single edits and pruning."""

LEAST_TOUCHED = 20
"""Training examples that an entry must touch to be considered in pruning; fewer give too little evidence."""

ROOM = 2
"""Judgments per training example that must be left in the budget for proposals to wait for others."""

NO_EVIDENCE = "There was no evidence that it helps."
"""What an Orchestrator learns about an edit that was tested and rejected."""

NO_PROPOSALS = "the Orchestrator proposed nothing more that could be tested"
"""Why a search ended that no limit ended."""


class Schedule(Protocol):
    """The order of a search."""

    @property
    def name(self) -> str:
        """Name, as in the configuration."""

    def watched(self, training: tuple[Example, ...]) -> tuple[Example, ...]:
        """Return the training examples that acceptance tests use."""

    def advance(self, run: Run, state: State) -> State:
        """Take the next step. The caller increments the number of the step."""


@dataclass(frozen=True)
class DefaultSchedule:
    """Tests the edits of a round as one bundle, then each on its own: Skills, then Tools, repeatedly; then pruning.

    Proposals are written from one part of the training examples and tested on the other, with one error budget for the
    whole run.
    """

    proposals: int = 60
    """Maximum number of proposals."""
    per_round: int = 6
    """Proposals per request to the Orchestrator."""
    patience: int = 3
    """Rounds without an accepted edit after which a phase ends."""
    alpha: float = ALPHA
    """Maximum probability that a run accepts an edit although none helps."""
    batch: int = 2
    """Examples judged between two looks at the evidence."""
    screen: bool = True
    """Whether proposals are screened by successive halving; for judges whose judgments cost something."""
    refresh: bool = False
    """Whether a noisy judge judges the examples that an accepted edit changes a second time."""
    prune_share: float = 0.05
    """Maximum cost of pruning as a share of the judgments spent before; 0 for no pruning."""

    name = "default"

    @property
    def fit_alpha(self) -> float:
        """Maximum probability that the joint fit is accepted although the labels are random."""
        return FIT * self.alpha

    def watched(self, training: tuple[Example, ...]) -> tuple[Example, ...]:
        """Return all of them."""
        return training

    def advance(self, run: Run, state: State) -> State:
        """Take the next step."""
        if state.pending:
            untried = next((item for item in state.pending if unrehearsed(run, state, item)), None)
            if untried:
                return rehearse(run, state, untried)
            if self.screen and state.phase != "prune" and unscreened(state):
                return screen(run, state)
            if not self._waits(run, state):
                return self._decide(run, state)
        if state.phase == "prune":
            return self._prune(run, state)
        if state.fitting and fits(state):
            return fit_next(run, state, self.fit_alpha)
        left = self.proposals - state.proposed
        if left <= 0:
            return self._enter(run, state, "prune")
        if state.idle >= self.patience:
            return self._next_phase(run, state)
        return self._propose(run, state, min(self.per_round, left))

    def _waits(self, run: Run, state: State) -> bool:
        """Return whether the pending proposals wait for others, because a test is not likely to succeed yet."""
        if any(item.single or not item.screened for item in state.pending):
            return False
        if state.phase == "prune" or state.idle >= self.patience or state.proposed >= self.proposals:
            return False
        most = run.evaluator.limits.budget.judgments
        if most is not None and most - run.evaluator.spent.judgments < ROOM * len(run.pool):
            return False
        return not promising(state.pending, self._policy(state, single=False).alpha)

    def _propose(self, run: Run, state: State, limit: int) -> State:
        asked, proposals, replied = request_proposals(run, state, self._outcomes(run, state), limit)
        pending = (*state.pending, *pending_of(proposals, state.library))
        if not replied and not pending:
            return self._next_phase(run, asked)
        idle = state.idle + 1 if replied else self.patience  # proposals that wait are tested before the phase ends
        return replace(asked, pending=pending, idle=idle, proposed=state.proposed + len(proposals))

    def _next_phase(self, run: Run, state: State) -> State:
        """Enter the next phase: Tools after Skills if the judge calls any, Skills again after progress, or pruning."""
        if state.phase == "skills":
            return self._enter(run, state, "tools" if run.evaluator.calls_tools else "prune")
        return self._enter(run, state, "skills" if state.gained else "prune")

    def _enter(self, run: Run, state: State, phase: Phase) -> State:
        run.emit(PhaseBegan(phase, state.round, step=state.step))
        gained = state.gained and phase != "skills"
        return replace(state, phase=phase, idle=0, gained=gained, pending=())

    def _decide(self, run: Run, state: State) -> State:
        """Test the pending proposals: a round as one bundle, then each on its own if the bundle is rejected."""
        single = state.pending[0].single
        waiting = state.pending[:1] if single else state.pending
        chosen, left = _compatible(run, state, waiting)
        state = replace(state, pending=(*left, *state.pending[len(waiting) :]))
        if not chosen:
            return state
        proposal = bundle_of([item.proposal for item in chosen])
        singles = tuple(replace(item, single=True) for item in chosen) if len(chosen) > 1 else ()
        # The proposer has not seen the examples that count; pruning has seen none.
        counted = {example.id for example in (run.pool if proposal.source == PRUNING else run.sides[1])}
        policy = self._policy(state, single)
        problem = self._problem(run, state, policy, proposal, counted)
        if problem:
            tried = state
            if not singles:
                skip(run, state, proposal, problem)
        else:
            gate = GateSettings(policy, run.noise, self.batch)
            tried = decide(run, state, proposal, gate, counted, refresh=self.refresh)
            tried = replace(tried, tests=state.tests + (not single), single_tests=state.single_tests + single)
            if tried.version > state.version:
                return tried
        if singles:
            return replace(tried, pending=(*singles, *state.pending))
        # The Orchestrator learns only that the edit was rejected; it must not see the evidence.
        return tried.rejecting(proposal, problem or NO_EVIDENCE)

    def _policy(self, state: State, single: bool) -> SignTest:
        """Return the next test of bundles or of single edits; each kind has its own part of the error budget."""
        alpha = (1 - FIT) * self.alpha if state.fitted else self.alpha
        if single:
            return SignTest(level(state.single_tests + 1, (1 - BUNDLES) * alpha))
        return SignTest(level(state.tests + 1, BUNDLES * alpha))

    def _problem(self, run: Run, state: State, policy: SignTest, proposal: Proposal, counted: Collection[str]) -> str:
        """Return why a proposal is not tested, decided without labels; empty if it is tested."""
        touched = run.evaluator.affected(state.library, proposal.applied_to(state.library), run.pool)
        number = sum(example.id in counted for example in touched)
        if number < policy.least:
            return f"It affects {number} of the examples that count as evidence; at least {policy.least} are needed."
        if state.phase == "prune" and len(touched) > state.prune_limit - run.evaluator.spent.judgments:
            return "The test would cost more than the limit of pruning."
        return ""

    def _prune(self, run: Run, state: State) -> State:
        """Ask once for entries to merge, then propose to remove one entry after the other."""
        spent = run.evaluator.spent.judgments
        if state.queue is None:
            limit = spent + int(self.prune_share * spent)
            begun = replace(state, queue=prune_order(state.library), prune_limit=limit)
            if not self.prune_share:
                return replace(begun, queue=())
            asked, proposals, _ = request_proposals(run, begun, self._outcomes(run, state), self.per_round)
            return replace(asked, pending=pending_of(proposals, state.library))
        if not state.queue or spent >= state.prune_limit:
            return replace(state, ending=ending_of(state, self.proposals))
        name, state = state.queue[0], replace(state, queue=state.queue[1:])
        if name not in state.library:
            return state
        proposal = removal(state.library, name)
        after = proposal.applied_to(state.library)
        if len(run.evaluator.affected(state.library, after, run.pool)) < LEAST_TOUCHED:
            return state
        emit_proposed(run, state, proposal, after)
        return replace(state, pending=(Pending.of(proposal, state.library, single=True),))

    def _outcomes(self, run: Run, state: State) -> list[Outcome]:
        return [state.outcomes[example.id] for example in run.sides[0]]


def ending_of(state: State, limit: int) -> str:
    """Return why a search ends that has nothing left to test."""
    return f"the limit of {limit} proposals is reached" if state.proposed >= limit else NO_PROPOSALS


def _compatible(run: Run, state: State, waiting: Sequence[Pending]) -> tuple[list[Pending], tuple[Pending, ...]]:
    """Choose the proposals that fit the champion and each other.

    Returns:
        The chosen ones; and those that touch an entry of an earlier one and are tested on their own. Those that do not
        fit the champion are skipped.
    """
    chosen, left, after, names = [], [], state.library, set[str]()
    for item in waiting:
        problem = "An entry that it touches has changed since it was proposed." if item.stale(state.library) else ""
        if not problem and names.intersection(item.proposal.names):
            left.append(replace(item, single=True))
            continue
        try:
            after = after if problem else item.proposal.applied_to(after)
        except LibraryError as error:
            problem = error.message
        if problem:
            skip(run, state, item.proposal, problem)
            continue
        chosen.append(item)
        names.update(item.proposal.names)
    return chosen, tuple(left)

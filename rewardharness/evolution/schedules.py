"""Schedules: in which order a run asks, tries and prunes. Ours is here; the paper's, to compare with, is in `paper`.

A schedule turns one state into the next, one step at a time. It keeps nothing itself, so that a run can end after any
step and go on from there.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from rewardharness.errors import LibraryError
from rewardharness.evolution.events import PhaseBegan
from rewardharness.evolution.gate import ALPHA, SignTest, level
from rewardharness.evolution.proposal import Outcome, Phase, Proposal, Tried
from rewardharness.evolution.prune import LEAST_TOUCHED, PRUNING, prune_order, removal
from rewardharness.evolution.rehearsal import rehearse, unrehearsed
from rewardharness.evolution.state import Pending, State, chance
from rewardharness.evolution.steps import Run, announce, ask, decided, keep, passed, pend, together
from rewardharness.evolution.trial import GateSettings, Trial, try_edit
from rewardharness.library.store import Library
from rewardharness.schema import Example

SCREEN_FROM = 15
"""Proposals in a run from which on a screen pays: below, the good edits that it costs weigh more than the calls."""

BUNDLES = 0.8
"""Part of the error budget that the first tests of rounds may spend; the rest is for single edits and for pruning."""

NO_EVIDENCE = "There was no evidence that it helps."
"""What an Orchestrator learns of an edit that was tested and rejected."""

DRY = "the Orchestrator proposed nothing more that could be tried"
"""Why a search ends that was not cut short."""


class Schedule(Protocol):
    """The order of things."""

    @property
    def name(self) -> str:
        """As it is chosen."""

    def watched(self, pool: tuple[Example, ...]) -> tuple[Example, ...]:
        """The examples of the pool that gates look at."""

    def advance(self, run: Run, state: State) -> State:
        """Take the next step. The step's number is raised by the caller."""


@dataclass(frozen=True)
class DefaultSchedule:
    """A round's edits as one bundle, then each on its own. Skills, then Tools, again while that helps; then pruning.

    Proposals are written from one part of the pool and tested on the other, with an error budget for the whole run.
    """

    proposals: int = 60
    """Most proposals that are asked for."""
    per_round: int = 6
    """Proposals that the Orchestrator is asked for at a time."""
    patience: int = 3
    """Rounds without anything kept after which a phase ends."""
    alpha: float = ALPHA
    """Probability that a run accepts anything although no edit helps, at most."""
    batch: int = 2
    """Examples judged between two looks at the evidence."""
    screen: bool | None = None
    """Whether edits are screened on the failures they cite; None: in runs of at least `SCREEN_FROM` proposals."""
    refresh: bool = False
    """Whether a noisy judge looks twice at what an accepted edit flips before that is believed."""
    prune_share: float = 0.05
    """Most that pruning may cost, as a share of the judgments spent before; 0 for no pruning."""

    name = "default"

    def watched(self, pool: tuple[Example, ...]) -> tuple[Example, ...]:
        """All of them."""
        return pool

    def advance(self, run: Run, state: State) -> State:
        """Take the next step."""
        if state.pending:
            untried = next((each for each in state.pending if unrehearsed(run, state, each)), None)
            return rehearse(run, state, untried) if untried else self._decide(run, state)
        if state.phase == "prune":
            return self._prune(run, state)
        left = self.proposals - state.proposed
        if left <= 0:
            return self._enter(run, state, "prune")
        if state.idle >= self.patience:
            return self._next_phase(run, state)
        return self._propose(run, state, min(self.per_round, left))

    def _propose(self, run: Run, state: State, limit: int) -> State:
        asked, proposals, said = ask(run, state, self._outcomes(run, state), limit)
        proposed = state.proposed + len(proposals)
        idle = replace(asked, pending=pend(proposals, state.library), idle=state.idle + 1, proposed=proposed)
        return idle if said else self._next_phase(run, asked)

    def _next_phase(self, run: Run, state: State) -> State:
        """Tools follow Skills if the judge calls any; Skills follow Tools if anything was kept; pruning is last."""
        if state.phase == "skills":
            return self._enter(run, state, "tools" if run.bench.calls_tools else "prune")
        return self._enter(run, state, "skills" if state.gained else "prune")

    def _enter(self, run: Run, state: State, phase: Phase) -> State:
        run.tell(lambda: PhaseBegan(phase, state.round, step=state.step))
        gained = state.gained and phase != "skills"
        return replace(state, phase=phase, idle=0, gained=gained, pending=())

    def _decide(self, run: Run, state: State) -> State:
        """Try what waits: a round's proposals as one bundle, and each on its own where the bundle is rejected."""
        single = state.pending[0].single
        waiting = state.pending[:1] if single else state.pending
        chosen, left, after = _compatible(run, state, waiting)
        state = replace(state, pending=(*left, *state.pending[len(waiting) :]))
        if not chosen:
            return state
        proposal = together([each.proposal for each in chosen])
        singles = tuple(replace(each, single=True) for each in chosen) if len(chosen) > 1 else ()
        policy, evidence = self._policy(state, single), self._evidence(run, proposal)
        touched = run.bench.affected(state.library, after, run.pool)
        why_not = self._why_not(run, state, policy, touched, evidence)
        if why_not:
            if singles:
                return replace(state, pending=(*singles, *state.pending))
            passed(run, state, proposal, why_not)
            return replace(state, rejected=(*state.rejected, Tried.of(proposal, why_not)))
        trial = self._try(run, state, proposal, after, policy, evidence)
        state = replace(state, tests=state.tests + (not single), single_tests=state.single_tests + single)
        if trial.evidence.decision == "accept":
            state = self._keep(run, state, proposal, after, trial)
            decided(run, state, proposal, trial.evidence)
            return state
        tried = replace(state.judged(trial.outcomes, run.noise, kept=False), pending=(*singles, *state.pending))
        if not singles:
            # The Orchestrator learns that it was rejected and nothing else: the evidence is not for it to see.
            tried = replace(tried, rejected=(*state.rejected, Tried.of(proposal, NO_EVIDENCE)))
        decided(run, tried, proposal, trial.evidence)
        return tried

    def _policy(self, state: State, single: bool) -> SignTest:
        """The next test of bundles, or of single edits. Both kinds have a part of the error budget of their own."""
        if single:
            return SignTest(level(state.single_tests + 1, (1 - BUNDLES) * self.alpha))
        return SignTest(level(state.tests + 1, BUNDLES * self.alpha))

    def _evidence(self, run: Run, proposal: Proposal) -> set[str]:
        """Ids of the examples that count: those that the proposer has not seen. Pruning has seen none."""
        counted = run.pool if proposal.source == PRUNING else run.sides[1]
        return {example.id for example in counted}

    def _why_not(
        self, run: Run, state: State, policy: SignTest, touched: Sequence[Example], evidence: Collection[str]
    ) -> str:
        """Say why a proposal is not worth a test, without looking at any label; empty where it is."""
        number = sum(example.id in evidence for example in touched)
        if number < policy.least:
            return f"It touches {number} examples that count as evidence; at least {policy.least} are needed."
        if state.phase == "prune" and len(touched) > state.prune_limit - run.bench.spent.judgments:
            return "To try it would cost more than pruning may."
        return ""

    def _try(
        self, run: Run, state: State, proposal: Proposal, after: Library, policy: SignTest, evidence: Collection[str]
    ) -> Trial:
        screen = self.proposals >= SCREEN_FROM if self.screen is None else self.screen
        return try_edit(
            run.bench.affected(state.library, after, run.pool),
            proposal,
            state.outcomes,
            state.standings,
            lambda examples: run.bench.judge(after, examples),
            GateSettings(policy, run.noise, screen, self.batch),
            chance(run.seed, "gate", state.step, proposal.signature),
            evidence,
        )

    def _keep(self, run: Run, state: State, proposal: Proposal, after: Library, trial: Trial) -> State:
        state = keep(run, state, proposal, trial.outcomes, trial.evidence)
        flipped = {*trial.evidence.fixed, *trial.evidence.broken}
        if not (self.refresh and run.bench.noisy and flipped):
            return state
        return state.confirmed(run.bench.fresh(after, [example for example in run.pool if example.id in flipped]))

    def _prune(self, run: Run, state: State) -> State:
        """Ask once what could be merged, then propose to do without one entry after the other."""
        spent = run.bench.spent.judgments
        if state.queue is None:
            limit = spent + int(self.prune_share * spent)
            begun = replace(state, queue=prune_order(state.library), prune_limit=limit)
            if not self.prune_share:
                return replace(begun, queue=())
            asked, proposals, _ = ask(run, begun, self._outcomes(run, state), self.per_round)
            return replace(asked, pending=pend(proposals, state.library))
        if not state.queue or spent >= state.prune_limit:
            all_tried = state.proposed >= self.proposals
            return replace(state, ending=f"the limit of {self.proposals} proposals is reached" if all_tried else DRY)
        name, state = state.queue[0], replace(state, queue=state.queue[1:])
        if name not in state.library:
            return state
        proposal = removal(state.library, name)
        after = proposal.applied_to(state.library)
        if len(run.bench.affected(state.library, after, run.pool)) < LEAST_TOUCHED:
            return state
        announce(run, state, proposal, after)
        return replace(state, pending=(Pending.of(proposal, state.library, single=True),))

    def _outcomes(self, run: Run, state: State) -> list[Outcome]:
        return [state.outcomes[example.id] for example in run.sides[0]]


def _compatible(
    run: Run, state: State, waiting: Sequence[Pending]
) -> tuple[list[Pending], tuple[Pending, ...], Library]:
    """Choose the proposals that fit the champion and each other.

    Returns:
        The chosen ones; those that touch an entry of an earlier one and are tried on their own; and the Library with
        the chosen ones. What does not fit the champion is passed over.
    """
    chosen, left, after, names = [], [], state.library, set[str]()
    for each in waiting:
        problem = "An entry that it touches has changed since it was proposed." if each.stale(state.library) else ""
        if not problem and names.intersection(each.proposal.names):
            left.append(replace(each, single=True))
            continue
        try:
            edited = after if problem else each.proposal.applied_to(after)
        except LibraryError as error:
            problem = error.message
        if problem:
            passed(run, state, each.proposal, problem)
            continue
        chosen.append(each)
        after, names = edited, names.union(each.proposal.names)
    return chosen, tuple(left), after

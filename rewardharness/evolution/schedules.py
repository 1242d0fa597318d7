"""Schedules: in which order a run asks, tries and prunes. Ours is here; the paper's, to compare with, is in `paper`.

A schedule turns one state into the next, one step at a time. It keeps nothing itself, so that a run can end after any
step and go on from there.
"""

from dataclasses import dataclass, replace
from typing import Protocol

from rewardharness.errors import LibraryError
from rewardharness.evolution.events import PhaseBegan
from rewardharness.evolution.gate import OUR_GATE, Evidence, Policy
from rewardharness.evolution.narrow import narrow
from rewardharness.evolution.proposal import Outcome, Phase, Proposal, Tried
from rewardharness.evolution.prune import LEAST_TOUCHED, NonInferiorityGate, prune_order, removal, unread
from rewardharness.evolution.rehearsal import rehearse, unrehearsed
from rewardharness.evolution.state import Pending, State, chance
from rewardharness.evolution.steps import Run, announce, ask, decided, keep, lineage, passed, pend
from rewardharness.evolution.trial import GateSettings, Trial, try_edit
from rewardharness.library.store import Library
from rewardharness.schema import Example

SCREEN_FROM = 15
"""Proposals in a run from which on a screen pays: below, the good edits that it costs weigh more than the calls."""

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
    """One edit at a time, each tried on what it touches. Skills, then Tools, again while that helps; then pruning."""

    proposals: int = 60
    """Most proposals that are tried."""
    per_round: int = 6
    """Proposals that the Orchestrator is asked for at a time."""
    patience: int = 3
    """Rounds without anything kept after which a phase ends."""
    policy: Policy = OUR_GATE
    batch: int = 2
    """Examples judged between two looks at the evidence."""
    screen: bool | None = None
    """Whether edits are screened on the failures they cite; None: in runs of at least `SCREEN_FROM` proposals."""
    revise: bool = True
    """Whether an edit that fixes more than it breaks, and is not kept, gets one narrower attempt."""
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
            first = state.pending[0]
            return rehearse(run, state, first) if unrehearsed(run, state, first) else self._decide(run, state)
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
        idle = replace(asked, pending=pend(proposals, state.library), idle=state.idle + 1)
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
        """Bring the first waiting proposal to the gate."""
        waiting, rest = state.pending[0], state.pending[1:]
        proposal = waiting.proposal
        state = replace(state, pending=rest)
        if waiting.stale(state.library):
            passed(run, state, proposal, "An entry that it touches has changed since it was proposed.")
            return state
        try:
            after = proposal.applied_to(state.library)
        except LibraryError as error:
            passed(run, state, proposal, error.message)
            return state
        if state.phase == "prune" and self._too_dear(run, state, after):
            passed(run, state, proposal, "To try it would cost more than pruning may.")
            return state
        trial = self._try(run, state, proposal, after)
        state = replace(state, proposed=state.proposed + (state.phase != "prune" and not waiting.narrowed))
        if trial.evidence.decision == "accept":
            state = self._keep(run, state, proposal, after, trial)
            decided(run, state, proposal, trial.evidence)
            return state
        reason = trial.evidence.reason
        tried = replace(
            state.judged(trial.outcomes, run.noise, kept=False),
            rejected=(*state.rejected, Tried.of(proposal, reason)),
        )
        decided(run, tried, proposal, trial.evidence)
        again = self.revise and not waiting.narrowed and state.phase != "prune"
        narrower = self._narrower(run, tried, proposal, trial.evidence) if again else None
        return replace(tried, pending=(narrower, *rest)) if narrower else tried

    def _try(self, run: Run, state: State, proposal: Proposal, after: Library) -> Trial:
        touched = run.bench.affected(state.library, after, run.pool)
        pruning = state.phase == "prune"
        smaller = pruning or proposal.operator == "merge"
        policy = NonInferiorityGate(len(run.pool)) if smaller else self.policy
        screen = self.proposals >= SCREEN_FROM if self.screen is None else self.screen
        trial = try_edit(
            touched,
            proposal,
            state.outcomes,
            state.standings,
            lambda examples: run.bench.judge(after, examples),
            GateSettings(policy, run.noise, screen and not smaller, self.batch),
            chance(run.seed, "gate", state.step, proposal.signature),
        )
        removing = pruning and proposal.operator == "remove" and trial.evidence.decision == "accept"
        if not removing or not unread(state.outcomes, trial.outcomes):
            return trial
        reason = "no judgment changed: this judge does not read it"
        return replace(trial, evidence=replace(trial.evidence, decision="reject", reason=reason))

    def _keep(self, run: Run, state: State, proposal: Proposal, after: Library, trial: Trial) -> State:
        state = keep(state, after, trial.outcomes, run.noise, lineage(run, proposal, trial.evidence))
        flipped = {*trial.evidence.fixed, *trial.evidence.broken}
        if not (self.refresh and run.bench.noisy and flipped):
            return state
        return state.confirmed(run.bench.fresh(after, [example for example in run.pool if example.id in flipped]))

    def _narrower(self, run: Run, state: State, proposal: Proposal, evidence: Evidence) -> Pending | None:
        if not evidence.fixes > evidence.breaks > 0:
            return None
        fixed = [example for example in run.pool if example.id in evidence.fixed]
        broken = [example for example in run.pool if example.id in evidence.broken]
        narrower = narrow(proposal, state.library, fixed, broken)
        if narrower is None:
            return None
        try:
            after = narrower.applied_to(state.library)
        except LibraryError:
            return None
        announce(run, state, narrower, after)
        return Pending.of(narrower, state.library, narrowed=True)

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
            return replace(state, ending=f"all {self.proposals} proposals were tried" if all_tried else DRY)
        name, state = state.queue[0], replace(state, queue=state.queue[1:])
        if name not in state.library:
            return state
        proposal = removal(state.library, name)
        after = proposal.applied_to(state.library)
        touched = run.bench.affected(state.library, after, run.pool)
        if len(touched) < LEAST_TOUCHED or self._too_dear(run, state, after):
            return state
        announce(run, state, proposal, after)
        return replace(state, pending=pend([proposal], state.library))

    def _too_dear(self, run: Run, state: State, after: Library) -> bool:
        touched = run.bench.affected(state.library, after, run.pool)
        return len(touched) > state.prune_limit - run.bench.spent.judgments

    def _outcomes(self, run: Run, state: State) -> list[Outcome]:
        return [state.outcomes[example.id] for example in run.pool]

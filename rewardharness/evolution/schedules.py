"""Schedules: the order in which a run proposes, tests and prunes. Population searches are in `population`.

A schedule turns one state into the next, one step at a time. It has no state of its own, so that a run can be resumed
after any step.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from rewardharness.evolution import steps
from rewardharness.evolution.events import PhaseBegan
from rewardharness.evolution.gate import ALPHA, EXACT, MarginGate, SignTest, level
from rewardharness.evolution.joint.step import fit_next, fits
from rewardharness.evolution.progress import NO_PROPOSALS
from rewardharness.evolution.proposal import Outcome, Phase, Proposal
from rewardharness.evolution.screening import promising, rehearse, screen, unrehearsed, unscreened
from rewardharness.evolution.state import GateSettings, Pending, State, Trial, try_edit
from rewardharness.evolution.steps import Run
from rewardharness.library.store import Library, RemoveEntry
from rewardharness.schema import TIE, Example

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


class Schedule(Protocol):
    """The order of a search."""

    @property
    def name(self) -> str:
        """Name, as in the configuration."""

    def watched(self, training: tuple[Example, ...]) -> tuple[Example, ...]:
        """Return the training examples that acceptance tests use: all of them, unless a schedule chooses."""
        return training

    def advance(self, run: Run, state: State) -> State:
        """Take the next step. The caller increments the number of the step."""


@dataclass(frozen=True)
class DefaultSchedule(Schedule):
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
    prune_share: float = 0.05
    """Maximum cost of pruning as a share of the judgments spent before; 0 for no pruning."""

    name = "default"

    @property
    def fit_alpha(self) -> float:
        """Maximum probability that the joint fit is accepted although the labels are random."""
        return FIT * self.alpha

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
        asked, proposals, replied = steps.request_proposals(run, state, self._outcomes(run, state), limit)
        pending = (*state.pending, *(Pending.of(proposal, state.library) for proposal in proposals))
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
        return replace(state, phase=phase, idle=0, gained=state.gained and phase != "skills", pending=())

    def _decide(self, run: Run, state: State) -> State:
        """Test the pending proposals: a round as one bundle, then each on its own if the bundle is rejected."""
        single = state.pending[0].single
        waiting = state.pending[:1] if single else state.pending
        chosen, left = _compatible(run, state, waiting)
        state = replace(state, pending=(*left, *state.pending[len(waiting) :]))
        if not chosen:
            return state
        proposal = steps.bundle_of([item.proposal for item in chosen])
        singles = tuple(replace(item, single=True) for item in chosen) if len(chosen) > 1 else ()
        # The proposer has not seen the examples that count; pruning has seen none.
        counted = {example.id for example in (run.pool if proposal.source == steps.PRUNING else run.sides[1])}
        policy = self._policy(state, single)
        tried, problem = state, self._problem(run, state, policy, proposal, counted)
        if problem and not singles:
            steps.skip(run, state, proposal, problem)
        if not problem:
            gate = GateSettings(policy, run.noise, self.batch)
            tried = steps.decide(run, state, proposal, gate, counted)
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
        number, part = (state.single_tests, 1 - BUNDLES) if single else (state.tests, BUNDLES)
        return SignTest(level(number + 1, part * alpha))

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
            begun = replace(state, queue=steps.prune_order(state.library), prune_limit=limit)
            if not self.prune_share:
                return replace(begun, queue=())
            asked, proposals, _ = steps.request_proposals(run, begun, self._outcomes(run, state), self.per_round)
            return replace(asked, pending=tuple(Pending.of(proposal, state.library) for proposal in proposals))
        if not state.queue or spent >= state.prune_limit:
            return replace(state, ending=ending_of(state, self.proposals))
        name, state = state.queue[0], replace(state, queue=state.queue[1:])
        if name not in state.library:
            return state
        proposal = steps.removal(state.library, name)
        after = proposal.applied_to(state.library)
        if len(run.evaluator.affected(state.library, after, run.pool)) < LEAST_TOUCHED:
            return state
        steps.emit_proposed(run, state, proposal, after)
        return replace(state, pending=(Pending.of(proposal, state.library, single=True),))

    def _outcomes(self, run: Run, state: State) -> list[Outcome]:
        return [state.outcomes[example.id] for example in run.sides[0]]


@dataclass(frozen=True)
class PaperSchedule(Schedule):
    """The loop and the gate of the paper, to compare with (arXiv 2605.08703 and its published code).

    Bundles of edits are tested against a margin, without error control.

    The Orchestrator reads the first 60% of the training examples in both presentation orders; acceptance tests use the
    last 40%. Each iteration judges everything and tests all edits of Skills as one bundle, then all edits of Tools; a
    bundle is accepted if it scores at least the best accuracy so far minus a margin. Rejected edits are forgotten. New
    prompted Tools are rehearsed first, with the images that the published code leaves out. Nothing is pruned, which the
    published code does every 50 iterations.
    """

    iterations: int = 4
    """Iterations after the first judgment of all examples, which the paper counts as one more."""
    per_round: int = 6
    """Proposals per request to the Orchestrator, for Skills and for Tools."""

    name = "paper"

    def watched(self, training: tuple[Example, ...]) -> tuple[Example, ...]:
        """Return the last 40%."""
        return training[round(0.6 * len(training)) :]

    def advance(self, run: Run, state: State) -> State:
        """Take the next step: propose, test the Skills, or test the Tools."""
        if state.best is None:
            run.evaluator.judge(state.library, self._read(run), again=True)
            return replace(state, best=state.accuracy or 0.0)
        if state.round >= self.iterations and state.phase == "skills" and not state.pending:
            return replace(state, ending=f"all {self.iterations} iterations are done")
        if state.phase == "skills" and not state.pending:
            return self._propose(run, state)
        waiting = next((item for item in state.pending if unrehearsed(run, state, item)), None)
        if waiting is not None:
            return rehearse(run, state, waiting)
        return self._bundle(run, state)

    def _read(self, run: Run) -> list[Example]:
        """Return the examples that the Orchestrator reads, pairs in both orders."""
        train = run.pool[: len(run.pool) - len(self.watched(run.pool))]
        return [*train, *(swapped(example) for example in train if len(example.candidates) == 2)]

    def _propose(self, run: Run, state: State) -> State:
        outcomes = run.evaluator.judge(state.library, self._read(run), again=True)
        asked, skills, _ = steps.request_proposals(run, replace(state, rejected=()), outcomes, self.per_round)
        for_tools = replace(asked, phase="tools", round=state.round)
        after, tools, _ = steps.request_proposals(run, for_tools, outcomes, self.per_round)
        pending = tuple(Pending.of(proposal, state.library) for proposal in [*skills, *tools])
        proposed = state.proposed + len(pending)
        return replace(after, phase="skills", pending=pending, proposed=proposed)

    def _bundle(self, run: Run, state: State) -> State:
        """Test all edits of one kind at once."""
        tools = state.phase == "tools"
        mine = [item.proposal for item in state.pending if _of_tool(item.proposal, state.library) == tools]
        rest = tuple(item for item in state.pending if item.proposal not in mine)
        following = replace(state, pending=rest, phase="skills" if tools else "tools")
        library, fitting = state.library, []
        for proposal in mine:
            if (after := steps.applied(run, state, proposal, library)) is not None:
                library = after
                fitting.append(proposal)
        if not fitting:
            return following
        bundle = steps.bundle_of(fitting)
        watched = self.watched(run.pool)  # all are judged, whether the edit touches them or not
        trial = Trial(watched, state.outcomes, partial(run.evaluator.judge, library, again=True))
        gate = GateSettings(MarginGate(state.best or 0.0), EXACT, max(1, len(watched)))
        evidence = try_edit(trial, state.histories, gate, 0)
        if evidence.decision == "accept":
            following = steps.accept(run, following, bundle, trial.outcomes, evidence)
            following = replace(following, best=max(state.best or 0.0, following.accuracy or 0.0))
        steps.emit_decided(run, following, bundle, evidence)
        return following


def swapped(example: Example) -> Example:
    """Return a pair in the other order, label included."""
    label = {"A": "B", "B": "A", TIE: TIE, None: None}[example.preference]
    return replace(example, id=f"{example.id}_swap", candidates=example.candidates[::-1], preference=label)


def _of_tool(proposal: Proposal, library: Library) -> bool:
    """Return whether a proposal edits Tools."""
    entries = (library.get(one.name) if isinstance(one, RemoveEntry) else one.entry for one in proposal.changes)
    return any(entry is not None and entry.kind == "tool" for entry in entries)


def ending_of(state: State, limit: int) -> str:
    """Return why a search ends that has nothing left to test."""
    return f"the limit of {limit} proposals is reached" if state.proposed >= limit else NO_PROPOSALS


def _compatible(run: Run, state: State, waiting: Sequence[Pending]) -> tuple[list[Pending], tuple[Pending, ...]]:
    """Choose the proposals that fit the champion and each other.

    Returns:
        The chosen ones; and those that touch an entry of an earlier one and are tested on their own. Those that do not
        fit the champion are skipped.
    """
    chosen, left, library, names = [], [], state.library, set[str]()
    for item in waiting:
        if item.stale(state.library):
            steps.skip(run, state, item.proposal, "An entry that it touches has changed since it was proposed.")
        elif names.intersection(item.proposal.names):
            left.append(replace(item, single=True))
        elif (after := steps.applied(run, state, item.proposal, library)) is not None:
            chosen.append(item)
            names.update(item.proposal.names)
            library = after
    return chosen, tuple(left)

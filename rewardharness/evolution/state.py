"""The state of a run between two steps: a value that a step turns into the next one."""

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from rewardharness.evolution.gate import AnswerHistory, Evidence, GateDecision, Noise, Policy, Tally, sign_test
from rewardharness.evolution.proposal import Finding, Outcome, Phase, Proposal, RejectedProposal
from rewardharness.files import content_id
from rewardharness.library.store import Library
from rewardharness.runs.job import RunPaused
from rewardharness.schema import Example

COVERAGE = 0.5
"""Share of answers below which the run pauses instead of deciding."""

_COVERAGE_FROM = 4


@dataclass(frozen=True)
class GateSettings:
    """How edits are tested."""

    policy: Policy
    noise: Noise
    batch: int = 2
    """Examples judged between two looks at the evidence: more is faster, and costs a few calls more per edit."""


def credit_of(outcome: Outcome) -> float | None:
    """Return the credit of an outcome in [0, 1]; None if it says nothing about the Library.

    If the Library had nothing to say, it is the expected credit of a random choice. Other failures have no credit.
    """
    if outcome.judged:
        return outcome.credit
    return 1 / len(outcome.example.candidates) if outcome.unsupported else None


@dataclass(eq=False)
class Trial:
    """An edit, and what the judgments with it are evidence of."""

    touched: Sequence[Example]
    """Examples whose context it changes. All others keep their judgments, at no cost."""
    before: Mapping[str, Outcome]
    """Outcomes with the champion by id, at least those of `touched`."""
    judge: Callable[[Sequence[Example]], Iterable[Outcome]]
    """Judges examples with the edited Library."""
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    """Outcomes with the edited Library, by example id; of all examples that it touches if the edit is accepted."""
    tally: Tally = field(default_factory=Tally)
    unsteady: int = 0
    failed: int = 0
    by_judge: dict[str, float] = field(default_factory=dict)
    """Change of the credit of each of several judges, over the examples that count."""
    _due: dict[str, float] = field(default_factory=dict)
    """Credit without the edit of the examples that count and are not judged yet."""

    def expect(
        self, examples: Iterable[Example], histories: Mapping[str, AnswerHistory], noise: Noise, seed: int
    ) -> list[Example]:
        """Choose those of some examples that count, in the order in which they are judged.

        Those judged right and wrong alternate, each in seeded random order. An example without a judgment does not
        count, nor one that is judged inconsistently.
        """
        usable = [example for example in examples if example.id in histories]
        steady = [example for example in usable if not histories[example.id].unsteady(noise)]
        self.unsteady = len(usable) - len(steady)
        sides: tuple[list[Example], list[Example]] = ([], [])
        for example in sorted(steady, key=lambda example: example.id):
            credit = self._due[example.id] = credit_of(self.before[example.id]) or 0.0
            self.tally.expect(credit)
            sides[credit >= 0.5].append(example)
        rng, place = random.Random(seed), dict[str, float]()
        for side in sides:
            rng.shuffle(side)
            place |= {example.id: (number + 0.5) / len(side) for number, example in enumerate(side)}
        return sorted([*sides[0], *sides[1]], key=lambda example: (place[example.id], example.id))

    def ask(self, examples: Sequence[Example]) -> None:
        """Judge examples that were not judged yet, and count those that count.

        Raises:
            RunPaused: If most answers fail. Other exceptions are those of `judge`.
        """
        new = [example for example in examples if example.id not in self.outcomes]
        for outcome in self.judge(new) if new else ():
            name = outcome.example.id
            self.outcomes[name] = outcome
            before, after = credit_of(self.before[name]), credit_of(outcome)
            self.failed += before is None or after is None
            if name in self._due:
                self.tally.drop(self._due.pop(name))
                if before is not None and after is not None:
                    self.tally.count(before, after)
                    for judge, credit in outcome.credits.items():
                        change = credit - self.before[name].credits.get(judge, credit)
                        self.by_judge[judge] = self.by_judge.get(judge, 0.0) + change
        silent = sum(credit_of(outcome) is None for outcome in self.outcomes.values())
        if silent >= _COVERAGE_FROM and silent > (1 - COVERAGE) * len(self.outcomes):
            raise RunPaused(
                f"{silent} of {len(self.outcomes)} judgments of one edit failed, too many for a decision.",
                next_step="Find the cause (rh doctor checks endpoints), then give the same command again.",
                kind="endpoint",
            )

    def evidence(self, decision: GateDecision, policy: str, p_value: float | None = None) -> Evidence:
        """Return the evidence for a decision."""
        changes: dict[str, float] = {}
        for name in (example.id for example in self.touched if example.id in self.outcomes):
            before, after = credit_of(self.before[name]), credit_of(self.outcomes[name])
            changes[name] = 0.0 if before is None or after is None else after - before
        fixed = tuple(name for name, change in changes.items() if change > 0)
        broken = tuple(name for name, change in changes.items() if change < 0)
        tally, sizes = self.tally, (len(self.touched), len(self.outcomes))
        counts = tally.fixes, tally.breaks, tally.ties, self.failed, self.unsteady, tally.judged
        return Evidence(decision.decision, decision.reason, policy, *counts, *sizes, p_value, fixed, broken)


def try_edit(
    trial: Trial,
    histories: Mapping[str, AnswerHistory],
    gate: GateSettings,
    seed: int,
    counted: Collection[str] | None = None,
) -> Evidence:
    """Test an edit.

    Args:
        trial: The edit; gets the outcomes.
        histories: Histories of the examples; absent for those without a judgment.
        gate: The policy and its settings.
        seed: Seed of the order.
        counted: Ids of the examples that count, which the proposer has not seen; None for all.

    Returns:
        The evidence with the decision. Exceptions are those of `Trial.ask`.
    """
    policy, tally = gate.policy, trial.tally
    if not trial.touched:
        return trial.evidence(GateDecision("reject", "it changes the context of no example"), policy.name)
    examples = [example for example in trial.touched if counted is None or example.id in counted]
    order, start = trial.expect(examples, histories, gate.noise, seed), 0
    while (decision := policy.decide(tally)) is None:  # a policy decides when nothing is left
        trial.ask(order[start : start + gate.batch])
        start += gate.batch
    losing = [judge for judge, change in trial.by_judge.items() if change < -1e-9]
    if decision.decision == "accept" and losing:
        lost = "; ".join(f"{judge} loses {-trial.by_judge[judge]:g}" for judge in losing)
        decision = GateDecision("reject", f"{decision.reason}; but {lost} of {tally.judged}")
    if decision.decision == "accept":
        trial.ask(trial.touched)
        decision = policy.decide(tally) or decision
    changed = tally.fixes + tally.breaks
    return trial.evidence(decision, policy.name, sign_test(tally.fixes, tally.breaks) if changed else None)


WAITING = "It waits for its test."
"""What an Orchestrator learns about a proposal that was not tested yet."""


@dataclass(frozen=True)
class Pending:
    """A proposal that waits for its test."""

    proposal: Proposal
    base: Mapping[str, str]
    """Id of each entry that it touches, as the proposer saw it; empty for one that did not exist."""
    single: bool = False
    """Whether it is tested on its own, and not in one bundle with the others of its round."""
    rehearsed: bool = False
    """Whether the call of its new Tool was tried."""
    screened: bool = False
    """Whether it has passed screening."""
    fixes: int = 0
    """Examples that it fixed in screening."""
    breaks: int = 0
    """Examples that it broke in screening."""

    @classmethod
    def of(cls, proposal: Proposal, library: Library, *, single: bool = False) -> "Pending":
        """Return a proposal that was made for a Library."""
        return cls(proposal, entry_ids(library, proposal.names), single)

    @property
    def waiting(self) -> RejectedProposal:
        """What an Orchestrator learns about it: as of a rejected one, so that it is not proposed again."""
        return RejectedProposal.of(self.proposal, WAITING)

    def stale(self, library: Library) -> bool:
        """Whether an entry that it touches has changed since."""
        return entry_ids(library, self.base) != self.base


@dataclass(frozen=True)
class Member:
    """A Library of a population."""

    library: Library
    fitness: float
    """Value of the objective on the examples that proposals are written from."""
    by_kind: Mapping[str, float]
    """Accuracy by kind of edit."""
    island: int = 0
    """Number of its island, from 0."""


@dataclass(frozen=True)
class Population:
    """The Libraries of a population search."""

    members: tuple[Member, ...]
    seen: tuple[str, ...] = ()
    """Ids of all Libraries that were judged, so that none is judged twice."""
    generation: int = 0
    """Generations so far, of all islands."""
    asked: int = 0
    """Mutation operators asked for so far."""
    results: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Sums of the successes and failures of children, by mutation operator."""


@dataclass(frozen=True)
class State:
    """The state of a run between two steps."""

    library: Library
    """The champion: the best Library so far."""
    outcomes: Mapping[str, Outcome]
    """Its outcomes on the examples that acceptance tests use, by id."""
    histories: Mapping[str, AnswerHistory]
    """How consistently each is judged; absent for examples without a judgment."""
    step: int = 0
    phase: Phase = "skills"
    round: int = 0
    """Rounds of proposals so far."""
    idle: int = 0
    """Rounds in a row in which nothing was accepted."""
    gained: bool = False
    """Whether something was accepted since the latest phase `skills` began."""
    proposed: int = 0
    accepted: int = 0
    tests: int = 0
    """Acceptance tests of rounds so far; each spends a part of the error budget."""
    single_tests: int = 0
    """Acceptance tests of single edits, after their bundle was rejected and in pruning."""
    fitting: bool = True
    """Whether the joint fit has scopes left."""
    fitted: int = 0
    """Scopes that the joint fit has considered."""
    pending: tuple[Pending, ...] = ()
    rejected: tuple[RejectedProposal, ...] = ()
    findings: tuple[Finding, ...] = ()
    queue: tuple[str, ...] | None = None
    """Names of entries that pruning has not considered yet; None before pruning begins."""
    prune_limit: int = 0
    """Judgments spent at which pruning ends."""
    best: float | None = None
    """Best accuracy so far; only for the schedule of the paper."""
    silent: int = 0
    """Rounds in a row in which the Orchestrator gave no answer."""
    population: Population | None = None
    """The population, if the search has one."""
    version: int = 0
    """Number of the champion: how many edits were accepted, pruning included."""
    ending: str = ""
    """Why the search ended; empty before."""

    @property
    def accuracy(self) -> float | None:
        """Credit per judged example among `outcomes`; None if none was judged."""
        credits = [outcome.credit for outcome in self.outcomes.values() if outcome.judged]
        return fmean(credits) if credits else None

    def judged(self, outcomes: Mapping[str, Outcome], noise: Noise, *, accepted: bool) -> "State":
        """Return the state after examples were judged.

        Args:
            outcomes: By example id.
            noise: How answers are weighted.
            accepted: Whether they are of the new champion; otherwise they only update the histories.
        """
        histories = dict(self.histories)
        for name, outcome in outcomes.items():
            credit, history = credit_of(outcome), histories.get(name)
            if credit is None:
                if accepted:
                    histories.pop(name, None)
            elif accepted:
                histories[name] = history.renewed(credit, noise) if history else AnswerHistory(credit, 1.0)
            elif history and outcome.judged and self.outcomes[name].judged:
                histories[name] = history.remembering(credit, noise)
        if not accepted:
            return replace(self, histories=histories)
        return replace(self, histories=histories, outcomes={**self.outcomes, **outcomes})

    def rejecting(self, proposal: Proposal, reason: str) -> "State":
        """Return the state with one more rejected proposal."""
        return replace(self, rejected=(*self.rejected, RejectedProposal.of(proposal, reason)))

    def instead(self, waiting: Pending, *others: Pending) -> "State":
        """Return the state with others, or none, in the place of a pending proposal."""
        pending = [item for proposal in self.pending for item in (others if proposal is waiting else (proposal,))]
        return replace(self, pending=tuple(pending))


def begin(library: Library, outcomes: Iterable[Outcome]) -> State:
    """Return the state of a run whose examples were judged with the starting Library."""
    by_id = {outcome.example.id: outcome for outcome in outcomes}
    credits = {name: credit_of(outcome) for name, outcome in by_id.items()}
    return State(library, by_id, {name: AnswerHistory(one, 1.0) for name, one in credits.items() if one is not None})


def seed_of(*parts: object) -> int:
    """Return a random seed that depends only on the arguments, so that steps need no random state."""
    return int(content_id([str(part) for part in parts])[:12], 16)


def entry_ids(library: Library, names: Iterable[str]) -> dict[str, str]:
    """Return the ids of entries by name; empty for those that do not exist."""
    return {name: entry.entry_id if (entry := library.get(name)) else "" for name in names}

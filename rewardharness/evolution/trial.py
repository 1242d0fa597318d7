"""Tests one edit of the Library: judges as few examples as the acceptance test needs, and records the evidence."""

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rewardharness.evolution.analyzer import LIBRARY_FAILURES
from rewardharness.evolution.gate import (
    EXACT,
    FIRST_TEST,
    AnswerHistory,
    Evidence,
    GateDecision,
    Noise,
    Policy,
    Tally,
    sign_test,
)
from rewardharness.evolution.proposal import Outcome, Proposal
from rewardharness.evolution.stop import RunPaused
from rewardharness.schema import Example

COVERAGE = 0.5
"""Share of answers below which the run pauses instead of deciding."""

_COVERAGE_FROM = 4

JudgeExamples = Callable[[Sequence[Example]], Iterable[Outcome]]
"""Judges examples with the edited Library."""


@dataclass(frozen=True)
class GateSettings:
    """How edits are tested."""

    policy: Policy = FIRST_TEST
    noise: Noise = EXACT
    batch: int = 2
    """Examples judged between two looks at the evidence: more is faster, and costs a few calls more per edit."""


@dataclass(frozen=True)
class Trial:
    """The result of testing an edit."""

    evidence: Evidence
    outcomes: Mapping[str, Outcome]
    """Outcomes with the edited Library, by example id; of all examples that it touches if the edit is accepted."""


def credit_of(outcome: Outcome) -> float | None:
    """Return the credit of an outcome in [0, 1]; None if it says nothing about the Library.

    If the Library had nothing to say, it is the expected credit of a random choice. Other failures have no credit.
    """
    if outcome.judged:
        return outcome.credit
    failure = outcome.judgment.failure
    if failure is not None and failure.code in LIBRARY_FAILURES:
        return 1 / len(outcome.example.candidates)
    return None


def credit_change(before: Outcome, after: Outcome | None) -> float:
    """Return the change of the credit of an example; 0 without two judgments."""
    old, new = credit_of(before), credit_of(after) if after else None
    return 0.0 if old is None or new is None else new - old


def check_coverage(outcomes: Collection[Outcome]) -> None:
    """Check that enough judgments of an edit say something.

    Raises:
        RunPaused: If most of them failed.
    """
    silent = sum(credit_of(outcome) is None for outcome in outcomes)
    if silent >= _COVERAGE_FROM and silent > (1 - COVERAGE) * len(outcomes):
        raise RunPaused(
            f"{silent} of {len(outcomes)} judgments of one edit failed, too many for a decision.",
            next_step="Find the cause (rh doctor checks endpoints), then give the same command again.",
            kind="endpoint",
        )


def alternate(examples: Iterable[Example], before: Mapping[str, Outcome], seed: int) -> list[Example]:
    """Order examples so that those judged right and wrong alternate, each in seeded random order."""
    sides: tuple[list[Example], list[Example]] = ([], [])
    for example in sorted(examples, key=lambda example: example.id):
        sides[(credit_of(before[example.id]) or 0.0) >= 0.5].append(example)
    rng = random.Random(seed)
    placed: list[tuple[float, str, Example]] = []
    for side in sides:
        rng.shuffle(side)
        placed += [((number + 0.5) / len(side), example.id, example) for number, example in enumerate(side)]
    return [example for *_, example in sorted(placed, key=lambda item: item[:2])]


def first_history(outcome: Outcome) -> AnswerHistory | None:
    """Return the history of an example that was judged once; None if that failed."""
    credit = credit_of(outcome)
    return None if credit is None else AnswerHistory(credit, 1.0)


def try_edit(
    touched: Sequence[Example],
    proposal: Proposal,
    before: Mapping[str, Outcome],
    histories: Mapping[str, AnswerHistory],
    judge: JudgeExamples,
    how: GateSettings,
    seed: int,
    evidence: Collection[str] | None = None,
) -> Trial:
    """Test an edit.

    Args:
        touched: Examples whose context it changes. All others keep their judgments, at no cost.
        proposal: The edit.
        before: Outcomes with the champion by id, at least those of `touched`.
        histories: Their histories; absent for examples without a judgment.
        judge: Judges examples with the edited Library.
        how: The policy and its settings.
        seed: Seed of the order, in which examples judged right and wrong alternate.
        evidence: Ids of the examples that count, which the proposer has not seen; None for all.

    Returns:
        The evidence and the new outcomes. Exceptions of `judge` are passed on.

    Raises:
        RunPaused: If most answers fail.
    """
    return _Test(touched, before, histories, judge, how).run(proposal, seed, evidence)


@dataclass
class _Test:
    touched: Sequence[Example]
    before: Mapping[str, Outcome]
    histories: Mapping[str, AnswerHistory]
    judge: JudgeExamples
    how: GateSettings
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
    due: dict[str, float] = field(default_factory=dict)
    """Credit without the edit of the examples that count and are not judged yet."""
    failed: int = 0
    unsteady: int = 0

    def run(self, proposal: Proposal, seed: int, evidence: Collection[str] | None) -> Trial:
        if not self.touched:
            return self._close(GateDecision("reject", "it changes the context of no example"))
        order = self._order(evidence, seed)
        decision = self.how.policy.decide(self.tally)
        for start in range(0, len(order), self.how.batch):
            if decision is not None:
                break
            self._judge(order[start : start + self.how.batch])
            decision = self.how.policy.decide(self.tally)
        assert decision is not None, "a policy decides when nothing is left"
        if decision.decision == "accept":
            self._judge(self.touched)
            decision = self.how.policy.decide(self.tally) or decision
        return self._close(decision)

    def _order(self, evidence: Collection[str] | None, seed: int) -> list[Example]:
        """Choose the examples that count; those judged right and wrong alternate, each in seeded random order."""
        chosen = [example for example in self.touched if evidence is None or example.id in evidence]
        usable = [example for example in chosen if example.id in self.histories]
        steady = [example for example in usable if not self.histories[example.id].unsteady(self.how.noise)]
        self.unsteady = len(usable) - len(steady)
        for example in steady:
            self.due[example.id] = credit_of(self.before[example.id]) or 0.0
            self.tally.expect(self.due[example.id])
        return alternate(steady, self.before, seed)

    def _judge(self, examples: Sequence[Example]) -> None:
        """Judge examples that were not judged yet, and count those that count as evidence."""
        new = [example for example in examples if example.id not in self.outcomes]
        if not new:
            return
        for outcome in self.judge(new):
            name = outcome.example.id
            self.outcomes[name] = outcome
            before, after = credit_of(self.before[name]), credit_of(outcome)
            self.failed += before is None or after is None
            credit = self.due.pop(name, None)
            if credit is not None:
                self.tally.drop(credit)
                if before is not None and after is not None:
                    self.tally.count(before, after)
        check_coverage(self.outcomes.values())

    def _change(self, example: Example) -> float:
        """Return the change of the credit of an example; 0 without two judgments."""
        return credit_change(self.before[example.id], self.outcomes.get(example.id))

    def _close(self, decision: GateDecision) -> Trial:
        fixes, breaks = self.tally.fixes, self.tally.breaks
        evidence = Evidence(
            decision=decision.decision,
            reason=decision.reason,
            policy=self.how.policy.name,
            fixes=fixes,
            breaks=breaks,
            ties=self.tally.ties,
            failed=self.failed,
            unsteady=self.unsteady,
            judged=self.tally.judged,
            affected=len(self.touched),
            calls=len(self.outcomes),
            p_value=sign_test(fixes, breaks) if fixes + breaks else None,
            fixed=tuple(example.id for example in self.touched if self._change(example) > 0),
            broken=tuple(example.id for example in self.touched if self._change(example) < 0),
        )
        return Trial(evidence, self.outcomes)

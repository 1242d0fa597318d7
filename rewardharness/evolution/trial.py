"""Tests one edit of the Library: judges as few examples as the acceptance test needs, and records the evidence."""

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rewardharness.evolution.gate import AnswerHistory, Evidence, GateDecision, Noise, Policy, Tally, sign_test
from rewardharness.evolution.proposal import Outcome
from rewardharness.runs.stop import RunPaused
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
    if decision.decision == "accept":
        trial.ask(trial.touched)
        decision = policy.decide(tally) or decision
    changed = tally.fixes + tally.breaks
    return trial.evidence(decision, policy.name, sign_test(tally.fixes, tally.breaks) if changed else None)

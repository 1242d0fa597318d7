"""Tries one edit of the Library: asks the judge for as little as the gate needs, and writes the evidence down."""

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rewardharness.evolution.analyzer import LIBRARY_FAILURES
from rewardharness.evolution.gate import (
    EXACT,
    FIRST_TEST,
    Evidence,
    Noise,
    Policy,
    Standing,
    Tally,
    Verdict,
    sign_test,
)
from rewardharness.evolution.proposal import Outcome, Proposal
from rewardharness.evolution.stop import Paused
from rewardharness.schema import Example

COVERAGE = 0.5
"""Share of answers below which a gate is not trusted: the run pauses instead of deciding."""

_COVERAGE_FROM = 4

Ask = Callable[[Sequence[Example]], Iterable[Outcome]]
"""Judges examples under the edited Library."""


@dataclass(frozen=True)
class GateSettings:
    """How edits are tried."""

    policy: Policy = FIRST_TEST
    noise: Noise = EXACT
    screen: bool = False
    """Whether an edit that fixes none of the failures it cites is sent back at once. It saves calls in long runs and
    costs some good edits in short ones."""
    batch: int = 2
    """Examples judged between two looks at the evidence: more is faster, and costs a few calls more per edit."""


@dataclass(frozen=True)
class Trial:
    """What came of an edit."""

    evidence: Evidence
    outcomes: Mapping[str, Outcome]
    """What was judged under the edited Library, by example id; all that it touches when the edit is accepted."""


def worth(outcome: Outcome) -> float | None:
    """What an outcome counts, in [0, 1], or None when it says nothing about the Library.

    Where the Library had nothing to say it is worth what a coin would get. Any other failure is worth nothing: it is
    neither right nor wrong.
    """
    if outcome.judged:
        return outcome.credit
    failure = outcome.judgment.failure
    if failure is not None and failure.code in LIBRARY_FAILURES:
        return 1 / len(outcome.example.candidates)
    return None


def first_standing(outcome: Outcome) -> Standing | None:
    """What is known of an example after it was judged once; None when that failed."""
    value = worth(outcome)
    return None if value is None else Standing(value, 1.0)


def try_edit(
    touched: Sequence[Example],
    proposal: Proposal,
    before: Mapping[str, Outcome],
    standings: Mapping[str, Standing],
    ask: Ask,
    how: GateSettings,
    seed: int,
    evidence: Collection[str] | None = None,
) -> Trial:
    """Try an edit.

    Args:
        touched: Examples whose context it changes. All others keep their judgments, at no cost.
        proposal: The edit.
        before: Outcomes under the champion, by id; at least those of `touched`.
        standings: What is known of how steadily they are judged; none for those that never were.
        ask: Judges under the edited Library.
        how: The policy, and how to go about it.
        seed: Decides on the order, in which examples judged right and wrong take turns.
        evidence: Ids of the examples that count: none that the proposer has seen. None: all of them.

    Returns:
        The evidence and the new outcomes. What `ask` raises passes through.

    Raises:
        Paused: If most answers fail.
    """
    trial = _Trial(touched, before, standings, ask, how)
    return trial.run(proposal, seed, evidence)


@dataclass
class _Trial:
    touched: Sequence[Example]
    before: Mapping[str, Outcome]
    standings: Mapping[str, Standing]
    ask: Ask
    how: GateSettings
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
    due: dict[str, float] = field(default_factory=dict)
    """Examples that are to count and have not been counted, with their credit without the edit."""
    failed: int = 0
    unsteady: int = 0

    def run(self, proposal: Proposal, seed: int, evidence: Collection[str] | None) -> Trial:
        if not self.touched:
            return self._close(Verdict("reject", "it changes the context of no example"))
        order = self._order(evidence, seed)
        missed = [each for each in self.touched if each.id in proposal.cited and self._surely_missed(each)]
        verdict = self.how.policy.decide(self.tally)
        if verdict is None and self.how.screen and missed:
            self._judge(missed)
            if not any(self._changed(example, 1) for example in missed):
                verdict = Verdict("reject", f"none of the {len(missed)} cited failures was fixed")
        for start in range(0, len(order), self.how.batch):
            if verdict is not None:
                break
            self._judge(order[start : start + self.how.batch])
            verdict = self.how.policy.decide(self.tally)
        assert verdict is not None, "a policy decides when nothing is left"
        if verdict.decision == "accept":
            self._judge(self.touched)
            verdict = self.how.policy.decide(self.tally) or verdict
        return self._close(verdict)

    def _order(self, evidence: Collection[str] | None, seed: int) -> list[Example]:
        """Choose the examples that count; those judged right and wrong take turns, each in seeded random order."""
        chosen = [example for example in self.touched if evidence is None or example.id in evidence]
        usable = [example for example in chosen if example.id in self.standings]
        steady = [each for each in usable if not self.standings[each.id].unsteady(self.how.noise)]
        self.unsteady = len(usable) - len(steady)
        for example in steady:
            self.due[example.id] = worth(self.before[example.id]) or 0.0
            self.tally.expect(self.due[example.id])
        rng = random.Random(seed)
        placed: list[tuple[float, str, Example]] = []
        for right in (False, True):
            side = sorted((each for each in steady if (self.due[each.id] >= 0.5) == right), key=lambda each: each.id)
            rng.shuffle(side)
            placed += [((number + 0.5) / len(side), example.id, example) for number, example in enumerate(side)]
        return [example for *_, example in sorted(placed, key=lambda item: item[:2])]

    def _judge(self, examples: Sequence[Example]) -> None:
        """Judge examples that were not judged yet, and count those that are to count."""
        new = [example for example in examples if example.id not in self.outcomes]
        if not new:
            return
        for outcome in self.ask(new):
            name = outcome.example.id
            self.outcomes[name] = outcome
            before, after = worth(self.before[name]), worth(outcome)
            self.failed += before is None or after is None
            credit = self.due.pop(name, None)
            if credit is not None:
                self.tally.drop(credit)
                if before is not None and after is not None:
                    self.tally.count(before, after)
        silent = sum(worth(outcome) is None for outcome in self.outcomes.values())
        if silent >= _COVERAGE_FROM and silent > (1 - COVERAGE) * len(self.outcomes):
            raise Paused(
                f"{silent} of {len(self.outcomes)} judgments of one edit failed; so few answers decide nothing.",
                next_step="See why (rh doctor shows endpoints), then give the same command again.",
                kind="endpoint",
            )

    def _surely_missed(self, example: Example) -> bool:
        standing = self.standings.get(example.id)
        known = standing is not None and not standing.unsteady(self.how.noise)
        return known and (worth(self.before[example.id]) or 0.0) < 1

    def _changed(self, example: Example, side: int) -> bool:
        """Whether an example became better (`side` 1) or worse (-1)."""
        outcome = self.outcomes.get(example.id)
        if outcome is None:
            return False
        before, after = worth(self.before[example.id]), worth(outcome)
        return before is not None and after is not None and (after - before) * side > 0

    def _close(self, verdict: Verdict) -> Trial:
        fixes, breaks = self.tally.fixes, self.tally.breaks
        evidence = Evidence(
            decision=verdict.decision,
            reason=verdict.reason,
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
            fixed=tuple(example.id for example in self.touched if self._changed(example, 1)),
            broken=tuple(example.id for example in self.touched if self._changed(example, -1)),
        )
        return Trial(evidence, self.outcomes)

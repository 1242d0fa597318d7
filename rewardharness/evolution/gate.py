"""The acceptance test: whether the evidence is sufficient to accept an edit of the Library.

Every example that an edit touches is compared with itself: judged wrong before and right after is a fix, right before
and wrong after a break, anything else a tie. An edit without effect fixes and breaks with equal probability, so a
one-sided sign test decides (McNemar, Psychometrika 12, 1947). A run makes many tests; each spends a part of one error
budget, so that at most `ALPHA` of runs accept anything if the labels are random.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import ClassVar, Literal, Protocol

from rewardharness.judging.report import Z95

Decision = Literal["accept", "reject", "undecided"]
"""`undecided`: the run ended before the test. The edit is not accepted."""


ALPHA = 0.05
"""Maximum probability that a run accepts an edit although none helps."""


def level(number: int, alpha: float = ALPHA) -> float:
    """Return the part of `alpha` for the acceptance test of this number, from 1; the sum of all parts is `alpha`."""
    return alpha * 6 / (math.pi * number) ** 2


@dataclass(frozen=True)
class Noise:
    """How examples that a judge answers inconsistently are recognized.

    The probability of a right answer is estimated from all answers under the champion:
    `(right + prior) / (total + 2 prior)`. Examples near one half are left out of acceptance tests.
    """

    prior: float = 0.4
    """Pseudo-answers on either side; 0: only the last answer counts."""
    memory: float = 0.25
    """Weight of an answer with a rejected edit; an answer with the champion has the weight 1."""
    decay: float = 0.5
    """Factor of the weight of earlier answers after an accepted edit that touches the example."""
    unsteady: float = 0.15
    """Examples whose probability differs from one half by less than this are left out."""


EXACT = Noise(prior=0.0, memory=0.0, decay=0.0, unsteady=0.0)
"""Settings for a deterministic judge."""


@dataclass(frozen=True)
class AnswerHistory:
    """Answers on one example with the champion: the weight of right answers, and of all."""

    right: float
    total: float

    def expected(self, noise: Noise) -> float:
        """Return the probability in [0, 1] that the next answer with the champion is right."""
        return (self.right + noise.prior) / (self.total + 2 * noise.prior)

    def unsteady(self, noise: Noise) -> bool:
        """Return whether the answers so far are inconsistent."""
        return self.total > 1 and abs(self.expected(noise) - 0.5) < noise.unsteady

    def remembering(self, credit: float, noise: Noise) -> "AnswerHistory":
        """Return the history after an answer with a rejected edit."""
        return AnswerHistory(self.right + noise.memory * credit, self.total + noise.memory)

    def renewed(self, credit: float, noise: Noise) -> "AnswerHistory":
        """Return the history after an answer with an accepted edit."""
        return AnswerHistory(self.right * noise.decay + credit, self.total * noise.decay + 1)


@dataclass
class Tally:
    """The evidence so far."""

    fixes: int = 0
    breaks: int = 0
    ties: int = 0
    before: float = 0.0
    """Credit of the judged examples with the old Library."""
    after: float = 0.0
    """Credit with the new one."""
    hope: int = 0
    """Examples not judged yet that could become fixes."""
    left: int = 0
    """Examples not judged yet."""

    @property
    def judged(self) -> int:
        """Examples that count."""
        return self.fixes + self.breaks + self.ties

    def expect(self, before: float) -> None:
        """Add an example that will be judged, with its credit with the old Library."""
        self.left += 1
        self.hope += before < 1

    def drop(self, before: float) -> None:
        """Remove an expected example, which was judged or could not be judged."""
        self.left -= 1
        self.hope -= before < 1

    def count(self, before: float, after: float) -> None:
        """Count a judged example by its credit with the old Library and with the new one."""
        self.before += before
        self.after += after
        self.fixes += after > before
        self.breaks += after < before
        self.ties += after == before


@dataclass(frozen=True)
class GateDecision:
    """The decision of a policy."""

    decision: Decision
    reason: str
    """In words, with the numbers that decided."""


class Policy(Protocol):
    """A rule that decides on a tally."""

    @property
    def name(self) -> str:
        """Name in records."""

    def decide(self, tally: Tally) -> GateDecision | None:
        """Decide.

        Returns:
            A decision, or None to see more examples; never None if none are left.
        """


@dataclass(frozen=True)
class SignTest:
    """Accepts if as many fixes against breaks have at most the probability `alpha` for an edit without effect.

    While examples are left it rejects at the lower bound of Wald's sequential probability ratio test of `theta` against
    one half (Ann. Math. Stat. 16, 1945), or when even the best outcome of those left would not be enough. It does not
    accept early, so looking at the evidence repeatedly does not raise the error rate.
    """

    name: ClassVar[str] = "sign test"
    alpha: float = ALPHA
    theta: float = 0.7
    """Assumed share of fixes among the changes of a useful edit."""
    futility: float = 0.5
    """Likelihood ratio at which the test ends early."""

    @property
    def least(self) -> int:
        """Minimum number of examples that can be sufficient, if all of them are fixed."""
        return math.ceil(-math.log2(self.alpha))

    def decide(self, tally: Tally) -> GateDecision | None:
        """Decide."""
        fixes, breaks = tally.fixes, tally.breaks
        counts = f"{fixes} fixed, {breaks} broken"
        if tally.left:
            ratio = (self.theta / 0.5) ** fixes * ((1 - self.theta) / 0.5) ** breaks
            if ratio <= self.futility:
                return GateDecision("reject", f"{counts}: more likely harm than help (likelihood ratio {ratio:.2g})")
            if sign_test(fixes + tally.hope, breaks) > self.alpha:
                rest = f"the {tally.hope} of {tally.left} remaining examples that it could fix"
                if not tally.hope:
                    rest = f"the {tally.left} remaining examples, none of which it could fix,"
                return GateDecision("reject", f"{counts}: {rest} would not make the result significant")
            return None
        p = sign_test(fixes, breaks)
        return GateDecision(
            "accept" if p <= self.alpha else "reject", f"{counts}: p {p:.2g}, and at most {self.alpha:.2g} is needed"
        )


FIRST_TEST = SignTest(level(1))
"""The first test of a run."""


@dataclass(frozen=True)
class MarginGate:
    """The test of the paper: accepts an accuracy of at least the best so far minus a margin, on fixed examples.

    It has no error control: on 40 examples it accepts an edit that costs ten points about two times in five, and
    accepted losses add up.
    """

    name: ClassVar[str] = "margin"
    best: float
    """Best accuracy so far on the same examples, in [0, 1]."""
    margin: float = 0.075

    def decide(self, tally: Tally) -> GateDecision | None:
        """Decide."""
        if tally.left:
            return None
        reached = tally.after / tally.judged if tally.judged else 0.0
        reason = f"accuracy {reached:.3f} against the best, {self.best:.3f}, less {self.margin:g}"
        # The paper compares floats, and rejects a drop of exactly the margin at some values. We do not.
        return GateDecision("accept" if reached >= self.best - self.margin - 1e-9 else "reject", reason)


@dataclass(frozen=True)
class Evidence:
    """The evidence for the decision on one edit."""

    decision: Decision
    reason: str
    """In words, with the numbers that decided."""
    policy: str = ""
    """Name of the policy; empty if nothing was judged."""
    fixes: int = 0
    breaks: int = 0
    ties: int = 0
    failed: int = 0
    """Judgments that failed before or after; neither fixes nor breaks, and not part of `judged`."""
    unsteady: int = 0
    """Examples that were left out because the judge is inconsistent on them."""
    judged: int = 0
    """Examples that count: fixes, breaks and ties."""
    affected: int = 0
    """Examples whose context the edit changes."""
    calls: int = 0
    """Judgments of this decision, including those of the remaining examples after an acceptance."""
    p_value: float | None = None
    """One-sided sign test of fixes against breaks; None without either."""
    fixed: tuple[str, ...] = ()
    """Ids of all fixed examples, also of those that did not count as evidence."""
    broken: tuple[str, ...] = ()
    """Ids of all broken examples."""


def estimate_gain(fixes: int, breaks: int, n: int) -> tuple[float | None, tuple[float, float] | None]:
    """Return the net gain per example with its paired 95% CI (normal approximation); None without examples."""
    if not n:
        return None, None
    net = fixes - breaks
    half = Z95 * math.sqrt(max(0.0, fixes + breaks - net * net / n)) / n
    return net / n, (net / n - half, net / n + half)


def detectable_gain(examples: int) -> float:
    """Return the smallest gain of accuracy that a paired comparison detects, in the normal approximation.

    After Connor (Biometrics 43, 1987), for a one-sided test with a power of 0.8, where a tenth of the preferences
    change, or as many as the gain if that is more.

    Args:
        examples: Number of examples, at least 1.
    """
    z = NormalDist().inv_cdf(1 - ALPHA) + NormalDist().inv_cdf(0.8)
    gain = z * math.sqrt(0.1 / examples)
    return gain if gain <= 0.1 else min(1.0, z * z / examples)


def sign_test(fixes: int, breaks: int) -> float:
    """Return the probability of at least this many fixes if fixes and breaks are equally likely."""
    n = fixes + breaks
    return sum(math.comb(n, k) for k in range(fixes, n + 1)) / float(2**n)

"""The acceptance test: whether the evidence is enough to keep a proposed edit of the Library.

Every example that an edit touches is compared with itself: judged right before and wrong after it is a break, wrong
before and right after a fix, anything else a tie that says nothing. An edit that does nothing fixes and breaks with
equal probability, so a one-sided sign test decides (McNemar, Psychometrika 12, 1947). A run makes many tests; each may
spend a part of one error budget, so that at most `ALPHA` of runs accept anything where the labels are random.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Decision = Literal["accept", "reject", "undecided"]
"""`undecided`: the run ended before the evidence did. The edit is not kept."""


ALPHA = 0.05
"""Probability that a run accepts anything although no edit helps, at most."""


def level(number: int, alpha: float = ALPHA) -> float:
    """Return what the acceptance test of this number, from 1 on, may spend of `alpha`: all together add up to it."""
    return alpha * 6 / (math.pi * number) ** 2


@dataclass(frozen=True)
class Noise:
    """How an example that a judge answers now right, now wrong is recognized.

    The chance of a right answer is estimated from all answers under the champion:
    `(right + prior) / (total + 2 prior)`. Examples close to one half are left out of acceptance tests.
    """

    prior: float = 0.4
    """Pseudo-answers on either side before anything was seen. 0: the last answer is the truth."""
    memory: float = 0.25
    """What an answer under an edit that was not kept counts, against 1 for an answer under the champion."""
    decay: float = 0.5
    """What earlier answers still count after an edit that touches the example was kept."""
    unsteady: float = 0.15
    """Examples whose chance lies within this of one half are left out: they cost calls and say little."""


EXACT = Noise(prior=0.0, memory=0.0, decay=0.0, unsteady=0.0)
"""For a judge that always gives the same answer."""


@dataclass(frozen=True)
class Standing:
    """What is known of an example under the champion: how much weight of answers was right, of how much in all."""

    right: float
    total: float

    def expected(self, noise: Noise) -> float:
        """Chance in [0, 1] that the next answer under the champion is right."""
        return (self.right + noise.prior) / (self.total + 2 * noise.prior)

    def unsteady(self, noise: Noise) -> bool:
        """Whether the answers so far go to and fro."""
        return self.total > 1 and abs(self.expected(noise) - 0.5) < noise.unsteady

    def remembering(self, worth: float, noise: Noise) -> "Standing":
        """After an answer under an edit that was not kept."""
        return Standing(self.right + noise.memory * worth, self.total + noise.memory)

    def renewed(self, worth: float, noise: Noise) -> "Standing":
        """After an answer under an edit that was kept."""
        return Standing(self.right * noise.decay + worth, self.total * noise.decay + 1)

    def confirmed(self, worth: float) -> "Standing":
        """After another answer under the champion."""
        return Standing(self.right + worth, self.total + 1)


@dataclass
class Tally:
    """The evidence so far, as policies see it."""

    fixes: int = 0
    breaks: int = 0
    ties: int = 0
    before: float = 0.0
    """Credit of the examples judged, under the old Library."""
    after: float = 0.0
    """The same under the new one."""
    hope: int = 0
    """Examples not yet judged that could become fixes."""
    left: int = 0
    """Examples not yet judged."""

    @property
    def judged(self) -> int:
        """Examples that count."""
        return self.fixes + self.breaks + self.ties

    def expect(self, before: float) -> None:
        """Add an example that is going to be judged, with its credit under the old Library."""
        self.left += 1
        self.hope += before < 1

    def drop(self, before: float) -> None:
        """Take an example out that was expected: it is judged now, or could not be."""
        self.left -= 1
        self.hope -= before < 1

    def count(self, before: float, after: float) -> None:
        """Count a judged example by its credit under the old Library and under the new one."""
        self.before += before
        self.after += after
        self.fixes += after > before
        self.breaks += after < before
        self.ties += after == before


@dataclass(frozen=True)
class Verdict:
    """What a policy says."""

    decision: Decision
    reason: str
    """In words, with the numbers that decided."""


class Policy(Protocol):
    """Decides on a tally."""

    @property
    def name(self) -> str:
        """For records and for people."""

    def decide(self, tally: Tally) -> Verdict | None:
        """Decide.

        Returns:
            A verdict, or None to see more examples. With none left there is always a verdict.
        """


@dataclass(frozen=True)
class SignTest:
    """Accepts where as many fixes against breaks would be rarer than `alpha` if the edit did nothing.

    While examples are left it rejects at the lower bound of Wald's sequential probability ratio test of `theta` against
    one half (Ann. Math. Stat. 16, 1945), or when even the best outcome of those left would not be enough. It does not
    accept early, so looking at the evidence repeatedly does not raise the error rate.
    """

    alpha: float = ALPHA
    theta: float = 0.7
    """Share of fixes among changes that a useful edit is supposed to have."""
    futility: float = 0.5
    """Likelihood ratio at which the rest is not judged."""

    @property
    def name(self) -> str:
        """For records and for people."""
        return "sign test"

    @property
    def least(self) -> int:
        """Fewest examples that can be enough: all of them fixed."""
        return math.ceil(-math.log2(self.alpha))

    def decide(self, tally: Tally) -> Verdict | None:
        """Decide."""
        fixes, breaks = tally.fixes, tally.breaks
        counts = f"{fixes} fixed, {breaks} broken"
        if tally.left:
            ratio = (self.theta / 0.5) ** fixes * ((1 - self.theta) / 0.5) ** breaks
            if ratio <= self.futility:
                return Verdict("reject", f"{counts}: more likely harm than help (likelihood ratio {ratio:.2g})")
            if sign_test(fixes + tally.hope, breaks) > self.alpha:
                return Verdict("reject", f"{counts}: the {tally.left} examples left could not be enough evidence")
            return None
        p = sign_test(fixes, breaks)
        return Verdict(
            "accept" if p <= self.alpha else "reject", f"{counts}: p {p:.2g}, and at most {self.alpha:.2g} is needed"
        )


FIRST_TEST = SignTest(level(1))
"""The first test of a run."""


@dataclass(frozen=True)
class MarginGate:
    """The paper's gate: keep what scores at least the best so far less a margin, on a fixed set of examples.

    It has no error control. On 40 examples it lets through an edit that costs ten points about two times in five, and
    accepted losses add up.
    """

    best: float
    """Best accuracy so far on the same examples, in [0, 1]."""
    margin: float = 0.075

    @property
    def name(self) -> str:
        """For records and for people."""
        return "margin"

    def decide(self, tally: Tally) -> Verdict | None:
        """Decide."""
        if tally.left:
            return None
        reached = tally.after / tally.judged if tally.judged else 0.0
        said = f"accuracy {reached:.3f} against the best, {self.best:.3f}, less {self.margin:g}"
        # The paper compares floats: at some of these values it sends back a drop of exactly the margin. We do not.
        return Verdict("accept" if reached >= self.best - self.margin - 1e-9 else "reject", said)


@dataclass(frozen=True)
class Evidence:
    """What decided on one edit."""

    decision: Decision
    reason: str
    """In words, with the numbers that decided."""
    policy: str = ""
    """Name of the policy; empty when nobody was asked."""
    fixes: int = 0
    breaks: int = 0
    ties: int = 0
    failed: int = 0
    """Judgments that failed before or after: neither fix nor break, and not in `judged`."""
    unsteady: int = 0
    """Examples that were left out because the judge goes to and fro on them."""
    judged: int = 0
    """Examples that count: fixes, breaks and ties."""
    affected: int = 0
    """Examples whose context the edit changes."""
    calls: int = 0
    """Judgments that were made for this decision, those for filling in after an acceptance included."""
    p_value: float | None = None
    """Exact one-sided sign test of fixes against breaks; None without either."""
    fixed: tuple[str, ...] = ()
    """Ids of the examples that the edit fixes, also of those that did not count as evidence."""
    broken: tuple[str, ...] = ()
    """The same for those that it breaks."""

    def to_json(self) -> dict[str, Any]:
        """Put it into JSON."""
        return {**self.__dict__, "fixed": list(self.fixed), "broken": list(self.broken)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Evidence":
        """Read it back."""
        return cls(**{**value, "fixed": tuple(value["fixed"]), "broken": tuple(value["broken"])})


def sign_test(fixes: int, breaks: int) -> float:
    """Probability of at least so many fixes among the changes if fixes and breaks are equally likely."""
    n = fixes + breaks
    return sum(math.comb(n, k) for k in range(fixes, n + 1)) / float(2**n)

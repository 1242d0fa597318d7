"""Gates: small policies that decide on evidence whether a proposed edit of the Library is kept.

Every example that an edit touches is compared with itself: judged right before and wrong after it is a break, wrong
before and right after a fix, anything else a tie that says nothing (McNemar, Psychometrika 12, 1947). A policy sees the
tally after every few judgments and says accept, reject, or nothing yet.

With a judge that answers the same question differently from time to time a fix may be luck. Then what counts is how
far an answer lies from what was expected: see `Noise`. For an exact judge the expectation is the last answer, and the
sums of surprise are the plain numbers of fixes and breaks.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol

Decision = Literal["accept", "reject", "undecided"]
"""`undecided`: the run ended before the evidence did. The edit is not kept."""


@dataclass(frozen=True)
class Noise:
    """How an example that a judge answers now right, now wrong is recognised, and what it counts.

    The chance of a right answer is estimated from all answers under the champion:
    `(right + prior) / (total + 2 prior)`. An answer then counts by its distance from that chance, so that luck in the
    first look does not turn into breaks ever after (regression to the mean), and a coin flip is no evidence at all.
    """

    prior: float = 0.4
    """Pseudo-answers on either side before anything was seen. 0: the last answer is the truth."""
    memory: float = 0.25
    """What an answer under an edit that was not kept counts, against 1 for an answer under the champion."""
    decay: float = 0.5
    """What earlier answers still count after an edit that touches the example was kept."""
    unsteady: float = 0.15
    """Examples whose chance lies within this of one half are left out of gates: they cost calls and say little."""


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
    gains: float = 0.0
    """Surprise in favour of the edit, summed: the number of fixes for an exact judge."""
    losses: float = 0.0
    """Surprise against it, summed: the number of breaks for an exact judge."""
    spoiled: float = 0.0
    """Net losses among examples that were expected to go well: the number of breaks for an exact judge."""
    before: float = 0.0
    """Credit of the examples judged, under the old Library."""
    after: float = 0.0
    """The same under the new one."""
    hope: float = 0.0
    """Most that the examples not yet judged could add to `gains`."""
    left: int = 0
    """Examples not yet judged."""

    @property
    def judged(self) -> int:
        """Examples that count."""
        return self.fixes + self.breaks + self.ties

    def expect(self, expected: float) -> None:
        """Add an example that is going to be judged."""
        self.left += 1
        self.hope += 1 - expected

    def drop(self, expected: float) -> None:
        """Take an example out that was expected: it is judged now, or could not be."""
        self.left -= 1
        self.hope -= 1 - expected

    def count(self, expected: float, before: float, after: float) -> None:
        """Count a judged example.

        Args:
            expected: Chance that it is right under the old Library.
            before: Its credit under the old Library.
            after: Its credit under the new one.
        """
        surprise = after - expected
        self.gains += max(surprise, 0.0)
        self.losses += max(-surprise, 0.0)
        if expected >= 0.5:
            self.spoiled -= surprise
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
class SequentialGate:
    """Stops early on edits that harm or lead nowhere; keeps those that more likely help than not, and break little.

    While examples are left it rejects at the lower bound of Wald's sequential probability ratio test of
    `theta` against one half (Ann. Math. Stat. 16, 1945), or when even the best outcome of those left would not do.
    At the end it accepts if P(share of fixes > 1/2 | Beta(1 + gains, 1 + losses)) >= `confidence` and the breaks stay
    within `budget`. It does not accept early: an edit that is kept is judged on all that it touches in any case.
    """

    theta: float = 0.7
    """Share of fixes among changes that a useful edit is supposed to have."""
    false_accept: float = 0.2
    """Error rate of the test's upper side; with `false_reject` it sets the lower bound."""
    false_reject: float = 0.4
    confidence: float = 0.6
    budget: float = 3.0
    """Most breaks, beyond those expected by chance, that an edit may cause."""

    @property
    def name(self) -> str:
        """For records and for people."""
        return "sequential"

    def decide(self, tally: Tally) -> Verdict | None:
        """Decide."""
        if not tally.left:
            return self._conclude(tally)
        likelihood = tally.gains * math.log(self.theta / 0.5) + tally.losses * math.log((1 - self.theta) / 0.5)
        if likelihood <= math.log(self.false_reject / (1 - self.false_accept)):
            return Verdict("reject", f"{_sides(tally)}: more likely harm than help (log ratio {likelihood:.2f})")
        if posterior(tally.gains + tally.hope, tally.losses) < self.confidence:
            return Verdict("reject", f"{_sides(tally)}: the {tally.left} examples left could not make up for it")
        return None

    def _conclude(self, tally: Tally) -> Verdict:
        chance = posterior(tally.gains, tally.losses)
        said = f"{_sides(tally)}: P(helps) = {chance:.2f}"
        if chance < self.confidence:
            return Verdict("reject", f"{said}, below {self.confidence:g}")
        if tally.spoiled > self.budget:
            return Verdict("reject", f"{said}, but {tally.spoiled:.3g} breaks are over the budget of {self.budget:g}")
        return Verdict("accept", said)


OUR_GATE = SequentialGate()
"""The gate of the default schedule."""


@dataclass(frozen=True)
class EValueGate:
    """Accepts when an e-value reaches `1 / alpha`: an anytime-valid test, stricter than `SequentialGate`.

    The e-process of fixes against breaks mixes all shares above one half with equal weight (theory: Ramdas et al.,
    Statist. Sci. 38, 2023): `E = 2 * 2^n * B(1 + W, 1 + L) * P(theta > 1/2 | Beta(1 + W, 1 + L))` with n = W + L.
    Whenever one stops, an edit without effect reaches `1 / alpha` with probability at most `alpha`.
    """

    alpha: float = 0.2

    @property
    def name(self) -> str:
        """For records and for people."""
        return "e-value"

    def decide(self, tally: Tally) -> Verdict | None:
        """Decide."""
        value = e_value(tally.gains, tally.losses)
        said = f"{_sides(tally)}: e-value {value:.3g}"
        if value >= 1 / self.alpha:
            return Verdict("accept", said)
        if tally.left and e_value(tally.gains + tally.hope, tally.losses) >= 1 / self.alpha:
            return None
        return Verdict("reject", f"{said}, below {1 / self.alpha:g}")


@dataclass(frozen=True)
class MarginGate:
    """The paper's gate: keep what scores at least the best so far less a margin, on a fixed set of examples.

    On 40 examples it lets through an edit that costs ten points about two times in five, and accepted losses add up.
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
    """Exact two-sided McNemar test of fixes against breaks; None without either."""
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


def posterior(gains: float, losses: float) -> float:
    """P(theta > 1/2 | Beta(1 + gains, 1 + losses)): how likely fixes outnumber breaks, from a flat prior."""
    if gains == int(gains) and losses == int(losses):
        return _posterior(int(gains), int(losses))
    return 1 - _beta_below_half(1 + gains, 1 + losses)


def e_value(gains: float, losses: float) -> float:
    """The e-value of `EValueGate`; 1 when nothing was seen."""
    log_beta = math.lgamma(1 + gains) + math.lgamma(1 + losses) - math.lgamma(2 + gains + losses)
    return math.exp(math.log(2) * (1 + gains + losses) + log_beta) * posterior(gains, losses)


def _sides(tally: Tally) -> str:
    if tally.gains == tally.fixes and tally.losses == tally.breaks:
        return f"{tally.fixes} fixed, {tally.breaks} broken"
    return f"{tally.fixes} fixed, {tally.breaks} broken (worth {tally.gains:.1f} and {tally.losses:.1f})"


@lru_cache(maxsize=65536)
def _posterior(gains: int, losses: int) -> float:
    # With whole numbers the incomplete beta function is a binomial tail.
    n = gains + losses + 1
    return sum(math.comb(n, k) for k in range(gains + 1)) / float(2**n)


def _beta_below_half(a: float, b: float) -> float:
    """The regularised incomplete beta function at one half: the continued fraction 8.17.22 of the DLMF, by Lentz.

    It converges fast where `a` is at least `b`; the other side follows by symmetry.
    """
    if a < b:
        return 1 - _beta_below_half(b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) - (a + b) * math.log(2)) / a
    fraction, c, d = 1.0, 1.0, 0.0
    for step in range(300):
        m = step // 2
        if step == 0:
            term = 1.0
        elif step % 2 == 0:
            term = m * (b - m) * 0.5 / ((a + 2 * m - 1) * (a + 2 * m))
        else:
            term = -(a + m) * (a + b + m) * 0.5 / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 / (1 + term * d or 1e-30)
        c = 1 + term / c or 1e-30
        fraction *= c * d
        if abs(1 - c * d) < 1e-12:
            break
    return front * (fraction - 1)

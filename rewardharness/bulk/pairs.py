"""From repeated scores of many candidates to pairs that a reward model can learn from.

Of the candidates of one edit, best against worst and neighbours in the ranking become pairs: easy ones and hard ones,
but not all N (N - 1) / 2, which would say the same thing many times. A pair is kept only where the evidence carries it:

    mean(chosen) - mean(rejected) >= margin     and     > spread * (std(chosen) + std(rejected))

with means and standard deviations over repeated judgments of each candidate alone (of a sample, with n - 1).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, stdev
from typing import Literal

from rewardharness.errors import InputError

Dropped = Literal["level", "margin", "uncertain", "cap"]


@dataclass(frozen=True)
class Repeated:
    """How often and how one candidate was scored."""

    index: int
    """Its place among the candidates of its edit, from 0."""
    rewards: tuple[float, ...]
    """One per judgment that succeeded; never empty."""

    @property
    def mean(self) -> float:
        """Mean reward, in [0, 1]."""
        return fmean(self.rewards)

    @property
    def std(self) -> float | None:
        """Standard deviation of a sample; None of a single judgment, which says nothing about it."""
        return stdev(self.rewards) if len(self.rewards) > 1 else None


@dataclass(frozen=True)
class PairRules:
    """Which pairs are kept."""

    margin: float = 0.1
    """Least difference of the mean rewards, above 0."""
    spread: float = 1.0
    """How many standard deviations of both together the difference must exceed; 0 does not ask for it."""
    per_edit: int = 4
    """Pairs of one edit at most."""

    def __post_init__(self) -> None:
        if not 0 < self.margin <= 1:
            raise InputError(f"The margin {self.margin} is not in (0, 1].", next_step="Give a number such as 0.1.")
        if self.spread < 0:
            raise InputError(f"The spread {self.spread} is below 0.", next_step="Give 0 or more.")
        if self.per_edit < 1:
            raise InputError(f"{self.per_edit} pairs per edit are none.", next_step="Give 1 or more.")


@dataclass(frozen=True)
class Pair:
    """One pair of candidates of one edit."""

    chosen: Repeated
    rejected: Repeated
    kind: Literal["extreme", "adjacent"]
    """Best against worst, or neighbours in the ranking."""

    @property
    def margin(self) -> float:
        """Difference of the mean rewards."""
        return self.chosen.mean - self.rejected.mean


def pair_up(candidates: Sequence[Repeated], rules: PairRules) -> tuple[list[Pair], Counter[Dropped]]:
    """Make the pairs of one edit.

    Args:
        candidates: Those that were judged.
        rules: Which pairs are kept.

    Returns:
        The pairs, best against worst first and then neighbours from the top; and how many were dropped for what.
    """
    kept: list[Pair] = []
    dropped: Counter[Dropped] = Counter()
    for pair in _proposed(candidates):
        reason = _objection(pair, rules)
        if reason is None and len(kept) == rules.per_edit:
            reason = "cap"
        if reason is None:
            kept.append(pair)
        else:
            dropped[reason] += 1
    return kept, dropped


def _proposed(candidates: Sequence[Repeated]) -> Iterator[Pair]:
    ranked = sorted(candidates, key=lambda each: (-each.mean, each.index))
    if len(ranked) < 2:
        return
    yield Pair(ranked[0], ranked[-1], "extreme")
    if len(ranked) > 2:
        for better, worse in pairwise(ranked):
            yield Pair(better, worse, "adjacent")


def _objection(pair: Pair, rules: PairRules) -> Dropped | None:
    if pair.margin == 0:
        return "level"
    if pair.margin < rules.margin:
        return "margin"
    spreads = [each.std for each in (pair.chosen, pair.rejected)]
    known = [spread for spread in spreads if spread is not None]
    if rules.spread and pair.margin <= rules.spread * sum(known):
        return "uncertain"
    return None

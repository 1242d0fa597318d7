"""Pairs for reward model training from repeated scores of many candidates.

For each edit, the best and the worst candidate form a pair, and so do neighbors in the ranking: easy and hard pairs,
but not all N (N - 1) / 2, which would be redundant. A pair is kept only if the scores support it:

    mean(chosen) - mean(rejected) >= margin     and     > spread * (std(chosen) + std(rejected))

with means and sample standard deviations (n - 1) over repeated judgments of each candidate alone.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, stdev
from typing import Literal

Dropped = Literal["level", "margin", "uncertain", "cap"]


@dataclass(frozen=True)
class Repeated:
    """Repeated scores of one candidate."""

    index: int
    """Index among the candidates of its edit, from 0."""
    rewards: tuple[float, ...]
    """One reward per successful judgment; never empty."""

    @property
    def mean(self) -> float:
        """Mean reward, in [0, 1]."""
        return fmean(self.rewards)

    @property
    def std(self) -> float | None:
        """Sample standard deviation; None for a single judgment."""
        return stdev(self.rewards) if len(self.rewards) > 1 else None


@dataclass(frozen=True)
class PairRules:
    """Conditions for keeping pairs."""

    margin: float = 0.1
    """Minimum difference of the mean rewards, above 0."""
    spread: float = 1.0
    """Factor of the standard deviations that the difference must exceed; 0 disables the condition."""
    per_edit: int = 4
    """Maximum number of pairs per edit."""


@dataclass(frozen=True)
class Pair:
    """One pair of candidates of one edit."""

    chosen: Repeated
    rejected: Repeated
    kind: Literal["extreme", "adjacent"]
    """Best and worst candidate, or neighbors in the ranking."""

    @property
    def margin(self) -> float:
        """Difference of the mean rewards."""
        return self.chosen.mean - self.rejected.mean


def pair_up(candidates: Sequence[Repeated], rules: PairRules) -> tuple[list[Pair], Counter[Dropped]]:
    """Form the pairs of one edit.

    Args:
        candidates: Judged candidates.
        rules: Conditions for keeping pairs.

    Returns:
        The pairs, best and worst candidate first, then neighbors from the top; and the number of dropped pairs by
        reason.
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
    ranked = sorted(candidates, key=lambda candidate: (-candidate.mean, candidate.index))
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
    spreads = [candidate.std for candidate in (pair.chosen, pair.rejected)]
    deviations = [spread for spread in spreads if spread is not None]
    if rules.spread and pair.margin <= rules.spread * sum(deviations):
        return "uncertain"
    return None

"""Rank correlation of a judge's scores with people's, per editor, and its mean over editors.

    rho    Spearman's rank correlation (Am. J. Psychol. 15, 1904): Pearson's correlation of the ranks; equal values
           share the average of their ranks. Not defined where either side is constant.
    mean   Fisher's z: tanh of the mean of atanh(rho) (Biometrika 10, 1915).

VIEScore (arXiv 2312.14867) reports ImagenHub so; AURORA-Bench (pointwise) is averaged over editors the same way.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rewardharness.errors import InputError
from rewardharness.schema import Accuracy, Json

Weights = Literal["equal", "n-3"]
"""`equal`: each editor counts the same, as in published tables. `n-3`: by the inverse variance of its z."""

NEARLY_ONE = 1 - 1e-6
"""A correlation of exactly 1 has an infinite z, which would outweigh everything: it counts as this."""


@dataclass(frozen=True)
class Rating:
    """One edit with the scores of a judge and of people; their scales need not agree."""

    editor: str
    """Who made the edit. Never shown to a judge."""
    judge: float | None
    """None when there is no judgment."""
    human: float


@dataclass(frozen=True)
class EditorCorrelation:
    """How one editor's edits are ordered."""

    n: int
    """Edits that people rated."""
    judged: int
    """Those of them that the judge rated: the correlation is over these."""
    rho: float | None
    """In [-1, 1]; None where it is not defined."""


@dataclass(frozen=True)
class Correlation:
    """Correlation per editor, and its mean."""

    editors: Mapping[str, EditorCorrelation]
    weights: Weights
    mean: float | None
    """Fisher's mean over the editors with a rho, in [-1, 1]; None without any."""
    undefined: tuple[str, ...]
    """Editors that are not in the mean: all scores equal on one side, or fewer than two judged edits (with the
    weights `n-3` fewer than four)."""

    @property
    def counts(self) -> Accuracy:
        """Edits and judged edits of all editors; nothing is right or wrong here."""
        known = self.editors.values()
        return Accuracy(sum(each.n for each in known), sum(each.judged for each in known), 0.0)

    def to_json(self) -> Json:
        """Put it into JSON."""
        counts = self.counts
        return {
            "mean": self.mean,
            "weights": self.weights,
            "n": counts.n,
            "judged": counts.judged,
            "coverage": counts.judged / counts.n if counts.n else None,
            "undefined": list(self.undefined),
            "editors": {name: {"n": e.n, "judged": e.judged, "rho": e.rho} for name, e in self.editors.items()},
        }


def average_ranks(values: Sequence[float]) -> list[float]:
    """Rank values from 1; equal values share the average of the ranks that they take up."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    begin = 0
    while begin < len(order):
        end = begin
        while end + 1 < len(order) and values[order[end + 1]] == values[order[begin]]:
            end += 1
        for place in order[begin : end + 1]:
            ranks[place] = (begin + end) / 2 + 1
        begin = end + 1
    return ranks


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's rank correlation of two lists of numbers.

    Returns:
        A number in [-1, 1], or None for fewer than two values or where all values of a list are equal.

    Raises:
        InputError: If the lengths differ or a value is not a finite number.
    """
    if len(first) != len(second):
        raise InputError(
            f"{len(first)} values cannot be correlated with {len(second)}.", next_step="Give lists of one length."
        )
    if not all(map(math.isfinite, (*first, *second))):
        raise InputError("A value to be ranked is not a finite number.", next_step="Leave failed judgments out.")
    n = len(first)
    centre = (n + 1) / 2
    one = [rank - centre for rank in average_ranks(first)]
    other = [rank - centre for rank in average_ranks(second)]
    # Halves of whole numbers: these sums are exact, so that equal orders give exactly 1.
    square, other_square = math.fsum(x * x for x in one), math.fsum(y * y for y in other)
    if not square or not other_square:
        return None
    rho = math.fsum(x * y for x, y in zip(one, other, strict=True)) / math.sqrt(square * other_square)
    return max(-1.0, min(1.0, rho))


def fisher_mean(values: Sequence[float], weights: Sequence[float] | None = None) -> float | None:
    """Average correlations by Fisher's z, tanh(sum w atanh(r) / sum w).

    Args:
        values: Correlations in [-1, 1]; beyond `NEARLY_ONE` they count as that, unless all are equal.
        weights: One per value, not negative; None for equal weights.

    Returns:
        A number in [-1, 1], or None without values or weight.
    """
    weights = [1.0] * len(values) if weights is None else list(weights)
    total = math.fsum(weights)
    if not values or total <= 0:
        return None
    if min(values) == max(values):
        return values[0]
    kept = [max(-NEARLY_ONE, min(NEARLY_ONE, value)) for value in values]
    return math.tanh(math.fsum(w * math.atanh(r) for w, r in zip(weights, kept, strict=True)) / total)


def correlate(ratings: Iterable[Rating], weights: Weights = "equal") -> Correlation:
    """Correlate a judge's scores with people's per editor, and average over editors by Fisher's z.

    Edits without a judgment are left out of the correlation of their editor and lower its coverage.
    """
    parts: dict[str, list[Rating]] = {}
    for rating in ratings:
        parts.setdefault(rating.editor, []).append(rating)
    editors = {}
    for name, part in sorted(parts.items()):
        known = [(each.judge, each.human) for each in part if each.judge is not None]
        rho = spearman([judge for judge, _ in known], [human for _, human in known])
        editors[name] = EditorCorrelation(len(part), len(known), rho)
    heavy = {name: each.judged - 3.0 if weights == "n-3" else 1.0 for name, each in editors.items()}
    used = [name for name, each in editors.items() if each.rho is not None and heavy[name] > 0]
    mean = fisher_mean([editors[name].rho or 0.0 for name in used], [heavy[name] for name in used])
    return Correlation(editors, weights, mean, tuple(name for name in editors if name not in used))

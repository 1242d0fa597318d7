"""Calibration of a judge's confidence, and accuracy by margin and category.

    reliability   per bin of confidence: share of correct judgments, with n and an interval
    ECE           sum over bins of n_bin / n * |accuracy - confidence| (Guo et al., arXiv 1706.04599), in [0, 1]
    Brier         mean of (confidence - right)^2 (Monthly Weather Review 78, 1950), in [0, 1]; lower is better

Judgments that failed or have no confidence are left out of all three and counted.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rewardharness.benchmark.metrics import Bounds, Share, bounds, split
from rewardharness.errors import InputError
from rewardharness.judging.report import wilson
from rewardharness.schema import Accuracy

BINS = 10
"""Number of bins of a reliability curve."""

QUANTILES = 4
"""Number of quantiles of the margins."""


@dataclass(frozen=True)
class GradedJudgment:
    """One judgment of a labeled example: confidence and correctness."""

    id: str
    correct: float | None
    """1 correct, 0 wrong, in between for an undecided forced choice; None without a judgment."""
    confidence: float | None = None
    """Probability that the preference is correct, in [0, 1]; None if the judge does not report it."""
    margin: float | None = None
    """Margin of the preferred candidate, 0 or more; None if not available."""
    category: str = ""
    """Category of the edit."""
    source: str = ""
    """Source image."""

    def __post_init__(self) -> None:
        values = {"confidence": self.confidence, "agreement": self.correct, "margin": self.margin}
        for name, value in values.items():
            limits, top = ("a number >= 0", math.inf) if name == "margin" else ("in [0, 1]", 1.0)
            if value is not None and not (0 <= value <= top and math.isfinite(value)):
                raise InputError(f"{self.id}: the {name} {value} is not {limits}.", next_step="Correct it.")


@dataclass(frozen=True)
class Bin:
    """Judgments within one bin of confidence, or one quantile of the margins."""

    low: float
    high: float
    """Bounds of the confidences: (low, high], the first bin [low, high]. For margins: smallest and largest value."""
    n: int
    mean: float | None
    """Mean confidence or margin; None for an empty bin."""
    accuracy: float | None
    interval: Bounds | None


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Relation between confidence and accuracy."""

    n: int
    """Labeled examples."""
    used: int
    """Examples with a judgment and a confidence; all other values refer to these."""
    expected_calibration_error: float | None = None
    """None without such examples."""
    brier: float | None = None
    confidence: float | None = None
    """Mean confidence. A value above `accuracy` means that the judge is overconfident."""
    accuracy: float | None = None
    scheme: str = "width"
    """The bins are of equal width, as in publications."""
    bins: tuple[Bin, ...]


def calibration(judgments: Iterable[GradedJudgment], bins: int = BINS) -> Calibration:
    """Measure calibration: the reliability curve, its expected error, and the Brier score."""
    rows = list(judgments)
    used = sorted((r.confidence, r.correct) for r in rows if r.confidence is not None and r.correct is not None)
    edges = [place / bins for place in range(bins + 1)]
    filled = split(used, lambda row: max(1, bisect_left(edges, row[0])))
    made = tuple(_bin(edges[high - 1], edges[high], filled.get(high, [])) for high in range(1, bins + 1))
    n = len(used)
    if not n:
        return Calibration(n=len(rows), used=0, bins=made)
    gaps = [each.n * abs((each.accuracy or 0.0) - each.mean) for each in made if each.mean is not None]
    return Calibration(
        n=len(rows),
        used=n,
        expected_calibration_error=math.fsum(gaps) / n,
        brier=math.fsum((confidence - correct) ** 2 for confidence, correct in used) / n,
        confidence=math.fsum(confidence for confidence, _ in used) / n,
        accuracy=math.fsum(correct for _, correct in used) / n,
        bins=made,
    )


def by_margin(judgments: Iterable[GradedJudgment], quantiles: int = QUANTILES) -> tuple[Bin, ...]:
    """Return the accuracy per quantile of the margin. For an informative margin, accuracy grows with it.

    Judgments without a margin are left out. Equal margins share a quantile, so there may be fewer.
    """
    rows = sorted((r.margin, r.correct) for r in judgments if r.margin is not None and r.correct is not None)
    made, begin = [], 0
    for part in range(1, quantiles + 1):
        end = max(begin, round(part * len(rows) / quantiles))
        while 0 < end < len(rows) and rows[end][0] == rows[end - 1][0]:
            end += 1
        if end > begin:
            made.append(_bin(rows[begin][0], rows[end - 1][0], rows[begin:end]))
            begin = end
    return tuple(made)


def by_category(judgments: Iterable[GradedJudgment]) -> dict[str, Share]:
    """Return the accuracy per category, in alphabetical order; failures lower the coverage of their category."""
    shares = {}
    for name, part in split(judgments, lambda judgment: judgment.category).items():
        judged = [judgment.correct for judgment in part if judgment.correct is not None]
        shares[name] = Share.of(Accuracy(len(part), len(judged), math.fsum(judged)))
    return shares


def _bin(low: float, high: float, rows: Sequence[tuple[float, float]]) -> Bin:
    n, correct = len(rows), math.fsum(correct for _, correct in rows)
    mean = math.fsum(value for value, _ in rows) / n if n else None
    return Bin(low, high, n, mean, correct / n if n else None, bounds(wilson(correct, n)))

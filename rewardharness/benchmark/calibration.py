"""Calibration of a judge's confidence, and accuracy by margin and category.

    reliability   per bin of confidence: share of correct judgments, with n and an interval
    ECE           sum over bins of n_bin / n * |accuracy - confidence| (Guo et al., arXiv 1706.04599), in [0, 1]
    Brier         mean of (confidence - right)^2 (Monthly Weather Review 78, 1950), in [0, 1]; lower is better

Judgments that failed or have no confidence are left out of all three and counted.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rewardharness.benchmark.metrics import bounds, share_json, split
from rewardharness.errors import InputError
from rewardharness.judging.report import wilson
from rewardharness.schema import Accuracy, Json

Scheme = Literal["width", "mass"]
"""How bins are formed: of equal width, as in publications, or with about equal numbers of judgments."""

BINS = 10
"""Default number of bins of a reliability curve."""


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

    def __post_init__(self) -> None:
        for name, value, top in (("confidence", self.confidence, 1.0), ("agreement", self.correct, 1.0)):
            if value is not None and not 0 <= value <= top:
                raise InputError(f"{self.id}: the {name} {value} is not in [0, 1].", next_step="Correct it.")
        if self.margin is not None and not (math.isfinite(self.margin) and self.margin >= 0):
            raise InputError(f"{self.id}: the margin {self.margin} is not a number >= 0.", next_step="Correct it.")


@dataclass(frozen=True)
class Bin:
    """Judgments within one bin of confidence, or one quantile of the margins."""

    low: float
    high: float
    """Bounds of the confidences: (low, high], the first bin [low, high]. For margins: smallest and largest value."""
    accuracy: Accuracy
    """Accuracy of the judgments in the bin; all of them count as judged."""
    mean: float | None
    """Mean confidence or margin; None for an empty bin."""

    def to_json(self) -> Json:
        """Return the bin as JSON."""
        count = self.accuracy
        return {
            "low": self.low,
            "high": self.high,
            "n": count.n,
            "mean": self.mean,
            "accuracy": count.value,
            "interval": bounds(wilson(count.correct, count.judged)),
        }


@dataclass(frozen=True)
class Calibration:
    """Relation between confidence and accuracy."""

    bins: tuple[Bin, ...]
    scheme: Scheme
    n: int
    """Labeled examples."""
    used: int
    """Examples with a judgment and a confidence; all other values refer to these."""
    error: float | None
    """Expected calibration error; None without such examples."""
    brier: float | None
    confidence: float | None
    """Mean confidence. A value above `accuracy` means that the judge is overconfident."""
    accuracy: float | None

    def to_json(self) -> Json:
        """Return the calibration as JSON."""
        return {
            "n": self.n,
            "used": self.used,
            "expected_calibration_error": self.error,
            "brier": self.brier,
            "confidence": self.confidence,
            "accuracy": self.accuracy,
            "scheme": self.scheme,
            "bins": [bin_.to_json() for bin_ in self.bins],
        }


@dataclass
class _Tally:
    """Sums over the judgments of one bin."""

    values: list[float] = field(default_factory=list)
    correct: list[float] = field(default_factory=list)

    def add(self, value: float, correct: float) -> None:
        self.values.append(value)
        self.correct.append(correct)

    def to_bin(self, low: float, high: float) -> Bin:
        n = len(self.values)
        return Bin(low, high, Accuracy(n, n, math.fsum(self.correct)), math.fsum(self.values) / n if n else None)


def calibration(forecasts: Iterable[GradedJudgment], bins: int = BINS, scheme: Scheme = "width") -> Calibration:
    """Measure calibration: the reliability curve, its expected error, and the Brier score.

    Args:
        forecasts: Judgments of labeled examples.
        bins: Number of bins, at least 1. Equal confidences share a bin, so there may be fewer bins of equal mass.
        scheme: How bins are formed.

    Raises:
        InputError: If `bins` is less than 1.
    """
    rows = list(forecasts)
    rows_used = sorted((r.confidence, r.correct) for r in rows if r.confidence is not None and r.correct is not None)
    bins_made = _bins_of_width(rows_used, _at_least_one(bins)) if scheme == "width" else _bins_of_mass(rows_used, bins)
    n = len(rows_used)
    if not n:
        return Calibration(bins_made, scheme, len(rows), 0, None, None, None, None)
    gaps = [
        bin_.accuracy.n * abs((bin_.accuracy.value or 0.0) - bin_.mean) for bin_ in bins_made if bin_.mean is not None
    ]
    return Calibration(
        bins_made,
        scheme,
        len(rows),
        n,
        error=math.fsum(gaps) / n,
        brier=math.fsum((confidence - correct) ** 2 for confidence, correct in rows_used) / n,
        confidence=math.fsum(confidence for confidence, _ in rows_used) / n,
        accuracy=math.fsum(correct for _, correct in rows_used) / n,
    )


def by_margin(forecasts: Iterable[GradedJudgment], parts: int = 4) -> tuple[Bin, ...]:
    """Return the accuracy per quantile of the margin. For an informative margin, accuracy grows with it.

    Args:
        forecasts: Judgments of labeled examples; those without a judgment or a margin are left out.
        parts: Number of quantiles, at least 1. Equal margins always share a quantile, so there may be fewer.

    Raises:
        InputError: If `parts` is less than 1.
    """
    rows = sorted((r.margin, r.correct) for r in forecasts if r.margin is not None and r.correct is not None)
    return _bins_of_mass(rows, _at_least_one(parts))


def by_category(forecasts: Iterable[GradedJudgment]) -> dict[str, Accuracy]:
    """Return the accuracy per category, in alphabetical order; failures lower the coverage of their category."""
    counts = {}
    for name, part in split(forecasts, lambda judgment: judgment.category).items():
        judged = [judgment.correct for judgment in part if judgment.correct is not None]
        counts[name] = Accuracy(len(part), len(judged), math.fsum(judged))
    return counts


def calibration_json(forecasts: Sequence[GradedJudgment], bins: int = BINS, parts: int = 4) -> Json:
    """Return calibration and accuracy by margin and category as JSON."""
    categories: Mapping[str, Accuracy] = by_category(forecasts)
    return {
        "calibration": calibration(forecasts, bins).to_json(),
        "by_margin": [judgment.to_json() for judgment in by_margin(forecasts, parts)],
        "by_category": {name: share_json(count) for name, count in categories.items()},
    }


def _bins_of_width(rows: Sequence[tuple[float, float]], bins: int) -> tuple[Bin, ...]:
    edges = [place / bins for place in range(bins + 1)]
    tallies = [_Tally() for _ in range(bins)]
    place = 0
    for confidence, correct in rows:
        while confidence > edges[place + 1]:
            place += 1
        tallies[place].add(confidence, correct)
    return tuple(tally.to_bin(edges[i], edges[i + 1]) for i, tally in enumerate(tallies))


def _bins_of_mass(rows: Sequence[tuple[float, float]], bins: int) -> tuple[Bin, ...]:
    """Split sorted rows into parts of about equal size, never between equal values."""
    made = []
    begin = 0
    for part in range(1, _at_least_one(bins) + 1):
        end = max(begin, round(part * len(rows) / bins))
        while 0 < end < len(rows) and rows[end][0] == rows[end - 1][0]:
            end += 1
        if end == begin:
            continue
        tally = _Tally()
        for value, correct in rows[begin:end]:
            tally.add(value, correct)
        made.append(tally.to_bin(rows[begin][0], rows[end - 1][0]))
        begin = end
    return tuple(made)


def _at_least_one(number: int) -> int:
    if number < 1:
        raise InputError(f"The number of bins must be at least 1, not {number}.", next_step="Use 1 or more.")
    return number

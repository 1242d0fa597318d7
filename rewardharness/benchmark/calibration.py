"""Whether a judge's confidence means what it says, and where it errs.

    reliability   per bin of confidence: how often the judge was right, with n and an interval
    ECE           sum over bins of n_bin / n * |accuracy - confidence| (Guo et al., arXiv 1706.04599), in [0, 1]
    Brier         mean of (confidence - right)^2 (Monthly Weather Review 78, 1950), in [0, 1]; lower is better

A judgment that failed, or that says nothing of its confidence, is left out of all three and counted.
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
"""How bins are made: of equal width, as published, or with about as many judgments in each."""

BINS = 10
"""Bins of a reliability curve, unless said otherwise."""


@dataclass(frozen=True)
class Forecast:
    """One judgment of a labelled example: how sure the judge was, and whether it was right."""

    id: str
    correct: float | None
    """1 right, 0 wrong, between for an undecided forced choice; None when there is no judgment."""
    confidence: float | None = None
    """That the preference is right, in [0, 1]; None when the judge does not say."""
    margin: float | None = None
    """Lead of the winner, 0 or more; None when nothing says how far."""
    category: str = ""

    def __post_init__(self) -> None:
        for name, value, top in (("confidence", self.confidence, 1.0), ("agreement", self.correct, 1.0)):
            if value is not None and not 0 <= value <= top:
                raise InputError(f"{self.id}: the {name} {value} is not in [0, 1].", next_step="Correct it.")
        if self.margin is not None and not (math.isfinite(self.margin) and self.margin >= 0):
            raise InputError(f"{self.id}: the margin {self.margin} is not a number from 0 on.", next_step="Correct it.")


@dataclass(frozen=True)
class Bin:
    """The judgments of one bin of confidence, or of one part of the margins."""

    low: float
    high: float
    """Confidences in (low, high], the first bin from `low` on. For margins: the smallest and the largest in it."""
    accuracy: Accuracy
    """All in it are judged."""
    mean: float | None
    """Mean confidence or margin; None for an empty bin."""

    def to_json(self) -> Json:
        """Put it into JSON."""
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
    """How confidence and being right go together."""

    bins: tuple[Bin, ...]
    scheme: Scheme
    n: int
    """Labelled examples."""
    used: int
    """Those with a judgment and a confidence: everything here is about these."""
    error: float | None
    """Expected calibration error; None without any."""
    brier: float | None
    confidence: float | None
    """Mean confidence: above `accuracy` the judge is too sure of itself."""
    accuracy: float | None

    def to_json(self) -> Json:
        """Put it into JSON."""
        return {
            "n": self.n,
            "used": self.used,
            "expected_calibration_error": self.error,
            "brier": self.brier,
            "confidence": self.confidence,
            "accuracy": self.accuracy,
            "scheme": self.scheme,
            "bins": [each.to_json() for each in self.bins],
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


def calibration(forecasts: Iterable[Forecast], bins: int = BINS, scheme: Scheme = "width") -> Calibration:
    """Measure calibration: the reliability curve, its expected error, and the Brier score.

    Args:
        forecasts: Judgments of labelled examples.
        bins: Number of bins, at least 1. Bins of equal mass never part equal confidences, so there may be fewer.
        scheme: How bins are made.

    Raises:
        InputError: If `bins` is less than 1.
    """
    rows = list(forecasts)
    known = sorted((r.confidence, r.correct) for r in rows if r.confidence is not None and r.correct is not None)
    made = _bins_of_width(known, _at_least_one(bins)) if scheme == "width" else _bins_of_mass(known, bins)
    n = len(known)
    if not n:
        return Calibration(made, scheme, len(rows), 0, None, None, None, None)
    gaps = [each.accuracy.n * abs((each.accuracy.value or 0.0) - each.mean) for each in made if each.mean is not None]
    return Calibration(
        made,
        scheme,
        len(rows),
        n,
        error=math.fsum(gaps) / n,
        brier=math.fsum((confidence - correct) ** 2 for confidence, correct in known) / n,
        confidence=math.fsum(confidence for confidence, _ in known) / n,
        accuracy=math.fsum(correct for _, correct in known) / n,
    )


def by_margin(forecasts: Iterable[Forecast], parts: int = 4) -> tuple[Bin, ...]:
    """Accuracy by quantile of the margin: a judge that knows what it knows is right more often where it is surer.

    Args:
        forecasts: Judgments of labelled examples; those without a judgment or a margin are left out.
        parts: Number of parts of about equal size, at least 1. Equal margins are never parted, so there may be fewer.

    Raises:
        InputError: If `parts` is less than 1.
    """
    rows = sorted((r.margin, r.correct) for r in forecasts if r.margin is not None and r.correct is not None)
    return _bins_of_mass(rows, _at_least_one(parts))


def by_category(forecasts: Iterable[Forecast]) -> dict[str, Accuracy]:
    """Accuracy per category, in alphabetical order; failures lower the coverage of their category."""
    counts = {}
    for name, part in split(forecasts, lambda each: each.category).items():
        judged = [each.correct for each in part if each.correct is not None]
        counts[name] = Accuracy(len(part), len(judged), math.fsum(judged))
    return counts


def calibration_json(forecasts: Sequence[Forecast], bins: int = BINS, parts: int = 4) -> Json:
    """Put all of it into JSON: calibration, accuracy by margin and by category."""
    categories: Mapping[str, Accuracy] = by_category(forecasts)
    return {
        "calibration": calibration(forecasts, bins).to_json(),
        "by_margin": [each.to_json() for each in by_margin(forecasts, parts)],
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
    """Cut sorted rows into parts of about equal size, never between equal values."""
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
        raise InputError(f"{number} bins cannot be made.", next_step="Give 1 or more.")
    return number

"""Calibration of a judge's confidence: how good it is, and its fit on labeled judgments.

    reliability   per bin of confidence: share of correct judgments, with n and an interval
    ECE           sum over bins of n_bin / n * |accuracy - confidence| (Guo et al., arXiv 1706.04599), in [0, 1]
    Brier         mean of (confidence - right)^2 (Monthly Weather Review 78, 1950), in [0, 1]; lower is better

Judgments that failed or have no confidence are left out of all three and counted.

The category of a judgment is the kind of its edit. The curve of a kind is shrunken toward that of all kinds, which is
shrunken toward one half:

    min  sum_i log-loss_i + STRENGTH / 2 * |(intercept, slope) - prior|^2,   slope >= 0

A kind with fewer than `ENOUGH` examples has no curve of its own. Edits that cannot be graded always have one, shrunken
toward one half and fitted apart from the others: nothing that was measured speaks to their instruction. No source image
is in two folds.
"""

import math
import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from rewardharness.benchmark.items import REVERSE, BenchmarkData
from rewardharness.benchmark.metrics import TWO_WAY, Bounds, Share, bounds, split
from rewardharness.benchmark.numbers import credit, make_sheet
from rewardharness.errors import InputError
from rewardharness.judging import calibration as judging
from rewardharness.judging.calibration import (
    ALL_KINDS,
    NOT_GRADABLE,
    CalibrationData,
    ConfidenceCalibration,
    Curve,
    MeasuredError,
)
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.judging.report import wilson
from rewardharness.schema import Accuracy, Interval, Judgment

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
    gaps = [bucket.n * abs((bucket.accuracy or 0.0) - bucket.mean) for bucket in made if bucket.mean is not None]
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


ENOUGH = 30
"""Least number of examples for a curve of a kind of edit; a common minimum, chosen on no data."""
LEAST = 20
"""Least number of examples for a calibration."""
STRENGTH = 4.0
"""Weight of the prior, on the scale of intercept and slope."""
FOLDS = 10
RESAMPLES = 500
"""Bootstrap samples of the interval."""
METHOD = (
    "Logistic curve over the square root of the margin, per kind of edit, shrunken toward all kinds; "
    "error cross-validated in 10 folds by source image, 10 bins of equal width, bootstrap over sources"
)
PEOPLE = "human"
"""Beginning of the kinds of labels that people gave."""


def fit_curves(rows: Sequence[GradedJudgment]) -> dict[str, Curve]:
    """Fit the curve of all kinds, and of each kind of edit with enough examples."""
    unknown = [row for row in rows if row.category == NOT_GRADABLE]
    graded = [row for row in rows if row.category != NOT_GRADABLE]
    pooled = fit_curve(graded, (0.0, 0.0))
    prior = pooled.intercept, pooled.slope
    kinds = Counter(row.category for row in graded)
    enough = sorted(kind for kind, n in kinds.items() if n >= ENOUGH)
    own = {kind: fit_curve([row for row in graded if row.category == kind], prior) for kind in enough}
    return {ALL_KINDS: pooled, **own, NOT_GRADABLE: fit_curve(unknown, (0.0, 0.0))}


def fit_curve(rows: Sequence[GradedJudgment], prior: tuple[float, float]) -> Curve:
    """Fit one curve by Newton steps with a slope of at least 0."""
    points = [(math.sqrt(row.margin or 0.0), row.correct or 0.0) for row in rows]
    intercept, slope = _newton(points, prior, None)
    if slope < 0:
        intercept, slope = _newton(points, prior, 0.0)
    return Curve(round(intercept, 6), round(slope, 6), len(rows))


def _newton(
    points: Sequence[tuple[float, float]], prior: tuple[float, float], fixed: float | None
) -> tuple[float, float]:
    """Minimize the loss, with the slope free or fixed."""

    def loss(a: float, b: float) -> float:
        total = STRENGTH / 2 * ((a - prior[0]) ** 2 + (b - prior[1]) ** 2)
        return total + sum(math.log1p(math.exp(-abs(z))) + max(z, 0) - y * z for x, y in points for z in (a + b * x,))

    a, b = prior[0], prior[1] if fixed is None else fixed
    for _ in range(100):
        chances = [(x, y, Curve(a + b * x, 0.0, 0).probability(0.0)) for x, y in points]
        ga = STRENGTH * (a - prior[0]) + sum(p - y for _, y, p in chances)
        gb = 0.0 if fixed is not None else STRENGTH * (b - prior[1]) + sum((p - y) * x for x, y, p in chances)
        if math.hypot(ga, gb) < 1e-8:
            break
        haa = STRENGTH + sum(p * (1 - p) for _, _, p in chances)
        hab = 0.0 if fixed is not None else sum(p * (1 - p) * x for x, _, p in chances)
        hbb = STRENGTH + sum(p * (1 - p) * x * x for x, _, p in chances)
        size = haa * hbb - hab * hab
        da, db = -(hbb * ga - hab * gb) / size, -(haa * gb - hab * ga) / size
        step, now = 1.0, loss(a, b)
        while step > 1e-6 and loss(a + step * da, b + step * db) > now:
            step /= 2
        a, b = a + step * da, b + step * db
    return a, b


def cross_validate(rows: Sequence[GradedJudgment]) -> list[float]:
    """Return the probability of each example by curves that were fitted without its source image."""
    fold_of = _folds(rows)
    probabilities = [0.0] * len(rows)
    for fold in set(fold_of.values()):
        curves = fit_curves([row for row in rows if fold_of[row.source] != fold])
        for number, row in enumerate(rows):
            if fold_of[row.source] == fold:
                probabilities[number] = curves.get(row.category, curves[ALL_KINDS]).probability(row.margin or 0.0)
    return probabilities


def _folds(rows: Sequence[GradedJudgment]) -> dict[str, int]:
    """Assign source images to folds of about equal size."""
    sizes = Counter(row.source for row in rows)
    names = sorted(sizes)
    random.Random(0).shuffle(names)
    filled = [0] * min(FOLDS, len(names))
    fold_of = {}
    for name in names:
        fold_of[name] = filled.index(min(filled))
        filled[fold_of[name]] += sizes[name]
    return fold_of


def measure_error(rows: Sequence[GradedJudgment], confidences: Sequence[float]) -> MeasuredError:
    """Return the expected calibration error of confidences, with a bootstrap interval over source images."""
    judged = [replace(row, confidence=confidence) for row, confidence in zip(rows, confidences, strict=True)]
    parts = list(split(judged, lambda row: row.source).values())

    def error(chosen: Sequence[Sequence[GradedJudgment]]) -> float:
        return calibration([row for part in chosen for row in part]).expected_calibration_error or 0.0

    draw = random.Random(0)
    drawn = sorted(error(draw.choices(parts, k=len(parts))) for _ in range(RESAMPLES))
    low, high = drawn[int(0.025 * RESAMPLES)], drawn[int(0.975 * RESAMPLES)]
    return MeasuredError(round(error(parts), 4), Interval(round(low, 4), round(high, 4)), len(rows))


def fit_calibration(
    rows: Sequence[GradedJudgment], identity: JudgeIdentity, data: Sequence[CalibrationData], *, people: bool
) -> ConfidenceCalibration:
    """Fit a calibration, with its cross-validated error.

    Args:
        rows: Labeled preferences of one judge with one Library.
        identity: The judge.
        data: Where the rows are from.
        people: Whether all labels are choices of people.

    Raises:
        InputError: If there are too few rows, or of one source image only.
    """
    sources = len({row.source for row in rows})
    if len(rows) < LEAST or sources < 2:
        needed = f"at least {LEAST} preferences between two candidates with labels that are no ties, of 2 source images"
        message = f"A calibration needs {needed}; there are {len(rows)} of {sources}."
        raise InputError(message, next_step="Use more labeled data.")
    known = [(row, row.confidence) for row in rows if row.confidence is not None]
    before = measure_error([row for row, _ in known], [value for _, value in known]) if known else None
    who = {name: getattr(identity, name) for name in ("judge", "judge_revision", "protocol", "library_id")}
    return ConfidenceCalibration(
        **who,
        curves=fit_curves(rows),
        data=tuple(data),
        people=people,
        before=before,
        after=measure_error(rows, cross_validate(rows)),
        method=METHOD,
        made_at=datetime.now(UTC).date().isoformat(),
    )


def calibrate_benchmark(
    data: BenchmarkData, judgments: Mapping[str, Judgment], identity: JudgeIdentity
) -> ConfidenceCalibration:
    """Fit a calibration on the labels of a benchmark run.

    Args:
        data: The benchmark.
        judgments: Judgments of one judge by item.
        identity: The judge.

    Raises:
        InputError: If there are too few preferences with labels.
    """
    rows: list[GradedJudgment] = []
    parts: Counter[str] = Counter()
    sheet = make_sheet(data.record, judgments)
    for reply in sheet.counting:
        question = reply.question
        judgment = question.only_judgment(judgments)
        if judgment is None or question.truth not in TWO_WAY or question.order == REVERSE:
            continue
        correct, example = credit(sheet.parts[question.part], reply), data.items[judgment.example_id].example
        if correct is None or not judging.comparable(judgment):
            continue
        kind, margin = judging.edit_kind(example, judgment), abs(judgment.margin or 0.0)
        graded = (question.id, float(correct >= 1), judgment.own_confidence, margin, kind, question.cluster)
        rows.append(GradedJudgment(*graded))
        parts[question.part] += 1
    about = CalibrationData(data.task.title, data.digest, len(rows), dict(sorted(parts.items())))
    # The published tasks have labels of people; other data say so in their kinds of labels.
    people = not data.task.data.examples or all(kind.startswith(PEOPLE) for kind in parts)
    return fit_calibration(rows, identity, [about], people=people)

"""Rank correlation of a judge's scores with human scores, per editor, and its mean over editors.

    rho       Spearman's rank correlation (Am. J. Psychol. 15, 1904): Pearson's correlation of the ranks; equal values
              share the average of their ranks. Not defined if one side is constant or nearly constant, see `APART`.
    mean      Fisher's z: tanh of the mean of atanh(rho) (Biometrika 10, 1915).
    interval  by the jackknife over images, see `mean_interval`.

VIEScore (arXiv 2312.14867) uses this metric for ImagenHub; AURORA-Bench (pointwise) is averaged the same way.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean

import numpy as np

from rewardharness.benchmark.intervals import left_out_in_turn
from rewardharness.benchmark.metrics import split
from rewardharness.errors import InputError
from rewardharness.schema import Interval

NEARLY_ONE = 1 - 1e-6
"""Limit for correlations: exactly 1 has an infinite z, which would outweigh all other editors."""

APART = 3
"""Minimum number of scores of each side that differ from its most frequent score.

With fewer, more than e^-3 = 5% of all resamples of the edits contain a single score only, so that the existence of a
correlation depends on the sample."""


@dataclass(frozen=True)
class Rating:
    """One edit with a score of the judge and a human score; the scales may differ."""

    editor: str
    """Editor that made the edit. Never shown to a judge."""
    judge: float | None
    """None without a judgment."""
    human: float


@dataclass(frozen=True)
class EditorCorrelation:
    """Rank correlation over the edits of one editor."""

    n: int
    """Edits with a human score."""
    judged: int
    """Edits that the judge scored; the correlation is over these."""
    rho: float | None
    """In [-1, 1]; None if not defined."""
    reason: str = ""
    """Why `rho` is not defined."""


@dataclass(frozen=True)
class Correlation:
    """Correlations per editor, and their mean."""

    mean: float | None
    """Fisher's mean over the editors with a defined rho, in [-1, 1]; None without any."""
    weights: str
    """Each editor has the same weight, as in published tables."""
    n: int
    """Edits of all editors."""
    judged: int
    coverage: float | None
    undefined: tuple[str, ...]
    """Editors without a rho, which are not in the mean; see their `reason`."""
    editors: Mapping[str, EditorCorrelation]


def fisher_mean(values: Sequence[float]) -> float | None:
    """Average correlations in [-1, 1] by Fisher's z; None without values.

    Unless all are equal, they are limited to `NEARLY_ONE`.
    """
    if not values:
        return None
    if min(values) == max(values):
        return values[0]
    clipped = [max(-NEARLY_ONE, min(NEARLY_ONE, value)) for value in values]
    return math.tanh(math.fsum(map(math.atanh, clipped)) / len(clipped))


def correlate(ratings: Iterable[Rating]) -> Correlation:
    """Correlate a judge's scores with human scores per editor, and average over editors by Fisher's z.

    Edits without a judgment are left out of the correlation of their editor and lower its coverage.
    """
    editors = {}
    for name, part in split(ratings, lambda rating: rating.editor).items():
        judge, human = _sides(part)
        reason = _no_rho(judge, human)
        rho = None if reason else spearman(judge, human)
        editors[name] = EditorCorrelation(len(part), len(judge), rho, reason)
    mean = fisher_mean([editor.rho for editor in editors.values() if editor.rho is not None])
    n, judged = sum(editor.n for editor in editors.values()), sum(editor.judged for editor in editors.values())
    undefined = tuple(name for name, editor in editors.items() if editor.rho is None)
    return Correlation(mean, "equal", n, judged, judged / n if n else None, undefined, editors)


def _sides(ratings: Iterable[Rating]) -> tuple[list[float], list[float]]:
    pairs = [(rating.judge, rating.human) for rating in ratings if rating.judge is not None]
    return [judge for judge, _ in pairs], [human for _, human in pairs]


def _no_rho(judge: Sequence[float], human: Sequence[float]) -> str:
    """Return why the correlation of two lists of scores is not defined; empty if it is defined."""
    if len(judge) <= APART:
        return f"too few judged edits: {len(judge)}"
    apart = min(len(scores) - max(Counter(scores).values()) for scores in (judge, human))
    if apart < APART:
        return f"all scores of one side are equal{f', but for {apart}' if apart else ''}"
    return ""


def mean_interval(ratings: Sequence[Rating], clusters: Sequence[str] | None = None) -> Interval | None:
    """Compute the 95% interval of the mean of `correlate` with respect to the sample of images.

    This is the jackknife over images (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 11): each
    image is left out in turn with the edits of all editors. The change of each editor's rho is transformed to Fisher's
    z by its derivative, 1 / (1 - rho^2), and a t interval of the mean of z is transformed back. A percentile bootstrap
    overestimates here: resamples with few distinct scores are perfectly ordered, with an unbounded z, or have no order
    at all and drop out.

    Args:
        ratings: As in `correlate`.
        clusters: The image of each rating; an empty name is an image of its own. None: every rating is independent.

    Returns:
        The interval; None if there is no mean, an editor is perfectly ordered, or leaving out a single image removes
        the order.
    """
    correlation = correlate(ratings)
    defined = (place for place, rating in enumerate(ratings) if rating.editor not in correlation.undefined)
    places = split(defined, lambda place: ratings[place].editor, ordered=False)
    groups = left_out_in_turn(len(ratings), clusters)
    if correlation.mean is None or len(groups) < 2:
        return None
    changes = [0.0] * len(groups)
    for name, own in places.items():
        rho = correlation.editors[name].rho or 0.0
        if abs(rho) > NEARLY_ONE:
            return None
        weight = 1.0 / len(places) / (1 - rho * rho)
        for number, group in enumerate(groups):
            if group.isdisjoint(own):
                continue
            without_group = spearman(*_sides(ratings[place] for place in own if place not in group))
            if without_group is None:
                return None
            changes[number] += weight * (without_group - rho)
    count, average = len(groups), fmean(changes)
    spread = math.sqrt((count - 1) / count * math.fsum((change - average) ** 2 for change in changes))
    if not spread:
        return None
    z, margin = math.atanh(correlation.mean), _student(count - 1) * spread
    return Interval(math.tanh(z - margin), math.tanh(z + margin), 0.95)


def _student(freedom: int) -> float:
    """Return the 97.5% point of Student's t (Abramowitz and Stegun, 26.7.5), within 2% for `freedom` >= 3."""
    g = NormalDist().inv_cdf(0.975)
    first, second = (g**3 + g) / 4, (5 * g**5 + 16 * g**3 + 3 * g) / 96
    third = (3 * g**7 + 19 * g**5 + 17 * g**3 - 15 * g) / 384
    return g + first / freedom + second / freedom**2 + third / freedom**3


def average_ranks(values: Sequence[float]) -> list[float]:
    """Rank values from 1; equal values share the average of their ranks."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return [float(rank) for rank in (np.cumsum(counts) - (counts - 1) / 2)[places]]


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Compute Spearman's rank correlation of two lists of numbers.

    Returns:
        A number in [-1, 1], or None for fewer than two values or if all values of a list are equal.

    Raises:
        InputError: If the lengths differ or a value is not a finite number.
    """
    if len(first) != len(second):
        message = f"{len(first)} values cannot be correlated with {len(second)}."
        raise InputError(message, next_step="Use lists of equal length.")
    if not all(map(math.isfinite, (*first, *second))):
        raise InputError("A value to be ranked is not a finite number.", next_step="Leave failed judgments out.")
    n = len(first)
    center = (n + 1) / 2
    first_ranks = [rank - center for rank in average_ranks(first)]
    second_ranks = [rank - center for rank in average_ranks(second)]
    # Ranks are multiples of 1/2, so these sums are exact and equal orders give exactly 1.
    square, other_square = math.fsum(a * a for a in first_ranks), math.fsum(b * b for b in second_ranks)
    if not square or not other_square:
        return None
    rho = math.fsum(a * b for a, b in zip(first_ranks, second_ranks, strict=True)) / math.sqrt(square * other_square)
    return max(-1.0, min(1.0, rho))

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
from typing import Literal

from rewardharness.benchmark.intervals import left_out_in_turn
from rewardharness.judging.ranks import spearman
from rewardharness.schema import Accuracy, Interval, Json

Weights = Literal["equal", "n-3"]
"""`equal`: each editor has the same weight, as in published tables. `n-3`: inverse variance of its z."""

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

    editors: Mapping[str, EditorCorrelation]
    weights: Weights
    mean: float | None
    """Fisher's mean over the editors with a defined rho, in [-1, 1]; None without any."""
    undefined: tuple[str, ...]
    """Editors without a rho, which are not in the mean; see their `reason`."""

    @property
    def counts(self) -> Accuracy:
        """Edits and judged edits of all editors; `correct` is not used."""
        editors = self.editors.values()
        return Accuracy(sum(editor.n for editor in editors), sum(editor.judged for editor in editors), 0.0)

    def to_json(self) -> Json:
        """Return the correlation as JSON."""
        counts = self.counts
        return {
            "mean": self.mean,
            "weights": self.weights,
            "n": counts.n,
            "judged": counts.judged,
            "coverage": counts.judged / counts.n if counts.n else None,
            "undefined": list(self.undefined),
            "editors": {
                name: {"n": e.n, "judged": e.judged, "rho": e.rho, "reason": e.reason}
                for name, e in self.editors.items()
            },
        }


def fisher_mean(values: Sequence[float], weights: Sequence[float] | None = None) -> float | None:
    """Average correlations by Fisher's z, tanh(sum w atanh(r) / sum w).

    Args:
        values: Correlations in [-1, 1]. Unless all are equal, they are limited to `NEARLY_ONE`.
        weights: One nonnegative weight per value; None for equal weights.

    Returns:
        A number in [-1, 1], or None without values or with a total weight of 0.
    """
    weights = [1.0] * len(values) if weights is None else list(weights)
    total = math.fsum(weights)
    if not values or total <= 0:
        return None
    if min(values) == max(values):
        return values[0]
    clipped = [max(-NEARLY_ONE, min(NEARLY_ONE, value)) for value in values]
    return math.tanh(math.fsum(w * math.atanh(r) for w, r in zip(weights, clipped, strict=True)) / total)


def correlate(ratings: Iterable[Rating], weights: Weights = "equal") -> Correlation:
    """Correlate a judge's scores with human scores per editor, and average over editors by Fisher's z.

    Edits without a judgment are left out of the correlation of their editor and lower its coverage.
    """
    parts: dict[str, list[Rating]] = {}
    for rating in ratings:
        parts.setdefault(rating.editor, []).append(rating)
    editors = {}
    for name, part in sorted(parts.items()):
        judge, human = _sides(part)
        reason = _no_rho(judge, human)
        rho = None if reason else spearman(judge, human)
        editors[name] = EditorCorrelation(len(part), len(judge), rho, reason)
    defined = {name: editor for name, editor in editors.items() if editor.rho is not None}
    factors = [editor.judged - 3.0 if weights == "n-3" else 1.0 for editor in defined.values()]
    mean = fisher_mean([editor.rho or 0.0 for editor in defined.values()], factors)
    return Correlation(editors, weights, mean, tuple(name for name in editors if name not in defined))


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


def mean_interval(
    ratings: Sequence[Rating], clusters: Sequence[str] | None = None, weights: Weights = "equal"
) -> Interval | None:
    """Compute the 95% interval of the mean of `correlate` with respect to the sample of images.

    This is the jackknife over images (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 11): each
    image is left out in turn with the edits of all editors. The change of each editor's rho is transformed to Fisher's
    z by its derivative, 1 / (1 - rho^2), and a t interval of the mean of z is transformed back. A percentile bootstrap
    overestimates here: resamples with few distinct scores are perfectly ordered, with an unbounded z, or have no order
    at all and drop out.

    Args:
        ratings: As in `correlate`.
        clusters: The image of each rating; an empty name is an image of its own. None: every rating is independent.
        weights: As in `correlate`.

    Returns:
        The interval; None if there is no mean, an editor is perfectly ordered, or leaving out a single image removes
        the order.
    """
    correlation = correlate(ratings, weights)
    places: dict[str, list[int]] = {}
    for place, rating in enumerate(ratings):
        if correlation.editors[rating.editor].rho is not None:
            places.setdefault(rating.editor, []).append(place)
    groups = left_out_in_turn(len(ratings), clusters)
    if correlation.mean is None or len(groups) < 2:
        return None
    total = math.fsum(correlation.editors[name].judged - 3.0 if weights == "n-3" else 1.0 for name in places)
    changes = [0.0] * len(groups)
    for name, own in places.items():
        editor = correlation.editors[name]
        rho = editor.rho or 0.0
        if abs(rho) > NEARLY_ONE:
            return None
        weight = (editor.judged - 3.0 if weights == "n-3" else 1.0) / total / (1 - rho * rho)
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

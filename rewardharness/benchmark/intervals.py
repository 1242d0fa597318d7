"""Intervals of metrics with respect to the sample of examples, and rank correlation with human scores.

Shares have Wilson's interval (`rewardharness.judging.report.wilson`), differences of two shares its paired form
(`difference_interval`), both for the effective number of examples, since examples of one source image are not
independent. Other means have the percentile bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap, 1993,
chapter 13), seeded, in which source images are drawn as a whole. Below `LEAST` independent examples there is no
interval, and none has a width of zero.

The correlation is taken per editor, then its mean over editors:

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
from statistics import NormalDist, fmean, pvariance

import numpy as np

from rewardharness.benchmark.metrics import LEAST, LabeledAnswer, agreement, split
from rewardharness.errors import InputError
from rewardharness.judging.report import wilson
from rewardharness.schema import Interval

RESAMPLES = 2000
"""Default number of resamples."""

LEVEL = 0.95
"""Share of the resamples within an interval."""

_CHUNK = 2_000_000


def bootstrap_mean(
    values: Sequence[float],
    clusters: Sequence[str] | None = None,
    *,
    categories: Sequence[str] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval | None:
    """Compute the 95% interval of a mean, such as an accuracy or a mean difference per example.

    Args:
        values: One number per example.
        clusters: Cluster of each example; an empty name is a cluster of its own. None: every example is independent.
        categories: Category of each example, for the mean over categories of their means; None for the plain mean.
        resamples: Number of resamples.
        seed: Seed of the random numbers.

    Returns:
        The interval; None below `LEAST` clusters, or if all resamples are equal.

    Raises:
        InputError: If the lengths differ.
    """
    import numpy as np

    members = _members(len(values), clusters)
    if len(members) < LEAST:
        return None
    whole = np.asarray(values, dtype=float)
    named = categories or [""] * len(values)
    parts = []
    for name in dict.fromkeys(named):
        rows = [[row for row in cluster if named[row] == name] for cluster in members]
        parts.append(
            (np.array([whole[cluster].sum() for cluster in rows]), np.array([float(len(cluster)) for cluster in rows]))
        )
    random = np.random.default_rng(seed)
    means: list[float] = []
    step = max(1, _CHUNK // len(members))
    for begin in range(0, resamples, step):
        drawn = random.integers(0, len(members), size=(min(step, resamples - begin), len(members)))
        with np.errstate(invalid="ignore"):  # a category that a resample lacks
            by_part = [(sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)).tolist() for sums, sizes in parts]
        several = zip(*by_part, strict=True)
        means += [fmean(mean for mean in row if mean == mean) for row in several] if len(parts) > 1 else by_part[0]
    low, high = np.quantile(np.asarray(means), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(low), float(high)) if low < high else None


def answers_interval(answers: Sequence[LabeledAnswer]) -> Interval | None:
    """Return the interval of the share of judged answers that agree with their labels, see `share_interval`."""
    judged = [answer for answer in answers if answer.choice is not None]
    clusters, pairs = [answer.cluster for answer in judged], [answer.pair or answer.id for answer in judged]
    return share_interval([agreement(answer) for answer in judged], clusters, pairs)


def share_interval(values: Sequence[float], clusters: Sequence[str], pairs: Sequence[str]) -> Interval | None:
    """Return Wilson's interval of a share for the effective number of questions; None below `LEAST` units.

    Args:
        values: Agreement of each judged question, in [0, 1].
        clusters: Its source image; empty if it is independent.
        pairs: Id of its pair: both orders of a pair are one question, because a judge that looks at both orders itself
            answers twice alike.
    """
    units = [cluster or pair for cluster, pair in zip(clusters, pairs, strict=True)]
    n = effective_size(values, units, len(set(pairs)))
    return None if n is None else wilson(fmean(values) * n, n)


def difference_interval(before: Sequence[float], after: Sequence[float], clusters: Sequence[str]) -> Interval | None:
    """Return the interval of the mean difference of paired values in [0, 1]; None below `LEAST` units.

    Newcombe's square-and-add interval of Wilson's (Stat. Med. 17, 1998, method 10, with its continuity correction),
    for the effective number of pairs. It has a width even if all differences are equal.

    Args:
        before: One value per example, such as its agreement with the label.
        after: The values that it is subtracted from.
        clusters: Source image of each example; empty if it is independent.
    """
    units = [cluster or str(place) for place, cluster in enumerate(clusters)]
    n = effective_size([new - old for old, new in zip(before, after, strict=True)], units, len(units))
    if n is None:
        return None
    first, second = fmean(before), fmean(after)
    one, two = wilson(first * n, n), wilson(second * n, n)
    assert one is not None and two is not None
    together = fmean(old * new for old, new in zip(before, after, strict=True)) - first * second
    spread = math.sqrt(pvariance(before) * pvariance(after))
    joint = max(together - 1 / (2 * n), 0.0) if together > 0 else together
    phi = max(-1.0, min(1.0, joint / spread)) if spread else 0.0

    def reach(a: float, b: float) -> float:
        return math.sqrt(max(0.0, a * a - 2 * phi * a * b + b * b))

    gain = second - first
    low = gain - reach(second - two.low, one.high - first)
    return Interval(max(-1.0, low), min(1.0, gain + reach(two.high - second, first - one.low)))


def effective_size(values: Sequence[float], units: Sequence[str], most: int) -> float | None:
    """Return the number of independent values that say as much as values of which several share a unit.

    It is the number of values over the design effect: the variance of the mean with units drawn as a whole, over that
    with values drawn alone (Kish, Survey Sampling, 1965). If the values are equal, each unit counts as one.

    Args:
        values: The values.
        units: What each belongs to, such as its source image.
        most: Upper limit.

    Returns:
        The number; None below `LEAST` units.
    """
    sums: dict[str, float] = {}
    mean = fmean(values) if values else 0.0
    for value, unit in zip(values, units, strict=True):
        sums[unit] = sums.get(unit, 0.0) + value - mean
    alone, n, several = math.fsum((value - mean) ** 2 for value in values), len(values), len(sums)
    if several < LEAST:
        return None
    if alone < 1e-12:
        return float(min(several, most))
    together = math.fsum(total**2 for total in sums.values()) * (several / (several - 1)) * ((most - 1) / most)
    return min(float(most), max(1.0, n * alone / together)) if together else float(most)


def count_units(clusters: Sequence[str]) -> int:
    """Return the number of independent units: clusters, and examples without one."""
    return len({cluster for cluster in clusters if cluster}) + clusters.count("")


def left_out_in_turn(n: int, clusters: Sequence[str] | None = None, *, most: int = 200) -> list[frozenset[int]]:
    """Return the groups of rows that a jackknife leaves out in turn: one cluster each, or several if there are many.

    Args:
        n: Number of rows.
        clusters: As in `bootstrap_mean`.
        most: Maximum number of groups. More clusters are assigned to groups at random with a fixed seed (delete-a-group
            jackknife, Kott, J. Off. Stat. 17, 2001).

    Returns:
        The row indices of each group.
    """
    import numpy as np

    members = _members(n, clusters)
    if len(members) > most:
        order = np.random.default_rng(0).permutation(len(members)).tolist()
        members = [[row for place in order[begin::most] for row in members[place]] for begin in range(most)]
    return [frozenset(rows) for rows in members]


def _members(n: int, clusters: Sequence[str] | None) -> list[list[int]]:
    """Return the row indices of each cluster, in order of first occurrence."""
    if clusters is None:
        return [[place] for place in range(n)]
    if len(clusters) != n:
        raise InputError(f"There are {n} rows and {len(clusters)} clusters.", next_step="Pass one cluster per row.")
    by_cluster: dict[str | int, list[int]] = {}
    for place, name in enumerate(clusters):
        by_cluster.setdefault(name or place, []).append(place)
    return list(by_cluster.values())


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

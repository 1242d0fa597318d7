"""Intervals of metrics with respect to the sample of examples.

Shares have Wilson's interval (`rewardharness.judging.report.wilson`), differences of two shares its paired form
(`difference_interval`), both for the effective number of examples, since examples of one source image are not
independent. Other means have the percentile bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap, 1993,
chapter 13), seeded, in which source images are drawn as a whole. Below `LEAST` independent examples there is no
interval, and none has a width of zero.
"""

import math
from collections.abc import Sequence
from statistics import fmean, pvariance

from rewardharness.benchmark.metrics import LEAST, LabeledAnswer, agreement
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
        parts.append((np.array([whole[each].sum() for each in rows]), np.array([float(len(each)) for each in rows])))
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

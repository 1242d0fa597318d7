"""Intervals of metrics with respect to the sample of examples.

Wilson's interval of a share (`rewardharness.judging.report.wilson`), and the percentile bootstrap (Efron and
Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13). Examples of one source image are not independent, so
clusters are resampled as a whole. All intervals are seeded: the same rows in the same order give the same interval.
"""

from collections.abc import Sequence
from statistics import fmean

from rewardharness.benchmark.metrics import LabeledAnswer, agreement
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
        The interval, or None for fewer than two clusters.

    Raises:
        InputError: If the lengths differ.
    """
    import numpy as np

    members = _members(len(values), clusters)
    if len(members) < 2:
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
    return Interval(float(low), float(high))


def answers_interval(answers: Sequence[LabeledAnswer]) -> Interval | None:
    """Return the interval of the share of judged answers that agree with their labels, see `share_interval`."""
    judged = [answer for answer in answers if answer.choice is not None]
    clusters, pairs = [answer.cluster for answer in judged], [answer.pair or answer.id for answer in judged]
    return share_interval([agreement(answer) for answer in judged], clusters, pairs)


def share_interval(values: Sequence[float], clusters: Sequence[str], pairs: Sequence[str]) -> Interval | None:
    """Return the interval of a share of judged questions; None without any.

    It is Wilson's, in which both orders of a pair count as one question, because a judge that looks at both orders
    itself answers twice alike. If several questions share a source image, it is widened to the bootstrap over source
    images. If all source images have the same result, which leaves the bootstrap no width, each counts as one question.

    Args:
        values: Agreement of each judged question, in [0, 1].
        clusters: Its source image; empty if it is independent.
        pairs: Id of its pair.
    """
    if not values:
        return None
    share, several = sum(values) / len(values), len(set(pairs))
    plain = wilson(share * several, several)
    units = count_units(clusters)
    if plain is None or units == len(clusters):
        return plain
    drawn = bootstrap_mean(values, clusters)
    if drawn is None or drawn.low == drawn.high:
        return wilson(share * units, units)
    return Interval(min(plain.low, drawn.low), max(plain.high, drawn.high))


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

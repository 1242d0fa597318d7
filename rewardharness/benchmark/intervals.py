"""Bootstrap intervals of metrics with respect to the sample of examples.

Percentile bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13). Examples of one source
image are not independent, so clusters are resampled as a whole. All intervals are seeded: the same rows in the same
order give the same interval. The interval of a plain share is Wilson's, `rewardharness.judging.report.wilson`.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from rewardharness.errors import InputError
from rewardharness.schema import Interval

RESAMPLES = 2000
"""Default number of resamples."""

T = TypeVar("T")

_CHUNK = 2_000_000


def bootstrap_mean(
    values: Sequence[float],
    clusters: Sequence[str] | None = None,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
) -> Interval | None:
    """Compute the interval of a mean, such as an accuracy or a mean difference per example.

    Args:
        values: One number per example.
        clusters: Cluster of each example; an empty name is a cluster of its own. None: every example is independent.
        resamples: Number of resamples.
        seed: Seed of the random numbers.
        level: Share of the resamples within the interval, in (0, 1).

    Returns:
        The interval, or None for fewer than two clusters.

    Raises:
        InputError: If the lengths differ, or `resamples` or `level` is out of range.
    """
    import numpy as np

    members = _members(len(values), clusters, resamples, level)
    if len(members) < 2:
        return None
    whole = np.asarray(values, dtype=float)
    sums = np.array([whole[rows].sum() for rows in members])
    sizes = np.array([len(rows) for rows in members], dtype=float)
    random = np.random.default_rng(seed)
    means = []
    rows = max(1, _CHUNK // len(members))
    for begin in range(0, resamples, rows):
        drawn = random.integers(0, len(members), size=(min(rows, resamples - begin), len(members)))
        means.append(sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1))
    return _percentiles(np.concatenate(means).tolist(), level)


def bootstrap(
    rows: Sequence[T],
    statistic: Callable[[Sequence[T]], float | None],
    clusters: Sequence[str] | None = None,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
) -> Interval | None:
    """Compute the interval of a statistic of rows, such as a macro mean or a rank correlation.

    Args:
        rows: The examples.
        statistic: Computed from a resample; None if not defined, such as for a resample that lacks a category.
        clusters: As in `bootstrap_mean`.
        resamples: Number of resamples.
        seed: Seed of the random numbers.
        level: Share of the resamples within the interval, in (0, 1).

    Returns:
        The interval over the resamples with a defined statistic; None if these are fewer than half, or for fewer than
        two clusters.

    Raises:
        InputError: If the lengths differ, or `resamples` or `level` is out of range.
    """
    import numpy as np

    members = _members(len(rows), clusters, resamples, level)
    if len(members) < 2:
        return None
    random = np.random.default_rng(seed)
    statistics = []
    for _ in range(resamples):
        drawn = random.integers(0, len(members), size=len(members)).tolist()
        value = statistic([rows[place] for member in drawn for place in members[member]])
        if value is not None:
            statistics.append(value)
    return _percentiles(statistics, level) if 2 * len(statistics) >= resamples else None


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

    members = _members(n, clusters, 1, 0.95)
    if len(members) > most:
        order = np.random.default_rng(0).permutation(len(members)).tolist()
        members = [[row for place in order[begin::most] for row in members[place]] for begin in range(most)]
    return [frozenset(rows) for rows in members]


def _members(n: int, clusters: Sequence[str] | None, resamples: int, level: float) -> list[list[int]]:
    """Return the row indices of each cluster, in order of first occurrence."""
    if resamples < 1 or not 0 < level < 1:
        raise InputError(
            f"An interval with level {level} and {resamples} resamples is not possible.",
            next_step="Use a level between 0 and 1 and at least one resample.",
        )
    if clusters is None:
        return [[place] for place in range(n)]
    if len(clusters) != n:
        raise InputError(f"There are {n} rows and {len(clusters)} clusters.", next_step="Pass one cluster per row.")
    by_cluster: dict[str | int, list[int]] = {}
    for place, name in enumerate(clusters):
        by_cluster.setdefault(name or place, []).append(place)
    return list(by_cluster.values())


def _percentiles(values: Sequence[float], level: float) -> Interval:
    import numpy as np

    low, high = np.quantile(np.asarray(values, dtype=float), [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), level)

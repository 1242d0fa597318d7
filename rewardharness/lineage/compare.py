"""Comparison of two evals metric by metric, and the regression check.

A difference is computed per example if both evals have items, else from the two values and intervals.

Intervals are 95% CIs. For items in [0, 1], the interval of Agresti and Min (Statistics in Medicine 24, 2005, p. 729),
generalized from hits and misses to partial credit: it adds two pairs with weight one half each at +1 and -1 and weight
1 at 0, so it does not shrink to zero width when no example differs. For other items, the normal interval, from 30
examples. For two intervals, the square-and-add rule of Newcombe (Statistics in Medicine 17, 1998, p. 873), which
assumes independence; for evals on the same examples it is wider than necessary.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev
from textwrap import shorten
from typing import Literal

from rewardharness.errors import InputError
from rewardharness.lineage import records
from rewardharness.lineage.records import Direction, EvalComparison, Evaluation, Items, MetricDifference, MetricValue
from rewardharness.lineage.store import LineageError, Record

Z95 = NormalDist().inv_cdf(0.975)
"""Standard normal quantile of a two-sided 95% interval."""

FEW = 30
"""Below this number of items outside [0, 1] there is no interval."""

Rule = Literal["drop", "proven", "ruled-out"]
"""When a metric regressed: `drop`: the loss exceeds the tolerance; `proven`: its whole interval does; `ruled-out`: its
interval is not wholly within the tolerance."""

_ROUNDING = 1e-12  # 0.9 - 0.88 must be within a tolerance of 0.02


@dataclass(frozen=True)
class RegressionCheck:
    """The check of one metric, or of its coverage."""

    name: str
    direction: Direction
    base: float
    new: float
    loss: float
    """How much worse the new value is, in units of the metric; negative if it is better."""
    interval: tuple[float, float] | None
    """95% CI of the loss; None if unknown."""
    tolerance: float
    method: records.Method
    regressed: bool
    certain: bool | None
    """Whether the interval is wholly on one side of the tolerance; None without an interval."""
    counted: bool = False
    """Whether this checks a coverage, which is known exactly."""


def compare(base: Record, new: Record, items: tuple[Items, Items], *, different_judges: bool = False) -> EvalComparison:
    """Compare two evals.

    Args:
        base: The reference.
        new: The eval that is compared with it.
        items: Values per example of both; empty for an eval without them.
        different_judges: Allow evals that were measured by different judges.

    Raises:
        LineageError: If benchmark, protocol, judge or the direction of a metric differ, or no metric is common.
    """
    before, after = base.body, new.body
    assert isinstance(before, Evaluation) and isinstance(after, Evaluation)
    if base.id == new.id:
        raise LineageError(f"The {base.title} cannot be compared with itself.", next_step="Name two different evals.")
    _check_comparable(base, new, before, after, different_judges)
    pairs = [(metric, other) for metric in before.metrics if (other := after.metric(metric.name)) is not None]
    if not pairs:
        raise LineageError(f"{base.title} and {new.title} have no metric in common.", next_step="Choose other evals.")
    return EvalComparison(
        base=base.id,
        new=new.id,
        metrics=tuple(_difference(*pair, *(side.get(pair[0].name, {}) for side in items)) for pair in pairs),
        only_base=tuple(metric.name for metric in before.metrics if after.metric(metric.name) is None),
        only_new=tuple(metric.name for metric in after.metrics if before.metric(metric.name) is None),
        different_judges=before.judge != after.judge,
    )


def check_regression(
    comparison: EvalComparison,
    tolerances: Mapping[str, float],
    *,
    metrics: Sequence[str] = (),
    rule: Rule = "drop",
    coverage_tolerance: float = 0.0,
) -> list[RegressionCheck]:
    """Check each metric, and its coverage if that is known.

    Args:
        comparison: The two evals.
        tolerances: Maximum loss by metric, in its units; the empty name is the default.
        metrics: Metrics to check; empty for all metrics of the base.
        rule: When a metric regressed. Coverage is always checked with `drop`.
        coverage_tolerance: Maximum loss of coverage.

    Raises:
        LineageError: If a metric or its coverage is missing, or the rule needs an interval that is unknown.
        InputError: If a tolerance is negative or for an unknown metric.
    """
    known = {metric.name: metric for metric in comparison.metrics}
    missing = [name for name in metrics if name not in known] if metrics else comparison.only_base
    if missing:
        step = "Measure it, or choose the metrics to check with --metric."
        raise LineageError(f"The new eval has no {', '.join(missing)}; a missing metric is not a pass.", next_step=step)
    for name, value in tolerances.items():
        if not value >= 0 or (name and name not in known):
            message = f"The tolerance for {name or 'all metrics'} is negative, or there is no such metric."
            raise InputError(message, next_step=f"Metrics: {', '.join(known)}.")
    checks: list[RegressionCheck] = []
    for name in metrics or known:
        checks.append(_check(known[name], tolerances.get(name, tolerances.get("", 0.0)), rule))
        checks += _coverage(name, known[name].coverage, coverage_tolerance)
    return checks


def paired_interval(differences: Sequence[float], *, shares: bool) -> tuple[float, float] | None:
    """Return the 95% CI of a mean difference; see the module docstring.

    Args:
        differences: One per example, at least one.
        shares: Whether all values are in [0, 1].
    """
    n = len(differences)
    if shares:
        mean = math.fsum(differences) / (n + 2)
        square = (math.fsum(value * value for value in differences) + 1) / (n + 2)
        half = Z95 * math.sqrt(max(0.0, square - mean * mean) / (n + 2))
        return max(-1.0, mean - half), min(1.0, mean + half)
    if n < FEW:
        return None
    half = Z95 * stdev(differences) / math.sqrt(n)
    mean = fmean(differences)
    return mean - half, mean + half


def _check_comparable(base: Record, new: Record, before: Evaluation, after: Evaluation, different_judges: bool) -> None:
    titles = f"{base.title} and {new.title}"
    for what in ("benchmark", "protocol", *(() if different_judges else ("judge",))):
        one, other = (getattr(side, what) or "unknown" for side in (before, after))
        if one != other:
            step = "Measure both with the same benchmark, data and protocol."
            if what == "judge":
                step = "Measure both with the same judge, or add --different-judges to compare judges."
            sides = f"{_shown(one)} and {_shown(other)}"
            message = f"{titles} are not comparable: they differ in the {what}, {sides}."
            raise LineageError(message, next_step=step)
    for metric in before.metrics:
        other_metric = after.metric(metric.name)
        if other_metric is not None and other_metric.direction != metric.direction:
            sides = f"{metric.direction} in {base.title}, {other_metric.direction} in {new.title}"
            step = "Record one of them again under another name, with the right direction."
            raise LineageError(f"{metric.name} is better {sides}.", next_step=step)


def _shown(value: object) -> str:
    parts = vars(value).values() if isinstance(value, records.BenchmarkRef) else [value]
    return shorten("/".join(str(part) for part in parts if part), 80, placeholder="…")


def _difference(
    base: MetricValue, new: MetricValue, before: Mapping[str, float], after: Mapping[str, float]
) -> MetricDifference:
    common = sorted(before.keys() & after.keys())
    method: records.Method = "two values"
    difference, interval = new.value - base.value, None
    if common:
        method = "paired items"
        differences = [after[name] - before[name] for name in common]
        difference = math.fsum(differences) / len(common)
        shares = all(0 <= side[name] <= 1 for side in (before, after) for name in common)
        interval = paired_interval(differences, shares=shares)
    elif base.interval is not None and new.interval is not None:
        method = "two intervals"
        (low_b, high_b), (low_n, high_n) = base.interval, new.interval
        below = math.hypot(new.value - low_n, high_b - base.value)
        interval = difference - below, difference + math.hypot(high_n - new.value, base.value - low_b)
    n, coverage = len(common) or None, (base.coverage, new.coverage)
    verdict, values = _verdict(base.direction, difference, interval), (base.value, new.value)
    return MetricDifference(base.name, base.direction, *values, difference, interval, method, n, coverage, verdict)


def _verdict(
    direction: Direction, difference: float, interval: tuple[float, float] | None
) -> records.DifferenceVerdict:
    if difference == 0:
        return "same"
    if interval is None or interval[0] <= 0 <= interval[1]:
        return "unclear"
    return "better" if (difference > 0) == (direction == "higher") else "worse"


def _check(metric: MetricDifference, tolerance: float, rule: Rule) -> RegressionCheck:
    sign, limit = -1.0 if metric.direction == "higher" else 1.0, tolerance + _ROUNDING
    loss = sign * metric.difference + 0.0  # no negative zero
    interval, certain, regressed = None, None, loss > limit
    if metric.interval is not None:
        low, high = sorted(sign * bound for bound in metric.interval)
        interval, certain = (low, high), low > limit or high <= limit
        regressed = {"drop": regressed, "proven": low > limit, "ruled-out": not high <= limit}[rule]
    elif rule != "drop":
        step = "Record the evals with intervals or items, or use --rule drop."
        raise LineageError(f"The rule {rule!r} needs an interval, and {metric.name} has none.", next_step=step)
    values = metric.name, metric.direction, metric.base, metric.new
    return RegressionCheck(*values, loss, interval, tolerance, metric.method, regressed, certain)


def _coverage(name: str, coverage: tuple[float | None, float | None], tolerance: float) -> list[RegressionCheck]:
    base, new = coverage
    if base is None:
        return []
    if new is None:
        step = "Record it with n and judged: judging fewer examples can make a metric look better."
        raise LineageError(f"The base has a coverage for {name}, and the new eval has none.", next_step=step)
    loss, title = base - new, f"coverage of {name}"
    known = loss > tolerance + _ROUNDING, None, True
    return [RegressionCheck(title, "higher", base, new, loss, None, tolerance, "two values", *known)]

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
from rewardharness.lineage.records import (
    DifferenceVerdict,
    Direction,
    EvalComparison,
    Evaluation,
    Items,
    Method,
    MetricDifference,
    MetricValue,
)
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
    method: Method
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
    differences = []
    for metric in before.metrics:
        other = after.metric(metric.name)
        if other is not None:
            differences.append(_difference(metric, other, *(each.get(metric.name, {}) for each in items)))
    if not differences:
        raise LineageError(f"{base.title} and {new.title} have no metric in common.", next_step="Choose other evals.")
    return EvalComparison(
        base=base.id,
        new=new.id,
        metrics=tuple(differences),
        only_base=tuple(each.name for each in before.metrics if after.metric(each.name) is None),
        only_new=tuple(each.name for each in after.metrics if before.metric(each.name) is None),
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
    missing = [name for name in metrics if name not in known] if metrics else list(comparison.only_base)
    if missing:
        raise LineageError(
            f"The new eval has no {', '.join(missing)}; a missing metric is not a pass.",
            next_step="Measure it, or choose the metrics to check with --metric.",
        )
    invalid = [name for name, value in tolerances.items() if not value >= 0 or (name and name not in known)]
    if invalid:
        raise InputError(
            f"The tolerance for {invalid[0] or 'all metrics'} is negative, or there is no such metric.",
            next_step=f"Metrics: {', '.join(known)}.",
        )
    checks: list[RegressionCheck] = []
    for name in metrics or known:
        tolerance = tolerances.get(name, tolerances.get("", 0.0))
        checks.append(_check(known[name], tolerance, rule))
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
        square = (math.fsum(each * each for each in differences) + 1) / (n + 2)
        half = Z95 * math.sqrt(max(0.0, square - mean * mean) / (n + 2))
        return max(-1.0, mean - half), min(1.0, mean + half)
    if n < FEW:
        return None
    half = Z95 * stdev(differences) / math.sqrt(n)
    mean = fmean(differences)
    return mean - half, mean + half


def _check_comparable(base: Record, new: Record, before: Evaluation, after: Evaluation, different_judges: bool) -> None:
    sides = [
        ("benchmark", before.benchmark, after.benchmark),
        ("protocol", before.protocol or "unknown", after.protocol or "unknown"),
        *([] if different_judges else [("judge", before.judge or "unknown", after.judge or "unknown")]),
    ]
    for what, one, other in sides:
        if one != other:
            step = "Measure both with the same benchmark, data and protocol."
            if what == "judge":
                step = "Measure both with the same judge, or add --different-judges to compare judges."
            raise LineageError(
                f"{base.title} and {new.title} are not comparable: they differ in the {what}, {_shown(one)} and "
                f"{_shown(other)}.",
                next_step=step,
            )
    for metric in before.metrics:
        other_metric = after.metric(metric.name)
        if other_metric is not None and other_metric.direction != metric.direction:
            raise LineageError(
                f"{metric.name} is better {metric.direction} in {base.title}, {other_metric.direction} in {new.title}.",
                next_step="Record one of them again under another name, with the right direction.",
            )


def _shown(value: object) -> str:
    parts = [str(part) for part in vars(value).values() if part] if hasattr(value, "__dict__") else [str(value)]
    return shorten("/".join(parts), 80, placeholder="…")


def _difference(
    base: MetricValue, new: MetricValue, before: Mapping[str, float], after: Mapping[str, float]
) -> MetricDifference:
    common = sorted(before.keys() & after.keys())
    method: Method
    interval: tuple[float, float] | None = None
    if common:
        method = "paired items"
        differences = [after[name] - before[name] for name in common]
        difference = math.fsum(differences) / len(common)
        shares = all(0 <= side[name] <= 1 for side in (before, after) for name in common)
        interval = paired_interval(differences, shares=shares)
    elif base.interval is not None and new.interval is not None:
        method = "two intervals"
        difference = new.value - base.value
        (low_b, high_b), (low_n, high_n) = base.interval, new.interval
        interval = (
            difference - math.hypot(new.value - low_n, high_b - base.value),
            difference + math.hypot(high_n - new.value, base.value - low_b),
        )
    else:
        method, difference = "two values", new.value - base.value
    return MetricDifference(
        name=base.name,
        direction=base.direction,
        base=base.value,
        new=new.value,
        difference=difference,
        interval=interval,
        method=method,
        n=len(common) or None,
        coverage=(base.coverage, new.coverage),
        verdict=_verdict(base.direction, difference, interval),
    )


def _verdict(direction: Direction, difference: float, interval: tuple[float, float] | None) -> DifferenceVerdict:
    if difference == 0:
        return "same"
    if interval is None or interval[0] <= 0 <= interval[1]:
        return "unclear"
    return "better" if (difference > 0) == (direction == "higher") else "worse"


def _check(found: MetricDifference, tolerance: float, rule: Rule) -> RegressionCheck:
    sign = -1.0 if found.direction == "higher" else 1.0
    loss = sign * found.difference + 0.0  # no negative zero
    interval = None
    if found.interval is not None:
        low, high = sorted(sign * each for each in found.interval)
        interval = (low, high)
    if interval is None and rule != "drop":
        raise LineageError(
            f"The rule {rule!r} needs an interval, and {found.name} has none.",
            next_step="Record the evals with intervals or items, or use --rule drop.",
        )
    proven = interval is not None and interval[0] > tolerance + _ROUNDING
    ruled_out = interval is not None and interval[1] <= tolerance + _ROUNDING
    regressed = {"drop": loss > tolerance + _ROUNDING, "proven": proven, "ruled-out": not ruled_out}[rule]
    certain = None if interval is None else proven or ruled_out
    return RegressionCheck(
        found.name,
        found.direction,
        found.base,
        found.new,
        loss,
        interval,
        tolerance,
        found.method,
        regressed,
        certain,
    )


def _coverage(name: str, coverage: tuple[float | None, float | None], tolerance: float) -> list[RegressionCheck]:
    base, new = coverage
    if base is None:
        return []
    if new is None:
        raise LineageError(
            f"The base has a coverage for {name}, and the new eval has none.",
            next_step="Record it with n and judged: judging fewer examples can make a metric look better.",
        )
    loss = base - new
    regressed = loss > tolerance + _ROUNDING
    name = f"coverage of {name}"
    return [
        RegressionCheck(name, "higher", base, new, loss, None, tolerance, "two values", regressed, None, counted=True)
    ]

"""Compares two evals metric by metric, and says whether the newer one is a regression.

A difference is taken example by example where both evals keep their items, else from the two values and intervals.

Intervals are at 95 %. For items in [0, 1] that of Agresti and Min (Statistics in Medicine 24, 2005, p. 729), carried
over from hits and misses to credits: two more pairs, which differ by +1 and -1 with weight one half each and by 0 with
weight 1. It does not shrink to nothing when no example differs. For other items the normal interval, from 30 examples
on. For two intervals the square-and-add rule of Newcombe (Statistics in Medicine 17, 1998, p. 873), which takes the
two to be independent; on the same examples they usually are not, and then it is wider than it need be.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev
from typing import Literal

from rewardharness.errors import InputError
from rewardharness.runs.forms import Comparison, Difference, Direction, Eval, Method, Metric, Verdict
from rewardharness.runs.lineage import Items, LineageError, Record

Z95 = NormalDist().inv_cdf(0.975)
"""Standard normal quantile of a two-sided 95 % interval."""

FEW = 30
"""With fewer items outside [0, 1] no interval is given."""

Rule = Literal["drop", "proven", "ruled-out"]
"""What counts as a regression: `drop`: the difference itself is worse than tolerated; `proven`: its whole interval is;
`ruled-out`: all but an interval that is wholly within what is tolerated."""

_SAID = 80  # characters of a benchmark or judge in an error
_SLACK = 1e-12  # of floating point: 0.9 - 0.88 is to be within a tolerance of 0.02


@dataclass(frozen=True)
class Check:
    """Whether one metric, or its coverage, regressed."""

    name: str
    direction: Direction
    base: float
    new: float
    loss: float
    """How much worse the new value is, in units of the metric; negative when it is better."""
    interval: tuple[float, float] | None
    """Of the loss, at 95 %; None when it is not known."""
    tolerance: float
    method: Method
    regressed: bool
    certain: bool | None
    """Whether the interval says so too: it lies wholly on one side of the tolerance. None without an interval."""
    counted: bool = False
    """Whether it is a coverage: a count that is known exactly."""


def compare(base: Record, new: Record, items: tuple[Items, Items], *, different_judges: bool = False) -> Comparison:
    """Compare two evals.

    Args:
        base: What is compared with.
        new: What is compared.
        items: Values example by example of both; empty for an eval without them.
        different_judges: Compare although another judge measured.

    Raises:
        LineageError: If they were not measured on the same benchmark in the same way, or disagree in the direction of
            a metric, or have no metric in common.
    """
    before, after = base.body, new.body
    assert isinstance(before, Eval) and isinstance(after, Eval)
    if base.id == new.id:
        raise LineageError(f"{base.title} is compared with itself.", next_step="Name two evals.")
    _check_comparable(base, new, before, after, different_judges)
    differences = []
    for metric in before.metrics:
        other = after.metric(metric.name)
        if other is not None:
            differences.append(_difference(metric, other, *(each.get(metric.name, {}) for each in items)))
    if not differences:
        raise LineageError(f"{base.title} and {new.title} have no metric in common.", next_step="Name other evals.")
    return Comparison(
        base=base.id,
        new=new.id,
        metrics=tuple(differences),
        only_base=tuple(each.name for each in before.metrics if after.metric(each.name) is None),
        only_new=tuple(each.name for each in after.metrics if before.metric(each.name) is None),
        different_judges=before.judge != after.judge,
    )


def check_regression(
    found: Comparison,
    tolerances: Mapping[str, float],
    *,
    metrics: Sequence[str] = (),
    rule: Rule = "drop",
    coverage_tolerance: float = 0.0,
) -> list[Check]:
    """Say which metrics regressed, each with its coverage where that is known.

    Args:
        found: The comparison.
        tolerances: How much worse a metric may be, in its own units, by name; that of the empty name is for all others.
        metrics: Those that are looked at; empty for all that the base has.
        rule: What counts as a regression. A coverage has no interval: there it is always the drop.
        coverage_tolerance: How much smaller a coverage may be.

    Raises:
        LineageError: If a metric or its coverage is missing, or has no interval where the rule needs one.
        InputError: If a tolerance is below 0 or for a metric that neither has.
    """
    known = {each.name: each for each in found.metrics}
    missing = [name for name in metrics if name not in known] if metrics else list(found.only_base)
    if missing:
        raise LineageError(
            f"The new eval has no {', '.join(missing)}: that is not passed, it is not known.",
            next_step="Measure it, or choose what is looked at with --metric.",
        )
    odd = [name for name, each in tolerances.items() if not each >= 0 or (name and name not in known)]
    if odd:
        raise InputError(
            f"The tolerance of {odd[0] or 'all metrics'} is below 0, or for no metric of these evals.",
            next_step=f"Metrics: {', '.join(known)}.",
        )
    checks: list[Check] = []
    for name in metrics or known:
        tolerance = tolerances.get(name, tolerances.get("", 0.0))
        checks.append(_check(known[name], tolerance, rule))
        checks += _coverage(name, known[name].coverage, coverage_tolerance)
    return checks


def paired_interval(differences: Sequence[float], *, shares: bool) -> tuple[float, float] | None:
    """Interval of a mean difference, at 95 %; see the module.

    Args:
        differences: Per example, at least one.
        shares: Whether the values that differ are all in [0, 1].
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


def _check_comparable(base: Record, new: Record, before: Eval, after: Eval, different_judges: bool) -> None:
    sides = [
        ("benchmark", before.benchmark, after.benchmark),
        ("protocol", before.protocol or "not said", after.protocol or "not said"),
        *([] if different_judges else [("judge", before.judge or "not said", after.judge or "not said")]),
    ]
    for what, one, other in sides:
        if one != other:
            step = "Measure both the same way."
            if what == "judge":
                step = "Measure both with one judge, or say --different-judges where the judges are what you compare."
            raise LineageError(
                f"{base.title} and {new.title} do not compare: they differ in the {what}, {_said(one)} and "
                f"{_said(other)}.",
                next_step=step,
            )
    for metric in before.metrics:
        twin = after.metric(metric.name)
        if twin is not None and twin.direction != metric.direction:
            raise LineageError(
                f"{metric.name} is better {metric.direction} in {base.title}, {twin.direction} in {new.title}.",
                next_step="Record one of them again, under another name.",
            )


def _said(value: object) -> str:
    parts = [str(each) for each in vars(value).values() if each] if hasattr(value, "__dict__") else [str(value)]
    text = "/".join(parts)
    return text if len(text) <= _SAID else text[: _SAID - 1] + "…"


def _difference(base: Metric, new: Metric, before: Mapping[str, float], after: Mapping[str, float]) -> Difference:
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
    return Difference(
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


def _verdict(direction: Direction, difference: float, interval: tuple[float, float] | None) -> Verdict:
    if difference == 0:
        return "same"
    if interval is None or interval[0] <= 0 <= interval[1]:
        return "unclear"
    return "better" if (difference > 0) == (direction == "higher") else "worse"


def _check(found: Difference, tolerance: float, rule: Rule) -> Check:
    sign = -1.0 if found.direction == "higher" else 1.0
    loss = sign * found.difference + 0.0  # no negative zero
    interval = None
    if found.interval is not None:
        low, high = sorted(sign * each for each in found.interval)
        interval = (low, high)
    if interval is None and rule != "drop":
        raise LineageError(
            f"{found.name} has no interval, so nothing is {rule}.",
            next_step="Record n and intervals or items with the evals, or use --rule drop.",
        )
    proven = interval is not None and interval[0] > tolerance + _SLACK
    ruled_out = interval is not None and interval[1] <= tolerance + _SLACK
    regressed = {"drop": loss > tolerance + _SLACK, "proven": proven, "ruled-out": not ruled_out}[rule]
    certain = None if interval is None else proven or ruled_out
    return Check(
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


def _coverage(name: str, coverage: tuple[float | None, float | None], tolerance: float) -> list[Check]:
    base, new = coverage
    if base is None:
        return []
    if new is None:
        raise LineageError(
            f"The new eval does not say how many examples {name} is about; the base does.",
            next_step="Record it with n and judged: judging fewer examples can make a metric look better.",
        )
    loss = base - new
    regressed = loss > tolerance + _SLACK
    name = f"coverage of {name}"
    return [Check(name, "higher", base, new, loss, None, tolerance, "two values", regressed, None, counted=True)]

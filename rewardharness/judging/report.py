"""Counts judgments against labels: agreement per kind of label, with n, coverage and an interval."""

import math
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from rewardharness.schema import TIE, Accuracy, Example, Interval, Judgment, Report, Usage

BAD_ROW = "bad_row"
"""Why a row that was left out by choice has no judgment."""

Z95 = 1.959963984540054
"""Standard normal quantile of a two-sided 95 % interval."""


def wilson(correct: float, n: int) -> Interval | None:
    """Interval of a share that was seen `correct` times in `n`, at 95 %.

    Wilson's score interval (J. Am. Stat. Assoc. 22, 1927): it keeps its level for small n and shares near 0 or 1.

    Returns:
        The interval within [0, 1], or None for n = 0.
    """
    if n <= 0:
        return None
    share = correct / n
    spread = Z95 * Z95 / n
    centre = (share + spread / 2) / (1 + spread)
    half = Z95 * math.sqrt(share * (1 - share) / n + spread / (4 * n)) / (1 + spread)
    # At the ends centre and half are equal in exact arithmetic; rounding must not leave the share outside.
    low = 0.0 if correct <= 0 else max(0.0, centre - half)
    return Interval(low, 1.0 if correct >= n else min(1.0, centre + half))


def mcnemar(fixes: int, breaks: int) -> float | None:
    """Two-sided exact test of McNemar (Psychometrika 12, 1947) between two judges of the same examples.

    Args:
        fixes: Examples on which the one agrees better with the label than the other.
        breaks: Examples on which it agrees less. Those on which both do alike say nothing.

    Returns:
        Probability of at least so uneven a split if fixes and breaks were equally likely; None without either.
    """
    if not fixes + breaks:
        return None
    n = fixes + breaks
    tail = sum(math.comb(n, k) for k in range(min(fixes, breaks) + 1))
    return min(1.0, float(Fraction(2 * tail, 2**n)))


def make_report(judged: Iterable[tuple[Example, Judgment]], *, skipped: int = 0) -> Report:
    """Count judgments.

    Pairs are counted per kind of label and never pooled over kinds; groups of three and four apart, by whether
    the best candidate was found. An example without a judgment lowers coverage, not accuracy; one with a single
    candidate has no label to agree with, nor has one labelled `tie` where the judge was not offered ties.

    Args:
        judged: The examples with their judgments.
        skipped: Rows of the data that were no examples and were left out by choice: they were not judged either.
    """
    pairs: dict[str, list[tuple[Example, Judgment]]] = {}
    groups: list[tuple[Example, Judgment]] = []
    failures: Counter[str] = Counter({BAD_ROW: skipped} if skipped else {})
    n = skipped
    count = same = tried = ties_left_out = 0
    usage = Usage()
    for example, judgment in judged:
        n += 1
        usage += judgment.usage
        count += judgment.judged
        if judgment.failure is not None:
            failures[judgment.failure.code] += 1
        if judgment.position_consistent is not None:
            tried += 1
            same += judgment.position_consistent
        if example.preference is None or len(example.candidates) < 2:
            continue
        if example.preference == TIE and judgment.judged and not judgment.ties_offered:
            ties_left_out += 1
            continue
        if len(example.candidates) > 2:
            groups.append((example, judgment))
        else:
            pairs.setdefault(example.label_kind or "unnamed", []).append((example, judgment))
    return Report(
        n=n,
        judged=count,
        by_label_kind={kind: _accuracy(pairs[kind]) for kind in sorted(pairs)},
        groups=_accuracy(groups) if groups else None,
        position_consistent=(same, tried),
        failures=dict(sorted(failures.items())),
        usage=usage,
        ties_left_out=ties_left_out,
    )


def report_json(report: Report) -> dict[str, Any]:
    """Put a report into JSON: shares in [0, 1], None where there is nothing to divide by."""
    same, tried = report.position_consistent
    result: dict[str, Any] = {
        "n": report.n,
        "judged": report.judged,
        "coverage": report.judged / report.n if report.n else None,
        "position_consistency": same / tried if tried else None,
        "by_label_kind": {kind: _accuracy_json(each, "accuracy") for kind, each in report.by_label_kind.items()},
        "groups": _accuracy_json(report.groups or Accuracy(0, 0, 0), "best_accuracy"),
        "failures": dict(report.failures),
        "ties_left_out": report.ties_left_out,
        "usage": {
            "calls": report.usage.calls,
            "input_tokens": report.usage.input_tokens,
            "output_tokens": report.usage.output_tokens,
            "seconds": round(report.usage.seconds, 3),
        },
    }
    return result


def _accuracy(items: Iterable[tuple[Example, Judgment]]) -> Accuracy:
    n = judged = 0
    correct = 0.0
    for example, judgment in items:
        n += 1
        judged += judgment.judged
        correct += credit(example, judgment)
    return Accuracy(n, judged, correct)


def credit(example: Example, judgment: Judgment) -> float:
    """Say how far a judgment agrees with its label: 1, 0, or one half.

    A judge that could not decide between candidates, since a tie was not among the answers or its answers contradict
    each other, gets what a coin would get on average: 1 over the number of candidates it holds level, if the label is
    among them. Contradicting answers never agree with a label that is a tie.
    """
    if not judgment.judged:
        return 0.0
    if judgment.undecided and example.preference != TIE:
        level = judgment.ranking[0] if judgment.ranking else example.labels
        return 1 / len(level) if example.preference in level else 0.0
    return float(judgment.preference == example.preference and not judgment.inconsistent)


def _accuracy_json(accuracy: Accuracy, name: str) -> dict[str, Any]:
    interval = wilson(accuracy.correct, accuracy.judged)
    return {
        "n": accuracy.n,
        "judged": accuracy.judged,
        name: accuracy.value,
        "interval": None if interval is None else [interval.low, interval.high],
    }

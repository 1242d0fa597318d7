"""Accuracy of judgments per kind of label, with n, coverage and 95% CI."""

import io
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from fractions import Fraction
from itertools import islice
from typing import Any

from rewardharness.errors import ImageError
from rewardharness.report import Picture, Pictures
from rewardharness.report_html import render_fragment
from rewardharness.schema import TIE, Accuracy, Agreement, Example, ImageInput, Interval, Judgment, Usage
from rewardharness.views import number

SHOWN_EXAMPLES, SIDE = 8, 240
"""Examples of a report that are shown with images, and the longest side of these in pixels."""

BAD_ROW = "bad_row"
"""Failure code of a skipped row."""

Z95 = 1.959963984540054
"""Standard normal quantile of a two-sided 95 % interval."""


def wilson(correct: float, n: float) -> Interval | None:
    """Return the 95% CI of the share `correct / n`.

    Wilson's score interval (J. Am. Stat. Assoc. 22, 1927): it keeps its level for small n and shares near 0 or 1.

    Returns:
        The interval in [0, 1]; None for n = 0.
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
    """Return the p-value of the exact two-sided McNemar test (Psychometrika 12, 1947) of two judges.

    Args:
        fixes: Number of examples on which the first judge agrees better with the label than the second.
        breaks: Number of examples on which it agrees less.

    Returns:
        Probability of a split at least this uneven if fixes and breaks are equally likely; None without either.
    """
    if not fixes + breaks:
        return None
    n = fixes + breaks
    tail = sum(math.comb(n, k) for k in range(min(fixes, breaks) + 1))
    return min(1.0, float(Fraction(2 * tail, 2**n)))


def make_report(judged: Iterable[tuple[Example, Judgment]], *, skipped: int = 0) -> Agreement:
    """Create the report of judgments.

    Pairs are counted per kind of label, which are never pooled. Groups of 3 and 4 are counted separately, by whether
    the best candidate was found. An example without a judgment lowers coverage, not accuracy. Accuracy omits single
    candidates, and examples labeled `tie` if `tie` was not an allowed answer.

    Args:
        judged: The examples with their judgments.
        skipped: Number of skipped rows, which count as not judged.
    """
    pairs: dict[str, list[tuple[Example, Judgment]]] = {}
    groups: list[tuple[Example, Judgment]] = []
    failures: Counter[str] = Counter({BAD_ROW: skipped} if skipped else {})
    n, count, same, tried, ties_left_out, usage = skipped, 0, 0, 0, 0, Usage()
    judged = list(judged)
    for example, judgment in judged:
        n += 1
        usage += judgment.usage
        count += judgment.judged
        if judgment.failure:
            failures[judgment.failure.code] += 1
        tried += judgment.position_consistent is not None
        same += judgment.position_consistent is True
        if example.preference is None or len(example.candidates) < 2:
            continue
        if example.preference == TIE and judgment.judged and not judgment.ties_offered:
            ties_left_out += 1
        elif len(example.candidates) > 2:
            groups.append((example, judgment))
        else:
            pairs.setdefault(example.label_kind or "unnamed", []).append((example, judgment))
    return Agreement(
        n=n,
        judged=count,
        by_label_kind={kind: _accuracy(pairs[kind]) for kind in sorted(pairs)},
        groups=_accuracy(groups) if groups else None,
        position_consistent=(same, tried),
        failures=dict(sorted(failures.items())),
        consulted=dict(count_consulted(judgment for _, judgment in judged)),
        usage=usage,
        ties_left_out=ties_left_out,
    )


def count_consulted(judgments: Iterable[Judgment]) -> Counter[str]:
    """Count judgments by the entries of their Library that were consulted, as in `2 of 3`."""
    pairs = (judgment.consulted for judgment in judgments)
    return Counter(f"{pair[0]} of {pair[1]}" for pair in pairs if pair is not None and pair[1])


def consulted_words(counts: Mapping[str, int]) -> tuple[str, str]:
    """Return how many entries were consulted per judgment, and a warning; empty if there is nothing to say."""
    if not counts:
        return "", ""
    total, size = sum(counts.values()), next(iter(counts)).partition(" of ")[2]
    mean = sum(int(key.partition(" ")[0]) * count for key, count in counts.items()) / total
    none = sum(count for key, count in counts.items() if key.startswith("0 "))
    warning = (
        f"0 of {size} entries of the Library were consulted in {none} of {total} judgments. Entries without triggers "
        "need a model as judge, or triggers: rh library triggers LIBRARY."
    )
    return f"{mean:.1f} of {size} per judgment", warning if none else ""


def add_reports(one: Agreement, other: Agreement) -> Agreement:
    """Return the report of the examples of both reports."""
    kinds = sorted({*one.by_label_kind, *other.by_label_kind})
    same, tried = (sum(pair) for pair in zip(one.position_consistent, other.position_consistent, strict=True))
    return Agreement(
        n=one.n + other.n,
        judged=one.judged + other.judged,
        by_label_kind={kind: _sum(one.by_label_kind.get(kind), other.by_label_kind.get(kind)) for kind in kinds},
        groups=_sum(one.groups, other.groups) if one.groups or other.groups else None,
        position_consistent=(same, tried),
        failures=dict(sorted((Counter(one.failures) + Counter(other.failures)).items())),
        consulted=dict(Counter(one.consulted) + Counter(other.consulted)),
        usage=one.usage + other.usage,
        ties_left_out=one.ties_left_out + other.ties_left_out,
    )


def _sum(one: Accuracy | None, other: Accuracy | None) -> Accuracy:
    a, b = one or Accuracy(0, 0, 0), other or Accuracy(0, 0, 0)
    return Accuracy(a.n + b.n, a.judged + b.judged, a.correct + b.correct)


def with_pictures(report: Agreement, judged: Iterable[tuple[Example, Judgment]]) -> str:
    """Return a report as HTML, with the images, rewards and reasons of the first examples."""
    parts = [report._repr_html_()]
    for example, judgment in islice(judged, SHOWN_EXAMPLES):
        pictures = []
        for title, image in zip(example.titles, example.images, strict=True):
            label = title.removeprefix("Candidate ")
            caption = f"{title}: reward {number(judgment.rewards[label])}" if label in judgment.rewards else title
            with suppress(ImageError):
                pictures.append(Picture(caption, _small(image), label == judgment.preference))
        parts += [render_fragment(example.instruction, Pictures(tuple(pictures))), judgment._repr_html_()]
    return "\n".join(parts)


def _small(image: ImageInput) -> bytes:
    from PIL import Image

    from rewardharness.measure.images import load_picture

    picture, buffer = Image.fromarray(load_picture(image).pixels), io.BytesIO()
    picture.thumbnail((SIDE, SIDE))
    picture.save(buffer, "WEBP")
    return buffer.getvalue()


def report_json(report: Agreement) -> dict[str, Any]:
    """Convert a report to JSON. Shares are in [0, 1], or None if undefined."""
    same, tried = report.position_consistent
    return {
        "n": report.n,
        "judged": report.judged,
        "coverage": report.judged / report.n if report.n else None,
        "position_consistency": same / tried if tried else None,
        "by_label_kind": {kind: _accuracy_json(counts, "accuracy") for kind, counts in report.by_label_kind.items()},
        "groups": _accuracy_json(report.groups or Accuracy(0, 0, 0), "best_accuracy"),
        "failures": dict(report.failures),
        "consulted": dict(report.consulted),
        "ties_left_out": report.ties_left_out,
        "usage": {**asdict(report.usage), "seconds": round(report.usage.seconds, 3)},
    }


def _accuracy(items: Sequence[tuple[Example, Judgment]]) -> Accuracy:
    judged = sum(judgment.judged for _, judgment in items)
    return Accuracy(len(items), judged, sum((credit(*item) for item in items), 0.0))


def credit(example: Example, judgment: Judgment) -> float:
    """Return the agreement of a judgment with its label: 1, 0 or a fraction.

    A judge that cannot decide, because `tie` is not an allowed answer or its answers contradict each other, gets the
    expected value of a random choice: 1 over the number of equally ranked candidates if the label is among them.
    Contradicting answers never agree with the label `tie`.
    """
    if not judgment.judged:
        return 0.0
    if judgment.undecided and example.preference != TIE:
        level = judgment.ranking[0] if judgment.ranking else example.labels
        return 1 / len(level) if example.preference in level else 0.0
    return float(judgment.preference == example.preference and not judgment.inconsistent)


def _accuracy_json(accuracy: Accuracy, name: str) -> dict[str, Any]:
    interval = wilson(accuracy.correct, accuracy.judged)
    limits = None if interval is None else [interval.low, interval.high]
    return {"n": accuracy.n, "judged": accuracy.judged, name: accuracy.value, "interval": limits}

"""Intervals of shares: Wilson's, widened where questions are not independent."""

from collections.abc import Sequence
from statistics import fmean

from rewardharness.benchmark.intervals import bootstrap_mean
from rewardharness.benchmark.metrics import LabeledAnswer, agreement
from rewardharness.judging.report import wilson
from rewardharness.schema import Accuracy, Interval


def answers_interval(answers: Sequence[LabeledAnswer], count: Accuracy) -> Interval | None:
    """Interval of the share of judged answers that agree with their labels, see `share_interval`."""
    judged = [answer for answer in answers if answer.choice is not None]
    return share_interval(
        [agreement(answer) for answer in judged],
        [answer.cluster for answer in judged],
        count,
        [answer.pair or answer.id for answer in judged],
    )


def share_interval(
    values: Sequence[float], clusters: Sequence[str], count: Accuracy, pairs: Sequence[str]
) -> Interval | None:
    """Interval of a share of judged questions.

    Wilson's, in which both orders of a pair count as one question: a judge that looks at both by itself answers twice
    alike. Where several questions share a source image, it is widened to the bootstrap over source images; and where
    all of those agree, so that a bootstrap knows of no other value, each source image counts as one question.

    Args:
        values: Agreement of each judged question, in [0, 1].
        clusters: Its source image; empty where it stands alone.
        count: What they come to.
        pairs: Which pair it is about.
    """
    if not count.judged:
        return None
    share, several = count.correct / count.judged, len(set(pairs))
    plain = wilson(share * several, several)
    units = len({cluster for cluster in clusters if cluster}) + clusters.count("")
    if plain is None or units == len(clusters):
        return plain
    drawn = bootstrap_mean(values, clusters)
    if drawn is None or drawn.low == drawn.high:
        return wilson(share * units, units)
    return Interval(min(plain.low, drawn.low), max(plain.high, drawn.high))


def mean_of_means(rows: Sequence[tuple[str, float]]) -> float | None:
    """Mean over categories of their means, of the categories that are there."""
    sums: dict[str, list[float]] = {}
    for category, credit in rows:
        both = sums.setdefault(category, [0.0, 0.0])
        both[0] += credit
        both[1] += 1
    return fmean(total / n for total, n in sums.values()) if sums else None

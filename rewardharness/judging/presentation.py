"""Results of single presentation orders, and their aggregation to a judgment."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from statistics import fmean, variance
from typing import Any

from rewardharness.judging.answers import read_number
from rewardharness.judging.groups import margin_between
from rewardharness.models.base import Reply
from rewardharness.schema import SCALE, ChainStep, Failure, Scores, Usage


@dataclass(frozen=True)
class PresentationOrder:
    """Candidates of one request or conversation, in the order in which the model sees them."""

    labels: tuple[str, ...]
    """Labels of the candidates in this order. The model knows the first as A, the second as B, and so on."""
    sample: int = 0
    """Number of the sample, from 0."""


@dataclass(frozen=True)
class PresentationResult:
    """Result of one request or conversation. Labels are those of the example."""

    scores: Mapping[str, Scores] = field(default_factory=dict)
    margins: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Margin of the first label over the second, per pair, in [-1, 1]."""
    logits: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Log-odds that the first label is preferred, per pair, if the protocol provides them."""
    steps: tuple[ChainStep, ...] = ()
    notes: tuple[str, ...] = ()
    usage: Usage = Usage()
    failure: Failure | None = None

    def to_json(self) -> dict[str, Any] | None:
        """Convert to the JSON form in the cache, without pictures; None if it failed."""
        form = {
            "scores": {label: asdict(score) for label, score in self.scores.items()},
            "leads": [[first, second, lead] for (first, second), lead in self.margins.items()],
            "logits": [[first, second, value] for (first, second), value in self.logits.items()],
            "steps": [[step.kind, step.text, step.subject] for step in self.steps],
            "notes": list(self.notes),
            "usage": asdict(self.usage),
        }
        return None if self.failure else form

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "PresentationResult":
        """Read a result from the cache. Its usage is zero.

        Raises:
            ValueError: If a number is out of range. Other errors are raised for another form.
        """
        return cls(
            scores={label: _read_scores(score) for label, score in value["scores"].items()},
            margins={(first, second): _number(lead, -1, 1) for first, second, lead in value["leads"]},
            logits={(first, second): _number(lead, -1e9, 1e9) for first, second, lead in value["logits"]},
            steps=tuple(ChainStep(kind, text, subject=subject) for kind, text, subject in value["steps"]),
            notes=tuple(value["notes"]),
        )


def _read_scores(value: Mapping[str, Any]) -> Scores:
    grades = [None if value[name] is None else _number(value[name], *SCALE) for name in ("instruction", "quality")]
    third = value.get("consistency")  # earlier versions wrote none
    third = None if third is None else _number(third, *SCALE)
    return Scores(grades[0], grades[1], _number(value["reward"], 0, 1), consistency=third)


def _number(value: Any, low: float, high: float) -> float:
    number = read_number(value, low - _ROUNDING, high + _ROUNDING)
    if number is None:
        raise ValueError(f"{value!r} is not a number from {low:g} to {high:g}")
    return number


_ROUNDING = 1e-6


def usage_of(reply: Reply) -> Usage:
    """Return the usage of one reply."""
    return Usage(1, reply.usage.input_tokens, reply.usage.output_tokens, reply.seconds)


def no_answer(reply: Reply, problem: str) -> Failure:
    """Return the failure of a conversation whose last reply was truncated or has no usable answer."""
    return Failure("truncated" if reply.cut_off else "no_answer", problem)


def aggregate_margins(
    labels: Sequence[str], results: Sequence[PresentationResult], scores: Mapping[str, Scores]
) -> tuple[dict[tuple[str, str], float], bool | None]:
    """Aggregate the margins of all presentation orders.

    The margin of a pair is the mean over its orders. With log-odds, these are averaged instead, and the margin is
    `tanh(mean / 2)`, which is P(first) - P(second); this cancels an additive position bias exactly. Pairs with equal
    margins, and pairs of candidates that were scored alone, are ranked by the reward.

    Returns:
        The margin per pair of labels, in [-1, 1]; and whether all orders of all pairs agree in sign, None if no pair
        has several orders.
    """
    margins: dict[tuple[str, str], float] = {}
    checked = agreed = 0
    for first, second in combinations(sorted(labels), 2):
        leads = [lead for result in results if (lead := margin_between(result.margins, first, second)) is not None]
        odds = [logit for result in results if (logit := margin_between(result.logits, first, second)) is not None]
        if len(leads) > 1:
            checked += 1
            agreed += len({(lead > 0) - (lead < 0) for lead in leads}) == 1
        lead = math.tanh(fmean(odds) / 2) if odds and len(odds) == len(leads) else fmean(leads) if leads else 0.0
        if lead == 0 and first in scores and second in scores:
            lead = (scores[first].value_or_evidence - scores[second].value_or_evidence) / (2 if leads else 1)
        margins[first, second] = lead
    return margins, (agreed == checked if checked else None)


def mean_scores(results: Sequence[PresentationResult], *, repeated: bool = False) -> dict[str, Scores]:
    """Return the mean scores of each candidate.

    Args:
        results: Results of the presentation orders.
        repeated: Whether there are several samples, so that their variance is meaningful.
    """
    labels = sorted({label for result in results for label in result.scores})
    means: dict[str, Scores] = {}
    for label in labels:
        scores = [result.scores[label] for result in results if label in result.scores]
        means[label] = Scores(
            _mean([score.instruction for score in scores]),
            _mean([score.quality for score in scores]),
            fmean(score.value_or_evidence for score in scores),
            variance([score.value_or_evidence for score in scores]) if repeated and len(scores) > 1 else None,
            _mean([score.consistency for score in scores]),
        )
    return means


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None

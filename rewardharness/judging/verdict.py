"""What a model said about one showing of the candidates, and how several showings are put together."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from statistics import fmean, variance
from typing import Any

from rewardharness.judging.answers import read_number
from rewardharness.models.base import Reply
from rewardharness.schema import SCALE, ChainStep, Failure, Scores, Usage


@dataclass(frozen=True)
class Verdict:
    """The outcome of one request, or of one conversation. Letters are the candidates' own."""

    scores: Mapping[str, Scores] = field(default_factory=dict)
    leads: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """For pairs of letters: how far the first leads the second, in [-1, 1]."""
    logits: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """For pairs of letters: log-odds that the first is preferred, where the protocol knows them."""
    steps: tuple[ChainStep, ...] = ()
    notes: tuple[str, ...] = ()
    usage: Usage = Usage()
    failure: Failure | None = None

    def to_json(self) -> dict[str, Any]:
        """Put it into JSON, without pictures."""
        return {
            "scores": {label: asdict(each) for label, each in self.scores.items()},
            "leads": [[first, second, lead] for (first, second), lead in self.leads.items()],
            "logits": [[first, second, value] for (first, second), value in self.logits.items()],
            "steps": [[step.kind, step.text, step.subject] for step in self.steps],
            "notes": list(self.notes),
            "usage": asdict(self.usage),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Verdict":
        """Read back a verdict. It cost nothing this time, so its usage is empty.

        Raises:
            ValueError: If a number is none or out of range. What is of another form raises what reading it raises.
        """
        return cls(
            scores={label: _read_scores(each) for label, each in value["scores"].items()},
            leads={(first, second): _number(lead, -1, 1) for first, second, lead in value["leads"]},
            logits={(first, second): _number(lead, -1e9, 1e9) for first, second, lead in value["logits"]},
            steps=tuple(ChainStep(kind, text, subject=subject) for kind, text, subject in value["steps"]),
            notes=tuple(value["notes"]),
        )


def _read_scores(value: Mapping[str, Any]) -> Scores:
    grades = [None if value[name] is None else _number(value[name], *SCALE) for name in ("instruction", "quality")]
    return Scores(grades[0], grades[1], _number(value["reward"], 0, 1))


def _number(value: Any, low: float, high: float) -> float:
    found = read_number(value, low - _ROUNDING, high + _ROUNDING)
    if found is None:
        raise ValueError(f"{value!r} is no number from {low:g} to {high:g}")
    return found


_ROUNDING = 1e-6


def usage_of(reply: Reply) -> Usage:
    """What one reply cost."""
    return Usage(1, reply.usage.input_tokens, reply.usage.output_tokens, reply.seconds)


def no_answer(reply: Reply, problem: str) -> Failure:
    """Why there is no answer after the last reply: it was cut off, or holds none that can be used."""
    return Failure("truncated" if reply.cut_off else "no_answer", problem)


def put_together(
    labels: Sequence[str], verdicts: Sequence[Verdict], scores: Mapping[str, Scores]
) -> tuple[dict[tuple[str, str], float], bool | None]:
    """Put the leads of all showings together.

    A pair's lead is the mean over its showings. Where log-odds are known they are averaged instead, and the lead is
    `tanh(mean / 2)`, which is P(first) - P(second): that cancels an additive preference for a position exactly. A pair
    that comes out level, and pairs of candidates that were scored alone, are told apart by the reward.

    Returns:
        Leads per pair of letters in [-1, 1]; and whether all showings of all pairs agreed in sign, None when no pair
        was shown more than once.
    """
    found: dict[tuple[str, str], float] = {}
    checked = agreed = 0
    for first, second in combinations(sorted(labels), 2):
        each = [lead for verdict in verdicts if (lead := _of(verdict.leads, first, second)) is not None]
        odds = [logit for verdict in verdicts if (logit := _of(verdict.logits, first, second)) is not None]
        if len(each) > 1:
            checked += 1
            agreed += len({(lead > 0) - (lead < 0) for lead in each}) == 1
        lead = math.tanh(fmean(odds) / 2) if odds and len(odds) == len(each) else fmean(each) if each else 0.0
        if lead == 0 and first in scores and second in scores:
            lead = (scores[first].worth - scores[second].worth) / (2 if each else 1)
        found[first, second] = lead
    return found, (agreed == checked if checked else None)


def _of(values: Mapping[tuple[str, str], float], first: str, second: str) -> float | None:
    if (first, second) in values:
        return values[first, second]
    return -values[second, first] if (second, first) in values else None


def lead_of(leads: Mapping[tuple[str, str], float], first: str, second: str) -> float:
    """How far the first leads the second; 0 when nothing is known of the two."""
    value = _of(leads, first, second)
    return 0.0 if value is None else value


def mean_scores(verdicts: Sequence[Verdict], *, repeated: bool = False) -> dict[str, Scores]:
    """Average the scores of each candidate over all showings that scored it.

    Args:
        verdicts: What came of the showings.
        repeated: Whether the same was asked several times, so that the spread says how steady the judge is.
    """
    labels = sorted({label for verdict in verdicts for label in verdict.scores})
    found: dict[str, Scores] = {}
    for label in labels:
        each = [verdict.scores[label] for verdict in verdicts if label in verdict.scores]
        found[label] = Scores(
            _mean([score.instruction for score in each]),
            _mean([score.quality for score in each]),
            fmean(score.worth for score in each),
            variance([score.worth for score in each]) if repeated and len(each) > 1 else None,
        )
    return found


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None

"""What a model said about one showing of the candidates, before several showings are put together."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from rewardharness.models.base import Reply
from rewardharness.schema import ChainStep, Failure, Scores, Usage


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
        """Read back a verdict. It cost nothing this time, so its usage is empty."""
        return cls(
            scores={label: Scores(**each) for label, each in value["scores"].items()},
            leads={(first, second): lead for first, second, lead in value["leads"]},
            logits={(first, second): lead for first, second, lead in value["logits"]},
            steps=tuple(ChainStep(kind, text, subject=subject) for kind, text, subject in value["steps"]),
            notes=tuple(value["notes"]),
        )


def usage_of(reply: Reply) -> Usage:
    """What one reply cost."""
    return Usage(1, reply.usage.input_tokens, reply.usage.output_tokens, reply.seconds)

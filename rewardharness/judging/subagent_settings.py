"""Settings of a Sub-Agent, and the prompts that follow from them."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from rewardharness.judging.config import WITH_EVIDENCE, Protocol
from rewardharness.judging.evidence import PROMPT
from rewardharness.prompts import Language

ALONE: frozenset[Protocol] = frozenset({"pointwise", "rubric"})
"""Protocols that judge each candidate alone, without a presentation order."""

READING = 3
"""Version of the parsing of replies. A new version invalidates cached answers."""

PROMPTS = (
    "digit format_chain format_chain_one format_direct format_direct_one format_letter judge judge_one no_ties notes "
    "pointwise question question_digit question_one references reminder response rubric ties tool_rules tools "
    "task_image_edit task_text task_video_edit"
).split()
"""All prompts that a Sub-Agent may use, besides that of measured evidence."""


OPTIONAL = {"language": "en", "evidence": False}
"""Settings that earlier versions did not have, with their only value. They are pinned only with another one."""


@dataclass(frozen=True)
class SubAgentSettings:
    """Settings of a Sub-Agent. All except the deadline can change an answer."""

    protocol: Protocol = "chain"
    both_orders: bool = True
    """Whether each pair is judged in both presentation orders."""
    samples: int = 1
    """Samples per request; with more than 1 the temperature is `sample_temperature`."""
    first_sample: int = 0
    """Number of the first sample. Other numbers give other samples at a temperature above 0."""
    ties: bool = False
    """Whether the task's labels have ties."""
    groups: Literal["pairs", "all"] = "pairs"
    """Whether 3 or 4 candidates are judged pair by pair or all at once."""
    tool_limit: int = 5
    max_tokens: int = 2048
    temperature: float = 0.0
    sample_temperature: float = 0.7
    max_pixels: int | None = None
    """Maximum number of pixels; larger images are scaled down before they are sent. None for no limit."""
    language: Language = "en"
    """Language of the prompts."""
    evidence: bool = False
    """Whether the model gets measured evidence of what each candidate changed: boxes, sentences and crops."""
    deadline: float | None = 600.0
    """Timeout of a judgment in seconds."""

    @property
    def pinned(self) -> dict[str, Any]:
        """All settings that can change an answer, by name; those of `OPTIONAL` only if they are not the default."""
        found = {name: value for name, value in asdict(self).items() if name != "deadline"}
        return {name: value for name, value in found.items() if name not in OPTIONAL or value != OPTIONAL[name]}

    @property
    def prompts(self) -> list[str]:
        """The prompts that the model may get."""
        return [*PROMPTS, *([PROMPT] if self.evidence else [])]

    @property
    def name(self) -> str:
        """The protocol with all settings that affect comparability."""
        return self.name_for(2)

    def name_for(self, candidates: int) -> str:
        """Return the name for a number of candidates; a single candidate has no orders, pairs or ties."""
        parts: list[str] = [self.protocol]
        if self.protocol not in ALONE:
            parts.append("one candidate" if candidates == 1 else "both orders" if self.both_orders else "one order")
            parts += ["all at once"] if self.groups == "all" and candidates > 1 else []
        parts += [f"{self.samples} samples"] if self.samples > 1 else []
        parts += ["ties"] if self.ties and candidates > 1 else []
        parts += [f"{self.language} prompts"] if self.language != "en" else []
        parts += [WITH_EVIDENCE] if self.evidence else []
        return ", ".join(parts)

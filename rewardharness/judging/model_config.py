"""`ModelJudgeConfig`: how a model judges, and the prompts that follow from it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

from rewardharness.codec import from_json
from rewardharness.prompts import Language

Protocol = Literal["chain", "direct", "logprob", "pointwise", "rubric", "checklist"]
PROTOCOLS: tuple[Protocol, ...] = ("chain", "direct", "logprob", "pointwise", "rubric", "checklist")
"""`chain`: thought, Tools and an answer, as in the paper. `direct`: the answer at once. `logprob`: odds of the letters.
`pointwise`: each candidate alone, two scores. `rubric`: each candidate alone, one grade per criterion. `checklist`:
each candidate alone, yes or no for principles that the model writes once per instruction.

Of a single candidate, `chain` and `direct` give the two scores without a preference, and `logprob` the expected scores
under the probabilities of the digits."""

ALONE: frozenset[Protocol] = frozenset({"pointwise", "rubric", "checklist"})
"""Protocols that judge each candidate alone, without a presentation order."""

READING = 5
"""Version of the parsing of replies. A new version invalidates cached answers."""

WITH_EVIDENCE = "measured evidence"
"""What the protocol of a judge with it says."""

PROMPTS = (
    "digit format_chain format_chain_one format_direct format_direct_one format_letter format_route judge judge_one "
    "no_ties notes pointwise question question_digit question_one references reminder response route rubric ties "
    "tool_rules tools task_image_edit task_text task_video_edit"
).split()
"""All prompts that a model judge may use, besides that of measured evidence."""

OPTIONAL: Mapping[str, Any] = {"language": "en", "evidence": False, "principles": [], "consistency": None}
"""Pinned settings that earlier versions did not have, with their only value. They are pinned only with another one."""

PINNED = {"tool_calls": "tool_limit", "prompt_language": "language"}
"""Fields by their names in releases, where they differ. `both_orders` there is the opposite of `one_order`."""


@dataclass(frozen=True)
class ModelJudgeConfig:
    """How a model judges. All fields except the deadline can change an answer."""

    protocol: Protocol = "chain"
    one_order: bool = False
    """Whether each pair is judged in one presentation order only."""
    samples: int = 1
    """Samples per request; with more than 1 the temperature is `sample_temperature`."""
    first_sample: int = 0
    """Number of the first sample. Other numbers give other samples at a temperature above 0."""
    ties: bool = False
    """Whether the task's labels have ties."""
    groups: Literal["pairs", "all"] = "pairs"
    """Whether 3 or 4 candidates are judged pair by pair or all at once."""
    tool_calls: int = 5
    """Maximum number of Tool calls in a conversation."""
    max_tokens: int = 2048
    """Maximum number of tokens of a reply."""
    temperature: float = 0.0
    sample_temperature: float = 0.7
    max_pixels: int | None = None
    """Maximum number of pixels; larger images are scaled down before they are sent. None for no limit."""
    prompt_language: Language = "en"
    evidence: bool = False
    """Whether the model gets measured evidence of what each candidate changed: boxes, sentences and crops."""
    consistency: float | None = None
    """Weight in the reward of a third score, of what should stay the same; None not to ask for it."""
    principles: tuple[str, ...] = ()
    """Protocol `checklist`: the principles of the one instruction that is judged, each as in
    `instruction 3: The box is red.`; empty to ask the model for them."""
    deadline: float | None = 600.0
    """Timeout of a judgment in seconds."""

    @property
    def pinned(self) -> dict[str, Any]:
        """All settings that can change an answer, by their names in a release.

        Those of `OPTIONAL` only if they are not the default.
        """
        named = {PINNED.get(name, name): value for name, value in asdict(self).items()}
        del named["deadline"]
        named["both_orders"] = not named.pop("one_order")
        named["principles"] = list(self.principles)
        return {name: value for name, value in named.items() if name not in OPTIONAL or value != OPTIONAL[name]}

    @classmethod
    def from_pinned(cls, settings: Mapping[str, Any]) -> Self:
        """Return how the model of a release judges; `ocr` is not read."""
        fields = {pinned: name for name, pinned in PINNED.items()}
        options = {fields.get(name, name): value for name, value in settings.items()}
        both_orders, _ = options.pop("both_orders"), options.pop("ocr")
        return from_json(cls, {**options, "one_order": not both_orders})

    @property
    def request_temperature(self) -> float:
        """Temperature of the requests."""
        return self.temperature if self.samples == 1 else self.sample_temperature

    @property
    def prompts(self) -> list[str]:
        """The prompts that the model may get."""
        own = ["checklist", "question_checklist"] if self.protocol == "checklist" else []
        own += ["evidence"] if self.evidence else []
        return [*PROMPTS, *own, *(["consistency"] if self.consistency is not None else [])]

    @property
    def name(self) -> str:
        """The protocol with all settings that affect comparability."""
        return self.name_for(2)

    def name_for(self, candidates: int) -> str:
        """Return the name for a number of candidates; a single candidate has no orders, pairs or ties."""
        parts: list[str] = [self.protocol]
        if self.protocol not in ALONE:
            parts.append("one candidate" if candidates == 1 else "one order" if self.one_order else "both orders")
            parts += ["all at once"] if self.groups == "all" and candidates > 1 else []
        parts += [f"{self.samples} samples"] if self.samples > 1 else []
        parts += ["ties"] if self.ties and candidates > 1 else []
        parts += [f"{self.prompt_language} prompts"] if self.prompt_language != "en" else []
        parts += [WITH_EVIDENCE] if self.evidence else []
        parts += [] if self.consistency is None else [f"consistency {self.consistency:g}"]
        parts += ["given principles"] if self.principles else []
        return ", ".join(parts)

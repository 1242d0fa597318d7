"""Configuration of the judge of a job: which judge, with which Library, and how a model judges."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from rewardharness.codec import READS, SENDS
from rewardharness.judging.model_config import ModelJudgeConfig, Protocol
from rewardharness.prompts import Language
from rewardharness.ranges import Range, check_ranges
from rewardharness.settings import Settings

if TYPE_CHECKING:  # help and wrong arguments are shown without loading a judge
    from rewardharness.library.store import Library

MEASURED = "measured"
"""Specification of the judge without a model."""

EVIDENCE = "+evidence"
"""Suffix of the spelling of a judge, for `evidence`."""


@dataclass(frozen=True, kw_only=True)
class JudgeConfig:
    """Judge, Library, and how a model judges.

    The judge is `measured` (no model), `vllm:NAME@URL[,URL...]`, `openai:NAME[@URL]`, `hf:NAME`, `openrouter:NAME`,
    `gemini:NAME`, a baseline (`random`, `always-a`, `closer`, `farther`, `ssim`) or `file:SCORES.jsonl`; by default
    `RH_JUDGE`, else `measured`. A model whose spelling ends in `+evidence` gets measured evidence.
    The keys of models are `RH_API_KEY`, `OPENAI_API_KEY`, `HF_TOKEN`, `OPENROUTER_API_KEY` (these without `@URL`) and
    `GEMINI_API_KEY`. The Library is by default `RH_LIBRARY`, else `builtin`.
    """

    library: str | None = field(default=None, metadata=READS)
    """Folder, Hub repository, presets, builtin or empty."""
    judge: str | None = field(default=None, metadata=SENDS)
    """measured, vllm:NAME@URL, hf:NAME, ... (RH_JUDGE)."""
    protocol: Protocol | None = None
    """How a model judges (default: chain)."""
    one_order: bool = False
    """Show each pair in one order only: half the calls."""
    samples: int | None = None
    """Samples per question to a model (default: 1)."""
    groups: Literal["pairs", "all"] | None = None
    """How to judge 3 or more."""
    tool_calls: int | None = None
    """Tool calls per conversation (default: 5)."""
    max_pixels: int | None = None
    """Pixels to which images are reduced for a model."""
    prompt_language: Language | None = None
    """Of prompts (default: en)."""
    evidence: bool | None = None
    """Give a model measured changes: boxes, crops."""
    request_timeout: float | None = None
    """Seconds for one attempt of a request to a model (default: 120)."""
    retries: int | None = None
    """Further attempts of a failed request to a model (default: 7)."""
    router: str | None = field(default=None, metadata=SENDS)
    """Model that routes entries without triggers."""
    no_cache: bool = False
    """Do not use or store cached judgments."""

    ranges: ClassVar[Mapping[str, Range]] = {
        "samples": Range(1),
        "tool_calls": Range(0),
        "max_pixels": Range(784),
        "request_timeout": Range(1),
        "retries": Range(0),
    }
    """Numbers that fields may have."""

    def __post_init__(self) -> None:
        if self.judge is not None and self.judge.endswith(EVIDENCE):
            object.__setattr__(self, "judge", self.judge.removesuffix(EVIDENCE))
            object.__setattr__(self, "evidence", True)
        check_ranges(self, self.ranges)

    @property
    def model(self) -> ModelJudgeConfig:
        """How a model judges: the fields of this configuration that it has, and its defaults."""
        values = {field.name: getattr(self, field.name, None) for field in fields(ModelJudgeConfig)}
        return ModelJudgeConfig(**{name: value for name, value in values.items() if value is not None})

    def with_defaults(self, settings: Settings) -> Self:
        """Replace omitted judge and Library by those of the settings."""
        return replace(self, judge=self.judge or settings.judge, library=self.library or settings.library)

    def endpoint(self, settings: Settings) -> str | None:
        """Return the judge that the user named; None if it is the one of the environment."""
        return None if self.judge == settings.judge else self.judge

    def open_library(self, settings: Settings, instructions: Mapping[str, str] | None = None) -> "Library":
        """Open the Library.

        Args:
            settings: The default Library.
            instructions: Instruction by prompt id, for presets of single prompts.

        Raises:
            LibraryError: If it cannot be opened.
        """
        from rewardharness.library.opening import open_library

        return open_library(self.library or settings.library, instructions)


@dataclass(frozen=True, kw_only=True)
class ReleaseConfig(JudgeConfig):
    """Judge and Library, one by one or fixed by a release."""

    release: str | None = field(default=None, metadata=READS)
    """Release file, or deployed:NAME. It fixes Library, judge and settings; --judge then names the endpoint."""

    def with_defaults(self, settings: Settings) -> Self:
        """Replace omitted judge and Library by those of the settings. A release fixes both."""
        return self if self.release else super().with_defaults(settings)


@dataclass(frozen=True, kw_only=True)
class RewardConfig(ReleaseConfig):
    """Judge and Library of a job that scores."""

    ties: bool = False
    """Allow `tie` as a preference."""
    calibration: Path | None = field(default=None, metadata=READS)
    """Calibration of the confidence, written by rh benchmark --calibrate (or RH_CALIBRATION)."""
    allow_ungradable: bool = False
    """Pixel-based judge: give a low-confidence reward where it cannot measure whether the instruction was followed.
    Without this option, that is a failure with the reason not_gradable."""


DEFAULT_JUDGE = RewardConfig()
"""The judge and the Library of the environment."""

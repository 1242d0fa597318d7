"""Configuration of the judge of a job: which judge, with which Library, and how a model judges."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from rewardharness.codec import READS, SENDS, ValidationError, from_json
from rewardharness.errors import InputError
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

_OPTION = re.compile(r"\+([a-z][a-z-]*)(?:=([^+,()\s]*))?$")


def split_options(spec: str) -> tuple[str, dict[str, str]]:
    """Split a judge and its options: `vllm:NAME@URL+samples=4+evidence` has the options `samples` and `evidence`.

    Raises:
        InputError: If it has another option than `JudgeConfig`, or one that names a model or a Library.
    """
    known = [field.name for field in fields(JudgeConfig) if not field.metadata]
    options: dict[str, str] = {}
    while (match := _OPTION.search(spec)) and not spec.startswith("file:"):
        name, value = match[1].replace("-", "_"), match[2]
        if name not in known and value is None:
            break  # a part of the name
        if name not in known:
            raise InputError(f"{match[0]!r} is no option of a judge.", next_step=f"Options: {', '.join(known)}.")
        options.setdefault(name, "true" if value is None else value)
        spec = spec[: match.start()]
    return spec, options


@dataclass(frozen=True, kw_only=True)
class JudgeConfig:
    """Judge, Library, and how a model judges.

    The judge is `measured` (no model), `vllm:NAME@URL[,URL...]`, `openai:NAME[@URL]`, `hf:NAME`, `openrouter:NAME`,
    `gemini:NAME`, a published reward model (`PROFILE:NAME@URL`), a scorer (`http:URL`), `mean(JUDGE, JUDGE)`, a
    baseline (`random`, `always-a`, `closer`, `farther`, `ssim`) or `file:SCORES.jsonl`; by default `RH_JUDGE`, else
    `measured`. Options of one judge follow it, as in `vllm:NAME@URL+samples=4+evidence`.
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
    consistency: float | None = None
    """Also score consistency; its weight in the reward."""
    request_timeout: float | None = None
    """Seconds for one attempt (default: 120)."""
    retries: int | None = None
    """Further attempts of a failed request (default: 7)."""
    router: str | None = field(default=None, metadata=SENDS)
    """Model that routes entries without triggers."""
    no_cache: bool = False
    """Do not use or store cached judgments."""

    ranges: ClassVar[Mapping[str, Range]] = {
        "samples": Range(1),
        "tool_calls": Range(0),
        "max_pixels": Range(784),
        "consistency": Range(0, 1),
        "request_timeout": Range(1),
        "retries": Range(0),
    }
    """Numbers that fields may have."""
    one_judge: ClassVar[bool] = True
    """Whether the options after the judge become those of the configuration."""

    def __post_init__(self) -> None:
        judge, options = split_options(self.judge or "")
        if options and self.one_judge:
            try:
                overrides = from_json(JudgeConfig, options, coerce=True)
            except ValidationError as error:
                raise InputError(f"{self.judge!r}: {error.message}.", next_step="Correct its options.") from None
            for name in options:
                object.__setattr__(self, name, getattr(overrides, name))
            object.__setattr__(self, "judge", judge)
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
        judge = self.judge and split_options(self.judge)[0]
        return None if judge == settings.judge else judge

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


def model_options(spec: str) -> dict[str, Any]:
    """Return the options after a judge that say how a model judges."""
    own, known = JudgeConfig(judge=spec), {field.name for field in fields(ModelJudgeConfig)}
    return {name: getattr(own, name) for name in split_options(spec)[1] if name in known}


def with_options(judge: object) -> str:
    """Return the spelling of a judge in a list: as it is, or of a mapping such as `{judge: NAME, samples: 4}`.

    Raises:
        InputError: If it is neither, or names no judge.
    """
    if isinstance(judge, str):
        return judge
    if not isinstance(judge, Mapping) or not isinstance(judge.get("judge"), str):
        raise InputError(f"{judge!r} names no judge.", next_step="Write NAME, or {judge: NAME, samples: 4}.")
    values = {name: value for name, value in judge.items() if name != "judge" and value is not False}
    options = [f"+{name}" if value is True else f"+{name}={value}" for name, value in values.items()]
    return "".join([judge["judge"], *(option.replace("_", "-") for option in options)])


SEVERAL = ("mean(", "each(")
"""Beginnings of specifications of several judges."""


def split_judges(texts: Iterable[str]) -> list[str]:
    """Split lists of judges at their commas, but no list of addresses, no ensemble and no path of a file."""
    specs: list[str] = []
    for text in texts:
        start = len(specs)
        for part in [text] if text.startswith("file:") else text.split(","):
            inside = len(specs) > start and specs[-1].count("(") > specs[-1].count(")")
            if inside or (part.strip().startswith(("http://", "https://")) and len(specs) > start):
                specs[-1] += f",{part if inside else part.strip()}"
            elif part.strip():
                specs.append(part.strip())
    return specs


def members_of(spec: str) -> list[str] | None:
    """Return the judges of `mean(JUDGE, JUDGE, ...)` or `each(JUDGE, JUDGE, ...)`; None for any other judge.

    Raises:
        InputError: If there are not at least two.
    """
    spec = spec.strip()
    if not (spec.startswith(SEVERAL) and spec.endswith(")")):
        return None
    members = split_judges([spec.partition("(")[2].removesuffix(")")])
    if len(members) < 2:
        raise InputError("An ensemble needs at least two judges.", next_step="Write mean(JUDGE, JUDGE).")
    return members

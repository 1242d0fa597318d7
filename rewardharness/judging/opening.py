"""Opening of judges by their specification: `measured`, a baseline, scores in a file, or a model; see `models.open`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from rewardharness.errors import InputError
from rewardharness.judging.baselines import BASELINES, BaselineJudge
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.calibration import ConfidenceCalibration, load_calibration, shipped_calibration
from rewardharness.judging.config import EVIDENCE, PROTOCOLS
from rewardharness.judging.judge import Judge
from rewardharness.judging.llm_router import LLMRouter
from rewardharness.judging.measured import MeasuredJudge
from rewardharness.judging.scored_elsewhere import read_scores
from rewardharness.judging.subagent import PresentationOrder, SubAgent
from rewardharness.judging.subagent_settings import SubAgentSettings
from rewardharness.models.open import SERVICES, ModelSettings, open_model
from rewardharness.models.openai_compatible import OpenAICompatibleModel
from rewardharness.schema import ChainStep
from rewardharness.settings import Settings

MEASURED = "measured"
"""Specification of the judge without a model."""

FILE = "file:"
"""Prefix of the specification of a judge that reads scores from a file."""


@dataclass(frozen=True)
class JudgeOptions:
    """Options of any judge."""

    ties: bool = False
    pictures: bool = False
    """Whether observations carry overlay images."""
    subagent: SubAgentSettings = SubAgentSettings()
    """Settings of a model judge; `ties` above takes precedence."""
    router: str | None = None
    """Specification of a model that selects entries without triggers; None if their description decides."""
    cache: bool = True
    """Whether answers of a model and readings of the pixel-based judge are cached in `RH_HOME`."""
    api_key: str | None = field(default=None, repr=False)
    """Key of the endpoint instead of the one in the environment. Never stored."""
    allow_ungradable: bool = False
    """Whether the pixel-based judge gives a reward with low confidence if it cannot grade the instruction."""
    calibration: ConfidenceCalibration | None = None
    """Calibration of the confidence; None for that of `RH_CALIBRATION` if it is of this judge, else for that which the
    package has for the pixel-based judge."""
    critique: bool = False
    """Whether judgments have a critique of each candidate. It changes no score."""
    on_step: Callable[[PresentationOrder, ChainStep], None] | None = None
    """Called with each step of a chain."""
    attempts: int = 8
    """Maximum number of attempts per request; fewer in interactive use."""
    public_only: bool = False
    """Whether endpoints must be on the public internet, with HTTPS, for addresses from visitors."""


def open_judge(
    spec: str = MEASURED, settings: Settings | None = None, options: JudgeOptions = JudgeOptions(), **changes: Any
) -> Judge:
    """Open a judge. No request is sent.

    Args:
        spec: `measured`, `vllm:NAME@URL[,URL...]`, `openai:NAME[@URL]`, `gemini:NAME` or `scripted:FILE`; one of
            `BASELINES`; or `file:PATH`, see `scored_elsewhere`. A model ending in `+evidence` gets measured evidence.
        settings: Keys, workers and the cache folder; None for those of the environment.
        options: Options of the judge.
        changes: Single options by name, as in `ties=True`, `cache=False` or `allow_ungradable=True`; for a model also
            those of `SubAgentSettings`: `protocol="pointwise"`, `both_orders=False`, `samples=3`, ...

    Raises:
        InputError: If the specification is invalid, or a key is missing.
        DataError: If a file of scores or a script cannot be read.
        MissingPackageError: If a package for this kind of model is not installed.
    """
    options = _changed(options, changes)
    settings = settings or Settings.from_env()
    judge = _open(spec, settings, options)
    calibration = options.calibration or _usual_calibration(judge, settings)
    judge = judge if calibration is None else judge.with_calibration(calibration)
    return judge.with_critiques() if options.critique else judge


def _usual_calibration(judge: Judge, settings: Settings) -> ConfidenceCalibration | None:
    if settings.calibration is not None:
        chosen = load_calibration(settings.calibration)
        if chosen.judge == judge.name:
            return chosen
    return shipped_calibration() if isinstance(judge, MeasuredJudge) else None


def _open(spec: str, settings: Settings, options: JudgeOptions) -> Judge:
    if spec.endswith(EVIDENCE):
        spec, options = spec.removesuffix(EVIDENCE), _changed(options, {"evidence": True})
    if options.subagent.evidence and not is_model(spec):
        step = "Leave out the measured evidence, or judge with a model: --judge vllm:NAME@URL or openai:NAME@URL."
        raise InputError(f"Measured evidence is for models, and {spec} is none.", next_step=step)
    for baseline in BASELINES:
        if spec == baseline:
            return BaselineJudge(baseline, options.ties)
    if spec.startswith(FILE) and spec != FILE:
        return read_scores(Path(spec.removeprefix(FILE)).expanduser(), ties=options.ties)
    if ":" not in spec and spec != MEASURED:
        known = ", ".join((MEASURED, *BASELINES))
        raise InputError(
            f"Unknown judge {spec[:100]!r}.",
            next_step=f"Write {known}, file:SCORES.jsonl, vllm:NAME@URL, openai:NAME@URL, hf:NAME or gemini:NAME.",
        )
    cache = JudgmentCache(settings.home / "cache") if options.cache else None
    if spec == MEASURED:
        return MeasuredJudge(
            ties=options.ties,
            pictures=options.pictures,
            workers=settings.workers,
            cache=cache,
            allow_ungradable=options.allow_ungradable,
        )
    typed = {} if options.api_key is None else {"service_keys": dict.fromkeys(SERVICES, options.api_key)}
    keys = ModelSettings.of(
        settings,
        options.api_key or settings.api_key,
        **typed,
        attempts=options.attempts,
        public_only=options.public_only,
        send_once=True,
    )
    model = open_model(spec, keys)
    how = replace(options.subagent, ties=options.ties)
    router = LLMRouter(open_model(options.router, keys), cache) if options.router else None
    find_out = model.probe if isinstance(model, OpenAICompatibleModel) else None
    return SubAgent(model, how, cache, router, on_step=options.on_step, pictures=options.pictures, find_out=find_out)


def is_model(spec: str) -> bool:
    """Return whether a specification names a model."""
    return ":" in spec and not spec.startswith(FILE)


def _changed(options: JudgeOptions, changes: Mapping[str, Any]) -> JudgeOptions:
    own = {each.name for each in fields(JudgeOptions)} - {"subagent"}
    models = {each.name for each in fields(SubAgentSettings)} - own
    unknown = [name for name in changes if name not in own | models]
    if unknown:
        step = f"Options: {', '.join(sorted(own | models))}."
        raise InputError(f"A judge has no option {unknown[0]!r}.", next_step=step)
    if changes.get("protocol", PROTOCOLS[0]) not in PROTOCOLS:
        step = f"Choose one of: {', '.join(PROTOCOLS)}."
        raise InputError(f"There is no protocol {changes['protocol']!r}.", next_step=step)
    subagent = replace(options.subagent, **{name: value for name, value in changes.items() if name in models})
    return replace(options, subagent=subagent, **{name: value for name, value in changes.items() if name in own})

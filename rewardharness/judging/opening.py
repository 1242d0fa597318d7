"""Opens a judge by its spelling: `measured`, a baseline, scores in a file, or a model as `models.open` spells it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from rewardharness.errors import InputError
from rewardharness.judging.baselines import BASELINES, BaselineJudge
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.config import PROTOCOLS
from rewardharness.judging.judge import Judge
from rewardharness.judging.llm_router import LLMRouter
from rewardharness.judging.measured import MeasuredJudge
from rewardharness.judging.scored_elsewhere import read_scores
from rewardharness.judging.subagent import Showing, SubAgent, SubAgentSettings
from rewardharness.models.open import ModelSettings, open_model
from rewardharness.models.openai_compatible import OpenAICompatibleModel
from rewardharness.schema import ChainStep
from rewardharness.settings import Settings

MEASURED = "measured"
"""Spelling of the judge that needs no model."""

FILE = "file:"
"""Begins the spelling of a judge that reads scores from a file."""


@dataclass(frozen=True)
class JudgeOptions:
    """What a caller decides about a judge, whatever it is."""

    ties: bool = False
    pictures: bool = False
    """Whether observations carry pictures for people."""
    subagent: SubAgentSettings = SubAgentSettings()
    """How a model judges; `ties` above goes before the one in here."""
    router: str | None = None
    """Spelling of a model that decides on entries without triggers; None: their wording decides."""
    cache: bool = True
    """Whether a model's judgments, and the measured judge's readings, are remembered in `RH_HOME`."""
    api_key: str | None = field(default=None, repr=False)
    """Key of the endpoint, instead of the one in the environment. Never kept."""
    allow_ungradable: bool = False
    """Whether the measured judge gives a reward where it cannot grade the instruction, with low confidence."""
    on_step: Callable[[Showing, ChainStep], None] | None = None
    """Told each step of a chain as it comes."""
    attempts: int = 8
    """Requests that are sent for one question at most: fewer where somebody waits for the answer."""
    public_only: bool = False
    """Whether endpoints must be on the public internet, with https: for addresses that come from strangers."""


def open_judge(
    spec: str = MEASURED, settings: Settings | None = None, options: JudgeOptions = JudgeOptions(), **changes: Any
) -> Judge:
    """Open a judge. Nothing is sent before it judges.

    Args:
        spec: `measured`, `vllm:NAME@URL[,URL...]`, `openai:NAME[@URL]`, `gemini:NAME` or `scripted:FILE`; one of
            `BASELINES`; or `file:PATH`, see `scored_elsewhere`.
        settings: Keys, workers and where the cache is; None for those of the environment.
        options: How it judges.
        changes: Single options by name, as in `ties=True`, `cache=False` or `allow_ungradable=True`; for a model also
            those of `SubAgentSettings`: `protocol="pointwise"`, `both_orders=False`, `samples=3`, ...

    Raises:
        InputError: If the spelling cannot be read, or a key is missing.
        DataError: If a file of scores or a script cannot be read.
        MissingPackageError: If a package for this kind of model is not installed.
    """
    settings, options = settings or Settings.from_env(), _changed(options, changes)
    for baseline in BASELINES:
        if spec == baseline:
            return BaselineJudge(baseline, options.ties)
    if spec.startswith(FILE) and spec != FILE:
        return read_scores(Path(spec.removeprefix(FILE)).expanduser(), ties=options.ties)
    if ":" not in spec and spec != MEASURED:
        known = ", ".join((MEASURED, *BASELINES))
        raise InputError(
            f"{spec[:100]!r} is not a judge.",
            next_step=f"Write {known}, file:SCORES.jsonl, vllm:NAME@URL, openai:NAME@URL or gemini:NAME.",
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
    keys = ModelSettings(
        api_key=options.api_key or settings.api_key,
        openai_key=options.api_key or settings.openai_key,
        gemini_key=settings.gemini_key,
        project=settings.cloud_project,
        location=settings.cloud_location,
        attempts=options.attempts,
        public_only=options.public_only,
        send_once=True,
    )
    model = open_model(spec, keys)
    how = replace(options.subagent, ties=options.ties)
    router = LLMRouter(open_model(options.router, keys), cache) if options.router else None
    find_out = model.probe if isinstance(model, OpenAICompatibleModel) else None
    return SubAgent(model, how, cache, router, on_step=options.on_step, pictures=options.pictures, find_out=find_out)


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

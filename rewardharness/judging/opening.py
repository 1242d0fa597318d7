"""Opening of judges by their specification: `measured`, a baseline, scores in a file, or a model; see `models.open`."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from operator import not_
from typing import TYPE_CHECKING, Any

from rewardharness.errors import InputError
from rewardharness.files import user_path
from rewardharness.judging.cache import JudgmentCache, MemoryCache
from rewardharness.judging.calibration import ConfidenceCalibration, load_calibration, shipped_calibration
from rewardharness.judging.config import MEASURED, SEVERAL, JudgeConfig, members_of, model_options
from rewardharness.judging.judge import Judge
from rewardharness.judging.measured import MeasuredJudge
from rewardharness.judging.model_config import PROTOCOLS, ModelJudgeConfig
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.judging.subagent import SubAgent
    from rewardharness.models.base import Model

FILE = "file:"
"""Prefix of the specification of a judge that reads scores from a file."""
SCORERS = ("http", "http+unirl", "http+flow-factory")
"""Kinds of scorers that are asked over HTTP: this project's reward server, UniRL's reward service, and Flow-Factory's
remote reward."""

EARLIER: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "both_orders": ("one_order", not_),
    "cache": ("no_cache", not_),
    "tool_limit": ("tool_calls", int),
    "language": ("prompt_language", str),
    "attempts": ("retries", lambda attempts: attempts - 1),
    "attempt_timeout": ("request_timeout", float),
}
"""Options by their names in earlier versions: the name now, and the conversion of the value."""


def open_judge(
    judge: JudgeConfig | str | Callable[..., Any] = MEASURED,
    settings: Settings | None = None,
    *,
    model: ModelJudgeConfig | None = None,
    pictures: bool = False,
    allow_ungradable: bool = False,
    critique: bool = False,
    **options: Any,
) -> Judge:
    """Open a judge. No request is sent.

    Args:
        judge: The configuration of a judge, or its specification: `measured`, `vllm:NAME@URL[,URL...]`,
            `openai:NAME[@URL]`, `hf:NAME[:PROVIDER]`, `openrouter:NAME`, `gemini:NAME` or `scripted:FILE`; one of
            `BASELINES`; `file:PATH`, see `scored_elsewhere`; or a published reward model by its profile, as in
            `editscore:NAME@URL` or `./mine.yaml:NAME@URL`; a scorer, see `open_http`; `mean(JUDGE, JUDGE)`; or a
            function, see `FunctionJudge`. A model ending in `+evidence` gets measured evidence.
        settings: Keys, workers and the cache folder; None for those of the environment.
        model: How a model judges; None for what the configuration says.
        pictures: Whether observations carry overlay images.
        allow_ungradable: Whether the pixel-based judge gives a reward with low confidence if it cannot grade the
            instruction.
        critique: Whether judgments have a critique of each candidate. It changes no score.
        options: Single fields of `JudgeConfig`, `ModelJudgeConfig` or `EndpointSettings`, as in `ties=True`,
            `protocol="pointwise"`, `samples=3`, `no_cache=True` or `retries=1`.

    Raises:
        InputError: If the specification or an option is invalid, or a key is missing.
        DataError: If a file of scores or a script cannot be read.
        MissingPackageError: If a package for this kind of model is not installed.
    """
    if callable(judge):
        from rewardharness.judging.reward_judges import FunctionJudge

        return FunctionJudge(judge, getattr(judge, "__name__", type(judge).__name__), **options)
    own, of_model, of_endpoint = _sorted_options(options)
    settings = settings or Settings.from_env()
    by_environment = isinstance(judge, JudgeConfig) and judge.judge in (None, settings.judge)
    config = JudgeConfig(judge=judge) if isinstance(judge, str) else replace(judge, judge=judge.judge or settings.judge)
    config = replace(config, **own)
    model = replace(model or config.model, **of_model)
    model = replace(model, evidence=True) if config.evidence else model
    try:
        if config.judge == MEASURED and not model.evidence:
            how: dict[str, Any] = {"ties": model.ties, "allow_ungradable": allow_ungradable, "pictures": pictures}
            how |= {"workers": settings.workers, "cache": _cache(config, settings)}
            opened: Judge
            if config.consistency is None:
                opened = MeasuredJudge(**how)
            else:
                from rewardharness.judging.consistency import ConsistencyJudge

                opened = ConsistencyJudge(config.consistency, **how)
        elif (several := _members(config, settings, model, of_endpoint, allow_ungradable)) is not None:
            opened = several
        elif is_model(str(config.judge)):
            opened = _open_model(config, settings, model, of_endpoint, pictures)
        else:
            opened = _open_other(str(config.judge), model, settings)
    except InputError as error:
        if not by_environment or settings.judge == MEASURED:
            raise
        raise InputError(f"RH_JUDGE: {error.message}", next_step=error.next_step) from None
    calibration = _usual_calibration(opened, settings)
    opened = opened if calibration is None else opened.with_calibration(calibration)
    return opened.with_critiques() if critique else opened


def _sorted_options(options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the options of `JudgeConfig`, `ModelJudgeConfig` and `EndpointSettings`, each of the first that has it.

    Old names are renamed with a notice.
    """
    if not options:
        return [{}, {}, {}]
    from rewardharness.models.limits import EndpointSettings

    owners: tuple[type[Any], ...] = (JudgeConfig, ModelJudgeConfig, EndpointSettings)
    found: list[dict[str, Any]] = [{} for _ in owners]
    known = [{field.name for field in fields(owner)} for owner in owners]
    for option, value in options.items():
        name = option
        if option in EARLIER:
            name, convert = EARLIER[option]
            value = convert(value)
            warnings.warn(f"The option {option!r} of judges is now {name!r}.", FutureWarning, stacklevel=3)
        place = next((number for number, names in enumerate(known) if name in names), None)
        if place is None or name in {"judge", "library"}:
            step = f"Options: {', '.join(sorted(set().union(*known) - {'judge', 'library'}))}."
            raise InputError(f"A judge has no option {option!r}.", next_step=step)
        found[place][name] = value
    protocol = found[0].get("protocol", PROTOCOLS[0])
    if protocol not in PROTOCOLS:
        step = f"Choose one of: {', '.join(PROTOCOLS)}."
        raise InputError(f"There is no protocol {protocol!r}.", next_step=step)
    return found


def _usual_calibration(judge: Judge, settings: Settings) -> ConfidenceCalibration | None:
    if settings.calibration is not None:
        chosen = load_calibration(settings.calibration)
        if chosen.judge == judge.name:
            return chosen
    return shipped_calibration() if isinstance(judge, MeasuredJudge) else None


def _cache(config: JudgeConfig, settings: Settings) -> JudgmentCache | None:
    return None if config.no_cache else JudgmentCache(settings.home / "cache")


def _open_model(
    config: JudgeConfig, settings: Settings, model: ModelJudgeConfig, limits: Mapping[str, Any], pictures: bool
) -> "SubAgent":
    from rewardharness.judging.checklist import read_principles
    from rewardharness.judging.llm_router import LLMRouter
    from rewardharness.judging.profile_opening import profile_of
    from rewardharness.judging.subagent import SubAgent
    from rewardharness.models.limits import EndpointSettings
    from rewardharness.models.open import open_model
    from rewardharness.models.openai_compatible import OpenAICompatibleModel

    spec, named = str(config.judge), profile_of(str(config.judge))
    if named is not None:
        spec = named[1]
    if model.principles and model.protocol != "checklist":
        raise InputError("Principles need the protocol checklist.", next_step="Choose it, or give no principles.")
    if model.principles:
        read_principles(model.principles)
    given = {"retries": config.retries, "request_timeout": config.request_timeout}
    limits = {**{name: value for name, value in given.items() if value is not None}, **limits}
    endpoint = EndpointSettings(send_once=True, **limits)
    client, cache = open_model(spec, settings, endpoint), _cache(config, settings)
    router = config.router and LLMRouter(open_model(config.router, settings, endpoint), cache or MemoryCache())
    probe = client.probe if isinstance(client, OpenAICompatibleModel) else None
    if named is not None:
        return _open_profile(named[0], client, model, cache, probe, settings)
    return SubAgent(client, model, cache, router or None, pictures=pictures, find_out=probe)


def _open_profile(
    name: str, client: "Model", model: ModelJudgeConfig, cache: JudgmentCache | None, probe: Any, settings: Settings
) -> "SubAgent":
    from rewardharness.judging.profile_judge import ProfileJudge, settings_of
    from rewardharness.judging.profile_opening import load_profile, load_texts

    profile, folder = load_profile(name)
    usual = ModelJudgeConfig()
    fixed = ("protocol", "evidence", "prompt_language", "groups", "tool_calls", "consistency")
    if wrong := [each for each in fixed if getattr(model, each) != getattr(usual, each)]:
        options = ", ".join(f"--{each.replace('_', '-')}" for each in wrong)
        raise InputError(f"The profile {profile.name} fixes how its model is asked.", next_step=f"Leave out {options}.")
    how, texts = settings_of(profile, model), load_texts(profile, folder, settings.home)
    return ProfileJudge(client, how, cache, None, find_out=probe, profile=profile, texts=texts)


def _members(
    config: JudgeConfig, settings: Settings, model: ModelJudgeConfig, limits: Mapping[str, Any], allow_ungradable: bool
) -> Judge | None:
    """Open an ensemble; None for any other judge."""
    if (specs := members_of(str(config.judge))) is None:
        return None
    from rewardharness.judging.ensemble import EnsembleJudge

    members = []
    for spec in specs:
        how = model if is_model(spec) else ModelJudgeConfig(ties=model.ties)
        how, own = replace(how, **model_options(spec)), replace(config, judge=spec, evidence=None)
        members.append(open_judge(own, settings, model=how, allow_ungradable=allow_ungradable, **limits))
    return EnsembleJudge(tuple(members), apart=str(config.judge).strip().startswith("each("))


def _open_other(spec: str, model: ModelJudgeConfig, settings: Settings) -> Judge:
    """Open a baseline, scores in a file, or a scorer."""
    from rewardharness.judging.baselines import BASELINES, BaselineJudge
    from rewardharness.judging.scored_elsewhere import read_scores

    if model.evidence:
        step = "Leave out the measured evidence, or judge with a model: --judge vllm:NAME@URL or openai:NAME@URL."
        raise InputError(f"Measured evidence is for models, and {spec} is none.", next_step=step)
    if model.consistency is not None:
        step = "Leave consistency out, or use the pixel-based judge, a model or a profile that has it."
        raise InputError(f"{spec} does not score consistency.", next_step=step)
    if baseline := next((name for name in BASELINES if name == spec), None):
        return BaselineJudge(baseline, model.ties)
    if spec.startswith(FILE) and spec != FILE:
        return read_scores(user_path(spec.removeprefix(FILE)), ties=model.ties)
    if spec.partition(":")[0] in SCORERS:
        from rewardharness.judging.reward_judges import open_http

        return open_http(spec, settings.api_key or "")
    known = ", ".join((MEASURED, *BASELINES))
    step = f"Write {known}, file:SCORES.jsonl, vllm:NAME@URL, openai:NAME@URL, hf:NAME or PROFILE:NAME@URL."
    raise InputError(f"Unknown judge {spec[:100]!r}.", next_step=step)


def is_model(spec: str) -> bool:
    """Return whether a specification names a model."""
    return ":" in spec and not spec.startswith((FILE, *SEVERAL)) and spec.partition(":")[0] not in SCORERS

"""Opening of judges: by their specification, of a release, or of a job.

A specification is `measured`, a baseline, scores in a file, or a model; see `models.open`. Of a release, the same input
gets the same score on any machine.
"""

import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from operator import not_
from typing import TYPE_CHECKING, Any, NamedTuple

from rewardharness.errors import InputError, ReleaseError
from rewardharness.files import user_path
from rewardharness.judging.cache import JudgmentCache, MemoryCache
from rewardharness.judging.calibration import ConfidenceCalibration, load_calibration, shipped_calibration
from rewardharness.judging.config import (
    MEASURED,
    SEVERAL,
    JudgeConfig,
    ReleaseConfig,
    RewardConfig,
    members_of,
    model_options,
)
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.judging.judge import Judge
from rewardharness.judging.measured import MeasuredJudge
from rewardharness.judging.model_config import PROTOCOLS, ModelJudgeConfig
from rewardharness.library.store import Library
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.judging.release import Release
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
            arguments: dict[str, Any] = {"ties": model.ties, "allow_ungradable": allow_ungradable, "pictures": pictures}
            arguments |= {"workers": settings.workers, "cache": _cache(config, settings)}
            opened: Judge
            if config.consistency is None:
                opened = MeasuredJudge(**arguments)
            else:
                from rewardharness.judging.consistency import ConsistencyJudge

                opened = ConsistencyJudge(config.consistency, **arguments)
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
    groups: list[dict[str, Any]] = [{} for _ in owners]
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
        groups[place][name] = value
    protocol = groups[0].get("protocol", PROTOCOLS[0])
    if protocol not in PROTOCOLS:
        step = f"Choose one of: {', '.join(PROTOCOLS)}."
        raise InputError(f"There is no protocol {protocol!r}.", next_step=step)
    return groups


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
    from rewardharness.models.open import KINDS, open_model
    from rewardharness.models.openai_compatible import OpenAICompatibleModel

    spec, named = str(config.judge), profile_of(str(config.judge))
    if named is not None:
        spec = named[1]
    elif spec.partition(":")[0] not in KINDS:
        raise _unknown(spec)
    if model.principles and model.protocol != "checklist":
        raise InputError("Principles need the protocol checklist.", next_step="Choose it, or give no principles.")
    if model.principles:
        read_principles(model.principles)
    defaults = {"retries": config.retries, "request_timeout": config.request_timeout}
    limits = {**{name: value for name, value in defaults.items() if value is not None}, **limits}
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
    if wrong := [option for option in fixed if getattr(model, option) != getattr(usual, option)]:
        options = ", ".join(f"--{option.replace('_', '-')}" for option in wrong)
        raise InputError(f"The profile {profile.name} fixes how its model is asked.", next_step=f"Leave out {options}.")
    judge_settings, texts = settings_of(profile, model), load_texts(profile, folder, settings.home)
    return ProfileJudge(client, judge_settings, cache, None, find_out=probe, profile=profile, texts=texts)


def _members(
    config: JudgeConfig, settings: Settings, model: ModelJudgeConfig, limits: Mapping[str, Any], allow_ungradable: bool
) -> Judge | None:
    """Open an ensemble; None for any other judge."""
    if (specs := members_of(str(config.judge))) is None:
        return None
    from rewardharness.judging.ensemble import EnsembleJudge

    members = []
    for spec in specs:
        member_model = model if is_model(spec) else ModelJudgeConfig(ties=model.ties)
        member_model, own = replace(member_model, **model_options(spec)), replace(config, judge=spec, evidence=None)
        members.append(open_judge(own, settings, model=member_model, allow_ungradable=allow_ungradable, **limits))
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
    raise _unknown(spec)


def _unknown(spec: str) -> InputError:
    from rewardharness.judging.baselines import BASELINES

    if spec.endswith((".yaml", ".yml", ".json")):
        return InputError(f"{spec[:200]} does not exist.", next_step="Name a YAML or JSON file of judges.")
    known = ", ".join((MEASURED, *BASELINES))
    step = (
        f"Write {known}, mean(JUDGE, JUDGE), each(JUDGE, JUDGE), file:SCORES.jsonl, http:URL, PROFILE:NAME@URL, "
        f"vllm:NAME@URL, openai:NAME[@URL], hf:NAME, openrouter:NAME, gemini:NAME or scripted:FILE.jsonl."
    )
    return InputError(f"Unknown judge {spec[:100]!r}.", next_step=step)


def is_model(spec: str) -> bool:
    """Return whether a specification names a model."""
    return ":" in spec and not spec.startswith((FILE, *SEVERAL)) and spec.partition(":")[0] not in SCORERS


def open_release(release: "Release", settings: Settings, config: JudgeConfig = JudgeConfig(), **options: Any) -> Judge:
    """Open the judge of a release; its Library is `release.library`. No request is sent.

    Args:
        release: The release, as `load_release` returns it.
        settings: Keys, workers, the cache folder, and the judge of `RH_JUDGE`.
        config: Where its models are served: addresses or specifications of the judge, None for `RH_JUDGE`, and of the
            router; and cache, retries and timeout. How it judges is as in the release.
        options: Further arguments of `open_judge` that change no score, such as `deadline`.

    Raises:
        ReleaseError: If this installation or the specified judge differs from the release; names the difference.
        InputError: If an address or a key is missing.
    """
    from rewardharness.judging.release import check_installed

    check_installed(release)
    router = None if release.router is None else _spelling(release.router, config.router, "", "router")
    spec = _spelling(release.judge, config.judge, settings.judge, "judge")
    kept = {name: getattr(config, name) for name in ("no_cache", "retries", "request_timeout")}
    model = release.model or ModelJudgeConfig(ties=release.settings["ties"])
    judge = open_judge(JudgeConfig(judge=spec, router=router, **kept), settings, model=model, **options)
    if (judge.protocol, judge.revision) != (release.protocol, release.revision):
        raise ReleaseError(
            f"Release {release.id[:12]} is of {release.judge}, {release.protocol}, in another revision than here.",
            next_step="Make a new release: rh release create.",
        )
    return judge.with_calibration(release.calibration)


class OpenedJudge(NamedTuple):
    """A judge with the Library that it reads."""

    judge: Judge
    library: Library
    release: "Release | None"

    @property
    def identity(self) -> JudgeIdentity:
        """Judge, revision, protocol, Library and release."""
        return JudgeIdentity.of(self.judge, self.library, self.release.id if self.release else None)


def open_reward(config: RewardConfig, settings: Settings, *, pictures: bool = False) -> OpenedJudge:
    """Open judge and Library of a job that scores.

    Args:
        config: The configuration.
        settings: Keys, and the default judge and Library.
        pictures: Whether observations carry overlay images.

    Raises:
        InputError: If a field contradicts the release, or the judge cannot be opened.
        ReleaseError: If the release was changed, or this version cannot reproduce it.
        LibraryError: If the Library cannot be opened.
    """
    release = pinned_release(config, settings)
    if release is not None and config.calibration is not None:
        raise InputError("A release has its own calibration.", next_step="Leave out --calibration.")
    library = config.open_library(settings) if release is None else release.library
    return OpenedJudge(open_reward_judge(config, library, release, settings, pictures=pictures), library, release)


def open_reward_judge(
    config: RewardConfig, library: Library, release: "Release | None", settings: Settings, **options: Any
) -> Judge:
    """Open the judge for a Library, or for the release that it comes from; see `open_reward`."""
    options |= {"allow_ungradable": config.allow_ungradable, "critique": getattr(config, "critique", False)}
    if release is not None:
        return open_release(release, settings, config, **options)
    judge = open_judge(config, settings, **options)
    if config.calibration is not None:
        calibration = load_calibration(config.calibration)
        calibration.check(JudgeIdentity.of(judge, library))
        judge = judge.with_calibration(calibration)
    return judge


def pinned_release(config: ReleaseConfig, settings: Settings) -> "Release | None":
    """Load the release of a configuration; None if it has none.

    Raises:
        InputError: If a field contradicts it.
        ReleaseError: If the release was changed.
    """
    if config.release is None:
        return None
    from rewardharness.judging.deployments import find_release

    release = find_release(config.release, settings)
    values = {field.name: getattr(config, field.name, None) for field in fields(ModelJudgeConfig)}
    pinned = {"ties": release.settings["ties"]} if release.model is None else vars(release.model)
    wrong = [
        f"--{name.replace('_', '-')}{'' if value is True else f' {value}'}"
        for name, value in values.items()
        if value is not None and value is not False and pinned.get(name) != value
    ]
    if config.library is not None and config.open_library(settings).id != release.library.id:
        wrong.append(f"--library {config.library}")
    if config.router is not None and release.router is None:
        wrong.append("--router")
    if wrong:
        raise InputError(
            f"Release {release.id[:12]} fixes Library and judge, and contradicts {', '.join(wrong)}.",
            next_step="Omit these options, or create another release: rh release create.",
        )
    return release


def _spelling(pinned: str, override: str | None, otherwise: str, role: str) -> str:
    """Return the specification of the judge or router of a release, with its addresses."""
    option = {"judge": "--judge URL, or RH_JUDGE,", "router": "--router"}[role]
    if pinned == MEASURED and override in (None, MEASURED):
        return MEASURED
    if override is not None and re.match(r"https?://", override) and not pinned.startswith(("gemini:", "scripted:")):
        if pinned == MEASURED:
            message = "The release is of the pixel-based judge, which asks no endpoint."
            raise ReleaseError(message, next_step="Leave it out.")
        return f"{pinned}@{override}"
    if override is None and pinned.startswith("gemini:"):
        return pinned
    spec = override if override is not None else otherwise
    if spec in ("", MEASURED) and override is None:
        raise InputError(
            f"The release is of {pinned}, and nothing says where it is served.",
            next_step=f"Give {option} such as {pinned}@http://127.0.0.1:8000/v1.",
        )
    name = _named(spec)
    if name != pinned:
        source = "RH_JUDGE" if override is None else f"the {role} that was given"
        right = "Leave it out" if pinned == MEASURED else f"Give {option} for {pinned}"
        message = f"The release is of {pinned}, but {source} is {name}."
        raise ReleaseError(message, next_step=f"{right}, or make another release.")
    return spec


def _named(spec: str) -> str:
    from rewardharness.judging.release import judge_name

    try:
        return judge_name(spec)
    except InputError:
        return repr(re.split(r"@?https?://", spec)[0][:100])

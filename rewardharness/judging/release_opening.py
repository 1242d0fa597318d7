"""Opening of the judge of a release or of a job. Of a release, the same input gets the same score on any machine."""

import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple

from rewardharness.errors import InputError, ReleaseError
from rewardharness.judging.calibration import load_calibration
from rewardharness.judging.config import MEASURED, JudgeConfig, ReleaseConfig, RewardConfig
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.judging.judge import Judge
from rewardharness.judging.model_config import ModelJudgeConfig
from rewardharness.judging.opening import open_judge
from rewardharness.library.store import Library
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.judging.release import Release


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


def _spelling(pinned: str, given: str | None, otherwise: str, role: str) -> str:
    """Return the specification of the judge or router of a release, with its addresses."""
    option = {"judge": "--judge URL, or RH_JUDGE,", "router": "--router"}[role]
    if pinned == MEASURED and given in (None, MEASURED):
        return MEASURED
    if given is not None and re.match(r"https?://", given) and not pinned.startswith(("gemini:", "scripted:")):
        if pinned == MEASURED:
            message = "The release is of the pixel-based judge, which asks no endpoint."
            raise ReleaseError(message, next_step="Leave it out.")
        return f"{pinned}@{given}"
    if given is None and pinned.startswith("gemini:"):
        return pinned
    spec = given if given is not None else otherwise
    if spec in ("", MEASURED) and given is None:
        raise InputError(
            f"The release is of {pinned}, and nothing says where it is served.",
            next_step=f"Give {option} such as {pinned}@http://127.0.0.1:8000/v1.",
        )
    name = _named(spec)
    if name != pinned:
        source = "RH_JUDGE" if given is None else f"the {role} that was given"
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

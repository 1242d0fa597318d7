"""Opening of the judge of a release. If it succeeds, the same input gets the same score on any machine."""

import logging
import re
from dataclasses import replace

from rewardharness import __version__
from rewardharness.errors import InputError, ReleaseError
from rewardharness.judging.judge import Judge
from rewardharness.judging.opening import MEASURED, JudgeOptions, open_judge
from rewardharness.judging.release import (
    MAY_MATTER,
    PACKAGE,
    Release,
    judge_name,
    made_with,
    named_measures,
    ocr_state,
    prompts_of,
)
from rewardharness.judging.revision import code_revisions
from rewardharness.judging.subagent_settings import SubAgentSettings
from rewardharness.library.store import Library
from rewardharness.settings import Settings

log = logging.getLogger(__name__)


def open_release(
    release: Release, settings: Settings, *, endpoint: str | None = None, options: JudgeOptions = JudgeOptions()
) -> tuple[Judge, Library]:
    """Open the judge of a release. No request is sent.

    Args:
        release: The release, as `load_release` returns it.
        settings: Keys, workers, the cache folder, and the judge of `RH_JUDGE`.
        endpoint: Addresses of its model, or the specification of the judge; None for those of `RH_JUDGE`.
        options: Options that change no score: pictures, cache, key, attempts, and the deadline in `subagent`. `router`
            names the endpoint of the router. All others are those of the release.

    Returns:
        The judge and its Library.

    Raises:
        ReleaseError: If this installation or the specified judge differs from the release; names the difference.
        InputError: If an address or a key is missing.
    """
    check_installed(release)
    how = release.how
    router = None
    if release.router is not None:
        router = _spelling(release.router, options.router, "", "router")
    spec = _spelling(release.judge, endpoint, settings.judge, "judge")
    asked = replace(how, deadline=options.subagent.deadline) if how else options.subagent
    pinned = replace(options, ties=release.settings["ties"], subagent=asked, router=router)
    judge = open_judge(spec, settings, pinned)
    if (judge.protocol, judge.revision) != (release.protocol, release.revision):
        raise ReleaseError(
            f"Release {release.id[:12]} is of {release.judge}, {release.protocol}, in another revision than here.",
            next_step="Make a new release: rh release create.",
        )
    return judge.with_calibration(release.calibration), release.library


def check_installed(release: Release) -> None:
    """Check that this installation reproduces the scores of a release. No request is sent.

    Raises:
        ReleaseError: If it does not; the message names the difference.
    """
    how = release.how or SubAgentSettings()
    measures = named_measures(release.library, release.judge)
    here = code_revisions(prompts_of(release.judge, release.router, how), how.language, measures)
    differing = sorted(name for name in {*here, *release.code} if here.get(name) != release.code.get(name))
    made = release.card.get("made_with", {}).get(PACKAGE, "unknown")
    if differing:
        raise ReleaseError(
            f"Release {release.id[:12]} was made with other code (version {made}, here {__version__}): "
            f"{', '.join(differing)} differ.",
            next_step=f'Use that code: pip install "{PACKAGE}=={made}"; or make a new release: rh release create.',
        )
    ocr = ocr_state(release.library, release.judge)
    if ocr != release.settings["ocr"]:
        has, step = ("none", "Install it") if not ocr else ("one", "Use an environment without it")
        raise ReleaseError(
            f"Release {release.id[:12]} was made {'without' if ocr else 'with'} OCR, and here is {has}.",
            next_step=f'{step} ("{PACKAGE}[ocr]"), or make a new release: rh release create.',
        )
    for remark in remarks(release):
        log.info("release %s: %s", release.id[:12], remark)


def remarks(release: Release) -> list[str]:
    """Return packages whose versions differ from the release, which may change the last digits of measurements."""
    before, here = release.card.get("made_with", {}), made_with()
    names = [name for name in MAY_MATTER if before.get(name) != here.get(name)]
    return [f"made with {name} {before.get(name, '(none)')}, here is {here.get(name, '(none)')}" for name in names]


def _spelling(pinned: str, given: str | None, otherwise: str, role: str) -> str:
    """Return the specification of the judge or router of a release, with its addresses."""
    option = {"judge": "--judge URL, or RH_JUDGE,", "router": "--router"}[role]
    if pinned == MEASURED and given in (None, MEASURED):
        return MEASURED
    if given is not None and re.match(r"https?://", given) and not pinned.startswith(("gemini:", "scripted:")):
        if pinned == MEASURED:
            raise ReleaseError(
                "The release is of the pixel-based judge, which asks no endpoint.", next_step="Leave it out."
            )
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
        raise ReleaseError(
            f"The release is of {pinned}, but {source} is {name}.", next_step=f"{right}, or make another release."
        )
    return spec


def _named(spec: str) -> str:
    try:
        return judge_name(spec)
    except InputError:
        return repr(re.split(r"@?https?://", spec)[0][:100])

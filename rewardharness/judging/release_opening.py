"""Opens the judge of a release, and no other: the same input gets the same score wherever this succeeds."""

import logging
import re
from dataclasses import replace

from rewardharness import __version__
from rewardharness.errors import InputError, ReleaseError
from rewardharness.judging.judge import Judge
from rewardharness.judging.opening import MEASURED, JudgeOptions, open_judge
from rewardharness.judging.release import MAY_MATTER, PACKAGE, Release, judge_name, made_with, ocr_state, prompts_of
from rewardharness.judging.revision import code_revisions
from rewardharness.library.store import Library
from rewardharness.settings import Settings

log = logging.getLogger(__name__)


def open_release(
    release: Release, settings: Settings, *, endpoint: str | None = None, options: JudgeOptions = JudgeOptions()
) -> tuple[Judge, Library]:
    """Open the judge of a release, and no other. Nothing is sent before it judges.

    Args:
        release: The release, as `load_release` returns it.
        settings: Keys, workers, where the cache lies, and the judge of `RH_JUDGE`.
        endpoint: Where its model is served: addresses, or the whole spelling of the judge; None: as `RH_JUDGE` says.
        options: What does not change a score: pictures, cache, key, attempts, the deadline in `subagent`. Its `router`
            says where the release's router is served. Everything else comes from the release.

    Returns:
        The judge and its Library.

    Raises:
        ReleaseError: If this installation, or the judge that is spelled, is not the pinned one; names what differs.
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
            next_step="Make a new release: rh release.",
        )
    return judge, release.library


def check_installed(release: Release) -> None:
    """Make sure that this installation makes the scores of a release. Asks no model.

    Raises:
        ReleaseError: If it would make others; names what differs and says what to do.
    """
    here = code_revisions(prompts_of(release.judge, release.router))
    differing = sorted(name for name in {*here, *release.code} if here.get(name) != release.code.get(name))
    made = release.card.get("made_with", {}).get(PACKAGE, "unknown")
    if differing:
        raise ReleaseError(
            f"Release {release.id[:12]} was made with other code (version {made}, here {__version__}): "
            f"{', '.join(differing)} differ.",
            next_step=f'Use that code: pip install "{PACKAGE}=={made}"; or make a new release: rh release.',
        )
    ocr = ocr_state(release.library, release.judge)
    if ocr != release.settings["ocr"]:
        has, step = ("none", "Install it") if not ocr else ("one", "Use an environment without it")
        raise ReleaseError(
            f"Release {release.id[:12]} was made {'without' if ocr else 'with'} OCR, and here is {has}.",
            next_step=f'{step} ("{PACKAGE}[ocr]"), or make a new release: rh release.',
        )
    for remark in remarks(release):
        log.info("release %s: %s", release.id[:12], remark)


def remarks(release: Release) -> list[str]:
    """Say what may move the last digits of what is measured: packages in another version than it was made with."""
    before, here = release.card.get("made_with", {}), made_with()
    names = [name for name in MAY_MATTER if before.get(name) != here.get(name)]
    return [f"made with {name} {before.get(name, '(none)')}, here is {here.get(name, '(none)')}" for name in names]


def _spelling(pinned: str, given: str | None, otherwise: str, role: str) -> str:
    """Spell the pinned judge or router with the place where it is served."""
    option = {"judge": "--judge URL, or RH_JUDGE,", "router": "--router"}[role]
    if pinned == MEASURED and given in (None, MEASURED):
        return MEASURED
    if given is not None and re.match(r"https?://", given) and not pinned.startswith(("gemini:", "scripted:")):
        if pinned == MEASURED:
            raise ReleaseError(
                "The release is of the measured judge, which asks no endpoint.", next_step="Leave it out."
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

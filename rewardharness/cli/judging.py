"""The options by which commands choose a judge and a Library, and how they are put to use."""

import argparse
from typing import TYPE_CHECKING, Any

from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.judging.judge import Judge
    from rewardharness.judging.release import Release
    from rewardharness.judging.subagent import SubAgentSettings
    from rewardharness.library.store import Library

_PROTOCOLS = ("chain", "direct", "logprob", "pointwise", "rubric")

_SETTINGS = {
    "protocol": "protocol",
    "samples": "samples",
    "groups": "groups",
    "tool_calls": "tool_limit",
    "max_pixels": "max_pixels",
}
"""Options that stand for a setting of the Sub-Agent; None where they are not given."""


def add_options(
    parser: argparse.ArgumentParser, *, library: bool = True, release: bool = False, ties: bool = True
) -> None:
    """Add the options to the parser of a command that judges.

    Args:
        parser: The parser.
        library: Whether the Library is an option too.
        release: Whether a release may stand for judge and Library.
        ties: Whether the user decides on ties; otherwise the labels do.
    """
    if library:
        parser.add_argument("--library", metavar="LIBRARY", help="a Library folder (default: the built-in Library)")
    if release:
        parser.add_argument(
            "--release",
            metavar="RELEASE",
            help="a release file, or deployed:NAME: fixes the Library, the judge and how it judges; --judge then says "
            "where its model is served",
        )
    if ties:
        parser.add_argument("--ties", action="store_true", help="allow `tie` as a preference")
    group = parser.add_argument_group("judge")
    group.add_argument(
        "--judge",
        metavar="JUDGE",
        help="measured (no model), vllm:NAME@URL[,URL...], openai:NAME[@URL], gemini:NAME; a baseline: random, "
        "always-a, closer, farther, ssim; or file:SCORES.jsonl, scores from elsewhere (default: RH_JUDGE, or else "
        "measured); keys come from RH_API_KEY, OPENAI_API_KEY (without @URL) and GEMINI_API_KEY",
    )
    parser.set_defaults(judge_from_settings=True)
    group.add_argument("--protocol", choices=_PROTOCOLS, help="how a model judges (default: chain)")
    group.add_argument("--one-order", action="store_true", help="show each pair in one order only: half the calls")
    group.add_argument("--samples", type=int, metavar="K", help="ask a model K times and average (default: 1)")
    group.add_argument(
        "--groups", choices=("pairs", "all"), help="judge 3-4 candidates pair by pair (the default) or all at once"
    )
    group.add_argument("--tool-calls", type=int, metavar="N", help="Tool calls per conversation (default: 5)")
    group.add_argument("--max-pixels", type=int, metavar="N", help="scale larger images down to N pixels for a model")
    group.add_argument(
        "--router", metavar="MODEL", help="a model that decides, yes or no, on entries without triggers (same spelling)"
    )
    if release and ties:
        group.add_argument(
            "--allow-ungradable",
            action="store_true",
            help="measured: give a reward, with low confidence, also where nothing measurable tells whether the "
            "instruction was followed; without it that is a failure, not_gradable",
        )
    group.add_argument("--no-cache", action="store_true", help="neither use nor keep remembered judgments of a model")


def make_judge(arguments: argparse.Namespace, settings: Settings, *, pictures: bool = False) -> "Judge":
    """Open the judge that the options describe.

    Raises:
        InputError: If an option is out of range or the judge's spelling cannot be read.
    """
    from rewardharness.errors import InputError
    from rewardharness.judging.opening import MEASURED, JudgeOptions, open_judge

    options = JudgeOptions(
        ties=arguments.ties,
        pictures=pictures,
        subagent=read_how(arguments),
        router=arguments.router,
        cache=not arguments.no_cache,
        allow_ungradable=getattr(arguments, "allow_ungradable", False),
    )
    try:
        return open_judge(arguments.judge, settings, options)
    except InputError as error:
        if settings.judge == MEASURED or explicit_judge(arguments, settings) is not None:
            raise
        raise InputError(f"RH_JUDGE: {error.message}", next_step=error.next_step) from None


def read_how(arguments: argparse.Namespace) -> "SubAgentSettings":
    """Read how a model is to judge.

    Raises:
        InputError: If an option is out of range.
    """
    from rewardharness.errors import InputError
    from rewardharness.judging.subagent import SubAgentSettings

    for name, low in (("samples", 1), ("tool_calls", 0), ("max_pixels", 784)):
        value = getattr(arguments, name)
        if value is not None and value < low:
            option = name.replace("_", "-")
            raise InputError(f"--{option} {value} is too small.", next_step=f"Give a number of at least {low}.")
    given = {setting: getattr(arguments, name) for name, setting in _SETTINGS.items()}
    chosen: dict[str, Any] = {setting: value for setting, value in given.items() if value is not None}
    return SubAgentSettings(both_orders=not arguments.one_order, **chosen)


def open_judging(
    arguments: argparse.Namespace, settings: Settings, *, pictures: bool = False
) -> tuple["Judge", "Library", "Release | None"]:
    """Open the judge and the Library that the options describe: one by one, or by a release that fixes both.

    Raises:
        InputError: If an option is out of range, or says something else than the release.
        ReleaseError: If the release was changed or cannot be kept to here.
        LibraryError: If the Library cannot be opened.
    """
    from rewardharness.judging.opening import JudgeOptions
    from rewardharness.library.opening import open_library

    if getattr(arguments, "release", None) is None:
        library = open_library(arguments.library or settings.library)
        return make_judge(arguments, settings, pictures=pictures), library, None
    from rewardharness.judging.deployments import find_release
    from rewardharness.judging.release_opening import open_release

    release = find_release(arguments.release, settings)
    _check_contradictions(arguments, release)
    options = JudgeOptions(
        pictures=pictures,
        router=arguments.router,
        cache=not arguments.no_cache,
        allow_ungradable=getattr(arguments, "allow_ungradable", False),
    )
    judge, library = open_release(release, settings, endpoint=explicit_judge(arguments, settings), options=options)
    return judge, library, release


def explicit_judge(arguments: argparse.Namespace, settings: Settings) -> str | None:
    """Return the judge of the command line; None where it is that of the environment, or none was given."""
    return None if arguments.judge == settings.judge else arguments.judge


def _check_contradictions(arguments: argparse.Namespace, release: "Release") -> None:
    """Make sure that no option says something else than the release."""
    from rewardharness.errors import InputError
    from rewardharness.library.opening import open_library

    given: dict[str, tuple[str, Any]] = {
        setting: (f"--{name.replace('_', '-')} {getattr(arguments, name)}", getattr(arguments, name))
        for name, setting in _SETTINGS.items()
        if getattr(arguments, name) is not None
    }
    if arguments.one_order:
        given["both_orders"] = "--one-order", False
    if getattr(arguments, "ties", False):
        given["ties"] = "--ties", True
    wrong = [option for name, (option, value) in given.items() if release.settings.get(name) != value]
    if arguments.library is not None and open_library(arguments.library).id != release.library.id:
        wrong.append(f"--library {arguments.library}")
    if arguments.router is not None and release.router is None:
        wrong.append("--router")
    if wrong:
        raise InputError(
            f"Release {release.id[:12]} fixes Library and judge, and says otherwise than {', '.join(wrong)}.",
            next_step="Leave that out, or make another release: rh release.",
        )

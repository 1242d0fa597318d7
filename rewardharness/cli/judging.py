"""The options by which commands choose a judge and a Library, and how they are put to use."""

import argparse
from typing import TYPE_CHECKING

from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.judging.judge import Judge

_PROTOCOLS = ("chain", "direct", "logprob", "pointwise", "rubric")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options to the parser of a command that judges."""
    parser.add_argument("--library", metavar="LIBRARY", help="a Library folder (default: the built-in Library)")
    parser.add_argument("--ties", action="store_true", help="allow `tie` as a preference")
    group = parser.add_argument_group("judge")
    group.add_argument(
        "--judge",
        metavar="JUDGE",
        help="measured (no model), vllm:NAME@URL[,URL...], openai:NAME@URL, gemini:NAME; a baseline: random, always-a, "
        "closer, farther, ssim; or file:SCORES.jsonl, scores from elsewhere (default: RH_JUDGE, or else measured); "
        "keys come from RH_API_KEY and GEMINI_API_KEY",
    )
    parser.set_defaults(judge_from_settings=True)
    group.add_argument("--protocol", choices=_PROTOCOLS, default="chain", help="how a model judges (default: chain)")
    group.add_argument("--one-order", action="store_true", help="show each pair in one order only: half the calls")
    group.add_argument("--samples", type=int, default=1, metavar="K", help="ask a model K times and average")
    group.add_argument(
        "--groups", choices=("pairs", "all"), default="pairs", help="judge 3-4 candidates pair by pair or all at once"
    )
    group.add_argument(
        "--tool-calls", type=int, default=5, metavar="N", help="Tool calls per conversation (default: 5)"
    )
    group.add_argument("--max-pixels", type=int, metavar="N", help="scale larger images down to N pixels for a model")
    group.add_argument(
        "--router", metavar="MODEL", help="a model that decides, yes or no, on entries without triggers (same spelling)"
    )
    group.add_argument("--no-cache", action="store_true", help="neither use nor keep remembered judgments of a model")


def make_judge(arguments: argparse.Namespace, settings: Settings, *, pictures: bool = False) -> "Judge":
    """Open the judge that the options describe.

    Raises:
        InputError: If an option is out of range or the judge's spelling cannot be read.
    """
    from rewardharness.errors import InputError
    from rewardharness.judging.opening import JudgeOptions, open_judge
    from rewardharness.judging.subagent import SubAgentSettings

    for name, low in (("samples", 1), ("tool_calls", 0), ("max_pixels", 784)):
        value = getattr(arguments, name)
        if value is not None and value < low:
            option = name.replace("_", "-")
            raise InputError(f"--{option} {value} is too small.", next_step=f"Give a number of at least {low}.")
    how = SubAgentSettings(
        protocol=arguments.protocol,
        both_orders=not arguments.one_order,
        samples=arguments.samples,
        groups=arguments.groups,
        tool_limit=arguments.tool_calls,
        max_pixels=arguments.max_pixels,
    )
    options = JudgeOptions(
        ties=arguments.ties,
        pictures=pictures,
        subagent=how,
        router=arguments.router,
        cache=not arguments.no_cache,
    )
    return open_judge(arguments.judge, settings, options)

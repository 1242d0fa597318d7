"""The options by which commands choose a judge and a Library, and how they are put to use."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rewardharness.judging.config import JudgeConfig

_PROTOCOLS = ("chain", "direct", "logprob", "pointwise", "rubric")


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


def judge_config(arguments: argparse.Namespace) -> "JudgeConfig":
    """Return the configuration that the options describe.

    Raises:
        InputError: If an option is out of range.
    """
    from dataclasses import fields

    from rewardharness.judging.config import JudgeConfig

    names = {field.name for field in fields(JudgeConfig)} - {"library"}
    return JudgeConfig(**{name: getattr(arguments, name) for name in names})

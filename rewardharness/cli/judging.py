"""Options of `rh release` that choose a judge, and the configuration that they describe."""

import argparse
from dataclasses import fields

from rewardharness.judging.config import PROTOCOLS, JudgeConfig


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options to a parser."""
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
    group.add_argument("--protocol", choices=PROTOCOLS, help="how a model judges (default: chain)")
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
    group.add_argument("--no-cache", action="store_true", help="neither use nor keep remembered judgments of a model")


def judge_config(arguments: argparse.Namespace) -> JudgeConfig:
    """Return the configuration that the options describe.

    Raises:
        InputError: If an option is out of range.
    """
    names = {field.name for field in fields(JudgeConfig)} - {"library"}
    return JudgeConfig(**{name: getattr(arguments, name) for name in names})

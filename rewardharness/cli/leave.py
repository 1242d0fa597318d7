"""Asks before money may be spent."""

import sys

from rewardharness.cli import output
from rewardharness.errors import InputError


def ask_leave(costs: bool, yes: bool, smaller: str) -> None:
    """Ask on the terminal whether to go on.

    Args:
        costs: Whether anything may cost money.
        yes: Whether leave was given on the command line.
        smaller: What to do for it to cost less, as a sentence begins.

    Raises:
        InputError: If the answer is no, or there is nobody to ask.
    """
    if yes or not costs:
        return
    if not sys.stdin.isatty():
        raise InputError("This may cost money and there is nobody to ask.", next_step="Add --yes.")
    output.note("Go on? [y/N] ")
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise InputError("Nothing was done.", next_step=f"{smaller}, or say yes.")

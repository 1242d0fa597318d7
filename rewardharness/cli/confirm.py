"""Confirmation before money is spent."""

import sys

from rewardharness.cli import output
from rewardharness.errors import InputError


def confirm(costs: bool, yes: bool, smaller: str) -> None:
    """Ask on the terminal for confirmation.

    Args:
        costs: Whether anything may cost money.
        yes: Whether the command line confirms.
        smaller: How to reduce the cost, as the beginning of a sentence.

    Raises:
        InputError: If the answer is no, or there is no terminal.
    """
    if yes or not costs:
        return
    if not sys.stdin.isatty():
        raise InputError("This may cost money, and there is no terminal to confirm it.", next_step="Add --yes.")
    output.note("Continue? [y/N] ")
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise InputError("Nothing was done.", next_step=f"{smaller}, or answer yes.")

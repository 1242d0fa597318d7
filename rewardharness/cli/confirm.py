"""Confirmation before money is spent."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rewardharness.cli import output
from rewardharness.errors import InputError
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.jobs import JobConfig


def confirm_sending(
    config: "JobConfig | type[JobConfig]", values: Mapping[str, Any], settings: Settings, yes: bool
) -> None:
    """Ask before images and a key go to what a run folder names: it may come from another person.

    Args:
        config: The configuration in the run folder, or its class.
        values: Its values by field.
        settings: The settings, whose judge is known.
        yes: Whether the command line confirms.

    Raises:
        InputError: If the answer is no, or there is no terminal.
    """
    from rewardharness.jobs import sent_to

    places = sent_to(config, values, (settings.judge,))
    if places:
        output.note(f"This run sends images, and your key if one is set, to {', '.join(places)}.")
    confirm(bool(places), yes, "Check config.json in the run folder")


def confirm(costs: bool, yes: bool, smaller: str, *, strict: bool = True) -> None:
    """Ask on the terminal for confirmation.

    Args:
        costs: Whether anything may cost money.
        yes: Whether the command line confirms.
        smaller: How to reduce the cost, as the beginning of a sentence.
        strict: Whether it is an error that there is no terminal; otherwise nothing is asked then.

    Raises:
        InputError: If the answer is no, or there is no terminal.
    """
    if yes or not costs:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        if not strict:
            return
        raise InputError("This may cost money, and there is no terminal to confirm it.", next_step="Add --yes.")
    output.note("Continue? [y/N] ")
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise InputError("Nothing was done.", next_step=f"{smaller}, or answer yes.")

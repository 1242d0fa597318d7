"""Options that job commands share: where a run is kept, what is printed; and the question before what costs money."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from rewardharness.cli import output
from rewardharness.cli.command import WORDS
from rewardharness.errors import InputError
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.jobs import JobConfig


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Run folder, printing and confirmation."""

    config: Path | None = None
    """YAML or JSON file of options, as a run's config.json."""
    run_folder: Annotated[Path | None, Parameter(name="--run")] = None
    """Run folder (default: one below RH_HOME/runs)."""
    restart: bool = False
    """Start over; earlier results are renamed."""
    retry_failed: bool = False
    """Judge all that failed before again."""
    dry_run: bool = False
    """Print what would be done, and its cost."""
    track: tuple[str, ...] = ()
    """Log numbers to trackio, wandb or tensorboard[:PROJECT]."""
    json: bool = False
    """Print one JSON object."""
    quiet: bool = False
    """Print no progress."""
    yes: bool = False
    """Do not ask before spending, or before a run folder names who gets data."""
    replays: Annotated[Mapping[str, str] | None, Parameter(parse=False)] = None
    """The run that this one replays."""


NO_OPTIONS = RunOptions()


def record_arguments(*values: Any) -> dict[str, Any]:
    """Merge configurations and options into the arguments that the record of a run stores."""
    merged = {name: value for each in values for name, value in vars(each).items()}
    return {"words": WORDS.get(), **{name: value for name, value in merged.items() if name != "replays" or value}}


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

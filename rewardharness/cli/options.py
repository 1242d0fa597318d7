"""Options that job commands share: where a run is kept, and what is printed."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from rewardharness.cli.command import WORDS


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

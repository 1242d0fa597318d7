"""Opening a dataset for a command, with progress and warnings."""

from pathlib import Path
from typing import TYPE_CHECKING

from rewardharness.cli import output
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.data.config import DataConfig
    from rewardharness.data.opening import OpenedData


def open_described(spec: str, columns: "DataConfig", settings: Settings, *, quiet: bool) -> "OpenedData":
    """Open a dataset with the fields of the command line, and show progress."""
    from rewardharness.data.opening import open_described

    note_same_name(spec)
    with output.Bars(quiet) as bars:
        return open_described(
            spec,
            settings,
            fields=columns.field_map,
            progress=bars.show,
            skip_bad_rows=columns.skip_bad_rows,
        )


def note_same_name(spec: str) -> None:
    """Print which data are used if a folder has the name of a built-in dataset."""
    from rewardharness.data.opening import ATTACKS, DEMO, FEEDBACK

    if spec in {DEMO, ATTACKS, FEEDBACK} and Path(spec).is_dir():
        output.note(f"`{spec}` is the built-in dataset; for the folder of that name, write ./{spec}")

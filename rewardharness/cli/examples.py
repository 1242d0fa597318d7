"""What the commands that read a dataset share: opening it, with its progress and what is odd about it told."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rewardharness.cli import output
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from types import TracebackType

    from rewardharness.data.config import DataConfig
    from rewardharness.data.opening import Opened
    from rewardharness.data.source import Dataset

DATA_HELP = (
    "a folder, a table (.parquet, .jsonl, .csv, ...), a dataset on the Hub (org/name[@revision][:config/split]), "
    "`demo` (pairs drawn once) or `feedback` (what was said in the app)"
)
"""What can stand where a command asks for data."""


def open_examples(spec: str, columns: "DataConfig", settings: Settings, *, quiet: bool) -> "Dataset":
    """Open the dataset that a user means; says what is odd about it on standard error.

    Raises:
        InputError: If the map of fields cannot be read.
        DataError: If there is no such dataset, or it cannot be read.
    """
    dataset = open_described(spec, columns, settings, quiet=quiet).dataset
    for problem in dataset.problems:
        output.note(f"{dataset.name}: {problem}")
    return dataset


def open_described(spec: str, columns: "DataConfig", settings: Settings, *, quiet: bool) -> "Opened":
    """Open a dataset with the fields of the command line, and show how the work goes on."""
    from rewardharness.data.opening import open_described

    mind_the_name(spec)
    with Bars(quiet) as bars:
        return open_described(
            spec,
            settings,
            fields=columns.field_map,
            progress=bars.show,
            skip_bad_rows=columns.skip_bad_rows,
        )


def mind_the_name(spec: str) -> None:
    """Say which data are meant where a folder has the name of a set that comes along."""
    from rewardharness.data.opening import DEMO, FEEDBACK

    if spec in {DEMO, FEEDBACK} and Path(spec).is_dir():
        output.note(f"`{spec}` is the set that comes along; for the folder of that name write ./{spec}")


class Bars:
    """One bar after the other, as work tells how far it is."""

    def __init__(self, quiet: bool) -> None:
        self._quiet, self._label, self._done = quiet, "", 0
        self._bar: output.Progress | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        self._open.close()

    def show(self, label: str, done: int, total: int) -> None:
        """Show that so many steps of a piece of work are done."""
        if label != self._label or self._bar is None:
            self._open.close()
            self._bar = self._open.enter_context(output.Progress(total, label, done=done, quiet=self._quiet))
            self._label, self._done = label, done
        while self._done < done:
            self._done += 1
            self._bar.step()

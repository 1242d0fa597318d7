"""Opening a dataset for a command, with progress and warnings."""

import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rewardharness.cli import output
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from types import TracebackType

    from rewardharness.data.config import DataConfig
    from rewardharness.data.opening import OpenedData


def open_described(spec: str, columns: "DataConfig", settings: Settings, *, quiet: bool) -> "OpenedData":
    """Open a dataset with the fields of the command line, and show progress."""
    from rewardharness.data.opening import open_described

    note_same_name(spec)
    with Bars(quiet) as bars:
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


class Bars:
    """One progress bar after the other."""

    def __init__(self, quiet: bool) -> None:
        self._quiet, self._label, self._done, self._said = quiet, "", 0, 0.0
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

    def wait(self, text: str) -> None:
        """Show what is waited for: in the status line if there is one, else in a line of its own now and then."""
        if self._bar is not None:
            self._bar.wait(text)
        elif text and not self._quiet and time.monotonic() - self._said >= output.SILENT_SECONDS:
            self._said = time.monotonic()
            output.note(f"Waiting: {text}.")

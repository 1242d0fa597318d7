"""What the commands that read a dataset share: opening it, with its progress and what is odd about it told."""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from rewardharness.cli import output
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from types import TracebackType

    from rewardharness.data.source import Dataset


def open_examples(spec: str, settings: Settings, *, quiet: bool) -> "Dataset":
    """Open the dataset that a user means; says what is odd about it on standard error.

    Raises:
        DataError: If there is no such dataset, or it cannot be read.
    """
    from rewardharness.data.opening import open_data

    with _Bars(quiet) as bars:
        dataset = open_data(spec, settings, progress=bars.show)
    if not quiet:
        for problem in dataset.problems:
            output.note(f"{dataset.name}: {problem}")
    return dataset


class _Bars:
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

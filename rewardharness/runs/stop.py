"""Requests to stop a run: Ctrl-C, SIGTERM, or a file in the run folder."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

STOP_FILE = "stop"
"""A file of this name in a run folder asks the run to stop."""


class Stopped(Exception):
    """The run was stopped on request. Not an error."""

    condition = "stopped"


@dataclass
class StopRequest:
    """Whether a run should stop."""

    folder: Path | None = None
    """The run folder; None if only signals count."""
    asked: bool = field(default=False, init=False)

    def __call__(self) -> bool:
        """Return whether to stop."""
        if not self.asked and self.folder is not None:
            self.asked = (self.folder / STOP_FILE).exists()
        return self.asked

    def check(self) -> None:
        """Stop on request.

        Raises:
            Stopped: If a stop was requested.
        """
        if self():
            raise Stopped

    @contextmanager
    def listening(self, notice: Callable[[], None]) -> Iterator[None]:
        """Take the first Ctrl-C or SIGTERM as a request to stop; the second one interrupts at once.

        Args:
            notice: Called at the first signal.
        """

        def on_signal(number: int, frame: FrameType | None) -> None:
            if self.asked:
                raise KeyboardInterrupt
            self.asked = True
            notice()

        before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

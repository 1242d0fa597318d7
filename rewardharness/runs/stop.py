"""Why a run of any kind ends early: Ctrl-C, SIGTERM, a file in the run folder, its budget, or an error."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import active_children
from pathlib import Path
from types import FrameType

from rewardharness.errors import RunError

STOP_FILE = "stop"
"""A file of this name in a run folder asks the run to stop."""


def exit_within(seconds: float, status: int = 0) -> None:
    """End this process and its workers after some seconds, whatever its threads and connections still do."""

    def end() -> None:
        for worker in active_children():
            worker.kill()
        os._exit(status)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


class Stopped(Exception):
    """The run was stopped on request, or by its budget, which is then the message. Not an error."""

    condition = "stopped"


class RunPaused(RunError):
    """The run is paused after an error: its state is saved, and the same command resumes it.

    Args:
        message: The reason, one sentence.
        next_step: What to do before the same command is given again.
        kind: `endpoint`, `orchestrator` or `disk`, for records.
    """

    title = "The run is paused"
    condition = "paused"

    def __init__(self, message: str, *, next_step: str, kind: str) -> None:
        super().__init__(message, next_step=next_step)
        self.kind = kind


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

    def begin(self, folder: Path) -> None:
        """Look for requests in a run folder from now on, and remove that of an earlier session."""
        self.folder = folder
        (folder / STOP_FILE).unlink(missing_ok=True)

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

        if threading.current_thread() is not threading.main_thread():  # which gets no signals
            yield
            return
        before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

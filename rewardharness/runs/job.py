"""The shape of a job of any type (how it is opened, its cost, a session of its run), and why a run ends early.

A run ends early after Ctrl-C, SIGTERM, a file in the run folder, its budget, or an error.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import active_children
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, Protocol, Self, TypeVar

from rewardharness.errors import RunError
from rewardharness.files import content_id
from rewardharness.runs.spending import Cost, SpendingLimits
from rewardharness.schema import Json
from rewardharness.settings import Settings

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


Progress = Callable[[str, int, int], None]
"""Called with an activity, the steps that are done, and all steps."""
C = TypeVar("C", contravariant=True)
R = TypeVar("R", covariant=True)


@dataclass(frozen=True)
class Session:
    """How one session of a run works."""

    progress: Progress = lambda activity, done, total: None
    """Called first with the number of judgments of earlier sessions, and after each judgment."""
    stop: StopRequest = field(default_factory=StopRequest)
    """Ends the session when asked; always looks at the stop file of the run folder."""
    restart: bool = False
    """Start over; earlier results are renamed."""
    retry_failed: bool = False
    """Judge again all that failed before, not only what the model was the cause of."""
    arguments: Mapping[str, Any] | None = None
    """Arguments of the command, for the record of the run; None to write no record."""
    track: str | Iterable[str] | None = None
    """Trackers that the run is logged to; None for those of the settings."""
    on_event: Callable[[Any], None] = lambda event: None
    """Called with each event of an evolution after it is written."""
    on_progress: Callable[[Any], None] = lambda progress: None
    """Called with the progress of an evolution after each judgment, and every two seconds without one."""


class Job(Protocol[C, R]):
    """A job that is ready to run."""

    name: ClassVar[str]
    """Name of the job type."""

    @classmethod
    def open(
        cls, config: C, settings: Settings, *, folder: Path | None = None, progress: Progress | None = None
    ) -> Self:
        """Open data, judge and Library of a configuration. Nothing is judged.

        Args:
            config: The configuration.
            settings: Keys, and the default judge and Library.
            folder: The run folder; None for one below `RH_HOME/runs` that follows from the configuration.
            progress: Called while the data are opened.

        Raises:
            InputError: If an option is wrong, a key is missing, or judge or Library are for another task than the data.
            DataError: If the data cannot be read.
            LibraryError: If the Library cannot be opened.
            ReleaseError: If the release was changed, or this version cannot reproduce it.
        """

    @property
    def config(self) -> Any:
        """The configuration; None for a job of Python objects."""

    @property
    def folder(self) -> Path:
        """Where results are kept; it may hold a run that is resumed."""

    @property
    def manifest(self) -> Json:
        """What must stay the same when a run is resumed."""

    @property
    def limits(self) -> SpendingLimits:
        """The budget of the run, with prices."""

    def finished(self) -> R | None:
        """Return the result of a run that has nothing left to do; None if `run` finds out."""

    def cost(self, *, restart: bool = False, retry_failed: bool = False) -> Cost:
        """Return the expected cost of what the folder does not hold yet.

        Args:
            restart: Start over.
            retry_failed: Judge again all that failed before, not only what the model was the cause of.
        """

    def preview(self, *, restart: bool = False, retry_failed: bool = False) -> Json:
        """Return what the run is about and its cost estimate; the parameters are those of `cost`."""

    def run(self, session: Session | None = None, executor: Any = None) -> R:
        """Run or resume it.

        Args:
            session: How the session works.
            executor: What judges, such as a `RayExecutor`; None for this process.

        Raises:
            InputError: If a tracker is unknown.
            MissingPackageError: If the package of a tracker is not installed.
            RunError: If the folder holds another run.
            RunPaused: If a model cannot be asked. The same call resumes the run.
            Stopped: If a stop was requested or the budget is spent. The same call resumes the run.
        """


def default_folder(job: str, manifest: Mapping[str, Any], settings: Settings) -> Path:
    """Return the run folder of a job for which none is chosen: one manifest, one folder."""
    return settings.home / "runs" / f"{job}-{content_id(manifest)[:12]}"

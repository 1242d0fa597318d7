"""The shape of a job of any type: how it is opened, what it would cost, and one session of its run."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypeVar

from rewardharness.files import content_id
from rewardharness.runs.spending import Cost, SpendingLimits
from rewardharness.runs.stop import StopRequest
from rewardharness.schema import Json
from rewardharness.settings import Settings

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

"""The tracking of one run: receives its results and events, and passes numbers on to its trackers."""

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from rewardharness.errors import DataError
from rewardharness.files import read_json, write_json
from rewardharness.settings import Settings
from rewardharness.tracking.logger import PATIENCE, Logger
from rewardharness.tracking.numbers import ResultCount, run_config
from rewardharness.tracking.trackers import Numbers, TrackedRun, TrackerSpec, check_packages, parse_trackers

TRACKING = "tracking.json"
"""File of a run folder with the id of the run in trackers."""
PAUSE = 1.0
"""Seconds between two records of progress, at least."""


class RunTracking:
    """Passes the numbers of one run on to its trackers.

    Args:
        specs: The trackers; empty for none.
        folder: Folder for the files of trackers.
        clock: Monotonic time in seconds.
    """

    def __init__(
        self, specs: tuple[TrackerSpec, ...], folder: Path, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._specs, self._folder, self._clock = specs, folder, clock
        self._loggers: list[Logger] = []
        self._count = ResultCount()
        self._before = self._step = 0
        self._begun = self._logged = float("-inf")

    @property
    def active(self) -> bool:
        """Whether there is a tracker."""
        return bool(self._specs)

    @property
    def begun(self) -> bool:
        """Whether the run began."""
        return bool(self._loggers)

    def begin(
        self, run: Path, manifest: Mapping[str, Any], options: Any = None, known: Iterable[Mapping[str, Any]] = ()
    ) -> None:
        """Open the run in all trackers. The caller holds the lock of the run folder.

        Args:
            run: The run folder.
            manifest: Its manifest.
            options: The configuration of the job, a dataclass.
            known: Result lines of earlier sessions.
        """
        if not self._specs:
            return
        tracked = TrackedRun(_run_id(run), run_config(manifest, options), self._folder)
        self._count = ResultCount(known)
        self._before = self._step = self._count.done
        self._begun = self._clock()
        self._loggers = [Logger(spec.name, partial(spec.open, tracked)) for spec in self._specs]

    def result(self, line: Mapping[str, Any]) -> None:
        """Count a result line, and log the progress from time to time. The step is the number of judgments."""
        if not self._loggers:
            return
        self._count.add(line)
        self._step = self._count.done
        if self._is_due():
            self._put(self._progress())

    def progress(self, numbers: Numbers) -> None:
        """Log numbers that change often, from time to time."""
        if self._loggers and self._is_due():
            self._put(numbers)

    def log(self, numbers: Numbers, step: int | None = None) -> None:
        """Log numbers.

        Args:
            numbers: The numbers by name.
            step: A step that does not decrease; None for the last one.
        """
        self._step = self._step if step is None else max(self._step, step)
        self._put(numbers)

    def finish(self, numbers: Numbers) -> None:
        """Log the last progress and the result of the run."""
        last = self._progress() if self._count.done else {}
        self.log({**last, **numbers})

    def close(self) -> None:
        """Finish the run in all trackers; wait for them up to `PATIENCE` in total."""
        ends = time.monotonic() + PATIENCE
        for logger in self._loggers:
            logger.end()
        for logger in self._loggers:
            logger.join(ends)

    def _put(self, numbers: Numbers) -> None:
        for logger in self._loggers:
            logger.put(numbers, self._step)

    def _is_due(self) -> bool:
        now = self._clock()
        if now - self._logged < PAUSE:
            return False
        self._logged = now
        return True

    def _progress(self) -> Numbers:
        seconds = self._clock() - self._begun
        return self._count.numbers((self._count.done - self._before) / seconds if seconds > 0 else 0.0)


@contextmanager
def track_run(track: str | Iterable[str] | None, settings: Settings) -> Iterator[RunTracking]:
    """Provide the tracking of one run, and close it at the end.

    Args:
        track: Trackers as `parse_trackers` reads them; None for those of the settings.
        settings: The settings.

    Raises:
        InputError: If a tracker is unknown.
        MissingPackageError: If its package is not installed.
    """
    specs = parse_trackers(settings.track if track is None else track)
    check_packages(specs)
    tracking = RunTracking(specs, settings.home)
    try:
        yield tracking
    finally:
        tracking.close()


def _run_id(folder: Path) -> str:
    """Return the id of a run in trackers, which its folder holds."""
    file = folder / TRACKING
    try:
        return str(read_json(file)["run"])
    except (OSError, DataError, KeyError, TypeError):
        made = f"{folder.resolve().name}-{secrets.token_hex(4)}"
        write_json(file, {"run": made})
        return made

"""Progress of a run: the current phase, a count, and an estimate of the remaining time; and why it ends or pauses.

Reasons that all runs have in common are in `runs.job` and `runs.spending`.

`progress.json` in the run folder holds the latest values; it is removed at the end.
"""

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rewardharness.errors import DataError
from rewardharness.files import read_json, write_json
from rewardharness.runs.job import RunPaused

PROGRESS = "progress.json"

PAUSE = 1.0
"""Seconds between two writes of the file within a phase, at least."""

BEAT = 2.0
"""Seconds without a step after which the progress is reported again, with a new estimate of the remaining time."""

PHASES = {
    "pool": "judging the training examples",
    "proposals": "looking for proposals in the training examples",
    "search": "trying edits",
    "audit": "judging the held-out examples",
    "drawing": "generating the regression set",
    "regression": "judging the regression set",
}
"""Phases in their order, in words."""


@dataclass(frozen=True)
class RunProgress:
    """Progress of a run."""

    phase: str
    """One of `PHASES`."""
    done: int
    total: int
    """Of this phase; an estimate for the search."""
    left: float | None = None
    """Estimated remaining seconds of the run; None if unknown."""

    @property
    def words(self) -> str:
        """The phase in words, with its count."""
        about = "about " if self.phase == "search" else ""
        return f"{PHASES.get(self.phase, 'running')}: {self.done:,} of {about}{self.total:,}"

    @property
    def rest(self) -> str:
        """The remaining time in words; empty if unknown."""
        return "" if self.left is None else f"about {duration(self.left)} left"


@dataclass
class Meter:
    """Counts the work of a session.

    Args:
        report: Called after each step; within `beating` also by another thread, one call at a time.
        work: Expected work of each phase, in judgments.
        clock: Monotonic time in seconds.
    """

    report: Callable[[RunProgress], None] = lambda progress: None
    work: Mapping[str, float] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic
    _now: RunProgress | None = None
    _worked: float = 0.0
    """Work of the finished phases of this session."""
    _phase_begun: float = 0.0
    _skipped: float = 0.0
    """Share of the phase that was done when it began."""
    _reported: float = 0.0
    _counting: bool = False
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self._begun = self.clock()

    def begin(self, phase: str, total: int, done: int = 0) -> None:
        """Begin a phase."""
        if self._now is not None:
            self._worked += self.work.get(self._now.phase, 0.0)
        self._phase_begun, self._skipped = self.clock(), done / total if total else 1.0
        self._set(phase, done, total)

    def step(self, count: int = 1, *, phase: str | None = None) -> None:
        """Count steps of the current phase; if one is named, only in that phase."""
        with self._lock:
            if self._now is not None and self._counting and phase in {None, self._now.phase}:
                self._set(self._now.phase, self._now.done + count, self._now.total)

    def reach(self, done: int, total: int) -> None:
        """Set the count of the current phase."""
        if self._now is not None and self._counting:
            self._set(self._now.phase, done, total)

    @contextmanager
    def subphase(self, phase: str, total: int) -> Iterator[None]:
        """Count a phase within another one, which resumes after it. Its work is done when it first ends."""
        before, begun = self._now, (self._phase_begun, self._skipped)
        self._phase_begun, self._skipped = self.clock(), 0.0
        self._set(phase, 0, total)
        try:
            yield
        finally:
            self._worked += self.work.get(phase, 0.0)
            self.work = {name: 0.0 if name == phase else work for name, work in self.work.items()}
            self._phase_begun, self._skipped = begun
            if before is not None:
                self._set(before.phase, before.done, before.total)

    def end(self) -> None:
        """Stop counting; steps until the next phase begins do not count."""
        self._counting = False

    @contextmanager
    def beating(self, seconds: float = BEAT) -> Iterator[None]:
        """Report the progress again and again, so that slow steps are no silence."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(seconds):
                with self._lock, suppress(OSError):  # a full disk also stops the run itself
                    if self._now is not None and self.clock() - self._reported >= seconds:
                        self._set(self._now.phase, self._now.done, self._now.total, self._counting)

        thread = threading.Thread(target=beat, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _set(self, phase: str, done: int, total: int, counting: bool = True) -> None:
        with self._lock:
            total = max(done, total)
            left = self._left(phase, done / total if total else 1.0)
            self._now, self._counting = RunProgress(phase, done, total, left), counting
            self._reported = self.clock()
            self.report(self._now)

    def _left(self, phase: str, share: float) -> float | None:
        if not self.work.get(phase):
            return self._now.left if self._now is not None else None
        order = list(PHASES)
        later = sum(self.work.get(name, 0.0) for name in order[order.index(phase) + 1 :])
        now, work = self.clock(), self.work[phase]
        # Saved judgments take no time: the average of the session may be too low, and that of the phase counts.
        spent = (
            (now - self._begun, self._worked + share * work),
            (now - self._phase_begun, (share - self._skipped) * work),
        )
        rates = [seconds / worked for seconds, worked in spent if worked > 0]
        return max(rates) * ((1 - share) * work + later) if rates else None


def progress_writer(path: Path) -> Callable[[RunProgress], None]:
    """Return a function that writes the progress of a run into a file, at most once per `PAUSE` within a phase."""
    last: tuple[str, float] = ("", 0.0)

    def write(progress: RunProgress) -> None:
        nonlocal last
        if progress.phase != last[0] or time.monotonic() - last[1] >= PAUSE:
            last = progress.phase, time.monotonic()
            write_json(path, asdict(progress))

    return write


def read_progress(folder: Path) -> RunProgress | None:
    """Read the progress of a run; None if its folder has none."""
    with suppress(DataError, TypeError):
        return RunProgress(**read_json(folder / PROGRESS))
    return None


def duration(seconds: float) -> str:
    """Format seconds."""
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 7200 else f"{whole / 3600:.1f} h"


RESERVE = 32 * 1024 * 1024
"""Free bytes on the disk below which nothing is judged, so that results can still be saved."""

NO_PROPOSALS = "the Orchestrator proposed nothing more that could be tested"
"""Why a search ended that no limit ended."""


def ended(reason: str) -> str:
    """Say in a sentence why a search ended."""
    nothing = "No further idea could be tested on these examples."
    return nothing if reason == NO_PROPOSALS else f"The search ended because {reason}."


class Exhausted(Exception):
    """The budget is spent. Not an error: the run concludes with what it has."""


def free_bytes(path: Path) -> int:
    """Return the free bytes of the disk of a path."""
    return shutil.disk_usage(path).free


def check_disk(folders: tuple[Path, ...], free: Callable[[Path], int] = free_bytes) -> None:
    """Check that judgments can be saved.

    Args:
        folders: Folders that results are saved in.
        free: Returns the free bytes at a path.

    Raises:
        RunPaused: If a disk is nearly full.
    """
    for folder in folders:
        left = free(folder)
        if left < RESERVE:
            raise RunPaused(
                f"Only {left / 2**20:.0f} MiB are free at {folder}, too little to save more judgments.",
                next_step=f"Free at least {RESERVE // 2**20} MiB, then give the same command again.",
                kind="disk",
            )

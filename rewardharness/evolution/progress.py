"""How far a run has come: the phase that it is in, a count, and about how long the rest takes.

Unlike events this is no history: `progress.json` in the run folder holds the latest word, and is removed at the end.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rewardharness.errors import DataError
from rewardharness.files import read_json, write_json

PROGRESS = "progress.json"

PAUSE = 1.0
"""Seconds between two writings of the file in one phase, at least."""

PHASES = {
    "pool": "judging the training examples",
    "search": "trying edits",
    "proposals": "looking for proposals in the training examples",
    "audit": "judging the held-out examples",
    "drawing": "drawing the regression set",
    "regression": "judging the regression set",
}
"""Phases in their order, in words."""


@dataclass(frozen=True)
class Progress:
    """How far a run has come."""

    phase: str
    """One of `PHASES`."""
    done: int
    total: int
    """Of this phase. What a search takes is not known before its end, so its total is an estimate."""
    left: float | None = None
    """Seconds that the rest of the run takes at the pace so far; None before there is one."""

    @property
    def words(self) -> str:
        """The phase in words, with its count."""
        about = "about " if self.phase == "search" else ""
        return f"{PHASES.get(self.phase, 'at work')}: {self.done:,} of {about}{self.total:,}"

    @property
    def rest(self) -> str:
        """What is left of the run, in words; empty where that is not known."""
        return "" if self.left is None else f"about {duration(self.left)} left"


@dataclass
class Meter:
    """Counts the work of a sitting.

    Args:
        tell: Told each step.
        work: What each phase is expected to take, in judgments.
    """

    tell: Callable[[Progress], None] = lambda progress: None
    work: Mapping[str, float] = field(default_factory=dict)
    _at: Progress | None = None
    _worked: float = 0.0
    """Work of the phases of this sitting that are over."""
    _begun: float = field(default_factory=time.monotonic)

    def begin(self, phase: str, total: int, done: int = 0) -> None:
        """Begin a phase."""
        if self._at is not None:
            self._worked += self.work.get(self._at.phase, 0.0)
        self._say(phase, done, total)

    def step(self, count: int = 1) -> None:
        """Count what was done in the phase."""
        if self._at is not None:
            self._say(self._at.phase, self._at.done + count, self._at.total)

    def step_in(self, phase: str) -> None:
        """Count what was done, if it was in this phase."""
        if self._at is not None and self._at.phase == phase:
            self.step()

    @contextmanager
    def aside(self, phase: str, total: int) -> Iterator[None]:
        """Count another phase, which takes no work of its own, and go on with the one before."""
        before = self._at
        self._say(phase, 0, total)
        try:
            yield
        finally:
            if before is not None:
                self._say(before.phase, before.done, before.total)

    def end(self) -> None:
        """Count no more."""
        self._at = None

    def reach(self, done: int, total: int) -> None:
        """Say how far the phase has come."""
        if self._at is not None:
            self._say(self._at.phase, done, total)

    def _say(self, phase: str, done: int, total: int) -> None:
        total = max(done, total)
        self._at = Progress(phase, done, total, self._left(phase, done / total if total else 1.0))
        self.tell(self._at)

    def _left(self, phase: str, share: float) -> float | None:
        here = self.work.get(phase)
        if here is None:
            return self._at.left if self._at is not None else None
        order = list(PHASES)
        later = sum(self.work.get(each, 0.0) for each in order[order.index(phase) + 1 :])
        worked = self._worked + share * here
        rest = (1 - share) * here + later
        return (time.monotonic() - self._begun) * rest / worked if worked else None


@dataclass
class ProgressFile:
    """Writes how far a run has come into its folder, now and then."""

    path: Path
    _phase: str = ""
    _written: float = 0.0

    def write(self, progress: Progress) -> None:
        """Write the file if it is time."""
        now = time.monotonic()
        if progress.phase != self._phase or now - self._written >= PAUSE:
            self._phase, self._written = progress.phase, now
            write_json(self.path, asdict(progress))


def read_progress(folder: Path) -> Progress | None:
    """Read how far a run has come; None where its folder does not say."""
    with suppress(DataError, TypeError):
        return Progress(**read_json(folder / PROGRESS))
    return None


def duration(seconds: float) -> str:
    """Seconds in words."""
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 7200 else f"{whole / 3600:.1f} h"

"""Status of runs that are a known number of judgments."""

import time
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from app.following import RunReader, RunStatus, State
from app.jobs import Jobs
from rewardharness.runs.records import RECORD, read_record
from rewardharness.runs.stop import STOP_FILE
from rewardharness.runs.store import is_running
from rewardharness.schema import Json

SLOW_START = 5
"""Judgments before the remaining time is estimated."""


@dataclass(frozen=True)
class CountedStatus(RunStatus):
    """Status of such a run at one moment."""

    judged: int = field(default=0, kw_only=True)
    """Number of judgments, failures included."""
    wanted: int = field(default=0, kw_only=True)
    """Number of judgments of the complete run; 0 while unknown."""
    seconds_left: float | None = field(default=None, kw_only=True)
    """Estimated remaining time at the speed of this session; None while unknown."""

    @property
    def mark(self) -> tuple[object, ...]:
        """See `RunStatus.mark`."""
        return self.name, self.state, self.judged, self.wanted


C = TypeVar("C", bound=CountedStatus)


class CountingReader(RunReader[C]):
    """Incremental reader of one such run."""

    def __init__(self, name: str, jobs: Jobs) -> None:
        super().__init__(name, jobs)
        self._pace: tuple[float, int] | None = None

    def count(self, status: C, since: float | None, manifest: Json, judged: int, wanted: int) -> C:
        """Return a status with its state, its counts and the remaining time.

        Args:
            status: The status without them.
            since: When its process was started; None if it has no process.
            manifest: Its manifest.
            judged: Number of judgments.
            wanted: Number of judgments of the complete run; 0 while unknown.
        """
        state, reason = self._state(since, judged >= wanted > 0)
        return replace(
            status,
            state=state,
            judged=judged,
            wanted=wanted,
            seconds_left=self._left(judged, wanted, state),
            manifest=manifest,
            reason=reason,
            error=self.jobs.error(self.name) if state in {"paused", "interrupted"} and not reason else None,
        )

    def _state(self, since: float | None, complete: bool) -> tuple[State, str]:
        """Return the state, and the reason of a failure. `complete`: whether everything is judged."""
        if is_running(self.folder):
            return ("stopping" if (self.folder / STOP_FILE).exists() else "running"), ""
        record = self.folder / RECORD
        session = read_record(self.folder)["sessions"][-1] if record.is_file() else None
        if since is not None:
            began = datetime.fromisoformat(session["started"]).timestamp() if session else 0.0
            return ("running" if began >= since else "starting"), ""  # it reads the data, or writes the report
        if session is None:
            return ("finished" if complete else "interrupted"), ""
        condition = session["condition"]
        if condition == "done" or (complete and condition == "stopped"):
            return "finished", ""
        if condition == "failed":
            return "paused", str(session.get("reason") or "")
        return ("stopped" if condition == "stopped" else "interrupted"), ""

    def _left(self, judged: int, wanted: int, state: State) -> float | None:
        now = time.monotonic()
        if state != "running":
            self._pace = None
            return None
        if self._pace is None or judged < self._pace[1]:
            self._pace = now, judged
        since, before = self._pace
        if judged - before < SLOW_START:
            return None
        return (now - since) / (judged - before) * (wanted - judged)

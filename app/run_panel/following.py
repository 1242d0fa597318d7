"""Status of runs as the page shows it: what the run folder says, and what the app knows of its own processes.

A run that was started on the command line is followed like any other.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

from app.run_panel.jobs import CommandError, Jobs
from rewardharness.files import user_path
from rewardharness.runs.reader import RunReader, RunStatus
from rewardharness.runs.store import MANIFEST
from rewardharness.schema import Json

MAX_FOLLOWERS = 40
"""Maximum number of runs whose status is cached."""

SLOW_START = 5
"""Judgments before the remaining time is estimated."""

State = Literal["starting", "running", "stopping", "finished", "stopped", "paused", "interrupted", "failed"]
"""State of a run. `starting`: its process has not opened the folder yet; `stopping`: a stop was requested; `failed`:
its process ended before the run began."""
MOVING: frozenset[State] = frozenset({"starting", "running", "stopping"})
"""States of a run with a process."""
RESUMABLE: frozenset[State] = frozenset({"stopped", "paused", "interrupted"})

K = TypeVar("K")
V = TypeVar("V")


def keep(cache: OrderedDict[K, V], key: K, value: V, limit: int) -> None:
    """Add a value to a cache, and remove the least recently used ones."""
    cache[key] = value
    cache.move_to_end(key)
    while len(cache) > limit:
        cache.popitem(last=False)


@dataclass(frozen=True)
class FollowedRun:
    """Status of a run at one moment."""

    name: str
    folder: Path
    state: State
    manifest: Json = field(default_factory=dict, kw_only=True)
    """What the run is about; empty before it is written."""
    reason: str = field(default="", kw_only=True)
    """Why its latest session ended, if it ended with an error."""
    error: CommandError | None = field(default=None, kw_only=True)
    """The error of its latest process, if the folder does not contain it."""
    judged: int = field(default=0, kw_only=True)
    """Number of judgments, failures included."""
    wanted: int = field(default=0, kw_only=True)
    """Number of judgments of the complete run; 0 while unknown."""
    seconds_left: float | None = field(default=None, kw_only=True)
    """Estimated remaining time at the speed of this session; None while unknown."""
    data: str = field(default="", kw_only=True)
    """Name of its data, without folders, which are private; empty while unknown."""
    begun: str = field(default="", kw_only=True)
    """When it began: day and time; empty while unknown."""

    @property
    def mark(self) -> tuple[object, ...]:
        """A value that changes whenever the status does. It begins with name and state."""
        return self.name, self.state, self.judged, self.wanted


S = TypeVar("S", bound=FollowedRun)


class RunFollower(Generic[S]):
    """Incremental reader of one run. Many threads may use it; one at a time reads the folder.

    Args:
        name: Name of the run.
        jobs: Run folders and processes.
    """

    status: ClassVar[type[Any]] = FollowedRun
    """Class of the status."""
    fields: ClassVar[Collection[str] | None] = ()
    """Fields of results that are cached; None for all."""
    final: ClassVar[Collection[str]] = ()
    """Conditions that hold while the process is still alive."""
    explained: ClassVar[Collection[State]] = MOVING | {"finished", "stopped"}
    """States that need no error of the process."""

    def __init__(self, name: str, jobs: Jobs) -> None:
        self.name, self.jobs = name, jobs
        self.folder = jobs.folder(name)
        self.run = RunReader(self.folder, self.fields)
        self._lock = threading.Lock()
        self._pace: tuple[float, int] | None = None

    def look(self) -> S:
        """Read the status.

        Raises:
            HarnessError: If a file of the folder cannot be read.
        """
        with self._lock:
            since = self.jobs.alive_since(self.name)  # before the folder, so that no end is missed
            if not (self.folder / MANIFEST).is_file():
                return self.made("starting" if since else "failed", error=None if since else self._error())
            run, details = self.read(self.run.look())
            judged, wanted = details.get("judged", 0), details.get("wanted", 0)
            state = self._state(run, since, complete=judged >= wanted > 0)
            reason = run.reason if state == "paused" else ""
            error = None if state in self.explained or reason else self._error()
            left = self._left(judged, wanted, state)
            about = {"data": _data_name(run), "begun": _time(run.begun), **details}
            return self.made(state, manifest=run.manifest, reason=reason, error=error, seconds_left=left, **about)

    def made(self, state: State, **details: Any) -> S:
        """Return a status."""
        status: S = self.status(self.name, self.folder, state, **details)
        return status

    def read(self, run: RunStatus) -> tuple[RunStatus, dict[str, Any]]:
        """Return the status of a run with its true condition, and the values of other fields of `status`."""
        return run, {}

    def _error(self) -> CommandError | None:
        return self.jobs.error(self.name)

    def _state(self, run: RunStatus, since: float | None, *, complete: bool) -> State:
        """Return the state. `since`: when its process was started; `complete`: whether everything is judged."""
        if run.condition == "running":
            return "stopping" if run.stopping else "running"
        if since is not None and run.condition not in self.final:  # it reads the data, or writes the report
            began = datetime.fromisoformat(run.session_begun).timestamp() if run.session_begun else 0.0
            moving: State = "running" if complete or run.ended is None else "stopping"
            return moving if began >= since else "starting"
        if run.condition == "finished" or (complete and run.condition in {"stopped", "unknown"}):
            return "finished"
        if run.condition in {"failed", "paused"}:
            return "paused"
        return "stopped" if run.condition == "stopped" else "interrupted"

    def _left(self, judged: int, wanted: int, state: State) -> float | None:
        now = time.monotonic()
        if state != "running":
            self._pace = None
            return None
        if self._pace is None or judged < self._pace[1]:
            self._pace = now, judged
        since, before = self._pace
        if judged - before < SLOW_START or not wanted:
            return None
        return (now - since) / (judged - before) * (wanted - judged)


F = TypeVar("F", bound=RunFollower[Any])


def _data_name(run: RunStatus) -> str:
    """Return the name of the data of a run; a digest is none."""
    name = Path(run.data).name if "/" in run.data and user_path(run.data).is_absolute() else run.data
    return "" if name == run.manifest.get("data") else name


def _time(begun: str | None) -> str:
    return f"{datetime.fromisoformat(begun).astimezone():%d %b %Y, %H:%M}" if begun else ""

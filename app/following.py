"""Follows runs by what their folders say: each file is read once, and after that only what is new in it.

Nothing here asks a process. A run that was started on the command line is followed like any other.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from json import loads
from pathlib import Path
from typing import Any, Literal

from app.jobs import CommandError, Jobs
from rewardharness.evolution.checkpoint import CHECKPOINT
from rewardharness.evolution.events import EVENTS, Event, Judged, Resumed, Started, add_event, event_of
from rewardharness.evolution.report import never_right
from rewardharness.evolution.status import Condition, Status, status_of
from rewardharness.evolution.stop import STOP_FILE
from rewardharness.files import read_json
from rewardharness.runs.store import MANIFEST, RESULTS, read_manifest

MOST_TRAILS = 24
"""Runs whose trails are remembered, at most."""

HEAD = 256
"""Bytes by which a file is known again."""

_KEPT = ("id", "example", "preference", "inconsistent", "position_consistent", "credit", "margin", "step")
"""What is remembered of a line of the ledger."""

State = Literal["starting", "stopping", "failed"] | Condition
"""How a run stands. Beside what its folder says: `starting`, a process is there and has not come to the run yet;
`stopping`, it was asked to; `failed`, there was a process and never a run."""

MOVING: frozenset[State] = frozenset({"starting", "running", "stopping"})
"""States that end by themselves."""


class Tail:
    """A jsonl file that others append to, read on from where it was read to.

    Args:
        path: The file; it may come later, and begins anew when it is replaced or cut.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = 0
        self._position = 0
        self._head = b""
        """How what was read began: a file that is written anew may have the number of the old one."""

    def read(self) -> tuple[bool, list[dict[str, Any]]]:
        """Read the whole lines that are new. Lines that are torn are passed over.

        Returns:
            Whether what was read before is void, because the file is gone or another one now; and the new records.
        """
        try:
            stream = self._path.open("rb")
        except OSError:
            void, self._file, self._position, self._head = bool(self._file), 0, 0, b""
            return void, []
        with stream:
            found, void = os.fstat(stream.fileno()), False
            same = found.st_ino == self._file and found.st_size >= self._position
            if not same or stream.read(len(self._head)) != self._head:
                void, self._file, self._position, self._head = bool(self._file), found.st_ino, 0, b""
            stream.seek(self._position)
            data = stream.read()
        whole = data[: data.rfind(b"\n") + 1]  # the last line may not be written to its end yet
        if not self._position:
            self._head = whole[:HEAD]
        self._position += len(whole)
        return void, [record for line in whole.splitlines() if (record := _record(line)) is not None]


@dataclass(frozen=True)
class Sight:
    """A run as it stands at one moment."""

    name: str
    folder: Path
    state: State
    status: Status | None
    """What its folder says; None while there is none."""
    events: tuple[Event, ...] = ()
    judgments: int = 0
    """Judgments in the ledger, those of the audit included."""
    trouble: CommandError | None = None
    """The error that its latest process ended with, where the folder does not tell it."""

    @property
    def mark(self) -> tuple[object, ...]:
        """Changes whenever something is new."""
        at = self.events[-1].at if self.events else ""
        return self.name, self.state, len(self.events), at, self.judgments, self.status and self.status.progress

    @property
    def manifest(self) -> Mapping[str, Any]:
        """What the run is about; empty while that is not known."""
        return self.status.manifest if self.status else {}

    @property
    def started(self) -> Started | None:
        """How it began; None while it has not."""
        return next((each for each in self.events if isinstance(each, Started)), None)

    @property
    def judged(self) -> Judged | None:
        """What the starting Library made of the pool; None before that is known."""
        return next((each for each in self.events if isinstance(each, Judged)), None)


class Trail:
    """What is known of one run. Many may look at once; the folder is read by one at a time.

    Args:
        name: Its name.
        jobs: Where it lies, and its process.
    """

    def __init__(self, name: str, jobs: Jobs) -> None:
        self._name, self._jobs = name, jobs
        self._folder = jobs.folder(name)
        self._events: list[Event] = []
        self._lines: list[dict[str, Any]] = []
        self._event_tail = Tail(self._folder / EVENTS)
        self._ledger_tail = Tail(self._folder / RESULTS)
        self._lock = threading.Lock()

    def look(self) -> Sight:
        """See how the run stands."""
        with self._lock:
            since = self._jobs.alive_since(self._name)  # before the folder: an end between the two is seen next time
            if not (self._folder / MANIFEST).is_file():
                trouble = None if since else self._jobs.trouble(self._name)
                return Sight(self._name, self._folder, "starting" if since else "failed", None, trouble=trouble)
            self._read()
            status = status_of(self._folder, read_manifest(self._folder), self._events)
            state = self._state(status.condition, since)
            tells = state in MOVING or state == "finished" or (state == "paused" and status.reason)
            trouble = None if tells else self._jobs.trouble(self._name)
            return Sight(self._name, self._folder, state, status, tuple(self._events), len(self._lines), trouble)

    def recorded(self) -> dict[str, dict[str, Any]]:
        """The judgments of the ledger by their id; of several with one id the last."""
        with self._lock:
            self._read()
            return {str(line["id"]): line for line in self._lines}

    def never_right(self) -> list[tuple[str, int]]:
        """Examples of the pool that no Library which was tried made the judge get right; see `report.never_right`."""
        with self._lock:
            self._read()
            return never_right(self._lines, self.watched())

    def watched(self) -> frozenset[str]:
        """Ids of the examples that gates look at; none before the pool was judged."""
        path = self._folder / CHECKPOINT
        return frozenset(read_json(path).get("pool", {}) if path.is_file() else {})

    def _read(self) -> None:
        void, records = self._event_tail.read()
        self._events = [] if void else self._events
        for record in records:
            event = event_of(record)
            if isinstance(event, Resumed):
                self._events = add_event(self._events, event)
            elif event is not None:
                self._events.append(event)
        void, records = self._ledger_tail.read()
        self._lines = [] if void else self._lines
        for record in records:
            if all(key in record for key in ("id", "example", "preference", "credit")):
                self._lines.append({key: record.get(key) for key in _KEPT})

    def _state(self, condition: Condition, since: float | None) -> State:
        """How the run stands.

        Args:
            condition: What the folder says.
            since: When its process was started that is still there.
        """
        if condition == "running":
            return "stopping" if (self._folder / STOP_FILE).exists() else "running"
        if since is None or condition == "finished":
            return condition
        events = self._folder / EVENTS
        return "starting" if not events.exists() or events.stat().st_mtime < since else "stopping"


class Trails:
    """The trails of the runs that were looked at last.

    Args:
        jobs: Where runs lie.
    """

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._found: OrderedDict[str, Trail] = OrderedDict()
        self._lock = threading.Lock()

    def __getitem__(self, name: str) -> Trail:
        with self._lock:
            trail = self._found.get(name) or Trail(name, self._jobs)
            self._found[name] = trail
            self._found.move_to_end(name)
            while len(self._found) > MOST_TRAILS:
                self._found.popitem(last=False)
            return trail


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record = loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None

"""Status of evolution runs, read from their folders."""

from dataclasses import dataclass
from typing import Any

from app.following import MOVING, RunReader, RunStatus, State, Tail
from app.jobs import CommandError, Jobs
from app.remote_jobs import RemoteStatus
from rewardharness.evolution.checkpoint import CHECKPOINT
from rewardharness.evolution.events import EVENTS, Event, Judged, Resumed, Started, add_event, event_of
from rewardharness.evolution.report import never_right
from rewardharness.evolution.status import Condition, Status, status_of
from rewardharness.files import read_json
from rewardharness.runs.stop import STOP_FILE
from rewardharness.runs.store import RESULTS
from rewardharness.schema import Json

_FIELDS = ("id", "example", "preference", "inconsistent", "position_consistent", "credit", "margin", "step")
"""Fields of a judgment in the run folder that are cached."""


@dataclass(frozen=True)
class EvolutionStatus(RunStatus):
    """Status of an evolution at one moment."""

    status: Status | None
    """The status that its folder records; None before the run begins."""
    events: tuple[Event, ...] = ()
    judgments: int = 0
    """Recorded judgments, those of the held-out test set included."""
    remote: RemoteStatus | None = None
    """The job on the Hub; None for a run of this computer."""

    @property
    def mark(self) -> tuple[object, ...]:
        """See `RunStatus.mark`."""
        at = self.events[-1].at if self.events else ""
        progress = self.status and self.status.progress
        return self.name, self.state, len(self.events), at, self.judgments, progress, self.remote

    @property
    def started(self) -> Started | None:
        """The first event; None before the run begins."""
        return next((event for event in self.events if isinstance(event, Started)), None)

    @property
    def judged(self) -> Judged | None:
        """The result of the starting Library on the training examples; None before that."""
        return next((event for event in self.events if isinstance(event, Judged)), None)


class EvolutionReader(RunReader[EvolutionStatus]):
    """Incremental reader of one evolution."""

    def __init__(self, name: str, jobs: Jobs) -> None:
        super().__init__(name, jobs)
        self._events: list[Event] = []
        self._lines: list[dict[str, Any]] = []
        self._event_tail = Tail(self.folder / EVENTS)
        self._result_tail = Tail(self.folder / RESULTS)

    def without_manifest(self, state: State, error: CommandError | None = None) -> EvolutionStatus:
        """See `RunReader.without_manifest`."""
        return EvolutionStatus(self.name, self.folder, state, None, error=error)

    def read(self, since: float | None, manifest: Json) -> EvolutionStatus:
        """See `RunReader.read`."""
        self._read_lines()
        status = status_of(self.folder, manifest, self._events)
        state = self._state(status.condition, since)
        explained = state in MOVING or state == "finished" or (state == "paused" and status.reason)
        return EvolutionStatus(
            self.name,
            self.folder,
            state,
            status,
            tuple(self._events),
            len(self._lines),
            manifest=manifest,
            reason=status.reason if state == "paused" else "",
            error=None if explained else self.jobs.error(self.name),
        )

    def never_right(self) -> list[tuple[str, int]]:
        """Return the training examples that were judged wrong with every Library; see `report.never_right`."""
        with self.lock:
            self._read_lines()
            return never_right(self._lines, self.watched())

    def watched(self) -> frozenset[str]:
        """Return the ids of the training examples; none before they were judged."""
        path = self.folder / CHECKPOINT
        return frozenset(read_json(path).get("pool", {}) if path.is_file() else {})

    def _read_lines(self) -> None:
        void, records = self._event_tail.read()
        self._events = [] if void else self._events
        for record in records:
            event = event_of(record)
            if isinstance(event, Resumed):
                self._events = add_event(self._events, event)
            elif event is not None:
                self._events.append(event)
        void, records = self._result_tail.read()
        self._lines = [] if void else self._lines
        for record in records:
            if all(key in record for key in ("id", "example", "preference", "credit")):
                self._lines.append({key: record.get(key) for key in _FIELDS})

    def _state(self, condition: Condition, since: float | None) -> State:
        if condition == "running":
            return "stopping" if (self.folder / STOP_FILE).exists() else "running"
        if since is None or condition == "finished":
            return condition
        events = self.folder / EVENTS
        return "starting" if not events.exists() or events.stat().st_mtime < since else "stopping"

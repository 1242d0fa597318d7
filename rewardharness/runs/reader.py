"""The status of a run of any job type, read from its folder: each file is read once, and then only its new lines.

No process is asked: whether a run is running follows from the lock of its folder.
"""

import os
import threading
from collections.abc import Collection, Mapping, MutableMapping
from copy import copy
from dataclasses import dataclass
from json import loads
from pathlib import Path
from typing import Any, Literal

from rewardharness.runs.job import STOP_FILE
from rewardharness.runs.records import RECORD, read_record
from rewardharness.runs.results import Results
from rewardharness.runs.store import RESULTS, is_running, read_manifest
from rewardharness.schema import Json

Condition = Literal["running", "finished", "stopped", "paused", "interrupted", "failed", "unknown"]
"""`stopped`: on request or by the budget; `paused`: after an error that the same command can resume from;
`interrupted`: by Ctrl-C, or a killed process; `failed`: by another error; `unknown`: the run has no record."""

_CONDITIONS: Mapping[str, Condition] = {
    "done": "finished",
    "stopped": "stopped",
    "paused": "paused",
    "interrupted": "interrupted",
    "failed": "failed",
    "killed": "interrupted",
}
"""Condition of a run by that of its latest session; see `records.Condition`."""
EVENTS = "events.jsonl"
"""File with the events of a run that has any; the last one says how the run ended."""
_HEAD = 256
"""Bytes that identify a file."""


@dataclass(frozen=True)
class RunStatus:
    """Status of a run of any job type at one moment."""

    folder: Path
    manifest: Json
    """Manifest of the run."""
    condition: Condition = "unknown"
    reason: str = ""
    """Why the latest session failed or paused, or the search of an evolution ended; empty otherwise."""
    next_step: str = ""
    """What to do before the run is resumed; empty if nothing is known."""
    kind: str = "unknown"
    """Job type."""
    stopping: bool = False
    """Whether it is running, and a stop was requested."""
    command: tuple[str, ...] = ()
    """Words after `rh` in the latest session, with secrets masked; empty without a record."""
    where: str = ""
    """Working directory of the command."""
    begun: str | None = None
    """Start of the run, as ISO 8601."""
    session_begun: str | None = None
    """Start of the latest session."""
    ended: str | None = None
    """End of the latest session; None while it runs, or when its process was killed."""
    sessions: int = 0
    given: str = ""
    """Data as named on the command line; empty without a record."""

    @property
    def data(self) -> str:
        """Benchmark task, name of the data, or digest of the data."""
        about = self.manifest
        return str(about.get("task") or about.get("data_name") or self.given or about.get("data") or "")

    @property
    def judge(self) -> str:
        """Name of the judge."""
        return str(self.manifest.get("judge") or self.manifest.get("judge_name") or "")


class Tail:
    """Incremental reader of a JSONL file that another process appends to.

    Args:
        path: The file. It may not exist yet; it is read from the start after it was replaced or truncated.
        parsed: Whether records are returned, not lines.
    """

    def __init__(self, path: Path, *, parsed: bool = True) -> None:
        self._path, self._parsed = path, parsed
        self._file = 0
        self._position = 0
        self._head = b""
        """First bytes of the file: a replaced file may have the same inode."""

    def read(self) -> tuple[bool, list[Any]]:
        """Read the complete new lines. Lines that are not JSON objects are skipped.

        Returns:
            Whether earlier records are void, because the file was removed or replaced; and the new records.
        """
        try:
            stream = self._path.open("rb")
        except OSError:
            void, self._file, self._position, self._head = bool(self._file), 0, 0, b""
            return void, []
        with stream:
            stat, void = os.fstat(stream.fileno()), False
            same = stat.st_ino == self._file and stat.st_size >= self._position
            if not same or stream.read(len(self._head)) != self._head:
                void, self._file, self._position, self._head = bool(self._file), stat.st_ino, 0, b""
            stream.seek(self._position)
            data = stream.read()
        whole = data[: data.rfind(b"\n") + 1]  # the last line may be incomplete
        if not self._position:
            self._head = whole[:_HEAD]
        self._position += len(whole)
        lines = whole.splitlines()
        return void, [record for line in lines if (record := _record(line)) is not None] if self._parsed else lines


class RunReader:
    """Incremental reader of one run. Many threads may use it; one at a time reads the folder.

    Args:
        folder: The run folder; it need not exist yet.
        fields: Fields of a result that `results` returns, besides its id; None for all, parsed when they are used.
    """

    def __init__(self, folder: Path, fields: Collection[str] | None = ()) -> None:
        self.folder = folder
        self._fields = None if fields is None else {"id", *fields}
        self._tail = Tail(folder / RESULTS, parsed=fields is not None)
        self._events = Tail(folder / EVENTS)
        self._event: Json = {}
        self._results: MutableMapping[str, Json] = {}
        self._lock = threading.RLock()

    def look(self) -> RunStatus:
        """Read the status.

        Raises:
            RunError: If the folder holds no run, or its record is damaged.
            DataError: If the manifest or the record is not valid JSON.
        """
        with self._lock:
            running = is_running(self.folder)  # before the record, so that no end is missed
            manifest = read_manifest(self.folder)
            record: Mapping[str, Any] = read_record(self.folder) if (self.folder / RECORD).is_file() else {}
            sessions = record.get("sessions", [])
            last = sessions[-1] if sessions else {}
            condition, end = self._ended(last, running)
            return RunStatus(
                self.folder,
                manifest,
                condition,
                reason=str(end.get("reason") or "") if condition != "running" else "",
                next_step=str(end.get("next_step") or "") if condition != "running" else "",
                kind=str(manifest.get("command") or "unknown"),
                stopping=running and (self.folder / STOP_FILE).exists(),
                command=tuple(last.get("words", ())),
                where=str(last.get("folder") or ""),
                begun=record.get("created"),
                session_begun=last.get("started"),
                ended=last.get("ended"),
                sessions=len(sessions),
                given=_given(last),
            )

    def _ended(self, session: Mapping[str, Any], running: bool) -> tuple[Condition, Mapping[str, Any]]:
        """Return the condition, and what gives its reason: the last event of the run, or its latest session."""
        void, records = self._events.read()
        self._event = records[-1] if records else {} if void else self._event
        event = str(self._event.get("event", ""))
        if event == "finished":
            return "finished", self._event
        if running:
            return "running", session
        killed = session and session.get("ended") is None  # and the event is one of an earlier session
        if event == "paused" and not killed:
            return ("stopped" if self._event.get("kind") == "stopped" else "paused"), self._event
        if not session:
            return ("interrupted" if event else "unknown"), session
        return _CONDITIONS.get(str(session.get("condition")), "interrupted"), session

    def results(self) -> Mapping[str, Json]:
        """Return the results so far by id. Of several with one id, the last one counts."""
        with self._lock:
            void, records = self._tail.read()
            kept = self._results
            if void or not kept:
                kept = Results() if self._fields is None else {}
            for record in records:
                if isinstance(kept, Results):
                    kept.add_line(record)
                elif "id" in record:
                    names = self._fields or ()
                    kept[str(record["id"])] = {name: record[name] for name in names if name in record}
            self._results = kept
            return copy(kept)


def _given(session: Mapping[str, Any]) -> str:
    """Return the data argument of a session; for an absolute path, its last part."""
    data = str(session.get("arguments", {}).get("data") or "")
    return Path(data).name if Path(data).is_absolute() else data


def _record(line: bytes) -> Json | None:
    try:
        record = loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None

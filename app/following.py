"""Status of runs, read from their folders: each file is read once, and then only its new lines.

No process is asked. A run that was started on the command line is followed like any other.
"""

import os
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from dataclasses import dataclass, field
from json import loads
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from app.jobs import CommandError, Jobs
from rewardharness.runs.store import MANIFEST, read_manifest
from rewardharness.schema import Json

MAX_READERS = 40
"""Maximum number of runs whose status is cached."""
HEAD = 256
"""Bytes that identify a file."""

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


class Tail:
    """Incremental reader of a JSONL file that another process appends to.

    Args:
        path: The file. It may not exist yet; it is read from the start after it was replaced or truncated.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = 0
        self._position = 0
        self._head = b""
        """First bytes of the file: a replaced file may have the same inode."""

    def read(self) -> tuple[bool, list[dict[str, Any]]]:
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
            self._head = whole[:HEAD]
        self._position += len(whole)
        return void, [record for line in whole.splitlines() if (record := _record(line)) is not None]


@dataclass(frozen=True)
class RunStatus:
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

    @property
    def mark(self) -> tuple[object, ...]:
        """A value that changes whenever the status does. It begins with name and state."""
        return self.name, self.state


S = TypeVar("S", bound=RunStatus)


class RunReader(ABC, Generic[S]):
    """Incremental reader of one run. Many threads may use it; one at a time reads the folder.

    Args:
        name: Name of the run.
        jobs: Run folders and processes.
    """

    def __init__(self, name: str, jobs: Jobs) -> None:
        self.name, self.jobs = name, jobs
        self.folder = jobs.folder(name)
        self.lock = threading.Lock()

    def look(self) -> S:
        """Read the status.

        Raises:
            HarnessError: If a file of the folder cannot be read.
        """
        with self.lock:
            since = self.jobs.alive_since(self.name)  # before the folder, so that no end is missed
            if not (self.folder / MANIFEST).is_file():
                error = None if since else self.jobs.error(self.name)
                return self.without_manifest("starting" if since else "failed", error)
            return self.read(since, read_manifest(self.folder))

    @abstractmethod
    def without_manifest(self, state: State, error: CommandError | None = None) -> S:
        """Return the status of a run that has no manifest."""

    @abstractmethod
    def read(self, since: float | None, manifest: Json) -> S:
        """Read the status of a run.

        Args:
            since: When its process was started; None if it has no process.
            manifest: Its manifest.
        """


R = TypeVar("R", bound=RunReader[Any])


class RunReaders(Generic[R]):
    """Cache of the readers that were used last.

    Args:
        jobs: Run folders and processes.
        kind: Class of the readers.
    """

    def __init__(self, jobs: Jobs, kind: type[R]) -> None:
        self._jobs, self._kind = jobs, kind
        self._readers: OrderedDict[str, R] = OrderedDict()
        self._lock = threading.Lock()

    def __getitem__(self, name: str) -> R:
        with self._lock:
            reader = self._readers.get(name) or self._kind(name, self._jobs)
            keep(self._readers, name, reader, MAX_READERS)
            return reader


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record = loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None

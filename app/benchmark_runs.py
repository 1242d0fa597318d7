"""Follows benchmarks by what their folders say: each file is read once, and after that only what is new in it.

Runs that were started on the command line are followed like any other. Nothing here asks a process.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from app.following import State, Tail
from app.jobs import CommandError, Jobs
from rewardharness.benchmark.numbers import AnswerSheet
from rewardharness.benchmark.report import read_result
from rewardharness.benchmark.result import make_sheet
from rewardharness.benchmark.run import DATA_FILE, ENTRIES_FILE, read_benchmark, read_entries, read_judgments
from rewardharness.benchmark.thresholds import RULES
from rewardharness.errors import HarnessError
from rewardharness.evolution.stop import STOP_FILE
from rewardharness.library.hub import split_spec
from rewardharness.library.store import Library
from rewardharness.runs.records import RECORD, read_record
from rewardharness.runs.store import MANIFEST, RESULTS, is_running, read_manifest
from rewardharness.schema import Json, Judgment

MOST_TRAILS = 40
"""Runs of which is remembered how far they have come, at most."""

MOST_OPENED = 3
"""Runs that are held counted, at most."""

SLOW_START = 5
"""Judgments after which it is said how long the others will take."""

_NOTHING = (0, 0, 0)
"""Stamp of a file that is not there."""

K = TypeVar("K")
T = TypeVar("T")


@dataclass(frozen=True)
class Progress:
    """A benchmark as it stands at one moment."""

    name: str
    folder: Path
    state: State
    manifest: Json = field(default_factory=dict)
    """What it is about; empty while that is not known."""
    contenders: tuple[Json, ...] = ()
    judged: int = 0
    """Judgments that were tried, failures included."""
    wanted: int = 0
    """Judgments in all; 0 while that is not known."""
    seconds_left: float | None = None
    """What the rest will take at the speed of this sitting; None where that is not known."""
    reason: str = ""
    """Why its latest sitting ended, where it ended with an error."""
    trouble: CommandError | None = None
    """The error that its latest process ended with, where the folder does not tell it."""

    @property
    def mark(self) -> tuple[object, ...]:
        """Changes whenever something is new."""
        return self.name, self.state, self.judged, self.wanted

    @property
    def who(self) -> str:
        """The judge and the Library that it is about; empty while that is not known."""
        first = self.contenders[0] if self.contenders else {}
        return f"{first['name']}, {first['library']}" if first else ""


class BenchmarkTrail:
    """How far one benchmark has come. Many may look at once; the folder is read by one at a time.

    Args:
        name: Its name.
        jobs: Where it lies, and its process.
    """

    def __init__(self, name: str, jobs: Jobs) -> None:
        self._name, self._jobs = name, jobs
        self._folder = jobs.folder(name)
        self._tail = Tail(self._folder / RESULTS)
        self._judged: set[str] = set()
        self._items = 0
        self._known = _NOTHING, _NOTHING
        self._contenders: tuple[Json, ...] = ()
        self._pace: tuple[float, int] | None = None
        self._lock = threading.Lock()

    def look(self) -> Progress:
        """See how it stands.

        Raises:
            HarnessError: If a file of its folder cannot be read.
        """
        with self._lock:
            since = self._jobs.alive_since(self._name)  # before the folder: an end between the two is seen next time
            if not (self._folder / MANIFEST).is_file():
                trouble = None if since else self._jobs.trouble(self._name)
                return Progress(self._name, self._folder, "starting" if since else "failed", trouble=trouble)
            self._read()
            keys = {each["key"] for each in self._contenders}
            judged = sum(each.partition("/")[0] in keys for each in self._judged)
            wanted = self._items * len(self._contenders)
            state, reason = self._state(since, judged >= wanted > 0)
            return Progress(
                self._name,
                self._folder,
                state,
                read_manifest(self._folder),
                self._contenders,
                judged,
                wanted,
                self._left(judged, wanted, state),
                reason,
                self._jobs.trouble(self._name) if state in {"paused", "interrupted"} and not reason else None,
            )

    def _read(self) -> None:
        known = _stamp(self._folder / DATA_FILE), _stamp(self._folder / ENTRIES_FILE)
        if known != self._known:
            self._items = int(read_benchmark(self._folder)["items"]) if known[0] != _NOTHING else 0
            self._contenders = tuple(short(each) for each in read_entries(self._folder))
            self._known = known
        void, records = self._tail.read()
        self._judged = set() if void else self._judged
        self._judged.update(str(record["id"]) for record in records if "id" in record)

    def _state(self, since: float | None, complete: bool) -> tuple[State, str]:
        """How it stands, and why its latest sitting ended.

        Args:
            since: When its process was started that is still there.
            complete: Whether nothing is left to judge.
        """
        if is_running(self._folder):
            return ("stopping" if (self._folder / STOP_FILE).exists() else "running"), ""
        sitting = self._sitting()
        if since is not None:
            began = datetime.fromisoformat(sitting["started"]).timestamp() if sitting else 0.0
            return ("running" if began >= since else "starting"), ""  # it reads the data, or counts
        if sitting is None:
            return ("finished" if complete else "interrupted"), ""
        condition = sitting["condition"]
        if condition == "done" or (complete and condition == "stopped"):
            return "finished", ""
        if condition == "failed":
            return "paused", str(sitting.get("reason") or "")
        return ("stopped" if condition == "stopped" else "interrupted"), ""

    def _sitting(self) -> dict[str, Any] | None:
        """The latest sitting; None where no record is kept."""
        if not (self._folder / RECORD).is_file():
            return None
        return dict(read_record(self._folder)["sittings"][-1])

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


@dataclass(frozen=True)
class Opened:
    """What a benchmark has come to so far, counted."""

    exam: Json
    result: Json
    """As `report.read_result` makes it; rows name their Library as `short` does."""
    judgments: Mapping[str, Mapping[str, Judgment]]
    """By contender, then by item."""
    sheets: Mapping[str, AnswerSheet]
    """By contender."""


class Benchmarks:
    """The benchmarks that were looked at last. Holds nothing of any visitor.

    Args:
        jobs: Where runs lie.
    """

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._trails: OrderedDict[str, BenchmarkTrail] = OrderedDict()
        self._opened: OrderedDict[str, tuple[tuple[object, ...], Opened]] = OrderedDict()
        self._lock = threading.Lock()
        self._counting = threading.Lock()

    def look(self, name: str) -> Progress:
        """See how a benchmark stands.

        Raises:
            HarnessError: If a file of its folder cannot be read.
        """
        with self._lock:
            trail = self._trails.get(name) or BenchmarkTrail(name, self._jobs)
            keep(self._trails, name, trail, MOST_TRAILS)
        return trail.look()

    def open(self, name: str) -> Opened:
        """Count what a benchmark has come to so far. It is counted again only when something is new in it.

        Raises:
            HarnessError: If its folder holds no benchmark, or a file of it cannot be read.
        """
        folder = self._jobs.folder(name)
        with self._counting:  # one at a time: several at once would take longer, and as much memory each
            mark = tuple(_stamp(folder / file) for file in (DATA_FILE, ENTRIES_FILE, RESULTS, RULES))
            known = self._opened.get(name)
            if known is None or known[0] != mark:
                exam, judgments = read_benchmark(folder), read_judgments(folder)
                keys = [str(each["key"]) for each in read_entries(folder)]
                sheets = {key: make_sheet(exam, judgments.get(key, {})) for key in keys}
                known = mark, Opened(exam, _named(read_result(folder)), judgments, sheets)
            keep(self._opened, name, known, MOST_OPENED)
            return known[1]


def called(spec: str) -> str:
    """What to call a Library on the page: a folder by its last name, for its path is nobody's business."""
    on_hub = split_spec(spec) is not None and not Path(spec).expanduser().exists()
    return spec if on_hub else Path(spec).name


@lru_cache(maxsize=256)
def _own_name(spec: str, library_id: str) -> str:
    """What the Library of a folder calls itself; empty where it does not say, is gone, or has changed since."""
    path = Path(spec).expanduser()
    if not path.is_dir():
        return ""
    try:
        library = Library.load(path)
    except (HarnessError, OSError):
        return ""
    return library.name if library.id == library_id else ""


def short(row: Json) -> Json:
    """A row that names its Library as it calls itself, or else as `called` does, and as it was spelled in `spec`."""
    spec = row["library"]
    return {**row, "spec": spec, "library": _own_name(spec, row["library_id"]) or called(spec)}


def _named(result: Json) -> Json:
    return {**result, "rows": [short(row) for row in result["rows"]]}


def _stamp(path: Path) -> tuple[int, int, int]:
    """Changes when a file does."""
    try:
        found = path.stat()
    except OSError:
        return _NOTHING
    return found.st_ino, found.st_size, found.st_mtime_ns


def keep(known: OrderedDict[K, T], name: K, value: T, most: int) -> None:
    """Remember a value, and forget the one that was not asked for longest."""
    known[name] = value
    known.move_to_end(name)
    while len(known) > most:
        known.popitem(last=False)

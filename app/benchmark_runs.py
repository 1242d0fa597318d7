"""Status and results of benchmark runs, read from their folders."""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from app.counting import CountedStatus, CountingReader
from app.following import State, Tail, keep
from app.jobs import CommandError, Jobs
from rewardharness.benchmark.numbers import AnswerSheet
from rewardharness.benchmark.report import read_result
from rewardharness.benchmark.result import make_sheet
from rewardharness.benchmark.run import DATA_FILE, ENTRIES_FILE, read_benchmark, read_entries, read_judgments
from rewardharness.benchmark.thresholds import RULES
from rewardharness.errors import HarnessError
from rewardharness.library.hub import split_spec
from rewardharness.library.store import Library
from rewardharness.runs.store import RESULTS
from rewardharness.schema import Json, Judgment

MAX_OPENED = 3
"""Maximum number of runs whose results are cached."""
_NO_FILE = (0, 0, 0)
"""Stamp of a missing file."""


@dataclass(frozen=True)
class BenchmarkStatus(CountedStatus):
    """Status of a benchmark at one moment."""

    entries: tuple[Json, ...] = ()

    @property
    def who(self) -> str:
        """Judge and Library of the first row; empty while unknown."""
        first = self.entries[0] if self.entries else {}
        return f"{first['name']}, {first['library']}" if first else ""


class BenchmarkReader(CountingReader[BenchmarkStatus]):
    """Incremental reader of one benchmark."""

    def __init__(self, name: str, jobs: Jobs) -> None:
        super().__init__(name, jobs)
        self._tail = Tail(self.folder / RESULTS)
        self._judged: set[str] = set()
        self._items = 0
        self._stamps = _NO_FILE, _NO_FILE
        self._entries: tuple[Json, ...] = ()

    def without_manifest(self, state: State, error: CommandError | None = None) -> BenchmarkStatus:
        """See `RunReader.without_manifest`."""
        return BenchmarkStatus(self.name, self.folder, state, error=error)

    def read(self, since: float | None, manifest: Json) -> BenchmarkStatus:
        """See `RunReader.read`."""
        self._read_files()
        keys = {entry["key"] for entry in self._entries}
        judged = sum(line_id.partition("/")[0] in keys for line_id in self._judged)
        wanted = self._items * len(self._entries)
        return self.count(
            BenchmarkStatus(self.name, self.folder, "starting", self._entries), since, manifest, judged, wanted
        )

    def _read_files(self) -> None:
        stamps = _stamp(self.folder / DATA_FILE), _stamp(self.folder / ENTRIES_FILE)
        if stamps != self._stamps:
            self._items = int(read_benchmark(self.folder)["items"]) if stamps[0] != _NO_FILE else 0
            self._entries = tuple(short(entry) for entry in read_entries(self.folder))
            self._stamps = stamps
        void, records = self._tail.read()
        self._judged = set() if void else self._judged
        self._judged.update(str(record["id"]) for record in records if "id" in record)


@dataclass(frozen=True)
class OpenedBenchmark:
    """Results of a benchmark so far."""

    data: Json
    """Description of the data, as the run folder records it."""
    result: Json
    """Result of `report.read_result`, with the names of Libraries as in `short`."""
    judgments: Mapping[str, Mapping[str, Judgment]]
    """By key of the row, then by id of the item."""
    sheets: Mapping[str, AnswerSheet]
    """By key of the row."""


class BenchmarkResults:
    """Cache of the results of benchmarks that were opened last.

    Args:
        jobs: Run folders.
    """

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._opened: OrderedDict[str, tuple[tuple[object, ...], OpenedBenchmark]] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, name: str) -> OpenedBenchmark:
        """Read the results of a benchmark so far, if its files have changed.

        Raises:
            HarnessError: If its folder holds no benchmark, or a file cannot be read.
        """
        folder = self._jobs.folder(name)
        with self._lock:  # one at a time, to limit memory
            stamps = tuple(_stamp(folder / file) for file in (DATA_FILE, ENTRIES_FILE, RESULTS, RULES))
            cached = self._opened.get(name)
            if cached is None or cached[0] != stamps:
                data, judgments, result = read_benchmark(folder), read_judgments(folder), read_result(folder)
                result = {**result, "rows": [short(row) for row in result["rows"]]}
                keys = [str(entry["key"]) for entry in read_entries(folder)]
                sheets = {key: make_sheet(data, judgments.get(key, {})) for key in keys}
                cached = stamps, OpenedBenchmark(data, result, judgments, sheets)
            keep(self._opened, name, cached, MAX_OPENED)
            return cached[1]


def library_name(spec: str) -> str:
    """Return the name of a Library for the page: of a folder only the last part, because paths are private."""
    on_hub = split_spec(spec) is not None and not Path(spec).expanduser().exists()
    return spec if on_hub else Path(spec).name


@lru_cache(maxsize=256)
def _own_name(spec: str, library_id: str) -> str:
    """Return the name in the Library of a folder; empty if it has none, was removed, or has changed."""
    path = Path(spec).expanduser()
    if not path.is_dir():
        return ""
    try:
        library = Library.load(path)
    except (HarnessError, OSError):
        return ""
    return library.name if library.id == library_id else ""


def short(row: Json) -> Json:
    """Return a row with a short name of its Library; the original one is in `spec`."""
    spec = row["library"]
    return {**row, "spec": spec, "library": _own_name(spec, row["library_id"]) or library_name(spec)}


def _stamp(path: Path) -> tuple[int, int, int]:
    """Return a value that changes when a file does."""
    try:
        stat = path.stat()
    except OSError:
        return _NO_FILE
    return stat.st_ino, stat.st_size, stat.st_mtime_ns

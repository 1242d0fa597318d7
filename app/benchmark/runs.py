"""Status and results of benchmark runs, read from their folders."""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from app.run_panel.following import FollowedRun, RunFollower, keep
from app.run_panel.jobs import Jobs
from rewardharness.benchmark.answers import QuestionAnswer
from rewardharness.benchmark.items import BenchmarkData, Question, RunData
from rewardharness.benchmark.loading import open_benchmark
from rewardharness.benchmark.numbers import AnswerSheet, credit, make_sheet
from rewardharness.benchmark.result import BenchmarkResult, BenchmarkRow, read_result
from rewardharness.benchmark.run import (
    DATA_FILE,
    ENTRIES_FILE,
    EntryRecord,
    line_id,
    read_benchmark,
    read_entries,
    read_judgments,
)
from rewardharness.benchmark.task import open_task
from rewardharness.benchmark.thresholds import RULES
from rewardharness.errors import DataError, HarnessError
from rewardharness.evolution.checkpoint import CHECKPOINT
from rewardharness.files import user_path
from rewardharness.judgments import judgment_from_json
from rewardharness.library.hub import split_spec
from rewardharness.library.store import Library
from rewardharness.runs.reader import RunStatus
from rewardharness.runs.records import read_record
from rewardharness.runs.store import RESULTS
from rewardharness.runs.store import read_result as read_line
from rewardharness.schema import LABELS, TIE, Candidate, Example, FramesInput, ImageInput, Judgment
from rewardharness.settings import Settings

Row = TypeVar("Row", bound=EntryRecord)

MAX_OPENED = 3
"""Maximum number of runs whose results are cached."""
_NO_FILE = (0, 0, 0)
"""Stamp of a missing file."""


@dataclass(frozen=True)
class BenchmarkStatus(FollowedRun):
    """Status of a benchmark at one moment."""

    entries: tuple[EntryRecord, ...] = ()

    @property
    def who(self) -> str:
        """Judge and Library of the first row; empty while unknown."""
        return f"{self.entries[0].name}, {self.entries[0].library}" if self.entries else ""


class BenchmarkFollower(RunFollower[BenchmarkStatus]):
    """Incremental reader of one benchmark."""

    status = BenchmarkStatus

    def __init__(self, name: str, jobs: Jobs) -> None:
        super().__init__(name, jobs)
        self._stamps, self._items, self._entries = (_NO_FILE, _NO_FILE), 0, tuple[EntryRecord, ...]()

    def read(self, run: RunStatus) -> tuple[RunStatus, dict[str, Any]]:
        """See `Follower.read`."""
        stamps = _stamp(self.folder / DATA_FILE), _stamp(self.folder / ENTRIES_FILE)
        if stamps != self._stamps:
            self._items = read_benchmark(self.folder).items if stamps[0] != _NO_FILE else 0
            self._entries = tuple(short(entry) for entry in read_entries(self.folder))
            self._stamps = stamps
        keys = {entry.key for entry in self._entries}
        judged = sum(line.partition("/")[0] in keys for line in self.run.results())
        return run, {"entries": self._entries, "judged": judged, "wanted": self._items * len(self._entries)}


@dataclass(frozen=True)
class OpenedBenchmark:
    """Results of a benchmark so far."""

    data: RunData
    """Description of the data, as the run folder records it."""
    result: BenchmarkResult
    """With the names of Libraries as in `short`."""
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
                result = replace(result, rows=tuple(short(row) for row in result.rows))
                sheets = {row.key: make_sheet(data, judgments.get(row.key, {})) for row in result.rows}
                cached = stamps, OpenedBenchmark(data, result, judgments, sheets)
            keep(self._opened, name, cached, MAX_OPENED)
            return cached[1]


def library_name(spec: str) -> str:
    """Return the name of a Library for the page: of a folder only the last part, because paths are private.

    The Library of a run has the name of the run.
    """
    on_hub = split_spec(spec) is not None and not user_path(spec).exists()
    path = Path(spec)
    of_run = (user_path(spec).parent / CHECKPOINT).is_file()
    return spec if on_hub else (path.parent if of_run else path).name


@lru_cache(maxsize=256)
def _own_name(spec: str, library_id: str) -> str:
    """Return the name in the Library of a folder; empty if it has none, was removed, or has changed."""
    path = user_path(spec)
    if not path.is_dir():
        return ""
    try:
        library = Library.load(path)
    except (HarnessError, OSError):
        return ""
    return library.name if library.id == library_id else ""


def short_name(spec: str, library_id: str) -> str:
    """Return a short name of the Library of a row."""
    return _own_name(spec, library_id) or library_name(spec)


def short(row: Row) -> Row:
    """Return a row with a short name of its Library."""
    return replace(row, library=short_name(row.library, row.library_id))


def _stamp(path: Path) -> tuple[int, int, int]:
    """Return a value that changes when a file does."""
    try:
        stat = path.stat()
    except OSError:
        return _NO_FILE
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


MAX_DATA = 2
"""Maximum number of tasks whose data are cached."""


@dataclass(frozen=True)
class Piece:
    """One item of a question, as a judge saw it."""

    letters: Mapping[str, str]
    """Letter on the page by letter of the judge."""
    judgment: Judgment | None
    """The recorded judgment with its reasoning; None before it was judged."""


@dataclass(frozen=True)
class Side:
    """The answer of one judge to a question."""

    title: str
    reply: QuestionAnswer
    credit: float | None
    """Agreement with the label in [0, 1]; None without a judgment."""
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class QuestionCase:
    """A question of a benchmark with its images and answers."""

    question: Question
    sources: tuple[ImageInput | FramesInput, ...]
    """The source and its references."""
    candidates: tuple[Candidate, ...]
    """In the order of the question; the page calls them A, B, and so on."""
    sides: tuple[Side, ...]
    changed: bool
    """Whether the data have changed since the run started."""

    @property
    def example(self) -> Example:
        """The question as an example, with the label."""
        question, references = (
            self.question,
            tuple(image for image in self.sources[1:] if isinstance(image, ImageInput)),
        )
        label = str(question.truth) if question.truth in {*LABELS[: len(self.candidates)], TIE} else None
        source = self.sources[0] if self.sources else None
        facts: dict[str, Any] = {"category": question.category, "source_id": question.cluster, "references": references}
        return Example(question.id, question.instruction, source, self.candidates, label, **facts)


@dataclass(frozen=True)
class RunRow:
    """A row of a run."""

    title: str
    folder: Path
    opened: OpenedBenchmark
    key: str

    @property
    def entry(self) -> BenchmarkRow:
        """The row of the results."""
        return next(row for row in self.opened.result.rows if row.key == self.key)

    def reply(self, question: str) -> QuestionAnswer:
        """Return the answer to a question.

        Raises:
            DataError: If the run has no such question.
        """
        for reply in self.opened.sheets[self.key].replies:
            if reply.question.id == question:
                return reply
        raise DataError("This run has no such question.", next_step="Choose one of the list.")


class QuestionCases:
    """Loads questions. Caches data, and nothing of visitors.

    Args:
        settings: The settings.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._data: OrderedDict[tuple[str, ...], BenchmarkData] = OrderedDict()
        self._lock = threading.Lock()

    def case(self, question: str, *rows: RunRow) -> QuestionCase:
        """Return a question with the answers of rows over the same data.

        Raises:
            HarnessError: If the question or its data do not exist.
        """
        first = rows[0]
        return self._opened(first.reply(question).question, first, tuple(_side(row, question) for row in rows))

    def example(self, question: Question, row: RunRow) -> Example:
        """Return a question of a run as an example.

        Raises:
            HarnessError: If its data do not exist.
        """
        return self._opened(question, row, ()).example

    def _opened(self, question: Question, row: RunRow, sides: tuple[Side, ...]) -> QuestionCase:
        data, asks = self._load_data(row), question.asks
        if not all(name in data.items for name, _ in asks):
            raise DataError("The data no longer contain this example.", next_step="Look at another one.")
        examples = {name: data.items[name].example for name, _ in asks}
        return QuestionCase(
            question,
            examples[asks[0][0]].sources,
            tuple(examples[name].candidates[LABELS.index(letter)] for name, letter in asks),
            sides,
            data.digest != row.opened.data.digest,
        )

    def _load_data(self, row: RunRow) -> BenchmarkData:
        """Read all data of a run again."""
        options, where = _arguments(row.folder)
        spec, source = str(options.get("task")), options.get("source")
        spec = str(where / user_path(spec)) if (where / user_path(spec)).exists() else spec
        place = str(where / user_path(source)) if source else ""
        revision, protocol = str(options.get("revision") or ""), row.opened.data.protocol
        key = (spec, place, revision, protocol)
        with self._lock:
            data = self._data.get(key) or open_benchmark(
                open_task(spec),
                self._settings,
                protocol=protocol,
                source=Path(place) if place else None,
                revision=revision,
            )
            keep(self._data, key, data, MAX_DATA)
            return data


def _side(row: RunRow, question: str) -> Side:
    reply = row.reply(question)
    part = row.opened.sheets[row.key].parts[reply.question.part]
    pieces = []
    for name in dict.fromkeys(item for item, _ in reply.question.asks):
        letters = {letter: LABELS[place] for place, (item, letter) in enumerate(reply.question.asks) if item == name}
        line = read_line(row.folder, line_id(row.key, name))
        pieces.append(Piece(letters, None if line is None else judgment_from_json({**line, "id": name})))
    return Side(row.title, reply, credit(part, reply), tuple(pieces))


def _arguments(folder: Path) -> tuple[dict[str, Any], Path]:
    """Return the arguments of the latest session of a run, and the folder that its paths refer to.

    Raises:
        RunError: If there is no record.
    """
    session = read_record(folder)["sessions"][-1]
    return dict(session["arguments"]), Path(str(session["folder"]))

"""Looks closely at single questions of a benchmark: the pictures, the label, and how the judge got where it got.

A run folder keeps what was asked and answered, neither pictures nor chains. The data are read again from where the run
read them, and the chain is made again: the measured judge always says the same, and a model's answers are remembered.
No model is asked for this; what is not remembered any more is not shown.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from PIL import Image

from app.benchmark_runs import Opened
from app.cases import Remembered, Seen, judge_again
from rewardharness.benchmark.answers import QuestionAnswer
from rewardharness.benchmark.items import BenchmarkData, BenchmarkItem, Question
from rewardharness.benchmark.loading import open_benchmark
from rewardharness.benchmark.numbers import credit
from rewardharness.benchmark.task import open_task
from rewardharness.errors import DataError, HarnessError, LibraryError, ReleaseError, RunError
from rewardharness.judging.cache import FILE, JudgmentCache
from rewardharness.judging.deployments import find_release
from rewardharness.judging.judge import Judge
from rewardharness.judging.measured import NAME as MEASURED
from rewardharness.judging.measured import MeasuredJudge
from rewardharness.judging.opening import FILE as FROM_FILE
from rewardharness.judging.release import Release
from rewardharness.judging.subagent import SubAgent, SubAgentSettings
from rewardharness.library.opening import open_library
from rewardharness.library.store import EMPTY, Library
from rewardharness.measure.images import load_picture
from rewardharness.runs.records import read_record
from rewardharness.schema import LABELS, ImageInput, Json, Judgment
from rewardharness.settings import Settings

MOST_EXAMS = 2
"""Tasks whose data are remembered, at most."""

MOST_LIBRARIES = 8
"""Libraries that are remembered, at most."""

SHOWN_SIDE = 1024
"""Long side of the pictures that are shown, in pixels; judging saw the full size."""

_OPTIONS = {"protocol": "protocol", "samples": "samples", "groups": "groups", "tool_calls": "tool_limit"}
"""Options of a model as judge, and what they are called in its settings."""


@dataclass(frozen=True)
class Piece:
    """One item that a question is about, as a judge saw it."""

    letters: Mapping[str, str]
    """What the judge called a candidate, and what the page calls it."""
    judgment: Judgment | None
    """As the run recorded it; None where it has not come to it."""
    seen: Seen
    """The judgment made again, with its chain; or why that could not be done."""


@dataclass(frozen=True)
class Side:
    """What one judge said to a question."""

    title: str
    reply: QuestionAnswer
    credit: float | None
    """Agreement with the label in [0, 1]; None where there is no judgment."""
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class AskedCase:
    """A question of a benchmark, with its pictures and what was said to it."""

    question: Question
    source: ImageInput
    candidates: tuple[ImageInput, ...]
    """By their place in the question: the page calls them A, B, and so on."""
    sides: tuple[Side, ...]
    changed: bool
    """Whether the data are not what they were when the run began."""


@dataclass(frozen=True)
class Who:
    """A row of a run: whose answers are looked at."""

    title: str
    folder: Path
    opened: Opened
    key: str

    @property
    def contender(self) -> Json:
        """The row as the run folder names it."""
        return next(dict(row) for row in self.opened.result["rows"] if row["key"] == self.key)

    def reply(self, question: str) -> QuestionAnswer:
        """What was said to a question.

        Raises:
            DataError: If the run asks no such question.
        """
        for each in self.opened.sheets[self.key].replies:
            if each.question.id == question:
                return each
        raise DataError("This run asks no such question.", next_step="Choose one of the list.")


class AskedCases:
    """Makes cases. Remembers data and Libraries, and nothing of visitors.

    Args:
        settings: The settings.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._exams: OrderedDict[tuple[str, ...], BenchmarkData] = OrderedDict()
        self._libraries: OrderedDict[str, Library] = OrderedDict()
        self._measured: dict[bool, MeasuredJudge] = {}
        self._lock = threading.Lock()

    def case(self, question: str, *rows: Who) -> AskedCase:
        """Show what some rows said to a question. All of them have the same data.

        Raises:
            HarnessError: If the question or its data are not there.
        """
        first = rows[0]
        exam = self._exam(first)
        asks = first.reply(question).question.asks
        if not all(name in exam.items for name, _ in asks):
            raise DataError("The data do not hold this example any more.", next_step="Look at another one.")
        examples = {name: exam.items[name].example for name, _ in asks}
        return AskedCase(
            first.reply(question).question,
            examples[asks[0][0]].source,
            tuple(examples[name].candidates[LABELS.index(letter)] for name, letter in asks),
            tuple(self._side(row, question, exam.items) for row in rows),
            exam.digest != first.opened.exam["digest"],
        )

    def _side(self, row: Who, question: str, items: Mapping[str, BenchmarkItem]) -> Side:
        reply = row.reply(question)
        part = row.opened.sheets[row.key].parts[reply.question.part]
        pieces = []
        for name in dict.fromkeys(item for item, _ in reply.question.asks):
            letters = {
                letter: LABELS[place] for place, (item, letter) in enumerate(reply.question.asks) if item == name
            }
            recorded = row.opened.judgments.get(row.key, {}).get(name)
            pieces.append(Piece(letters, recorded, self._again(row, items[name], recorded)))
        return Side(row.title, reply, credit(part, reply), tuple(pieces))

    def _again(self, row: Who, item: BenchmarkItem, recorded: Judgment | None) -> Seen:
        """Judge an item again."""
        who = row.contender
        seen = Seen(str(who["library"]), recorded)
        if recorded is None:
            return replace(seen, why_not="This has not been judged yet.")
        if recorded.failure is not None:
            return replace(seen, judgment=recorded)
        try:
            judge = self._judge(row, ties=bool(who.get("release_ties", item.ties)))
            return judge_again(seen, judge, self._library(row), item.example)
        except (HarnessError, OSError, LookupError, TypeError, ValueError) as error:
            why = error.message if isinstance(error, HarnessError) else "How it was judged is not kept."
            return replace(seen, why_not=why)

    def _judge(self, row: Who, *, ties: bool) -> Judge:
        """The judge of a row, as it was; a model answers from memory alone."""
        who = row.contender
        if who["name"] == MEASURED:
            return self._measure(ties)
        if who["protocol"].startswith("baseline:"):
            raise RunError("This one reads neither the instruction nor a Library, so there is no chain.")
        if who["name"].startswith(FROM_FILE):
            raise RunError("Scores from a file have no chain.")
        options = _arguments(row.folder)[0]
        if options.get("router"):
            raise RunError("A model chose the entries for this run; that is not made again.")
        cache = self._settings.home / "cache"
        if options.get("no_cache") or not (cache / FILE).is_file():
            raise RunError("How it was judged is not kept.")
        release = self._release(row)
        if release is not None and release.router is not None:
            raise RunError("A model chose the entries for this run; that is not made again.")
        how = SubAgentSettings(both_orders=not options.get("one_order"), max_pixels=options.get("max_pixels"))
        told = {each: options[name] for name, each in _OPTIONS.items() if options.get(name) is not None}
        how = release.how if release is not None and release.how is not None else replace(how, **told)
        how = replace(how, ties=ties and how.protocol != "logprob")
        return SubAgent(Remembered(who["name"]), how, JudgmentCache(cache))

    def _measure(self, ties: bool) -> MeasuredJudge:
        with self._lock:
            if ties not in self._measured:
                cache = JudgmentCache(self._settings.home / "cache")
                self._measured[ties] = MeasuredJudge(ties=ties, workers=self._settings.workers, cache=cache)
            return self._measured[ties]

    def _library(self, row: Who) -> Library:
        """The Library of a row, if it is still what it was.

        Raises:
            LibraryError: If it is not, or is gone.
        """
        who = row.contender
        if who["library_id"] == EMPTY.id:
            return EMPTY
        with self._lock:
            found = self._libraries.get(who["library_id"])
        if found is None:
            release = self._release(row)
            if release is not None:
                found = release.library
            else:
                spec = str(who["spec"])
                beside = _arguments(row.folder)[1] / Path(spec).expanduser()
                found = open_library(str(beside) if beside.exists() else spec)
            if found.id != who["library_id"]:
                raise LibraryError("The Library has changed since this run, so what it led to is not shown.")
            with self._lock:
                self._libraries[found.id] = found
                while len(self._libraries) > MOST_LIBRARIES:
                    self._libraries.popitem(last=False)
        return found

    def _release(self, row: Who) -> Release | None:
        """The release that a run is about; None where it is about none.

        Raises:
            ReleaseError: If it is not what it was, or is gone.
        """
        options, where = _arguments(row.folder)
        spec = options.get("release")
        if not spec:
            return None
        beside = where / Path(str(spec)).expanduser()
        found = find_release(str(beside) if beside.exists() else str(spec), self._settings)
        first = row.opened.result["rows"][0]
        if found.id != first.get("release"):
            raise ReleaseError("Another release goes by that name since this run, so what this one did is not shown.")
        return found

    def _exam(self, row: Who) -> BenchmarkData:
        """Read the data of a run from where it read them. All of them: what is looked at next is among them."""
        options, where = _arguments(row.folder)
        spec, source = str(options.get("task")), options.get("source")
        spec = str(where / Path(spec).expanduser()) if (where / Path(spec).expanduser()).exists() else spec
        place = str(where / Path(source).expanduser()) if source else ""
        revision, protocol = str(options.get("revision") or ""), str(row.opened.exam["protocol"])
        key = (spec, place, revision, protocol)
        with self._lock:
            if key not in self._exams:
                self._exams[key] = open_benchmark(
                    open_task(spec),
                    self._settings,
                    protocol=protocol,
                    source=Path(place) if place else None,
                    revision=revision,
                )
            self._exams.move_to_end(key)
            while len(self._exams) > MOST_EXAMS:
                self._exams.popitem(last=False)
            return self._exams[key]


def pictures(case: AskedCase) -> list[tuple[Image.Image, str]]:
    """The pictures of a case, each with what it is, and who prefers it.

    Raises:
        HarnessError: If one of them cannot be read.
    """
    found = [(_shown(case.source), "Source")]
    judges = ["judge"] if len(case.sides) == 1 else ["first", "second"]
    for label, image in zip(LABELS, case.candidates, strict=False):
        marks = ["label"] if case.question.truth == label else []
        marks += [who for who, side in zip(judges, case.sides, strict=True) if side.reply.choice == label]
        found.append((_shown(image), " · ".join((label, *marks))))
    return found


def _shown(image: ImageInput) -> Image.Image:
    shown = Image.fromarray(load_picture(image).pixels)
    shown.thumbnail((SHOWN_SIDE, SHOWN_SIDE))
    return shown


def _arguments(folder: Path) -> tuple[dict[str, Any], Path]:
    """How a run was asked for the last time, and the folder that its paths count from.

    Raises:
        RunError: If it keeps no record.
    """
    sitting = read_record(folder)["sittings"][-1]
    return dict(sitting["arguments"]), Path(str(sitting["folder"]))

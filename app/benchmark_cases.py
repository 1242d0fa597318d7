"""Single questions of a benchmark: the images, the label, and the reasoning of the judge.

Images are read from the data of the run, judgments from its folder. Nothing is judged again.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from app.benchmark_runs import OpenedBenchmark
from app.following import keep
from rewardharness.benchmark.answers import QuestionAnswer
from rewardharness.benchmark.items import BenchmarkData, Question
from rewardharness.benchmark.loading import open_benchmark
from rewardharness.benchmark.numbers import credit
from rewardharness.benchmark.run import line_id
from rewardharness.benchmark.task import open_task
from rewardharness.errors import DataError
from rewardharness.judgments import judgment_from_json
from rewardharness.measure.images import load_picture
from rewardharness.runs.records import read_record
from rewardharness.runs.store import read_result
from rewardharness.schema import LABELS, Candidate, FramesInput, ImageInput, Json, Judgment, image_titles, images_of
from rewardharness.settings import Settings

MAX_DATA = 2
"""Maximum number of tasks whose data are cached."""
SHOWN_SIDE = 1024
"""Long side of displayed images in pixels; judges got the full size."""


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


@dataclass(frozen=True)
class RunRow:
    """A row of a run."""

    title: str
    folder: Path
    opened: OpenedBenchmark
    key: str

    @property
    def entry(self) -> Json:
        """The row of the results."""
        return next(dict(row) for row in self.opened.result["rows"] if row["key"] == self.key)

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
        data = self._load_data(first)
        asks = first.reply(question).question.asks
        if not all(name in data.items for name, _ in asks):
            raise DataError("The data no longer contain this example.", next_step="Look at another one.")
        examples = {name: data.items[name].example for name, _ in asks}
        return QuestionCase(
            first.reply(question).question,
            examples[asks[0][0]].sources,
            tuple(examples[name].candidates[LABELS.index(letter)] for name, letter in asks),
            tuple(_side(row, question) for row in rows),
            data.digest != first.opened.data["digest"],
        )

    def _load_data(self, row: RunRow) -> BenchmarkData:
        """Read all data of a run again."""
        options, where = _arguments(row.folder)
        spec, source = str(options.get("task")), options.get("source")
        spec = str(where / Path(spec).expanduser()) if (where / Path(spec).expanduser()).exists() else spec
        place = str(where / Path(source).expanduser()) if source else ""
        revision, protocol = str(options.get("revision") or ""), str(row.opened.data["protocol"])
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
        line = read_result(row.folder, line_id(row.key, name))
        pieces.append(Piece(letters, None if line is None else judgment_from_json({**line, "id": name})))
    return Side(row.title, reply, credit(part, reply), tuple(pieces))


def pictures(case: QuestionCase) -> list[tuple[Image.Image, str]]:
    """Return the images of a question with their titles, which name the preferred ones; none of texts.

    Raises:
        HarnessError: If one of them cannot be read.
    """
    titled = zip(image_titles(len(case.sources), ()), case.sources, strict=True)
    images = [(_shown(image), title) for title, media in titled for image in images_of(media)]
    judges = ["judge"] if len(case.sides) == 1 else ["first", "second"]
    for label, media in zip(LABELS, case.candidates, strict=False):
        marks = ["label"] if case.question.truth == label else []
        marks += [who for who, side in zip(judges, case.sides, strict=True) if side.reply.choice == label]
        images += [(_shown(image), " · ".join((label, *marks))) for image in images_of(media)]
    return images


def _shown(image: ImageInput) -> Image.Image:
    shown = Image.fromarray(load_picture(image).pixels)
    shown.thumbnail((SHOWN_SIDE, SHOWN_SIDE))
    return shown


def _arguments(folder: Path) -> tuple[dict[str, Any], Path]:
    """Return the arguments of the latest session of a run, and the folder that its paths refer to.

    Raises:
        RunError: If there is no record.
    """
    session = read_record(folder)["sessions"][-1]
    return dict(session["arguments"]), Path(str(session["folder"]))

"""The questions of benchmarks as rows of a table."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from app.benchmark import case_views
from app.benchmark.service import BenchmarkServices
from app.markup import plain
from app.table.exports import Judged
from app.table.page import TablePlace
from app.table.rows import ResultRow, Verdict
from app.viewer.example_views import OpenedExample
from rewardharness.benchmark.answers import QuestionAnswer
from rewardharness.schema import LABELS


class Questions:
    """See `TableSource`. `beside` is the name of a run and the key of a row, joined by a slash.

    Args:
        benchmarks: The runs.
    """

    def __init__(self, benchmarks: BenchmarkServices) -> None:
        self._benchmarks = benchmarks

    def rows(self, place: TablePlace) -> Sequence[ResultRow]:
        """See `TableSource.rows`."""
        sides = [self._benchmarks.answers(*row) for row in _rows(place)]
        beside = {reply.question.id: _verdict(reply, credit) for reply, credit in sides[-1]}
        return [
            ResultRow(
                number,
                reply.question.id,
                reply.question.instruction,
                tuple(dict.fromkeys((reply.question.part, reply.question.category, reply.question.dimension))),
                str(reply.question.truth),
                (_verdict(reply, credit), *([beside[reply.question.id]] if place.beside else [])),
            )
            for number, (reply, credit) in enumerate(sides[0])
            if reply.question.id in beside
        ]

    def judges(self, place: TablePlace) -> Sequence[str]:
        """See `TableSource.judges`."""
        return [self._benchmarks.row_title(*row) for row in _rows(place)]

    def others(self, place: TablePlace) -> list[tuple[str, str]]:
        """See `TableSource.others`."""
        found = self._benchmarks.other_rows(place.run, place.column)
        return [(plain(title), "/".join(row)) for title, row in found]

    def compared(self, place: TablePlace) -> str:
        """See `TableSource.compared`."""
        shown, beside = _rows(place)
        return case_views.compared(self._benchmarks.compare(beside, shown))

    def judged(self, place: TablePlace, rows: Sequence[ResultRow]) -> Iterable[Judged]:
        """See `TableSource.judged`."""
        replies = self._benchmarks.answers(place.run, place.column)
        return self._benchmarks.examples(place.run, place.column, [replies[row.number][0] for row in rows])

    def case(self, place: TablePlace, row: ResultRow) -> OpenedExample:
        """See `TableSource.case`."""
        case = self._benchmarks.case(row.id, *reversed(_rows(place)))
        chains = [(side.title if place.beside else "", case_views.chain(side)) for side in case.sides]
        return OpenedExample(case_views.words(case), case.example, chains, row.verdicts[0].choice)

    def file(self, place: TablePlace, ending: str) -> Path:
        """See `TableSource.file`."""
        return self._benchmarks.file(place.run, ending)


def _rows(place: TablePlace) -> list[tuple[str, str]]:
    """Return the shown row, and the one that it is compared with."""
    name, _, key = place.beside.rpartition("/")
    return [(place.run, place.column), *([(name, key)] if place.beside else [])]


def _verdict(reply: QuestionAnswer, credit: float | None) -> Verdict:
    rewards = dict(zip(LABELS, reply.values, strict=False))
    return Verdict(reply.choice or "", credit, reply.margin, rewards, reply.failure)

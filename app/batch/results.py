"""The results of batches as rows of a table."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from app.batch.service import MAX_OPENED, BatchServices, JudgedExample
from app.evolve.runs import ExampleCase, Seen
from app.run_panel.following import keep
from app.run_panel.views import sections
from app.table.exports import Judged
from app.table.page import TablePlace
from app.table.rows import ResultRow, verdict_of
from app.viewer.example_views import OpenedExample, opened
from rewardharness.benchmark.comparison import (
    ComparedExample,
    ComparedRun,
    Flip,
    PartComparison,
    RunComparison,
    compare,
)
from rewardharness.benchmark.metrics import split
from rewardharness.benchmark.report import comparison_section
from rewardharness.benchmark.run import EntryRecord
from rewardharness.judging.report import credit

_KnownRows = tuple[Sequence[JudgedExample], Sequence[JudgedExample], list[ResultRow]]
"""Rows with what they were made of: the results of the run, and of the run beside it."""


class BatchResults:
    """See `TableSource`.

    Args:
        batches: The runs.
    """

    def __init__(self, batches: BatchServices) -> None:
        self._batches = batches
        self._rows: OrderedDict[TablePlace, _KnownRows] = OrderedDict()

    def rows(self, place: TablePlace) -> Sequence[ResultRow]:
        """See `TableSource.rows`."""
        judged, others = self._batches.judged(place.run), self._beside(place)
        known = self._rows.get(place)
        if known is None or known[0] is not judged or known[1] is not others:
            known = judged, others, _make_rows(judged, others)
        keep(self._rows, place, known, MAX_OPENED)
        return known[2]

    def _beside(self, place: TablePlace) -> Sequence[JudgedExample]:
        return self._batches.judged(place.beside) if place.beside else ()

    def judges(self, place: TablePlace) -> Sequence[str]:
        """See `TableSource.judges`."""
        return [self._batches.judge(name) for name in (place.run, place.beside) if name]

    def others(self, place: TablePlace) -> list[tuple[str, str]]:
        """See `TableSource.others`. Those of the same data; a visitor has none."""
        return self._batches.same_data(place.run)

    def compared(self, place: TablePlace) -> str:
        """See `TableSource.compared`."""
        names = (place.beside, place.run)
        before, after = ({each.example.id: each for each in self._batches.judged(name)} for name in names)
        pairs = [(before[name], each) for name, each in after.items() if name in before and each.example.preference]
        parts = []
        for kind, some in split(pairs, lambda pair: pair[1].example.label_kind or "labels").items():
            sides = zip(*some, strict=True)
            runs = [
                ComparedRun(name, "", "", "", tuple(map(_outcome, side)))
                for name, side in zip(names, sides, strict=True)
            ]
            test, better, worse = compare(*runs)
            flips = tuple(Flip(name, "", "", "", "", better=name in better) for name in (*better, *worse))
            parts.append(PartComparison(**{**vars(test), "part": kind}, flips=flips))
        blank: dict[str, Any] = dict.fromkeys(("library", "protocol", "revision", "library_id"), "")
        judges = {name: self._batches.judge(name) for name in names}
        first, second = (EntryRecord(key=name, role="baseline", name=each, **blank) for name, each in judges.items())
        return sections(comparison_section(RunComparison("", "", first, second, True, tuple(parts))))

    def judged(self, place: TablePlace, rows: Sequence[ResultRow]) -> Iterable[Judged]:
        """See `TableSource.judged`."""
        known = {each.number: each.example for each in self._batches.judged(place.run)}
        examples = [known[row.number] for row in rows]
        return zip(examples, self._batches.judgments(place.run, (each.id for each in examples)), strict=True)

    def case(self, place: TablePlace, row: ResultRow) -> OpenedExample:
        """See `TableSource.case`."""
        example, _ = next(iter(self.judged(place, [row])))
        seen = []
        for name in filter(None, (place.beside, place.run)):
            [judgment] = self._batches.judgments(name, [example.id], steps=True)
            seen.append(Seen(self._batches.judge(name), judgment))
        return opened(ExampleCase(example, example.preference, tuple(seen)))

    def file(self, place: TablePlace, ending: str) -> Path:
        """See `TableSource.file`."""
        return self._batches.file(place.run, ending)


def _make_rows(judged: Sequence[JudgedExample], others: Sequence[JudgedExample]) -> list[ResultRow]:
    """Return a row for each example; with other judgments, for those that both have."""
    beside = {each.example.id: each for each in others}
    rows = []
    for each in judged:
        example, other = each.example, beside.get(each.example.id)
        if other is not None or not others:
            sides = (each, *((other,) if other is not None else ()))
            verdicts = tuple(verdict_of(side.example, side.judgment) for side in sides)
            kinds = tuple(filter(None, (example.category, example.label_kind)))
            rows.append(ResultRow(each.number, example.id, example.instruction, kinds, example.preference, verdicts))
    return rows


def _outcome(each: JudgedExample) -> ComparedExample:
    example, judgment = each.example, each.judgment
    agrees = credit(example, judgment) if judgment.judged else None
    return ComparedExample(example.id, str(example.preference), agrees, example.source_id)

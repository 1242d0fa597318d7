"""Human ratings of single edits in the format of ImagenHub, and their correlation with a judge.

A folder has one table per rater, `<task>_rater1.tsv` or `rater1.tsv`, ...; the first column holds the item, and every
other column, except `NOT_EDITORS`, is an editor. A cell holds `[SC, PQ]`: semantic consistency and perceptual quality,
each 0, 0.5 or 1 (arXiv 2310.01596; spaces are ignored). The overall rating is the geometric mean sqrt(SC * PQ), as in
VIEScore (arXiv 2312.14867), and the human score of an edit is its mean over all raters.

An invalid cell is reported with file, row and column. Its edit has no human score, since a mean of fewer raters is not
comparable; it is left out of means and correlations, and counted.
"""

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean

from rewardharness.benchmark.intervals import Correlation, Rating, bootstrap_mean, correlate, mean_interval
from rewardharness.benchmark.metrics import Bounds, bounds
from rewardharness.errors import DataError
from rewardharness.files import read_text
from rewardharness.judging.report import wilson

STEPS: tuple[float, ...] = (0.0, 0.5, 1.0)
"""Allowed ratings."""

Edit = tuple[str, str]
"""Editor and item."""

NOT_EDITORS = frozenset({"schema_version", "schema", "version", "timestamp", "comment", "comments", "note", "notes"})
"""Columns, in lower case, that describe the table or the rater."""

_CELL = re.compile(r"\[\s*([0-9.]{1,8})\s*,\s*([0-9.]{1,8})\s*\]")
_RATER = re.compile(r"(?:(.+)_)?rater([1-9][0-9]{0,3})\.tsv")
_NUMBERS: Mapping[str, float] = {"0": 0.0, "0.0": 0.0, "0.5": 0.5, ".5": 0.5, "1": 1.0, "1.0": 1.0}
_SHOWN = 3


@dataclass(frozen=True)
class Cell:
    """Rating of one edit by one rater."""

    consistency: float
    """SC: instruction following; 0, 0.5 or 1."""
    quality: float
    """PQ: visual quality; 0, 0.5 or 1."""

    @property
    def overall(self) -> float:
        """Geometric mean sqrt(SC * PQ), in [0, 1]."""
        return math.sqrt(self.consistency * self.quality)


@dataclass(frozen=True)
class EditorMean:
    """Mean human score of an editor."""

    mean: float | None
    """In [0, 1]; None without scores."""
    n: int
    """Edits with a score."""
    interval: Bounds | None
    """Bootstrap over items; if all scores are equal, Wilson's, which is conservative."""


@dataclass(frozen=True)
class RaterAgreement:
    """Correlation between raters."""

    mean: float | None
    """Fisher's mean over editors."""
    n: int
    interval: Bounds | None
    """Jackknife over items with all their edits."""
    undefined: Mapping[str, str]
    """Editors without a correlation, with the reason."""


@dataclass(frozen=True)
class RatingSummary:
    """Counts, means and agreement of the ratings of a task."""

    task: str
    raters: int
    items: int
    rated: int
    """Edits that all raters rated."""
    edits: int
    mean_overall: Mapping[str, EditorMean]
    between_humans: Mapping[str, RaterAgreement]
    broken: tuple[str, ...]
    """Invalid cells."""


@dataclass(frozen=True)
class Ratings:
    """Ratings of all edits of one task by all raters."""

    task: str
    editors: tuple[str, ...]
    """In the order of the first table."""
    items: tuple[str, ...]
    """In the order of the first table."""
    raters: Mapping[int, Mapping[Edit, Cell]]
    """Valid cells by rater; the key is the number in the name of the table."""
    broken: tuple[str, ...]
    """Invalid cells with file, row and column."""

    def human(self) -> dict[Edit, float]:
        """Return the human score per edit that all raters rated: the mean of the overall rating."""
        cells = [[rater.get(edit) for rater in self.raters.values()] for edit in self._edits()]
        rated = zip(self._edits(), cells, strict=True)
        return {edit: fmean(cell.overall for cell in ratings if cell) for edit, ratings in rated if all(ratings)}

    def _edits(self) -> list[Edit]:
        return [(editor, item) for editor in self.editors for item in self.items]

    def between_humans(self) -> dict[str, Correlation]:
        """Correlate raters with each other, as a reference for the correlation of a judge.

        Returns:
            `rater K against the others`: each rater against the mean of the others, which is closest to a judge against
            the mean of all. `rater K against L`: two single raters. If one side gave nearly all edits of an editor the
            same score, the correlation is not defined, and the editor is in `undefined`.
        """
        return {name: correlate(ratings) for name, ratings, _ in self._between()}

    def summary(self) -> RatingSummary:
        """Return counts, means with n and interval, agreement between raters, and invalid cells."""
        human, agreements = self.human(), {}
        for name, ratings, items in self._between():
            correlation, span = correlate(ratings), bounds(mean_interval(ratings, items))
            undefined = {editor: correlation.editors[editor].reason for editor in correlation.undefined}
            agreements[name] = RaterAgreement(correlation.mean, correlation.judged, span, undefined)
        means = {
            editor: _editor_mean([human[editor, item] for item in self.items if (editor, item) in human])
            for editor in self.editors
        }
        counts = len(self.raters), len(self.items), len(human), len(self.editors) * len(self.items)
        return RatingSummary(self.task, *counts, means, agreements, self.broken)

    def _between(self) -> Iterator[tuple[str, list[Rating], list[str]]]:
        """Yield for each comparison its name, and ratings and items of the edits that both sides rated."""
        one_by_one = [(f"rater {one} against {other}", one, [other]) for one, other in combinations(self.raters, 2)]
        rest = [(one, [other for other in self.raters if other != one]) for one in self.raters]
        against_all = [(f"rater {one} against the others", one, others) for one, others in rest if len(others) > 1]
        for name, one, others in [*against_all, *one_by_one]:
            theirs = [self.raters[other] for other in others]
            shared = {edit: cell for edit, cell in self.raters[one].items() if all(edit in rater for rater in theirs)}
            means = [fmean(rater[edit].overall for rater in theirs) for edit in shared]
            rated = zip(shared.items(), means, strict=True)
            ratings = [Rating(editor, cell.overall, mean) for ((editor, _), cell), mean in rated]
            yield name, ratings, [item for _, item in shared]


def _editor_mean(scores: Sequence[float]) -> EditorMean:
    drawn = bootstrap_mean(scores) or wilson(math.fsum(scores), len(scores))
    return EditorMean(fmean(scores) if scores else None, len(scores), bounds(drawn))


def read_ratings(folder: Path) -> Ratings:
    """Read the tables of all raters of one task.

    Args:
        folder: Folder with `<task>_rater1.tsv` and so on, of one task, as in ImagenHub. Tables without a task in their
            name belong to the task with the name of the folder.

    Raises:
        DataError: If there are no tables, or their editors and items differ or are not unique.
    """
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder.", next_step="Give the folder with *_rater1.tsv.")
    files = sorted(
        ((match[1] or folder.resolve().name, int(match[2])), path)
        for path in folder.iterdir()
        if (match := _RATER.fullmatch(path.name))
    )
    tasks = sorted({task for (task, _), _ in files})
    if len(tasks) != 1:
        what = f"tables of several tasks: {', '.join(tasks[:_SHOWN])}" if tasks else "no *_rater1.tsv or rater1.tsv"
        below = sorted(path.parent.name for path in folder.glob("*/*rater1.tsv"))
        named = f": {', '.join(below[:_SHOWN])}{', ...' if len(below) > _SHOWN else ''}" if below else ""
        raise DataError(f"{folder} holds {what}.", next_step=f"Give the folder of one task{named}.")
    tables = [_read_table(path) for _, path in files]
    first = tables[0]
    for table in tables[1:]:
        _refuse_different(first, table)
    raters = {number: table.cells for ((_, number), _), table in zip(files, tables, strict=True)}
    broken = tuple(cell for table in tables for cell in table.broken)
    return Ratings(tasks[0], first.editors, first.items, raters, broken)


@dataclass(frozen=True)
class _Table:
    """Table of one rater."""

    name: str
    editors: tuple[str, ...]
    items: tuple[str, ...]
    cells: Mapping[Edit, Cell]
    broken: tuple[str, ...]


def parse_cell(text: str) -> Cell | None:
    """Parse `[SC, PQ]`; return None for anything else, such as other numbers than 0, 0.5 and 1."""
    match = _CELL.fullmatch(text.strip())
    numbers = [_NUMBERS.get(part) for part in match.groups()] if match else [None]
    return None if None in numbers else Cell(*numbers)


def _read_table(path: Path) -> _Table:
    rows = csv.reader(io.StringIO(read_text(path), newline=""), delimiter="\t", quoting=csv.QUOTE_NONE)
    try:
        lines = [(rows.line_num, row) for row in rows if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise DataError(f"{path}, row {rows.line_num}: {error}.", next_step="Repair the table.") from None
    header = [name.strip() for name in lines[0][1]] if lines else []
    item_place, *places = [place for place, name in enumerate(header) if name.lower() not in NOT_EDITORS] or [0]
    if len(lines) < 2 or not places:
        raise DataError(f"{path} has no editors or no items.", next_step="Give a table separated by tabs.")
    editors = [header[place] for place in places]
    _refuse_twice(path, editors)
    items = ["".join(row[item_place : item_place + 1]).strip() for _, row in lines[1:]]
    _refuse_twice(path, items)
    cells: dict[Edit, Cell] = {}
    broken = []
    for (number, row), item in zip(lines[1:], items, strict=True):
        wrong = []
        for editor, place in zip(editors, places, strict=True):
            text = row[place] if place < len(row) else ""
            if cell := parse_cell(text):
                cells[editor, item] = cell
            else:
                wrong.append((editor, text))
        further = enumerate(row[len(header) :], len(header) + 1)
        wrong += [(f"number {place}, which has no editor", text) for place, text in further if text.strip()]
        start = f"{path.name}, row {number} ({item}), column"
        broken += [f"{start} {column}: {text!r} is not [SC, PQ]" for column, text in wrong]
    return _Table(path.name, tuple(editors), tuple(items), cells, tuple(broken))


def _refuse_twice(path: Path, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if not name or name in seen:
            what = f"the name {name!r} occurs twice" if name else "an item or an editor has no name"
            raise DataError(f"{path}: {what}.", next_step="Name each item and each editor once.")
        seen.add(name)


def _refuse_different(one: _Table, other: _Table) -> None:
    for what, here, there in (("editors", one.editors, other.editors), ("items", one.items, other.items)):
        if differing := sorted(set(here) ^ set(there)):
            message = f"{one.name} and {other.name} do not hold the same {what}: {', '.join(differing[:_SHOWN])}."
            raise DataError(message, next_step="Every rater's table needs every editor and every item.")

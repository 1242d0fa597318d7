"""Benchmarks of editors: edits to make, the judge that grades each of them alone, a scale, and published grades.

They are declared in YAML files of this package, `benchmarks/NAME.yaml`, which are read strictly; see `EditorBenchmark`.
The overall grade is the mean over the categories of their mean grades, or the mean over all edits.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.resources import files as resources
from pathlib import Path
from statistics import fmean, variance
from typing import Any, Literal

from rewardharness.codec import from_json
from rewardharness.data.cells import settle
from rewardharness.data.fields import ExampleReader, check_columns, parse_fields
from rewardharness.data.rows import Progress, RowSource, open_rows
from rewardharness.data.source import Dataset
from rewardharness.data.tables import is_image_name
from rewardharness.errors import DataError
from rewardharness.files import content_id, read_json, user_path
from rewardharness.judging.judge import Judge
from rewardharness.judging.profile_opening import load_profile
from rewardharness.judging.report import Z95
from rewardharness.library.yamlsafe import read_yaml
from rewardharness.schema import ImageInput, Interval, Judgment
from rewardharness.settings import Settings

OVERALL = "overall"
LEAST = 5
"""Number of graded edits below which a mean has no interval."""


@dataclass(frozen=True)
class PublishedGrades:
    """Grades of editors from one source."""

    source: str
    url: str
    columns: tuple[str, ...]
    """Categories, and `overall`."""
    rows: Mapping[str, tuple[float, ...]]
    """Grades by editor, as printed."""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class EditorBenchmark:
    """A benchmark of editors."""

    name: str
    title: str
    about: str
    paper: str
    license: str
    """Of the data; `unknown` if the authors name none."""
    columns: Mapping[str, str]
    """Columns by field; see `data.fields`. The candidate is the source: the edits are to be made."""
    categories: Mapping[str, int]
    """Number of edits by category."""
    scale: tuple[float, float]
    profile: str
    """Judge profile of the authors' judge, which names their prompts."""
    model: str
    """Model of the authors' judge; `people` if people gave the published grades."""
    published: tuple[PublishedGrades, ...]
    access: str = ""
    """How to get the data, if they are not on the Hub."""
    hub: str = ""
    """Dataset on the Hub."""
    split: str = ""
    file: str = ""
    """Table in a local copy, or a pattern of JSON tables, whose rows get their folder in the column `folder`; a JSON
    object of rows has their keys in the column `key`."""
    id: str = ""
    """Id of a row as a pattern of its columns, such as `{folder}-{key}`; empty for the column of `columns`."""
    where: Mapping[str, str] = field(default_factory=dict)
    """Values by column that rows must have."""
    told: Mapping[str, str] = field(default_factory=dict)
    """Columns by name of what judge profiles are told of an edit, and editors are not; see `Example.notes`. Reference
    images of `columns` are for judge profiles, too."""
    overall: Literal["categories", "edits"] = "categories"
    """What the overall grade is the mean of."""
    notes: tuple[str, ...] = ()

    def open(self, settings: Settings, source: Path | None, progress: Progress | None = None) -> Dataset:
        """Open its data.

        Args:
            settings: Data folder and Hub settings.
            source: Local copy: its table, or the folder of it.
            progress: Called while the data are read.

        Raises:
            DataError: If there are none, or they cannot be read.
        """
        if source is None and not self.hub:
            raise DataError(f"{self.title} is not on the Hub.", next_step=f"{self.access} Name the copy with --source.")
        path = None if source is None else user_path(source)
        columns, rows = parse_fields(self.columns, self.name), self._rows(path, settings, progress)
        reader, notes = ExampleReader(columns, text=False, least=1), dict[str, dict[str, str]]()
        for number, row in enumerate(rows, 1):
            if not all(str(row.get(name)) == value for name, value in self.where.items()):
                continue
            if columns.category and row.get(columns.category) not in self.categories and "*" in self.file:
                continue
            reader.add(number, {**row, columns.id: self.id.format_map(row)} if self.id else row)
            cells = {name: row.get(column) for name, column in self.told.items()}
            if len(reader.examples) > len(notes):
                notes[next(reversed(reader.examples))] = {name: str(cell) for name, cell in cells.items() if cell}
        settle(self.name, reader.bad, usable=len(reader.examples), skip=False)
        if not reader.examples:
            raise DataError(
                f"{self.name}: no row of {path or self.hub} belongs to it.", next_step="Choose another copy."
            )
        examples = [replace(example, notes=notes[example.id]) for example in reader.examples.values()]
        data = Dataset.of(self.name, examples, problems=reader.problems())
        return replace(data, digest=content_id([data.digest, notes])) if any(notes.values()) else data

    def _rows(self, path: Path | None, settings: Settings, progress: Progress | None) -> Iterable[Mapping[str, Any]]:
        """Read the rows of a copy, or of the Hub."""
        if path is not None and "*" in self.file:
            return list(self._rows_of_folder(path))
        if path is not None and (path / self.file).is_file():
            path /= self.file
        source = RowSource(self.hub, split=self.split) if path is None else RowSource(path=path)
        rows = open_rows(source, settings, progress=progress)
        if not self.id:
            check_columns(rows, parse_fields(self.columns, self.name))
        return rows

    def _rows_of_folder(self, folder: Path) -> Iterator[dict[str, Any]]:
        """Read JSON tables; their images are beside them, or below the folder of the copy."""
        fields = parse_fields(self.columns, self.name).columns
        pictured = {column for name in ("source", "candidates", "references") for column in fields.get(name, ())}
        for file in sorted(folder.glob(self.file)):
            table: Any = read_json(file)
            rows = [{"key": key, **row} for key, row in table.items()] if isinstance(table, dict) else table
            for row in rows:
                places = {name: row[name] for name in pictured if is_image_name(row.get(name))}
                paths = {name: next((at / path for at in (file.parent, folder) if (at / path).is_file()), folder / path)
                         for name, path in places.items()}  # fmt: skip
                images = {name: ImageInput(places[name], path) for name, path in paths.items()}
                yield {**row, **dict.fromkeys(pictured), **images, "folder": file.parent.name}


@dataclass(frozen=True)
class Grade:
    """A mean grade in the scale of a benchmark."""

    mean: float | None
    """None without a graded edit."""
    interval: Interval | None
    """95% interval; of the overall grade it takes the categories as given. None for few edits."""
    n: int
    judged: int


@dataclass(frozen=True)
class GradedEditor:
    """Grades of one editor."""

    name: str
    grades: Mapping[str, Grade]
    """`overall`, then by category."""

    @property
    def overall(self) -> Grade:
        """The mean of the grades of the categories, or of all edits."""
        return self.grades[OVERALL]


def grade(benchmark: EditorBenchmark, judgments: Mapping[str, Sequence[Judgment | None]], name: str) -> GradedEditor:
    """Return the grades of an editor.

    Args:
        benchmark: The benchmark.
        judgments: Judgments by category; None for an edit that was not made or not judged.
        name: The editor.
    """
    low, high = benchmark.scale
    by_kind: dict[str, Grade] = {}
    every, errors = list[float](), list[float]()
    for kind, group in judgments.items():
        rewards = [one.reward for one in group if one is not None]
        grades = [low + reward * (high - low) for reward in rewards if reward is not None]
        errors.append(_error(grades))
        by_kind[kind] = _grade(grades, errors[-1], len(group), len(grades))
        every += grades
    means = [part.mean for part in by_kind.values() if part.mean is not None]
    n, judged = (sum(getattr(part, what) for part in by_kind.values()) for what in ("n", "judged"))
    by_edits = benchmark.overall == "edits"
    of, error = (every, _error(every)) if by_edits else (means, sum(errors) / len(errors) ** 2)
    return GradedEditor(name, {OVERALL: _grade(of, error, n, judged), **by_kind})


def _error(grades: Sequence[float]) -> float:
    return variance(grades) / len(grades) if len(grades) >= LEAST else math.nan


def _grade(values: Sequence[float], error: float, n: int, judged: int) -> Grade:
    """Return the mean of values with the interval of its variance, which is not a number if unknown."""
    if not values:
        return Grade(None, None, n, judged)
    mean, half = fmean(values), Z95 * math.sqrt(error)
    return Grade(mean, None if math.isnan(half) else Interval(mean - half, mean + half), n, judged)


def differences(benchmark: EditorBenchmark, judge: Judge, grades: Sequence[GradedEditor]) -> tuple[str, ...]:
    """Return what keeps grades from being compared with published ones."""
    reasons, profile = [], getattr(judge, "profile", None)
    if profile is None or profile.id != load_profile(benchmark.profile)[0].id:
        reasons.append(f"the prompts are not those of the profile {benchmark.profile} (protocol {judge.protocol})")
    if benchmark.model not in judge.name:
        reasons.append(f"the model is {judge.name}, not {benchmark.model}")
    counts = {kind: part.n for kind, part in grades[0].grades.items() if kind != OVERALL}
    if counts != dict(benchmark.categories):
        of = sum(benchmark.categories.values())
        reasons.append(f"{sum(counts.values())} of {of or 'an unknown number of'} edits were asked for")
    if left := sum(editor.overall.n - editor.overall.judged for editor in grades):
        reasons.append(f"{left} of {sum(editor.overall.n for editor in grades)} edits have no grade")
    return tuple(reasons)


@lru_cache(maxsize=1)
def list_benchmarks() -> tuple[EditorBenchmark, ...]:
    """Return the benchmarks of editors of the package, sorted by name."""
    folder = resources("rewardharness.editors").joinpath("benchmarks")
    files = [file for file in folder.iterdir() if file.name.endswith(".yaml")]
    values = [read_yaml(file.read_text("utf-8"), where=file.name).value for file in files]
    return tuple(sorted((from_json(EditorBenchmark, value) for value in values), key=lambda benchmark: benchmark.name))


def find_benchmark(name: str) -> EditorBenchmark | None:
    """Return a benchmark of editors; None for other data."""
    return next((benchmark for benchmark in list_benchmarks() if benchmark.name == name), None)

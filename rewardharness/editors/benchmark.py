"""Benchmarks of editors: edits to make, the judge that grades each of them alone, a scale, and published grades.

They are declared in YAML files of this package, `benchmarks/NAME.yaml`, which are read strictly; see `EditorBenchmark`.
The overall grade is the mean over the categories of their mean grades, as in all of them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files as resources
from pathlib import Path
from statistics import fmean, variance

from rewardharness.codec import from_json
from rewardharness.data.cells import settle
from rewardharness.data.fields import ExampleReader, check_columns, parse_fields
from rewardharness.data.rows import Progress, RowSource, open_rows
from rewardharness.data.source import Dataset
from rewardharness.errors import DataError
from rewardharness.files import user_path
from rewardharness.judging.judge import Judge
from rewardharness.judging.profile_opening import load_profile
from rewardharness.judging.report import Z95
from rewardharness.library.yamlsafe import read_yaml
from rewardharness.schema import Interval, Judgment
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
    """Model of the authors' judge."""
    published: tuple[PublishedGrades, ...]
    access: str = ""
    """How to get the data, if they are not on the Hub."""
    hub: str = ""
    """Dataset on the Hub."""
    file: str = ""
    """Table in a local copy; a JSON object of rows has their keys in the column `key`."""
    where: Mapping[str, str] = field(default_factory=dict)
    """Values by column that rows must have."""
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
        if path is not None and (path / self.file).is_file():
            path /= self.file
        rows = open_rows(RowSource(self.hub) if path is None else RowSource(path=path), settings, progress=progress)
        columns = parse_fields(self.columns, self.name)
        check_columns(rows, columns)
        reader = ExampleReader(columns, text=False, least=1)
        for number, row in enumerate(rows, 1):
            if all(str(row.get(name)) == value for name, value in self.where.items()):
                reader.add(number, row)
        settle(self.name, reader.bad, usable=len(reader.examples), skip=False)
        if not reader.examples:
            raise DataError(f"{self.name}: no row of {rows.name} belongs to it.", next_step="Choose another copy.")
        return Dataset.of(self.name, reader.examples.values(), problems=reader.problems())


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
        """The mean of the grades of the categories."""
        return self.grades[OVERALL]


def grade(scale: tuple[float, float], judgments: Mapping[str, Sequence[Judgment | None]], name: str) -> GradedEditor:
    """Return the grades of an editor.

    Args:
        scale: Least and greatest grade.
        judgments: Judgments by category; None for an edit that was not made or not judged.
        name: The editor.
    """
    low, high = scale
    found: dict[str, Grade] = {}
    errors = []
    for kind, each in judgments.items():
        rewards = [one.reward for one in each if one is not None]
        grades = [low + reward * (high - low) for reward in rewards if reward is not None]
        errors.append(variance(grades) / len(grades) if len(grades) >= LEAST else math.nan)
        found[kind] = _grade(grades, errors[-1], len(each), len(grades))
    means = [each.mean for each in found.values() if each.mean is not None]
    n, judged = (sum(getattr(each, what) for each in found.values()) for what in ("n", "judged"))
    return GradedEditor(name, {OVERALL: _grade(means, sum(errors) / len(errors) ** 2, n, judged), **found})


def _grade(values: Sequence[float], error: float, n: int, judged: int) -> Grade:
    """Return the mean of values with the interval of its variance, which is not a number if unknown."""
    if not values:
        return Grade(None, None, n, judged)
    mean, half = fmean(values), Z95 * math.sqrt(error)
    return Grade(mean, None if math.isnan(half) else Interval(mean - half, mean + half), n, judged)


def differences(benchmark: EditorBenchmark, judge: Judge, grades: Sequence[GradedEditor]) -> tuple[str, ...]:
    """Return what keeps grades from being compared with published ones."""
    found, profile = [], getattr(judge, "profile", None)
    if profile is None or profile.id != load_profile(benchmark.profile)[0].id:
        found.append(f"the prompts are not those of the profile {benchmark.profile} (protocol {judge.protocol})")
    if benchmark.model not in judge.name:
        found.append(f"the model is {judge.name}, not {benchmark.model}")
    counts = {kind: each.n for kind, each in grades[0].grades.items() if kind != OVERALL}
    if counts != dict(benchmark.categories):
        found.append(f"{sum(counts.values())} of {sum(benchmark.categories.values())} edits were asked for")
    if left := sum(each.overall.n - each.overall.judged for each in grades):
        found.append(f"{left} of {sum(each.overall.n for each in grades)} edits have no grade")
    return tuple(found)


@lru_cache(maxsize=1)
def list_benchmarks() -> tuple[EditorBenchmark, ...]:
    """Return the benchmarks of editors of the package, sorted by name."""
    folder = resources("rewardharness.editors").joinpath("benchmarks")
    files = [file for file in folder.iterdir() if file.name.endswith(".yaml")]
    values = [read_yaml(file.read_text("utf-8"), where=file.name).value for file in files]
    return tuple(sorted((from_json(EditorBenchmark, value) for value in values), key=lambda each: each.name))


def find_benchmark(name: str) -> EditorBenchmark | None:
    """Return a benchmark of editors; None for other data."""
    return next((each for each in list_benchmarks() if each.name == name), None)

"""Opening of benchmark tasks: reads and checks the data, and derives items and questions."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from rewardharness.benchmark.cases import MOST_IDS, NOT_JUDGED, BenchmarkCase, DataProblem, list_problem, read_part
from rewardharness.benchmark.checks import Identities, check
from rewardharness.benchmark.items import BenchmarkData, expand, sample
from rewardharness.benchmark.ratings import Edit, read_ratings
from rewardharness.benchmark.task import RATINGS, DataLocation, Task, TaskPart
from rewardharness.data.opening import open_data
from rewardharness.data.rows import Progress, Rows, RowSource, open_rows
from rewardharness.data.source import Dataset
from rewardharness.errors import DataError, InputError
from rewardharness.files import content_id, user_path
from rewardharness.schema import LABELS, TIE
from rewardharness.settings import Settings

LOCAL = "a local copy"
"""Revision of local data."""


def open_benchmark(
    task: Task,
    settings: Settings,
    *,
    protocol: str | None = None,
    source: Path | None = None,
    revision: str = "",
    limit: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> BenchmarkData:
    """Open a task.

    Args:
        task: The task.
        settings: Locations of demo data and feedback.
        protocol: One of the task's protocols; None for its default.
        source: Local copy of the data: a table, or a folder of tables.
        revision: Branch, tag or commit to read instead of the pinned revision.
        limit: Number of units to draw, each a pair or a whole group; None for all.
        seed: Seed of the sample.
        progress: Called with the progress of reading.

    Raises:
        InputError: If the task does not offer the protocol, or an argument is invalid.
        DataError: If the data cannot be read, or a column is missing.
        MissingPackageError: If a package for reading the data is not installed.
    """
    chosen = task.choose_protocol(protocol)
    if limit is not None and limit < 1:
        raise InputError(f"--limit {limit} is too small.", next_step="Use a number of at least 1.")
    if source is not None and task.data.examples:
        raise InputError(f"{task.name} defines where its examples are.", next_step="Omit --source.")
    if revision and (source is not None or not task.data.hub):
        raise InputError("Only data on the Hub have revisions.", next_step="Omit --revision.")
    references: Mapping[str, float] = {}
    skipped, digest = None, ""
    if task.data.examples:
        dataset = open_data(task.data.examples, settings, progress=progress, skip_bad_rows=task.data.skip_bad_rows)
        parts, cases, problems, read = _read_examples(dataset, task.data.examples)
        skipped, digest = dataset.skipped_json(), dataset.digest
    else:
        parts = task.parts
        cases, problems, read, references = _read_rows(task, settings, source, revision, progress)
    checked, check_problems, same = check(cases, parts)
    builder = expand(checked, parts, chosen, same, task)
    questions, sampled = tuple(builder.questions), None
    if limit is not None:
        questions, total = sample(questions, limit, seed, attacks="exploits" in task.metrics)
        sampled = (min(limit, total), total, seed) if limit < total else None
    asked = {item for question in questions for item, _ in question.asks}
    items = {name: item for name, item in builder.items.items() if name in asked}
    known, about = (*problems, *check_problems), (sampled, references, skipped, digest)
    return BenchmarkData(task, chosen, parts, items, questions, known, read, _digest(checked, same), *about)


def _read_examples(
    dataset: Dataset, spec: str
) -> tuple[tuple[TaskPart, ...], list[BenchmarkCase], list[DataProblem], str]:
    """Convert examples to cases, with one part per kind of label and number of candidates."""
    parts: dict[str, TaskPart] = {}
    cases = []
    shared = ("instruction", "source", "candidates", "category", "references")
    for example in dataset.examples:
        kind, count = example.label_kind or "unnamed", len(example.candidates)
        name = kind if count == 2 else f"{kind}, best of {count}"
        part = parts.get(name, TaskPart(name, candidates=2, labels=LABELS[:count]))
        if example.preference == TIE and TIE not in part.labels:
            part = replace(part, labels=(*part.labels, TIE))
        parts[name] = part
        facts = {field: getattr(example, field) for field in shared}
        facts |= {"truth": example.preference, "letters": example.labels}
        excluded = "" if example.preference else "no label"
        cases.append(BenchmarkCase(id=f"{name}/{example.id}", part=name, excluded=excluded, **facts))
    unlabelled = [example.id for example in dataset.examples if example.preference is None]
    problems = [DataProblem("as read", "", problem, 1, "") for problem in dataset.problems]
    if dataset.skipped:
        # The part of a bad row depends on its label; it is only known if there is a single part.
        part_name = next(iter(parts)) if len(parts) == 1 else ""
        places = tuple(row.place for row in dataset.skipped[:MOST_IDS])
        message = "Rows that cannot be used were skipped"
        problems.append(DataProblem("bad row", part_name, message, len(dataset.skipped), NOT_JUDGED, places))
    if "@" in dataset.name and "@" not in spec:
        message = f"No revision was specified; {dataset.name} was read"
        problems.append(DataProblem("revision", "", message, 1, "compare with care"))
    if unlabelled:
        problems.append(list_problem("no label", "", "Examples have no label", unlabelled, "judged, not counted"))
    if len(unlabelled) == len(cases):
        raise DataError(f"{dataset.name} has no labeled example.", next_step="Choose data with preferences.")
    revision = dataset.name if "@" in dataset.name else LOCAL
    return tuple(parts[name] for name in sorted(parts)), cases, problems, revision


def _read_rows(
    task: Task, settings: Settings, source: Path | None, chosen: str, progress: Progress | None
) -> tuple[list[BenchmarkCase], list[DataProblem], str, Mapping[str, float]]:
    if source is None and not task.data.hub:
        access = task.access.strip().rstrip(".")
        step = f"{access}. Then pass your copy with --source." if access else "Pass your copy with --source."
        raise DataError(f"The data of {task.name} are not on the Hub.", next_step=step)
    cases: list[BenchmarkCase] = []
    problems: list[DataProblem] = []
    revisions: dict[str, None] = {}
    tables: dict[Path, str] = {}
    human: Mapping[Edit, float] = {}
    references: Mapping[str, float] = {}
    if task.label is not None and task.label.rule == "raters":
        assert source is not None
        path = user_path(source)
        ratings = read_ratings((path if path.is_dir() else path.parent) / RATINGS)
        human = ratings.human()
        between = ratings.between_humans().items()
        references = {name: correlation.mean for name, correlation in between if correlation.mean is not None}
        problems += [DataProblem("rating not understood", "", cell, 1, "edit left out") for cell in ratings.broken]
    for part in task.parts:
        rows = open_rows(_source(task.data, part, source, chosen), settings, progress=progress)
        revisions[rows.revision] = None
        other = tables.setdefault(rows.lines, part.name)
        if other != part.name and not set(part.where) <= set(rows.columns):
            message = f"{task.name}: the parts {other} and {part.name} have the same rows, as the data have neither a"
            columns = " and ".join(part.where) or "that tells them apart"
            step = "Choose another revision, or a local copy with --source."
            raise DataError(f"{message} config or folder {part.config!r} nor a column {columns}.", next_step=step)
        problems += [DataProblem("as read", part.name, note, 1, "") for note in rows.notes]
        part_cases, row_problems = read_part(task, part, rows.columns, rows, human)
        cases += part_cases
        problems += [*row_problems, *_missing_helpers(task, part, rows)]
    revision = next(iter(revisions)) if len(revisions) == 1 else ", ".join(name[:12] for name in revisions)
    problems += _about_revision(task, revision, local=source is not None)
    return cases, problems, LOCAL if source is not None else revision, references


def _source(data: DataLocation, part: TaskPart, source: Path | None, revision: str) -> RowSource:
    """Return the location of the rows of a part: a config, a folder or file of that name, or all rows to filter."""
    if source is None:
        config, optional = part.config or part.file, bool(part.where or part.file)
        revision = revision or data.revision
        return RowSource(hub=data.hub, config=config, split=part.split, revision=revision, optional=optional)
    path = user_path(source)
    if path.is_dir():
        for name in (part.file, part.config):
            if name and (path / name).exists():
                return RowSource(path=path / name)
        return RowSource(path=path, config=part.config, split=part.split, optional=bool(part.where))
    return RowSource(path=path)


def _missing_helpers(task: Task, part: TaskPart, rows: Rows) -> list[DataProblem]:
    """Report missing columns that are used for metrics only."""
    assert task.columns is not None
    optional = [task.columns.category, task.columns.dimension, *task.columns.editors]
    missing = [name for name in optional if name and name not in rows.columns]
    if not missing:
        return []
    message = f"The data have no column {', '.join(missing)}"
    return [DataProblem("missing column", part.name, message, rows.count, "not counted by it")]


def _about_revision(task: Task, revision: str, *, local: bool) -> list[DataProblem]:
    pinned = task.data.revision
    if local:
        pins = f"; the declaration pins {pinned}" if pinned else ""
        message = f"The revision of a local copy is not known{pins}; its tables have the digest {revision[:12]}."
    elif not pinned:
        message = f"No revision is pinned; {revision} was read."
    elif revision != pinned:
        message = f"Revision {revision} was read; the declaration pins {pinned}."
    else:
        return []
    message = f"{message} {task.data.revision_note}".rstrip()
    return [DataProblem("revision", "", message, 1, "compare with care")]


def _digest(cases: tuple[BenchmarkCase, ...], same: Identities) -> str:
    rows = [
        [
            *(case.id, case.instruction, case.truth, case.group, list(case.letters), case.dimension),
            [same[media] for media in case.media],
            *[same[image] for image in case.references],
        ]
        for case in cases
    ]
    return content_id(sorted(rows, key=lambda row: str(row[0])))

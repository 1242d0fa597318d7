"""Opens a task: reads its data, checks them, and puts together what is judged and asked."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rewardharness.benchmark.cases import NOT_JUDGED, BenchmarkCase, DataProblem, read_part
from rewardharness.benchmark.checks import Identities, check
from rewardharness.benchmark.items import BenchmarkData, expand, needed, sample
from rewardharness.benchmark.ratings import Edit, Ratings, read_ratings
from rewardharness.benchmark.task import RATINGS, DataLocation, Task, TaskPart
from rewardharness.data.opening import open_data
from rewardharness.data.rows import Progress, Rows, RowSource, open_rows
from rewardharness.data.source import Dataset
from rewardharness.errors import DataError, InputError
from rewardharness.files import content_id
from rewardharness.schema import LABELS, TIE, Example
from rewardharness.settings import Settings

LOCAL = "a local copy"
"""What stands for the revision of data on this disk."""


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
        settings: Where this project's own data lie.
        protocol: One of the task's protocols; None for its usual one.
        source: A local copy of its data: a table, or a folder of tables.
        revision: Branch, tag or commit to read instead of the one that is pinned.
        limit: Units to draw, a unit being a pair or a whole group; None for all.
        seed: Of the draw.
        progress: Told how reading goes on, where it takes long.

    Raises:
        InputError: If the task does not offer the protocol, or a number makes no sense.
        DataError: If the data cannot be read, or lack a column.
        MissingPackageError: If a package that is needed to read them is not installed.
    """
    chosen = task.choose_protocol(protocol)
    if limit is not None and limit < 1:
        raise InputError(f"--limit {limit} leaves nothing to judge.", next_step="Give a number of at least 1.")
    if source is not None and task.data.examples:
        raise InputError(f"{task.name} says where its examples are.", next_step="Leave --source out.")
    if revision and (source is not None or not task.data.hub):
        raise InputError("Only data on the Hub have revisions.", next_step="Leave --revision out.")
    references: Mapping[str, float] = {}
    skipped, digest = None, ""
    if task.data.examples:
        dataset = open_data(task.data.examples, settings, progress=progress, skip_bad_rows=task.data.skip_bad_rows)
        parts, cases, problems, read = _read_examples(dataset, task.data.examples)
        skipped, digest = dataset.skipped_json(), dataset.digest
    else:
        parts = task.parts
        cases, problems, read, references = _read_rows(task, settings, _Copy(source, revision), progress)
    checked, found, same = check(cases, parts)
    sheet = expand(checked, parts, chosen, same, task)
    questions, sampled = tuple(sheet.questions), None
    if limit is not None:
        questions, total = sample(questions, limit, seed)
        sampled = (min(limit, total), total, seed) if limit < total else None
    return BenchmarkData(
        task,
        chosen,
        parts,
        needed(sheet.items, questions),
        questions,
        (*problems, *found),
        read,
        _digest(checked, same),
        sampled,
        references,
        skipped,
        digest,
    )


def _read_examples(
    dataset: Dataset, spec: str
) -> tuple[tuple[TaskPart, ...], list[BenchmarkCase], list[DataProblem], str]:
    """Take examples as cases; every kind of label and number of candidates is a part of its own."""
    parts: dict[str, TaskPart] = {}
    cases = []
    unlabelled: list[str] = []
    for example in dataset.examples:
        name = _part_name(example)
        known = parts.get(name, TaskPart(name, candidates=2, labels=LABELS[: len(example.candidates)]))
        if example.preference == TIE and TIE not in known.labels:
            known = replace(known, labels=(*known.labels, TIE))
        parts[name] = known
        if example.preference is None:
            unlabelled.append(example.id)
        cases.append(
            BenchmarkCase(
                f"{name}/{example.id}",
                name,
                example.instruction,
                example.source,
                example.candidates,
                example.preference,
                letters=example.labels,
                category=example.category,
                excluded="" if example.preference else "no label",
            )
        )
    problems = [DataProblem("as read", "", problem, 1, "") for problem in dataset.problems]
    if dataset.skipped:
        # A bad row has no label to tell its part; where there is one part alone, it is counted there.
        part = next(iter(parts)) if len(parts) == 1 else ""
        places = tuple(each.place for each in dataset.skipped[:20])
        message = "Rows that cannot be used were skipped"
        problems.append(DataProblem("bad row", part, message, len(dataset.skipped), NOT_JUDGED, places))
    if "@" in dataset.name and "@" not in spec:
        message = f"No revision was named; {dataset.name} was read"
        problems.append(DataProblem("revision", "", message, 1, "compare with care"))
    if unlabelled:
        message = f"Examples have no label: {', '.join(unlabelled[:3])}"
        problems.append(
            DataProblem("no label", "", message, len(unlabelled), "judged, not counted", tuple(unlabelled[:20]))
        )
    if len(unlabelled) == len(cases):
        raise DataError(f"{dataset.name} has no labelled example.", next_step="Name data with preferences.")
    revision = dataset.name if "@" in dataset.name else LOCAL
    return tuple(parts[name] for name in sorted(parts)), cases, problems, revision


def _part_name(example: Example) -> str:
    kind = example.label_kind or "unnamed"
    count = len(example.candidates)
    return kind if count == 2 else f"{kind}, best of {count}"


@dataclass(frozen=True)
class _Copy:
    """Which copy of the data is meant."""

    source: Path | None
    revision: str


def _read_rows(
    task: Task, settings: Settings, copy: _Copy, progress: Progress | None
) -> tuple[list[BenchmarkCase], list[DataProblem], str, Mapping[str, float]]:
    source = copy.source
    if source is None and not task.data.hub:
        access = task.access.strip().rstrip(".")
        step = f"{access}. Then name your copy with --source." if access else "Name your copy with --source."
        raise DataError(f"The data of {task.name} are not on the Hub.", next_step=step)
    cases: list[BenchmarkCase] = []
    problems: list[DataProblem] = []
    revisions: dict[str, None] = {}
    human: Mapping[Edit, float] = {}
    references: Mapping[str, float] = {}
    if task.label is not None and task.label.rule == "raters":
        ratings = _ratings(task, source)
        human = ratings.human()
        references = {name: each.mean for name, each in ratings.between_humans().items() if each.mean is not None}
        problems += [DataProblem("rating not understood", "", str(cell), 1, "edit left out") for cell in ratings.broken]
    for part in task.parts:
        rows = open_rows(_source(task.data, part, copy), settings, progress=progress)
        revisions[rows.revision] = None
        problems += [DataProblem("as read", part.name, note, 1, "") for note in rows.notes]
        found, odd = read_part(task, part, rows.columns, rows, human)
        cases += found
        problems += [*odd, *_missing_helpers(task, part, rows)]
    revision = next(iter(revisions)) if len(revisions) == 1 else ", ".join(each[:12] for each in revisions)
    problems += _about_revision(task, revision, local=source is not None)
    return cases, problems, LOCAL if source is not None else revision, references


def _source(data: DataLocation, part: TaskPart, copy: _Copy) -> RowSource:
    """Where the rows of a part lie. In a local copy, the folder of a config does as well as the config."""
    if copy.source is None:
        revision = copy.revision or data.revision
        return RowSource(hub=data.hub, config=part.config, split=part.split, revision=revision)
    path = copy.source.expanduser()
    if path.is_dir():
        for name in (part.file, part.config):
            if name and (path / name).exists():
                return RowSource(path=path / name)
        if part.where:
            return RowSource(path=path)
        return RowSource(path=path, config=part.config, split=part.split)
    return RowSource(path=path)


def _ratings(task: Task, source: Path | None) -> Ratings:
    assert source is not None
    path = source.expanduser()
    return read_ratings((path if path.is_dir() else path.parent) / RATINGS)


def _missing_helpers(task: Task, part: TaskPart, rows: Rows) -> list[DataProblem]:
    """Name the columns that are not needed to judge, but to count by."""
    assert task.columns is not None
    wanted = [task.columns.category, task.columns.dimension, *task.columns.editors]
    missing = [name for name in wanted if name and name not in rows.columns]
    if not missing:
        return []
    message = f"The data have no column {', '.join(missing)}"
    return [DataProblem("missing column", part.name, message, rows.count, "not counted by it")]


def _about_revision(task: Task, revision: str, *, local: bool) -> list[DataProblem]:
    note = f" {task.data.revision_note}" if task.data.revision_note else ""
    if local:
        pinned = f"; the declaration pins {task.data.revision}" if task.data.revision else ""
        message = f"The revision of a local copy is not known{pinned}; its tables have the digest {revision[:12]}."
        return [DataProblem("revision", "", message + note, 1, "compare with care")]
    if not task.data.revision:
        message = f"No revision is pinned; {revision} was read.{note}"
        return [DataProblem("revision", "", message, 1, "compare with care")]
    if revision != task.data.revision:
        message = f"Revision {revision} was read; the declaration pins {task.data.revision}.{note}"
        return [DataProblem("revision", "", message, 1, "compare with care")]
    return []


def _digest(cases: tuple[BenchmarkCase, ...], same: Identities) -> str:
    rows = [
        [
            case.id,
            case.instruction,
            case.truth,
            case.group,
            list(case.letters),
            case.dimension,
            [same[image] for image in (case.source, *case.candidates)],
        ]
        for case in cases
    ]
    return content_id(sorted(rows, key=lambda row: str(row[0])))

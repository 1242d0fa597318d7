"""Opens a task: reads its data, checks them, and puts together what is judged and asked."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from rewardharness.benchmark.cases import Case, Problem, read_part
from rewardharness.benchmark.checks import Identities, check
from rewardharness.benchmark.items import Exam, expand, needed, sample
from rewardharness.benchmark.ratings import Edit, Ratings, read_ratings
from rewardharness.benchmark.task import RATINGS, Part, Place, Task
from rewardharness.data.folder import read_folder
from rewardharness.data.rows import Progress, Rows, RowSource, open_rows
from rewardharness.errors import DataError, InputError
from rewardharness.files import content_id
from rewardharness.schema import LABELS, TIE, Example
from rewardharness.settings import Settings

LOCAL = "a local copy"
"""What stands for the revision of data on this disk."""


def open_exam(
    task: Task,
    settings: Settings,
    *,
    protocol: str | None = None,
    source: Path | None = None,
    limit: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Exam:
    """Open a task.

    Args:
        task: The task.
        settings: Where this project's own data lie.
        protocol: One of the task's protocols; None for its usual one.
        source: A local copy of its data: a table, or a folder of tables.
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
    if source is not None and task.data.folder:
        raise InputError(f"{task.name} is a folder already.", next_step="Leave --source out.")
    references: Mapping[str, float] = {}
    if task.data.folder:
        parts, cases, problems, revision = _read_folder(Path(task.data.folder))
    else:
        parts = task.parts
        cases, problems, revision, references = _read_rows(task, settings, source, progress)
    checked, found, same = check(cases, parts)
    sheet = expand(checked, parts, chosen, same, task)
    questions, sampled = tuple(sheet.questions), None
    if limit is not None:
        questions, total = sample(questions, limit, seed)
        sampled = (min(limit, total), total, seed) if limit < total else None
    return Exam(
        task,
        chosen,
        parts,
        needed(sheet.items, questions),
        questions,
        (*problems, *found),
        revision,
        _digest(checked, same),
        sampled,
        references,
    )


def _read_folder(folder: Path) -> tuple[tuple[Part, ...], list[Case], list[Problem], str]:
    """Read a folder; every kind of label and number of candidates is a part of its own."""
    dataset = read_folder(folder)
    parts: dict[str, Part] = {}
    cases = []
    unlabelled: list[str] = []
    for example in dataset.examples:
        name = _part_name(example)
        known = parts.get(name, Part(name, candidates=2, labels=LABELS[: len(example.candidates)]))
        if example.preference == TIE and TIE not in known.labels:
            known = replace(known, labels=(*known.labels, TIE))
        parts[name] = known
        if example.preference is None:
            unlabelled.append(example.id)
        cases.append(
            Case(
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
    problems = [Problem("as read", "", problem, 1, "") for problem in dataset.problems]
    if unlabelled:
        message = f"Examples have no label: {', '.join(unlabelled[:3])}"
        problems.append(
            Problem("no label", "", message, len(unlabelled), "judged, not counted", tuple(unlabelled[:20]))
        )
    if len(unlabelled) == len(cases):
        raise DataError(f"{folder} has no labelled example.", next_step="Name a folder with preferences.")
    return tuple(parts[name] for name in sorted(parts)), cases, problems, LOCAL


def _part_name(example: Example) -> str:
    kind = example.label_kind or "unnamed"
    count = len(example.candidates)
    return kind if count == 2 else f"{kind}, best of {count}"


def _read_rows(
    task: Task, settings: Settings, source: Path | None, progress: Progress | None
) -> tuple[list[Case], list[Problem], str, Mapping[str, float]]:
    if source is None and not task.data.hub:
        step = f"{task.access} Then name your copy with --source."
        raise DataError(f"The data of {task.name} are not on the Hub.", next_step=step)
    cases: list[Case] = []
    problems: list[Problem] = []
    revisions: dict[str, None] = {}
    human: Mapping[Edit, float] = {}
    references: Mapping[str, float] = {}
    if task.label is not None and task.label.rule == "raters":
        ratings = _ratings(task, source)
        human = ratings.human()
        references = {name: each.mean for name, each in ratings.between_humans().items() if each.mean is not None}
        problems += [Problem("rating not understood", "", str(cell), 1, "edit left out") for cell in ratings.broken]
    for part in task.parts:
        rows = open_rows(_source(task.data, part, source), settings, progress=progress)
        revisions[rows.revision] = None
        problems += [Problem("as read", part.name, note, 1, "") for note in rows.notes]
        found, odd = read_part(task, part, rows.columns, rows, human)
        cases += found
        problems += [*odd, *_missing_helpers(task, part, rows)]
    revision = next(iter(revisions)) if len(revisions) == 1 else ", ".join(each[:12] for each in revisions)
    problems += _about_revision(task, revision, local=source is not None)
    return cases, problems, LOCAL if source is not None else revision, references


def _source(data: Place, part: Part, source: Path | None) -> RowSource:
    """Where the rows of a part lie. In a local copy, the folder of a config does as well as the config."""
    if source is None:
        return RowSource(hub=data.hub, config=part.config, split=part.split, revision=data.revision)
    path = source.expanduser()
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


def _missing_helpers(task: Task, part: Part, rows: Rows) -> list[Problem]:
    """Name the columns that are not needed to judge, but to count by."""
    assert task.columns is not None
    wanted = [task.columns.category, task.columns.dimension, *task.columns.editors]
    missing = [name for name in wanted if name and name not in rows.columns]
    if not missing:
        return []
    message = f"The data have no column {', '.join(missing)}"
    return [Problem("missing column", part.name, message, rows.count, "not counted by it")]


def _about_revision(task: Task, revision: str, *, local: bool) -> list[Problem]:
    note = f" {task.data.revision_note}" if task.data.revision_note else ""
    if local:
        pinned = f"; the declaration pins {task.data.revision}" if task.data.revision else ""
        message = f"The revision of a local copy is not known{pinned}; its tables have the digest {revision[:12]}."
        return [Problem("revision", "", message + note, 1, "compare with care")]
    if not task.data.revision:
        message = f"No revision is pinned; {revision} was read.{note}"
        return [Problem("revision", "", message, 1, "compare with care")]
    if revision != task.data.revision:
        message = f"Revision {revision} was read; the declaration pins {task.data.revision}.{note}"
        return [Problem("revision", "", message, 1, "compare with care")]
    return []


def _digest(cases: tuple[Case, ...], same: Identities) -> str:
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

"""Leaderboards: rows of benchmarks and arenas in a dataset repository on the Hub, one file per published run.

A repository may hold runs of anyone, so everything that is read from it is untrusted, and rows that do not fit are
counted and left out. Rows compare only within a task, its data and protocol, which the table therefore names.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rewardharness.benchmark.figures import figure
from rewardharness.benchmark.numbers import GRADE, RATING, NumberFacts
from rewardharness.benchmark.published import Setting, compare_published
from rewardharness.benchmark.result import BenchmarkResult, BenchmarkRow
from rewardharness.codec import ValidationError, decode, from_json, to_json
from rewardharness.errors import InputError
from rewardharness.files import content_id
from rewardharness.hub.errors import MissingRepoError
from rewardharness.hub.pushing import head_for_push
from rewardharness.hub.repository import Access, Repo
from rewardharness.report import Cell, Mark, Section, Table, Text, Value
from rewardharness.schema import Usage

FOLDER = "rows"
PREFIX = "leaderboard:"
"""May precede the repository, as in `leaderboard:org/name`."""
CATEGORY = "category"
"""Metric of the accuracy on the edits of one category, of all parts together."""
MAX_FILES, MAX_FILE, MAX_ROWS = 2000, 1_000_000, 20_000
"""Maximum number of files, bytes of one, and rows that are read."""
_STEP = "Publish a finished run to it; on the command line: rh benchmark publish RUN ORG/NAME"
_CARD = """---
tags: [rewardharness, leaderboard, image-editing]
configs:
- config_name: default
  data_files: {folder}/*.jsonl
---
# Leaderboard of judges and editors of images

Each line of the table is one number of a benchmark or arena, with its interval and coverage. `rh benchmark publish`
and `rh arena --push` add lines.
Read it with `rh benchmark leaderboard {repo}`. Rows compare only within a task, protocol and part.
"""


@dataclass(frozen=True, kw_only=True)
class LeaderboardRow:
    """One number of one judge, or of one editor by a judge."""

    task: str
    task_protocol: str
    data: str
    """Digest of the data that were judged, or of the sample."""
    part: str
    metric: str
    name: str
    """What is counted, in words."""
    judge: str
    judge_protocol: str
    judge_revision: str
    library: str
    library_id: str
    value: float
    low: float | None
    high: float | None
    """Bounds of the 95% interval; None without one."""
    n: int
    judged: int
    """Of the n, how many were judged."""
    dimension: str = ""
    labels: tuple[str, ...] = ()
    """The label set."""
    usage: Usage = Usage()
    """Of all judgments of the judge in its run."""
    judgments: int = 0
    """Number of these judgments; 0 if unknown."""
    date: str
    """Day of the publication, as in `2026-01-31`."""
    editor: str = ""
    """The editor that is rated; empty for a number of the judge."""

    @property
    def board(self) -> tuple[str, ...]:
        """What rows have in common that compare."""
        judge = (self.judge, self.judge_protocol, self.judge_revision, self.library_id) if self.editor else ()
        return self.task, self.task_protocol, self.data, self.part, self.dimension, self.name, *judge

    @property
    def title(self) -> str:
        """What it measures, in words."""
        part = ", ".join(filter(None, (self.part, self.dimension)))
        if self.editor:
            by = f"{self.judge}, {self.judge_protocol}; {self.library}"
            return f"{self.task}, {part}: {self.name} by {by} (data {self.data})"
        return f"{self.task}, protocol {self.task_protocol}, {part}: {self.name} (data {self.data})"

    @property
    def cost(self) -> tuple[float, float] | None:
        """Requests and tokens of a judgment; None if unknown."""
        usage, n = self.usage, self.judgments
        return (usage.calls / n, (usage.input_tokens + usage.output_tokens) / n) if n else None

    @property
    def number(self) -> NumberFacts:
        """What is measured, and its value."""
        interval = None if self.low is None or self.high is None else (self.low, self.high)
        names = ("part", "metric", "name", "value", "n", "dimension")
        return NumberFacts(**{name: getattr(self, name) for name in names}, interval=interval)


@dataclass(frozen=True)
class Leaderboard:
    """The rows of a repository."""

    repo: str
    rows: tuple[LeaderboardRow, ...]
    """The best first, within what compares; of the same judge and Library the newest only."""
    skipped: int = 0
    """Files that could not be read."""


def rows_of(result: BenchmarkResult, day: str | None = None) -> tuple[LeaderboardRow, ...]:
    """Return the rows of a result; numbers without a value, or without a judgment, have none."""
    day = day or datetime.now().strftime("%Y-%m-%d")
    data = content_id([result.digest, result.sampled])[:12]
    return tuple(
        LeaderboardRow(
            task=result.task.name,
            task_protocol=result.protocol,
            data=data,
            judge=row.judge_label,
            judge_protocol=row.protocol,
            judge_revision=row.revision,
            library=row.library,
            library_id=row.library_id,
            low=interval[0] if interval else None,
            high=interval[1] if interval else None,
            usage=row.usage,
            judgments=row.judged,
            date=day,
            **facts,
        )
        for row in result.rows
        for interval, facts in _measured(row)
    )


def _measured(row: BenchmarkRow) -> Iterable[tuple[tuple[float, float] | None, dict[str, Any]]]:
    """Return interval and facts of the numbers of a judge, and of its accuracy by category."""
    for number in row.numbers:
        if number.value is not None and number.judged:
            names = ("part", "metric", "name", "dimension", "labels", "value", "n", "judged")
            yield number.interval, {name: getattr(number, name) for name in names}
    for name, share in (row.by_category or {}).items():
        if name and share.accuracy is not None:
            facts = {"part": "all parts", "metric": CATEGORY, "name": f"category {name}", "value": share.accuracy}
            yield share.interval, {**facts, "n": share.n, "judged": share.judged}


ORDERS: Mapping[str, tuple[str, Callable[[LeaderboardRow], float]]] = {
    "accuracy": ("Accuracy", lambda row: -row.value),
    "cost": ("Cost", lambda row: float("inf") if row.cost is None else row.cost[1] + row.cost[0] / 1e6),
    "coverage": ("Coverage", lambda row: -row.judged / row.n if row.n else 0.0),
}
"""Title and key of each order of a leaderboard; the best comes first."""


def leaderboard_section(rows: Iterable[LeaderboardRow], order: str = "accuracy") -> Section:
    """Return rows as a table for each group that compares, with published numbers beside them.

    Args:
        rows: The rows.
        order: One of `ORDERS`. Published numbers have no cost and no coverage, and come last but by accuracy.
    """
    groups: dict[tuple[str, ...], list[LeaderboardRow]] = {}
    for row in rows:
        groups.setdefault(row.board, []).append(row)
    note = "Rows compare only within a table. Published rows that differ were measured with another protocol."
    return Section("leaderboard", "", (*(_board(group, order) for group in groups.values()), Text((note,), "note")))


def _board(rows: list[LeaderboardRow], order: str) -> Table:
    first, key = rows[0], ORDERS[order][1]
    measured = (first.task, first.part, first.metric, first.task_protocol, first.dimension, first.labels)
    setting = Setting(*measured, n=first.n // (2 if first.task_protocol == "both-orders" else 1))
    values = [number for row in rows for number in (row.value, row.low, row.high) if number is not None]
    ends = (min(values) - 1, max(values) + 1) if first.editor else (-1.0 if first.metric == "spearman" else 0.0, 1.0)
    cells: list[tuple[float, tuple[Cell, ...]]] = [(key(row), _measured_cells(row, ends)) for row in rows]
    for row in compare_published(setting):
        differs = Mark("same protocol", True) if row.same_protocol else Mark("differs", False, "; ".join(row.differs))
        value, n = Value(row.printed, row.value), "-" if row.n is None else f"n {row.n:,}"
        source = f"published: {row.table}, {row.source}"
        cells.append((-row.value if order == "accuracy" else float("inf"), (row.judge, value, n, "-", differs, source)))
    unit = "Correct, % [95% CI]" if first.number.is_share else "Value [95% CI]"
    unit = {RATING: "Rating [95% interval]", GRADE: "Grade [95% CI]"}.get(first.metric, unit)
    head = ("Editor" if first.editor else "Judge", unit, "Judged", "Cost of a judgment", "Protocol", "Source")
    ordered = sorted(cells, key=lambda cell: cell[0])
    return Table(head, tuple(row for _, row in ordered), first.title, "leaderboard")


def _measured_cells(row: LeaderboardRow, ends: tuple[float, float]) -> tuple[Cell, ...]:
    value = Value(figure(row.number), row.value, row.number.interval, None, *ends)
    calls, tokens = row.cost or (0.0, 0.0)
    cost = f"{calls:.3g} requests, {tokens:,.0f} tokens" if calls else "no request" if row.cost else "unknown"
    return (
        row.editor or f"{row.judge}, {row.library}",
        value,
        f"{row.judged:,} of {row.n:,}",
        cost,
        row.judge_protocol,
        f"measured, {row.date}",
    )


def publish(rows: Iterable[LeaderboardRow], repo: str, access: Access, *, private: bool = False) -> str:
    """Add rows to a leaderboard in one commit; the repository is created if it does not exist.

    Returns:
        The address of the leaderboard.

    Raises:
        InputError: If there are no rows.
        HubError: If the Hub rejects the request.
    """
    lines = [json.dumps(to_json(row), ensure_ascii=False) for row in rows]
    if not lines:
        raise InputError("The run has no numbers to publish.", next_step="Finish it: run the same command again.")
    hub = Repo(repo.removeprefix(PREFIX), access, "dataset")
    head, _ = head_for_push(hub, private=private, dry_run=False)
    text = "\n".join(lines) + "\n"
    files: dict[str, bytes] = {f"{FOLDER}/{content_id(lines)[:16]}.jsonl": text.encode()}
    if head is None or not any(path.startswith(f"{FOLDER}/") for path in hub.tree(head.commit)):
        files["README.md"] = _CARD.format(folder=FOLDER, repo=hub.name).encode()
    hub.commit(files, (), head.commit if head else None, (f"Add {len(lines)} rows", ""))
    return hub.page


def read_leaderboard(repo: str, access: Access) -> Leaderboard:
    """Read a leaderboard.

    Args:
        repo: `org/name` or `leaderboard:org/name`.
        access: How the Hub is reached.

    Raises:
        HubError: If the Hub rejects the request.
        InputError: If the repository is no leaderboard.
    """
    hub = Repo(repo.removeprefix(PREFIX), access, "dataset")
    try:
        commit = hub.head().commit
    except MissingRepoError as error:
        raise InputError(error.message, next_step=_STEP) from None
    tree = hub.tree(commit)
    wanted = sorted(path for path in tree if path.startswith(f"{FOLDER}/") and path.endswith(".jsonl"))
    small = [path for path in wanted if tree[path].size <= MAX_FILE][:MAX_FILES]
    rows: list[LeaderboardRow] = []
    skipped = len(wanted) - len(small)
    for data in hub.download(commit, small, tree, [f"{FOLDER}/*.jsonl"]).values():
        try:
            rows += [from_json(LeaderboardRow, decode(line)) for line in data.splitlines() if line.strip()]
        except (ValidationError, ValueError):
            skipped += 1
    if not wanted:
        raise InputError(f"{hub.name} is no leaderboard: it has no folder {FOLDER}.", next_step=_STEP)
    known = sorted(rows, key=lambda row: row.date)
    newest = {(row.board, row.editor, row.judge, row.judge_protocol, row.library_id): row for row in known}
    ranked = sorted(newest.values(), key=lambda row: (row.board, -row.value, row.judge))
    return Leaderboard(hub.name, tuple(ranked[:MAX_ROWS]), skipped)

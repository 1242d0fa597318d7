"""Published numbers that are shown beside those of a run, each with its differences from the run.

Label sets, treatment of ties, n, presentation orders and revisions of the data change a number, not the
judge. A published row is therefore shown with `same protocol`, or with what differs and what is not known.

The rows and their sources are in `published.yaml`, which is read strictly.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from importlib.resources import files as resources
from typing import Any, Literal

from rewardharness.benchmark.task import METRICS, PROTOCOLS, TRUTHS
from rewardharness.codec import ValidationError, from_json
from rewardharness.errors import DataError, LibraryError
from rewardharness.library.yamlsafe import read_yaml

FILE = "published.yaml"
"""File of the rows in this package."""

SAME = "same protocol"
"""Mark of a row without known differences."""

MEAN = "mean"
"""Metric of a published mean over several tasks, which cannot be compared with a run of one task."""

COMPARABLE = frozenset({"exact", "forced", "tuned"})
"""Metrics that are shown beside each other, with their differences: all are accuracies over the same pairs."""

_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Setting:
    """How a number was measured. Empty, None and 0 mean unknown."""

    task: str
    part: str
    metric: str
    """One of `METRICS`, or `MEAN`."""
    protocol: str = ""
    """One of `PROTOCOLS`."""
    dimension: str = ""
    """Empty if the benchmark has one dimension."""
    labels: tuple[str, ...] = ()
    """The label set."""
    orders: Literal[0, 1, 2] = 0
    """Number of presentation orders."""
    n: int | None = None
    """Pairs, groups or edits."""
    revision: str = ""
    """Revision of the data: a commit, or a description."""


@dataclass(frozen=True, kw_only=True)
class PublishedFigure:
    """A published number and where it is from."""

    judge: str
    value: float
    """A share in [0, 1], or a correlation in [-1, 1]."""
    printed: str
    """As printed, such as 53.54."""
    inferred: bool
    """Whether n was not published and is derived from the fractions."""
    table: str
    source: str
    url: str
    remarks: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Published(PublishedFigure):
    """A published number with its setting."""

    setting: Setting


@dataclass(frozen=True, kw_only=True)
class PublishedRow(PublishedFigure):
    """A published number as a report shows it: with its differences from the number of a run."""

    n: int | None
    n_inferred: bool
    """As `inferred`."""
    metric: str
    protocol: str
    same_protocol: bool
    """Whether no difference is known."""
    mark: str
    """The differences, or `same protocol`, and what is not known."""
    differs: tuple[str, ...]
    """Known differences."""
    unknown: tuple[str, ...]
    """What was not published, or is not known of the run."""


def compare_published(run: Setting, rows: Sequence[Published] | None = None) -> tuple[PublishedRow, ...]:
    """Find the published numbers of the same task, part and dimension, with the same or a `COMPARABLE` metric.

    Args:
        run: How the number of the run was measured.
        rows: The published numbers; None for those of the package.

    Returns:
        The published numbers: same protocol first, then by decreasing value.
    """
    here = (run.task, run.part, run.dimension)
    published = [
        _compare(run, row)
        for row in (read_published() if rows is None else rows)
        if (row.setting.task, row.setting.part, row.setting.dimension) == here
        and (row.setting.metric == run.metric or {row.setting.metric, run.metric} <= COMPARABLE)
    ]
    return tuple(sorted(published, key=lambda row: (not row.same_protocol, -row.value, row.judge)))


def _compare(run: Setting, row: Published) -> PublishedRow:
    """Return a published number with what differs, and what is not known on either side."""
    theirs = row.setting
    differs: list[str] = []
    unknown: list[str] = []
    for name, ours, other in (
        ("metric", run.metric, theirs.metric),
        ("protocol", run.protocol, theirs.protocol),
        ("labels", "/".join(run.labels), "/".join(theirs.labels)),
        ("orders", run.orders, theirs.orders),
        ("n", run.n, theirs.n),
        ("revision of the data", _commit(run.revision), _commit(theirs.revision)),
    ):
        if ours and other:
            note = " (derived)" if name == "n" and row.inferred else ""
            differs += [f"{name}: {other}{note}, not {ours}"] if ours != other else []
        elif name == "revision of the data" and theirs.revision:
            unknown.append(f"{name}, theirs is {theirs.revision}")
        elif name != "orders" or "pointwise" not in (run.protocol, theirs.protocol):
            unknown.append(name)
    mark = "; ".join(differs) or SAME
    return PublishedRow(
        **{field.name: getattr(row, field.name) for field in fields(PublishedFigure)},
        n=theirs.n,
        n_inferred=row.inferred,
        metric=theirs.metric,
        protocol=theirs.protocol,
        same_protocol=not differs,
        mark=f"{mark} (not known: {', '.join(unknown)})" if unknown else mark,
        differs=tuple(differs),
        unknown=tuple(unknown),
    )


def _commit(revision: str) -> str:
    return revision if _COMMIT.fullmatch(revision) else ""


@lru_cache(maxsize=1)
def read_published() -> tuple[Published, ...]:
    """Read the published numbers of the package."""
    text = resources("rewardharness.benchmark").joinpath(FILE).read_text(encoding="utf-8")
    return parse_published(text, FILE)


@dataclass(frozen=True)
class _Source:
    title: str
    url: str


@dataclass(frozen=True)
class _Column(Setting):
    inferred: bool = False
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Cell:
    value: float
    n: int | None = None
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Table:
    name: str
    source: str
    scale: Literal[1, 100]
    columns: Mapping[str, _Column]
    rows: Mapping[str, Mapping[str, float | _Cell]]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class _File:
    sources: Mapping[str, _Source]
    tables: tuple[_Table, ...]


def parse_published(text: str, where: str) -> tuple[Published, ...]:
    """Read published numbers.

    Args:
        text: YAML; its format is described at the top of `published.yaml`.
        where: The file, for messages.

    Raises:
        DataError: If a key is unknown or missing, a value has the wrong type, or a number is out of range.
    """
    try:
        document = read_yaml(text, where=where)
        file = from_json(_File, document.value)
        rows = [row for number, _ in enumerate(file.tables) for row in _table(file, number, document.text)]
        _refuse_duplicates(rows)
    except LibraryError as error:
        raise DataError(error.message, next_step=error.next_step) from None
    except (ValidationError, ValueError) as error:
        message = error.message if isinstance(error, ValidationError) else str(error)
        next_step = "Correct the file; its first lines describe the format."
        raise DataError(f"{where}: {message}.", next_step=next_step) from None
    return tuple(rows)


def _table(file: _File, number: int, printed: Any) -> list[Published]:
    """Return the rows of a table. `printed` returns the text of a scalar by the path of its keys.

    Raises:
        ValueError: If a value is not allowed.
    """
    table = file.tables[number]
    source = file.sources.get(table.source)
    if source is None:
        raise ValueError(f"{table.name}: unknown source {table.source!r}")
    for key, column in table.columns.items():
        _check_column(column, f"{table.name}, column {key}")
    rows = []
    for judge, cells in table.rows.items():
        for key, content in cells.items():
            place, path = f"{table.name}, {judge}, {key}", ("tables", number, "rows", judge, key)
            cell = content if isinstance(content, _Cell) else _Cell(content)
            if key not in table.columns:
                raise ValueError(f"{place}: unknown column {key}")
            column, value = table.columns[key], cell.value / table.scale
            if not -1 <= value <= 1:
                raise ValueError(f"{place}: {cell.value} is neither a share nor a correlation")
            measured = {name: getattr(column, name) for name in Setting.__dataclass_fields__}
            figure = {"judge": judge, "value": value, "printed": str(printed(*path) or printed(*path, "value"))}
            origin = {"table": table.name, "source": source.title, "url": source.url, "inferred": column.inferred}
            remarks = (*column.remarks, *cell.remarks, *table.remarks)
            setting = Setting(**{**measured, "n": column.n if cell.n is None else cell.n})
            rows.append(Published(**figure, **origin, remarks=remarks, setting=setting))  # type: ignore[arg-type]
    return rows


def _refuse_duplicates(rows: Sequence[Published]) -> None:
    counts = Counter((row.judge, row.table, replace(row.setting, n=None)) for row in rows)
    for (judge, table, _), n in counts.items():
        if n > 1:
            raise ValueError(f"{table}: {judge} occurs twice in one column")


def _check_column(column: _Column, place: str) -> None:
    checks = {"metric": ((column.metric,), {*METRICS, MEAN}), "protocol": ((column.protocol,), {*PROTOCOLS, ""})}
    for name, (values, known) in {**checks, "label": (column.labels, {*TRUTHS})}.items():
        for value in values:
            if value not in known:
                raise ValueError(f"{place}: unknown {name} {value!r}")

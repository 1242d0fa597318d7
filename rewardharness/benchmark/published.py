"""Published numbers that are shown beside those of a run, each with its differences from the run.

Label sets, treatment of ties, n, presentation orders and revisions of the data change a number, not the
judge. A published row is therefore shown with `same protocol`, or with what differs and what is not known.

The rows and their sources are in `published.yaml`, which is read strictly.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from importlib.resources import files as resources
from typing import Any, Literal

from rewardharness.benchmark.task import METRICS, PROTOCOLS, TRUTHS
from rewardharness.codec import ValidationError, from_json
from rewardharness.errors import DataError, LibraryError
from rewardharness.library.yamlsafe import read_yaml
from rewardharness.schema import Json

FILE = "published.yaml"
"""File of the rows in this package."""

SAME = "same protocol"
"""Mark of a row without known differences."""

MEAN = "mean"
"""Metric of a published mean over several tasks, which cannot be compared with a run of one task."""

COMPARABLE: tuple[frozenset[str], ...] = (frozenset({"exact", "forced", "tuned"}),)
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


@dataclass(frozen=True)
class Published:
    """One published number."""

    judge: str
    value: float
    """A share in [0, 1], or a correlation in [-1, 1]."""
    printed: str
    """As printed, such as 53.54."""
    setting: Setting
    inferred: bool
    """Whether n was not published and is derived from the fractions."""
    table: str
    source: str
    url: str
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class PublishedComparison:
    """A published number with its differences from a run."""

    row: Published
    differs: tuple[str, ...]
    """Known differences."""
    unknown: tuple[str, ...]
    """What was not published, or is not known of the run."""

    @property
    def same(self) -> bool:
        """Whether no difference is known."""
        return not self.differs

    @property
    def mark(self) -> str:
        """The differences, or `same protocol`, and what is not known."""
        differences = "; ".join(self.differs) or SAME
        return f"{differences} (not known: {', '.join(self.unknown)})" if self.unknown else differences

    def to_json(self) -> Json:
        """Return the comparison as JSON."""
        row = asdict(self.row)
        setting = row.pop("setting")
        return {
            **row,
            "n": setting["n"],
            "n_inferred": row.pop("inferred"),
            "metric": setting["metric"],
            "protocol": setting["protocol"],
            "same_protocol": self.same,
            "mark": self.mark,
            "differs": list(self.differs),
            "unknown": list(self.unknown),
            "remarks": list(row["remarks"]),
        }


def compare_published(run: Setting, rows: Sequence[Published] | None = None) -> tuple[PublishedComparison, ...]:
    """Find the published numbers of the same task, part and dimension, with the same or a `COMPARABLE` metric.

    Args:
        run: How the number of the run was measured.
        rows: The published numbers; None for those of the package.

    Returns:
        The comparisons: same protocol first, then by decreasing value.
    """
    comparisons = []
    for row in read_published() if rows is None else rows:
        theirs = row.setting
        here = (theirs.task, theirs.part, theirs.dimension) == (run.task, run.part, run.dimension)
        if here and (theirs.metric == run.metric or any({theirs.metric, run.metric} <= kind for kind in COMPARABLE)):
            comparisons.append(PublishedComparison(row, *_compare(run, theirs, row.inferred)))
    return tuple(sorted(comparisons, key=lambda other: (not other.same, -other.row.value, other.row.judge)))


def _compare(run: Setting, theirs: Setting, inferred: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what differs, and what is not known on either side."""
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
        if not ours or not other:
            if name != "orders" or "pointwise" not in (run.protocol, theirs.protocol):
                unknown.append(name if not theirs.revision or name != "revision of the data" else _described(theirs))
        elif ours != other:
            note = " (derived)" if name == "n" and inferred else ""
            differs.append(f"{name}: {other}{note}, not {ours}")
    return tuple(differs), tuple(unknown)


def _commit(revision: str) -> str:
    return revision if _COMMIT.fullmatch(revision) else ""


def _described(theirs: Setting) -> str:
    return f"revision of the data, theirs is {theirs.revision}"


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
            names = {name: getattr(column, name) for name in Setting.__dataclass_fields__}
            rows.append(
                Published(
                    judge,
                    value,
                    printed=str(printed(*path) or printed(*path, "value")),
                    setting=Setting(**{**names, "n": column.n if cell.n is None else cell.n}),
                    inferred=column.inferred,
                    table=table.name,
                    source=source.title,
                    url=source.url,
                    remarks=(*column.remarks, *cell.remarks, *table.remarks),
                )
            )
    return rows


def _refuse_duplicates(rows: Sequence[Published]) -> None:
    seen = set()
    for row in rows:
        key = (row.judge, row.table, replace(row.setting, n=None))
        if key in seen:
            raise ValueError(f"{row.table}: {row.judge} occurs twice in one column")
        seen.add(key)


def _check_column(column: _Column, place: str) -> None:
    for name, values, known in (
        ("metric", (column.metric,), {*METRICS, MEAN}),
        ("protocol", (column.protocol,), {*PROTOCOLS, ""}),
        ("label", column.labels, {*TRUTHS}),
    ):
        for value in values:
            if value not in known:
                raise ValueError(f"{place}: unknown {name} {value!r}")

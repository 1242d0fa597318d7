"""Numbers that others published, to stand beside a run, each with what sets it apart from the run.

No two numbers of this field use the same protocol by themselves: label sets, treatment of ties, n, orders and revisions
of the data differ, and so do the numbers for reasons that have nothing to do with a judge. So a published row is never
shown bare: it says `same protocol`, or what differs, or what is not known.

The rows stand in `published.yaml`, with their sources. It is read strictly.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files as resources
from typing import Any

from rewardharness.benchmark.task import METRICS, PROTOCOLS, TRUTHS
from rewardharness.errors import DataError, LibraryError
from rewardharness.library.yamlsafe import read_yaml
from rewardharness.schema import Json

FILE = "published.yaml"
"""The file of this package that holds the rows."""

SAME = "same protocol"
"""What a row is marked with that nothing sets apart from the run."""

MEAN = "mean"
"""Metric of a published mean over several tasks, which no run of one task can be compared with."""

COMPARABLE: tuple[frozenset[str], ...] = (frozenset({"exact", "forced", "tuned"}),)
"""Metrics that are shown beside one another, with the difference said: all are accuracies over the same pairs."""

_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Setting:
    """How a number came about. What is empty, None or 0 is not known."""

    task: str
    part: str
    metric: str
    """One of `METRICS`, or `MEAN`."""
    protocol: str = ""
    """One of `PROTOCOLS`."""
    dimension: str = ""
    """Empty where a benchmark asks about one thing only."""
    labels: tuple[str, ...] = ()
    """The label set that was scored."""
    orders: int = 0
    """In how many orders a pair was shown to the judge: 1 or 2."""
    n: int | None = None
    """Pairs, groups or edits."""
    revision: str = ""
    """Of the data: a commit, or words."""


@dataclass(frozen=True)
class Published:
    """One published number."""

    judge: str
    value: float
    """A share in [0, 1], or a correlation in [-1, 1]."""
    printed: str
    """As it was printed, such as 53.54."""
    setting: Setting
    inferred: bool
    """Whether n was not published and is worked out from the fractions."""
    table: str
    source: str
    url: str
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class PublishedComparison:
    """A published number with what sets it apart from a run."""

    row: Published
    differs: tuple[str, ...]
    """What is known to differ; empty for the same protocol as far as it is known."""
    unknown: tuple[str, ...]
    """What was not published, or is not known of the run."""

    @property
    def same(self) -> bool:
        """Whether nothing is known to differ."""
        return not self.differs

    @property
    def mark(self) -> str:
        """In words: `same protocol`, or what differs; and what is not known."""
        said = "; ".join(self.differs) or SAME
        return f"{said} (not known: {', '.join(self.unknown)})" if self.unknown else said

    def to_json(self) -> Json:
        """Put it into JSON."""
        row = self.row
        return {
            "judge": row.judge,
            "value": row.value,
            "printed": row.printed,
            "n": row.setting.n,
            "n_inferred": row.inferred,
            "metric": row.setting.metric,
            "protocol": row.setting.protocol,
            "same_protocol": self.same,
            "mark": self.mark,
            "differs": list(self.differs),
            "unknown": list(self.unknown),
            "remarks": list(row.remarks),
            "table": row.table,
            "source": row.source,
            "url": row.url,
        }


def compare_published(run: Setting, rows: Sequence[Published] | None = None) -> tuple[PublishedComparison, ...]:
    """Find the published numbers to show beside a run.

    Those of the same task, part and dimension count, if their metric is the run's or one that is `COMPARABLE` with it.

    Args:
        run: How the run's number came about.
        rows: Where to look; None for those that come with the package.

    Returns:
        Rows of the same protocol first, then by value from the highest, each with what differs.
    """
    found = []
    for row in read_published() if rows is None else rows:
        theirs = row.setting
        here = (theirs.task, theirs.part, theirs.dimension) == (run.task, run.part, run.dimension)
        if here and (theirs.metric == run.metric or any({theirs.metric, run.metric} <= kind for kind in COMPARABLE)):
            found.append(PublishedComparison(row, *_compare(run, theirs, row.inferred)))
    return tuple(sorted(found, key=lambda each: (not each.same, -each.row.value, each.row.judge)))


def _compare(run: Setting, theirs: Setting, inferred: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Say what differs, and what is not known on either side."""
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
                unknown.append(name if not theirs.revision or name != "revision of the data" else _worded(theirs))
        elif ours != other:
            guess = " (worked out)" if name == "n" and inferred else ""
            differs.append(f"{name}: {other}{guess}, not {ours}")
    return tuple(differs), tuple(unknown)


def _commit(revision: str) -> str:
    return revision if _COMMIT.fullmatch(revision) else ""


def _worded(theirs: Setting) -> str:
    return f"revision of the data, theirs is {theirs.revision}"


@lru_cache(maxsize=1)
def read_published() -> tuple[Published, ...]:
    """Read the published numbers that come with the package."""
    text = resources("rewardharness.benchmark").joinpath(FILE).read_text(encoding="utf-8")
    return parse_published(text, FILE)


def parse_published(text: str, where: str) -> tuple[Published, ...]:
    """Read published numbers.

    Args:
        text: YAML; the form is said at the top of `published.yaml`.
        where: The file, for messages.

    Raises:
        DataError: If a key is unknown or missing, a value is not of its kind, or a number is out of range.
    """
    try:
        document = read_yaml(text, where=where)
    except LibraryError as error:
        raise DataError(error.message, next_step=error.next_step) from None
    return _Reader(where, document.text).read(document.value)


@dataclass(frozen=True)
class _Reader:
    """Reads the mapping, strictly."""

    where: str
    raw: Any
    """Tells how a scalar was written: the path of its keys gives its text."""

    def read(self, value: Any) -> tuple[Published, ...]:
        top = self._keys(value, "", {"sources": dict, "tables": list})
        sources = {
            name: self._keys(source, f"source {name}", {"title": str, "url": str})
            for name, source in top["sources"].items()
        }
        rows: list[Published] = []
        for number, table in enumerate(top["tables"]):
            rows += self._table(table, number, sources)
        seen: set[tuple[Any, ...]] = set()
        for row in rows:
            key = (row.judge, row.table, replace(row.setting, n=None))
            if key in seen:
                raise self._wrong(row.table, f"{row.judge} stands twice in one column")
            seen.add(key)
        return tuple(rows)

    def _table(self, value: Any, number: int, sources: Mapping[str, Any]) -> list[Published]:
        kinds = {"name": str, "source": str, "scale": int, "columns": dict, "rows": dict}
        table = self._keys(value, f"table {number + 1}", kinds, {"remarks": list})
        name = table["name"]
        if table["source"] not in sources or table["scale"] not in (1, 100):
            raise self._wrong(name, f"the source {table['source']!r} or the scale {table['scale']} is not known")
        source = sources[table["source"]]
        common = self._texts(table.get("remarks", []), name)
        columns = {key: self._column(column, f"{name}, column {key}") for key, column in table["columns"].items()}
        found = []
        for judge, cells in table["rows"].items():
            for key, cell in self._keys(cells, f"{name}, {judge}", {}, dict.fromkeys(columns)).items():
                setting, inferred, remarks = columns[key]
                place = f"{name}, {judge}, {key}"
                number_printed, n, more = self._cell(cell, place)
                value = number_printed / table["scale"]
                if not -1 <= value <= 1:
                    raise self._wrong(place, f"{number_printed} is no share and no correlation")
                path = ("tables", number, "rows", judge, key)
                found.append(
                    Published(
                        judge,
                        value,
                        printed=str(self.raw(*path) or self.raw(*path, "value")),
                        setting=setting if n is None else replace(setting, n=n),
                        inferred=inferred,
                        table=name,
                        source=source["title"],
                        url=source["url"],
                        remarks=(*remarks, *more, *common),
                    )
                )
        return found

    def _cell(self, cell: Any, place: str) -> tuple[float, int | None, tuple[str, ...]]:
        """Read a cell: its number, and its own n and remarks where it has them."""
        n: int | None = None
        remarks: tuple[str, ...] = ()
        if isinstance(cell, dict):
            known = self._keys(cell, place, {"value": None}, {"n": int, "remarks": list})
            cell, n = known["value"], known.get("n")
            remarks = self._texts(known.get("remarks", []), place)
        if isinstance(cell, bool) or not isinstance(cell, int | float):
            raise self._wrong(place, f"{cell!r} is not a number")
        return cell, n, remarks

    def _column(self, value: Any, place: str) -> tuple[Setting, bool, tuple[str, ...]]:
        words = dict.fromkeys(("protocol", "dimension", "revision"), str)
        more = {**words, "orders": int, "n": int, "labels": list, "inferred": bool, "remarks": list}
        column = self._keys(value, place, dict.fromkeys(("task", "part", "metric"), str), more)
        remarks = self._texts(column.pop("remarks", []), place)
        inferred = column.pop("inferred", False)
        setting = Setting(**{**column, "labels": self._texts(column.get("labels", []), place)})
        for name, here, allowed in (
            ("metric", [setting.metric], {*METRICS, MEAN}),
            ("protocol", [setting.protocol] if setting.protocol else [], set(PROTOCOLS)),
            ("label", setting.labels, set(TRUTHS)),
            ("number of orders", [setting.orders], {0, 1, 2}),
        ):
            for each in here:
                if each not in allowed:
                    raise self._wrong(place, f"the {name} {each!r} is not known")
        return setting, inferred, remarks

    def _keys(self, value: Any, place: str, needed: Mapping[str, Any], more: Mapping[str, Any] | None = None) -> Any:
        """Check that a mapping has these keys with values of these types, and no others; None: any type."""
        if not isinstance(value, dict):
            raise self._wrong(place, "a mapping is expected")
        kinds = {**needed, **(more or {})}
        for key, each in value.items():
            if key not in kinds:
                raise self._wrong(place, f"the key `{key}` is not known")
            kind = kinds[key]
            if kind is not None and (not isinstance(each, kind) or (kind is int and isinstance(each, bool))):
                raise self._wrong(place, f"`{key}` is not of type {kind.__name__}")
        for key in needed:
            if key not in value:
                raise self._wrong(place, f"the key `{key}` is missing")
        return dict(value)

    def _texts(self, value: Any, place: str) -> tuple[str, ...]:
        if not all(isinstance(each, str) and each for each in value):
            raise self._wrong(place, "a list of texts is expected")
        return tuple(value)

    def _wrong(self, place: str, problem: str) -> DataError:
        where = f"{self.where}: {place}" if place else self.where
        return DataError(f"{where}: {problem}.", next_step="Correct the file; its first lines say what it holds.")

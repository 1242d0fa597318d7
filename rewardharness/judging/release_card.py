"""The card of a release: figures of its judge with its Library, which change no score.

The id of a release does not cover them, so figures are shown as `UNVERIFIED`; they can be compared with the reports
that they were taken from. These are the output of `rh score --json`, the `report.json` of a benchmark (the
accuracies of the judge itself), and the `report.json` of an evolution (the held-out examples only, because the
acceptance test uses the others).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rewardharness.codec import Count, ValidationError, from_json, to_json
from rewardharness.errors import ReleaseError
from rewardharness.files import read_json
from rewardharness.schema import Json

UNVERIFIED = "Not verified: the id of a release does not cover the figures of its card."
"""Note next to figures of a card."""


@dataclass(frozen=True)
class Figure:
    """Agreement with labels of one kind."""

    name: str
    """Name of the figure."""
    n: Count
    """Number of labeled examples, judged or not."""
    judged: Count
    accuracy: float | None
    """Share of the judged examples that agree with their label; of all examples if the name says so."""
    interval: tuple[float, float] | None
    """95% CI of the accuracy."""
    judge: str
    """As in `Judgment.judge`."""
    protocol: str
    """As in `Judgment.protocol`."""
    library_id: str
    judge_revision: str
    """As in `Judge.revision`; of a benchmark, whose parts differ in ties, that of the judge without ties."""

    @property
    def coverage(self) -> float | None:
        """Share of the examples that were judged."""
        return self.judged / self.n if self.n else None

    def __post_init__(self) -> None:
        low, high = self.interval or (0.0, 1.0)
        if self.judged > self.n or not 0 <= low <= high <= 1 or not 0 <= (self.accuracy or 0.0) <= 1:
            raise ValueError(f"the numbers of {self.name!r} contradict each other")

    @classmethod
    def from_json(cls, value: Any) -> "Figure":
        """Read a figure of a card.

        Raises:
            ValidationError: If it is invalid.
        """
        plain = {name: part for name, part in value.items() if name != "coverage"} if isinstance(value, dict) else value
        figure = from_json(cls, plain)
        if figure.to_json() != value:
            raise ValidationError("its coverage is that of other numbers")
        return figure

    def to_json(self) -> Json:
        """Convert to JSON."""
        interval = None if self.interval is None else list(self.interval)
        return {**to_json(self), "coverage": self.coverage, "interval": interval}


def read_report(path: Path) -> list[Figure]:
    """Read the figures of a report.

    Raises:
        DataError: If the file cannot be read.
        ReleaseError: If it is not a report with such figures.
    """
    report = read_json(path)
    try:
        read = _of_evolution if "audit" in report else _of_benchmark if "rows" in report else _of_folder
        figures = list(read(report))
    except (KeyError, TypeError, ValueError, ValidationError):
        figures = []
    if not figures:
        step = (
            "Name what `rh score --json` printed of labelled pairs, or a report.json of `rh benchmark` or `rh evolve`."
        )
        raise ReleaseError(f"{path} is not a report with figures for a card.", next_step=step)
    return figures


def _of_folder(report: Mapping[str, Any]) -> Iterator[Figure]:
    judged = {name: report[name] for name in ("judge", "protocol", "library_id", "judge_revision")}
    known, groups = _known(report), report["groups"]
    for kind, metrics in report["by_label_kind"].items():
        yield _figure(f"pairs, labels: {kind}{known}", metrics, metrics["accuracy"], **judged)
    if groups["n"]:
        yield _figure(f"groups of 3 and 4, best found{known}", groups, groups["best_accuracy"], **judged)


def _of_evolution(report: Mapping[str, Any]) -> Iterator[Figure]:
    final = report["audit"]["final"]
    judged = {name: report["run"][name] for name in ("judge", "protocol", "judge_revision")}
    library = report["library"]["final_id"]
    yield _figure("audit of an evolution", final, final["accuracy"], library_id=library, **judged)


def _of_benchmark(report: Mapping[str, Any]) -> Iterator[Figure]:
    [row] = [table_row for table_row in report["rows"] if table_row["role"] == "judge"][:1]
    [protocol] = row["protocols"] or [""]
    judged = {"judge": row["name"], "protocol": protocol, "library_id": row["library_id"]}
    for metric in row["numbers"]:
        if metric["metric"] in _SHARES and metric["value"] is not None:
            part = ", ".join(filter(None, (report["task"]["title"], metric["part"], metric["dimension"])))
            counted = "" if metric["basis"] == "judged" else "; what was not judged counts as wrong"
            name = f"{part}: {metric['name']} ({report['protocol']}{counted}){_known(row)}"
            yield _figure(name, metric, metric["value"], judge_revision=row["revision"], **judged)


_SHARES = ("exact", "forced", "groups")
"""Metrics of a benchmark that are shares, and are not tuned on the labels that they are counted on."""


def _known(facts: Mapping[str, Any]) -> str:
    """Return the end of the name of a figure that holds less on other data."""
    return "; the Library was evolved on the same data" if facts.get("evolved_on") is True else ""


def _figure(name: str, counts: Mapping[str, Any], accuracy: Any, **judged: Any) -> Figure:
    numbers = {field: counts[field] for field in ("n", "judged", "interval")}
    return from_json(Figure, {"name": name, "accuracy": accuracy, **numbers, **judged})

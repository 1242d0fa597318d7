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
    n: int
    """Number of labeled examples, judged or not."""
    judged: int
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

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Figure":
        """Read a figure of a card.

        Raises:
            KeyError, TypeError, ValueError: If it is invalid.
        """
        names = ("judge", "protocol", "library_id", "judge_revision")
        identity = {name: _text(value[name]) for name in names}
        figure = _figure(_text(value["name"]), value, value["accuracy"], **identity)
        if figure.to_json() != value:
            raise ValueError(value)
        return figure

    def to_json(self) -> Json:
        """Convert to JSON."""
        return {
            "name": self.name,
            "n": self.n,
            "judged": self.judged,
            "coverage": self.coverage,
            "accuracy": self.accuracy,
            "interval": None if self.interval is None else list(self.interval),
            "judge": self.judge,
            "protocol": self.protocol,
            "library_id": self.library_id,
            "judge_revision": self.judge_revision,
        }


def read_report(path: Path) -> list[Figure]:
    """Read the figures of a report.

    Raises:
        DataError: If the file cannot be read.
        ReleaseError: If it is not a report with such figures.
    """
    report = read_json(path)
    try:
        kind = next((each for key, each in _KINDS.items() if key in report), _of_folder)
        figures = list(kind(report))
    except (KeyError, TypeError, ValueError):
        figures = []
    if not figures:
        raise ReleaseError(
            f"{path} is not a report with figures for a card.",
            next_step="Name what `rh score --json` printed of labelled pairs, or a report.json of "
            "`rh benchmark` or `rh evolve`.",
        )
    return figures


def _of_folder(report: Mapping[str, Any]) -> Iterator[Figure]:
    judged = {name: _text(report[name]) for name in ("judge", "protocol", "library_id", "judge_revision")}
    known = _EVOLVED_ON if report.get("evolved_on") is True else ""
    for kind, each in report["by_label_kind"].items():
        yield _figure(f"pairs, labels: {kind}{known}", each, each["accuracy"], **judged)
    if report["groups"]["n"]:
        groups = report["groups"]
        yield _figure(f"groups of 3 and 4, best found{known}", groups, groups["best_accuracy"], **judged)


def _of_evolution(report: Mapping[str, Any]) -> Iterator[Figure]:
    run, final = report["run"], report["audit"]["final"]
    judged = {name: _text(run[name]) for name in ("judge", "protocol", "judge_revision")}
    library = _text(report["library"]["final_id"])
    yield _figure("audit of an evolution", final, final["accuracy"], library_id=library, **judged)


def _of_benchmark(report: Mapping[str, Any]) -> Iterator[Figure]:
    [row] = [each for each in report["rows"] if each["role"] == "judge"][:1]
    [protocol] = row["protocols"] or [""]
    judged = {"judge": row["name"], "protocol": protocol, "library_id": row["library_id"]}
    identity = {name: _text(value) for name, value in {**judged, "judge_revision": row["revision"]}.items()}
    known = _EVOLVED_ON if row.get("evolved_on") is True else ""
    for each in row["numbers"]:
        if each["metric"] in _SHARES and each["value"] is not None:
            part = ", ".join(filter(None, (report["task"]["title"], each["part"], each["dimension"])))
            counted = "" if each["basis"] == "judged" else "; what was not judged counts as wrong"
            yield _figure(
                f"{part}: {each['name']} ({report['protocol']}{counted}){known}", each, each["value"], **identity
            )


_KINDS = {"audit": _of_evolution, "rows": _of_benchmark}
"""Who reads a report that has a field of this name."""

_SHARES = ("exact", "forced", "groups")
"""Metrics of a benchmark that are shares, and are not tuned on the labels that they are counted on."""


_EVOLVED_ON = "; the Library was evolved on the same data"
"""Ends the name of a figure that holds less on other data."""


def _figure(name: str, counts: Mapping[str, Any], accuracy: Any, **judged: str) -> Figure:
    interval = counts["interval"]
    if interval is not None:
        low, high = interval
        interval = float(low), float(high)
    share = None if accuracy is None else float(accuracy)
    figure = Figure(name, _count(counts["n"]), _count(counts["judged"]), share, interval, **judged)
    low, high = interval or (0.0, 1.0)
    if figure.judged > figure.n or not 0 <= low <= high <= 1 or not 0 <= (share or 0.0) <= 1:
        raise ValueError(name)
    return figure


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(value)
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value

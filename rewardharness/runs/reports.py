"""Reads metrics from the reports of this project, so that nobody copies numbers by hand.

A report is one JSON object; every count in it is an object with `n`, `judged`, `interval` and the value under
`accuracy` or `best_accuracy`. Such an object is named by its place, as in `audit.final`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rewardharness.errors import InputError
from rewardharness.files import read_text, sha256
from rewardharness.runs.forms import Benchmark, Direction, Metric, Source
from rewardharness.runs.lineage import Items
from rewardharness.runs.typed import Misfit, read_as

VALUES = ("accuracy", "best_accuracy", "value")
"""Keys under which a count may hold its value."""


@dataclass(frozen=True)
class Found:
    """What a report says beside its metrics. Empty or None: it does not."""

    document: Mapping[str, Any]
    source: Source
    benchmark: Benchmark | None = None
    protocol: str = ""
    judge: str = ""
    library: str | None = None
    """Id of the Library that the metrics are about."""
    metrics: tuple[Metric, ...] = ()
    """Those that are taken when none are named."""
    items: Items = field(default_factory=dict)
    """Values example by example of these, as far as they are at hand."""


def read_report(path: Path) -> Found:
    """Read a report. One of `rh evolve` says all that an eval needs; of others the metrics are taken by place.

    Raises:
        InputError: If it is no JSON object, or an evolution whose audit could not be judged.
    """
    text = read_text(path)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise InputError(f"{path} is no report: it is not one JSON object.", next_step="Name a report.json.")
    source = Source(str(path.resolve()), sha256(path.read_bytes()))
    run, library = document.get("run"), document.get("library")
    if isinstance(run, dict) and run.get("command") == "evolve" and isinstance(library, dict) and "audit" in document:
        return _evolution(document, source, run, library)
    return Found(document, source, judge=_text(document.get("judge")))


def metric_at(found: Found, name: str, direction: Direction, place: str) -> Metric:
    """Take a metric from a report.

    Args:
        found: The report.
        name: How the metric is called.
        direction: Which way it is better.
        place: Where its count stands, as in `audit.final`.

    Raises:
        InputError: If there is no count, or nothing was judged.
    """
    here: Any = found.document
    for part in place.split("."):
        here = here.get(part) if isinstance(here, dict) else None
    known = here if isinstance(here, dict) else {}
    value = next((known[key] for key in VALUES if known.get(key) is not None), None)
    if value is None:
        raise InputError(
            f"{found.source.file} has no count with a value at {place!r}.",
            next_step="Name the place of an object with n, judged, accuracy and interval, such as audit.final.",
        )
    parts = {key: known.get(key) for key in ("n", "judged", "interval")}
    try:
        return read_as(Metric, {"name": name, "direction": direction, "value": value, **parts})
    except Misfit as error:
        raise InputError(f"{found.source.file}, {place}: {error}.", next_step="Name another place.") from None


def _evolution(document: dict[str, Any], source: Source, run: dict[str, Any], library: dict[str, Any]) -> Found:
    name, digest = _text(run.get("data_name")) or "data", _text(run.get("data"))
    part = f"{digest} audit seed {run.get('seed')} share {run.get('audit_share')}"
    judge = ", ".join(each for each in (_text(run.get(key)) for key in ("judge", "protocol", "judge_revision")) if each)
    final = library.get("final_id")
    found = Found(
        document,
        source,
        benchmark=Benchmark(name, "audit", part),
        protocol="agreement with labels",
        judge=judge,
        library=final if isinstance(final, str) else None,
    )
    return replace(found, metrics=(metric_at(found, "accuracy", "higher", "audit.final"),))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""

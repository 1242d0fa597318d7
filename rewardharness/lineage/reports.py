"""Metrics from the reports of this project, so that no numbers are copied by hand.

A report is one JSON object. A count in it is an object with `n`, `judged`, `interval` and the value under `accuracy`,
`best_accuracy` or `value`; it is addressed by its path, as in `audit.final`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rewardharness.codec import ValidationError, from_json
from rewardharness.errors import InputError
from rewardharness.files import read_json, sha256_file
from rewardharness.lineage.records import BenchmarkRef, Direction, Items, MetricValue, SourceFile

VALUES = ("accuracy", "best_accuracy", "value")
"""Keys under which a count has its value."""


@dataclass(frozen=True)
class ReportFacts:
    """What a report states besides its metrics. Empty or None if it does not."""

    document: Mapping[str, Any]
    source: SourceFile
    benchmark: BenchmarkRef | None = None
    protocol: str = ""
    judge: str = ""
    library: str | None = None
    """Id of the Library that the metrics are about."""
    metrics: tuple[MetricValue, ...] = ()
    """Metrics that are used if none are named."""
    items: Items = field(default_factory=dict)
    """Values per example of these metrics, where they are available."""


def read_report(path: Path, row: str = "judge") -> ReportFacts:
    """Read a report of `rh evolve`, `rh benchmark` or another command.

    Args:
        path: The `report.json`.
        row: Role or key of a row of a benchmark report.

    Raises:
        InputError: If it is not a report, or has no judged result.
    """
    from rewardharness.lineage.benchmark_rows import is_benchmark, read_row

    document = read_json(path)
    if not isinstance(document, dict):
        raise InputError(f"{path} is not a report: it is not a JSON object.", next_step="Name a report.json.")
    facts = ReportFacts(
        document, SourceFile(str(path.resolve()), sha256_file(path)), judge=_text(document.get("judge"))
    )
    if is_benchmark(document):
        return read_row(facts, path.parent, row)
    run, library = document.get("run"), document.get("library")
    if isinstance(run, dict) and run.get("command") == "evolve" and isinstance(library, dict) and "audit" in document:
        return _evolution(facts, run, library)
    return facts


def metric_at(facts: ReportFacts, name: str, direction: Direction, path: str) -> MetricValue:
    """Read a metric from a report.

    Args:
        facts: The report.
        name: Name of the metric.
        direction: Which values are better.
        path: Path of its count, as in `audit.final`.

    Raises:
        InputError: If there is no count, or nothing was judged.
    """
    count: Any = facts.document
    for part in path.split("."):
        count = count.get(part) if isinstance(count, dict) else None
    count = count if isinstance(count, dict) else {}
    value = next((count[key] for key in VALUES if count.get(key) is not None), None)
    if value is None:
        raise InputError(
            f"{facts.source.file} has no count with a value at {path!r}.",
            next_step="Give the path of an object with n, judged, accuracy and interval, such as audit.final.",
        )
    numbers = {key: count.get(key) for key in ("n", "judged", "interval")}
    try:
        return from_json(MetricValue, {"name": name, "direction": direction, "value": value, **numbers})
    except ValidationError as error:
        raise InputError(f"{facts.source.file}, {path}: {error}.", next_step="Give another path.") from None


def _evolution(facts: ReportFacts, run: dict[str, Any], library: dict[str, Any]) -> ReportFacts:
    name, digest = _text(run.get("data_name")) or "data", _text(run.get("data"))
    part = f"{digest} audit seed {run.get('seed')} share {run.get('audit_share')}"
    final = library.get("final_id")
    return replace(
        facts,
        benchmark=BenchmarkRef(name, "audit", part),
        protocol="agreement with labels",
        judge=", ".join(filter(None, (_text(run.get(key)) for key in ("judge", "protocol", "judge_revision")))),
        library=final if isinstance(final, str) else None,
        metrics=(metric_at(facts, "accuracy", "higher", "audit.final"),),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""

"""Metrics from the reports of this project, so that no numbers are copied by hand.

A report is one JSON object. A count in it is an object with `n`, `judged`, `interval` and the value under `accuracy`,
`best_accuracy` or `value`; it is addressed by its path, as in `audit.final`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from rewardharness.benchmark.comparison import compared_examples
from rewardharness.benchmark.numbers import Number, make_sheet
from rewardharness.benchmark.result import parse_result
from rewardharness.benchmark.run import DATA_FILE, read_benchmark, read_judgments
from rewardharness.codec import ValidationError, from_json
from rewardharness.errors import DataError, InputError
from rewardharness.files import read_json, sha256_file
from rewardharness.lineage.records import BenchmarkRef, Direction, Items, MetricValue, SourceFile

DIRECTIONS: Mapping[str, Direction] = dict.fromkeys(
    ("exact", "forced", "groups", "fitted", "macro", "spearman"), "higher"
)
"""Direction of the metrics of a report. `tuned` is not an estimate, and is left out."""
_TOLERANCE = 1e-9
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
    document = read_json(path)
    if not isinstance(document, dict):
        raise InputError(f"{path} is not a report: it is not a JSON object.", next_step="Name a report.json.")
    source = SourceFile(str(path.resolve()), sha256_file(path))
    facts = ReportFacts(document, source, judge=_text(document.get("judge")))
    if isinstance(document.get("task"), dict) and isinstance(document.get("rows"), list) and "digest" in document:
        return _read_row(facts, path.parent, row)
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
        step = "Give the path of an object with n, judged, accuracy and interval, such as audit.final."
        raise InputError(f"{facts.source.file} has no count with a value at {path!r}.", next_step=step)
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


def _read_row(facts: ReportFacts, folder: Path, which: str) -> ReportFacts:
    """Read a row of a benchmark report: its metrics, and the values per example if the run folder is available."""
    try:
        report = parse_result(facts.document)
    except ValidationError as error:
        message = f"{facts.source.file} is damaged, or of another version: {error.message}."
        raise DataError(message, next_step="Recreate it with: rh benchmark report") from None
    row = next((row for row in report.rows if which in {row.key, row.role}), None)
    if row is None:
        known = ", ".join(f"{row.key} ({row.role}, {row.name})" for row in report.rows)
        raise InputError(f"{facts.source.file} has no row {which!r}.", next_step=f"Rows: {known}.")
    metrics = _metrics(row.numbers)
    if not metrics:
        raise InputError(f"{facts.source.file}: nothing was judged in this row.", next_step="Choose another row.")
    sample = f", sample {list(report.sampled)}" if report.sampled else ""
    return replace(
        facts,
        benchmark=BenchmarkRef(report.task.name, f"{report.protocol}{sample}", report.digest),
        protocol=report.protocol,
        judge=f"{row.name}, {'+'.join(row.protocols) or row.protocol}, {row.revision}",
        library=row.library_id,
        metrics=tuple(metric for metric, _ in metrics),
        items=_items(folder, row.key, metrics),
    )


def _metrics(numbers: Sequence[Number]) -> list[tuple[MetricValue, Number]]:
    """Return the numbers with a value as metrics with short unique names, as in `demo_partial/exact/2-way`.

    If failed judgments count as wrong, a metric is about all examples.
    """
    metrics: dict[str, tuple[MetricValue, Number]] = {}
    for number in numbers:
        if number.value is None or number.metric not in DIRECTIONS:
            continue
        ways = f"{len(number.labels)}-way" if number.labels else ""
        name = "/".join(part for part in (number.part, number.metric, number.dimension, ways) if part)
        while name in metrics:
            name += "+"
        judged = number.judged or None if number.basis == "judged" else None
        metric = MetricValue(
            name, DIRECTIONS[number.metric], number.value, n=number.n or None, judged=judged, interval=number.interval
        )
        metrics[name] = (metric, number)
    return list(metrics.values())


def _items(folder: Path, key: str, metrics: Sequence[tuple[MetricValue, Number]]) -> Items:
    """Return the credit per question of metrics that are its mean. Empty without the run folder."""
    if not (folder / DATA_FILE).is_file():
        return {}
    sheet = make_sheet(read_benchmark(folder), read_judgments(folder).get(key, {}))
    items: dict[str, dict[str, float]] = {}
    for metric, number in metrics:
        if number.metric != "exact" or number.part not in sheet.parts:
            continue
        judged = [example for example in compared_examples(sheet, number.part) if example.credit is not None]
        clusters = [example.cluster for example in judged if example.cluster]
        if len(set(clusters)) < len(clusters):
            continue  # a paired comparison assumes independence; questions on one source image are not independent
        credits = {example.id: float(example.credit or 0.0) for example in judged}
        if len(credits) == metric.judged and abs(fmean(credits.values()) - metric.value) < _TOLERANCE:
            items[metric.name] = credits
    return items

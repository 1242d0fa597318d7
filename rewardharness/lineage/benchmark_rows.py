"""A row of a benchmark report as metrics of an eval."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from rewardharness.benchmark.comparison import compared_examples
from rewardharness.benchmark.numbers import Number, make_sheet
from rewardharness.benchmark.result import parse_result
from rewardharness.benchmark.run import DATA_FILE, read_benchmark, read_judgments
from rewardharness.codec import ValidationError
from rewardharness.errors import DataError, InputError
from rewardharness.lineage.records import BenchmarkRef, Direction, Items, MetricValue
from rewardharness.lineage.reports import ReportFacts

DIRECTIONS: Mapping[str, Direction] = {
    name: "higher" for name in ("exact", "forced", "groups", "fitted", "macro", "spearman")
}
"""Direction of the metrics of a report. `tuned` is not an estimate, and is left out."""

_TOLERANCE = 1e-9


def is_benchmark(document: Mapping[str, Any]) -> bool:
    """Return whether a report is a benchmark report."""
    return isinstance(document.get("task"), dict) and isinstance(document.get("rows"), list) and "digest" in document


def read_row(facts: ReportFacts, folder: Path, which: str) -> ReportFacts:
    """Read a row: its metrics, and the values per example if the run folder is available.

    Args:
        facts: The report.
        folder: Folder of the report.
        which: Role or key of the row.

    Raises:
        InputError: If there is no such row, or nothing was judged in it.
        DataError: If the report is damaged.
    """
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

"""A row of a benchmark report as metrics of an eval."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from rewardharness.benchmark.result import compared_examples, make_sheet
from rewardharness.benchmark.run import DATA_FILE, read_benchmark, read_judgments
from rewardharness.errors import DataError, InputError
from rewardharness.lineage.records import BenchmarkRef, Direction, Items, MetricValue
from rewardharness.lineage.reports import ReportFacts
from rewardharness.schema import Json

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
    report = facts.document
    try:
        rows = [row for row in report["rows"] if which in {row["key"], row["role"]}]
        if not rows:
            known = ", ".join(f"{row['key']} ({row['role']}, {row['name']})" for row in report["rows"])
            raise InputError(f"{facts.source.file} has no row {which!r}.", next_step=f"Rows: {known}.")
        row = rows[0]
        named = _named(row["numbers"])
        metrics = {name: _metric(name, number) for name, number in named.items()}
        sample = f", sample {report['sampled']}" if report["sampled"] else ""
        benchmark = BenchmarkRef(report["task"]["name"], f"{report['protocol']}{sample}", report["digest"])
        how = "+".join(row["protocols"]) or row["protocol"]
        judge = f"{row['name']}, {how}, {row['revision']}"
        items = _items(folder, row["key"], named, metrics)
    except (KeyError, TypeError, AttributeError) as error:
        message = f"{facts.source.file} is damaged: {type(error).__name__}: {error}."
        raise DataError(message, next_step="Recreate it with: rh benchmark report") from None
    if not metrics:
        raise InputError(f"{facts.source.file}: nothing was judged in this row.", next_step="Choose another row.")
    return replace(
        facts,
        benchmark=benchmark,
        protocol=report["protocol"],
        judge=judge,
        library=row["library_id"],
        metrics=tuple(metrics.values()),
        items=items,
    )


def _named(numbers: list[Json]) -> dict[str, Json]:
    """Return the numbers with a value by a short unique name, as in `demo_partial/exact/2-way`."""
    found: dict[str, Json] = {}
    for number in numbers:
        if number["value"] is None or number["metric"] not in DIRECTIONS:
            continue
        ways = f"{len(number['labels'])}-way" if number["labels"] else ""
        name = "/".join(part for part in (number["part"], number["metric"], number["dimension"], ways) if part)
        while name in found:
            name += "+"
        found[name] = number
    return found


def _metric(name: str, number: Json) -> MetricValue:
    """Convert a number. If failed judgments count as wrong, it is about all examples."""
    interval = number["interval"]
    return MetricValue(
        name,
        DIRECTIONS[number["metric"]],
        float(number["value"]),
        n=number["n"] or None,
        judged=number["judged"] or None if number["basis"] == "judged" else None,
        interval=(interval[0], interval[1]) if interval else None,
    )


def _items(folder: Path, key: str, named: Mapping[str, Json], metrics: Mapping[str, MetricValue]) -> Items:
    """Return the credit per question of metrics that are its mean. Empty without the run folder."""
    if not (folder / DATA_FILE).is_file():
        return {}
    exam = read_benchmark(folder)
    sheet = make_sheet(exam, read_judgments(folder).get(key, {}))
    found: dict[str, dict[str, float]] = {}
    for name, number in named.items():
        if number["metric"] != "exact" or number["part"] not in sheet.parts:
            continue
        judged = [each for each in compared_examples(sheet, number["part"]) if each.credit is not None]
        clusters = [each.cluster for each in judged if each.cluster]
        if len(set(clusters)) < len(clusters):
            continue  # a paired comparison assumes independence; questions on one source image are not independent
        credits = {each.id: float(each.credit or 0.0) for each in judged}
        metric = metrics[name]
        if len(credits) == metric.judged and abs(fmean(credits.values()) - metric.value) < _TOLERANCE:
            found[name] = credits
    return found

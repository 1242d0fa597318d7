"""What a row of a benchmark's report says, in the form in which a lineage keeps it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from rewardharness.benchmark.result import make_sheet, outcomes
from rewardharness.benchmark.run import EXAM, read_exam, read_judgments
from rewardharness.errors import DataError, InputError
from rewardharness.runs.forms import Benchmark, Direction, Metric
from rewardharness.runs.lineage import Items
from rewardharness.runs.reports import Found
from rewardharness.schema import Json

DIRECTIONS: Mapping[str, Direction] = {
    name: "higher" for name in ("exact", "forced", "groups", "fitted", "macro", "spearman")
}
"""Which way the metrics of a report are better. `tuned` is not among them: it is no estimate of anything."""

_SLACK = 1e-9


def is_benchmark(document: Mapping[str, Any]) -> bool:
    """Whether a report is that of a benchmark."""
    return isinstance(document.get("task"), dict) and isinstance(document.get("rows"), list) and "digest" in document


def read_row(found: Found, folder: Path, which: str) -> Found:
    """Read a row: its metrics, and example by example what they are made of, where the run folder still tells.

    Args:
        found: The report.
        folder: The folder it lies in.
        which: Role or key of the row.

    Raises:
        InputError: If there is no such row, or it has no numbers.
        DataError: If the report cannot be understood.
    """
    report = found.document
    try:
        rows = [row for row in report["rows"] if which in {row["key"], row["role"]}]
        if not rows:
            known = ", ".join(f"{row['key']} ({row['role']}, {row['name']})" for row in report["rows"])
            raise InputError(f"{found.source.file} has no row {which!r}.", next_step=f"Rows: {known}.")
        row = rows[0]
        named = _named(row["numbers"])
        metrics = {name: _metric(name, number) for name, number in named.items()}
        sample = f", sample {report['sampled']}" if report["sampled"] else ""
        benchmark = Benchmark(report["task"]["name"], f"{report['protocol']}{sample}", report["digest"])
        how = "+".join(row["protocols"]) or row["protocol"]
        judge = f"{row['name']}, {how}, {row['revision']}"
        items = _items(folder, row["key"], named, metrics)
    except (KeyError, TypeError, AttributeError) as error:
        message = f"{found.source.file} cannot be understood: {type(error).__name__}: {error}."
        raise DataError(message, next_step="Write it anew with: rh benchmark report") from None
    if not metrics:
        raise InputError(f"{found.source.file}: nothing was judged in this row.", next_step="Name another row.")
    return replace(
        found,
        benchmark=benchmark,
        protocol=report["protocol"],
        judge=judge,
        library=row["library_id"],
        metrics=tuple(metrics.values()),
        items=items,
    )


def _named(numbers: list[Json]) -> dict[str, Json]:
    """Numbers with a value by a name that is short and their own, as in `demo_partial/exact/2-way`."""
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


def _metric(name: str, number: Json) -> Metric:
    """A number with what it is worth. Where what was not judged counts as wrong, it is about all examples."""
    interval = number["interval"]
    return Metric(
        name,
        DIRECTIONS[number["metric"]],
        float(number["value"]),
        n=number["n"] or None,
        judged=number["judged"] or None if number["basis"] == "judged" else None,
        interval=(interval[0], interval[1]) if interval else None,
    )


def _items(folder: Path, key: str, named: Mapping[str, Json], metrics: Mapping[str, Metric]) -> Items:
    """Credit per question of those metrics that are a plain mean of it. Empty where the run is not at hand."""
    if not (folder / EXAM).is_file():
        return {}
    exam = read_exam(folder)
    sheet = make_sheet(exam, read_judgments(folder).get(key, {}))
    found: dict[str, dict[str, float]] = {}
    for name, number in named.items():
        if number["metric"] != "exact" or number["part"] not in sheet.parts:
            continue
        judged = [each for each in outcomes(sheet, number["part"]) if each.credit is not None]
        clusters = [each.cluster for each in judged if each.cluster]
        if len(set(clusters)) < len(clusters):
            continue  # questions on one source image are not independent, as a comparison in pairs would take them
        credits = {each.id: float(each.credit or 0.0) for each in judged}
        metric = metrics[name]
        if len(credits) == metric.judged and abs(fmean(credits.values()) - metric.value) < _SLACK:
            found[name] = credits
    return found

"""Writes the report of a run from its folder: JSON, Markdown, and what the card of a Library says. Judges nothing.

report.json    everything that was counted
report.md      for people
report.html    the same as a page, see `report_page`
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rewardharness.benchmark.figures import (
    THRESHOLD_HEADINGS,
    by_number,
    cautions,
    chance_level,
    figure,
    full_name,
    headline,
    judged,
    left_out,
    number_name,
    paired_difference,
    releases,
    sampled,
    share,
    thresholds,
)
from rewardharness.benchmark.markdown import inert
from rewardharness.benchmark.report_page import report_page
from rewardharness.benchmark.result import label, make_result
from rewardharness.benchmark.run import read_benchmark, read_entries, read_judgments
from rewardharness.benchmark.thresholds import read_rules
from rewardharness.errors import LibraryError
from rewardharness.files import write_json, write_text
from rewardharness.judging.report import wilson
from rewardharness.library.card import BENCHMARK_FILE, Facts
from rewardharness.library.card_parts import table
from rewardharness.library.store import Library
from rewardharness.schema import Accuracy, Interval, Json

REPORT = "report.json"
MARKDOWN = "report.md"
PAGE = "report.html"
FORMATS: Mapping[str, str] = {"json": REPORT, "md": MARKDOWN, "html": PAGE}
"""Formats of a report, and their files."""


def read_result(folder: Path) -> Json:
    """Count what a run folder holds.

    Raises:
        RunError: If it holds no benchmark.
    """
    rules, notes = read_rules(folder)
    return {**make_result(read_benchmark(folder), read_entries(folder), read_judgments(folder), rules), "fitted": notes}


def write_report(folder: Path, result: Json, formats: Sequence[str] = tuple(FORMATS)) -> list[Path]:
    """Write a report into its run folder.

    Args:
        folder: The run folder.
        result: As `read_result` makes it.
        formats: Some of `FORMATS`.

    Returns:
        The files.
    """
    written = []
    for name in formats:
        path = folder / FORMATS[name]
        if name == "json":
            write_json(path, result)
        else:
            write_text(path, markdown(result) if name == "md" else report_page(result))
        written.append(path)
    return written


def markdown(result: Json) -> str:
    """Write a report as Markdown. All names in it are foreign, and made harmless."""
    task = result["task"]
    parts = [f"# {inert(task['title'])}", inert(headline(result), 10_000), _about(result)]
    for name, rows in by_number(result):
        cells = [
            (inert(label(row)), figure(each), judged(each), chance_level(each), paired_difference(row, each))
            for row, each in rows
        ]
        parts += [
            f"## {inert(name, 400)}",
            table(("Entry", "Value [95% CI]", "Judged", "Chance", "Judge minus entry"), cells),
        ]
    parts += [_thresholds(result), _published(result), _judging(result), _calibration(result), _data(result)]
    parts += ["## Notes", "\n".join(f"- {inert(note, 600)}" for note in task["notes"])] if task["notes"] else []
    return "\n\n".join(part for part in parts if part) + "\n"


def _about(result: Json) -> str:
    row = result["rows"][0]
    lines = [
        f"Task {inert(result['task']['name'])}, protocol {inert(result['protocol'])}; "
        f"judge {inert(row['name'])}, "
        f"{inert(', '.join(row['protocols']) or row['protocol'])}; Library {inert(row['library'])} "
        f"({row['library_id'][:12]}).",
        f"Data: {inert(result['revision'])}, digest {result['digest'][:12]}. {sampled(result)}".strip(),
        *(inert(note, 600) for note in (*cautions(result["rows"]), *releases(result))),
    ]
    return "\n".join(lines)


def _thresholds(result: Json) -> str:
    rows = [tuple(inert(cell) for cell in row) for row in thresholds(result)]
    said = "\n".join(inert(note, 600) for note in result["fitted"])
    return f"## Thresholds of ties\n\n{said}\n\n{table(THRESHOLD_HEADINGS, rows)}" if rows else said


def _published(result: Json) -> str:
    parts = []
    for each in result["published"]:
        rows = [("**ours**", figure(each), str(each["n"]), "")]
        rows += [
            (
                inert(row["judge"]),
                row["printed"],
                "-" if row["n"] is None else str(row["n"]),
                inert(row["mark"], 400),
            )
            for row in each["rows"]
        ]
        parts += [
            f"### {inert(number_name(each), 400)}",
            table(("Judge", "As printed", "n", "Differences"), rows),
        ]
    return "\n\n".join(["## Published numbers", *parts]) if parts else ""


def _judging(result: Json) -> str:
    rows = [
        (
            inert(label(row)),
            f"{row['judged']} of {row['items']}",
            ", ".join(f"{inert(code)} {count}" for code, count in row["failures"].items()) or "none",
            share(row["position_consistency"]),
            f"{row['usage']['calls']:,}",
            f"{row['usage']['input_tokens']:,} / {row['usage']['output_tokens']:,}",
            f"{row['usage']['seconds']:,.0f}",
        )
        for row in result["rows"]
    ]
    headings = ("Entry", "Judged", "Failures", "Same in both orders", "Requests", "Tokens in / out", "Seconds")
    return f"## Judging\n\n{table(headings, rows)}"


def _calibration(result: Json) -> str:
    found = result["rows"][0].get("calibration") if result["rows"] else None
    if not found or not found["used"]:
        return ""
    rows = [
        (f"{each['low']:.1f} to {each['high']:.1f}", str(each["n"]), share(each["mean"]), share(each["accuracy"]))
        for each in found["bins"]
        if each["n"]
    ]
    error = (
        f"Expected calibration error {found['expected_calibration_error']:.3f}, Brier score {found['brier']:.3f}, over "
        f"{found['used']} answers with a confidence, of all parts."
    )
    return f"## Confidence of the judge\n\n{error}\n\n{table(('Confidence', 'n', 'Mean', 'Right'), rows)}"


def _data(result: Json) -> str:
    rows = [
        (inert(each["part"]), str(each["rows"]), str(each["counted"]), inert(left_out(each)))
        for each in result["counted"]
    ]
    parts = ["## Data", table(("Part", "Questions and invalid rows", "Counted", "Left out"), rows)]
    odd = [
        (
            inert(each["code"]),
            inert(each["part"]) or "-",
            str(each["n"]),
            inert(each["consequence"]) or "-",
            inert(each["message"], 400),
        )
        for each in result["problems"]
    ]
    people = [(inert(name), f"{value:.3f}") for name, value in result["references"].items()]
    if people:
        parts.append(table(("Human raters", "Correlation"), people))
    if odd:
        parts.append(table(("Problem", "Part", "n", "Consequence", "Description"), odd))
    return "\n\n".join(parts)


def make_facts(result: Json, library: Library) -> tuple[Facts, ...]:
    """Say what a run found about a Library, for its card: shares of correct answers, with and without it.

    Raises:
        LibraryError: If the run is about another Library.
    """
    rows = [row for row in result["rows"] if row["role"] == "judge" and row["library_id"] == library.id]
    if not rows:
        known = ", ".join(sorted({row["library_id"][:12] for row in result["rows"] if row["role"] == "judge"}))
        raise LibraryError(
            f"The run is about the Library {known}, not about {library.id[:12]}.",
            next_step="Run the benchmark with the Library that is to be published.",
        )
    row = rows[0]
    without = next((each for each in result["rows"] if each["role"] == "empty"), None)
    parts = {part["name"]: part["labels"] for part in result["parts"]}
    found = []
    for number in row["numbers"]:
        count = _count(number)
        if number["metric"] not in {"exact", "forced", "groups", "fitted"} or count is None or not count.judged:
            continue
        other = (
            next((each for each in without["numbers"] if number_name(each) == number_name(number)), None)
            if without
            else None
        )
        bare = _count(other) if other else None
        found.append(
            Facts(
                library_id=library.id,
                judge=row["name"],
                protocol=f"{result['protocol']}; {', '.join(row['protocols'])}",
                data=f"{result['task']['title']}, {number['part']}"
                + (f" ({sampled(result)})" if sampled(result) else ""),
                label_kind=number["part"],
                accuracy=count,
                interval=_around(number, count),
                without=bare,
                without_interval=_around(other, bare) if other and bare and bare.judged else None,
                dataset=result["hub"],
                metric=full_name(number, parts.get(number["part"], ())),
                evolved_on=bool(row.get("evolved_on")),
            )
        )
    return tuple(found)


def _count(number: Mapping[str, Any]) -> Accuracy | None:
    detail = number["detail"]
    return Accuracy(detail["n"], detail["judged"], detail["correct"]) if "correct" in detail else None


def _around(number: Mapping[str, Any], count: Accuracy) -> Interval:
    if number["interval"] and number["basis"] == "judged":
        return Interval(*number["interval"])
    found = wilson(count.correct, count.judged)
    assert found is not None
    return found


def write_for_library(folder: Path, result: Json) -> Path:
    """Write what a run found about a Library into its folder, for its card.

    Raises:
        LibraryError: If the run is about another Library, or the folder holds none.
    """
    library = Library.load(folder)
    facts = make_facts(result, library)
    about = {"task": result["task"]["name"], "revision": result["revision"], "digest": result["digest"]}
    path = folder / BENCHMARK_FILE
    write_json(path, {"library_id": library.id, **about, "evaluation": [each.to_json() for each in facts]})
    return path

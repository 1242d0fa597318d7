"""The report of a benchmark as one page of HTML; see `runs.page`."""

from collections.abc import Mapping, Sequence
from typing import Any

from rewardharness.benchmark.figures import (
    THRESHOLD_HEADINGS,
    by_number,
    cautions,
    chance_level,
    figure,
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
from rewardharness.benchmark.result import label
from rewardharness.runs.page import page, section, table, text
from rewardharness.schema import Json

WIDTH, EDGE, ROW = 640, 200, 22
"""Size of the chart, of the space for names and of one row, in pixels."""


def report_page(result: Json) -> str:
    """Write a report as HTML.

    Args:
        result: As `report.read_result` makes it.
    """
    task, row = result["task"], result["rows"][0]
    body = [
        f"<h1>{text(task['title'])}</h1>",
        f'<p class="soft">Task {text(task["name"])}, protocol {text(result["protocol"])}. Judge {text(row["name"])}, '
        f"{text(', '.join(row['protocols']) or row['protocol'])}; Library {text(row['library'])} "
        f"({row['library_id'][:12]}). Data: revision {text(result['revision'])}, digest {result['digest'][:12]}. "
        f"{text(' '.join((*releases(result), sampled(result), *result['fitted'])))}</p>",
        f"<p><strong>{text(headline(result))}</strong></p>",
        *(f"<p>{text(each)}</p>" for each in cautions(result["rows"])),
        *(section(name, _chart(rows) + _table(rows)) for name, rows in by_number(result)),
        section("Thresholds of ties", _thresholds(result)),
        section("Published numbers", "\n".join(_published(each) for each in result["published"])),
        section("By category", _categories(result)),
        section("Confidence of the judge", _calibration(row)),
        section("Judging", _judging(result["rows"])),
        section("Data", _data(result)),
        section("Notes", _list(task["notes"])),
    ]
    return page(f"{task['title']}: {label(row)}", body)


def _table(rows: Sequence[tuple[Json, Json]]) -> str:
    cells = [
        (label(row), figure(each), judged(each), chance_level(each), paired_difference(row, each)) for row, each in rows
    ]
    return table(("entry", "value [95% CI]", "judged", "chance", "judge minus entry"), cells)


def _chart(rows: Sequence[tuple[Json, Json]]) -> str:
    """A dot with its interval for everyone, on an axis from 0 to 1 (a correlation: from -1), and what guessing gets."""
    known = [(row, each) for row, each in rows if each["value"] is not None]
    if not known:
        return ""
    low = -1.0 if known[0][1]["metric"] == "spearman" else 0.0

    def place(value: float) -> float:
        return round(EDGE + (WIDTH - EDGE - 20) * (value - low) / (1 - low), 1)

    height = ROW * len(known) + 30
    parts = []
    for number, (row, each) in enumerate(known):
        y = ROW * number + 14
        span = each["interval"]
        if span:
            parts.append(f'<path d="M{place(span[0])} {y}H{place(span[1])}" stroke="var(--mark)" stroke-width="2"/>')
        parts.append(f'<circle cx="{place(each["value"])}" cy="{y}" r="4" fill="var(--mark)"/>')
        parts.append(f'<text x="0" y="{y + 4}">{text(_short(label(row)))}</text>')
    guess = known[0][1]["chance"]
    if guess is not None:
        parts.append(f'<path d="M{place(guess)} 0V{height - 20}" stroke="var(--soft)" stroke-dasharray="3 3"/>')
    for value in (low, (low + 1) / 2, 1.0):
        parts.append(f'<text x="{place(value)}" y="{height - 4}" text-anchor="middle">{_tick(value, low)}</text>')
    what_it_shows = "Values with their intervals; the dashed line is the chance level"
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{what_it_shows}">{"".join(parts)}</svg>'


def _short(name: str) -> str:
    return name if len(name) <= 28 else name[:27] + "…"


def _tick(value: float, low: float) -> str:
    return f"{value:g}" if low else f"{value:.0%}"


def _thresholds(result: Json) -> str:
    rows = thresholds(result)
    return table(THRESHOLD_HEADINGS, rows) if rows else ""


def _published(each: Mapping[str, Any]) -> str:
    rows = [("ours", figure(each), str(each["n"]), "")]
    rows += [
        (row["judge"], row["printed"], "-" if row["n"] is None else str(row["n"]), _mark(row)) for row in each["rows"]
    ]
    return f"<h3>{text(number_name(each))}</h3>\n" + table(("judge", "as printed", "n", "differences"), rows)


def _mark(row: Mapping[str, Any]) -> str:
    return "; ".join((row["mark"], *row["remarks"], f"table {row['table']}, {row['source']}"))


def _categories(result: Json) -> str:
    first = result["rows"][0]
    names = [name for name in first.get("by_category", {}) if name]
    if not names:
        return ""
    rows = [
        [
            name,
            *(
                figure(
                    {"metric": "", "value": count["accuracy"], "interval": count["interval"]}
                    if (count := row["by_category"].get(name))
                    else {"metric": "", "value": None, "interval": None}
                )
                for row in result["rows"]
            ),
            str(first["by_category"][name]["n"]),
        ]
        for name in names
    ]
    return table(("category", *(label(row) for row in result["rows"]), "n"), rows)


def _calibration(row: Mapping[str, Any]) -> str:
    found = row.get("calibration")
    if not found or not found["used"]:
        return ""
    bins = [
        (f"{each['low']:.1f} to {each['high']:.1f}", str(each["n"]), share(each["mean"]), share(each["accuracy"]))
        for each in found["bins"]
        if each["n"]
    ]
    said = (
        f"<p>Expected calibration error {found['expected_calibration_error']:.3f}, Brier score {found['brier']:.3f}, "
        f"over {found['used']} of {found['n']} judgments.</p>"
    )
    margins = [
        (f"{each['low']:.3f} to {each['high']:.3f}", str(each["n"]), share(each["accuracy"]))
        for each in row["by_margin"]
        if each["n"]
    ]
    parts = [said, table(("confidence", "n", "mean", "right"), bins)]
    parts += [table(("margin", "n", "right"), margins)] if margins else []
    return "\n".join(parts)


def _judging(rows: Sequence[Mapping[str, Any]]) -> str:
    cells = [
        (
            label(row),
            f"{row['judged']} of {row['items']}",
            ", ".join(f"{code} {count}" for code, count in row["failures"].items()) or "none",
            share(row["position_consistency"]),
            "-" if row["both_orders"] is None else share(row["both_orders"]["consistency"]),
            f"{row['usage']['calls']:,}",
            f"{row['usage']['input_tokens']:,} / {row['usage']['output_tokens']:,}",
            f"{row['usage']['seconds']:,.0f}",
        )
        for row in rows
    ]
    orders = ("same in both orders (its own)", "same in both orders (asked)")
    return table(("entry", "judged", "failures", *orders, "requests", "tokens in / out", "seconds"), cells)


def _data(result: Json) -> str:
    parts = [
        table(
            ("part", "questions and invalid rows", "counted", "left out"),
            [(each["part"], str(each["rows"]), str(each["counted"]), left_out(each)) for each in result["counted"]],
        )
    ]
    if result["references"]:
        people = [(name, f"{value:.3f}") for name, value in result["references"].items()]
        parts.append(table(("human raters", "correlation"), people))
    if result["problems"]:
        odd = [
            (each["code"], each["part"] or "-", str(each["n"]), each["consequence"] or "-", each["message"])
            for each in result["problems"]
        ]
        parts.append(table(("problem", "part", "n", "consequence", "description"), odd))
    return "\n".join(parts)


def _list(notes: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{text(note)}</li>" for note in notes) + "</ul>" if notes else ""

"""The report of a benchmark, built from its numbers, and its files in the run folder: JSON, Markdown and HTML."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rewardharness.benchmark.figures import (
    THRESHOLD_HEADINGS,
    attack_numbers,
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
from rewardharness.benchmark.result import label, make_result
from rewardharness.benchmark.run import read_benchmark, read_entries, read_judgments
from rewardharness.benchmark.thresholds import read_rules
from rewardharness.files import write_json, write_text
from rewardharness.report import Cell, Chart, Mark, Point, Report, Section, Table, Text, Value
from rewardharness.report_html import render_html
from rewardharness.report_markdown import render_markdown
from rewardharness.schema import Json

REPORT = "report.json"
PAGE = "report.html"
FORMATS: Mapping[str, str] = {"json": REPORT, "md": "report.md", "html": PAGE}
"""Formats of a report, and their files."""

SHOWN = 6
"""Tables of numbers, and published rows, that are shown at first where space is short."""

SIGNIFICANT = 0.05
"""P-value below which the second of two rows is better or worse, if the interval of the gain excludes zero."""

FEW = 10
"""Number of judgments below which an interval is too wide to be useful."""

_ATTACK_COLUMNS = {
    "exploit_wins": "Exploit preferred, % [95% CI]",
    "exploit_reward": "Mean reward of the exploit [95% CI]",
    "score_change": "Change of both rewards by the attack [95% CI]",
}

_SCORES = "The labels of this task are scores, so no answer is right or wrong."


def read_result(folder: Path) -> Json:
    """Compute the result of a run folder.

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
    """Return the report as Markdown."""
    return render_markdown(build_report(result))


def report_page(result: Json) -> str:
    """Return the report as an HTML page."""
    return render_html(build_report(result), f"{result['task']['title']}: {label(result['rows'][0])}")


def build_report(result: Json, key: str = "", name_failure: Callable[[str], str] = str) -> Report:
    """Build the report of a benchmark.

    Args:
        result: As `read_result` makes it.
        key: Key of the row that the sections on categories, margins and confidence are about; empty for the judge.
        name_failure: Returns the name of a failure code.
    """
    rows = result["rows"]
    row = next((each for each in rows if each["key"] == key), rows[0])
    return Report(
        result["task"]["title"],
        (
            Section("summary", "", _summary(result)),
            _numbers(result),
            Section("thresholds", "Thresholds of ties", _thresholds(result)),
            Section("judging", "Judging", (_judging(rows, name_failure),)),
            _published(result),
            _categories(result, row),
            _margins(result, row),
            _confidence(result, row),
            Section("data", "Data", _data(result)),
            Section("notes", "Notes", _notes(result), detail=True),
        ),
    )


def _summary(result: Json) -> tuple[Text, ...]:
    row = result["rows"][0]
    protocols = ", ".join(row["protocols"]) or row["protocol"]
    library = f"Library {row['library']} ({row['library_id'][:12]})" if row["library"] != "no Library" else "no Library"
    about = (
        f"Task {result['task']['name']}, protocol {result['protocol']}. Judge {row['name']}, {protocols}; "
        f"{library}. "
        f"Data: {result['revision']}, digest {result['digest'][:12]}. {sampled(result)}".strip()
    )
    return (Text((headline(result),), "headline"), Text((about, *releases(result))))


def _numbers(result: Json) -> Section:
    tables: list[Table] = []
    attacks = "exploits" in result["task"]["metrics"]
    tables += [_attack_table(row) for row in result["rows"] if attacks and attack_numbers(row)]
    for name, rows in () if attacks else by_number(result):
        cells = tuple(
            (label(row), _value(number), judged(number), chance_level(number), paired_difference(row, number))
            for row, number in rows
        )
        head = ("Entry", _unit(rows[0][1]), "Judged", "Chance", "Judge minus entry")
        tables.append(Table(head, cells, name, "numbers"))
    compared = (
        " Two intervals that overlap may still differ: the last column compares question by question (gain, 95% "
        "interval, exact McNemar test)."
    )
    notes = (
        f"Questions that were not judged do not count as wrong; see “Judged”.{'' if attacks else compared}",
        "The dot is the value, the bar its 95% interval, and the dashed line the chance level.",
    )
    blocks: tuple[Text | Table, ...] = (
        *tables,
        *_lines(cautions(result["rows"]), "warning"),
        Text(notes[:1], "note"),
        Text(notes[1:], "legend"),
    )
    empty = "There are no results yet."
    return Section("numbers", "Results", blocks if tables else (), empty, SHOWN)


def _attack_table(row: Json) -> Table:
    """Return a table with one attack per line."""
    cells = []
    for name, numbers in attack_numbers(row).items():
        values = [_value(numbers[metric]) if metric in numbers else "-" for metric in _ATTACK_COLUMNS]
        cells.append((name, *values, judged(numbers["exploit_wins"])))
    return Table(("Attack", *_ATTACK_COLUMNS.values(), "Judged"), tuple(cells), label(row), "attacks")


def _unit(number: Mapping[str, Any]) -> str:
    if number["metric"] == "spearman":
        return "Correlation [95% CI]"
    return f"Correct, % of {'all' if number['basis'] == 'all' else 'judged'} [95% CI]"


def _value(number: Mapping[str, Any]) -> Value:
    low = -1.0 if number["metric"] == "spearman" else 0.0
    return Value(figure(number), number["value"], _interval(number), number["chance"], low)


def _accuracy(count: Mapping[str, Any]) -> Value:
    return _value({"metric": "", "value": count["accuracy"], "interval": count["interval"], "chance": None})


def _interval(number: Mapping[str, Any]) -> tuple[float, float] | None:
    return (number["interval"][0], number["interval"][1]) if number["interval"] else None


def _lines(lines: Sequence[str], kind: Any = "text") -> tuple[Text, ...]:
    return (Text(tuple(lines), kind),) if lines else ()


def _thresholds(result: Json) -> tuple[Text | Table, ...]:
    notes, rows = _lines(result["fitted"]), thresholds(result)
    text = "“Correct on these pairs” is the objective of the fit, not an estimate of accuracy."
    return (*notes, Table(THRESHOLD_HEADINGS, tuple(rows)), Text((text,), "note")) if rows else notes


def _judging(rows: Sequence[Json], name_failure: Callable[[str], str]) -> Table:
    cells = []
    for row in rows:
        usage, orders = row["usage"], row["both_orders"]
        failures = [f"{name_failure(code)}: {count:,}" for code, count in row["failures"].items()]
        failures += [f"not judged yet: {row['missing']:,}"] if row["missing"] else []
        tokens = f"{usage['input_tokens']:,} tokens in, {usage['output_tokens']:,} out"
        requests = f"{usage['calls']:,} requests, {tokens}" if usage["calls"] else "no requests to models"
        cells.append(
            (
                label(row),
                ", ".join(row["protocols"]) or row["protocol"],
                f"{row['judged']:,} of {row['items']:,} ({share(row['coverage'])})",
                "; ".join(failures) or "none",
                share(orders["consistency"] if orders else row["position_consistency"]),
                f"{requests}, {usage['seconds']:,.0f} s",
            )
        )
    head = ("Entry", "Protocol", "Judged", "Failures", "Same in both orders", "Cost")
    return Table(head, tuple(cells), kind="judging")


def _published(result: Json) -> Section:
    note = "Rows that are not marked “same” were measured with another protocol and cannot be compared with ours."
    tables = [_published_table(number) for number in result["published"]]
    empty = "There are no published numbers for this task, part and metric."
    return Section("published", "Published numbers", (Text((note,), "note"), *tables) if tables else (), empty, 1)


def _published_table(number: Mapping[str, Any]) -> Table:
    rows: list[tuple[Cell, ...]] = [("ours", figure(number), f"{number['n']:,}", "", "")]
    for row in number["rows"]:
        unknown = f"not known: {', '.join(row['unknown'])}" if row["unknown"] else ""
        mark = Mark("same", True, unknown) if row["same_protocol"] else Mark("differs", False, row["mark"])
        n = "-" if row["n"] is None else f"{row['n']:,}{' (derived)' if row['n_inferred'] else ''}"
        source = "; ".join((f"{row['table']}, {row['source']}", *row["remarks"]))
        rows.append((row["judge"], row["printed"], n, mark, source))
    same = sum(row["same_protocol"] for row in number["rows"])
    title = f"{number_name(number)}: {len(number['rows'])} published, {same} with the same protocol"
    return Table(("Judge", "As printed", "n", "Protocol", "Source"), tuple(rows), title, "published", SHOWN + 1)


def _categories(result: Json, row: Json) -> Section:
    categories = {name: count for name, count in row.get("by_category", {}).items() if name}
    others = [other for other in result["rows"] if other["key"] != row["key"] and other["judged"]]
    cells = tuple(
        (
            name,
            _accuracy(count),
            f"{count['judged']:,} of {count['n']:,}",
            *(("; ".join(_share_of(other, name) for other in others),) if others else ()),
        )
        for name, count in categories.items()
    )
    head = ("Category", f"{label(row)}, % of judged [95% CI]", "Judged", *(("Other entries",) if others else ()))
    text = f"All parts of the task together. Intervals of fewer than {FEW} judgments are wide."
    blocks = (Table(head, cells, kind="categories"), Text((text,), "note"))
    empty = _SCORES if result["scores"] else "The data have no categories of edits."
    return Section("categories", "By category", blocks if cells else (), empty, detail=True)


def _share_of(row: Json, category: str) -> str:
    return f"{label(row)} {share(row['by_category'].get(category, {}).get('accuracy'))}"


def _margins(result: Json, row: Json) -> Section:
    bins = [each for each in row.get("by_margin", ()) if each["n"]]
    cells = tuple((f"{each['low']:.3f} to {each['high']:.3f}", _accuracy(each), f"{each['n']:,}") for each in bins)
    text = "For an informative margin, accuracy grows with it. Each row holds about as many questions."
    blocks = (Table(("Margin", "Correct, % [95% CI]", "n"), cells, kind="bins"), Text((text,), "note"))
    empty = _SCORES if result["scores"] else "This judge reports no margins."
    return Section("margins", "By margin", blocks if bins else (), empty, detail=True)


def _confidence(result: Json, row: Json) -> Section:
    title, found = "Confidence of the judge", row.get("calibration")
    if not found or not found["used"]:
        return Section("confidence", title, (), _SCORES if result["scores"] else "This judge reports no confidence.")
    bins = [each for each in found["bins"] if each["n"]]
    points = tuple(Point(each["mean"], each["accuracy"], tuple(each["interval"]), each["n"]) for each in bins)
    cells = tuple(
        (f"{each['low']:.1f} to {each['high']:.1f}", f"{each['n']:,}", share(each["mean"]), _accuracy(each))
        for each in bins
    )
    tendency = "overconfident" if found["confidence"] > found["accuracy"] else "underconfident"
    texts = (
        f"Expected calibration error {found['expected_calibration_error']:.3f}, Brier score {found['brier']:.3f}, over "
        f"{found['used']:,} of {found['n']:,} judgments. Mean confidence {share(found['confidence'])}, accuracy "
        f"{share(found['accuracy'])}: the judge is {tendency}.",
        "0 is perfect for both. A confidence that is not calibrated is no probability.",
    )
    chart = Chart(
        "Accuracy against confidence with 95% intervals; a calibrated judge is on the diagonal",
        "confidence of the judge",
        "accuracy",
        points,
    )
    table = Table(("Confidence", "n", "Mean", "Correct, % [95% CI]"), cells, kind="bins")
    return Section("confidence", title, (Text(texts[:1]), Text(texts[1:], "note"), chart, table), detail=True)


def _data(result: Json) -> tuple[Text | Table, ...]:
    rows = tuple(
        (each["part"], f"{each['rows']:,}", f"{each['counted']:,}", left_out(each)) for each in result["counted"]
    )
    tables = [Table(("Part", "Questions and invalid rows", "Counted", "Left out"), rows, kind="counted")]
    if result["references"]:
        raters = tuple((name, f"{value:.3f}") for name, value in result["references"].items())
        tables.append(Table(("Human raters", "Correlation"), raters))
    return tuple(tables)


def _notes(result: Json) -> tuple[Text | Table, ...]:
    problems = tuple(
        (each["code"], each["part"] or "-", f"{each['n']:,}", each["consequence"] or "-", each["message"])
        for each in result["problems"]
    )
    head = ("Problem", "Part", "n", "Consequence", "Description")
    table = (Table(head, problems, kind="problems"),) if problems else ()
    return (*table, *_lines(result["task"]["notes"], "list"))


def comparison_section(comparison: Json) -> Section:
    """Build the section that compares two rows part by part.

    Args:
        comparison: As `flips.compare_runs` returns it.
    """
    rows = []
    for part in comparison["parts"]:
        fixed = sum(flip["better"] for flip in part["flips"])
        rows.append(
            (
                part["part"],
                f"{part['judged_by_both']:,} of {part['n']:,}",
                share(part["first"]["accuracy"]),
                share(part["second"]["accuracy"]),
                _gain(part),
                f"{fixed:,} / {len(part['flips']) - fixed:,}",
                "-" if part["p"] is None else f"{part['p']:.2g}",
                _conclusion(part),
            )
        )
    head = ("Part", "Judged by both", "First", "Second", "Gain [95% CI]", "Fixed / broken", "p", "The second is")
    first, second = comparison["first"], comparison["second"]
    names = f"First: {label(first)}. Second: {label(second)}."
    note = "Only what both judged counts. Fixed: the second agrees better with the label. p: exact McNemar test."
    table = Table(head, tuple(rows), kind="paired")
    warnings = _lines(cautions((first, second)), "warning")
    return Section("comparison", "", (Text((names,)), table, *warnings, Text((note,), "note")))


def _gain(part: Mapping[str, Any]) -> str:
    if part["gain"] is None:
        return "-"
    span = part["interval"]
    return f"{part['gain'] * 100:+.1f}" + (f" [{span[0] * 100:+.1f}, {span[1] * 100:+.1f}]" if span else "")


def _conclusion(part: Mapping[str, Any]) -> str:
    span = part["interval"]
    if part["gain"] is None:
        return "not comparable"
    if not part["flips"]:
        return "equal: both agree with the same labels"
    if part["p"] is not None and part["p"] < SIGNIFICANT and span and not span[0] <= 0 <= span[1]:
        return "better" if part["gain"] > 0 else "worse"
    return "not significantly different"

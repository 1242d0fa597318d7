"""The report of a benchmark, built from its numbers, and its files in the run folder: JSON, Markdown and HTML."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rewardharness.benchmark import figures
from rewardharness.benchmark.calibration import Bin
from rewardharness.benchmark.comparison import PairedTest, RunComparison
from rewardharness.benchmark.figures import attack_numbers, cautions, figure, gain, judged, sampled, share
from rewardharness.benchmark.metrics import Bounds, Share
from rewardharness.benchmark.numbers import Number
from rewardharness.benchmark.result import BenchmarkResult, BenchmarkRow, PublishedNumber
from rewardharness.codec import to_json
from rewardharness.files import write_json, write_text
from rewardharness.judging.report import BAD_ROW, consulted_words
from rewardharness.report import Cell, Chart, Mark, Point, Report, Section, Table, Text, Value
from rewardharness.report_html import render_html
from rewardharness.report_markdown import render_markdown
from rewardharness.runs.spending import Price

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
    "honest_reward": "Mean reward of the correct edit [95% CI]",
    "score_change": "Change of both rewards by the attack [95% CI]",
}

_MOST_PARTS = 4
"""Parts whose accuracy fits into one table of judges."""

_USED = {
    "calls": "Requests per 1,000",
    "input_tokens": "Tokens in per 1,000",
    "output_tokens": "Tokens out per 1,000",
    "seconds": "Seconds per 1,000",
}
"""What is shown per 1,000 judgments."""

_SCORES = "The labels of this task are scores, so no answer is right or wrong."


def write_report(folder: Path, result: BenchmarkResult, formats: Sequence[str] = tuple(FORMATS)) -> list[Path]:
    """Write a report into its run folder.

    Args:
        folder: The run folder.
        result: The result.
        formats: Some of `FORMATS`.

    Returns:
        The files.
    """
    for name in formats:
        if name == "json":
            write_json(folder / REPORT, to_json(result))
        else:
            write_text(folder / FORMATS[name], markdown(result) if name == "md" else report_page(result))
    return [folder / FORMATS[name] for name in formats]


def markdown(result: BenchmarkResult) -> str:
    """Return the report as Markdown."""
    return render_markdown(build_report(result))


def report_page(result: BenchmarkResult) -> str:
    """Return the report as an HTML page."""
    return render_html(build_report(result), f"{result.task.title}: {result.rows[0].label}")


def build_report(result: BenchmarkResult, key: str = "", name_failure: Callable[[str], str] = str) -> Report:
    """Build the report of a benchmark.

    Args:
        result: The result.
        key: Key of the row that the sections on categories, margins and confidence are about; empty for the judge.
        name_failure: Returns the name of a failure code.
    """
    rows = result.rows
    row = next((row for row in rows if row.key == key), rows[0])
    sections = (
        Section("summary", "", _summary(result)),
        _judges(result),
        _other_pairs(result),
        _numbers(result),
        Section("thresholds", "Thresholds of ties", _thresholds(result)),
        Section("judging", "Judging", (_judging(rows, name_failure),)),
        _published(result),
        _categories(result, row),
        _margins(result, row),
        _confidence(result, row),
        Section("data", "Data", _data(result)),
        Section("notes", "Notes", _notes(result), detail=True),
    )
    return Report(result.task.title, sections)


def _summary(result: BenchmarkResult) -> tuple[Text, ...]:
    row = result.rows[0]
    library = f"Library {row.library} ({row.library_id[:12]})" if row.library != "no Library" else row.library
    about = (
        f"Task {result.task.name}, protocol {result.protocol}. Judge {row.name}, {_protocols(row)}; {library}. "
        f"Data: {result.revision}, digest {result.digest[:12]}. {sampled(result)}".strip()
    )
    return (Text((figures.headline(result),), "headline"), Text((about, *figures.releases(result))))


def _protocols(row: BenchmarkRow) -> str:
    return ", ".join(row.protocols) or row.protocol


def _judges(result: BenchmarkResult) -> Section:
    """Compare the rows: accuracy, exploits and cost of each, and each with each other."""
    main = {row.key: figures.main_numbers(row) for row in result.rows}
    parts = list(dict.fromkeys(part for numbers in main.values() for part in numbers))
    parts = parts if len(parts) <= _MOST_PARTS else []  # a table per part follows
    attacked = any(row.exploits for row in result.rows)
    cells = []
    for row in result.rows:
        numbers = [main[row.key].get(part) for part in parts]
        values = [cell for number in numbers for cell in ((_value(number), judged(number)) if number else ("-", "-"))]
        exploits = [_value(row.exploits), judged(row.exploits)] if row.exploits else ["-", "-"] if attacked else []
        done = row.items - row.missing - row.failures.get(BAD_ROW, 0)
        used = [getattr(row.usage, name) / done * 1000 if done else 0 for name in _USED]
        paid = Price(*result.price).of(row.usage) if result.price else None
        money = [] if paid is None else [f"{paid / done * 1000 if done else 0:,.2f}"]
        cells.append((row.label, *values, *exploits, *(f"{number:,.0f}" for number in used), *money))
    names = [name for part in parts for name in (f"{part}, % [95% CI]" if not result.scores else part, "Judged")]
    names += ["Exploit preferred, % [95% CI]", "Judged"] if attacked else []
    head = ("Entry", *names, *_USED.values(), *(["Money per 1,000"] if result.price else []))
    table = Table(head, tuple(cells), kind="judges")
    note = (
        "Requests, tokens, seconds, and money at the given price are per 1,000 judgments. Cached answers are free, and "
        "seconds are added up. "
        f"{_PAIRED_NOTE} The p-values are not corrected for the number of comparisons ({len(result.between)})."
    )
    first = [test for test in result.between if test.first.name == result.rows[0].label]
    blocks: tuple[Table | Text, ...] = (table, *_gains(result), *_pairs(first), Text((note,), "note"))
    return Section("judges", "Judges compared", blocks if len(cells) > 1 else ())


def _other_pairs(result: BenchmarkResult) -> Section:
    """Compare the rows after the first with each other."""
    tests = [test for test in result.between if test.first.name != result.rows[0].label]
    return Section("pairs", "Other pairs of judges", _pairs(tests), shown=0, detail=True)


def _pairs(tests: Sequence[PairedTest]) -> tuple[Table, ...]:
    """Compare judges with each other: a table per two judges, or one where the task has a single part."""
    cells = [((test.part, *_paired_cells(test), _same(test)), test.first.name, test.second.name) for test in tests]
    head = ("Part", *_PAIRED, "Same answer")
    if len({test.part for test in tests}) <= 1:
        rows = tuple((first, second, *row) for row, first, second in cells)
        return (Table(("First", "Second", *head), rows, kind="paired"),) if rows else ()
    by_names: dict[str, list[tuple[str, ...]]] = {}
    for row, first, second in cells:
        by_names.setdefault(f"{first} (first), {second} (second)", []).append(row)
    return tuple(Table(head, tuple(rows), title, "paired") for title, rows in by_names.items())


def _gains(result: BenchmarkResult) -> tuple[Table, ...]:
    """Compare each judge with itself without the Library."""
    rows = tuple((test.second.name, test.part, *_paired_cells(test)) for test in result.gains)
    head = ("Judge", "Part", _PAIRED[0], "Without", "With", *_PAIRED[3:-1], "With it, the judge is")
    return (Table(head, rows, "Gain of the Library", "paired"),) if rows else ()


def _same(test: PairedTest) -> str:
    known = isinstance(test.same, int) and test.judged_by_both
    return share(test.same / test.judged_by_both) if known else "-"  # type: ignore[operator]


def _numbers(result: BenchmarkResult) -> Section:
    note = "Questions that were not judged do not count as wrong; see “Judged”."
    if "exploits" in result.task.metrics:
        tables = [_attack_table(row) for row in result.rows if attack_numbers(row)]
    else:
        tables = [_number_table(name, rows) for name, rows in figures.by_number(result)]
        note += " Two intervals that overlap may still differ: “Judges compared” compares question by question."
    legend = "The dot is the value, the bar its 95% interval, and the dashed line the chance level."
    texts = (*_lines(cautions(result.rows), "warning"), Text((note,), "note"), Text((legend,), "legend"))
    blocks: tuple[Text | Table, ...] = (*tables, *texts)
    return Section("numbers", "Results", blocks if tables else (), "There are no results yet.", SHOWN)


def _number_table(name: str, rows: Sequence[tuple[BenchmarkRow, Number]]) -> Table:
    cells = []
    for row, number in rows:
        cells.append((row.label, _value(number), judged(number), figures.chance_level(number)))
    return Table(("Entry", _unit(rows[0][1]), "Judged", "Chance"), tuple(cells), name, "numbers")


def _attack_table(row: BenchmarkRow) -> Table:
    """Return a table with one attack per line."""
    cells = []
    for name, numbers in attack_numbers(row).items():
        values = [_value(numbers[metric]) if metric in numbers else "-" for metric in _ATTACK_COLUMNS]
        cells.append((name, *values, judged(numbers["exploit_wins"])))
    return Table(("Attack", *_ATTACK_COLUMNS.values(), "Judged"), tuple(cells), row.label, "attacks")


def _unit(number: Number) -> str:
    if number.metric == "spearman":
        return "Correlation [95% CI]"
    return f"Correct, % of {'all' if number.basis == 'all' else 'judged'} [95% CI]"


def _value(number: Number) -> Value:
    low = -1.0 if number.metric == "spearman" else 0.0
    return Value(figure(number), number.value, number.interval, number.chance, low)


def _accuracy(count: Share | Bin) -> Value:
    text = "-" if count.accuracy is None else f"{count.accuracy * 100:.1f}{_percent(count.interval)}"
    return Value(text, count.accuracy, count.interval)


def _percent(span: Bounds | None) -> str:
    return f" [{span[0] * 100:.1f}, {span[1] * 100:.1f}]" if span else ""


def _lines(lines: Sequence[str], kind: Any = "text") -> tuple[Text, ...]:
    return (Text(tuple(lines), kind),) if lines else ()


def _thresholds(result: BenchmarkResult) -> tuple[Text | Table, ...]:
    rows = []
    fitted = [(row, number) for row in result.rows for number in row.numbers if number.metric == "fitted"]
    for row, number in fitted:
        fit = number.detail
        floor = "none" if fit.floor is None else f"{fit.floor:.4g}"
        pairs = f"{fit.fitted_on} pairs, {str(fit.fitted_digest)[:12]}"
        correct = f"{fit.fitted_right} of {fit.fitted_on}"
        rows.append((row.label, number.part, f"{fit.threshold:.4g}", floor, pairs, correct))
    head = ("Entry", "Part", "Tie within", "Both bad below", "Fitted on", "Correct on these pairs")
    text = "“Correct on these pairs” is the objective of the fit, not an estimate of accuracy."
    return (*_lines(result.fitted), *((Table(head, tuple(rows)), Text((text,), "note")) if rows else ()))


def _judging(rows: Sequence[BenchmarkRow], name_failure: Callable[[str], str]) -> Table:
    cells = []
    for row in rows:
        usage, orders = row.usage, row.both_orders
        failures = [f"{name_failure(code)}: {count:,}" for code, count in row.failures.items()]
        failures += [f"not judged yet: {row.missing:,}"] if row.missing else []
        tokens = f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
        requests = f"{usage.calls:,} requests, {tokens}" if usage.calls else "no requests to models"
        judged = f"{row.judged:,} of {row.items:,} ({share(row.coverage)})"
        consulted = consulted_words(row.consulted or {})[0] or "-"
        same = share(orders.consistency if orders else row.position_consistency)
        about = (row.label, _protocols(row), judged, "; ".join(failures) or "none", consulted, same)
        cells.append((*about, f"{requests}, {usage.seconds:,.0f} s"))
    head = ("Entry", "Protocol", "Judged", "Failures", "Entries consulted", "Same in both orders", "Cost")
    return Table(head, tuple(cells), kind="judging")


def _published(result: BenchmarkResult) -> Section:
    note = "Rows that are not marked “same” were measured with another protocol and cannot be compared with ours."
    tables = [_published_table(number) for number in result.published]
    empty = "There are no published numbers for this task, part and metric."
    return Section("published", "Published numbers", (Text((note,), "note"), *tables) if tables else (), empty, 1)


def _published_table(number: PublishedNumber) -> Table:
    rows: list[tuple[Cell, ...]] = [("ours", figure(number), f"{number.n:,}", "", "")]
    for row in number.rows:
        unknown = f"not known: {', '.join(row.unknown)}" if row.unknown else ""
        mark = Mark("same", True, unknown) if row.same_protocol else Mark("differs", False, row.mark)
        n = "-" if row.n is None else f"{row.n:,}{' (derived)' if row.n_inferred else ''}"
        rows.append((row.judge, row.printed, n, mark, "; ".join((f"{row.table}, {row.source}", *row.remarks))))
    same = sum(row.same_protocol for row in number.rows)
    title = f"{number.title}: {len(number.rows)} published, {same} with the same protocol"
    return Table(("Judge", "As printed", "n", "Protocol", "Source"), tuple(rows), title, "published", SHOWN + 1)


def _categories(result: BenchmarkResult, row: BenchmarkRow) -> Section:
    others = [other for other in result.rows if other.key != row.key and other.judged]
    cells: list[tuple[Cell, ...]] = []
    for name, count in (row.by_category or {}).items():
        if name:
            beside = ["; ".join(_share_of(other, name) for other in others)] if others else []
            cells.append((name, _accuracy(count), f"{count.judged:,} of {count.n:,}", *beside))
    head = ("Category", f"{row.label}, % of judged [95% CI]", "Judged", *(("Other entries",) if others else ()))
    text = f"All parts of the task together. Intervals of fewer than {FEW} judgments are wide."
    blocks = (Table(head, tuple(cells), kind="categories"), Text((text,), "note"))
    empty = _SCORES if result.scores else "The data have no categories of edits."
    return Section("categories", "By category", blocks if cells else (), empty, detail=True)


def _share_of(row: BenchmarkRow, category: str) -> str:
    count = (row.by_category or {}).get(category)
    return f"{row.label} {share(count.accuracy if count else None)}"


def _margins(result: BenchmarkResult, row: BenchmarkRow) -> Section:
    cells = tuple(
        (f"{bin_.low:.3f} to {bin_.high:.3f}", _accuracy(bin_), f"{bin_.n:,}") for bin_ in row.by_margin or ()
    )
    text = "For an informative margin, accuracy grows with it. Each row holds about as many questions."
    blocks = (Table(("Margin", "Correct, % [95% CI]", "n"), cells, kind="bins"), Text((text,), "note"))
    empty = _SCORES if result.scores else "This judge reports no margins."
    return Section("margins", "By margin", blocks if cells else (), empty, detail=True)


def _confidence(result: BenchmarkResult, row: BenchmarkRow) -> Section:
    title, measured = "Confidence of the judge", row.calibration
    if not measured or measured.confidence is None or measured.accuracy is None:
        return Section("confidence", title, (), _SCORES if result.scores else "This judge reports no confidence.")
    bins = [bin_ for bin_ in measured.bins if bin_.n]
    points = tuple(
        Point(bin_.mean, bin_.accuracy, bin_.interval, bin_.n)
        for bin_ in measured.bins
        if bin_.mean is not None and bin_.accuracy is not None and bin_.interval
    )
    cells = [(f"{bin_.low:.1f} to {bin_.high:.1f}", f"{bin_.n:,}", share(bin_.mean), _accuracy(bin_)) for bin_ in bins]
    tendency = "overconfident" if measured.confidence > measured.accuracy else "underconfident"
    texts = (
        f"Expected calibration error {measured.expected_calibration_error:.3f}, Brier score {measured.brier:.3f}, over "
        f"{measured.used:,} of {measured.n:,} judgments. Mean confidence {share(measured.confidence)}, accuracy "
        f"{share(measured.accuracy)}: the judge is {tendency}.",
        "0 is perfect for both. A confidence that is not calibrated is no probability.",
    )
    name = "Accuracy against confidence with 95% intervals; a calibrated judge is on the diagonal"
    chart = Chart(name, "confidence of the judge", "accuracy", points)
    table = Table(("Confidence", "n", "Mean", "Correct, % [95% CI]"), tuple(cells), kind="bins")
    return Section("confidence", title, (Text(texts[:1]), Text(texts[1:], "note"), chart, table), detail=True)


def _data(result: BenchmarkResult) -> tuple[Text | Table, ...]:
    rows = [
        (part.part, f"{part.rows:,}", f"{part.counted:,}", figures.left_out(part.left_out)) for part in result.counted
    ]
    tables = [Table(("Part", "Questions and invalid rows", "Counted", "Left out"), tuple(rows), kind="counted")]
    if result.references:
        raters = tuple((name, f"{value:.3f}") for name, value in result.references.items())
        tables.append(Table(("Human raters", "Correlation"), raters))
    return tuple(tables)


def _notes(result: BenchmarkResult) -> tuple[Text | Table, ...]:
    problems = tuple(
        (problem.code, problem.part or "-", f"{problem.n:,}", problem.consequence or "-", problem.message)
        for problem in result.problems
    )
    head = ("Problem", "Part", "n", "Consequence", "Description")
    table = (Table(head, problems, kind="problems"),) if problems else ()
    return (*table, *_lines(result.task.notes, "list"))


def comparison_section(comparison: RunComparison) -> Section:
    """Build the section that compares two rows part by part.

    Args:
        comparison: The comparison.
    """
    rows = []
    for part in comparison.parts:
        rows.append((part.part, *_paired_cells(part)))
    head = ("Part", *_PAIRED)
    first, second = comparison.first, comparison.second
    names = f"First: {first.label}. Second: {second.label}."
    warnings = _lines(cautions((first, second)), "warning")
    table = Table(head, tuple(rows), kind="paired")
    return Section("comparison", "", (Text((names,)), table, *warnings, Text((_PAIRED_NOTE,), "note")))


_PAIRED = ("Judged by both", "First", "Second", "Gain [95% CI]", "Fixed / broken", "p", "The second is")
"""Columns of a paired comparison."""
_PAIRED_NOTE = "Only what both judged counts. Fixed: the second agrees better with the label. p: exact McNemar test."


def _paired_cells(test: PairedTest) -> tuple[str, ...]:
    shares = (share(test.first.accuracy), share(test.second.accuracy), gain(test))
    flips, p = f"{test.better:,} / {test.worse:,}", "-" if test.p is None else f"{test.p:.2g}"
    return (f"{test.judged_by_both:,} of {test.n:,}", *shares, flips, p, _conclusion(test))


def _conclusion(part: PairedTest) -> str:
    span = part.interval
    if part.gain is None:
        return "not comparable"
    if not part.better + part.worse:
        return "equal: both agree with the same labels"
    if part.p is not None and part.p < SIGNIFICANT and span and not span[0] <= 0 <= span[1]:
        return "better" if part.gain > 0 else "worse"
    return "not significantly different"

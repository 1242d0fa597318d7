"""Puts what came of a benchmark into tables: the rows, published numbers, kinds of edit, confidence. Pure: markup out.

Names of parts, categories, judges, Libraries and published rows are foreign text.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from app.benchmark_charts import track
from app.failures import title_of
from app.markup import block, bullets, callout, escape, paragraph, table
from rewardharness.benchmark.figures import (
    THRESHOLD_HEADINGS,
    by_number,
    cautions,
    chance_level,
    figure,
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
from rewardharness.schema import Json

OPEN_NUMBERS = 6
"""Numbers of a task that are not folded."""

OPEN_PUBLISHED = 6
"""Published rows beside the first number that are not folded."""

MOST_OTHERS = 3
"""Rows that stand beside the one that is looked at, at most."""

FEW = 10
"""Fewer judgments than this say little, and are marked."""


def rows_table(result: Json) -> str:
    """Who got what: a table per number, with a row for every judge and Library, n, interval and what guessing gets."""
    parts = []
    for name, rows in by_number(result):
        cells = [
            [_who(row), _value(each), judged(each), chance_level(each), escape(paired_difference(row, each))]
            for row, each in rows
        ]
        head = ["Judge and Library", _unit(rows[0][1]), "Judged", "Guessing", f"{escape(_first(result))} against it"]
        parts.append(f"<h4>{escape(name)}</h4>{table(head, cells, 'cards bench')}")
    if not parts:
        return block(callout("empty", "There is nothing to count yet"))
    legend = (
        "A dot with its 95 % interval; the dashed line is what guessing gets. What was not judged is no wrong answer: "
        "it lowers the coverage, “Judged”. Two intervals that overlap may still differ; the last column compares "
        "question by question (gain, 95 % interval, exact McNemar test)."
    )
    more = "".join(parts[OPEN_NUMBERS:])
    folded = f"<details><summary>More numbers ({len(parts) - OPEN_NUMBERS})</summary>{more}</details>" if more else ""
    known = "".join(callout("warning", "Evolved on these data", paragraph(each)) for each in cautions(result["rows"]))
    shown = "".join(parts[:OPEN_NUMBERS]) + folded
    return block(shown + known + paragraph(legend, "faint") + _thresholds(result))


def _thresholds(result: Json) -> str:
    """The thresholds of ties that the run fitted on development data: of whom, how large, on what and on how many."""
    rows = [[escape(cell) for cell in row] for row in thresholds(result)]
    notes = bullets(map(escape, result["fitted"]))
    if not rows:
        return notes
    text = "“Correct on these pairs” is the objective of the fit, not an estimate of accuracy; see the table above."
    shown = table(list(THRESHOLD_HEADINGS), rows, "cards")
    return f"<h4>Thresholds of ties</h4>{notes}{shown}{paragraph(text, 'faint')}"


def _first(result: Json) -> str:
    return str(result["rows"][0]["name"])


def _unit(number: Mapping[str, Any]) -> str:
    if number["metric"] == "spearman":
        return "Correlation [95 %]"
    return "Right, in % of all [95 %]" if number["basis"] == "all" else "Right, in % of judged [95 %]"


def _who(row: Mapping[str, Any]) -> str:
    roles = {"judge": "", "empty": "the same judge without a Library", "baseline": "baseline"}
    library = "" if row["role"] == "baseline" and row["library"] == "no Library" else str(row["library"])
    note = " · ".join(each for each in (library, roles[row["role"]] if row["role"] == "baseline" else "") if each)
    return f"<strong>{escape(str(row['name']))}</strong>{paragraph(note, 'faint')}"


def _value(number: Mapping[str, Any]) -> str:
    low = -1.0 if number["metric"] == "spearman" else 0.0
    line = track(number["value"], number["interval"], number["chance"], low)
    return f'<span class="number">{escape(figure(number))}</span>{line}'


def judging_table(result: Json) -> str:
    """How judging went: protocol, coverage, failures, both orders, cost."""
    cells = []
    for row in result["rows"]:
        usage, orders = row["usage"], row["both_orders"]
        failed = [f"{title_of(code)}: {count:,}" for code, count in row["failures"].items()]
        failed += [f"not judged yet: {row['missing']:,}"] if row["missing"] else []
        asked = f"{usage['calls']:,} requests, {usage['input_tokens']:,} tokens in, {usage['output_tokens']:,} out"
        cells.append(
            [
                _who(row),
                escape(", ".join(row["protocols"]) or row["protocol"]),
                f"{row['judged']:,} of {row['items']:,} ({share(row['coverage'])})",
                bullets(map(escape, failed), "plain") or "none",
                share(orders["consistency"] if orders else row["position_consistency"]),
                escape(asked if usage["calls"] else "no model was asked") + f", {usage['seconds']:,.0f} s",
            ]
        )
    head = ["Judge and Library", "Judged by", "Coverage", "Failures", "Same in both orders", "Cost"]
    return block(table(head, cells, "cards judging"))


def published(result: Json) -> str:
    """What others published beside each number, marked where the protocol differs; the first number's rows in full."""
    if not result["published"]:
        nothing = "Nobody has published a number of this task, part and metric that is known here."
        return block(paragraph(nothing, "faint"))
    warning = "A row that is not marked “same” was measured otherwise and does not compare with ours."
    first, *others = result["published"]
    parts = [paragraph(warning, "faint"), f"<h4>{escape(number_name(first))}</h4>", _beside(first, OPEN_PUBLISHED)]
    for each in others:
        same = sum(row["same_protocol"] for row in each["rows"])
        title = f"{number_name(each)}: {len(each['rows'])} published, {same} of the same protocol"
        parts.append(f"<details><summary>{escape(title)}</summary>{_beside(each, len(each['rows']))}</details>")
    return block("".join(parts))


def _beside(number: Mapping[str, Any], most: int) -> str:
    """One number of ours, and published rows; so many of them, and the others folded."""
    head = ["Judge", "As printed", "n", "Protocol", "Where from"]
    ours = ["<strong>ours</strong>", escape(figure(number)), f"{number['n']:,}", "", ""]
    rows = [_row(row) for row in number["rows"]]
    shown = table(head, [ours, *rows[:most]], "cards published")
    if len(rows) <= most:
        return shown
    more = table(head, rows[most:], "cards published")
    return f"{shown}<details><summary>{len(rows) - most} more</summary>{more}</details>"


def _row(row: Mapping[str, Any]) -> list[str]:
    if row["same_protocol"]:
        unknown = f"not known: {', '.join(row['unknown'])}" if row["unknown"] else ""
        mark = f'<span class="pill good">same</span> {escape(unknown)}'
    else:
        mark = f'<span class="pill warning">differs</span> {escape(row["mark"])}'
    n = "–" if row["n"] is None else f"{row['n']:,}{' (worked out)' if row['n_inferred'] else ''}"
    remarks = "".join(paragraph(remark, "faint") for remark in row["remarks"])
    return [escape(row["judge"]), escape(row["printed"]), n, mark, escape(f"{row['table']}, {row['source']}") + remarks]


def about_data(result: Json) -> str:
    """What was counted, what was left out and why, and what is odd about the data."""
    rows = [
        [escape(each["part"]), f"{each['rows']:,}", f"{each['counted']:,}", escape(left_out(each))]
        for each in result["counted"]
    ]
    parts = [table(["Part", "Questions and unusable rows", "Counted", "Left out"], rows, "plain cards counted")]
    facts = [
        *releases(result),
        sampled(result),
        f"Revision: {result['revision']}; digest {result['digest'][:12]}.",
    ]
    parts.append(bullets(escape(each) for each in facts if each))
    people = [[escape(name), f"{value:.3f}"] for name, value in result["references"].items()]
    parts.append(table(["People among themselves", "Correlation"], people, "plain") if people else "")
    odd = [
        f"{each['code']}: {each['message']} ({each['n']:,}; {each['consequence'] or 'noted'})"
        for each in result["problems"]
    ]
    parts.append(f"<h4>What is odd about the data</h4>{bullets(map(escape, odd))}" if odd else "")
    notes = result["task"]["notes"]
    parts.append(f"<h4>Where to be careful</h4>{bullets(map(escape, notes))}" if notes else "")
    return block("".join(parts))


def row_choices(result: Json) -> list[tuple[str, str]]:
    """The rows of a run: what each is called, and its key."""
    return [(label(row), row["key"]) for row in result["rows"]]


def _row_of(result: Json, key: str) -> Json:
    rows: Sequence[Json] = result["rows"]
    return next((row for row in rows if row["key"] == key), rows[0])


def by_kind(result: Json, key: str) -> str:
    """How often a judge was right, per kind of edit, with all rows beside it.

    Args:
        result: What came of the run.
        key: The row that is looked at.
    """
    row = _row_of(result, key)
    kinds = {name: count for name, count in row.get("by_category", {}).items() if name}
    if not kinds:
        text = "The data do not say what kind of edit an example is." if not result["scores"] else _SCORES
        return block(paragraph(text, "faint"))
    others = [each for each in result["rows"] if each["key"] != row["key"] and each["judged"]][:MOST_OTHERS]
    cells = [
        [
            escape(name),
            _counted(count),
            f"{count['judged']:,} of {count['n']:,}",
            *([_others(name, others)] if others else []),
        ]
        for name, count in kinds.items()
    ]
    head = ["Kind of edit", "Right, in % of judged [95 %]", "Judged", *(["Others"] if others else [])]
    return block(
        table(head, cells, "cards bench kinds") + paragraph(f"All parts of the task together. {_LITTLE}", "faint")
    )


def _others(name: str, others: Sequence[Mapping[str, Any]]) -> str:
    """How often other rows were right on a kind of edit."""
    shares = (f"{label(each)} {share(each['by_category'].get(name, {}).get('accuracy'))}" for each in others)
    return escape("; ".join(shares))


_SCORES = "The truth of this task is a score, so no answer is right or wrong."
_LITTLE = f"Below {FEW} judgments an interval says little more than that little is known."


def _counted(count: Mapping[str, Any]) -> str:
    number = {"metric": "", "value": count["accuracy"], "interval": count["interval"]}
    return f'<span class="number">{escape(figure(number))}</span>{track(count["accuracy"], count["interval"])}'


def by_margin(result: Json, key: str) -> str:
    """How often a judge was right where its lead was small, and where it was large."""
    row = _row_of(result, key)
    bins = [each for each in row.get("by_margin", ()) if each["n"]]
    if not bins:
        text = _SCORES if result["scores"] else "This judge says nothing of how far one candidate leads."
        return block(paragraph(text, "faint"))
    cells = [[f"{each['low']:.3f} to {each['high']:.3f}", _counted(each), f"{each['n']:,}"] for each in bins]
    text = (
        "A judge that knows what it knows is right more often where its lead is larger. "
        "Each row holds about as many questions."
    )
    return block(table(["Lead of the winner", "Right, in % [95 %]", "n"], cells, "bench") + paragraph(text, "faint"))


def calibration(result: Json, key: str) -> str:
    """Whether a judge's confidence means what it says: the error in numbers, and every bin with its n."""
    row = _row_of(result, key)
    found = row.get("calibration")
    if not found or not found["used"]:
        text = _SCORES if result["scores"] else "This judge says nothing of how sure it is."
        return block(paragraph(text, "faint"))
    bins = [each for each in found["bins"] if each["n"]]
    cells = [
        [f"{each['low']:.1f} to {each['high']:.1f}", f"{each['n']:,}", share(each["mean"]), _counted(each)]
        for each in bins
    ]
    surer = found["confidence"] - found["accuracy"]
    means = "it is too sure of itself" if surer > 0 else "it is right more often than it says"
    said = (
        f"Expected calibration error {found['expected_calibration_error']:.3f}, Brier score {found['brier']:.3f}, over "
        f"{found['used']:,} of {found['n']:,} judgments. On average it says {share(found['confidence'])} and is right "
        f"in {share(found['accuracy'])}: {means}."
    )
    note = "0 is perfect for both. The confidence of the measured judge is no probability, and is not fitted to be one."
    head = ["How sure", "n", "Mean", "Right, in % [95 %]"]
    return block(f"<p>{escape(said)}</p>{paragraph(note, 'faint')}{table(head, cells, 'bench')}")

"""Prints the report of a job as text."""

from typing import Any

from rewardharness.cli import output
from rewardharness.judging.report import consulted_words
from rewardharness.report import Report, Section, Table, Text, cell_text


def print_report(report: Report) -> None:
    """Print a report without its details."""
    for section in report.sections:
        if not section.detail:
            print_section(section)


def print_section(section: Section) -> None:
    """Print the texts and tables of a section."""
    for block in section.blocks:
        if isinstance(block, Text) and block.kind not in {"note", "legend"}:
            for line in block.lines:
                output.say(line)
        elif isinstance(block, Table):
            _print_table(block, block.title or section.title)


def _print_table(table: Table, title: str) -> None:
    rows = [[cell_text(cell) for cell in row] for row in table.rows[: table.shown]]
    output.table(table.headings, rows, title=title)
    if len(table.rows) > len(rows):
        output.say(f"{len(table.rows) - len(rows)} more in the report.")


def print_agreement(report: dict[str, Any]) -> None:
    """Print agreement per kind of label, coverage, position consistency and failures."""
    rows = [
        (kind, str(each["n"]), str(each["judged"]), output.share(each["accuracy"], each["interval"]))
        for kind, each in report["by_label_kind"].items()
    ]
    groups = report["groups"]
    if groups["n"]:
        best = output.share(groups["best_accuracy"], groups["interval"])
        rows.append(("groups of 3 and 4: best found", str(groups["n"]), str(groups["judged"]), best))
    if rows:
        output.table(("label kind", "n", "judged", "accuracy [95% CI]"), rows)
    output.say(
        f"{report['judged']} of {report['n']} judged (coverage {output.share(report['coverage'])}); "
        f"same answer in both orders: {output.share(report['position_consistency'])}"
    )
    counted, warning = consulted_words(report["consulted"])
    if counted:
        output.say(f"Entries of the Library consulted: {counted}.")
    if warning:
        output.say(f"Warning: {warning}")
    if report["ties_left_out"]:
        count = report["ties_left_out"]
        examples = "1 example labeled tie is" if count == 1 else f"{count} examples labeled tie are"
        output.say(f"{examples} excluded from accuracy: tie was not an allowed answer. To allow it, add --ties.")
    if report["failures"]:
        output.say("Not judged: " + ", ".join(f"{code} {count}" for code, count in report["failures"].items()))

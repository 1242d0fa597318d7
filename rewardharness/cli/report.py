"""Prints the report of a job as text."""

from rewardharness.cli import output
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

"""Renders sections of a report as markup for `gr.Markdown`."""

from collections.abc import Mapping

from app.markup import block, bullets, callout, escape, paragraph, table
from rewardharness.report import Cell, Mark, Section, Table, Text, Value
from rewardharness.report_html import draw_value

STYLES: Mapping[str, str] = {
    "audit": "cards audit",
    "numbers": "cards bench",
    "attacks": "cards bench attacks",
    "categories": "cards bench kinds",
    "judging": "cards judging",
    "published": "cards published",
    "paired": "cards paired",
    "counted": "plain cards counted",
    "bins": "bench",
}
"""Classes of the stylesheet by layout of a table."""


def sections(*parts: Section, titles: bool = False) -> str:
    """Render sections without their charts.

    Args:
        parts: The sections.
        titles: Whether each begins with its title.
    """
    return block("".join(_section(part, titles) for part in parts))


def _section(part: Section, titles: bool) -> str:
    if not part.blocks:
        return paragraph(part.empty, "faint")
    title = f"<h4>{escape(part.title)}</h4>" if titles and part.title else ""
    tables = [_table(item) for item in part.blocks if isinstance(item, Table)]
    texts = [(item, _text(item)) for item in part.blocks if isinstance(item, Text)]
    before = "".join(markup for item, markup in texts if item.kind == "text")
    after = "".join(markup for item, markup in texts if item.kind != "text")
    return title + before + "".join(tables[: part.shown]) + _folded(tables[len(tables[: part.shown]) :]) + after


def _folded(tables: list[str]) -> str:
    if not tables:
        return ""
    return f"<details><summary>More tables ({len(tables)})</summary>{''.join(tables)}</details>"


def _text(item: Text) -> str:
    if item.kind == "list":
        return bullets(map(escape, item.lines))
    if item.kind == "headline":
        return "".join(f"<p><strong>{escape(line)}</strong></p>" for line in item.lines)
    if item.kind == "warning":
        return "".join(callout("warning", line) for line in item.lines)
    return "".join(paragraph(line, "faint" if item.kind in {"note", "legend"} else "") for line in item.lines)


def _table(item: Table) -> str:
    head, style = list(map(escape, item.headings)), STYLES.get(item.kind, "plain cards")
    rows = [[_cell(cell) for cell in row] for row in item.rows]
    title = f"<h4>{escape(item.title)}</h4>" if item.title else ""
    more = rows[len(rows[: item.shown]) :]
    rest = f"<details><summary>{len(more)} more</summary>{table(head, more, style)}</details>" if more else ""
    return title + table(head, rows[: item.shown], style) + rest


def _cell(cell: Cell) -> str:
    if isinstance(cell, Value):
        return f'<span class="number">{escape(cell.text)}</span>{draw_value(cell)}'
    if isinstance(cell, Mark):
        return f'<span class="pill {"good" if cell.good else "warning"}">{escape(cell.word)}</span> {escape(cell.text)}'
    return escape(cell)

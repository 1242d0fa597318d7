"""Reports as Markdown that is also read as plain text.

Of untrusted text, only characters that are markup in their place are escaped, with a backslash (CommonMark 0.31,
section 2.4). Library cards escape more strictly.
"""

import re

from rewardharness.library.card_parts import table
from rewardharness.library.plaintext import one_line
from rewardharness.report import Block, Report, Table, Text, cell_text

CELL, LINE = 400, 10_000
"""Maximum length of a cell and of a line of text."""

_ALWAYS = re.compile(r"[\\`*<|~$]")
_LINK = re.compile(r"^\[|\](?=[(\[:])")
"""Brackets that may form a link, a link definition, or a task list item."""
_REFERENCE = re.compile(r"&(?=#|[A-Za-z])")
_EMPHASIS = re.compile(r"(?<![^\W_])_+|_+(?![^\W_])")
"""Underscores that are not between letters or digits."""
_HASHES = re.compile(r"(?<!\S)#")
_BLOCK = re.compile(r"^(?=[>=:]|[+-](?: |$)|--)")
_NUMBERED = re.compile(r"^(\d{1,9})(?=[.)](?: |$))")
_MENTION = re.compile(r"@(?=\w)")


def inert(text: str, limit: int = 300) -> str:
    """Escape untrusted text: no markup, no HTML, no links, no table cells.

    Args:
        text: The text.
        limit: Maximum length; longer text is truncated.
    """
    line = _MENTION.sub("@ ", one_line(text, limit))
    line = _ALWAYS.sub(lambda match: "\\" + match[0], line)
    line = _LINK.sub(lambda match: "\\" + match[0], line)
    line = _HASHES.sub(r"\\#", _REFERENCE.sub(r"\\&", line))
    line = _EMPHASIS.sub(lambda match: "\\_" * len(match[0]), line)
    return _NUMBERED.sub(r"\1\\", _BLOCK.sub(r"\\", line))


def render_markdown(report: Report) -> str:
    """Render a report as Markdown."""
    parts = [f"# {inert(report.title)}"]
    for section in report.sections:
        blocks = [text for block in section.blocks if (text := _block(block))]
        parts += [f"## {inert(section.title)}"] if blocks and section.title else []
        parts += blocks
    return "\n\n".join(parts) + "\n"


def _block(block: Block) -> str:
    if isinstance(block, Table):
        rows = [[inert(cell_text(cell), CELL) for cell in row] for row in block.rows]
        title = f"### {inert(block.title, CELL)}\n\n" if block.title else ""
        return title + table([inert(heading, CELL) for heading in block.headings], rows)
    if not isinstance(block, Text) or block.kind == "legend":
        return ""
    start = "- " if block.kind == "list" else ""
    return "\n".join(start + inert(line, LINE) for line in block.lines)

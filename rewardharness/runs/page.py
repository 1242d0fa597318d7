"""Reports as one HTML page without scripts or external resources, in light and dark colors.

Text in a report comes from datasets, Libraries and models, and is always escaped.
"""

from collections.abc import Iterable, Sequence
from html import escape

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2330; --soft: #5b6475; --line: #d9dee8; --back: #fff; --good: #137a3f;
  --bad: #b3261e; --mark: #2f6fed; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ebf2; --soft: #9aa4b8; --line: #333b4c; --back: #12151c;
  --good: #5fcf8e; --bad: #ff8a80; --mark: #7fa8ff; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin-top: 2rem; } h3 { font-size: 1rem; }
p, td, li { overflow-wrap: anywhere; } .soft { color: var(--soft); }
table { border-collapse: collapse; width: 100%; } .wide { overflow-x: auto; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem; border-bottom: 1px solid var(--line); }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
.kept { color: var(--good); } .sent-back { color: var(--bad); }
svg { max-width: 100%; height: auto; } svg text { fill: var(--soft); font-size: 12px; }
"""


def page(title: str, body: Sequence[str]) -> str:
    """Build a page.

    Args:
        title: Plain text.
        body: HTML fragments; empty ones are left out.
    """
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(part for part in body if part)
        + "\n</body>\n</html>\n"
    )


def section(heading: str, content: str) -> str:
    """Format content under a plain-text heading; return an empty string without content."""
    return f"<h2>{text(heading)}</h2>\n{content}" if content else ""


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, escaped: bool = False) -> str:
    """Format a table.

    Args:
        headings: Plain text.
        rows: Cells of plain text, or of HTML if `escaped` is set.
        escaped: Whether the cells are HTML.
    """
    head = "".join(f"<th>{text(heading)}</th>" for heading in headings)
    lines = []
    for row in rows:
        cells = "".join(f"<td>{cell if escaped else text(cell)}</td>" for cell in row)
        lines.append(f"<tr>{cells}</tr>")
    whole = f"<table><thead><tr>{head}</tr></thead><tbody>\n" + "\n".join(lines) + "\n</tbody></table>"
    return f'<div class="wide">{whole}</div>'


def text(value: object) -> str:
    """Escape a value for use in HTML."""
    return escape(str(value))

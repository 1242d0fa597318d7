"""Reports as one HTML page without scripts or external resources, in light and dark colors.

Text in a report comes from datasets, Libraries and models, and is always escaped.
"""

from base64 import b64encode
from html import escape

from rewardharness.report import Block, Cell, Chart, Mark, Pictures, Report, Steps, Table, Value

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2330; --soft: #5b6475; --line: #d9dee8; --back: #fff; --good: #137a3f;
  --bad: #b3261e; --mark: #2f6fed; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ebf2; --soft: #9aa4b8; --line: #333b4c; --back: #12151c;
  --good: #5fcf8e; --bad: #ff8a80; --mark: #7fa8ff; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin-top: 2rem; } h3 { font-size: 1rem; }
p, td, li { overflow-wrap: anywhere; } td:first-child { overflow-wrap: break-word; } .soft { color: var(--soft); }
table { border-collapse: collapse; width: 100%; } .wide { overflow-x: auto; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem; border-bottom: 1px solid var(--line); }
.good { color: var(--good); } .bad { color: var(--bad); }
svg { max-width: 100%; height: auto; } svg text { fill: var(--soft); font-size: 12px; }
svg.chart { width: 24rem; } .chart path { fill: none; stroke: var(--line); } .chart .mark { fill: var(--mark); }
.chart path.curve, .chart path.bar { stroke: var(--mark); } .chart .even { stroke: var(--soft); stroke-dasharray: 4 4; }
.track { position: relative; display: block; height: 14px; min-width: 8rem; border-bottom: 1px solid var(--line); }
.track span { position: absolute; } .track .range { top: 5px; height: 4px; background: var(--mark); opacity: .5; }
.track .dot { top: 2px; width: 10px; height: 10px; margin-left: -5px; border-radius: 50%; background: var(--mark); }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); gap: 1rem; }
figure { margin: 0; padding: 6px; border: 3px solid transparent; border-radius: 8px; } figure img { width: 100%; }
figure.best { border-color: var(--good); } figcaption { color: var(--soft); }
.track .chance { top: 0; height: 14px; border-left: 2px dashed var(--soft); }
"""

SIDE, LEFT, RIGHT, TOP, BOTTOM = 340, 46, 24, 30, 44
"""Size of a chart and of its margins, in pixels."""


def render_fragment(title: str, *blocks: Block) -> str:
    """Render blocks as a part of a page, such as a cell of a notebook."""
    return "\n".join([f"<h3>{text(title)}</h3>", *map(_block, blocks)])


def render_html(report: Report, title: str) -> str:
    """Render a report as a page.

    Args:
        report: The report.
        title: Title of the page.
    """
    parts = [f"<h1>{text(report.title)}</h1>"]
    for section in report.sections:
        blocks = [markup for block in section.blocks if (markup := _block(block))]
        parts += [f"<h2>{text(section.title)}</h2>"] if blocks and section.title else []
        parts += blocks
    head = (
        '<meta charset="utf-8">\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(title)}</title>\n<style>{_STYLE}</style>"
    )
    body = "\n".join(["<main>", *parts, "</main>"])
    return f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}\n</body>\n</html>\n'


def _block(block: Block) -> str:
    if isinstance(block, Table):
        title = f"<h3>{text(block.title)}</h3>\n" if block.title else ""
        head = "".join(f"<th>{text(heading)}</th>" for heading in block.headings)
        rows = ("".join(f"<td>{_cell(cell)}</td>" for cell in row) for row in block.rows)
        body = "\n".join(f"<tr>{row}</tr>" for row in rows)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"
        return f'{title}<div class="wide">{table}</div>'
    if isinstance(block, Chart):
        return draw_chart(block)
    if isinstance(block, Steps):
        return draw_steps(block)
    if isinstance(block, Pictures):
        return _pictures(block)
    if block.kind == "list":
        return "<ul>" + "".join(f"<li>{text(line)}</li>" for line in block.lines) + "</ul>"
    if block.kind == "headline":
        return "".join(f"<p><strong>{text(line)}</strong></p>" for line in block.lines)
    style = ' class="soft"' if block.kind in {"note", "legend"} else ""
    return "".join(f"<p{style}>{text(line)}</p>" for line in block.lines)


def _cell(cell: Cell) -> str:
    if isinstance(cell, Value):
        return text(cell.text) + draw_value(cell)
    if isinstance(cell, Mark):
        style = "good" if cell.good else "bad"
        return f'<span class="{style}">{text(cell.word)}</span> {text(cell.text)}'
    return text(cell).replace("\n", "<br>")


def draw_value(cell: Value) -> str:
    """Draw a value with its interval on a line; return an empty string without a value. Only numbers go into it."""
    if cell.value is None:
        return ""

    def place(number: float) -> float:
        return round(100 * min(1.0, max(0.0, (number - cell.low) / (cell.high - cell.low))), 1)

    parts = []
    if cell.chance is not None:
        parts.append(f'<span class="chance" style="left:{place(cell.chance)}%"></span>')
    if cell.interval:
        begin, end = map(place, cell.interval)
        parts.append(f'<span class="range" style="left:{begin}%;width:{round(end - begin, 1)}%"></span>')
    parts.append(f'<span class="dot" style="left:{place(cell.value)}%"></span>')
    return f'<span class="track">{"".join(parts)}</span>'


def draw_chart(chart: Chart) -> str:
    """Draw a chart as SVG; return an empty string without points."""
    if not chart.points:
        return ""
    most = max(point.n for point in chart.points)
    body, places = _axes(chart), []
    for point in chart.points:
        x, y = _x(point.x), _y(point.y)
        low, high = map(_y, point.interval)
        body += f'<path class="bar" d="M{x} {low}V{high}M{x - 4} {low}h8M{x - 4} {high}h8"/>'
        size = round(3 + 4 * (point.n / most) ** 0.5, 1)
        body += f'<circle class="mark" cx="{x}" cy="{y}" r="{size}"><title>n {point.n}</title></circle>'
        places.append(f"{x} {y}")
    body += f'<path class="curve" d="M{"L".join(places)}"/>' if len(places) > 1 else ""
    return f'<svg class="chart" viewBox="0 0 {SIDE} {SIDE}" role="img" aria-label="{text(chart.title)}">{body}</svg>'


def _pictures(block: Pictures) -> str:
    figures = "".join(
        f'<figure class="{"best" if picture.good else ""}"><img alt="{text(picture.name)}" '
        f'src="data:image/webp;base64,{b64encode(picture.webp).decode("ascii")}">'
        f"<figcaption>{text(picture.name)}</figcaption></figure>"
        for picture in block.items
    )
    return f'<div class="pictures">{figures}</div>'


def draw_steps(block: Steps) -> str:
    """Draw a curve of steps as SVG with its note; return an empty string for fewer than two points."""
    if len(block.points) < 2:
        return ""
    width, height, edge = 640, 240, 36
    most = max(count for count, _ in block.points) or 1
    values = [value for _, value in block.points]
    low, high = max(0.0, min(values) - 0.05), min(1.0, max(values) + 0.05)
    path = dots = ""
    for number, (count, value) in enumerate(block.points):
        x = round(edge + (width - 2 * edge) * count / most, 1)
        y = round(height - edge - (height - 2 * edge) * (value - low) / ((high - low) or 1), 1)
        path += f"H{x}V{y}" if path else f"M{x} {y}"
        dots += f'<circle cx="{x}" cy="{y}" r="3.5" fill="var(--mark)"/>' if number in block.marks else ""
    bottom, right = height - edge, width - edge
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{text(block.title)}">'
        f'<path d="M{edge} {edge}V{bottom}H{right}" fill="none" stroke="var(--line)"/>'
        f'<path d="{path}H{right}" fill="none" stroke="var(--mark)" stroke-width="2"/>{dots}'
        f'<text x="2" y="{edge + 4}">{high:.0%}</text><text x="2" y="{bottom + 4}">{low:.0%}</text>'
        f'<text x="{edge}" y="{height - 10}">0</text>'
        f'<text x="{right}" y="{height - 10}" text-anchor="end">{most} {text(block.x)}</text></svg>'
        f'<p class="soft">{text(block.note)}</p>'
    )


def _x(share: float) -> float:
    return round(LEFT + (SIDE - LEFT - RIGHT) * share, 1)


def _y(share: float) -> float:
    return round(SIDE - BOTTOM - (SIDE - TOP - BOTTOM) * share, 1)


def _axes(chart: Chart) -> str:
    parts = [f'<path class="even" d="M{_x(0)} {_y(0)}L{_x(1)} {_y(1)}"/>']
    for share in (0.0, 0.5, 1.0):
        parts.append(f'<path class="grid" d="M{_x(0)} {_y(share)}H{_x(1)}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{round(_y(share) + 4, 1)}" text-anchor="end">{share:.0%}</text>')
        parts.append(f'<text x="{_x(share)}" y="{SIDE - BOTTOM + 17}" text-anchor="middle">{share:.0%}</text>')
    parts.append(f'<text x="{_x(0.5)}" y="{SIDE - 8}" text-anchor="middle">{text(chart.x)}</text>')
    parts.append(f'<text x="4" y="14">{text(chart.y)}</text>')
    return "".join(parts)


def text(value: object) -> str:
    """Escape a value for use in HTML."""
    return escape(str(value))

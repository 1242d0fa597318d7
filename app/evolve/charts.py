"""Chart of an evolution: accuracy after each tested edit, and the held-out test.

It contains only numbers and fixed text, so it needs no escaping. Colors come from the stylesheet.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from app.evolve.runs import EvolutionStatus
from app.markup import count
from rewardharness.evolution.events import Decided
from rewardharness.evolution.held_out import HeldOutReport

WIDTH, HEIGHT = 440, 220
LEFT, RIGHT, TOP, BOTTOM = 50, 14, 14, 36

AUDIT = 92
"""Width of the held-out test, right of the curve."""


@dataclass(frozen=True)
class ChartPoint:
    """State of a run after a number of tested edits."""

    tried: int
    accuracy: float | None
    version: int


@dataclass(frozen=True)
class _Frame:
    """Scale of a chart."""

    most: int
    """Number of edits at the right end."""
    low: float
    high: float
    right: float
    """End of the curve in pixels."""

    def x(self, tried: float) -> float:
        return round(LEFT + (self.right - LEFT) * tried / max(1, self.most), 1)

    def y(self, value: float) -> float:
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(1.0, max(0.0, share)), 1)


def points(run: EvolutionStatus) -> list[ChartPoint]:
    """Return the state of a run after each decision; the first is the starting Library."""
    judged = run.first
    if judged is None:
        return []
    found = [ChartPoint(0, _share(judged.accuracy), 0)]
    for event in run.events:
        if isinstance(event, Decided):
            found.append(ChartPoint(len(found), _share(event.accuracy), event.version))
    return found


def accuracy_chart(found: Sequence[ChartPoint], audit: HeldOutReport | None = None) -> str:
    """Draw the accuracy on the training examples after each edit; a dot is an accepted edit.

    Args:
        found: The points.
        audit: Results of the held-out test for the starting and the final Library; None before it.

    Returns:
        An SVG; empty without points.
    """
    known = [(point, point.accuracy) for point in found if point.accuracy is not None]
    bars = _bars(audit)
    if not known:
        return ""
    values = [accuracy for _, accuracy in known] + [value for _, bar in bars for value in bar]
    low = max(0.0, math.floor(min(values) * 20 - 0.2) / 20)
    high = min(1.0, math.ceil(max(values) * 20 + 0.2) / 20)
    right = WIDTH - RIGHT - (AUDIT if bars else 0)
    frame = _Frame(max(1, found[-1].tried), low, high if high > low else low + 0.05, right)
    path, dots, version = "", "", 0
    for point, accuracy in known:
        x, y = frame.x(point.tried), frame.y(accuracy)
        path += f"H{x}V{y}" if path else f"M{x} {y}"
        if point.version != version:
            version = point.version
            dots += f'<circle class="mark" cx="{x}" cy="{y}" r="3.5"/>'
    path += f"H{frame.right}"
    body = _axes(frame, [(value, f"{value:.0%}") for value in (low, (low + frame.high) / 2, frame.high)])
    body += f'<path class="curve" d="{path}"/>{dots}'
    body += "".join(_bar(frame, number, name, bar) for number, (name, bar) in enumerate(bars))
    return _picture(body, "Accuracy on the training examples after each tested edit")


def accuracy(found: Sequence[ChartPoint], audit: HeldOutReport | None = None) -> str:
    """Return the accuracy chart with a legend."""
    words = "Accuracy on the training examples; a dot is an accepted edit."
    if audit is not None:
        words += " Right: the held-out test with 95% intervals."
    picture = accuracy_chart(found, audit)
    return f'<div class="rh"><h4>Accuracy</h4>{picture}<p class="faint">{words}</p></div>' if picture else ""


def _share(value: object) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and 0 <= value <= 1 else None  # type: ignore[operator,arg-type]


def _bars(audit: HeldOutReport | None) -> list[tuple[str, tuple[float, float, float]]]:
    """Return the intervals of the held-out test: low, value, high, for the starting and the final Library."""
    scores = {} if audit is None else {"start": audit.start, "final": audit.final}
    return [
        (name, (score.interval[0], score.accuracy, score.interval[1]))
        for name, score in scores.items()
        if score.accuracy is not None and score.interval is not None
    ]


def _bar(frame: _Frame, number: int, name: str, bar: tuple[float, float, float]) -> str:
    x, base = round(frame.right + 30 + 38 * number, 1), HEIGHT - BOTTOM
    low, value, high = map(frame.y, bar)
    title = "" if number else _text(x + 19, base + 28, "middle", "held-out, 95%")
    return (
        f'<path class="bar" d="M{x} {low}V{high}M{x - 5} {low}h10M{x - 5} {high}h10"/>'
        f'<circle class="mark audit" cx="{x}" cy="{value}" r="4.5"/>{_text(x, base + 14, "middle", name)}{title}'
    )


def _axes(frame: _Frame, ticks: Sequence[tuple[float, str]]) -> str:
    lines = (
        f'<path class="grid" d="M{LEFT} {y}H{frame.right}"/>{_text(LEFT - 6, round(y + 4, 1), "end", words)}'
        for y, words in ((frame.y(value), words) for value, words in ticks)
    )
    base, edits = HEIGHT - BOTTOM + 16, f"{count(frame.most, 'edit')} tested"
    start = f'<text x="{LEFT}" y="{base}">start</text>'
    return f"{''.join(lines)}{start}{_text(frame.right, base, 'end', edits)}"


def _text(x: float, y: float, anchor: str, words: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{words}</text>'


def _picture(body: str, title: str) -> str:
    return f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">{body}</svg>'

"""Draws how a run goes: accuracy on the pool and judgments spent, edit by edit, and the audit at the end.

The pictures are made of numbers and fixed words alone, so nothing foreign can be in them, and they are shown as they
are. Colours come from the stylesheet.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.following import Sight
from rewardharness.evolution.events import Decided

WIDTH, HEIGHT = 440, 220
LEFT, RIGHT, TOP, BOTTOM = 50, 14, 14, 36

AUDIT = 92
"""Width that the audit takes, right of the curve."""


@dataclass(frozen=True)
class Point:
    """Where a run stood after so many edits were tried."""

    tried: int
    accuracy: float | None
    judgments: int
    version: int


@dataclass(frozen=True)
class _Frame:
    """Where numbers lie in a picture."""

    most: int
    """Edits at the right end."""
    low: float
    high: float
    right: float
    """Where the curve ends, in pixels."""

    def x(self, tried: float) -> float:
        return round(LEFT + (self.right - LEFT) * tried / max(1, self.most), 1)

    def y(self, value: float) -> float:
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(1.0, max(0.0, share)), 1)


def points(sight: Sight) -> list[Point]:
    """Where a run stood after each decision; the first is the starting Library."""
    judged = sight.judged
    if judged is None:
        return []
    found = [Point(0, _share(judged.accuracy), int(judged.judged + judged.failed), 0)]
    for event in sight.events:
        if isinstance(event, Decided):
            spent = int(event.spent.get("judgments", 0))
            found.append(Point(len(found), _share(event.accuracy), spent, int(event.version)))
    return found


def accuracy_chart(found: Sequence[Point], audit: Mapping[str, Any] | None = None) -> str:
    """Draw the accuracy on the pool edit by edit; a dot is an edit that was kept.

    Args:
        found: The points.
        audit: What the audit found, for the starting and the final Library, with intervals; None before it.

    Returns:
        A picture; empty without anything to draw.
    """
    known = [each for each in found if each.accuracy is not None]
    bars = _bars(audit)
    if not known:
        return ""
    values = [each.accuracy or 0.0 for each in known] + [value for _, bar in bars for value in bar]
    low = max(0.0, math.floor(min(values) * 20 - 0.2) / 20)
    high = min(1.0, math.ceil(max(values) * 20 + 0.2) / 20)
    right = WIDTH - RIGHT - (AUDIT if bars else 0)
    frame = _Frame(max(1, found[-1].tried), low, high if high > low else low + 0.05, right)
    path, dots, version = "", "", 0
    for each in known:
        x, y = frame.x(each.tried), frame.y(each.accuracy or 0.0)
        path += f"H{x}V{y}" if path else f"M{x} {y}"
        if each.version != version:
            version = each.version
            dots += f'<circle class="mark" cx="{x}" cy="{y}" r="3.5"/>'
    path += f"H{frame.right}"
    body = _axes(frame, [(value, f"{value:.0%}") for value in (low, (low + frame.high) / 2, frame.high)])
    body += f'<path class="curve" d="{path}"/>{dots}'
    body += "".join(_bar(frame, number, name, bar) for number, (name, bar) in enumerate(bars))
    return _picture(body, "Accuracy on the pool after each edit that was tried")


def judgments_chart(found: Sequence[Point]) -> str:
    """Draw the judgments spent edit by edit; empty without anything to draw."""
    if not found:
        return ""
    most = max(each.judgments for each in found)
    frame = _Frame(max(1, found[-1].tried), 0.0, float(max(1, most)), WIDTH - RIGHT)
    path = "L".join(f"{frame.x(each.tried)} {frame.y(each.judgments)}" for each in found)
    body = _axes(frame, [(0.0, "0"), (most / 2, f"{most / 2:,.0f}"), (float(most), f"{most:,}")])
    body += f'<path class="curve second" d="M{path}"/>'
    return _picture(body, "Judgments spent after each edit that was tried")


def accuracy(found: Sequence[Point], audit: Mapping[str, Any] | None = None) -> str:
    """The accuracy chart with a sentence on how to read it, as markup."""
    words = "Accuracy on the pool, which edits were chosen on; a dot is an edit that was kept."
    if audit is not None:
        words += " Right: the audit, with its 95 % intervals."
    return _framed(accuracy_chart(found, audit), "Accuracy", words)


def judgments(found: Sequence[Point]) -> str:
    """The chart of judgments with a sentence on how to read it, as markup."""
    return _framed(judgments_chart(found), "Judgments spent", "One is one example with one Library.")


def _framed(picture: str, title: str, words: str) -> str:
    if not picture:
        return ""
    return f'<div class="rh"><h4>{title}</h4>{picture}<p class="faint">{words}</p></div>'


def _share(value: object) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and 0 <= value <= 1 else None  # type: ignore[operator,arg-type]


def _bars(audit: Mapping[str, Any] | None) -> list[tuple[str, tuple[float, float, float]]]:
    """The audit's intervals: low, value, high, for the starting and the final Library."""
    found = []
    for name in ("start", "final"):
        score = (audit or {}).get(name) or {}
        value, bounds = _share(score.get("accuracy")), score.get("interval") or ()
        limits = [limit for each in bounds if (limit := _share(each)) is not None]
        if value is not None and len(limits) == 2:
            found.append((name, (limits[0], value, limits[1])))
    return found


def _bar(frame: _Frame, number: int, name: str, bar: tuple[float, float, float]) -> str:
    x = round(frame.right + 30 + 38 * number, 1)
    low, value, high = (frame.y(each) for each in bar)
    line = f'<path class="bar" d="M{x} {low}V{high}M{x - 5} {low}h10M{x - 5} {high}h10"/>'
    dot = f'<circle class="mark audit" cx="{x}" cy="{value}" r="4.5"/>'
    words = f'<text x="{x}" y="{HEIGHT - BOTTOM + 14}" text-anchor="middle">{name}</text>'
    title = ""
    if number == 0:
        title = f'<text x="{x + 19}" y="{HEIGHT - BOTTOM + 28}" text-anchor="middle">audit, 95 %</text>'
    return line + dot + words + title


def _axes(frame: _Frame, ticks: Sequence[tuple[float, str]]) -> str:
    parts = []
    for value, words in ticks:
        y = frame.y(value)
        parts.append(f'<path class="grid" d="M{LEFT} {y}H{frame.right}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{round(y + 4, 1)}" text-anchor="end">{words}</text>')
    base = HEIGHT - BOTTOM + 16
    parts.append(f'<text x="{LEFT}" y="{base}">start</text>')
    edits = "1 edit tried" if frame.most == 1 else f"{frame.most} edits tried"
    parts.append(f'<text x="{frame.right}" y="{base}" text-anchor="end">{edits}</text>')
    return "".join(parts)


def _picture(body: str, title: str) -> str:
    return f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">{body}</svg>'

"""Draws numbers of a benchmark: a value with its interval as a line in a table, and the reliability curve.

Everything here is made of numbers and fixed words alone, so nothing foreign can be in it. Colours come from the
stylesheet.
"""

from collections.abc import Mapping, Sequence
from typing import Any

SIDE, LEFT, RIGHT, TOP, BOTTOM = 340, 46, 24, 30, 44
"""Size of the reliability curve and of its margins, in pixels."""


def track(value: float | None, interval: Sequence[float] | None, guess: float | None = None, low: float = 0.0) -> str:
    """Draw a value with its interval on a line.

    Args:
        value: In [low, 1]; None: there is none, and nothing is drawn.
        interval: Its bounds; None where it is not known.
        guess: What guessing gets; None where that is not known.
        low: Where the line begins: 0 for shares, -1 for correlations.
    """
    if value is None:
        return ""

    def place(number: float) -> float:
        return round(100 * min(1.0, max(0.0, (number - low) / (1 - low))), 1)

    parts = []
    if guess is not None:
        parts.append(f'<span class="guess" style="left:{place(guess)}%"></span>')
    if interval:
        begin, end = place(interval[0]), place(interval[1])
        parts.append(f'<span class="range" style="left:{begin}%;width:{round(end - begin, 1)}%"></span>')
    parts.append(f'<span class="dot" style="left:{place(value)}%"></span>')
    return f'<span class="track">{"".join(parts)}</span>'


def reliability(bins: Sequence[Mapping[str, Any]]) -> str:
    """Draw how often a judge was right against how sure it was; bins without judgments are left out.

    Args:
        bins: As `calibration.Calibration.to_json` writes them.

    Returns:
        A picture; empty without anything to draw.
    """
    known = [each for each in bins if each["n"]]
    if not known:
        return ""
    most = max(each["n"] for each in known)
    body = _axes()
    points = []
    for each in known:
        x, y = _x(each["mean"]), _y(each["accuracy"])
        low, high = each["interval"]
        body += f'<path class="bar" d="M{x} {_y(low)}V{_y(high)}M{x - 4} {_y(low)}h8M{x - 4} {_y(high)}h8"/>'
        points.append(f"{x} {y}")
        size = round(3 + 4 * (each["n"] / most) ** 0.5, 1)
        body += f'<circle class="mark" cx="{x}" cy="{y}" r="{size}"><title>{each["n"]} judgments</title></circle>'
    body += f'<path class="curve" d="M{"L".join(points)}"/>' if len(points) > 1 else ""
    title = "How often the judge was right against how sure it was, with 95 % intervals; on the line both are the same"
    picture = f'<svg class="chart" viewBox="0 0 {SIDE} {SIDE}" role="img" aria-label="{title}">{body}</svg>'
    return f'<div class="rh">{picture}</div>'


def _x(share: float) -> float:
    return round(LEFT + (SIDE - LEFT - RIGHT) * share, 1)


def _y(share: float) -> float:
    return round(SIDE - BOTTOM - (SIDE - TOP - BOTTOM) * share, 1)


def _axes() -> str:
    parts = [f'<path class="even" d="M{_x(0)} {_y(0)}L{_x(1)} {_y(1)}"/>']
    for share in (0.0, 0.5, 1.0):
        parts.append(f'<path class="grid" d="M{_x(0)} {_y(share)}H{_x(1)}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{round(_y(share) + 4, 1)}" text-anchor="end">{share:.0%}</text>')
        parts.append(f'<text x="{_x(share)}" y="{SIDE - BOTTOM + 17}" text-anchor="middle">{share:.0%}</text>')
    parts.append(f'<text x="{_x(0.5)}" y="{SIDE - 8}" text-anchor="middle">how sure the judge was</text>')
    parts.append('<text x="4" y="14">how often it was right</text>')
    return "".join(parts)

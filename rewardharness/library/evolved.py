"""Reads the evolution of a Library from its lineage and draws it as a chart.

A record of `lineage.jsonl` is one JSON object. The following keys are read, all of them optional:

    operator                kind of edit, such as "modify"
    entries                 names of the changed entries: a list, or one name (also as `entry`)
    accepted                false for a rejected edit
    reason                  reason for the edit, in a sentence (also as `statement`)
    evidence                {"n": examples, "before": accuracy before, "after": accuracy after}, accuracies in [0, 1]
    data, judge, budget     dataset, judge, and cost, as text
    data_digest             `Dataset.digest` of the dataset, including the test set: 64 hexadecimal digits
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

MAX_STEPS = 500
"""Maximum number of records that are read, newest first."""

_DIGEST = re.compile("[0-9a-f]{64}")

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 640, 220, 52, 16, 16, 36


@dataclass(frozen=True)
class LineageStep:
    """One proposed edit of a Library. All text is untrusted."""

    number: int
    """Position in the lineage, counted from 1."""
    operator: str
    entries: tuple[str, ...]
    accepted: bool
    reason: str
    n: int | None
    """Number of examples on which the edit was evaluated."""
    before: float | None
    """Accuracy before the edit, in [0, 1]."""
    after: float | None
    """Accuracy after the edit, in [0, 1]."""
    setting: Mapping[str, str]
    """Dataset, judge, and budget, as far as they are recorded."""


def read_steps(lineage: Sequence[Mapping[str, Any]]) -> tuple[LineageStep, ...]:
    """Parse the records of a lineage, oldest first. Invalid values are ignored."""
    first = max(0, len(lineage) - MAX_STEPS)
    return tuple(_step(number, record) for number, record in enumerate(lineage[first:], first + 1))


def data_digests(lineage: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Return the digests of the datasets on which accepted edits were selected.

    Values that are not digests, as in records of older versions, are ignored.
    """
    digests = (record.get("data_digest") for record in lineage if record.get("accepted") is not False)
    return frozenset(digest for digest in digests if is_digest(digest))


def is_digest(value: object) -> TypeGuard[str]:
    """Whether a value has the form of a dataset digest."""
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def caution(name: str) -> str:
    """Return a warning that a result is optimistic because the Library was evolved on the same data.

    Args:
        name: Name of the Library, as the beginning of a sentence.
    """
    return f"{name} was evolved on the same data, so expect lower accuracy on other data."


def draw(steps: Sequence[LineageStep]) -> str | None:
    """Draw the accuracy after each accepted edit as an SVG image.

    Returns:
        The image, which contains only numbers and fixed text; None if there are fewer than two values.
    """
    points = [(step.number, step.after) for step in steps if step.accepted and step.after is not None]
    if len(points) < 2:
        return None
    first, last = points[0][0], points[-1][0]
    low, high = _range([value for _, value in points])
    right, base = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM

    def y(value: float) -> float:
        return _TOP + (base - _TOP) * (high - value) / (high - low)

    places = [(f"{_LEFT + (right - _LEFT) * (n - first) / (last - first):.1f}", f"{y(v):.1f}") for n, v in points]
    lines = []
    for value in (low, (low + high) / 2, high):
        lines.append(f'<path d="M{_LEFT} {y(value):.1f}H{right}" stroke="#8884" fill="none"/>')
        lines.append(f'<text x="{_LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.2f}</text>')
    for number, anchor, side in ((first, "start", _LEFT), (last, "end", right)):
        lines.append(f'<text x="{side}" y="{base + 18}" text-anchor="{anchor}">edit {number}</text>')
    path = " ".join(map(",".join, places))
    lines.append(f'<polyline points="{path}" fill="none" stroke="#2f6fde" stroke-width="2"/>')
    lines += [f'<circle cx="{x}" cy="{y}" r="3" fill="#2f6fde"/>' for x, y in places]
    body = "\n".join(lines)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" font-family="sans-serif" font-size="12" fill="#888" role="img">\n'
        f"<title>Accuracy after each accepted edit</title>\n{body}\n</svg>\n"
    )


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Return the axis limits: the values rounded outward to multiples of 0.05."""
    low, high = math.floor(min(values) * 20) / 20, math.ceil(max(values) * 20) / 20
    return (low, high) if high > low else (low - 0.05, high + 0.05)


def _step(number: int, record: Mapping[str, Any]) -> LineageStep:
    evidence = record.get("evidence")
    evidence = evidence if isinstance(evidence, dict) else {}
    names = record.get("entries", record.get("entry", record.get("names")))
    names = [names] if isinstance(names, str) else names if isinstance(names, list) else []
    n = evidence.get("n")
    return LineageStep(
        number,
        operator=_text(record.get("operator")),
        entries=tuple(name for name in names if isinstance(name, str)),
        accepted=record.get("accepted") is not False,
        reason=_text(record.get("reason")) or _text(record.get("statement")),
        n=n if isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 10**9 else None,
        before=_share(evidence.get("before")),
        after=_share(evidence.get("after")),
        setting={key: text for key in ("data", "judge", "budget") if (text := _text(record.get(key)))},
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _share(value: Any) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and 0 <= value <= 1 else None

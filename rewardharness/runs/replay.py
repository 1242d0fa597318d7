"""Compares a run with its replay: judgment by judgment, and number by number of a report."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rewardharness.files import read_jsonl
from rewardharness.runs.store import RESULTS

TOLERANCE = 0.1
"""How far a margin may move when a model was asked anew. Where nothing was asked, margins agree to the last digit."""

_OWN = frozenset({"spent", "run", "usage"})
"""Parts of a report that a replay has its own of: what it cost, and the manifest, whose changes are told before."""


@dataclass(frozen=True)
class Difference:
    """Something that came out otherwise."""

    place: str
    """Id of the judgment and what of it, or the place in the report."""
    before: Any
    after: Any


@dataclass(frozen=True)
class Outcome:
    """What a comparison found."""

    n: int
    """Judgments that both have."""
    only_before: tuple[str, ...]
    """Ids of judgments that the replay lacks."""
    only_after: tuple[str, ...]
    preferences: tuple[Difference, ...]
    margins: tuple[Difference, ...]
    """Margins and rewards that moved further than they may."""
    moved: int
    """Judgments with a margin or reward that moved at all."""
    largest: float
    """The largest such move."""
    asked: int
    """Judgments of the replay for which a model was asked anew; the others were measured, or remembered."""
    report: tuple[Difference, ...] = ()
    """What differs in the report."""

    @property
    def same(self) -> bool:
        """Whether the replay came out as the run did."""
        return not (self.only_before or self.only_after or self.preferences or self.margins or self.report)


def results_of(folder: Path) -> dict[str, dict[str, Any]]:
    """Read the results of a run folder by id; of several lines with one id, the last."""
    return {str(line["id"]): line for _, line in read_jsonl(folder / RESULTS) if "id" in line}


def compare_results(
    before: Mapping[str, Mapping[str, Any]],
    after: Mapping[str, Mapping[str, Any]],
    *,
    tolerance: float = TOLERANCE,
    report: Iterable[Difference] = (),
) -> Outcome:
    """Compare two sets of results.

    Args:
        before: Of the run, by id.
        after: Of the replay.
        tolerance: How far a margin or reward may move where a model was asked anew.
        report: What differs in the reports of the two.
    """
    preferences, margins = [], []
    moved, asked, largest = 0, 0, 0.0
    common = [name for name in before if name in after]
    for name in common:
        one, other = before[name], after[name]
        anew = bool(other.get("calls"))
        asked += anew
        preferences += [
            Difference(f"{name} {what}", first, second)
            for what, first, second in (
                ("preference", one.get("preference"), other.get("preference")),
                ("reason", _code(one), _code(other)),
            )
            if first != second
        ]
        distance = 0.0
        for what, first, second in _numbers(one, other):
            step = _distance(first, second)
            distance = max(distance, step)
            if step > (tolerance if anew else 0.0):
                margins.append(Difference(f"{name} {what}", first, second))
        moved += distance > 0
        largest = max(largest, distance)
    return Outcome(
        n=len(common),
        only_before=tuple(name for name in before if name not in after),
        only_after=tuple(name for name in after if name not in before),
        preferences=tuple(preferences),
        margins=tuple(margins),
        moved=moved,
        largest=largest,
        asked=asked,
        report=tuple(report),
    )


def compare_reports(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    """Say where two reports differ. What a run cost is its own, but for the judgments that it took."""
    costs = [
        each["spent"].get("judgments") if isinstance(each.get("spent"), dict) else None for each in (before, after)
    ]
    return _differences("", dict(before), dict(after)) + _differences("spent.judgments", *costs)


def _differences(place: str, one: Any, other: Any) -> list[Difference]:
    if isinstance(one, dict) and isinstance(other, dict):
        return [
            each
            for key in sorted({*one, *other} - _OWN)
            for each in _differences(f"{place}.{key}".lstrip("."), one.get(key), other.get(key))
        ]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [
            each
            for number, (first, second) in enumerate(zip(one, other, strict=True))
            for each in _differences(f"{place}[{number}]", first, second)
        ]
    return [] if one == other else [Difference(place, one, other)]


def _numbers(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterable[tuple[str, Any, Any]]:
    yield "margin", one.get("margin"), other.get("margin")
    first: Mapping[str, Any] = one.get("rewards") or {}
    second: Mapping[str, Any] = other.get("rewards") or {}
    for label in sorted({*first, *second}):
        yield f"reward of {label}", first.get(label), second.get(label)


def _distance(one: Any, other: Any) -> float:
    """How far two numbers are apart; infinite when only one is there."""
    if one is None or other is None:
        return 0.0 if one is other else float("inf")
    return abs(float(one) - float(other))


def _code(line: Mapping[str, Any]) -> str | None:
    """Why there is no judgment, as a code: the words may name an address or a time."""
    reason = line.get("reason")
    return None if reason is None else str(reason).partition(": ")[0]

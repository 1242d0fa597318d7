"""The results of a run by id, of which only those parts are parsed that are used.

Lines are long, and resuming a run needs their ids alone, so a line is kept as it was read until its fields are wanted.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rewardharness.codec import fields_reader
from rewardharness.files import LARGE_READ
from rewardharness.judgments import BRIEF, judgment_from_json
from rewardharness.schema import Json, Judgment

_ID = frozenset({"id"})
_FAILURE = frozenset({"failure", "reason"})

ASKED_AGAIN = frozenset(
    "timeout rate_limited server_error unreachable unauthorized model_not_found wrong_address not_public bad_response "
    "no_logprobs defect stopped".split()
)
"""Codes of failures that are judged again when a run is resumed: the model, its server or this program was the cause,
so that the same question may be answered now. Others, such as `image`, `input`, `refused`, `bad_request`,
`context_too_long`, `truncated` or `not_gradable`, would fail again; they are judged again on request."""


def is_due(code: str, retry_failed: bool) -> bool:
    """Return whether an example whose latest result has this failure code, or none, is judged again."""
    return bool(code) and (retry_failed or code in ASKED_AGAIN)


class Results(MutableMapping[str, Json]):
    """Results by id. Each access parses the result again."""

    def __init__(self) -> None:
        self._lines: dict[str, bytes | Json] = {}

    def __getitem__(self, name: str) -> Json:
        line = self._lines[name]
        return dict(json.loads(line)) if isinstance(line, bytes) else line

    def __setitem__(self, name: str, record: Json) -> None:
        self._lines[name] = record

    def __delitem__(self, name: str) -> None:
        del self._lines[name]

    def __contains__(self, name: object) -> bool:
        return name in self._lines

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def __copy__(self) -> "Results":
        results = Results()
        results._lines = dict(self._lines)
        return results

    def fields(self, name: str, names: frozenset[str]) -> Json:
        """Return some fields of a result, which is faster than the whole result; others may be there, too."""
        line = self._lines[name]
        return fields_reader(names)(line) if isinstance(line, bytes) else line

    def judgment(self, name: str) -> Judgment:
        """Return a judgment without steps, reasons and entries, which is faster than the whole one."""
        return judgment_from_json(self.fields(name, BRIEF), steps=False, reasons=False)

    def failure(self, name: str) -> str:
        """Return the code of the failure of a result; empty for a judgment."""
        line = self.fields(name, _FAILURE)
        failure = line.get("failure", line.get("reason"))  # earlier versions: "code: message"
        return str(failure["code"] if isinstance(failure, dict) else failure or "").partition(":")[0]

    def add_line(self, line: bytes) -> None:
        """Add a line of a results file. An incomplete line, or one without an id, is skipped."""
        try:
            record = fields_reader(_ID)(line)
            line.decode()  # texts that are not parsed are not checked
        except ValueError:
            try:
                line = record = json.loads(line)  # such as one with NaN
            except ValueError:
                return
        if isinstance(record, dict) and "id" in record:
            self._lines[str(record["id"])] = line


def read_results(path: Path) -> Results:
    """Read a results file; without one there are no results. If an id occurs in several lines, the last line counts."""
    results = Results()
    if path.exists():
        with path.open("rb", buffering=LARGE_READ) as stream:
            for line in stream:
                results.add_line(line)
    return results


TOLERANCE = 0.1
"""Largest accepted change of a margin where a model was queried again. Otherwise margins must be identical."""

_IGNORED_KEYS = frozenset({"spent", "run", "usage", "seconds"})
"""Parts of a report that always differ: costs, and the manifest, whose changes are reported separately."""


@dataclass(frozen=True)
class Difference:
    """A value that differs between a run and its replay."""

    place: str
    """Judgment id and field, or the place in the report."""
    before: Any
    after: Any


@dataclass(frozen=True)
class ReplayComparison:
    """Differences between a run and its replay."""

    n: int
    """Judgments in both runs."""
    only_before: tuple[str, ...]
    """Ids of judgments that are missing from the replay."""
    only_after: tuple[str, ...]
    preferences: tuple[Difference, ...]
    margins: tuple[Difference, ...]
    """Margins and rewards that changed by more than the tolerance."""
    moved: int
    """Judgments whose margin or reward changed."""
    largest: float
    """Largest change of a margin or reward."""
    asked: int
    """Judgments of the replay that queried a model; the others used pixel measures or the cache."""
    report: tuple[Difference, ...] = ()
    """Differences between the reports."""

    @property
    def same(self) -> bool:
        """Whether the replay reproduces the run."""
        return not (self.only_before or self.only_after or self.preferences or self.margins or self.report)


def compare_results(
    before: Mapping[str, Mapping[str, Any]],
    after: Mapping[str, Mapping[str, Any]],
    *,
    tolerance: float = TOLERANCE,
    report: Iterable[Difference] = (),
) -> ReplayComparison:
    """Compare two sets of results.

    Args:
        before: Results of the run, by id.
        after: Results of the replay, by id.
        tolerance: Largest accepted change of a margin or reward where a model was queried again.
        report: Differences between the two reports.
    """
    preferences, margins = [], []
    moved, asked, largest = 0, 0, 0.0
    common = [name for name in before if name in after]
    for name in common:
        old, new = judgment_from_json(before[name], steps=False), judgment_from_json(after[name], steps=False)
        queried = bool(new.usage.calls)
        asked += queried
        preferences += [
            Difference(f"{name} {what}", first, second)
            for what, first, second in (
                ("preference", old.preference, new.preference),
                ("reason", _code(old), _code(new)),
            )
            if first != second
        ]
        distance = 0.0
        for what, first, second in _numbers(old, new):
            step = _distance(first, second)
            distance = max(distance, step)
            if step > (tolerance if queried else 0.0):
                margins.append(Difference(f"{name} {what}", first, second))
        moved += distance > 0
        largest = max(largest, distance)
    gone = tuple(name for name in before if name not in after)
    new_ids = tuple(name for name in after if name not in before)
    changed = tuple(preferences), tuple(margins)
    return ReplayComparison(len(common), gone, new_ids, *changed, moved, largest, asked, tuple(report))


def compare_reports(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    """Return the differences between two reports. Of the costs, only the number of judgments is compared."""
    costs = [
        report["spent"].get("judgments") if isinstance(report.get("spent"), dict) else None
        for report in (before, after)
    ]
    return _differences("", dict(before), dict(after)) + _differences("spent.judgments", *costs)


def _differences(place: str, before: Any, after: Any) -> list[Difference]:
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            difference
            for key in sorted({*before, *after} - _IGNORED_KEYS)
            for difference in _differences(f"{place}.{key}".lstrip("."), before.get(key), after.get(key))
        ]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [
            difference
            for number, (first, second) in enumerate(zip(before, after, strict=True))
            for difference in _differences(f"{place}[{number}]", first, second)
        ]
    return [] if before == after else [Difference(place, before, after)]


def _numbers(before: Judgment, after: Judgment) -> Iterable[tuple[str, float | None, float | None]]:
    yield "margin", before.margin, after.margin
    first, second = ({label: score.reward for label, score in judgment.scores.items()} for judgment in (before, after))
    for label in sorted({*first, *second}):
        yield f"reward of {label}", first.get(label), second.get(label)


def _distance(before: float | None, after: float | None) -> float:
    """Return the absolute difference of two numbers; infinite if one of them is missing."""
    if before is None or after is None:
        return 0.0 if before is after else float("inf")
    return abs(before - after)


def _code(judgment: Judgment) -> str | None:
    """Return the code of the failure. Its message may contain an address or a time."""
    return None if judgment.failure is None else judgment.failure.code

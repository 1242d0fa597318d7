"""A judge that reads scores from a file: of another reward model, a metric, or people.

    {"id": "e1", "scores": {"A": 7.25, "B": -3}}          a number per candidate, on any scale; higher is better
    {"id": "e2", "candidate": "A", "score": 0.81}         the same, one candidate a line
    {"id": "e3", "preference": "B"}                       a preference alone: a letter or `tie`

Each line is a JSON object in one of the three forms, without other keys. The preference follows from the unchanged
scores. An example without a line is not judged, with the failure `missing`.

Rewards are in [0, 1]. If all scores of the file are, they are the rewards. Otherwise they are scaled linearly such that
the lowest score of the file is 0 and the highest is 1, so rewards are comparable only within a file. If all scores are
the same number outside [0, 1], every reward is one half. The unchanged scores are in the answer of the chain.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rewardharness.codec import finite
from rewardharness.errors import DataError
from rewardharness.files import content_id, read_text
from rewardharness.judging.interface import Traits, refuse, unjudged
from rewardharness.judging.judge import Judge, placed, ranked
from rewardharness.library.store import Library
from rewardharness.schema import LABELS, TIE, Example, Failure, Judgment
from rewardharness.task import TASKS

READING = 1
"""Version of the interpretation of a file."""

_FORMS = ({"id", "scores"}, {"id", "candidate", "score"}, {"id", "preference"})
_STEP = 'Write {"id": ..., "scores": {"A": 0.7, "B": 0.2}}, {"id": ..., "candidate": "A", "score": 0.7} or '
_STEP += '{"id": ..., "preference": "A"} on each line.'
_SHOWN = 3


@dataclass(frozen=True)
class Given:
    """Scores or preference of one example in a file."""

    lines: tuple[int, ...]
    """Line numbers, from 1."""
    scores: Mapping[str, float] = field(default_factory=dict)
    preference: str = ""
    """A label or `tie`; empty if there are scores."""


@dataclass(frozen=True, repr=False)
class ScoredElsewhere(Judge):
    """A judge that looks scores up in a file.

    Args:
        file: Name of the file, without its folder.
        given: Its content, by id of the example.
        ties: Whether the labels have ties.
    """

    file: str
    given: Mapping[str, Given]
    ties: bool = False
    traits = Traits(tuple(TASKS.values()), uses_library=False, needs_ids=True)

    @property
    def name(self) -> str:
        """The name of the file."""
        return f"file:{self.file}"

    @property
    def protocol(self) -> str:
        """States that scores are read from a file."""
        return "scores from a file"

    @cached_property
    def revision(self) -> str:
        """Content id of the content of the file."""
        said = {name: [dict(entry.scores), entry.preference] for name, entry in self.given.items()}
        return content_id([READING, self.ties, said])

    @cached_property
    def _span(self) -> tuple[float, float]:
        """The lowest and the highest score, or 0 and 1 if all are between."""
        numbers = [0.0, 1.0, *(score for entry in self.given.values() for score in entry.scores.values())]
        if min(numbers) == 0 and max(numbers) == 1:
            return 0.0, 1.0
        return min(numbers[2:]), max(numbers[2:])

    async def judge(self, example: Example, library: Library) -> Judgment:
        """Look one example up; the Library is not read.

        Returns:
            A preference, with scores if available; or a failure `missing` or `input`.
        """
        failure = refuse(example, self, library) or self._lacks(example)
        if failure is not None:
            return unjudged(example, self, library, failure)
        entry = self.given[example.id]
        if entry.scores:
            rewards = {label: self._reward(score) for label, score in entry.scores.items()}
            return ranked(example, self, library, entry.scores, rewards, ties=self.ties)
        others = tuple(label for label in example.labels if label != entry.preference)
        ranking = (example.labels,) if entry.preference == TIE else ((entry.preference,), others)
        return placed(example, self, library, ranking, ties=self.ties)

    def with_ties(self, ties: bool) -> "ScoredElsewhere":
        """Return the same judge with `tie` among its answers, or without."""
        return replace(self, ties=ties)

    def _lacks(self, example: Example) -> Failure | None:
        """Return why the file does not fit an example; None if it does."""
        name, labels, entry = example.id, {*example.labels}, self.given.get(example.id)
        if entry is None:
            return Failure("missing", f"{self.file} has no score for {name!r}.")
        where = f"{self.file}, line {', '.join(map(str, entry.lines))}"
        if strange := sorted((set(entry.scores) or {entry.preference} - {TIE}) - labels):
            return Failure("input", f"{where}: {name!r} has no candidate {', '.join(strange)}.")
        if entry.scores and (lacking := sorted(labels - {*entry.scores})):
            return Failure("missing", f"{where}: {name!r} has no score for {', '.join(lacking)}.")
        if not entry.scores and len(labels) == 1:
            return Failure("missing", f"{where}: a preference is no score of the single candidate of {name!r}.")
        return None

    def _reward(self, score: float) -> float:
        low, high = self._span
        if low == high:
            return 0.5
        # Divided before subtraction, because the span of two huge numbers may be infinite.
        size = max(abs(low), abs(high))
        return min(1.0, max(0.0, (score / size - low / size) / (high / size - low / size)))


def read_scores(path: Path, *, ties: bool = False) -> ScoredElsewhere:
    """Read a file of scores in the form of this module.

    Raises:
        DataError: If the file or a line is invalid; the message names the lines.
    """
    entries: dict[str, Given] = {}
    problems: list[str] = []
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if line.strip():
            try:
                _add(entries, number, line)
            except _LineError as error:
                problems.append(f"line {number}: {error}")
    if problems:
        more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise DataError(f"{path}, {'; '.join(problems[:_SHOWN])}{more}.", next_step=_STEP)
    if not entries:
        raise DataError(f"{path} holds no scores.", next_step=_STEP)
    return ScoredElsewhere(path.name, entries, ties)


class _LineError(Exception):
    """An invalid line; all are reported in one DataError."""


def _check(fits: bool, problem: str) -> None:
    if not fits:
        raise _LineError(problem)


def _add(entries: dict[str, Given], number: int, line: str) -> None:
    """Read a line."""
    try:
        record = json.loads(line, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        raise _LineError("this is not JSON") from None
    _check(isinstance(record, dict), "this is not a JSON object")
    keys = ", ".join(map(repr, sorted(record)))[:200]
    _check(set(record) in _FORMS, f"the keys {keys} are none of the three forms")
    name = record["id"]
    name = str(name) if isinstance(name, int | float) and not isinstance(name, bool) else name
    _check(isinstance(name, str) and name != "", '"id" is not a text')
    preference = record.get("preference", "")
    if "preference" in record:
        message = f"{str(preference)[:40]!r} is no preference; write {', '.join(LABELS)} or {TIE}"
        _check(preference in (*LABELS, TIE), message)
    scores = record.get("scores")
    if "scores" in record:
        _check(isinstance(scores, dict) and scores != {}, '"scores" is not an object of letters and numbers')
        pairs = [*scores.items()]
    else:
        pairs = [(record["candidate"], record["score"])] if "candidate" in record else []
    candidate_scores = {label: _number(label, score) for label, score in pairs}
    before = entries.get(name, Given(()))
    line_before = next(iter(before.lines), 0)
    alone = not before.lines or not (before.preference or preference)
    _check(alone, f"a preference stands alone, but line {line_before} speaks of the same id")
    twice = sorted({*before.scores} & {*candidate_scores})
    _check(
        not twice,
        f"{next(iter(twice), 0)} of this id was scored before, in line {line_before} or after it",
    )
    entries[name] = Given((*before.lines, number), {**before.scores, **candidate_scores}, preference)


def _number(label: Any, score: Any) -> float:
    _check(label in LABELS, f"{str(label)[:40]!r} is no candidate; write {', '.join(LABELS)}")
    plain = isinstance(score, int | float) and not isinstance(score, bool)
    _check(plain, f"the score of {label} is not a number")
    number = finite(score)
    if number is None:
        raise _LineError(f"the score of {label} is not a finite number")
    return number


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    _check(len(record) == len(pairs), "a key stands there twice")
    return record

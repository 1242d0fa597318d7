"""What a judge that weighs criteria would decide under another Library, worked out from grades that are known.

The built-in orchestrator compares edits with it before anybody is asked. For the measured judge the forecast is
exact but for the limits of `make_measured_scores`; for a model it is a guess, and in either case the gate decides.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rewardharness.errors import HarnessError
from rewardharness.evolution.analyzer import chain_grades, request_of
from rewardharness.evolution.proposal import Outcome, View
from rewardharness.judging.criteria import make_scores
from rewardharness.judging.router import fires
from rewardharness.library.entry import Entry
from rewardharness.library.rubric import Criterion
from rewardharness.library.store import Change, RemoveEntry
from rewardharness.schema import EditRequest

SHARPNESS = 0.25
"""Lead in log reward at which a forecast is about three quarters sure. Edits are compared by this soft count, which
also sees leads grow and shrink that do not change sides yet: on a hundred examples, counting sides alone is luck."""

TIED = 0.02
"""Difference between two grades in [0, 1] below which they tell nothing."""

_LEAST = 1e-3

_Grades = Mapping[str, Sequence[tuple[Criterion, float]]]
"""Label to the criteria of one Skill that could be graded, with their grades."""


@dataclass(frozen=True)
class Case:
    """One labelled example with everything that a forecast needs."""

    outcome: Outcome
    request: EditRequest
    wanted: str
    """Label of the preferred candidate."""
    grades: Mapping[str, Mapping[str, float]]
    """Label to measure to grade in [0, 1]."""

    @property
    def id(self) -> str:
        """The example's id."""
        return self.outcome.example.id

    @property
    def kind(self) -> str:
        """The kind of edit asked for, the strongest that the rules read."""
        return self.request.kinds[0]


@dataclass(frozen=True)
class Effect:
    """What an edit would do, as far as can be foreseen."""

    gain: float
    """Examples won less examples lost, counted softly."""
    fixed: tuple[str, ...]
    """Ids of examples that are missed and would be met, the most helped first."""
    broken: tuple[str, ...]
    """Ids of examples that are met and would be missed."""
    touched: int
    """Examples whose context would change."""


@dataclass(frozen=True)
class Agreement:
    """How often a measure says what people said."""

    agrees: int
    """Examples on which the preferred candidate has the higher grade."""
    disagrees: int
    """Examples on which another candidate has."""

    @property
    def lead(self) -> int:
        """By how many examples agreement leads."""
        return self.agrees - self.disagrees

    @property
    def share(self) -> float:
        """Share of agreement among those that differ, drawn towards one half as by four more examples."""
        return (self.agrees + 2) / (self.agrees + self.disagrees + 4)


@dataclass
class Forecast:
    """Forecasts for one round.

    Args:
        view: What the round sees. Its `observe` is called once for each example with a label other than a tie; what it
            leaves out and the chain of the judgment holds is taken from there.
    """

    view: View
    cases: tuple[Case, ...] = ()
    _fired: dict[tuple[str, str, str], bool] = field(default_factory=dict, repr=False)
    _parts: dict[tuple[str, str], _Grades] = field(default_factory=dict, repr=False)
    _now: dict[str, float | None] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.cases = tuple(case for outcome in self.view.outcomes if (case := self._case(outcome)) is not None)
        for case in self.cases:
            self._now[case.id] = self._lead(case, {name: self._part(case, name) for name in self._routed(case)})

    def _case(self, outcome: Outcome) -> Case | None:
        example = outcome.example
        if example.preference not in example.labels:
            return None
        try:
            observed = self.view.observe(example)
        except HarnessError:
            observed = {}
        if any(label not in observed for label in example.labels):
            return None  # a picture that cannot be read tells nothing about the Library
        grades = {label: dict(observed[label]) for label in example.labels}
        for name, by_label in chain_grades(outcome.judgment).items():
            tool = self.view.library.get(name)
            measure = tool.measure if tool is not None and tool.measure is not None else name
            if all(label in by_label and measure not in grades[label] for label in grades):
                for label, known in grades.items():
                    known[measure] = by_label[label]
        return Case(outcome, request_of(example.instruction), str(example.preference), grades)

    def fires(self, entry: Entry, case: Case) -> bool:
        """Whether an entry is consulted for an example."""
        words = entry.metadata.get("triggers") or f"{entry.name} {entry.description}"
        key = (words, "" if entry.triggers else "words", case.request.instruction)
        if key not in self._fired:
            self._fired[key] = fires(entry, case.request.instruction) is not None
        return self._fired[key]

    def reach(self, entry: Entry) -> tuple[Case, ...]:
        """The examples for which an entry is consulted."""
        return tuple(case for case in self.cases if self.fires(entry, case))

    def agreement(self, measure: str, cases: Iterable[Case]) -> Agreement:
        """Count how often the preferred candidate has a higher grade than each of the others; ties are ignored."""
        agrees = disagrees = 0
        for case in cases:
            known = {label: grades[measure] for label, grades in case.grades.items() if measure in grades}
            ours = known.pop(case.wanted, None)
            if ours is None or not known:
                continue
            lead = ours - max(known.values())
            agrees += lead > TIED
            disagrees += lead < -TIED
        return Agreement(agrees, disagrees)

    def effect(self, changes: Sequence[Change]) -> Effect:
        """Foresee what changes of Skills would do. Changes of Tools have no effect that can be foreseen."""
        after = {_name(change): None if isinstance(change, RemoveEntry) else change.entry for change in changes}
        gain, touched = 0.0, 0
        fixed: list[tuple[float, str]] = []
        broken: list[str] = []
        for case in self.cases:
            old = {name: entry for name in after if (entry := self.view.library.get(name)) and self.fires(entry, case)}
            new = {name: entry for name, entry in after.items() if entry is not None and self.fires(entry, case)}
            if not old and not new:
                continue
            touched += 1
            parts = {name: _graded(entry, case) for name, entry in new.items()}
            if parts == {name: self._part(case, name) for name in old}:
                continue
            others = {name: self._part(case, name) for name in self._routed(case) if name not in after}
            then, now = self._lead(case, {**others, **parts}), self._now[case.id]
            difference = _sureness(then) - _sureness(now)
            gain += difference
            if difference > 0 and then is not None and then > 0 and case.outcome.credit < 1:
                fixed.append((-difference, case.id))
            elif difference < 0 and (then is None or then <= 0) and now is not None and now > 0:
                broken.append(case.id)
        return Effect(gain, tuple(name for _, name in sorted(fixed)), tuple(broken), touched)

    def _routed(self, case: Case) -> list[str]:
        return [entry.name for entry in self.view.library.skills if self.fires(entry, case)]

    def _part(self, case: Case, name: str) -> _Grades:
        key = (case.id, name)
        if key not in self._parts:
            entry = self.view.library.get(name)
            self._parts[key] = _graded(entry, case) if entry else {}
        return self._parts[key]

    def _lead(self, case: Case, parts: Mapping[str, _Grades]) -> float | None:
        """By how much the preferred candidate leads the best other, in log reward; None when nothing speaks."""
        rewards: dict[str, float] = {}
        for label in case.grades:
            scores = make_scores([pair for name in sorted(parts) for pair in parts[name].get(label, ())])
            if scores is None:
                return None
            rewards[label] = math.log(max(scores.worth, _LEAST))
        return rewards[case.wanted] - max(value for label, value in rewards.items() if label != case.wanted)


def _graded(entry: Entry, case: Case) -> _Grades:
    kinds = set(case.request.kinds)
    chosen = [
        (each, each.measure)
        for each in (entry.rubric.criteria if entry.rubric else ())
        if each.measure and each.weight > 0 and (not each.applies or kinds & set(each.applies))
    ]
    return {
        label: [(each, grades[measure]) for each, measure in chosen if measure in grades]
        for label, grades in case.grades.items()
    }


def _sureness(lead: float | None) -> float:
    return 0.5 if lead is None else 0.5 * (1 + math.tanh(lead / (2 * SHARPNESS)))


def _name(change: Change) -> str:
    return change.name if isinstance(change, RemoveEntry) else change.entry.name

"""Forecast of the decisions of a judge with another Library, from known grades.

The built-in Orchestrator compares edits with it before anything is judged. For the pixel-based judge the forecast is
exact except for the limits of `make_measured_scores`; for a model it is a guess. The acceptance test decides.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from rewardharness.errors import HarnessError
from rewardharness.evolution.analyzer import chain_grades, is_general
from rewardharness.evolution.proposal import Observe, Outcome, View, criteria_of, name_of
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.criteria import make_scores
from rewardharness.judging.instruction import request_of
from rewardharness.judging.readings import SLOW, Loaded, measure
from rewardharness.judging.router import fires
from rewardharness.library.entry import Entry
from rewardharness.library.rubric import Criterion
from rewardharness.library.store import Change, RemoveEntry
from rewardharness.measure.table import MEASURES, known_measures
from rewardharness.schema import EditRequest, Example
from rewardharness.task import IMAGE_EDIT, TEXT, task_of

SHARPNESS = 0.25
"""Lead in log reward with a probability of about 0.75. Edits are compared by the sum of these probabilities, because
counting changed preferences is too noisy on a hundred examples."""

TIED = 0.02
"""Difference between two grades in [0, 1] below which they count as equal."""

MAIN_SHARE = 0.5
"""Minimum share of the examples of a kind on which the main Skill of the kind is consulted."""

_LEAST = 1e-3

_Grades = Mapping[str, Sequence[tuple[Criterion, float]]]
"""Label to the criteria of one Skill that could be graded, with their grades."""


@dataclass(frozen=True)
class ForecastCase:
    """One labeled example with its grades."""

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
        """Kind of edit, the strongest that the rules find in the instruction."""
        return self.request.kinds[0]


@dataclass(frozen=True)
class Effect:
    """The predicted effect of an edit."""

    gain: float
    """Expected net number of additional correct examples."""
    fixed: tuple[str, ...]
    """Ids of examples that it would fix, the largest improvement first."""
    broken: tuple[str, ...]
    """Ids of examples that it would break."""
    touched: int
    """Examples whose context would change."""


@dataclass(frozen=True)
class Agreement:
    """Agreement of a measure with the labels."""

    agrees: int
    """Examples on which the preferred candidate has the higher grade."""
    disagrees: int
    """Examples on which another candidate has."""

    @property
    def lead(self) -> int:
        """Agreements minus disagreements."""
        return self.agrees - self.disagrees

    @property
    def share(self) -> float:
        """Share of agreement, shrunk towards one half by four pseudo-examples."""
        return (self.agrees + 2) / (self.agrees + self.disagrees + 4)


@dataclass
class Forecast:
    """Forecasts for one round.

    Args:
        view: What the round sees. Its `observe` is called once for each example with a label other than a tie; what it
            leaves out and the chain of the judgment holds is taken from there.
    """

    view: View
    cases: tuple[ForecastCase, ...] = ()
    _fired: dict[tuple[str, str, str], bool] = field(default_factory=dict, repr=False)
    _parts: dict[tuple[str, str], _Grades] = field(default_factory=dict, repr=False)
    _now: dict[str, float | None] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        with ThreadPoolExecutor(self.view.workers) as pool:  # the first forecast of a run measures every example
            self.cases = tuple(case for case in pool.map(self._case, self.view.outcomes) if case is not None)
        for case in self.cases:
            self._now[case.id] = self._lead(case, {name: self._part(case, name) for name in self._routed(case)})

    def _case(self, outcome: Outcome) -> ForecastCase | None:
        example = outcome.example
        if example.preference not in example.labels:
            return None
        observed: Mapping[str, Mapping[str, float]] = {}
        with suppress(HarnessError):
            observed = self.view.observe(example)
        if any(label not in observed for label in example.labels):
            return None  # an unreadable image gives no evidence about the Library
        grades = {label: dict(observed[label]) for label in example.labels}
        for name, by_label in chain_grades(outcome.judgment).items():
            tool = self.view.library.get(name)
            measure = tool.measure if tool is not None and tool.measure is not None else name
            if all(label in by_label and measure not in grades[label] for label in grades):
                for label, known in grades.items():
                    known[measure] = by_label[label]
        return ForecastCase(outcome, request_of(example), str(example.preference), grades)

    @cached_property
    def measures(self) -> tuple[str, ...]:
        """Measures that new criteria may use: all that grade, without similarity to the source."""
        known = (name for name in self.view.known_measures if name in MEASURES and name != "change_map")
        return tuple(name for name in known if not MEASURES[name].same_look)

    @cached_property
    def kinds(self) -> dict[str, list[ForecastCase]]:
        """The examples by the kind of edit that they ask for; prompts for text have none."""
        cases: dict[str, list[ForecastCase]] = defaultdict(list)
        for case in self.cases if self.view.task is not TEXT else ():
            cases[case.kind].append(case)
        return dict(sorted(cases.items()))

    @cached_property
    def homes(self) -> dict[str, Entry | None]:
        """The main Skill of each kind of edit: consulted for most such examples and for few others."""
        return {kind: self._home({case.id for case in cases}) for kind, cases in self.kinds.items()}

    def _home(self, wanted: set[str]) -> Entry | None:
        homes: list[tuple[float, str]] = []
        for entry in self.view.library.skills:
            reached = {case.id for case in self.reach(entry)}
            here = len(reached & wanted)
            if not is_general(entry) and here >= MAIN_SHARE * len(wanted):
                homes.append((0.5 * len(reached - wanted) - here, entry.name))
        return self.view.library.get(min(homes)[1]) if homes else None

    def measured(self) -> Iterator[tuple[Entry, Criterion]]:
        """All criteria that a measure grades."""
        for entry in self.view.library.skills:
            for criterion in criteria_of(entry):
                if criterion.measure in MEASURES and criterion.weight > 0:
                    yield entry, criterion

    def judged_by(self, entry: Entry, criterion: Criterion) -> list[ForecastCase]:
        """The examples on which a criterion counts."""
        applies = set(criterion.applies)
        return [case for case in self.reach(entry) if not applies or applies & set(case.request.kinds)]

    def fires(self, entry: Entry, case: ForecastCase) -> bool:
        """Whether an entry is consulted for an example."""
        text = entry.metadata.get("triggers") or f"{entry.name} {entry.description}"
        key = (text, "" if entry.triggers else "words", case.request.instruction)
        if key not in self._fired:
            self._fired[key] = fires(entry, case.request.instruction) is not None
        return self._fired[key]

    def reach(self, entry: Entry) -> tuple[ForecastCase, ...]:
        """The examples for which an entry is consulted."""
        return tuple(case for case in self.cases if self.fires(entry, case))

    def agreement(self, measure: str, cases: Iterable[ForecastCase]) -> Agreement:
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

    def graded(self, case: ForecastCase) -> dict[str, list[tuple[Criterion, float]]]:
        """Return the criteria that count on an example, with their grades, by label."""
        parts = [self._part(case, name) for name in self._routed(case)]
        return {label: [pair for part in parts for pair in part.get(label, ())] for label in case.grades}

    def effect(self, changes: Sequence[Change]) -> Effect:
        """Predict the effect of changes of Skills. The effect of Tools cannot be predicted."""
        after = {name_of(change): None if isinstance(change, RemoveEntry) else change.entry for change in changes}
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
            difference = _probability(then) - _probability(now)
            gain += difference
            if difference > 0 and then is not None and then > 0 and case.outcome.credit < 1:
                fixed.append((-difference, case.id))
            elif difference < 0 and (then is None or then <= 0) and now is not None and now > 0:
                broken.append(case.id)
        return Effect(gain, tuple(name for _, name in sorted(fixed)), tuple(broken), touched)

    def _routed(self, case: ForecastCase) -> list[str]:
        return [entry.name for entry in self.view.library.skills if self.fires(entry, case)]

    def _part(self, case: ForecastCase, name: str) -> _Grades:
        key = (case.id, name)
        if key not in self._parts:
            entry = self.view.library.get(name)
            self._parts[key] = _graded(entry, case) if entry else {}
        return self._parts[key]

    def _lead(self, case: ForecastCase, parts: Mapping[str, _Grades]) -> float | None:
        """Return the lead of the preferred candidate over the best other, in log reward; None without grades."""
        rewards: dict[str, float] = {}
        for label in case.grades:
            scores = make_scores([pair for name in sorted(parts) for pair in parts[name].get(label, ())])
            if scores is None:
                return None
            rewards[label] = math.log(max(scores.value_or_evidence, _LEAST))
        return rewards[case.wanted] - max(value for label, value in rewards.items() if label != case.wanted)


def _graded(entry: Entry, case: ForecastCase) -> _Grades:
    kinds = {*case.request.kinds}
    chosen = [one for one in criteria_of(entry) if one.weight > 0 and (not one.applies or kinds & {*one.applies})]
    return {
        label: [(one, grades[str(one.measure)]) for one in chosen if one.measure in grades]
        for label, grades in case.grades.items()
    }


def _probability(lead: float | None) -> float:
    return 0.5 if lead is None else 0.5 * (1 + math.tanh(lead / (2 * SHARPNESS)))


def observer(cache: JudgmentCache | None) -> Observe:
    """Return a function that measures examples, each once.

    Args:
        cache: Persistent cache of measurements, shared with the pixel-based judge.
    """
    seen: dict[str, Mapping[str, Mapping[str, float]]] = {}

    def observe(example: Example) -> Mapping[str, Mapping[str, float]]:
        if example.id not in seen:
            seen[example.id] = _measured(example, cache)
        return seen[example.id]

    return observe


def _measured(example: Example, cache: JudgmentCache | None) -> Mapping[str, Mapping[str, float]]:
    """Return the grades of all measures by candidate; none if an image cannot be read, or of videos."""
    task = task_of(example)
    if task not in (IMAGE_EDIT, TEXT):
        return {}
    request, grades = request_of(example), dict[str, Mapping[str, float]]()
    # Reading text is slow, and done only if the instruction mentions text.
    slow = {"text_match"} if request.texts or request.removed_texts else set()
    wanted = tuple(name for name in known_measures(task.candidate) if name not in SLOW or name in slow)
    with suppress(HarnessError):
        source = Loaded.of(example.source)
        for label, candidate in zip(example.labels, example.candidates, strict=True):
            readings = measure(source, Loaded.of(candidate), request, wanted, cache).readings
            grades[label] = {name: item.grade for name, item in readings.items() if item.grade is not None}
        return grades
    return {}

"""A joint fit as an edit of a Library: one Skill per scope, whose rubric holds the fitted criteria and weights.

A scope says which training examples are fitted together, and when the fitted Skill applies.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rewardharness.evolution.builtin.forecast import Agreement, Forecast, ForecastCase
from rewardharness.evolution.builtin.ideas import free_id
from rewardharness.evolution.builtin.phrasing import (
    ANY,
    ANY_TEXT,
    KINDS,
    KindWords,
    criterion_text,
    evidence,
    new_body,
    note,
    title,
    with_note,
)
from rewardharness.evolution.joint.fit import Comparisons, choose_strength, fit
from rewardharness.evolution.proposal import MAX_CITED, Proposal
from rewardharness.judging.criteria import GRADE_FLOOR, INSTRUCTION_SHARE
from rewardharness.judging.readings import SLOW
from rewardharness.library.entry import Entry
from rewardharness.library.rubric import Criterion, Rubric
from rewardharness.library.store import AddEntry, Library, ReplaceEntry
from rewardharness.measure.table import MEASURES
from rewardharness.schema import Example
from rewardharness.task import TEXT, entry_metadata, task_of

LEAST_CASES = 30
"""Minimum number of examples of a scope."""
COVERAGE = 0.9
"""Minimum share of the instructions of a scope that contain its phrase."""
_LONGEST = 4
_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
_SAMENESS = re.compile(
    r"\b(same|similar|like|alike|identical|resembl\w+|match\w*|closest|close to|faithful\w*|reproduc\w+|preserv\w+"
    r"|keep\w*|unchanged|variation)\b",
    re.IGNORECASE,
)
_FUNCTION_WORDS = frozenset(
    "a an and are as at be by for from has have in into is it its of on or so that the their them then there this to"
    " was were which with without image picture photo please".split()
)


@dataclass(frozen=True)
class Scope:
    """Examples that are fitted together."""

    name: str
    """Name of the Skill."""
    words: KindWords
    """Texts of the Skill, with the triggers that select its examples."""
    applies: tuple[str, ...]
    """Kinds of edit to which its criteria apply; empty for all that the triggers select."""
    cases: tuple[ForecastCase, ...]
    same_look: bool
    """Whether the instructions ask for the appearance of the source, so that similarity to the source is a merit."""


def find_scopes(cases: Sequence[ForecastCase]) -> tuple[Scope, ...]:
    """Divide examples into scopes.

    If nearly all instructions share a phrase, there is one scope with the phrase as trigger. Otherwise all examples are
    a scope, and then each kind of edit with enough examples, with a shared phrase or else the usual triggers of the
    kind.
    """
    whole = _phrase_scope(cases, ())
    if whole is not None:
        return (whole,) if len(whole.cases) >= LEAST_CASES else ()
    if len(cases) < LEAST_CASES:
        return ()
    if task_of(cases[0].outcome.example) is TEXT:
        return (Scope("preferences-for-all-responses", ANY_TEXT, (), tuple(cases), False),)
    scopes = [Scope("preferences-for-all-edits", ANY, (), tuple(cases), _same_look(cases))]
    for kind, wording in KINDS.items():
        chosen = [case for case in cases if case.kind == kind]
        if len(chosen) < LEAST_CASES:
            continue
        scope = _phrase_scope(chosen, (kind,))
        if scope is None and wording.triggers:
            scope = Scope(f"preferences-for-{kind}-edits", wording, (kind,), tuple(chosen), _same_look(chosen))
        if scope is not None and len(scope.cases) >= LEAST_CASES:
            scopes.append(scope)
    return tuple(scopes)


def _phrase_scope(cases: Sequence[ForecastCase], applies: tuple[str, ...]) -> Scope | None:
    phrase = shared_phrase([case.request.instruction for case in cases])
    if not phrase:
        return None
    wording = KindWords(
        f'is asked for with the words "{phrase}"',
        "The criteria and their weights were fitted on people's choices between such edits.",
        phrase,
    )
    name = "preferences-for-" + "-".join(re.findall(r"[a-z0-9]+", phrase))[:40].strip("-")
    chosen = tuple(case for case in cases if phrase in _plain(case.request.instruction))
    return Scope(name, wording, applies, chosen, _same_look(chosen))


def shared_phrase(instructions: Sequence[str]) -> str:
    """Return the most specific phrase that nearly all instructions share; empty if there is none.

    A phrase has at least two words that are no function words, and neither begins nor ends with one.
    """
    counts: Counter[str] = Counter()
    for instruction in instructions:
        words = _WORD.findall(instruction.lower())
        plain = _plain(instruction)
        counts.update(
            {
                phrase
                for size in range(2, _LONGEST + 1)
                for start in range(len(words) - size + 1)
                if (phrase := " ".join(words[start : start + size])) in plain and _is_specific(phrase)
            }
        )
    shared = [phrase for phrase, count in counts.items() if count >= COVERAGE * len(instructions)]
    return min(shared, key=lambda phrase: (-_content_words(phrase), len(phrase), phrase), default="")


def _same_look(cases: Sequence[ForecastCase]) -> bool:
    asked = [
        case.kind in {"keep", "appearance"} or _SAMENESS.search(case.request.instruction) is not None for case in cases
    ]
    return bool(asked) and sum(asked) >= COVERAGE * len(asked)


def _plain(instruction: str) -> str:
    return re.sub(r"\s+", " ", instruction.lower())


def _content_words(phrase: str) -> int:
    return sum(word not in _FUNCTION_WORDS for word in phrase.split())


def _is_specific(phrase: str) -> bool:
    words = phrase.split()
    ends = words[0] in _FUNCTION_WORDS or words[-1] in _FUNCTION_WORDS
    return not ends and _content_words(phrase) >= 2


NAME = "built-in joint fit (no model)"
"""Source of the proposals."""

LARGEST = 20.0
"""Maximum total weight of the fitted criteria, relative to all criteria that count without them."""
LEAST_SHARE = 0.03
"""Share of the total weight below which a criterion is left out."""
_LEAST_REWARD = 1e-3


@dataclass(frozen=True)
class ScopeData:
    """The training data of one scope."""

    scope: Scope
    measures: tuple[str, ...]
    """Measures that may get a criterion, in the order of the features after the first."""
    comparisons: Comparisons
    example_ids: tuple[str, ...]
    """The example of each comparison."""
    agreements: Mapping[str, Agreement]
    """How often each measure agrees with the labels."""
    current_weight: float
    """Average total weight of the criteria for instruction following that count now; 0 without any."""

    @property
    def name(self) -> str:
        """Name of the Skill that the fit writes."""
        return self.scope.name

    @property
    def examples(self) -> dict[str, Example]:
        """The examples by id."""
        return {case.id: case.outcome.example for case in self.scope.cases}

    def propose(self, library: Library, comparisons: Comparisons, seed: int) -> Proposal | None:
        """Fit the weights on some of the comparisons, and write them as an edit of the Library.

        Returns:
            The edit; None if the fit gives no weight to any new criterion.
        """
        chosen = fitted_weights(comparisons, self.current_weight or 10.0, seed)
        weights = {self.measures[number]: two_digits(weight) for number, weight in chosen.items()}
        return _skill_edit(library, self, weights) if weights else None


def scope_data(forecast: Forecast, scope: Scope) -> ScopeData:
    """Collect the training data of a scope.

    The reward is a weighted geometric mean, so its logarithm is linear in the share of each criterion. With
    new criteria for instruction following it is proportional to `(1 - s) m + sum_j s_j g_j + base`: `m` the mean log
    grade of the present criteria, `g_j` the log grade of a new one, `s` their total share, and `base` the rest (visual
    quality and limits), whose share does not change.
    """
    measures = allowed_measures(scope, forecast.view.known_measures)
    rows, weights, sources, ids, totals = [], list[float](), list[int](), list[str](), list[float]()
    numbers: dict[str, int] = {}
    for case in scope.cases:
        now = {label: _present(forecast, case, label) for label in case.grades}
        totals.append(next(iter(now.values()))[2])
        others = [label for label in case.grades if label != case.wanted]
        example = case.outcome.example
        for other in others:
            ours, theirs = now[case.wanted], now[other]
            mean = ours[0] - theirs[0]
            base = (ours[1] - theirs[1]) / INSTRUCTION_SHARE - mean
            grades = [_difference(case, other, measure) + base for measure in measures]
            rows.append([mean + base, *grades])
            weights.append(1.0 / len(others))
            sources.append(numbers.setdefault(example.source_id or example.id, len(numbers)))
            ids.append(example.id)
    data = Comparisons(np.array(rows, np.float64), np.array(weights), np.array(sources, np.int64))
    agreements = {measure: forecast.agreement(measure, scope.cases) for measure in measures}
    return ScopeData(scope, measures, data, tuple(ids), agreements, float(np.mean(totals)))


def allowed_measures(scope: Scope, known: Sequence[str]) -> tuple[str, ...]:
    """Return the measures that may get a criterion; similarity to the source only if the instructions ask for it."""
    return tuple(
        name
        for name in known
        if name not in SLOW and name != "change_map" and (scope.same_look or not MEASURES[name].same_look)
    )


def _present(forecast: Forecast, case: ForecastCase, label: str) -> tuple[float, float, float]:
    """Return the mean log grade of the criteria for instruction following, the log reward, and their weight."""
    graded = [pair for pair in forecast.graded(case).get(label, ()) if pair[0].dimension == "instruction"]
    weight = math.fsum(criterion.weight for criterion, _ in graded)
    logs = math.fsum(criterion.weight * math.log(max(grade, GRADE_FLOOR)) for criterion, grade in graded)
    scores = case.outcome.judgment.scores
    if any(other not in scores for other in case.grades):
        return 0.0, 0.0, 0.0
    rewards = [scores[other].reward for other in case.grades]
    value = scores[label].reward if None not in rewards else scores[label].evidence
    return logs / weight if weight else 0.0, math.log(max(value or 0.0, _LEAST_REWARD)), weight


def _difference(case: ForecastCase, other: str, measure: str) -> float:
    ours, theirs = case.grades[case.wanted].get(measure), case.grades[other].get(measure)
    if ours is None or theirs is None:
        return 0.0
    return math.log(max(ours, GRADE_FLOOR)) - math.log(max(theirs, GRADE_FLOOR))


def fitted_weights(comparisons: Comparisons, present: float, seed: int) -> dict[int, float]:
    """Fit, and return the weights of the new features by number.

    Args:
        comparisons: The training data.
        present: Total weight of what counts now, which sets the unit.
        seed: Seed of the folds that choose the strength.
    """
    weights = fit(comparisons, choose_strength(comparisons, seed))
    total = float(weights[1:].sum())
    if total <= 0:
        return {}
    factor = present / max(float(weights[0]), total / LARGEST)
    least = LEAST_SHARE * total
    return {number: float(weight) * factor for number, weight in enumerate(weights[1:]) if weight >= least}


def _skill_edit(library: Library, data: ScopeData, weights: dict[str, float]) -> Proposal:
    scope = data.scope
    old = library.get(scope.name)
    entry = old if old is not None and old.kind == "skill" else _new_skill(scope)
    lines = []
    for measure, weight in sorted(weights.items(), key=lambda item: -item[1]):
        entry, line = _with_weight(entry, data, measure, weight)
        lines.append(line)
    examples = len(set(data.example_ids))
    says = (
        f"Criteria for {scope.words.what} that {scope.words.phrase}, with weights fitted jointly on {examples} "
        f"examples: {'; '.join(lines)}."
    )
    change = ReplaceEntry(entry, says) if old is not None else AddEntry(entry, says)
    cited = tuple(dict.fromkeys(data.example_ids))[:MAX_CITED]
    return Proposal("bundle", (change,), says, cited, NAME)


def _new_skill(scope: Scope) -> Entry:
    metadata = {**entry_metadata(task_of(scope.cases[0].outcome.example)), "triggers": scope.words.triggers}
    body = new_body(scope.name, scope.words, "")
    return Entry(scope.name, "skill", scope.words.description, body, metadata)


def _with_weight(entry: Entry, data: ScopeData, measure: str, weight: float) -> tuple[Entry, str]:
    """Give a Skill a criterion with a measure, or increase the weight of the one that it has."""
    criteria = list(entry.rubric.criteria) if entry.rubric else []
    extra = entry.rubric.extra if entry.rubric else {}
    for position, known in enumerate(criteria):
        if known.measure == measure and known.applies == data.scope.applies:
            criteria[position] = replace(known, weight=two_digits(known.weight + weight))
            line = f"{title(measure).lower()} (weight {criteria[position].weight:g} instead of {known.weight:g})"
            return replace(entry, rubric=Rubric(tuple(criteria), extra)), line
    name = free_id(entry, measure.replace("_", "-"))
    criterion = Criterion(name, criterion_text(measure), weight, measure=measure, applies=data.scope.applies)
    body = with_note(entry.body, note(criterion, evidence(measure, data.agreements[measure], "pairs")))
    rubric = Rubric((*criteria, criterion), extra)
    return replace(entry, rubric=rubric, body=body), f"{title(measure).lower()} (weight {weight:g})"


def two_digits(value: float) -> float:
    """Round a weight to two significant digits."""
    return float(f"{value:.2g}")

"""A joint fit of the weights of existing criteria, from the grades that a model gave in the protocol `rubric`.

Weights are not part of a prompt of this protocol, so that judging again with other weights is answered from the cache.
"""

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

import numpy as np

from rewardharness.errors import InputError
from rewardharness.evolution.joint.fit import Comparisons
from rewardharness.evolution.joint.proposing import fitted_weights, two_digits
from rewardharness.evolution.proposal import MAX_CITED, Outcome, Proposal
from rewardharness.judging.criteria import GRADE_FLOOR, INSTRUCTION_SHARE
from rewardharness.library.rubric import Criterion, grade
from rewardharness.library.store import Change, Library, ReplaceEntry
from rewardharness.schema import Example, Judgment

NAME = "built-in joint fit of weights (no model)"
"""Source of the proposals."""

Grades = Mapping[str, Mapping[str, float]]
"""Label to criterion (`skill/criterion`) to grade in [0, 1]."""

_SHARES: Mapping[str, float] = {"instruction": INSTRUCTION_SHARE, "quality": 1 - INSTRUCTION_SHARE}
_LEAST_REWARD = 1e-3


@dataclass(frozen=True)
class Reweighting:
    """The training data."""

    criteria: tuple[str, ...]
    """Criteria, in the order of the features after the first."""
    comparisons: Comparisons
    example_ids: tuple[str, ...]
    graded: Sequence[tuple[Outcome, Grades]]

    name = "weights of criteria"

    @property
    def examples(self) -> dict[str, Example]:
        """The examples by id."""
        return {outcome.example.id: outcome.example for outcome, _ in self.graded}

    def propose(self, library: Library, comparisons: Comparisons, seed: int) -> Proposal | None:
        """Fit the weights on some of the comparisons, and write them as edits of the Skills.

        Returns:
            One edit per Skill in a bundle; None if no weight grows.
        """
        added = {self.criteria[number]: weight for number, weight in fitted_weights(comparisons, 1.0, seed).items()}
        totals = self._totals(library)
        changes: list[Change] = []
        lines: list[str] = []
        for entry in library.skills:
            criteria = list(entry.rubric.criteria) if entry.rubric else []
            for position, known in enumerate(criteria):
                if known.dimension == "consistency":
                    continue
                more = added.get(f"{entry.name}/{known.id}", 0.0) * totals[known.dimension] / _SHARES[known.dimension]
                weight = two_digits(known.weight + more)
                if more > 0 and weight != known.weight:
                    criteria[position] = replace(known, weight=weight)
                    lines.append(f"`{known.id}` of `{entry.name}` counts {weight:g} instead of {known.weight:g}")
            if entry.rubric and tuple(criteria) != entry.rubric.criteria:
                edited = replace(entry, rubric=replace(entry.rubric, criteria=tuple(criteria)))
                changes.append(ReplaceEntry(edited, "Weights fitted jointly on all training examples."))
        if not changes:
            return None
        says = f"Weights of criteria, fitted jointly on {len(self.graded)} examples: {'; '.join(lines)}."
        return Proposal("bundle", tuple(changes), says, tuple(self.examples)[:MAX_CITED], NAME)

    def _totals(self, library: Library) -> dict[Literal["instruction", "quality"], float]:
        """Return the average total weight of the criteria that count, by dimension."""
        known = _criteria(library)
        sums: dict[Literal["instruction", "quality"], list[float]] = {"instruction": [], "quality": []}
        for _, grades in self.graded:
            keys = next(iter(grades.values()))
            for dimension, totals in sums.items():
                totals.append(math.fsum(known[key].weight for key in keys if known[key].dimension == dimension))
        return {dimension: fmean(values) for dimension, values in sums.items()}


def graded_examples(library: Library, outcomes: Sequence[Outcome]) -> list[tuple[Outcome, Grades]]:
    """Return the judged examples with a preferred candidate, with the model's grades of every candidate."""
    known = _criteria(library)
    examples = []
    for outcome in outcomes:
        if outcome.judged and outcome.example.preference in outcome.example.labels:
            grades = read_grades(outcome.judgment, known)
            if set(grades) == set(outcome.example.labels) and len({frozenset(keys) for keys in grades.values()}) == 1:
                examples.append((outcome, grades))
    return examples


def read_grades(judgment: Judgment, known: Mapping[str, Criterion]) -> Grades:
    """Return the grades in the answers of a judgment; the mean of repeated ones, none off the scale."""
    by_label: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for step in judgment.steps:
        if step.kind != "answer":
            continue
        try:
            answer = json.loads(step.text)
        except ValueError:
            continue
        if not isinstance(answer, dict) or "candidate" not in answer:
            continue
        for key, number in answer.items():
            if key in known:
                with suppress(InputError):
                    value = grade(known[key], number)
                    by_label[str(answer["candidate"])][key].append(value)
    return {label: {key: fmean(numbers) for key, numbers in grades.items()} for label, grades in by_label.items()}


def reweighting_data(library: Library, graded: Sequence[tuple[Outcome, Grades]]) -> Reweighting:
    """Collect the training data: the log reward now, and the log grade of each criterion."""
    criteria = tuple(sorted({key for _, grades in graded for keys in grades.values() for key in keys}))
    rows, weights, sources, ids = [], list[float](), list[int](), list[str]()
    numbers: dict[str, int] = {}
    for outcome, grades in graded:
        example, wanted = outcome.example, str(outcome.example.preference)
        others = [label for label in grades if label != wanted]
        for other in others:
            now = _log_reward(outcome.judgment, wanted) - _log_reward(outcome.judgment, other)
            rows.append([now, *(_log(grades[wanted].get(key)) - _log(grades[other].get(key)) for key in criteria)])
            weights.append(1.0 / len(others))
            sources.append(numbers.setdefault(example.source_id or example.id, len(numbers)))
            ids.append(example.id)
    data = Comparisons(np.array(rows, np.float64), np.array(weights), np.array(sources, np.int64))
    return Reweighting(criteria, data, tuple(ids), graded)


def _criteria(library: Library) -> dict[str, Criterion]:
    return {
        f"{entry.name}/{criterion.id}": criterion
        for entry in library.skills
        if entry.rubric
        for criterion in entry.rubric.criteria
    }


def _log(value: float | None) -> float:
    return 0.0 if value is None else math.log(max(value, GRADE_FLOOR))


def _log_reward(judgment: Judgment, label: str) -> float:
    scores = judgment.scores.get(label)
    return math.log(max((scores.reward if scores else None) or 0.0, _LEAST_REWARD))

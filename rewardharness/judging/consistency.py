"""Consistency, an optional third score: whether what should stay the same did. With the weight 0 no reward changes."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from rewardharness.files import content_id
from rewardharness.judging.criteria import LOST_PART, combine
from rewardharness.judging.measured import MeasuredJudge
from rewardharness.judging.measured_example import GradedCandidate, MeasuredExample
from rewardharness.library.rubric import Criterion
from rewardharness.library.store import Library
from rewardharness.schema import SCALE, Example, Judgment, Scores

PRESERVING = frozenset({"preservation", "structure_kept", "fidelity"})
"""Measures of what should stay the same."""


def with_consistency(scores: Scores, consistency: float | None, weight: float | None) -> Scores:
    """Return scores with a third one.

    Args:
        scores: The other two, and the reward.
        consistency: The third score on `SCALE`; None where nothing spoke to it.
        weight: Its weight in the reward, in [0, 1]; the others share the rest.
    """
    if consistency is not None and weight:
        grade = (consistency - SCALE[0]) / (SCALE[1] - SCALE[0])
        for name in ("reward", "evidence"):
            if (number := getattr(scores, name)) is not None:
                scores = replace(scores, **{name: combine([(1 - weight, number), (weight, grade)])})
    return scores if consistency == scores.consistency else replace(scores, consistency=consistency)


def consistency_of(graded: Iterable[tuple[Criterion, float]], *, measured: bool = True) -> float | None:
    """Return the score on `SCALE` for the grades of criteria.

    Args:
        graded: Criteria with their grades in [0, 1].
        measured: Whether criteria with a measure of `PRESERVING` count, too, whatever their dimension.

    Returns:
        The score; None if no criterion is about consistency.
    """
    about = PRESERVING if measured else frozenset[str]()
    own = [
        (criterion, grade)
        for criterion, grade in graded
        if criterion.dimension == "consistency" or criterion.measure in about
    ]
    part = combine((criterion.weight, grade) for criterion, grade in own)
    return None if part is None else SCALE[0] + part * (SCALE[1] - SCALE[0])


class ConsistencyJudge(MeasuredJudge):
    """The pixel-based judge with the third score, from the measures of what should stay the same.

    Args:
        weight: Weight of the third score in the reward, in [0, 1]; with 0 all other numbers are the usual ones.
        options: Those of `MeasuredJudge`.
    """

    def __init__(self, weight: float, **options: Any) -> None:
        super().__init__(**options)
        self._weight = weight

    @property
    def revision(self) -> str:
        """That of the usual judge; with a weight another one."""
        usual = super().revision
        return content_id([usual, "consistency", self._weight]) if self._weight else usual

    def _conclude(self, example: Example, library: Library, case: MeasuredExample, started: float) -> Judgment:
        measured = {label: self._scored(candidate, case) for label, candidate in case.measured.items()}
        return super()._conclude(example, library, replace(case, measured=measured), started)

    def _scored(self, candidate: GradedCandidate, case: MeasuredExample) -> GradedCandidate:
        graded = [(a.criterion, candidate.grades[a.key]) for a in case.criteria if a.key in candidate.grades]
        kept = 1.0 if case.references else LOST_PART + (1 - LOST_PART) * candidate.taken.scene
        score = consistency_of(graded)
        score = None if score is None else SCALE[0] + (score - SCALE[0]) * kept
        assert candidate.scores is not None  # checked by `judge_now`
        return replace(candidate, scores=with_consistency(candidate.scores, score, self._weight))

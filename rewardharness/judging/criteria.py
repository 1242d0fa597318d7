"""Aggregation of the grades of rubric criteria to scores, whether by a model or by measures."""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from rewardharness.judging.router import Route
from rewardharness.library.rubric import Criterion, Dimension
from rewardharness.measure.table import MEASURES
from rewardharness.schema import SCALE, EditRequest, Scores

GRADE_FLOOR = 0.02
"""Minimum grade before the logarithm, so that a single zero does not cancel all other grades."""


@dataclass(frozen=True)
class Applied:
    """A criterion that applies to a request, and its Skill."""

    skill: str
    criterion: Criterion

    @property
    def key(self) -> str:
        """`skill/criterion`, unique within a route."""
        return f"{self.skill}/{self.criterion.id}"

    @property
    def specific(self) -> bool:
        """Whether the criterion applies to certain kinds of edit only."""
        return bool(self.criterion.applies)


def applicable(route: Route, request: EditRequest) -> tuple[Applied, ...]:
    """Return the criteria of the routed Skills that apply to the requested kinds of edit."""
    named = ((skill.name, criterion) for skill in route.skills if skill.rubric for criterion in skill.rubric.criteria)
    weighed = ((name, criterion) for name, criterion in named if criterion.weight > 0)
    kinds = set(request.kinds)
    return tuple(
        Applied(name, criterion)
        for name, criterion in weighed
        if not criterion.applies or set(criterion.applies) & kinds
    )


def combine(graded: Iterable[tuple[float, float]]) -> float | None:
    """Return the combined grade.

    This is the weighted geometric mean, `exp(sum w ln max(g, floor) / sum w)`: complete failure on a criterion with a
    large weight lowers the result, unlike in an arithmetic mean. VIEScore (arXiv 2312.14867) multiplies its parts for
    the same reason.

    Args:
        graded: Weight above 0 and grade in [0, 1] of each criterion that was graded.

    Returns:
        A grade in [0, 1]; None if nothing was graded.
    """
    total = 0.0
    log_sum = 0.0
    for weight, grade in graded:
        total += weight
        log_sum += weight * math.log(max(grade, GRADE_FLOOR))
    if total <= 0:
        return None
    return max(0.0, math.exp(log_sum / total) - GRADE_FLOOR) / (1 - GRADE_FLOOR)  # rounding can go below the floor


INSTRUCTION_SHARE = 0.6
"""Weight of instruction following in the reward; the rest is visual quality."""


def make_scores(graded: Sequence[tuple[Criterion, float]]) -> Scores | None:
    """Return the scores of one candidate from its grades.

    Args:
        graded: Each criterion that was graded, with its grade in [0, 1].

    Returns:
        The score per dimension on `SCALE` and a reward in [0, 1], the weighted geometric mean of the dimensions
        that were graded; None when none was.
    """
    instruction, quality = _part(graded, "instruction"), _part(graded, "quality")
    reward = _reward(instruction, quality)
    return None if reward is None else Scores(_on_scale(instruction), _on_scale(quality), reward)


UNMET, MET = 0.15, 0.25
"""Grade of a specific measure at and below which the requested edit counts as not done, and from which as done.

Without any change of color or light these measures grade .10 to .12; of 54 published edits, of the label kinds
`ground_truth_vs_unedited` and `ground_truth_vs_over_edit`, all but one reach .2. Chosen with these edits in view."""
UNMET_PART = 1 / 3
"""Factor of the grade for instruction following of an edit that is not done: a score of 2 at most."""
LOST_PART = 0.1
"""Factor of both dimensions if the candidate does not show the scene of the source at all."""


def make_measured_scores(
    graded: Sequence[tuple[Criterion, float]], kinds: Collection[str], scene: float
) -> Scores | None:
    """Return the scores of one candidate from measured grades.

    If a change is requested and none is visible, nothing of the instruction was followed: its score is 1, and the
    reward 0. Otherwise the requested kind of edit that was done least limits the score, to at most 2 if it was not
    done; the measures that are specific to it tell (see `Measure.kinds`). Without such a measure it is unknown whether
    the instruction was followed: the instruction score and the reward are None, and only `evidence` remains, which
    ranks candidates.

    Args:
        graded: Each criterion that was graded, with its grade in [0, 1].
        kinds: The requested kinds of edit.
        scene: Degree in [0, 1] to which the candidate shows the scene of the source; it scales both dimensions.
    """
    kept = LOST_PART + (1 - LOST_PART) * scene
    instruction, quality = _part(graded, "instruction"), _part(graded, "quality")
    instruction, quality = (None if part is None else part * kept for part in (instruction, quality))
    visible = [grade for criterion, grade in graded if criterion.measure == "edit_presence"]
    instruction = None if instruction is None else instruction * _done(visible)
    evidence = _reward(instruction, quality)
    if evidence is None:
        return None
    met = met_kinds(graded, kinds)
    if not met or instruction is None:
        return Scores(None, _on_scale(quality), None, evidence=evidence)
    instruction *= UNMET_PART + (1 - UNMET_PART) * _done(met.values())
    return Scores(_on_scale(instruction), _on_scale(quality), _reward(instruction, quality), evidence=evidence)


def met_kinds(graded: Sequence[tuple[Criterion, float]], kinds: Collection[str]) -> dict[str, float]:
    """Return, for each requested kind of edit that was graded, the weighted geometric mean of its specific measures."""
    met = {}
    for kind in kinds:
        parts = [
            (criterion.weight, max(grade, GRADE_FLOOR))
            for criterion, grade in graded
            if criterion.measure is not None and kind in MEASURES[criterion.measure].kinds
        ]
        if parts:
            total = sum(weight for weight, _ in parts)
            met[kind] = math.exp(sum(weight * math.log(grade) for weight, grade in parts) / total)
    return met


def _done(grades: Iterable[float]) -> float:
    """Return whether the requested edit was made: 0 if any grade is at most `UNMET`, 1 if all reach `MET`."""
    return min(1.0, max(0.0, (min(grades, default=1.0) - UNMET) / (MET - UNMET)))


def _part(graded: Sequence[tuple[Criterion, float]], dimension: Dimension) -> float | None:
    return combine((criterion.weight, grade) for criterion, grade in graded if criterion.dimension == dimension)


def _reward(instruction: float | None, quality: float | None) -> float | None:
    """Return the weighted geometric mean of the dimensions that were graded; None when none was."""
    shares = ((INSTRUCTION_SHARE, instruction), (1 - INSTRUCTION_SHARE, quality))
    known = [(share, part) for share, part in shares if part is not None]
    total = sum(share for share, _ in known)
    return math.prod(part ** (share / total) for share, part in known) if known else None


def _on_scale(grade: float | None) -> float | None:
    low, high = SCALE
    return None if grade is None else low + grade * (high - low)

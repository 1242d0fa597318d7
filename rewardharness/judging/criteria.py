"""Weighs the grades of rubric criteria into scores. The same arithmetic for whatever did the grading."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rewardharness.judging.router import Route
from rewardharness.library.rubric import Criterion, Dimension
from rewardharness.schema import SCALE, EditRequest, Scores

GRADE_FLOOR = 0.02
"""Grades are raised to this before their logarithm is taken, so that one zero does not erase all the others."""


@dataclass(frozen=True)
class Applied:
    """A criterion that applies to a request, and the Skill that it stands in."""

    skill: str
    criterion: Criterion

    @property
    def key(self) -> str:
        """`skill/criterion`, unique within a route."""
        return f"{self.skill}/{self.criterion.id}"

    @property
    def specific(self) -> bool:
        """Whether the criterion is meant for certain kinds of edit rather than for all."""
        return bool(self.criterion.applies)


def applicable(route: Route, request: EditRequest) -> tuple[Applied, ...]:
    """Collect the criteria of the routed Skills that apply to the kinds of edit asked for."""
    found: list[Applied] = []
    for skill in route.skills:
        if skill.rubric is None:
            continue
        for criterion in skill.rubric.criteria:
            if criterion.weight > 0 and (not criterion.applies or set(criterion.applies) & set(request.kinds)):
                found.append(Applied(skill.name, criterion))
    return tuple(found)


def combine(graded: Iterable[tuple[float, float]]) -> float | None:
    """Combine grades into one.

    The weighted geometric mean, `exp(sum w ln max(g, floor) / sum w)`: a total failure on a heavy criterion
    sinks the result, which an average would hide. VIEScore (arXiv 2312.14867) multiplies its parts for the
    same reason.

    Args:
        graded: Weight above 0 and grade in [0, 1] of each criterion that was graded.

    Returns:
        A grade in [0, 1], or None when nothing was graded.
    """
    total = 0.0
    log_sum = 0.0
    for weight, grade in graded:
        total += weight
        log_sum += weight * math.log(max(grade, GRADE_FLOOR))
    if total <= 0:
        return None
    return (math.exp(log_sum / total) - GRADE_FLOOR) / (1 - GRADE_FLOOR)


INSTRUCTION_SHARE = 0.6
"""Weight of instruction following in the reward; the rest is visual quality. People put the instruction first."""


def make_scores(graded: Sequence[tuple[Criterion, float]]) -> Scores | None:
    """Turn the grades of one candidate into its scores.

    Args:
        graded: Each criterion that was graded, with its grade in [0, 1].

    Returns:
        The score per dimension on `SCALE` and a reward in [0, 1], the weighted geometric mean of the dimensions
        that were graded; None when none was.
    """
    parts: dict[Dimension, float | None] = {}
    for dimension in ("instruction", "quality"):
        parts[dimension] = combine((each.weight, grade) for each, grade in graded if each.dimension == dimension)
    shares = {"instruction": INSTRUCTION_SHARE, "quality": 1 - INSTRUCTION_SHARE}
    known = [(shares[dimension], part) for dimension, part in parts.items() if part is not None]
    if not known:
        return None
    total = sum(share for share, _ in known)
    return Scores(
        instruction=_on_scale(parts["instruction"]),
        quality=_on_scale(parts["quality"]),
        reward=math.prod(part ** (share / total) for share, part in known),
    )


def _on_scale(grade: float | None) -> float | None:
    low, high = SCALE
    return None if grade is None else low + grade * (high - low)

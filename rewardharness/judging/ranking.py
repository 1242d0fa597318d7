"""Ratings of editors from comparisons of their edits: Bradley-Terry with 95% intervals, as LMArena shows them.

The strengths maximize the likelihood that editor `a` is preferred to editor `b` with probability `sigmoid(a - b)`
(Bradley and Terry, Biometrika 39, 1952); a tie is half a win for each. Every editor also has one tie with a fixed
editor of average strength. This prior keeps the rating of an editor finite that won or lost everything, and makes
editors comparable that no chain of comparisons connects; their intervals are then wide. Intervals follow from the
Fisher information, with the prior, and are those of the distance to the mean of all editors. Ties vary less than wins
and losses, so the intervals are narrowed by the dispersion of the answers (quasi-likelihood: Wedderburn, Biometrika 61,
1974), never widened. They assume independent comparisons: several of one source image make them too narrow.

Ratings are on the scale of Elo: 1000 is the mean of the editors, and 400 more mean odds of 10 to 1.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

from rewardharness.judging.report import Z95
from rewardharness.schema import LABELS, TIE, Example, ImageInput, Interval

if TYPE_CHECKING:
    import numpy.typing as npt

MEAN = 1000.0
"""Mean rating of the editors."""

ELO = 400 / math.log(10)
"""Points of the rating per unit of strength."""

PRIOR = 1.0
"""Number of ties of each editor with the average editor that the ratings begin with."""

Comparison = tuple[str, str, str]
"""Two editors, and which edit is preferred: `A` for that of the first, `B` for that of the second, or `tie`."""

_STEPS = 200
_PRECISE = 1e-9


@dataclass(frozen=True)
class RatedEditor:
    """One row of a leaderboard."""

    name: str
    rating: float
    interval: Interval
    """95% interval of the rating."""
    wins: float
    """A tie counts as half."""
    n: int
    """Number of comparisons with other editors."""
    place: int
    """One more than the number of editors whose interval lies above that of this one."""


def rate_editors(comparisons: Iterable[Comparison]) -> tuple[RatedEditor, ...]:
    """Return the editors from best to worst.

    Args:
        comparisons: The comparisons, in any order. Those of an editor with itself, or without a name, are left out.

    Returns:
        One row per editor that was compared with another one; nothing for a single editor.
    """
    import numpy as np

    used = [row for row in comparisons if row[0] and row[1] and row[0] != row[1] and row[2] in {*LABELS[:2], TIE}]
    names = sorted({name for row in used for name in row[:2]})
    place = {name: number for number, name in enumerate(names)}
    wins, ties = np.zeros((len(names), len(names))), 0
    for first, second, preference in used:
        share = {LABELS[0]: 1.0, TIE: 0.5}.get(preference, 0.0)
        wins[place[first], place[second]] += share
        wins[place[second], place[first]] += 1 - share
        ties += preference == TIE
    games = wins + wins.T
    strengths, information = np.zeros(len(names)), np.eye(len(names))
    for _ in range(_STEPS if names else 0):
        expected = 1 / (1 + np.exp(strengths[None, :] - strengths[:, None]))
        average = 1 / (1 + np.exp(-strengths))
        gradient = wins.sum(1) - (games * expected).sum(1) + PRIOR * (0.5 - average)
        weights = games * expected * (1 - expected)
        information = np.diag(weights.sum(1) + PRIOR * average * (1 - average)) - weights
        step = np.linalg.solve(information, gradient)
        size = 2 * float(np.abs(step).max())
        if size < _PRECISE:
            break
        strengths += step * math.log1p(size) / size  # a damped Newton step, with which the likelihood never falls
    center = np.eye(len(names)) - 1 / max(1, len(names))
    dispersion = _dispersion(wins, ties, 1 / (1 + np.exp(strengths[None, :] - strengths[:, None])))
    errors = np.sqrt(dispersion * np.diag(center @ np.linalg.inv(information) @ center))
    strengths = center @ strengths
    ratings, halves = (MEAN + ELO * strengths).tolist(), (ELO * Z95 * errors).tolist()
    bounds = [Interval(rating - half, rating + half) for rating, half in zip(ratings, halves, strict=True)]
    above = [1 + sum(other.low > own.high for other in bounds) for own in bounds]
    counts = wins.sum(1).tolist(), games.sum(1).round().astype(int).tolist()
    rows = map(RatedEditor, names, ratings, bounds, *counts, above)
    return tuple(sorted(rows, key=lambda row: (-row.rating, row.name)))


def _dispersion(wins: "npt.NDArray[Any]", ties: int, expected: "npt.NDArray[Any]") -> float:
    """Return the variance of the answers as a share of that of answers without ties, at most 1.

    A win or loss beside the known ones keeps it above 0. The sum of the squared shares of wins of both sides of a
    comparison is 1, and 1/2 for a tie.
    """
    games = wins + wins.T
    varied = wins.sum() - ties / 2 - 2 * (expected * wins).sum() + (games * expected**2).sum()
    usual = (games * expected * (1 - expected)).sum()
    return min(1.0, float((varied + 0.5) / (usual + 0.5)))


def comparisons_of(examples: Iterable[Example]) -> list[Comparison]:
    """Return the comparisons in labeled examples whose candidates name their editors.

    Of a group only the best candidate is known, which is compared with each of the others.
    """
    found = []
    for example in examples:
        editors = [image.editor if isinstance(image, ImageInput) else "" for image in example.candidates]
        for (one, first), (other, second) in combinations(zip(example.labels, editors, strict=True), 2):
            if example.preference in {one, other} or (example.preference == TIE and len(editors) == 2):
                preferred = {one: LABELS[0], other: LABELS[1]}.get(example.preference or "", TIE)
                found.append((first, second, preferred))
    return found

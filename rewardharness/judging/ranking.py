"""Rewards of any number of candidates of one edit, and ratings of editors, both from comparisons.

Ratings are Bradley-Terry with 95% intervals, as LMArena shows them.

The strengths maximize the likelihood that editor `a` is preferred to editor `b` with probability `sigmoid(a - b)`
(Bradley and Terry, Biometrika 39, 1952); a tie is half a win for each. Every editor also has one tie with a fixed
editor of average strength. This prior keeps the rating of an editor finite that won or lost everything, and makes
editors comparable that no chain of comparisons connects; their intervals are then wide. Intervals follow from the
Fisher information, with the prior, and are those of the distance to the mean of all editors. Ties vary less than wins
and losses, so the intervals are narrowed by the dispersion of the answers (quasi-likelihood: Wedderburn, Biometrika 61,
1974), never widened. They assume independent comparisons: several of one source image make them too narrow.

Ratings are on the scale of Elo: 1000 is the mean of the editors, and 400 more mean odds of 10 to 1.

A judge compares two to four candidates. More are converted to examples that it can judge, and then aggregated:

    score      each candidate alone; its reward is that of the judge. N judgments.
    win_rate   every pair of candidates; the reward of a candidate is the mean over its comparisons: 1 for a win, 0 for
               a loss, 1/2 for neither. N (N - 1) / 2 judgments. Judges are best at comparisons, and a reward that only
               ranks within the group is harder to exploit by a policy (Pref-GRPO).
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from rewardharness.judging.report import Z95
from rewardharness.schema import (
    LABELS,
    TIE,
    Candidate,
    Example,
    Failure,
    FramesInput,
    ImageInput,
    Interval,
    Judgment,
    Scores,
)

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
    comparisons = []
    for example in examples:
        editors = [image.editor if isinstance(image, ImageInput) else "" for image in example.candidates]
        for (one, first), (other, second) in combinations(zip(example.labels, editors, strict=True), 2):
            if example.preference in {one, other} or (example.preference == TIE and len(editors) == 2):
                preferred = {one: LABELS[0], other: LABELS[1]}.get(example.preference or "", TIE)
                comparisons.append((first, second, preferred))
    return comparisons


Method = Literal["score", "win_rate"]


@dataclass(frozen=True)
class CandidateSet:
    """The candidates of one edit, at least one."""

    id: str
    instruction: str
    source: ImageInput | FramesInput | None
    candidates: tuple[Candidate, ...]
    references: tuple[ImageInput, ...] = ()
    """As in `Example`."""


@dataclass(frozen=True)
class CandidateReward:
    """Reward of one candidate of a set."""

    index: int
    """Index in the set, from 0."""
    reward: float | None
    """In [0, 1], higher is better; None if it was not judged. Rewards of different methods are not comparable."""
    judged: int
    """Number of successful judgments."""
    of: int
    """Number of requested judgments."""
    scores: Scores | None = None
    """Scores of the candidate alone; None for `win_rate`."""
    failure: Failure | None = None
    """First reason for a missing reward."""


def cost(candidates: int, method: Method) -> int:
    """Return the number of judgments of a set."""
    return candidates if method == "score" else candidates * (candidates - 1) // 2


def examples_of(field: CandidateSet, method: Method) -> Iterator[Example]:
    """Convert a set to examples that a judge can judge; their ids begin with the id of the set."""
    for name, chosen in _comparisons(field, method):
        candidates = tuple(field.candidates[index] for index in chosen)
        yield Example(name, field.instruction, field.source, candidates, references=field.references)


def _comparisons(field: CandidateSet, method: Method) -> list[tuple[str, tuple[int, ...]]]:
    """Return the id of each example of a set, and the indices of its candidates."""
    chosen = combinations(range(len(field.candidates)), 1 if method == "score" else 2)
    return [(f"{field.id}#{'-'.join(map(str, indices))}", indices) for indices in chosen]


def candidate_rewards(
    field: CandidateSet, method: Method, judgments: Mapping[str, Judgment]
) -> tuple[CandidateReward, ...]:
    """Aggregate the judgments of a set.

    Args:
        field: The candidates.
        method: How they were converted to examples.
        judgments: Judgments by id of the example. A missing one counts as not judged.

    Returns:
        One reward per candidate, in their order. A failed judgment is ignored; a candidate without any judgment has
        no reward.
    """
    asked = [(indices, judgments.get(name)) for name, indices in _comparisons(field, method)]
    if method == "score":
        return tuple(_alone(index, judgment) for (index,), judgment in asked)
    gained: list[list[float]] = [[] for _ in field.candidates]
    failures: list[list[Failure]] = [[] for _ in field.candidates]
    for (first, second), judgment in asked:
        if judgment is None or judgment.preference is None:
            failures[first].append(_why(judgment))
            failures[second].append(_why(judgment))
        else:
            share = 0.5 if judgment.preference == TIE else float(judgment.preference == "A")
            gained[first].append(share)
            gained[second].append(1 - share)
    of = len(field.candidates) - 1
    return tuple(
        CandidateReward(index, fmean(won), len(won), of)
        if won
        else CandidateReward(index, None, 0, of, failure=next(iter(failures[index]), _ALONE))
        for index, won in enumerate(gained)
    )


def best(candidate_rewards: tuple[CandidateReward, ...]) -> tuple[int, ...]:
    """Return the indices of the candidates with the highest reward: several if equal, none if none was judged."""
    rewards = {candidate.index: candidate.reward for candidate in candidate_rewards if candidate.reward is not None}
    return tuple(index for index, reward in rewards.items() if reward == max(rewards.values()))


_ALONE = Failure("input", "A single candidate has nothing to be compared with; use the method `score`.")
_MISSING = Failure("missing", "It was not judged.")


def _why(judgment: Judgment | None) -> Failure:
    return judgment.failure if judgment is not None and judgment.failure is not None else _MISSING


def _alone(index: int, judgment: Judgment | None) -> CandidateReward:
    if judgment is None or "A" not in judgment.scores or judgment.scores["A"].reward is None:
        return CandidateReward(index, None, 0, 1, failure=_why(judgment))
    scores = judgment.scores["A"]
    return CandidateReward(index, scores.reward, 1, 1, scores)

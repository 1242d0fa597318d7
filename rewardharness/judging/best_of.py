"""Rewards of any number of candidates of one edit: a GRPO group, or best of N.

A judge compares two to four candidates. More are converted to examples that it can judge, and then aggregated:

    score      each candidate alone; its reward is that of the judge. N judgments.
    win_rate   every pair of candidates; the reward of a candidate is the mean over its comparisons: 1 for a win, 0 for
               a loss, 1/2 for neither. N (N - 1) / 2 judgments. Judges are best at comparisons, and a reward that only
               ranks within the group is harder to exploit by a policy (Pref-GRPO).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Literal

from rewardharness.schema import TIE, Candidate, Example, Failure, FramesInput, ImageInput, Judgment, Scores

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
    rewards = {each.index: each.reward for each in candidate_rewards if each.reward is not None}
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

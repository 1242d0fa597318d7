"""Rewards for any number of candidates of one edit: a GRPO group, or best of N.

A judge compares two to four candidates at once. More are made into examples that it can judge, and put together again:

    score      each candidate alone; its reward is the judge's. N judgments.
    win_rate   every pair of candidates; a candidate's reward is the mean of what its comparisons gave it: 1 for a win,
               0 for a loss, 1/2 where neither was better. N (N - 1) / 2 judgments. Comparisons are what judges do
               best, and a reward that only ranks within the group leaves a policy less to exploit (Pref-GRPO).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Literal

from rewardharness.schema import TIE, Example, Failure, ImageInput, Judgment, Scores

Method = Literal["score", "win_rate"]
METHODS: tuple[Method, ...] = ("score", "win_rate")


@dataclass(frozen=True)
class Field:
    """The candidates that are held against each other. Any number of them, at least one."""

    id: str
    instruction: str
    source: ImageInput
    candidates: tuple[ImageInput, ...]


@dataclass(frozen=True)
class Standing:
    """How one candidate of a field stands."""

    index: int
    """Its place in the field, from 0."""
    reward: float | None
    """In [0, 1], higher is better; None when it was not judged. Rewards of different methods are not comparable."""
    judged: int
    """Judgments that it rests on."""
    of: int
    """Judgments that were asked for."""
    scores: Scores | None = None
    """Of the candidate alone; None for `win_rate`."""
    failure: Failure | None = None
    """Why there is no reward; of several reasons the first."""


def cost(candidates: int, method: Method) -> int:
    """How many judgments a field takes."""
    return candidates if method == "score" else candidates * (candidates - 1) // 2


def examples_of(field: Field, method: Method) -> Iterator[Example]:
    """Make a field into examples that a judge can judge; their ids begin with the id of the field."""
    if method == "score":
        for index, candidate in enumerate(field.candidates):
            yield Example(f"{field.id}#{index}", field.instruction, field.source, (candidate,))
        return
    for first, second in combinations(range(len(field.candidates)), 2):
        pair = (field.candidates[first], field.candidates[second])
        yield Example(f"{field.id}#{first}-{second}", field.instruction, field.source, pair)


def standings(field: Field, method: Method, judgments: Mapping[str, Judgment]) -> tuple[Standing, ...]:
    """Put the judgments of a field together.

    Args:
        field: The candidates.
        method: How they were made into examples.
        judgments: By id of the example. One that is missing counts as not judged.

    Returns:
        One standing per candidate, in their order. A failed judgment counts for nobody; a candidate without any
        judgment has no reward.
    """
    if method == "score":
        return tuple(_alone(index, judgments.get(f"{field.id}#{index}")) for index in range(len(field.candidates)))
    gained: list[list[float]] = [[] for _ in field.candidates]
    failures: list[list[Failure]] = [[] for _ in field.candidates]
    for first, second in combinations(range(len(field.candidates)), 2):
        judgment = judgments.get(f"{field.id}#{first}-{second}")
        if judgment is None or judgment.preference is None:
            for index in (first, second):
                failures[index].append(_why(judgment))
            continue
        share = 0.5 if judgment.preference == TIE else float(judgment.preference == "A")
        gained[first].append(share)
        gained[second].append(1 - share)
    of = len(field.candidates) - 1
    return tuple(
        Standing(
            index,
            fmean(won) if won else None,
            len(won),
            of,
            failure=None if won else failures[index][0] if failures[index] else _ALONE,
        )
        for index, won in enumerate(gained)
    )


def best(standings: tuple[Standing, ...]) -> tuple[int, ...]:
    """Places of the candidates with the highest reward; several when they are level, none when none was judged."""
    rewards = {each.index: each.reward for each in standings if each.reward is not None}
    return tuple(index for index, reward in rewards.items() if reward == max(rewards.values()))


_ALONE = Failure("input", "A single candidate has nothing to be compared with; use the method `score`.")
_MISSING = Failure("missing", "It was not judged.")


def _why(judgment: Judgment | None) -> Failure:
    return judgment.failure if judgment is not None and judgment.failure is not None else _MISSING


def _alone(index: int, judgment: Judgment | None) -> Standing:
    if judgment is None or "A" not in judgment.scores or judgment.scores["A"].reward is None:
        return Standing(index, None, 0, 1, failure=_why(judgment))
    scores = judgment.scores["A"]
    return Standing(index, scores.reward, 1, 1, scores)

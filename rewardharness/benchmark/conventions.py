"""Metrics of particular benchmarks: EditReward-Bench as in EditScore, EditReward-Compass, Multimodal RewardBench 2."""

from collections.abc import Iterable
from dataclasses import dataclass

from rewardharness.benchmark.metrics import (
    TWO_WAY,
    LabeledAnswer,
    MacroScore,
    agreement,
    check_answer,
    macro,
    split,
)
from rewardharness.schema import Accuracy


def editscore(answers: Iterable[LabeledAnswer]) -> dict[str, MacroScore]:
    """Score EditReward-Bench as in EditScore (arXiv 2509.23909): the macro mean over task types per dimension.

    An answer is correct if the preferred candidate has the strictly higher score; ties are wrong. `dimension` is
    prompt_following, consistency or overall; `category` is the task type. The preferred image always comes first in
    the data, so candidates must be shuffled before they are judged.

    Returns:
        A macro score per dimension with its values per task type, in [0, 1].
    """
    dimensions = split(answers, lambda answer: answer.dimension)
    return {name: macro(part, "strict", TWO_WAY) for name, part in dimensions.items()}


COMPASS_TIE = 1e-5
"""Scores of EditReward-Compass (arXiv 2605.13062) that differ by less than this are a tie."""


@dataclass(frozen=True)
class BothOrderAnswers:
    """Answers of a judge about one pair in both presentation orders. Answers name candidates, not positions."""

    id: str
    truth: str
    forward: str | None
    reverse: str | None
    cluster: str = ""


@dataclass(frozen=True)
class BothOrdersScore:
    """Accuracy over both presentation orders, and position consistency."""

    judgments: Accuracy
    """n is twice the number of pairs."""
    same: int
    tried: int
    """Pairs that were answered in both orders."""

    @property
    def position_consistency(self) -> float | None:
        """Share of pairs answered in both orders whose answers name the same candidate, in [0, 1]."""
        return self.same / self.tried if self.tried else None


def both_orders(pairs: Iterable[BothOrderAnswers]) -> BothOrdersScore:
    """Score both presentation orders as in MMRB2 (arXiv 2512.16899): correct answers / all answers.

    A judge that always prefers the candidate shown first gets 0.5, and a position consistency of 0.

    Raises:
        InputError: If a label or an answer is neither A nor B. An answer may be undecided, which counts 0.5.
    """
    n = judged = same = tried = 0
    correct = 0.0
    for pair in pairs:
        for value in (pair.forward, pair.reverse):
            answer = LabeledAnswer(pair.id, pair.truth, value)
            check_answer(answer, TWO_WAY)
            n += 1
            judged += value is not None
            correct += agreement(answer)
        if pair.forward is not None and pair.reverse is not None:
            tried += 1
            same += pair.forward == pair.reverse
    return BothOrdersScore(Accuracy(n, judged, correct), same, tried)

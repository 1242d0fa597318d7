"""How particular benchmarks count: EditScore's EditReward-Bench, EditReward-Compass, Multimodal RewardBench 2."""

from collections.abc import Iterable
from dataclasses import dataclass

from rewardharness.benchmark.metrics import (
    TWO_WAY,
    Answer,
    MacroScore,
    agreement,
    check_answer,
    macro,
    said,
    split,
)
from rewardharness.errors import InputError
from rewardharness.schema import Accuracy, Judgment


def editscore(answers: Iterable[Answer]) -> dict[str, MacroScore]:
    """EditScore's EditReward-Bench (arXiv 2509.23909): per dimension the macro mean over task types.

    Right iff the preferred candidate has the strictly higher score: ties count as wrong. `dimension` holds
    prompt_following, consistency or overall, `category` the task type. The preferred image always comes first in that
    data, so candidates must have been shuffled before they were judged.

    Returns:
        Per dimension; a macro score with its parts per task type, in [0, 1].
    """
    dimensions = split(answers, lambda answer: answer.dimension)
    return {name: macro(part, "strict", TWO_WAY) for name, part in dimensions.items()}


COMPASS_TIE = 1e-5
"""Scores of EditReward-Compass (arXiv 2605.13062) that differ by less are a tie."""


@dataclass(frozen=True)
class TwoShowings:
    """What a judge said about one pair in either order. Both answers name candidates, not positions."""

    id: str
    truth: str
    forward: str | None
    reverse: str | None
    cluster: str = ""

    @classmethod
    def of(cls, example_id: str, truth: str, judgment: Judgment, cluster: str = "") -> "TwoShowings":
        """Read two answers off one judgment that was made in both orders.

        Where the orders disagreed, one chose A and the other B; which of the two is not known, and does not matter
        for any count made here.

        Raises:
            InputError: If the pair was judged in one order only.
        """
        if not judgment.judged:
            return cls(example_id, truth, None, None, cluster)
        if judgment.position_consistent is None:
            raise InputError(f"{example_id} was judged in one order only.", next_step="Judge it in both orders.")
        forward, reverse = (said(judgment), said(judgment)) if judgment.position_consistent else TWO_WAY
        return cls(example_id, truth, forward, reverse, cluster)


@dataclass(frozen=True)
class BothOrders:
    """Accuracy over showings, and how often the order made no difference."""

    showings: Accuracy
    """n is twice the number of pairs."""
    same: int
    tried: int
    """Pairs with an answer in both orders."""

    @property
    def position_consistency(self) -> float | None:
        """Share of the pairs answered in both orders whose answers name the same candidate; in [0, 1]."""
        return self.same / self.tried if self.tried else None


def both_orders(pairs: Iterable[TwoShowings]) -> BothOrders:
    """MMRB2 (arXiv 2512.16899): (right forwards + right in reverse) / all showings.

    A judge that always prefers whoever comes first gets exactly one half, and a position consistency of 0.

    Raises:
        InputError: If a label or an answer is neither A nor B (an answer may be undecided, which is worth a half).
    """
    n = judged = same = tried = 0
    correct = 0.0
    for pair in pairs:
        for value in (pair.forward, pair.reverse):
            answer = Answer(pair.id, pair.truth, value)
            check_answer(answer, TWO_WAY)
            n += 1
            judged += value is not None
            correct += agreement(answer)
        if pair.forward is not None and pair.reverse is not None:
            tried += 1
            same += pair.forward == pair.reverse
    return BothOrders(Accuracy(n, judged, correct), same, tried)

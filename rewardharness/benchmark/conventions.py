"""Metrics of particular benchmarks: EditReward-Bench as in EditScore, and EditReward-Compass."""

from collections.abc import Iterable

from rewardharness.benchmark.metrics import TWO_WAY, LabeledAnswer, MacroScore, macro, split


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

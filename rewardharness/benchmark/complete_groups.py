"""Accuracy on complete groups of two, three or four candidates: a group is correct only if all its pairs are.

In EditReward-Bench (arXiv 2509.26346) each row is a pair, and a group of K candidates has K(K-1)/2 rows: 1, 3 or 6.
Both ways of judging lead to the same count:

    forced choice   the judge chooses in every pair, or ranks the group and the pairs follow from the ranking
    pointwise       every candidate is scored alone; the published metric is an exact match of the order by score,
                    which means that every pair is correct. Equal scores are not an order, so they are not correct
                    (the published code sorts equal scores by their position in the row).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rewardharness.benchmark.metrics import THREE_WAY, LabeledAnswer, Share, check_answer, split
from rewardharness.errors import InputError
from rewardharness.schema import LABELS, Accuracy


@dataclass(frozen=True, kw_only=True)
class GroupShare(Share):
    """Accuracy on complete groups.

    n: all groups; judged: complete groups with an answer to every pair; correct: groups with all pairs correct.
    """

    candidates: int
    incomplete: tuple[str, ...]
    """Ids of the groups with missing rows. They are included in n, and are neither judged nor correct."""
    pairs: Share
    """Accuracy of the same answers per pair."""
    chance: Mapping[str, float]
    """See `group_chance`."""


def complete_groups(answers: Iterable[LabeledAnswer], candidates: int) -> GroupShare:
    """Compute complete-group accuracy: the share of groups in which every pair is correct.

    A group is correct only if it is complete and every pair has the correct answer. A failed pair makes its group
    unjudged; omitting failed rows makes it incomplete. The value to report is `of_all`, correct / n, with the coverage
    judged / n.

    Args:
        answers: Answers to the pairs of all groups, in any order.
        candidates: K, the number of candidates of each group: 2, 3 or 4.

    Raises:
        InputError: If a label or answer is invalid, or a group has too many pairs.
    """
    chance, wanted = group_chance(candidates), math.comb(candidates, 2)
    groups = split(answers, lambda answer: answer.group)
    judged = correct = pairs = pairs_judged = pairs_correct = 0
    for name, members in groups.items():
        if len(members) > wanted:
            problem = f"Group {name}: {len(members)} pairs of {candidates} candidates, at most {wanted} are possible."
            raise InputError(problem, next_step="Correct the rows of this group.")
        for answer in members:
            check_answer(answer, THREE_WAY)
        answered = [answer.choice == answer.truth for answer in members if answer.choice is not None]
        pairs += len(members)
        pairs_judged += len(answered)
        pairs_correct += sum(answered)
        judged += len(answered) == wanted
        correct += sum(answered) == wanted
    return GroupShare.of(
        Accuracy(len(groups), judged, correct),
        candidates=candidates,
        incomplete=tuple(name for name, members in groups.items() if len(members) < wanted),
        pairs=Share.of(Accuracy(pairs, pairs_judged, pairs_correct)),
        chance=chance,
    )


def group_chance(candidates: int) -> dict[str, float]:
    """Return the chance level on complete groups of K candidates without ties.

    Returns:
        `pairs`: every pair is guessed separately, (1/2)^(K(K-1)/2). `ranking`: one ranking is guessed, 1 / K!, which is
        higher because a ranking cannot contradict itself.

    Raises:
        InputError: If K is not 2, 3 or 4.
    """
    if not 2 <= candidates <= len(LABELS):
        raise InputError(f"A group cannot have {candidates} candidates.", next_step="Use 2, 3 or 4.")
    return {"pairs": 0.5 ** math.comb(candidates, 2), "ranking": 1 / math.factorial(candidates)}

"""Accuracy on complete groups of two, three or four candidates: a group is correct only if all its pairs are.

In EditReward-Bench (arXiv 2509.26346) each row is a pair, and a group of K candidates has K(K-1)/2 rows: 1, 3 or 6.
Both ways of judging lead to the same count:

    forced choice   the judge chooses in every pair, or ranks the group and the pairs follow from the ranking
    pointwise       every candidate is scored alone; the published metric is an exact match of the order by score,
                    which means that every pair is correct. Equal scores are not an order, so they are not correct
                    (the published code sorts equal scores by their position in the row).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from rewardharness.benchmark.metrics import UNDECIDED, share_json
from rewardharness.errors import InputError
from rewardharness.schema import LABELS, TIE, Accuracy, Json


@dataclass(frozen=True)
class GroupPair:
    """One pair of a group."""

    group: str
    """Id of the group."""
    first: str
    """Letter of a candidate of the group."""
    second: str
    truth: str
    """Letter of the better candidate, or `tie`."""
    choice: str | None
    """Letter of the chosen candidate, `tie`, `UNDECIDED`, or None without a judgment."""


@dataclass(frozen=True)
class GroupScore:
    """Accuracy on complete groups."""

    candidates: int
    accuracy: Accuracy
    """n: all groups; judged: complete groups with an answer to every pair; correct: groups with all pairs correct."""
    pairs: Accuracy
    """Accuracy of the same answers per pair."""
    incomplete: tuple[str, ...] = ()
    """Ids of the groups with missing rows. They are included in n, and are neither judged nor correct."""

    def to_json(self) -> Json:
        """Return the score as JSON, with the chance level."""
        return {
            "candidates": self.candidates,
            **share_json(self.accuracy),
            "incomplete": list(self.incomplete),
            "pairs": share_json(self.pairs),
            "chance": group_chance(self.candidates),
        }


def complete_groups(rows: Iterable[GroupPair], candidates: int) -> GroupScore:
    """Compute complete-group accuracy: the share of groups in which every pair is correct.

    A group is correct only if it is complete and every pair has the correct answer. A failed pair makes its group
    unjudged; omitting failed rows makes it incomplete. The value to report is `of_all`, correct / n, with the coverage
    judged / n.

    Args:
        rows: The pairs of all groups, in any order.
        candidates: K, the number of candidates of each group: 2, 3 or 4.

    Raises:
        InputError: If a letter, label or answer is invalid, or a pair of a group occurs twice.
    """
    wanted = _pairs_of(candidates)
    groups: dict[str, dict[frozenset[str], GroupPair]] = {}
    for row in rows:
        members = groups.setdefault(row.group, {})
        slot = frozenset((row.first, row.second))
        problem = _problem(row, slot, members, candidates)
        if problem:
            raise InputError(f"Group {row.group}: {problem}.", next_step="Correct the rows of this group.")
        members[slot] = row
    judged = correct = pairs_judged = pairs_right = 0
    for members in groups.values():
        answers = [row.choice == row.truth for row in members.values() if row.choice is not None]
        pairs_judged += len(answers)
        pairs_right += sum(answers)
        judged += len(answers) == wanted
        correct += sum(answers) == wanted
    return GroupScore(
        candidates,
        Accuracy(len(groups), judged, correct),
        Accuracy(sum(map(len, groups.values())), pairs_judged, pairs_right),
        tuple(sorted(name for name, members in groups.items() if len(members) < wanted)),
    )


def _problem(row: GroupPair, slot: frozenset[str], members: Mapping[frozenset[str], GroupPair], candidates: int) -> str:
    """Return why a row does not fit the rows of its group so far; empty if it fits."""
    letters = slot.union(*members)
    if len(slot) < 2 or len(letters) > candidates:
        return f"{', '.join(sorted(letters))} are not the letters of {candidates} candidates"
    if slot in members:
        return f"the pair {row.first}, {row.second} occurs twice"
    if row.truth not in {*slot, TIE} or row.choice not in {*slot, TIE, UNDECIDED, None}:
        return f"label {row.truth!r} or answer {row.choice!r} does not fit the pair {row.first}, {row.second}"
    return ""


def pairs_of_ranking(ranking: Sequence[Sequence[str]], level: str = UNDECIDED) -> dict[tuple[str, str], str]:
    """Derive the pairs from a ranking.

    Args:
        ranking: Letters from best to worst; tied candidates share an inner sequence.
        level: Answer for two tied candidates: `tie` if the judge was allowed ties.

    Returns:
        For each pair of letters in alphabetical order, the better letter or `level`.
    """
    places = {label: place for place, same in enumerate(ranking) for label in same}
    return _pairs({label: -float(place) for label, place in places.items()}, level)


def _pairs(scores: Mapping[str, float], level: str) -> dict[tuple[str, str], str]:
    return {
        (a, b): a if scores[a] > scores[b] else b if scores[b] > scores[a] else level
        for a, b in combinations(sorted(scores), 2)
    }


def _pairs_of(candidates: int) -> int:
    if not 2 <= candidates <= len(LABELS):
        raise InputError(f"A group cannot have {candidates} candidates.", next_step="Use 2, 3 or 4.")
    return math.comb(candidates, 2)


def group_chance(candidates: int) -> dict[str, float]:
    """Return the chance level on complete groups of K candidates without ties.

    Returns:
        `pairs`: every pair is guessed separately, (1/2)^(K(K-1)/2). `ranking`: one ranking is guessed, 1 / K!, which is
        higher because a ranking cannot contradict itself.

    Raises:
        InputError: If K is not 2, 3 or 4.
    """
    return {"pairs": 0.5 ** _pairs_of(candidates), "ranking": 1 / math.factorial(candidates)}

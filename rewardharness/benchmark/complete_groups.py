"""Complete groups of two, three or four candidates: a group is right only if every pair of it is.

A row of EditReward-Bench (arXiv 2509.26346) is a pair, and a group of K candidates has K(K-1)/2 rows: 1, 3 or 6. Both
ways of judging come down to the same count:

    forced choice   the judge chooses in every pair; or it ranks the group, and the pairs are read off the ranking
    pointwise       every candidate is scored alone; the published count is an exact match of the order by score,
                    which is every pair right. Level scores are no order, so they are not right (where the published
                    code sorts level scores by their place in the row).
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
    """The letter of the better one, or `tie`."""
    said: str | None
    """A letter of the two, `tie`, `UNDECIDED`, or None when there is no judgment."""


@dataclass(frozen=True)
class GroupScore:
    """A count of complete groups."""

    candidates: int
    accuracy: Accuracy
    """n: all groups; judged: complete ones with an answer to every pair; correct: those with every pair right."""
    pairs: Accuracy
    """The same answers, pair by pair."""
    incomplete: tuple[str, ...] = ()
    """Ids of the groups that lack a row. They are in n, and neither judged nor correct."""

    def to_json(self) -> Json:
        """Put it into JSON, with what guessing gets."""
        return {
            "candidates": self.candidates,
            **share_json(self.accuracy),
            "incomplete": list(self.incomplete),
            "pairs": share_json(self.pairs),
            "chance": group_chance(self.candidates),
        }


def complete_groups(rows: Iterable[GroupPair], candidates: int) -> GroupScore:
    """Complete-group accuracy: the share of groups in which every pair is right.

    A group counts as right only if it is complete, every pair has an answer and every answer is the label. A pair that
    failed makes its group unjudged, and so not right; leaving failed rows out makes it incomplete, which is no better.
    The share to quote is `of_all`, correct / n, with the coverage judged / n.

    Args:
        rows: The pairs of all groups, in any order.
        candidates: K, the number of candidates of each group: 2, 3 or 4.

    Raises:
        InputError: If a letter, label or answer does not fit, or a pair of a group occurs twice.
    """
    wanted = _pairs_of(candidates)
    groups: dict[str, dict[frozenset[str], GroupPair]] = {}
    for row in rows:
        found = groups.setdefault(row.group, {})
        slot = frozenset((row.first, row.second))
        problem = _problem(row, slot, found, candidates)
        if problem:
            raise InputError(f"Group {row.group}: {problem}.", next_step="Correct the rows of this group.")
        found[slot] = row
    judged = correct = pairs_judged = pairs_right = 0
    for found in groups.values():
        answers = [row.said == row.truth for row in found.values() if row.said is not None]
        pairs_judged += len(answers)
        pairs_right += sum(answers)
        judged += len(answers) == wanted
        correct += sum(answers) == wanted
    return GroupScore(
        candidates,
        Accuracy(len(groups), judged, correct),
        Accuracy(sum(map(len, groups.values())), pairs_judged, pairs_right),
        tuple(sorted(name for name, found in groups.items() if len(found) < wanted)),
    )


def _problem(row: GroupPair, slot: frozenset[str], found: Mapping[frozenset[str], GroupPair], candidates: int) -> str:
    """Say why a row cannot belong to what was found of its group; empty if it can."""
    letters = slot.union(*found)
    if len(slot) < 2 or len(letters) > candidates:
        return f"{', '.join(sorted(letters))} are not the letters of {candidates} candidates"
    if slot in found:
        return f"the pair {row.first}, {row.second} occurs twice"
    if row.truth not in {*slot, TIE} or row.said not in {*slot, TIE, UNDECIDED, None}:
        return f"label {row.truth!r} or answer {row.said!r} does not fit the pair {row.first}, {row.second}"
    return ""


def pairs_of_ranking(ranking: Sequence[Sequence[str]], level: str = UNDECIDED) -> dict[tuple[str, str], str]:
    """Read the pairs off a ranking.

    Args:
        ranking: Letters from best to worst; those that are level share an inner sequence.
        level: What two level candidates are called: `tie` where the judge was offered ties.

    Returns:
        For each pair of letters in alphabetical order the better one, or `level`.
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
        raise InputError(f"A group cannot have {candidates} candidates.", next_step="Give 2, 3 or 4.")
    return math.comb(candidates, 2)


def group_chance(candidates: int) -> dict[str, float]:
    """What a judge that does not look gets on complete groups of K candidates without ties.

    Returns:
        `pairs`: every pair is guessed by itself, (1/2)^(K(K-1)/2). `ranking`: one ranking is guessed and the pairs are
        read off it, 1 / K!, which is more: a ranking cannot contradict itself.

    Raises:
        InputError: If K is not 2, 3 or 4.
    """
    return {"pairs": 0.5 ** _pairs_of(candidates), "ranking": 1 / math.factorial(candidates)}

import random
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewardharness.benchmark.metrics import UNDECIDED, LabeledAnswer, complete_groups, group_chance
from rewardharness.errors import InputError
from rewardharness.schema import LABELS, TIE, Accuracy


def ranked(ranking: str) -> dict[tuple[str, str], str | None]:
    """The answer to each pair of letters, in alphabetical order, of a judge that ranks the candidates in this order."""
    return {(a, b): "A" if ranking.index(a) < ranking.index(b) else "B" for a, b in combinations(sorted(ranking), 2)}


def group(name: str, truth: str, answers: dict[tuple[str, str], str | None]) -> list[LabeledAnswer]:
    """All pairs of a group whose candidates are ranked as in `truth`, with these answers."""
    return [
        LabeledAnswer(f"{name}/{a}{b}", str(right), answers[a, b], group=name)
        for (a, b), right in ranked(truth).items()
    ]


def test_a_group_needs_every_pair_right_and_the_pairs_are_counted_too() -> None:
    nearly = {**ranked("CAB"), ("A", "B"): "B"}
    score = complete_groups([*group("g1", "CAB", ranked("CAB")), *group("g2", "CAB", nearly)], 3)
    assert (score.count, score.pairs.count, score.of_all) == (Accuracy(2, 2, 1), Accuracy(6, 6, 5), 0.5)


def test_no_group_with_a_failed_pair_counts_however_failures_are_handed_in() -> None:
    source = random.Random(11)
    truths = ["".join(source.sample(LABELS, 4)) for _ in range(200)]
    rows = [answer for place, truth in enumerate(truths) for answer in group(str(place), truth, ranked(truth))]
    rows = [
        LabeledAnswer(row.id, row.truth, None if place % 10 == 0 else row.choice, group=row.group)
        for place, row in enumerate(rows)
    ]
    score = complete_groups(rows, 4)
    broken = {row.group for row in rows if row.choice is None}
    assert score.pairs.coverage == 0.9 and not score.incomplete
    assert score.count == Accuracy(200, 200 - len(broken), 200 - len(broken))
    without = complete_groups([row for row in rows if row.choice is not None], 4)
    assert without.count == score.count, "leaving failed rows out gives no better number"
    assert set(without.incomplete) == broken


def test_level_candidates_are_not_right_and_two_candidates_may_be_tied() -> None:
    level = {**ranked("ABC"), ("B", "C"): UNDECIDED}
    assert complete_groups(group("g", "ABC", level), 3).count == Accuracy(1, 1, 0)
    pairs = [(TIE, TIE), (TIE, "A"), ("B", "B")]
    answers = [LabeledAnswer(str(i), truth, choice, group=str(i)) for i, (truth, choice) in enumerate(pairs)]
    assert complete_groups(answers, 2).count == Accuracy(3, 3, 2)


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        ([LabeledAnswer(str(n), "A", "A", group="g") for n in range(4)], "Group g: 4 pairs of 3 candidates, at most 3"),
        ([LabeledAnswer("g/1", "C", "A", group="g")], "g/1: the label 'C'"),
        ([LabeledAnswer("g/1", "A", "C", group="g")], "g/1: the answer 'C'"),
    ],
)
def test_rows_that_do_not_fit_are_refused_with_their_group(answers: list[LabeledAnswer], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        complete_groups(answers, 3)


@settings(max_examples=40)
@given(st.permutations(LABELS), st.permutations(LABELS))
def test_renaming_the_candidates_changes_nothing(truth: list[str], choices: list[str]) -> None:
    names = dict(zip(LABELS, "DCAB", strict=True))
    plain, renamed = (
        complete_groups(group("g", "".join(map(name, truth)), ranked("".join(map(name, choices)))), 4)
        for name in (str, names.__getitem__)
    )
    assert plain == renamed and plain.correct == (truth == choices)


@pytest.mark.parametrize(
    ("candidates", "pairs", "ranking"), [(2, 1 / 2, 1 / 2), (3, 1 / 8, 1 / 6), (4, 1 / 64, 1 / 24)]
)
def test_chance_follows_from_the_number_of_candidates(candidates: int, pairs: float, ranking: float) -> None:
    assert group_chance(candidates) == {"pairs": pairs, "ranking": ranking}


@pytest.mark.parametrize("candidates", [1, 5])
def test_groups_of_other_sizes_are_refused(candidates: int) -> None:
    with pytest.raises(InputError, match=f"cannot have {candidates} candidates"):
        complete_groups([], candidates)

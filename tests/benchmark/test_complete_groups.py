import random
from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardharness.benchmark.complete_groups import (
    GroupPair,
    complete_groups,
    group_chance,
    pairs_of_ranking,
)
from rewardharness.benchmark.metrics import UNDECIDED, coverage, of_all
from rewardharness.errors import InputError
from rewardharness.judging.report import wilson
from rewardharness.schema import LABELS, TIE, Accuracy


def group(name: str, truth: str, answer: dict[tuple[str, str], str | None]) -> list[GroupPair]:
    """All pairs of a group whose candidates are ranked as in `truth`, with these answers."""
    right = pairs_of_ranking(truth)
    return [GroupPair(name, a, b, right[a, b], answer[a, b]) for a, b in combinations(sorted(truth), 2)]


def right_answers(truth: str) -> dict[tuple[str, str], str | None]:
    return {**pairs_of_ranking(truth)}


def test_a_group_needs_every_pair_right_and_the_pairs_are_counted_too() -> None:
    nearly = {**right_answers("CAB"), ("A", "B"): "B"}
    score = complete_groups([*group("g1", "CAB", right_answers("CAB")), *group("g2", "CAB", nearly)], 3)
    assert score.accuracy == Accuracy(2, 2, 1)
    assert score.pairs == Accuracy(6, 6, 5)
    assert score.to_json()["of_all"] == 0.5


@pytest.mark.parametrize("candidates", [2, 3, 4])
def test_perfect_and_inverted_judges(candidates: int) -> None:
    rows, upside_down = [], []
    for place, order in enumerate(permutations(LABELS[:candidates])):
        truth = "".join(order)
        rows += group(str(place), truth, right_answers(truth))
        upside_down += group(str(place), truth, right_answers(truth[::-1]))
    assert complete_groups(rows, candidates).accuracy.value == 1.0
    assert complete_groups(upside_down, candidates).accuracy.value == 0.0


def test_no_group_with_a_failed_pair_counts_however_failures_are_handed_in() -> None:
    source = random.Random(11)
    rows = []
    for place in range(200):
        truth = "".join(source.sample(LABELS, 4))
        rows += group(str(place), truth, right_answers(truth))
    rows = [
        GroupPair(row.group, row.first, row.second, row.truth, None if place % 10 == 0 else row.choice)
        for place, row in enumerate(rows)
    ]
    score = complete_groups(rows, 4)
    broken = {row.group for row in rows if row.choice is None}
    assert coverage(score.pairs) == 0.9
    assert score.accuracy == Accuracy(200, 200 - len(broken), 200 - len(broken))
    assert not score.incomplete
    # Leaving failed rows out gives no better number.
    without = complete_groups([row for row in rows if row.choice is not None], 4)
    assert without.accuracy == score.accuracy
    assert set(without.incomplete) == broken


def test_level_candidates_are_not_right_under_either_protocol() -> None:
    ranked = pairs_of_ranking([["A"], ["B", "C"]])
    assert ranked == {("A", "B"): "A", ("A", "C"): "A", ("B", "C"): UNDECIDED}
    assert pairs_of_ranking([["A", "B"]], level=TIE) == {("A", "B"): TIE}
    assert complete_groups(group("g", "ABC", {**ranked}), 3).accuracy == Accuracy(1, 1, 0)


def test_two_candidates_may_be_tied() -> None:
    rows = [GroupPair("1", "A", "B", TIE, TIE), GroupPair("2", "A", "B", TIE, "A"), GroupPair("3", "B", "A", "B", "B")]
    assert complete_groups(rows, 2).accuracy == Accuracy(3, 3, 2)


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([GroupPair("g", "A", "B", "A", "A"), GroupPair("g", "B", "A", "A", "A")], "occurs twice"),
        ([GroupPair("g", "A", "A", "A", "A")], "not the letters of 3"),
        (
            [GroupPair("g", "A", "B", "A", "A"), GroupPair("g", "C", "D", "C", "C")],
            "A, B, C, D are not the letters of 3",
        ),
        ([GroupPair("g", "A", "B", "C", "A")], "label 'C'"),
        ([GroupPair("g", "A", "B", "A", "C")], "answer 'C'"),
    ],
)
def test_rows_that_do_not_fit_are_refused_with_their_group(rows: list[GroupPair], problem: str) -> None:
    with pytest.raises(InputError, match=f"Group g: .*{problem}"):
        complete_groups(rows, 3)


@given(st.permutations(LABELS), st.permutations(LABELS))
def test_renaming_the_candidates_changes_nothing(truth: list[str], said: list[str]) -> None:
    names = dict(zip(LABELS, "DCAB", strict=True))
    plain = complete_groups(group("g", "".join(truth), right_answers("".join(said))), 4)
    renamed = complete_groups(
        group("g", "".join(names[x] for x in truth), right_answers("".join(names[x] for x in said))), 4
    )
    assert plain.accuracy == renamed.accuracy and plain.pairs == renamed.pairs
    assert plain.accuracy.correct == (truth == said)


@pytest.mark.parametrize(
    ("candidates", "pairs", "ranking"), [(2, 1 / 2, 1 / 2), (3, 1 / 8, 1 / 6), (4, 1 / 64, 1 / 24)]
)
def test_chance_follows_from_the_number_of_candidates(candidates: int, pairs: float, ranking: float) -> None:
    assert group_chance(candidates) == {"pairs": pairs, "ranking": ranking}


@pytest.mark.parametrize("candidates", [1, 5])
def test_groups_of_other_sizes_are_refused(candidates: int) -> None:
    with pytest.raises(InputError, match=f"cannot have {candidates} candidates"):
        group_chance(candidates)
    with pytest.raises(InputError, match="cannot have"):
        complete_groups([], candidates)


@pytest.mark.parametrize("kind", ["pairs", "ranking"])
def test_guessing_gets_what_chance_says(kind: str) -> None:
    source = random.Random(7)
    rows = []
    for place in range(1500):
        guess = right_answers("".join(source.sample("ABC", 3)))
        if kind == "pairs":
            guess = {pair: source.choice(pair) for pair in guess}
        rows += group(str(place), "BCA", guess)
    count = complete_groups(rows, 3).accuracy
    interval = wilson(count.correct, count.n)
    assert interval is not None and interval.low < group_chance(3)[kind] < interval.high
    assert of_all(count) == count.value

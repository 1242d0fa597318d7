import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewardharness.benchmark import metrics
from rewardharness.benchmark.metrics import FOUR_WAY, THREE_WAY, TWO_WAY, UNDECIDED, LabeledAnswer, Share, Treatment
from rewardharness.benchmark.task import BOTH_BAD
from rewardharness.errors import InputError
from rewardharness.judging.report import wilson
from rewardharness.schema import TIE, Accuracy

SWAP = {"A": "B", "B": "A"}


def answers(*pairs: tuple[str, str | None]) -> list[LabeledAnswer]:
    return [LabeledAnswer(str(number), truth, given) for number, (truth, given) in enumerate(pairs)]


many_answers = st.lists(
    st.builds(
        LabeledAnswer,
        id=st.uuids().map(str),
        truth=st.sampled_from(THREE_WAY),
        choice=st.sampled_from([*THREE_WAY, UNDECIDED, None]),
        category=st.sampled_from(["x", "y"]),
    ),
    max_size=40,
)


def test_each_treatment_of_ties_gives_the_number_worked_out_by_hand() -> None:
    rows = answers(("A", "A"), ("A", "B"), ("B", TIE), (TIE, TIE), (TIE, "A"), ("B", None), ("B", UNDECIDED))
    exact, free = metrics.pair_accuracy(rows, "exact"), metrics.pair_accuracy(rows, "no-tie")
    assert exact.count == Accuracy(7, 6, 2.5)  # two right, and half for the undecided one
    assert (free.count, free.left_out) == (Accuracy(5, 4, 1.5), 2)
    assert metrics.pair_accuracy([row for row in rows if row.truth != TIE], "strict").count == Accuracy(5, 4, 1.0)
    assert (exact.coverage, exact.of_all, exact.treatment) == (6 / 7, 2.5 / 7, "exact")


def test_four_labels_keep_the_kinds_of_tie_apart_and_three_do_not() -> None:
    rows = answers((TIE, BOTH_BAD), (BOTH_BAD, BOTH_BAD), (BOTH_BAD, TIE), ("A", "A"))
    assert metrics.pair_accuracy(rows, "exact", FOUR_WAY).correct == 2
    assert metrics.pair_accuracy([metrics.collapse(row) for row in rows], "exact").correct == 4
    assert metrics.pair_accuracy(rows, "no-tie", FOUR_WAY).left_out == 3


def test_a_label_from_another_set_is_refused_and_named() -> None:
    for pairs, treatment, problem in (
        ([(BOTH_BAD, "A")], "exact", "0: the label 'both bad' is none of A, B, tie"),
        ([("A", "A>B")], "exact", "0: the answer 'A>B' is none of"),
        ([(TIE, "A")], "strict", "labels without ties"),
        ([], "lenient", "no treatment of ties"),
    ):
        with pytest.raises(InputError, match=problem):
            metrics.pair_accuracy(answers(*pairs), treatment)


@settings(max_examples=40)
@given(many_answers, st.sampled_from(["exact", "no-tie"]))
def test_counts_stay_in_bounds_and_relabelling_changes_nothing(rows: list[LabeledAnswer], treatment: Treatment) -> None:
    score = metrics.pair_accuracy(rows, treatment)
    count = score.count
    assert 0 <= count.correct <= count.judged <= count.n == len(rows) - score.left_out
    turned = {**SWAP, None: None, TIE: TIE, UNDECIDED: UNDECIDED}
    swapped = [replace(row, truth=turned[row.truth], choice=turned[row.choice]) for row in rows]
    assert metrics.pair_accuracy(swapped, treatment).count == count
    assert metrics.pair_accuracy(rows[::-1], treatment).count == count


@settings(max_examples=40)
@given(many_answers)
def test_parts_add_up_to_the_whole(rows: list[LabeledAnswer]) -> None:
    score = metrics.macro(rows)
    assert list(score.parts) == sorted({row.category for row in rows})
    assert score.pooled.count == metrics.pair_accuracy(rows, "exact").count
    assert sum(len(part) for part in metrics.split(rows, lambda row: row.category).values()) == len(rows)


def test_a_macro_mean_weighs_categories_alike_and_is_none_where_one_has_nothing_judged() -> None:
    big = [LabeledAnswer(str(n), "A", "A" if n < 90 else "B", "big") for n in range(100)]
    score = metrics.macro([*big, LabeledAnswer("x", "A", "B", "small"), LabeledAnswer("y", "A", None, "small")])
    assert (score.mean, score.mean_of_all) == (pytest.approx(0.45), pytest.approx(0.45))
    assert score.pooled.count == Accuracy(102, 101, 90)
    unjudged = metrics.macro([*big, LabeledAnswer("x", "A", None, "small")])
    assert (unjudged.mean, unjudged.mean_of_all) == (None, 0.45)
    assert metrics.macro([]).mean is metrics.macro([]).pooled.accuracy is None


def test_editscore_takes_the_strict_mean_over_task_types() -> None:
    scores = {"color": [("A", 9, 5), ("A", 5, 5)], "text": [("B", 5, 9), ("A", None, 9)]}
    pairs = [LabeledAnswer("p", t, None, kind, first=a, second=b) for kind, rows in scores.items() for t, a, b in rows]
    score = metrics.macro([replace(pair, choice=pair.leader) for pair in pairs], "strict", TWO_WAY)
    assert {kind: share.count for kind, share in score.parts.items()} == {
        "color": Accuracy(2, 2, 1), "text": Accuracy(2, 1, 1),
    }  # fmt: skip
    assert (score.mean, score.mean_of_all) == (pytest.approx((0.5 + 1.0) / 2), pytest.approx((0.5 + 0.5) / 2))


def test_shares_say_both_bases_with_their_intervals() -> None:
    share, interval = Share.of(Accuracy(10, 5, 4)), wilson(4, 5)
    assert (share.coverage, share.accuracy, share.of_all) == (0.5, 0.8, 0.4)
    assert interval is not None and share.interval == (interval.low, interval.high)
    empty = Share.of(Accuracy(0, 0, 0))
    assert empty.coverage is empty.accuracy is empty.of_all is empty.interval is None


@pytest.mark.parametrize(
    ("first", "second", "leader"), [(2.0, 1.0, "A"), (1.0, 2.0, "B"), (1.0, 1.0, TIE), (None, 1.0, None)]
)
def test_scores_say_who_leads(first: float | None, second: float, leader: str | None) -> None:
    assert LabeledAnswer("p", "A", first=first, second=second).leader == leader
    with pytest.raises(InputError, match="p: the score nan is not a finite number"):
        LabeledAnswer("p", "A", first=math.nan, second=second)


def test_chance_is_computed_from_the_labels_at_hand() -> None:
    rows = answers(("A", None), ("A", None), ("B", None), (TIE, None))
    assert metrics.chance(rows, THREE_WAY) == {"uniform": 1 / 3, "frequencies": (4 + 1 + 1) / 16, "most frequent": 0.5}
    assert metrics.chance([], FOUR_WAY) == {"uniform": 0.25}
    with pytest.raises(InputError, match="none of A, B"):
        metrics.chance(rows, TWO_WAY)

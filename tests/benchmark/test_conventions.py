import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardharness.benchmark.conventions import BothOrderAnswers, both_orders, editscore
from rewardharness.benchmark.metrics import UNDECIDED, ScoredPair
from rewardharness.errors import InputError
from rewardharness.schema import TIE, Accuracy

SWAP = {"A": "B", "B": "A"}


def test_editscore_takes_the_strict_mean_over_task_types_per_dimension() -> None:
    pairs = [
        ScoredPair("1", "A", 9, 5, "color", "overall"),
        ScoredPair("2", "A", 5, 5, "color", "overall"),  # level counts as wrong
        ScoredPair("3", "B", 5, 9, "text", "overall"),
        ScoredPair("4", "A", None, 9, "text", "overall"),  # not judged
        ScoredPair("5", "A", 1, 2, "text", "consistency"),
    ]
    found = editscore(pair.answer() for pair in pairs)
    assert set(found) == {"overall", "consistency"}
    overall = found["overall"]
    assert overall.parts == {"color": Accuracy(2, 2, 1), "text": Accuracy(2, 1, 1)}
    assert overall.mean == pytest.approx((0.5 + 1.0) / 2)
    assert overall.mean_of_all == pytest.approx((0.5 + 0.5) / 2)
    assert found["consistency"].mean == 0.0


def test_both_orders_count_every_showing_and_a_failed_one_lowers_the_coverage() -> None:
    found = both_orders(
        [
            BothOrderAnswers("1", "A", "A", "A"),
            BothOrderAnswers("2", "A", "A", "B"),
            BothOrderAnswers("3", "B", "A", "A"),
            BothOrderAnswers("4", "B", "B", None),
            BothOrderAnswers("5", "B", UNDECIDED, None),
        ]
    )
    assert found.judgments == Accuracy(10, 8, 2 + 1 + 0 + 1 + 0.5)
    assert (found.same, found.tried) == (2, 3)
    assert both_orders([]).position_consistency is None
    with pytest.raises(InputError, match="'tie' is none of A, B"):
        both_orders([BothOrderAnswers("1", "A", TIE, "A")])


def test_whoever_always_takes_the_first_gets_exactly_one_half() -> None:
    source = random.Random(3)
    pairs = [BothOrderAnswers(str(place), source.choice("AB"), "A", "B") for place in range(301)]
    found = both_orders(pairs)
    assert found.judgments.value == 0.5 and found.position_consistency == 0.0


@given(st.lists(st.tuples(*[st.sampled_from("AB")] * 3), min_size=1))
def test_swapping_the_letters_or_the_orders_changes_nothing(rows: list[tuple[str, str, str]]) -> None:
    found = both_orders(BothOrderAnswers(str(i), *row) for i, row in enumerate(rows))
    assert found == both_orders(BothOrderAnswers(str(i), *(SWAP[x] for x in row)) for i, row in enumerate(rows))
    assert found == both_orders(BothOrderAnswers(str(i), row[0], row[2], row[1]) for i, row in enumerate(rows))

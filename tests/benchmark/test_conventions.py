import pytest

from rewardharness.benchmark.conventions import editscore
from rewardharness.benchmark.metrics import ScoredPair
from rewardharness.schema import Accuracy


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

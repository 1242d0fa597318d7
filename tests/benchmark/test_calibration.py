from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewardharness.benchmark.calibration import GradedJudgment, by_category, by_margin, calibration
from rewardharness.errors import InputError
from rewardharness.schema import Accuracy

forecasts = st.lists(
    st.builds(
        GradedJudgment,
        id=st.text(max_size=3),
        correct=st.sampled_from([0.0, 0.5, 1.0, None]),
        confidence=st.one_of(st.none(), st.floats(0, 1)),
        margin=st.one_of(st.none(), st.floats(0, 1)),
        category=st.sampled_from(["x", "y"]),
    ),
    max_size=30,
)


def rows(*pairs: tuple[float | None, float | None]) -> list[GradedJudgment]:
    return [GradedJudgment(str(place), correct, confidence) for place, (confidence, correct) in enumerate(pairs)]


def test_the_error_and_the_brier_score_worked_out_by_hand() -> None:
    found = calibration(rows((0.95, 1), (0.85, 0), (0.9, 1), (0.55, 0), (None, 1), (0.7, None)))
    assert (found.n, found.used) == (6, 4)
    # Bins (0.5, 0.6]: |0 - 0.55|; (0.8, 0.9]: |0.5 - 0.875| of two; (0.9, 1]: |1 - 0.95|
    assert found.expected_calibration_error == pytest.approx((0.55 + 2 * 0.375 + 0.05) / 4)
    assert found.brier == pytest.approx((0.05**2 + 0.85**2 + 0.1**2 + 0.55**2) / 4)
    assert found.accuracy == 0.5 and found.confidence == pytest.approx(0.8125)
    assert [each.n for each in found.bins] == [0, 0, 0, 0, 0, 1, 0, 0, 2, 1]
    assert found.bins[8].mean == pytest.approx(0.875)


def test_bins_hold_their_upper_edge_and_the_first_holds_zero() -> None:
    found = calibration(rows((0.0, 0), (0.5, 1), (1.0, 1)), bins=2)
    assert [(each.low, each.high, each.n) for each in found.bins] == [(0.0, 0.5, 2), (0.5, 1.0, 1)]


def test_a_judge_that_is_right_as_often_as_it_says_has_no_error() -> None:
    found = calibration([*rows(*[(0.75, 1)] * 75, *[(0.75, 0)] * 25)])
    assert found.expected_calibration_error == pytest.approx(0) and found.brier == pytest.approx(0.75 * 0.25)
    sure = calibration(rows(*[(1.0, 0.0)] * 4))
    assert (sure.expected_calibration_error, sure.brier) == (1.0, 1.0)


def test_nothing_to_measure_is_none_and_not_zero() -> None:
    for empty in (calibration([]), calibration(rows((None, 1), (0.5, None)))):
        assert (empty.used, empty.expected_calibration_error, empty.brier, empty.accuracy) == (0, None, None, None)
    assert by_margin([]) == () and by_category([]) == {}


def test_failures_lower_the_coverage_of_their_category() -> None:
    judged = (("1", 1, "x"), ("2", None, "x"), ("3", 0.5, "y"))
    shares = by_category(GradedJudgment(name, correct, category=kind) for name, correct, kind in judged)
    assert {name: share.count for name, share in shares.items()} == {"x": Accuracy(2, 1, 1.0), "y": Accuracy(1, 1, 0.5)}
    assert shares["x"].coverage == 0.5


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"confidence": 1.2}, "confidence 1.2"),
        ({"correct": -1.0}, "agreement"),
        ({"margin": float("inf")}, "margin inf"),
    ],
)
def test_values_out_of_range_are_refused(values: dict[str, float], problem: str) -> None:
    with pytest.raises(InputError, match=f"e: the {problem}"):
        GradedJudgment(**{"id": "e", "correct": 1.0, **values})  # type: ignore[arg-type]


@settings(max_examples=50)
@given(forecasts, st.integers(1, 12))
def test_measures_stay_in_bounds_and_bins_hold_everything(rows: list[GradedJudgment], bins: int) -> None:
    found = calibration(rows, bins)
    assert sum(each.n for each in found.bins) == found.used <= found.n
    quantiles = by_margin(rows, bins)
    assert sum(each.n for each in quantiles) <= found.n
    assert all(one.high < other.low for one, other in pairwise(quantiles)), "equal margins share a quantile"
    if found.used:
        assert found.expected_calibration_error is not None and found.brier is not None
        assert 0 <= found.expected_calibration_error <= 1 and 0 <= found.brier <= 1
        assert found == calibration(rows[::-1], bins)
        coarse = calibration(rows, 1).expected_calibration_error
        assert coarse is not None and coarse <= found.expected_calibration_error + 1e-9

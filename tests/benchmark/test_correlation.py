import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardharness.benchmark.correlation import (
    Rating,
    average_ranks,
    correlate,
    fisher_mean,
    spearman,
)
from rewardharness.errors import InputError

numbers = st.lists(st.integers(-5, 5).map(float), min_size=2, max_size=25)


def test_equal_values_share_the_average_of_their_ranks() -> None:
    assert average_ranks([10, 30, 20, 20]) == [1.0, 4.0, 2.5, 2.5]
    assert average_ranks([7, 7, 7]) == [2.0, 2.0, 2.0]
    assert average_ranks([]) == []


def test_known_correlations() -> None:
    assert spearman([1, 2, 3], [10, 20, 99]) == 1.0
    assert spearman([1, 2, 3], [3, 2, 1]) == -1.0
    # 1 - 6 * sum d^2 / (n (n^2 - 1)) with d = 1, 1, 0, 1, 1
    assert spearman([1, 2, 3, 4, 5], [2, 1, 3, 5, 4]) == pytest.approx(1 - 6 * 4 / (5 * 24))
    # With ties: ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4; Pearson's formula by hand gives 4.5 / sqrt(4.5 * 5)
    assert spearman([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(4.5 / math.sqrt(4.5 * 5))


def test_what_is_not_defined_is_none() -> None:
    assert spearman([1, 1, 1], [1, 2, 3]) is None
    assert spearman([1], [1]) is None and spearman([], []) is None
    with pytest.raises(InputError, match="2 values cannot be correlated with 1"):
        spearman([1, 2], [1])
    with pytest.raises(InputError, match="not a finite number"):
        spearman([1, math.nan], [1, 2])


@given(numbers, st.randoms())
def test_order_alone_counts(values: list[float], source: random.Random) -> None:
    other = [source.choice(values) for _ in values]
    rho = spearman(values, other)
    assert rho == spearman(other, values)
    assert rho == spearman([math.exp(value) for value in values], other)
    mirrored = spearman([-value for value in values], other)
    if rho is None:
        assert mirrored is None
    else:
        assert -1 <= rho <= 1 and mirrored == pytest.approx(-rho)


def test_fishers_mean_by_hand_and_at_its_ends() -> None:
    assert fisher_mean([0.2, 0.8]) == pytest.approx(math.tanh((math.atanh(0.2) + math.atanh(0.8)) / 2))
    assert fisher_mean([0.2, 0.8], [3, 1]) == pytest.approx(math.tanh((3 * math.atanh(0.2) + math.atanh(0.8)) / 4))
    assert fisher_mean([1.0, 1.0]) == 1.0
    mixed = fisher_mean([1.0, 0.0, 0.0])
    assert mixed is not None and 0.9 < mixed < 1  # a perfect one weighs much, and not without bound
    assert fisher_mean([1.0, -1.0]) == pytest.approx(0)
    assert fisher_mean([]) is None and fisher_mean([0.5], [0]) is None


def test_editors_are_correlated_apart_and_failures_lower_the_coverage() -> None:
    ratings = [
        *(Rating("x", judge, human) for judge, human in ((1.0, 0.1), (2.0, 0.2), (None, 0.9), (3.0, 0.3), (4.0, 0.25))),
        *(Rating("y", judge, human) for judge, human in ((9.0, 0.1), (8.0, 0.2))),
        *(Rating("flat", judge, 0.0) for judge in (1.0, 2.0, 3.0)),
        Rating("unjudged", None, 0.5),
    ]
    found = correlate(ratings)
    assert (found.editors["x"].n, found.editors["x"].judged) == (5, 4)
    assert found.editors["x"].rho == pytest.approx(0.8)
    assert found.editors["y"].rho == -1.0
    assert found.undefined == ("flat", "unjudged")
    assert found.mean == fisher_mean([0.8, -1.0])
    weighted = correlate(ratings, "n-3")
    assert weighted.mean == pytest.approx(0.8)  # two edits of y have no weight at all
    assert set(weighted.undefined) == {"flat", "unjudged", "y"}
    shown = found.to_json()
    assert (shown["n"], shown["judged"], shown["weights"]) == (11, 9, "equal")
    assert shown["coverage"] == 9 / 11
    assert correlate([]).mean is None


def test_pooling_editors_would_reward_telling_them_apart() -> None:
    # Within each editor the judge is upside down; between editors it is right.
    ratings = [Rating("good", 10 - place, 0.9 + place / 100) for place in range(5)]
    ratings += [Rating("bad", 5 - place, place / 100) for place in range(5)]
    assert correlate(ratings).mean == -1.0
    pooled = spearman([rating.judge or 0 for rating in ratings], [rating.human for rating in ratings])
    assert pooled is not None and pooled > 0.4

import random
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewardharness.benchmark.intervals import answers_interval, bootstrap_mean, share_interval
from rewardharness.benchmark.metrics import LabeledAnswer
from rewardharness.errors import InputError
from rewardharness.judging.report import wilson
from rewardharness.schema import Interval


def bootstrap(values: list[float], **options: object) -> Interval:
    interval = bootstrap_mean(values, **options)  # type: ignore[arg-type]
    assert interval is not None
    return interval


def width(interval: Interval) -> float:
    return interval.high - interval.low


def test_the_same_rows_and_seed_give_the_same_interval() -> None:
    uneven = [place**1.5 for place in range(20)]
    assert bootstrap(uneven) == bootstrap(uneven) != bootstrap(uneven, seed=1)


def test_a_mean_of_many_values_is_close_to_wilson() -> None:
    source = random.Random(2)
    values = [float(source.random() < 0.7) for _ in range(500)]
    drawn, wanted = bootstrap(values, resamples=4000), wilson(sum(values), len(values))
    assert wanted is not None and (drawn.low, drawn.high) == pytest.approx((wanted.low, wanted.high), abs=0.01)


def test_copies_within_a_cluster_add_no_certainty_and_an_empty_name_stands_alone() -> None:
    values = [1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.0]
    clusters = [f"source {place}" for place in range(len(values))]
    alone = bootstrap(values, clusters=clusters)
    assert alone == bootstrap(values) == bootstrap(values, clusters=[""] * 8)
    assert bootstrap(values * 25, clusters=clusters * 25) == alone
    assert width(bootstrap(values * 25)) < width(alone) / 3


def test_a_mean_over_categories_weighs_them_alike() -> None:
    categories = ["rare"] * 3 + ["common"] * 57
    values = [1.0] * 3 + [float(place % 3 > 0) for place in range(57)]
    interval = bootstrap(values, categories=categories)
    mean = (1.0 + fmean(values[3:])) / 2
    assert interval.low < mean < interval.high and interval.low > bootstrap(values).low
    assert bootstrap(values, categories=[""] * 60) == bootstrap(values)


@pytest.mark.parametrize(
    ("values", "clusters", "pairs", "wanted"),
    [
        ([1, 0, 1, 0], "----", "abcd", (2, 4)),
        ([1, 1, 0, 0], "----", "aabb", (1, 2)),  # both orders of a pair count once
        ([1, 1, 1, 1], "sstt", "abcd", (2, 2)),  # sources that all agree count once each
    ],
)
def test_a_share_counts_pairs_and_sources_once(values: list[float], clusters: str, pairs: str, wanted: Any) -> None:
    names = ["" if name == "-" else name for name in clusters]
    assert share_interval(values, names, list(pairs)) == wilson(*wanted)


def test_a_share_of_several_questions_per_source_is_widened() -> None:
    values, sources = [1.0] * 8 + [0.0] * 4, [name for name in "stuvwx" for _ in range(2)]
    drawn, plain = bootstrap(values, clusters=sources), wilson(8, 12)
    widened = share_interval(values, sources, [str(place) for place in range(12)])
    assert plain is not None and widened == Interval(min(plain.low, drawn.low), max(plain.high, drawn.high))
    assert share_interval([], [], []) is None
    answers = [LabeledAnswer(id_, "A", choice) for id_, choice in (("x", "A"), ("y", "B"), ("z", None))]
    assert answers_interval(answers) == wilson(1, 2)


def test_too_little_gives_no_interval_and_lengths_that_differ_an_error() -> None:
    assert bootstrap_mean([]) is bootstrap_mean([1.0]) is bootstrap_mean([1.0, 0.0], ["s", "s"]) is None
    with pytest.raises(InputError, match="2 rows and 1 clusters"):
        bootstrap_mean([1.0, 0.0], ["s"])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=2, max_size=30))
def test_an_interval_stays_within_the_values(values: list[float]) -> None:
    interval = bootstrap(values, resamples=200)
    assert min(values) - 1e-9 <= interval.low <= interval.high <= max(values) + 1e-9

import random
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewardharness.benchmark.intervals import (
    answers_interval,
    bootstrap_mean,
    difference_interval,
    effective_size,
    share_interval,
)
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
        ([1, 0, 1, 0, 1, 0], "------", "abcdef", (3, 6)),
        ([1, 1, 0, 0] * 3, "-" * 12, "aabbccddeeff", (3, 6)),  # both orders of a pair count once
        ([1, 1] * 5, "ppqqrrsstt", "abcdefghij", (5, 5)),  # sources that all agree count once each
        ([1, 0] * 5, "ppqqrrsstt", "abcdefghij", (5, 10)),  # questions of a source that say no more alike than others
        ([1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1], "ooppqqrrsstt", "abcdefghijkl", (4 * 11 / 12, 6 * 11 / 12 * 10 / 11)),
        ([1] * 4, "----", "abcd", None),  # too few
        ([1] * 40, "pqrs" * 10, [str(n) for n in range(40)], None),
        ([], "", "", None),
    ],
)
def test_a_share_counts_pairs_and_sources_once(values: list[float], clusters: str, pairs: Any, wanted: Any) -> None:
    names = ["" if name == "-" else name for name in clusters]
    interval = share_interval(values, names, list(pairs))
    if wanted is None or interval is None:
        assert interval is wanted
    else:
        n = effective_size(values, [name or pair for name, pair in zip(names, pairs, strict=True)], len(set(pairs)))
        assert n is not None and interval == wilson(fmean(values) * n, n) and interval.low < interval.high
        assert n == pytest.approx(wanted[1], rel=0.11)


def test_answers_without_a_judgment_do_not_count() -> None:
    answers = [LabeledAnswer(str(n), "A", choice) for n, choice in enumerate([*"AAABB", None])]
    assert answers_interval(answers) == wilson(3, 5)


def test_the_interval_of_a_difference_covers_it_has_a_width_and_knows_its_sources() -> None:
    for before, after, gain in (([0.0] * 5, [1.0] * 5, 1), ([1.0] * 9, [1.0] * 9, 0), ([0.5] * 6, [1, 0] * 3, 0)):
        interval = difference_interval(before, after, [""] * len(before))
        assert interval is not None and interval.low <= gain <= interval.high and width(interval) > 0.01
    assert difference_interval([0.0] * 4, [1.0] * 4, [""] * 4) is None
    covered = 0
    for seed in range(200):
        chance = random.Random(seed)
        before = [float(chance.random() < 0.7) for _ in range(40)]
        after = [old if chance.random() < 0.6 else float(chance.random() < 0.8) for old in before]
        interval = difference_interval(before, after, [""] * 40)
        covered += interval is not None and interval.low <= 0.04 <= interval.high
    assert covered >= 186
    apart, together = (
        difference_interval(before * 5, after * 5, names) for names in ([""] * 200, list("abcdefgh") * 25)
    )
    assert apart is not None and together is not None and width(together) != width(apart)


def test_too_little_gives_no_interval_and_lengths_that_differ_an_error() -> None:
    assert bootstrap_mean([]) is bootstrap_mean([1.0, 0.0] * 2) is bootstrap_mean([1.0, 0.0] * 9, ["s"] * 18) is None
    assert bootstrap_mean([1.0] * 9) is None
    with pytest.raises(InputError, match="2 rows and 1 clusters"):
        bootstrap_mean([1.0, 0.0], ["s"])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=5, max_size=30, unique=True))
def test_an_interval_stays_within_the_values(values: list[float]) -> None:
    interval = bootstrap(values, resamples=200)
    assert min(values) - 1e-9 <= interval.low <= interval.high <= max(values) + 1e-9

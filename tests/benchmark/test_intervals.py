import random
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewardharness.benchmark.intervals import bootstrap, bootstrap_mean
from rewardharness.errors import InputError
from rewardharness.judging.report import wilson


def test_the_same_rows_and_seed_give_the_same_interval() -> None:
    values = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.5]
    assert bootstrap_mean(values) == bootstrap_mean(values)
    uneven = [place**1.5 for place in range(20)]
    assert bootstrap_mean(uneven) != bootstrap_mean(uneven, seed=1)
    assert bootstrap(values, fmean) == bootstrap(values, fmean)


def test_a_mean_of_many_values_is_close_to_wilson() -> None:
    source = random.Random(2)
    values = [float(source.random() < 0.7) for _ in range(500)]
    found, wanted = bootstrap_mean(values, resamples=4000), wilson(sum(values), len(values))
    assert found is not None and wanted is not None
    assert found.low == pytest.approx(wanted.low, abs=0.01)
    assert found.high == pytest.approx(wanted.high, abs=0.01)


def test_copies_within_a_cluster_add_no_certainty() -> None:
    values = [1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.0]
    clusters = [f"source {place}" for place in range(len(values))]
    alone = bootstrap_mean(values, clusters)
    assert alone == bootstrap_mean(values)
    copied = bootstrap_mean(values * 25, clusters * 25)
    assert copied == alone
    naive = bootstrap_mean(values * 25)
    assert naive is not None and alone is not None
    assert naive.high - naive.low < (alone.high - alone.low) / 3


def test_an_empty_cluster_name_stands_alone() -> None:
    values = [1.0, 0.0, 1.0, 1.0]
    assert bootstrap_mean(values, [""] * 4) == bootstrap_mean(values)


def test_any_statistic_and_a_mean_agree() -> None:
    values = [float(place % 3 > 0) for place in range(60)]
    clusters = [str(place % 20) for place in range(60)]
    plain, general = bootstrap_mean(values, clusters), bootstrap(values, fmean, clusters)
    assert plain is not None and general is not None
    assert (general.low, general.high) == pytest.approx((plain.low, plain.high), abs=0.03)


def test_too_little_gives_no_interval() -> None:
    assert bootstrap_mean([]) is None and bootstrap_mean([1.0]) is None
    assert bootstrap_mean([1.0, 0.0], ["s", "s"]) is None
    assert bootstrap([1.0, 2.0], lambda rows: None) is None
    assert bootstrap([1.0, 2.0, 3.0], lambda rows: fmean(rows) if 1.0 not in rows else None) is None


def test_bad_settings_are_refused() -> None:
    for level, resamples in ((1.0, 10), (0.95, 0)):
        with pytest.raises(InputError, match="is not possible"):
            bootstrap_mean([1.0, 0.0], level=level, resamples=resamples)
    with pytest.raises(InputError, match="2 rows and 1 clusters"):
        bootstrap([1.0, 0.0], fmean, ["s"])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=2, max_size=30))
def test_an_interval_stays_within_the_values(values: list[float]) -> None:
    interval = bootstrap_mean(values, resamples=200)
    assert interval is not None
    assert min(values) - 1e-9 <= interval.low <= interval.high <= max(values) + 1e-9

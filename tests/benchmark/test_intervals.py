import math
import random
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewardharness.benchmark.intervals import (
    Rating,
    answers_interval,
    average_ranks,
    bootstrap_mean,
    correlate,
    difference_interval,
    effective_size,
    fisher_mean,
    left_out_in_turn,
    mean_interval,
    share_interval,
    spearman,
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

    assert spearman([1, 1, 1], [1, 2, 3]) is spearman([1], [1]) is spearman([], []) is None
    with pytest.raises(InputError, match="2 values cannot be correlated with 1"):
        spearman([1, 2], [1])
    with pytest.raises(InputError, match="not a finite number"):
        spearman([1, math.nan], [1, 2])


@settings(max_examples=40)
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
    assert (fisher_mean([1.0, 1.0]), fisher_mean([1.0, -1.0]), fisher_mean([])) == (1.0, pytest.approx(0), None)
    mixed = fisher_mean([1.0, 0.0, 0.0])
    assert mixed is not None and 0.9 < mixed < 1  # a perfect one weighs much, and not without bound


def test_editors_are_correlated_apart_and_failures_lower_the_coverage() -> None:
    ratings = [
        *(Rating("x", judge, human) for judge, human in ((1.0, 0.1), (2.0, 0.2), (None, 0.9), (3.0, 0.3), (4.0, 0.25))),
        *(Rating("y", judge, human) for judge, human in ((9.0, 0.1), (8.0, 0.2), (7.0, 0.3), (6.0, 0.4), (5.0, 0.5))),
        *(Rating("flat", judge, 0.0) for judge in (1.0, 2.0, 3.0, 4.0)),
        *(Rating("sparse", judge, human) for judge, human in ((5.0, 0.5), (4.0, 0.4), *((1.0, 0.0),) * 40)),
        Rating("unjudged", None, 0.5),
        *(Rating("few", float(place), float(place)) for place in range(3)),
    ]
    found = correlate(ratings)
    x, y = found.editors["x"], found.editors["y"]
    assert (x.n, x.judged, x.rho, y.rho) == (5, 4, pytest.approx(0.8), -1.0)
    assert {name: found.editors[name].reason for name in found.undefined} == {
        "flat": "all scores of one side are equal",
        "sparse": "all scores of one side are equal, but for 2",
        "unjudged": "too few judged edits: 0",
        "few": "too few judged edits: 3",
    }
    assert found.mean == fisher_mean([0.8, -1.0])
    assert (found.n, found.judged, found.coverage, found.weights) == (60, 58, 58 / 60, "equal")
    assert correlate([]).mean is None


EVEN, SPARSE = (0.35, 0.25, 0.25, 0.15), (0.93, 0.03, 0.02, 0.02)
"""How often the scores 0 to 3 are given."""


Editors = Sequence[tuple[float, Sequence[float]]]


def drawn(source: random.Random, items: int, editors: Editors) -> list[Rating]:
    """Two raters who see the same with probability rho, and else give scores by chance.

    Their joint distribution is rho times the diagonal plus (1 - rho) times independence, with the same margins, so the
    covariance of their mid-ranks is rho times the variance: Spearman's correlation of all edits there could be is rho.
    """
    ratings = []
    for number, (rho, often) in enumerate(editors):
        for one in source.choices(range(4), often, k=items):
            other = one if source.random() < rho else source.choices(range(4), often)[0]
            ratings.append(Rating(f"e{number}", float(one), float(other)))
    return ratings


@pytest.mark.slow
@pytest.mark.parametrize(
    ("items", "editors"),
    [(40, [(0.6, EVEN)] * 4), (60, [(0.6, EVEN), (0.5, SPARSE)] * 2), (60, [(0.3, SPARSE)] + [(0.7, EVEN)] * 2)],
)
def test_an_interval_of_the_mean_holds_the_truth_as_often_as_it_says(items: int, editors: Editors) -> None:
    source = random.Random(7)
    held = tried = high = 0
    for _ in range(150):
        ratings = drawn(source, items, editors)
        span = mean_interval(ratings, [str(place % items) for place in range(len(ratings))])
        used = [each.rho is not None for each in correlate(ratings).editors.values()]
        truth = fisher_mean([rho for (rho, _), there in zip(editors, used, strict=True) if there])
        if span is not None and truth is not None:
            tried, held, high = tried + 1, held + (span.low <= truth <= span.high), high + (truth < span.low)
    assert tried >= 140
    assert 0.91 <= held / tried <= 0.99, (held, tried)
    assert high / tried <= 0.06, "it does not reach too high"


def test_there_is_no_interval_where_nothing_can_be_said_of_other_images() -> None:
    perfect = [Rating("x", float(place), float(place)) for place in range(9)]
    assert correlate(perfect).mean == 1.0 and mean_interval(perfect) is None
    mixed = drawn(random.Random(1), 30, [(0.5, EVEN)])
    assert mean_interval(mixed) is not None and mean_interval([*mixed, *perfect]) is None
    assert mean_interval([]) is None and mean_interval(perfect[:2]) is None
    sparse = [Rating("s", value, value / 2) for value in (1.0, 2.0, 2.0)] + [Rating("s", 0.0, 0.0)] * 20
    sparse[0] = Rating("s", 1.0, 0.1)
    one_image = ["deciding"] * 3 + [""] * 20
    assert mean_interval(sparse, one_image) is None
    assert mean_interval(mixed, ["same"] * 30) is None


def test_the_interval_of_the_mean_is_the_jackknife_over_images() -> None:
    human, judge = (3.0, 1.0, 4.0, 1.5, 5.0, 9.0, 2.0, 6.0), (2.0, 1.0, 3.0, 4.0, 6.0, 8.0, 5.0, 7.0)
    rho = spearman(judge, human)
    assert rho is not None
    span = mean_interval([Rating("x", *pair) for pair in zip(judge, human, strict=True)])
    without = [spearman(judge[:i] + judge[i + 1 :], human[:i] + human[i + 1 :]) or 0.0 for i in range(8)]
    changes = [(one - rho) / (1 - rho * rho) for one in without]
    error = math.sqrt(7 / 8 * math.fsum((change - fmean(changes)) ** 2 for change in changes))
    student = 2.3646  # 97.5% point with 7 degrees of freedom, from a table
    expected = (math.tanh(math.atanh(rho) - student * error), math.tanh(math.atanh(rho) + student * error))
    assert span is not None and (span.low, span.high) == pytest.approx(expected, abs=0.002)


def test_edits_of_one_image_count_once_in_the_interval() -> None:
    ratings = drawn(random.Random(2), 60, [(0.6, EVEN)])
    twice = [*ratings, *ratings]
    once, bold = mean_interval(ratings), mean_interval(twice)
    cautious = mean_interval(twice, [str(place % 60) for place in range(120)])
    assert once is not None and cautious is not None and bold is not None
    assert cautious.high - cautious.low == pytest.approx(once.high - once.low, rel=0.05)
    assert bold.high - bold.low < 0.8 * (once.high - once.low)


def test_very_many_images_are_left_out_in_groups_and_come_to_about_the_same() -> None:
    ratings = drawn(random.Random(3), 300, [(0.6, EVEN)])
    assert len(left_out_in_turn(300)) == 200 and set().union(*left_out_in_turn(300)) == set(range(300))
    span, source = mean_interval(ratings), random.Random(0)
    means = sorted(correlate(source.choices(ratings, k=300)).mean or 0.0 for _ in range(300))
    assert span is not None
    assert span.high - span.low == pytest.approx(means[292] - means[7], rel=0.2), "as of a bootstrap of dense scores"


@pytest.mark.parametrize(
    ("cells", "low", "high"),
    [((36, 12, 2, 0), 0.0569, 0.3404), ((20, 12, 2, 16), 0.0562, 0.3292)],
)
def test_the_interval_of_a_difference_is_as_published(cells: tuple[int, ...], low: float, high: float) -> None:
    """Method 10 of Newcombe, Stat. Med. 17, 1998, for: both right, the first alone, the second alone, neither."""
    pairs = [
        pair for pair, n in zip(((1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0)), cells, strict=True) for _ in range(n)
    ]
    first, second = zip(*pairs, strict=True)
    interval = difference_interval(second, first, [""] * len(pairs))
    assert interval is not None and (interval.low, interval.high) == pytest.approx((low, high), abs=5e-5)

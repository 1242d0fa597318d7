import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewardharness.serving.results import RAW, Normalisation, normalise_group, normalise_groups

GROUP = Normalisation("group")
rewards = st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=1, max_size=8)


def test_the_formula_by_hand() -> None:
    found, stats = normalise_group([0.2, None, 0.8], Normalisation("group", eps=0.1))
    assert found == [pytest.approx(-0.3 / 0.4), None, pytest.approx(0.3 / 0.4)]
    assert (stats.n, stats.judged, stats.mean, stats.degenerate) == (3, 2, pytest.approx(0.5), False)
    assert stats.std == pytest.approx(0.3)


def test_a_clip_bounds_both_sides() -> None:
    found, _ = normalise_group([0.0, 0.0, 0.0, 1.0], Normalisation("group", clip=1.0))
    assert found[3] == 1.0 and all(value is not None and -1 <= value <= 1 for value in found)


@pytest.mark.parametrize("group", [[0.7], [0.7, None], [0.3, 0.3, 0.3], [0.1 + 0.2, 0.3 + 5e-17 - 5e-17 + 4e-17]])
def test_a_group_that_teaches_nothing_says_so(group: list[float | None]) -> None:
    found, stats = normalise_group(group, GROUP)
    if len({value for value in group if value is not None}) == 1:
        assert stats.degenerate and stats.std == 0
    assert all(value is None or abs(value) < 1e-9 for value in found)


def test_a_group_without_any_reward_stays_without() -> None:
    found, stats = normalise_group([None, None], GROUP)
    assert found == [None, None]
    assert (stats.mean, stats.std, stats.judged, stats.degenerate) == (None, None, 0, True)


@settings(max_examples=40)
@given(rewards)
def test_what_is_made_relative_keeps_order_and_gaps(group: list[float | None]) -> None:
    found, stats = normalise_group(group, GROUP)
    assert [value is None for value in found] == [reward is None for reward in group]
    both = zip(group, found, strict=True)
    pairs = [(reward, value) for reward, value in both if reward is not None and value is not None]
    assert all(math.isfinite(value) for _, value in pairs)
    for one, z_one in pairs:
        for other, z_other in pairs:
            assert (one <= other) <= (z_one <= z_other)
    rounding = 1e-3 if stats.degenerate else 1e-6
    assert abs(math.fsum(value for _, value in pairs)) < 1e-6 * max(1, len(pairs)) + rounding


@settings(max_examples=30)
@given(rewards, st.data())
def test_groups_do_not_touch_each_other(group: list[float | None], data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from([None, "a", "b"]), min_size=len(group), max_size=len(group)))
    found, stats = normalise_groups(group, names, GROUP)
    assert [each.group for each in stats] == list(dict.fromkeys(names))
    for name in set(names):
        own = [index for index, each in enumerate(names) if each == name]
        assert [found[index] for index in own] == normalise_group([group[index] for index in own], GROUP)[0]
    assert normalise_groups(group, names, RAW) == ([None] * len(group), ())

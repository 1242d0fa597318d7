from pathlib import Path

import pytest
from bulk_parts import pair_rules
from hypothesis import given, settings
from hypothesis import strategies as st

from rewardharness.bulk.config import PreferencePairsConfig
from rewardharness.bulk.preference_data import Repeated, pair_up
from rewardharness.errors import InputError


def repeated(*rewards: tuple[float, ...]) -> list[Repeated]:
    return [Repeated(index, values) for index, values in enumerate(rewards)]


def named(pairs) -> list[tuple[int, int]]:
    return [(pair.chosen.index, pair.rejected.index) for pair in pairs]


def test_best_against_worst_and_neighbours_not_all():
    pairs, dropped = pair_up(repeated((0.1,), (0.9,), (0.5,), (0.7,)), pair_rules(per_edit=9))
    assert named(pairs) == [(1, 0), (1, 3), (3, 2), (2, 0)] and not dropped
    assert [pair.kind for pair in pairs] == ["extreme", "adjacent", "adjacent", "adjacent"]


def test_two_candidates_are_one_pair():
    assert named(pair_up(repeated((0.1,), (0.9,)), pair_rules())[0]) == [(1, 0)]
    assert pair_up(repeated((0.1,)), pair_rules())[0] == []
    assert pair_up([], pair_rules())[0] == []


def test_what_is_dropped_is_counted_by_its_reason():
    _, dropped = pair_up(repeated((0.5,), (0.5,), (0.52,), (0.9,)), pair_rules(margin=0.1, per_edit=1))
    assert dropped == {"level": 1, "margin": 1, "cap": 1}


def test_a_margin_within_the_spread_is_no_evidence():
    steady, shaky = repeated((0.8, 0.8), (0.4, 0.4)), repeated((0.95, 0.65), (0.55, 0.25))
    assert len(pair_up(steady, pair_rules())[0]) == 1
    pairs, dropped = pair_up(shaky, pair_rules(spread=1.0))
    assert not pairs and dropped == {"uncertain": 1}
    assert len(pair_up(shaky, pair_rules(spread=0.5))[0]) == 1


@pytest.mark.parametrize("wrong", [{"margin": 0.0}, {"margin": 1.5}, {"spread": -1.0}, {"per_edit": 0}])
def test_rules_that_make_no_sense(wrong):
    with pytest.raises(InputError, match="out of range"):
        PreferencePairsConfig("data", output=Path("out"), **wrong)


@settings(max_examples=40)
@given(
    st.lists(st.lists(st.floats(0, 1), min_size=2, max_size=4), max_size=7),
    st.floats(0.01, 0.9),
    st.floats(0, 2),
    st.integers(1, 5),
)
def test_every_pair_that_is_kept_keeps_the_rules(rewards, margin, spread, cap):
    candidates = repeated(*map(tuple, rewards))
    pairs, dropped = pair_up(candidates, pair_rules(margin=margin, spread=spread, per_edit=cap))
    assert len(pairs) <= cap
    for pair in pairs:
        assert pair.margin >= margin and pair.margin > spread * (pair.chosen.std + pair.rejected.std)
    count = len(candidates)
    assert len(pairs) + sum(dropped.values()) == (count if count > 2 else count - 1 if count else 0)

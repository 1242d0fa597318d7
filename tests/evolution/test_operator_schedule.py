"""Schedules of mutation operators."""

import json
from collections import Counter
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardharness.errors import InputError
from rewardharness.evolution.objective import JudgedPair
from rewardharness.evolution.operator_schedule import (
    STRUCTURAL,
    OperatorSchedule,
    OperatorState,
    ScheduleKind,
    behavioral_distance,
    diversity_of,
    next_operators,
)
from rewardharness.evolution.proposal import MUTATIONS, Mutation

KINDS = get_args(ScheduleKind)
START = OperatorState()


def draw(schedule: OperatorSchedule, count: int, state: OperatorState = START, **more: float) -> Counter[Mutation]:
    return Counter(next_operators(schedule, state, count, seed=3, **more)[0])  # type: ignore[arg-type]


def structural(counts: Counter[Mutation]) -> float:
    return sum(count for name, count in counts.items() if name in STRUCTURAL) / counts.total()


@given(
    st.sampled_from(KINDS),
    st.lists(st.tuples(st.sampled_from(MUTATIONS), st.none() | st.floats(-1, 1)), max_size=30),
    st.integers(0, 1000),
)
def test_a_schedule_resumes_from_json_with_the_same_operators(
    kind: ScheduleKind, gains: list[tuple[Mutation, float | None]], seed: int
) -> None:
    schedule = OperatorSchedule(kind)
    state = START
    for operator, gain in gains:
        state = state.observed(operator, gain, schedule)
    first, state = next_operators(schedule, state, 5, seed=seed)
    resumed = OperatorState.from_json(json.loads(json.dumps(state.to_json())))
    assert resumed == state and len(first) == 5
    assert next_operators(schedule, resumed, 5, seed=seed) == next_operators(schedule, state, 5, seed=seed)


@pytest.mark.parametrize("kind", KINDS)
def test_children_one_by_one_get_the_same_operators_as_together(kind: ScheduleKind) -> None:
    schedule, state, single = OperatorSchedule(kind), START, list[Mutation]()
    for _ in range(12):
        chosen, state = next_operators(schedule, state, 1, seed=9)
        single += chosen
    assert tuple(single) == next_operators(schedule, START, 12, seed=9)[0]


@pytest.mark.parametrize("kind", KINDS)
def test_only_possible_operators_are_chosen(kind: ScheduleKind) -> None:
    schedule = OperatorSchedule(kind, ("reweight", "raise_bar", "fix_tool"))
    chosen, _ = next_operators(schedule, START, 40, seed=1, possible=("reweight", "raise_bar", "merge"))
    assert set(chosen) == {"reweight", "raise_bar"}
    assert next_operators(schedule, START, 3, seed=1, possible=("merge",)) == ((), START)


def test_fixed_takes_turns_within_one_generation() -> None:
    assert draw(OperatorSchedule("fixed"), 22) == dict.fromkeys(MUTATIONS, 2)


def test_success_feedback_prefers_gains_and_avoids_losses_however_large() -> None:
    schedule = OperatorSchedule("success_feedback", ("reweight", "merge", "raise_bar"))
    state = START
    for _ in range(25):
        state = state.observed("reweight", 0.08, schedule).observed("merge", -0.3, schedule)
        state = state.observed("raise_bar", None, schedule)
    counts = draw(schedule, 200, state)
    assert counts["reweight"] > 195
    assert state.records["merge"].failures == 25 and state.records["merge"].children == 25


def test_without_a_history_success_feedback_tries_everything() -> None:
    counts = draw(OperatorSchedule(), 550)
    assert set(counts) == set(MUTATIONS) and min(counts.values()) > 25


def test_exploration_decays_from_structure_to_refinement() -> None:
    schedule = OperatorSchedule("exploration_decay")
    early, late = draw(schedule, 5), draw(schedule, 400, replace(START, asked=400))
    assert structural(early) == 1 and structural(late) == pytest.approx(schedule.least, abs=0.07)


def test_a_population_that_judges_alike_asks_for_structure() -> None:
    schedule = OperatorSchedule("diversity_driven")
    assert structural(draw(schedule, 100, diversity=0.0)) == 1
    assert structural(draw(schedule, 400, diversity=0.9)) == pytest.approx(schedule.least, abs=0.07)


def probe(*margins: float | None) -> list[JudgedPair]:
    return [JudgedPair(str(number), "A", "B", 1.0, margin) for number, margin in enumerate(margins)]


def test_diversity_is_about_judgments() -> None:
    one, same_order, reverse = probe(0.1, 0.4, -0.2), probe(0.3, 0.9, -0.8), probe(-0.1, -0.4, 0.2)
    assert behavioral_distance(one, same_order) == 0
    assert behavioral_distance(one, reverse) == 2
    assert diversity_of([one, same_order, reverse]) == pytest.approx(4 / 3)
    assert behavioral_distance(probe(0.0, 0.0), probe(0.0, 0.0)) == 0
    assert behavioral_distance(probe(0.1, None), probe(0.2, 0.3)) is None
    assert diversity_of([one]) is None


def test_unusable_schedules_and_states_are_errors() -> None:
    with pytest.raises(InputError, match="Unknown operator schedule 'greedy'"):
        OperatorSchedule("greedy")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="Unknown operator 'improve'"):
        OperatorSchedule(operators=("improve",))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="not usable"):
        OperatorSchedule(full_gain=0)
    for value in (
        {},
        {"asked": 1, "records": {"reweight": [1]}},
        {"asked": -1, "records": {}},
        {"asked": "1", "records": {}},
    ):
        with pytest.raises(InputError, match="damaged"):
            OperatorState.from_json(value)

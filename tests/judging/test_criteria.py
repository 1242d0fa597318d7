import math

import pytest
from hypothesis import example, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from rewardharness.judging.criteria import GRADE_FLOOR, combine, make_measured_scores, make_scores, met_kinds
from rewardharness.library.rubric import Criterion

grades = st.lists(st.tuples(st.floats(0.1, 10), st.floats(0, 1)), min_size=1, max_size=6)


def criterion(name: str, dimension: str, weight: float = 1.0) -> Criterion:
    return Criterion(id=name, text=name, weight=weight, scale=(1, 4), dimension=dimension)


def test_a_failed_criterion_sinks_the_rest() -> None:
    assert combine([(1, 1.0), (1, 0.0)]) == pytest.approx((math.sqrt(GRADE_FLOOR) - GRADE_FLOOR) / (1 - GRADE_FLOOR))
    assert combine([(1, 1.0), (1, 1.0)]) == 1.0
    assert combine([(3, 0.0)]) == 0.0
    assert combine([]) is None


@examples(max_examples=50)
@given(grades)
def test_combined_grades_stay_in_range_and_rise_with_each_grade(items: list[tuple[float, float]]) -> None:
    value = combine(items)
    assert 0 <= value <= 1 + 1e-9
    weight, grade = items[0]
    better = combine([(weight, min(1.0, grade + 0.2)), *items[1:]])
    assert better >= value - 1e-12


@example([(0.5, "instruction"), (3.0, "instruction"), (1.0, "quality")])
@given(st.lists(st.tuples(st.floats(0.1, 10), st.sampled_from(["instruction", "quality"])), min_size=1, max_size=6))
def test_the_lowest_grades_give_the_lowest_scores_whatever_the_weights(items: list[tuple[float, str]]) -> None:
    scores = make_scores([(criterion(f"c{n}", dimension, weight), 0.0) for n, (weight, dimension) in enumerate(items)])
    assert {scores.instruction, scores.quality} <= {1.0, None}
    assert isinstance(scores.reward, float) and 0 <= scores.reward < 1e-9


def test_scores_are_on_the_scale_and_unknown_where_nothing_spoke() -> None:
    scores = make_scores([(criterion("a", "instruction"), 1.0)])
    assert (scores.instruction, scores.quality, scores.reward) == (4.0, None, 1.0)
    both = make_scores([(criterion("a", "instruction"), 1.0), (criterion("b", "quality"), 0.0)])
    assert (both.instruction, both.quality, both.reward) == (4.0, 1.0, 0.0)
    assert make_scores([]) is None


def measured(measure: str, weight: float = 1.0) -> Criterion:
    return Criterion(measure, measure, weight, (1, 4), "instruction", measure=measure)


def test_an_edit_that_cannot_be_seen_follows_nothing() -> None:
    quality = (criterion("q", "quality"), 1.0)
    color = (measured("color_target"), 0.9)
    unseen = make_measured_scores([(measured("edit_presence"), 0.1), color, quality], ("color",), 1.0)
    seen = make_measured_scores([(measured("edit_presence"), 0.9), color, quality], ("color",), 1.0)
    assert (unseen.instruction, unseen.reward) == (1.0, 0.0)
    assert seen.reward > 0.9
    ungradable = make_measured_scores([(measured("edit_presence"), 0.1), quality], ("other",), 1.0)
    assert (ungradable.reward, ungradable.evidence) == (None, 0.0)


def test_a_measure_grades_only_the_kinds_of_edit_that_it_is_specific_to() -> None:
    similar = [(measured("structure_similarity"), 0.04), (measured("color_similarity", 3.0), 0.64)]
    assert met_kinds(similar, ("color", "pose")) == {}
    assert met_kinds(similar, ("appearance",)) == {"appearance": pytest.approx(0.04**0.25 * 0.64**0.75)}
    scores = make_measured_scores(similar, ("color",), 1.0)
    assert scores.reward is None

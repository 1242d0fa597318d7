"""Rewards of candidates, and ratings of editors: known strengths are found, with finite ratings and intervals."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewardharness.judging.ranking import (
    ELO,
    MEAN,
    CandidateSet,
    Comparison,
    best,
    candidate_rewards,
    comparisons_of,
    cost,
    examples_of,
    rate_editors,
)
from rewardharness.schema import TIE, Example, Failure, ImageInput, Judgment, Scores

STRENGTHS = {"best": 1.2, "good": 0.6, "fair": 0.0, "poor": -0.6, "worst": -1.2}


def drawn(seed: int, each: int) -> list[Comparison]:
    """Comparisons of all pairs of `STRENGTHS`, the first and second place at random."""
    chance = np.random.default_rng(seed)
    rows: list[Comparison] = []
    for one, other in [pair for pair in combinations(STRENGTHS, 2) for _ in range(each)]:
        first, second = (one, other) if chance.random() < 0.5 else (other, one)
        odds = 1 / (1 + np.exp(STRENGTHS[second] - STRENGTHS[first]))
        rows.append((first, second, "A" if chance.random() < odds else "B"))
    return rows


def test_known_strengths_are_recovered_with_intervals_of_their_level() -> None:
    rows = rate_editors(drawn(0, 400))
    assert [row.name for row in rows] == list(STRENGTHS) and [row.place for row in rows] == [1, 2, 3, 4, 5]
    for row in rows:
        assert row.rating == pytest.approx(MEAN + ELO * STRENGTHS[row.name], abs=40) and row.n == 1600
        assert row.interval.low < row.rating < row.interval.high
    gaps = [
        (rated[one].rating - rated[other].rating) / ELO - (STRENGTHS[one] - STRENGTHS[other])
        for rated in ({row.name: row for row in rate_editors(drawn(seed, 30))} for seed in range(20))
        for one, other in combinations(STRENGTHS, 2)
    ]
    assert abs(float(np.mean(gaps))) < 0.1
    inside = [
        row.interval.low <= MEAN + ELO * STRENGTHS[row.name] <= row.interval.high
        for seed in range(60)
        for row in rate_editors(drawn(seed, 20))
    ]
    assert 0.9 <= np.mean(inside) <= 1


@pytest.mark.parametrize(
    ("rows", "order", "equal"),
    [
        ([("a", "b", "A"), ("b", "c", "A")], "abc", False),  # neighbors only
        ([("a", "b", "A"), ("c", "d", "A")], "acbd", False),  # nothing connects a and b with c and d
        ([("a", "b", TIE)] * 9 + [("b", "c", TIE)], "abc", True),
        ([("a", "b", "A")] * 5000, "ab", False),  # a perfect record
        ([("b", "a", "B")] * 5000 + [("a", "c", "B"), ("a", "a", "A"), ("", "a", "A")], "cab", False),
        ([("a", "a", "A")], "", True),  # one editor
        ([], "", True),
    ],
)
def test_every_set_of_comparisons_has_finite_ratings(rows: list[Comparison], order: str, equal: bool) -> None:
    rated = rate_editors(rows)
    assert "".join(row.name for row in rated) == order
    assert all(np.isfinite([row.rating, row.interval.low, row.interval.high]).all() for row in rated)
    assert all(row.interval.high - row.interval.low > 10 for row in rated)
    assert (len({round(row.rating, 6) for row in rated}) <= 1) == equal
    assert sum(row.wins for row in rated) == sum(row.n for row in rated) / 2
    again = rate_editors([(second, first, {"A": "B", "B": "A"}.get(best, best)) for first, second, best in rows])
    assert [row.rating for row in again] == pytest.approx([row.rating for row in rated])


def test_examples_name_the_editors_of_their_candidates() -> None:
    source = ImageInput("source", Path("s.png"))
    edits = tuple(ImageInput(name, Path(name), editor=name) for name in ("x", "y", "z"))
    pairs = [Example("1", "Make it red.", source, edits[:2], TIE), Example("2", "Make it red.", source, edits[:2])]
    assert comparisons_of(pairs) == [("x", "y", TIE)]
    assert comparisons_of([Example("3", "Make it red.", source, edits, "B")]) == [("x", "y", "B"), ("y", "z", "A")]


def field(candidates: int) -> CandidateSet:
    images = tuple(ImageInput(str(index), data=bytes([index])) for index in range(candidates))
    return CandidateSet("f", "make it red", ImageInput("source", data=b"s"), images)


def judgment(example: str, preference=None, reward=None, failure=None) -> Judgment:
    scores = {} if reward is None else {"A": Scores(None, None, reward)}
    return Judgment(example, "test", "test", "", preference, scores=scores, failure=failure)


def as_the_order_says(subject: CandidateSet, order: list[int], method) -> dict[str, Judgment]:
    """Judgments of one who prefers whoever comes first in the order."""
    found = {}
    for example in examples_of(subject, method):
        places = [order.index(image.data[0]) for image in example.candidates]
        if method == "score":
            found[example.id] = judgment(example.id, reward=1 - places[0] / len(order))
        else:
            found[example.id] = judgment(example.id, "A" if places[0] < places[1] else "B")
    return found


@pytest.mark.parametrize("method", ["score", "win_rate"])
@given(order=st.permutations(range(5)))
def test_a_judge_that_is_sure_gives_its_own_order(method, order):
    subject = field(5)
    found = candidate_rewards(subject, method, as_the_order_says(subject, order, method))
    assert sorted(range(5), key=lambda index: -found[index].reward) == list(order)
    assert best(found) == (order[0],)
    assert all(each.judged == each.of and each.failure is None for each in found)


@pytest.mark.parametrize(("candidates", "method", "expected"), [(1, "score", 1), (8, "score", 8), (8, "win_rate", 28)])
def test_it_costs_what_it_says(candidates, method, expected):
    examples = list(examples_of(field(candidates), method))
    assert len(examples) == cost(candidates, method) == expected
    assert len({example.id for example in examples}) == expected


def test_a_failed_judgment_is_no_reward():
    subject = field(3)
    lost = Failure("timeout", "It took too long.")
    found = candidate_rewards(
        subject, "score", {"f#0": judgment("f#0", reward=0.4), "f#1": judgment("f#1", failure=lost)}
    )
    assert [each.reward for each in found] == [0.4, None, None]
    assert [each.failure and each.failure.code for each in found] == [None, "timeout", "missing"]
    assert best(found) == (0,)
    assert best(candidate_rewards(subject, "score", {})) == ()


def test_a_failed_comparison_counts_for_nobody():
    subject = field(3)
    lost = judgment("f#0-1", failure=Failure("timeout", "It took too long."))
    found = candidate_rewards(subject, "win_rate", {"f#0-1": lost, "f#0-2": judgment("f#0-2", "A"), "f#1-2": lost})
    assert [(each.reward, each.judged) for each in found] == [(1.0, 1), (None, 0), (0.0, 1)]
    assert found[1].failure.code == "timeout"


def test_level_candidates_share_and_one_cannot_win():
    found = candidate_rewards(field(2), "win_rate", {"f#0-1": judgment("f#0-1", "tie")})
    assert [each.reward for each in found] == [0.5, 0.5] and best(found) == (0, 1)
    (alone,) = candidate_rewards(field(1), "win_rate", {})
    assert alone.reward is None and alone.failure.code == "input"


@settings(max_examples=30)
@given(st.integers(2, 7), st.data())
def test_wins_add_up(candidates, data):
    """Every comparison gives one point in all, to whomever."""
    subject = field(candidates)
    answers = {
        f"f#{a}-{b}": judgment("x", data.draw(st.sampled_from(["A", "B", "tie"])))
        for a, b in combinations(range(candidates), 2)
    }
    found = candidate_rewards(subject, "win_rate", answers)
    assert sum(each.reward * each.judged for each in found) == pytest.approx(cost(candidates, "win_rate"))

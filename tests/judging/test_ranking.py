"""Ratings of editors: known strengths are found, and all comparisons give finite ratings with honest intervals."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from rewardharness.judging.ranking import ELO, MEAN, Comparison, comparisons_of, rate_editors
from rewardharness.schema import TIE, Example, ImageInput

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

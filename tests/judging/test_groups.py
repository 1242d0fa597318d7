from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from rewardharness.judging.groups import rank

LABELS = ("A", "B", "C", "D")
margins = st.fixed_dictionaries({pair: st.floats(-1, 1, allow_nan=False, width=16) for pair in combinations(LABELS, 2)})


@pytest.mark.parametrize(
    ("labels", "given_margins", "ranking"),
    [
        ("ABC", {"AB": -0.2, "AC": 0.1, "BC": 0.3}, "B A C"),
        ("AB", {"AB": 0.0}, "AB"),
        ("ABC", {"AB": 0.5, "BC": 0.2, "AC": -0.1}, "A C B"),  # a cycle is ordered by its margins
        ("ABC", {"AB": 0.5}, "A C B"),  # a missing pair counts for neither
        ("ABC", {}, "ABC"),
    ],
)
def test_candidates_are_ranked_by_wins_and_then_by_margins(
    labels: str, given_margins: dict[str, float], ranking: str
) -> None:
    found = rank(tuple(labels), {tuple(pair): margin for pair, margin in given_margins.items()})
    assert found == tuple(map(tuple, ranking.split()))


@examples(max_examples=40)
@given(margins)
def test_the_order_of_labels_and_pairs_does_not_matter(values: dict[tuple[str, str], float]) -> None:
    expected = rank(LABELS, values)
    turned = {(b, a): -lead for (a, b), lead in reversed(values.items())}
    for labels in permutations(LABELS):
        assert rank(labels, values) == expected
    assert rank(LABELS, turned) == expected
    assert sorted(label for level in expected for label in level) == list(LABELS)

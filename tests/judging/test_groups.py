from itertools import combinations, permutations

from hypothesis import given
from hypothesis import strategies as st

from rewardharness.judging.groups import rank

LABELS = ("A", "B", "C", "D")
margins = st.fixed_dictionaries({pair: st.floats(-1, 1, allow_nan=False, width=16) for pair in combinations(LABELS, 2)})


def test_transitive_margins_give_their_order() -> None:
    assert rank(("A", "B", "C"), {("A", "B"): -0.2, ("A", "C"): 0.1, ("B", "C"): 0.3}) == (("B",), ("A",), ("C",))


def test_level_candidates_share_a_place() -> None:
    assert rank(("A", "B"), {("A", "B"): 0.0}) == (("A", "B"),)


def test_a_cycle_is_ordered_by_its_margins() -> None:
    cycle = {("A", "B"): 0.5, ("B", "C"): 0.2, ("A", "C"): -0.1}
    assert rank(("A", "B", "C"), cycle) == (("A",), ("C",), ("B",))


def test_a_missing_pair_counts_for_neither() -> None:
    assert rank(("A", "B", "C"), {("A", "B"): 0.5}) == (("A",), ("C",), ("B",))
    assert rank(("A", "B", "C"), {}) == (("A", "B", "C"),)


@given(margins)
def test_the_order_of_labels_and_pairs_does_not_matter(values: dict[tuple[str, str], float]) -> None:
    expected = rank(LABELS, values)
    turned = {(b, a): -lead for (a, b), lead in reversed(values.items())}
    for labels in permutations(LABELS):
        assert rank(labels, values) == expected
    assert rank(LABELS, turned) == expected
    assert sorted(label for level in expected for label in level) == list(LABELS)

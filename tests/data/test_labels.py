"""Values of labels: what is read, and that nothing is guessed."""

import itertools

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from rewardharness.data.cells import UnknownLabelError, best_by_score, label_key, read_label, read_values
from rewardharness.errors import InputError
from rewardharness.schema import LABELS, TIE


@pytest.mark.parametrize(
    ("value", "count", "label"),
    [
        *(("leftvote", 2, "A"), ("rightvote", 2, "B"), ("tievote", 2, TIE), ("bothbad_vote", 2, TIE)),
        *((" Model_B ", 2, "B"), ("d", 4, "D"), ("A>B", 2, "A"), ("[[B>>A]]", 2, "B"), ("A=B", 2, TIE)),
        *(("A < B", 2, "B"), ("c>a=b", 3, "C"), ("A<B=C", 3, TIE), ("A=B>C", 3, TIE), ("A<C<B", 3, "B")),
        *((None, 2, None), ("  ", 2, None), (float("nan"), 2, None)),
    ],
)
def test_the_usual_words_are_read(value: object, count: int, label: str | None) -> None:
    assert read_label(value, count) == label


@pytest.mark.parametrize(
    "value", ["0", 1, True, -1, "C", "A>C", "A>A", "A<B>A", "A>B>C", "yes", "AB", ">", "A>", "e", float("inf")]
)
def test_whatever_else_stands_there_is_unknown(value: object) -> None:
    with pytest.raises(UnknownLabelError):
        read_label(value, 2)


@examples(max_examples=50)
@given(
    st.integers(2, 4).flatmap(
        lambda n: st.tuples(
            st.permutations(LABELS[:n]), st.lists(st.sampled_from(">="), min_size=n - 1, max_size=n - 1)
        )
    )
)
def test_an_order_means_the_same_read_from_either_end(order: tuple[list[str], list[str]]) -> None:
    letters, signs = order
    falling = "".join(part for pair in itertools.zip_longest(letters, signs, fillvalue="") for part in pair)
    rising = "".join("<" if part == ">" else part for part in reversed(falling))
    expected = TIE if signs[0] == "=" else letters[0]
    assert read_label(falling, len(letters)) == expected
    if ">" in signs:
        assert read_label(rising, len(letters)) == expected
    assert read_label(f"[[{' '.join(falling)}]]".lower(), len(letters)) == expected


@given(st.one_of(st.text(max_size=12), st.integers(), st.floats(), st.booleans(), st.none()), st.integers(2, 4))
def test_a_label_is_a_letter_that_is_there_or_a_tie_or_none_or_unknown(value: object, count: int) -> None:
    try:
        label = read_label(value, count)
    except UnknownLabelError:
        return
    assert label in (None, TIE, *LABELS[:count])


@examples(max_examples=50)
@given(st.dictionaries(st.text(min_size=1, max_size=8), st.sampled_from(["A", "b", "TIE", None, ""]), min_size=1))
def test_a_map_says_exactly_what_it_says(given_map: dict[str, str | None]) -> None:
    try:
        values = read_values(given_map)
    except InputError:
        keys = [label_key(key) for key in given_map]
        assert "" in keys or len(set(keys)) < len(keys)
        return
    for key, meaning in given_map.items():
        expected = {"a": "A", "b": "B", "tie": TIE, "": None}[(meaning or "").lower()]
        assert read_label(key, 2, values) == expected
        assert read_label(f"  {key.upper().lower()} ", 2, values) == expected or key.upper().lower() != key.lower()


def test_counted_candidates_need_to_be_said_to_be() -> None:
    assert [read_label(value, 2, read_values("from-0")) for value in (0, "1", 1.0)] == ["A", "B", "B"]
    assert [read_label(value, 3, read_values("from-1")) for value in (1, "3")] == ["A", "C"]
    for wrong in (2, "A"):
        with pytest.raises(UnknownLabelError):
            read_label(wrong, 2, read_values("from-0"))
    assert read_label(True, 2, read_values({True: "A", False: "B"})) == "A"


@pytest.mark.parametrize(
    "given_map", [{"x": "E"}, {"x": "better"}, {"": "A"}, {}, "from-2", 3, {"A b": "A", "a_B": "B"}]
)
def test_a_map_that_cannot_be_meant_is_refused(given_map: object) -> None:
    with pytest.raises(InputError):
        read_values(given_map)


numbers = st.one_of(st.integers(-9, 9), st.floats(-9, 9))


@given(st.lists(numbers, min_size=2, max_size=4))
def test_the_highest_score_wins_and_ranks_are_its_mirror(scores: list[float]) -> None:
    best = best_by_score(scores)
    if best == TIE:
        assert scores.count(max(scores)) > 1
    else:
        assert best is not None and scores[LABELS.index(best)] == max(scores) and scores.count(max(scores)) == 1
    assert best_by_score([-score for score in scores], lowest=True) == best
    assert best_by_score([str(score) for score in scores]) == best


def test_a_missing_score_is_no_label_and_a_word_is_unknown() -> None:
    assert best_by_score([1, None]) is None and best_by_score([1, ""]) is None
    assert best_by_score([float("nan"), 1]) is None
    for wrong in ("good", True, "inf"):
        with pytest.raises(UnknownLabelError):
            best_by_score([1, wrong])

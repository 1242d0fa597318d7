import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardharness.judging.measured_critique import WORDS
from rewardharness.judging.measured_reasons import CONTRASTS, contrast, split_reason
from rewardharness.measure.reading import Reading
from rewardharness.measure.table import MEASURES

SENTENCES = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), min_size=1, max_size=60)


def reading(grade: float, sentence: str = "It is 0.5.") -> Reading:
    return Reading({}, grade, sentence)


@pytest.mark.parametrize(
    ("name", "ours", "theirs", "plain"),
    [
        ("preservation", 0.9, 0.2, "A also changed the rest of the image; B left the rest alone."),
        ("preservation", 0.9, 0.7, "B is better at leaving the rest alone than A."),
        ("preservation", 0.4, 0.1, "Neither is good at leaving the rest alone; B is better than A."),
        ("edit_extent", 0.3, 0.1, "A changed more of the image than needed; B changed little else."),
        ("edit_extent", 0.3, 0.28, "B is better at changing no more than needed than A."),
        ("gloss_similarity", 0.8, 0.1, "B is better at gloss similarity than A."),
    ],
)
def test_what_sets_candidates_apart_is_said_as_a_person_would(
    name: str, ours: float, theirs: float, plain: str
) -> None:
    assert split_reason(contrast(name, "B", reading(ours), "A", reading(theirs)))[0] == plain


@given(st.sampled_from(sorted(MEASURES)), SENTENCES, SENTENCES)
def test_the_numbers_are_kept_beside_the_words(name: str, ours: str, theirs: str) -> None:
    plain, numbers = split_reason(contrast(name, "B", reading(0.9, ours), "A", reading(0.1, theirs)))
    assert plain.endswith(".") and set(numbers) == {"A", "B"}
    joined = f"{name.replace('_', ' ').capitalize()} of A: "
    if joined not in f"{ours} {theirs}":
        assert numbers == {"B": ours, "A": theirs}


def test_measures_with_a_contrast_are_those_with_a_critique() -> None:
    assert set(WORDS) - {"moved_region"} <= set(CONTRASTS) <= set(MEASURES)


def test_a_reason_of_a_model_is_left_as_it_is() -> None:
    assert split_reason("B is sharper.") == ("B is sharper.", {})

import math

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardharness.judging.instruction import read_instruction
from rewardharness.judging.measured_critique import WORDS, split_problem
from rewardharness.judging.measured_reasons import (
    CONTRASTS,
    HIGH,
    LEFT_ALONE,
    LOW,
    NOTICEABLE,
    NOTICEABLE_IN,
    contrast,
    contrasts,
    split_reason,
)
from rewardharness.measure.images import load_picture
from rewardharness.measure.planes import Reading
from rewardharness.measure.regions import preservation
from rewardharness.measure.table import MEASURES
from rewardharness.measure.view import EditView
from rewardharness.schema import ImageInput

SENTENCES = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), min_size=1, max_size=60)


def reading(grade: float, sentence: str = "It is 0.5.", share: float | None = None) -> Reading:
    shares = {} if share is None else {"changed_share": share}
    return Reading(shares, grade, sentence)


@pytest.mark.parametrize(
    ("name", "ours", "theirs", "plain"),
    [
        ("preservation", reading(0.9, share=0.05), 0.2, "A also changed the rest of the image; B left the rest alone."),
        ("preservation", reading(0.9, share=0.36), 0.2, "B changed less of the rest than A."),
        ("preservation", reading(0.9), 0.6, "B changed less of the rest than A."),
        ("preservation", reading(0.9), 0.75, ""),
        ("edit_extent", reading(0.9), 0.1, "B changed less of the image than A."),
        ("seam", reading(0.85), 0.2, "A has a visible seam or pasted border; B blends the edit in."),
        ("seam", reading(math.exp(-7.4 / 12)), math.exp(-7.9 / 12), ""),
        ("sharpness", reading(0.9), 0.65, ""),
        ("gloss_similarity", reading(0.8), 0.1, "B has a higher gloss similarity than A."),
    ],
)
def test_what_sets_candidates_apart_is_said_as_a_person_would(
    name: str, ours: Reading, theirs: float, plain: str
) -> None:
    assert split_reason(contrast(name, "B", ours, "A", reading(theirs)))[0] == plain


@given(st.sampled_from(sorted(MEASURES)), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_a_sentence_needs_a_noticeable_difference_and_its_threshold(
    name: str, ours: float, theirs: float, share: float
) -> None:
    better, worse = max(ours, theirs), min(ours, theirs)
    said = contrast(name, "A", reading(better, share=share), "B", reading(worse, share=share))
    least = NOTICEABLE_IN.get(name, NOTICEABLE)
    assert bool(said) == (better - worse >= least) or abs(better - worse - least) < 1e-5
    if ";" in split_reason(said)[0]:
        assert better >= HIGH and worse < LOW
    assert "left the rest alone" not in said or share <= LEFT_ALONE


@pytest.mark.parametrize(("share", "side", "alone"), [(0.0, 50, True), (0.36, 75, False)])
def test_an_edit_that_repaints_much_of_the_rest_did_not_leave_it_alone(share: float, side: int, alone: bool) -> None:
    rng = np.random.default_rng(1)
    source = cv2.GaussianBlur(rng.integers(40, 216, (256, 256, 3), np.uint8), (0, 0), 5)
    edit = source.copy()
    edit[20 : 20 + side, 20 : 20 + side] = (200, 20, 20)
    edit[256 - round(share * (256 - side * side / 256)) :] = (20, 90, 200)
    request, before = read_instruction("make the box red"), load_picture(ImageInput.of(source))
    ours = preservation(EditView(before, load_picture(ImageInput.of(edit))), request)
    assert ours.grade is not None and ours.grade >= HIGH  # outside both places nothing changed
    said = split_reason(contrast("preservation", "A", ours, "B", reading(0.0)))[0]
    assert ("A left the rest alone" in said) == alone and (said == "A changed less of the rest than B.") != alone


def test_the_color_is_not_compared_with_that_of_a_repainted_image() -> None:
    for share, said in ((0.2, ("A comes closer to the requested color than B.",)), (0.5, ())):
        ours, theirs = ({"color_target": reading(grade), "edit_extent": reading(0.5, share=much)}
                        for grade, much in ((0.9, 0.1), (0.4, share)))  # fmt: skip
        found = contrasts(["color_target", "edit_extent"], "A", ours, "B", theirs)
        assert tuple(split_reason(each)[0] for each in found) == said


@given(st.sampled_from(sorted(MEASURES)), SENTENCES, SENTENCES)
def test_the_numbers_are_kept_beside_the_words(name: str, ours: str, theirs: str) -> None:
    plain, numbers = split_reason(contrast(name, "B", reading(0.9, ours), "A", reading(0.1, theirs)))
    assert plain.endswith(".") and set(numbers) == {"A", "B"}
    joined = f"{name.replace('_', ' ').capitalize()} of A: "
    if joined not in f"{ours} {theirs}":
        assert numbers == {"B": ours, "A": theirs}


def test_measures_with_a_contrast_are_those_with_a_critique() -> None:
    assert set(WORDS) <= set(CONTRASTS) <= set(MEASURES)
    assert split_problem(f"{WORDS['seam'][0]} It is 0.5 L.") == (WORDS["seam"][0], "It is 0.5 L.")


def test_a_reason_of_a_model_is_left_as_it_is() -> None:
    assert split_reason("B is sharper.") == ("B is sharper.", {})

"""Whole-image similarity: equal images get the best grade, and each measure sees what it is named for."""

import cv2
import numpy as np
import pytest
from drawn_edits import photo, view

from rewardharness.judging.instruction import read_instruction
from rewardharness.measure.table import MEASURES

REQUEST = read_instruction("Keep the same material appearance.")
NAMES = [name for name, measure in MEASURES.items() if measure.same_look]
SOURCE = photo("chelsea", 240, 160)


def grades(candidate: np.ndarray) -> dict[str, float]:
    edit = view(SOURCE, candidate)
    return {name: MEASURES[name].function(edit, REQUEST).grade or 0.0 for name in NAMES}


def test_equal_images_have_the_best_grade() -> None:
    assert len(NAMES) == 6 and all(grade > 0.99 for grade in grades(SOURCE).values())


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("structure_similarity", lambda image: image[::-1, ::-1].copy()),
        ("brightness_similarity", lambda image: (image * 0.5).astype(np.uint8)),
        ("color_similarity", lambda image: image[..., ::-1].copy()),
        ("detail_similarity", lambda image: cv2.GaussianBlur(image, (0, 0), 4)),
    ],
)
def test_each_measure_sees_its_change_more_than_a_small_one(name, change):
    matte = np.minimum(SOURCE, np.percentile(SOURCE, 70)).astype(np.uint8)
    dimmed = grades(matte)
    assert dimmed["highlight_similarity"] < 0.75 and dimmed["gloss_similarity"] < 0.95

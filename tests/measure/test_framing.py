import cv2
import numpy as np
import pytest
from drawn_edits import blend, disc, grade, photo, view

from rewardharness.measure.framing import reframing, unrequested
from rewardharness.measure.quality import frame_match
from rewardharness.measure.regions import edit_presence
from rewardharness.schema import EditRequest

CAT, COFFEE = photo("chelsea", 240, 160), photo("coffee", 240, 160)
ADD = EditRequest("add a cup", ("add",), "local")
HEIGHT, WIDTH = CAT.shape[:2]


def cropped(picture: np.ndarray, share: float) -> np.ndarray:
    down, across = (round(side * (1 - share) / 2) for side in picture.shape[:2])
    part = picture[down : picture.shape[0] - down, across : picture.shape[1] - across]
    return np.asarray(cv2.resize(part, picture.shape[1::-1], interpolation=cv2.INTER_CUBIC))


def rotated(picture: np.ndarray, degrees: float) -> np.ndarray:
    turn = cv2.getRotationMatrix2D((picture.shape[1] / 2, picture.shape[0] / 2), degrees, 1.0)
    return np.asarray(cv2.warpAffine(picture, turn, picture.shape[1::-1], borderMode=cv2.BORDER_REFLECT))


@pytest.mark.parametrize("moved", [cropped(CAT, 0.93), cropped(CAT, 0.85), rotated(CAT, 2.5)])
def test_a_moved_frame_is_no_edit_unless_it_is_requested(moved: np.ndarray) -> None:
    assert grade(edit_presence, CAT, moved, ADD) < 0.1
    assert grade(frame_match, CAT, moved, ADD) < 0.6
    turn = EditRequest("zoom in and rotate the picture", ("other",), "local")
    assert unrequested(view(CAT, moved), turn).explained == 0.0
    assert grade(frame_match, CAT, moved, turn) > 0.9


def test_an_edit_is_not_explained_by_movement_and_counts_in_a_moved_frame() -> None:
    edited = blend(CAT, COFFEE, disc(HEIGHT, WIDTH, (0.3, 0.4), 0.2))
    assert reframing(view(CAT, edited)).explained < 0.05
    assert grade(frame_match, CAT, edited, ADD) > 0.95
    assert grade(edit_presence, CAT, rotated(edited, 2.0), ADD) > 0.5
    assert reframing(view(CAT, COFFEE)).explained < 0.05

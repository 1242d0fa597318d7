import cv2
import numpy as np
import pytest
from drawn_edits import blend, disc, grade, photo, recolored, view

from rewardharness.measure.structure import (
    added_structure,
    background_change,
    removal_fill,
    scene_kept,
    structure_kept,
    subject_likeness,
)
from rewardharness.schema import EditRequest

CAT, COFFEE = photo("chelsea", 240, 160), photo("coffee", 240, 160)
COLOR = EditRequest("make the cat blue", ("color",), "local", colors=("blue",))
ADD = EditRequest("add a cup", ("add",), "local")
REMOVE = EditRequest("remove the ball", ("remove",), "local")
BACKGROUND = EditRequest("change the background to a forest", ("background", "replace"), "global")


def test_recoloring_keeps_structure_and_another_picture_does_not() -> None:
    mask = disc(*CAT.shape[:2], radius=0.3)
    red, blue = (recolored(CAT, color, mask) for color in ((210, 40, 40), (40, 80, 210)))
    grades = [grade(structure_kept, red, each, COLOR) for each in (COFFEE, blend(red, COFFEE, mask), blue, red)]
    assert grades == sorted(grades) and grades[0] < 0.25 and grades[2] > 0.9
    assert grades[3] > 0.999
    assert grade(structure_kept, CAT, 255 - CAT, COLOR) > 0.8, "inverted light keeps it too"
    assert structure_kept(view(CAT, CAT), ADD).grade is None, "where things are added"


def test_a_blank_picture_shows_no_scene() -> None:
    flat = np.full_like(CAT, CAT.mean(axis=(0, 1)).round().astype(np.uint8))
    assert scene_kept(view(CAT, flat)) == 0 and scene_kept(view(CAT, np.zeros_like(CAT))) == 0
    assert scene_kept(view(CAT, recolored(CAT, (210, 40, 40), disc(*CAT.shape[:2], radius=0.3)))) > 0.9
    assert scene_kept(view(flat, flat)) == 1


def test_a_new_thing_grades_with_its_visibility() -> None:
    mask = disc(*CAT.shape[:2], (0.3, 0.4), 0.2)
    clear, faint = blend(CAT, COFFEE, mask), blend(CAT, COFFEE, 0.25 * mask)
    noise = CAT + np.random.default_rng(5).normal(0, 6, CAT.shape)
    grades = [grade(added_structure, CAT, each, ADD) for each in (CAT, faint, clear)]
    assert grades == sorted(grades) and grades[2] > 0.7 > 0.1 > grades[0]
    assert grade(added_structure, CAT, noise, ADD) < 0.3
    assert grade(added_structure, CAT, COFFEE, ADD) < grades[2] - 0.3
    assert added_structure(view(CAT, clear), COLOR).grade is None


@pytest.fixture(scope="module")
def removal() -> dict[str, np.ndarray]:
    """A ball on a table, and what removing it can leave behind."""
    mask = disc(*COFFEE.shape[:2], (0.2, 0.35), 0.13)
    shade = np.linspace(0.6, 1.2, COFFEE.shape[1])[None, :, None] * np.array([40.0, 160.0, 70.0])
    ball = blend(COFFEE, np.broadcast_to(shade, COFFEE.shape), mask)
    cv2.circle(ball, (42, 52), 6, (250, 250, 120), -1, cv2.LINE_AA)
    hole = (cv2.dilate((mask > 0.02).astype(np.uint8), np.ones((5, 5), np.uint8))).astype(np.uint8)
    half = hole.copy()
    half[:, : round(0.2 * COFFEE.shape[1])] = 0
    filled = cv2.inpaint(ball, hole, 5, cv2.INPAINT_TELEA)
    return {
        "source": ball,
        "filled": filled,
        "half": cv2.inpaint(ball, half, 5, cv2.INPAINT_TELEA),
        "ghost": blend(ball, filled, np.full(mask.shape, 0.6, np.float32)),
        "plate": blend(ball, np.full_like(ball, 128), hole.astype(np.float32)),
        "recolored": recolored(ball, (200, 30, 30), mask),
    }


@pytest.mark.parametrize("worse", ["half", "ghost", "plate", "recolored", "source"])
def test_a_clean_fill_grades_above_what_leaves_traces(worse: str, removal: dict[str, np.ndarray]) -> None:
    clean = grade(removal_fill, removal["source"], removal["filled"], REMOVE)
    assert clean > 0.7 and grade(removal_fill, removal["source"], removal[worse], REMOVE) < clean - 0.05


def test_nothing_and_everything_changed_is_no_removal(removal: dict[str, np.ndarray]) -> None:
    source = removal["source"]
    assert grade(removal_fill, source, source, REMOVE) == 0.0
    assert grade(removal_fill, source, photo("astronaut"), REMOVE) < 0.2
    assert removal_fill(view(source, removal["filled"]), ADD).grade is None


def test_a_new_background_behind_a_kept_subject() -> None:
    subject = disc(*CAT.shape[:2], (0.5, 0.6), 0.38)
    source = blend(np.full_like(COFFEE, 90), CAT, subject)
    moved, subject_lost = blend(COFFEE, CAT, subject), blend(source, COFFEE, subject)
    grades = [grade(background_change, source, each, BACKGROUND) for each in (source, subject_lost, COFFEE, moved)]
    assert grades == sorted(grades) and grades[3] > max(grades[:3]) + 0.3
    kept = [grade(structure_kept, source, each, BACKGROUND) for each in (COFFEE, moved)]
    assert kept[1] > kept[0] + 0.3


def test_a_thing_in_the_background_is_not_the_background() -> None:
    asked = EditRequest("remove the man in the background", ("background", "remove"), "local")
    assert background_change(view(CAT, COFFEE), asked).grade is None
    assert removal_fill(view(CAT, COFFEE), asked).grade is not None
    without = EditRequest("remove the background", ("background", "remove"), "local")
    assert background_change(view(CAT, COFFEE), without).grade is not None
    assert removal_fill(view(CAT, COFFEE), without).grade is None


def test_the_subject_is_what_is_central_and_unlike_the_border() -> None:
    scene = np.full((200, 300, 3), (90, 120, 160), np.uint8)
    mask = disc(200, 300, (0.5, 0.55), 0.3)
    likeness = subject_likeness(view(blend(scene, np.full_like(scene, (200, 60, 40)), mask), scene).before)
    assert likeness[mask > 0.9].mean() > 3 * likeness[mask < 0.1].mean()


def test_a_plain_box_of_the_color_is_no_added_thing_unless_a_flat_thing_is_requested() -> None:
    cat = photo("chelsea")
    box = cat.copy()
    box[20:90, 30:120] = (216, 30, 30)
    ball = recolored(cat, (216, 30, 30), disc(*cat.shape[:2], (0.2, 0.2), 0.12))
    request = EditRequest("Add a red ball", ("add",), "local", colors=("red",))
    assert grade(added_structure, cat, box, request) < 0.15 < 0.3 < grade(added_structure, cat, ball, request)
    flag = EditRequest("Add a red flag", ("add",), "local", colors=("red",))
    assert grade(added_structure, cat, box, flag) > 0.5
    left = EditRequest("Add a red ball on the left", ("add",), "local", colors=("red",))
    right = EditRequest("Add a red ball on the right", ("add",), "local", colors=("red",))
    assert grade(added_structure, cat, ball, left) > 3 * grade(added_structure, cat, ball, right)

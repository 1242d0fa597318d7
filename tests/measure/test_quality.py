import cv2
import numpy as np
from drawn_edits import CAT, COFFEE, blend, disc, grade, jpeg, view

from rewardharness.measure.quality import blockiness, clipping, frame_match, noise, seam, sharpness
from rewardharness.schema import EditRequest

REPLACE = EditRequest("replace the cat with a rocket", ("replace",), "local")


def noisy(picture: np.ndarray, sigma: float) -> np.ndarray:
    return picture + np.random.default_rng(7).normal(0, sigma, picture.shape)


def box_mask(picture: np.ndarray, softness: float) -> np.ndarray:
    mask = np.zeros(picture.shape[:2], np.float32)
    mask[100:220, 150:310] = 1.0
    return cv2.GaussianBlur(mask, (0, 0), softness) if softness else mask


def test_an_unchanged_picture_has_nothing_wrong() -> None:
    for measure in (sharpness, noise, blockiness, clipping, frame_match):
        assert grade(measure, CAT, CAT, REPLACE) > 0.9
    assert seam(view(CAT, CAT), REPLACE).grade is None


def test_blur_costs_more_the_stronger_it_is_and_oversharpening_too() -> None:
    grades = [grade(sharpness, CAT, cv2.GaussianBlur(CAT, (0, 0), sigma), REPLACE) for sigma in (0.4, 0.8, 1.6, 3.0)]
    assert grades == sorted(grades, reverse=True) and len(set(grades)) == 4 and grades[-1] < 0.4
    assert grade(sharpness, CAT, CAT * 2.5 - cv2.GaussianBlur(CAT, (0, 0), 1.5) * 1.5, REPLACE) < 0.85


def test_a_blurred_insert_is_seen_inside_a_sharp_picture() -> None:
    mask = disc(*CAT.shape[:2], radius=0.3)
    sharp, soft = blend(CAT, COFFEE, mask), blend(CAT, cv2.GaussianBlur(COFFEE, (0, 0), 2.5), mask)
    assert grade(sharpness, CAT, sharp, REPLACE) > grade(sharpness, CAT, soft, REPLACE) + 0.1


def test_blur_that_was_asked_for_is_not_graded() -> None:
    asked = EditRequest("blur it", ("tone",), "global", tones=("blurrier",))
    assert sharpness(view(CAT, cv2.GaussianBlur(CAT, (0, 0), 3)), asked).grade is None


def test_a_soft_source_is_not_held_against_the_candidate() -> None:
    soft, soft_other = (cv2.GaussianBlur(each, (0, 0), 2.0) for each in (CAT, COFFEE))
    assert grade(sharpness, soft, blend(soft, soft_other, disc(*CAT.shape[:2])), REPLACE) > 0.85


def test_noise_is_measured_in_gray_levels() -> None:
    calm = cv2.GaussianBlur(CAT, (0, 0), 1.5)
    grades = [grade(noise, calm, noisy(calm, sigma), REPLACE) for sigma in (0, 2, 5, 12)]
    assert grades == sorted(grades, reverse=True)
    added = noise(view(calm, np.repeat(noisy(calm[..., :1], 8), 3, axis=2)), REPLACE).quantities["added"]
    assert 5 < added < 9
    grainy = noisy(CAT, 10)
    assert grade(noise, grainy, grainy, REPLACE) > 0.9, "that of the source costs nothing"


def test_strong_jpeg_shows_as_blocks() -> None:
    grades = [grade(blockiness, CAT, jpeg(CAT, quality), REPLACE) for quality in (10, 30, 90)]
    assert grades == sorted(grades) and grades[0] < 0.5 < 0.9 < grades[2]
    blocky = jpeg(CAT, 10)
    assert grade(blockiness, blocky, blocky, REPLACE) > 0.9


def test_blown_highlights_and_drowned_shadows_cost() -> None:
    bright, blown, drowned = CAT * 1.1, CAT * 2.2, CAT.astype(np.float32) * 2 - 240
    assert grade(clipping, CAT, bright, REPLACE) > 0.9 and grade(clipping, CAT, blown, REPLACE) < 0.6
    assert grade(clipping, CAT, drowned, REPLACE) < 0.6


def test_white_that_was_asked_for_is_not_clipping() -> None:
    white = blend(CAT, np.full_like(CAT, 255), disc(*CAT.shape[:2], radius=0.4))
    asked = EditRequest("make it white", ("color",), "local", colors=("white",))
    assert grade(clipping, CAT, white, asked) > grade(clipping, CAT, white, REPLACE) + 0.3


def test_a_pasted_rectangle_shows_more_than_a_feathered_one() -> None:
    hard, soft = (blend(CAT, COFFEE, box_mask(CAT, softness)) for softness in (0, 12))
    bordered = hard.copy()
    cv2.rectangle(bordered, (150, 100), (309, 219), (255, 255, 255), 3)
    round_ = blend(CAT, COFFEE, disc(*CAT.shape[:2], radius=0.22))
    grades = [grade(seam, CAT, each, REPLACE) for each in (bordered, hard, round_, soft)]
    assert grades == sorted(grades) and grades[3] > grades[1] + 0.3


def test_bars_and_frames_are_found() -> None:
    barred = CAT.copy()
    barred[:32] = barred[-32:] = 0
    framed = cv2.copyMakeBorder(CAT[12:-12, 12:-12], 12, 12, 12, 12, cv2.BORDER_CONSTANT, value=(255, 255, 255))
    assert grade(frame_match, CAT, barred, REPLACE) < 0.5 and grade(frame_match, CAT, framed, REPLACE) < 0.7
    assert grade(frame_match, barred, barred, REPLACE) > 0.99
    asked = EditRequest("add a white border", ("add",), "local")
    assert grade(frame_match, CAT, framed, asked) > 0.95


def test_another_shape_or_a_small_size_costs() -> None:
    squashed = cv2.resize(CAT, (320, 320))
    half, double = cv2.resize(CAT, (240, 160)), cv2.resize(CAT, (960, 640))
    assert grade(frame_match, CAT, squashed, REPLACE) < 0.5
    assert grade(frame_match, CAT, half, REPLACE) < 0.75 < 0.9 < grade(frame_match, CAT, double, REPLACE)

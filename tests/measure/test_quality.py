import cv2
import numpy as np
import pytest
from drawn_edits import blend, disc, grade, jpeg, photo, view

from rewardharness.measure.quality import blockiness, clipping, frame_match, noise, seam, sharpness
from rewardharness.schema import EditRequest

REPLACE = EditRequest("replace the cat with a rocket", ("replace",), "local")
ALL = (sharpness, noise, blockiness, clipping, seam, frame_match)


@pytest.fixture(scope="module")
def cat() -> np.ndarray:
    return photo("chelsea")


@pytest.fixture(scope="module")
def other() -> np.ndarray:
    return photo("coffee")


def noisy(picture: np.ndarray, sigma: float) -> np.ndarray:
    return picture + np.random.default_rng(7).normal(0, sigma, picture.shape)


def box_mask(picture: np.ndarray, softness: float) -> np.ndarray:
    mask = np.zeros(picture.shape[:2], np.float32)
    mask[100:220, 150:310] = 1.0
    return cv2.GaussianBlur(mask, (0, 0), softness) if softness else mask


def test_an_unchanged_picture_has_nothing_wrong(cat: np.ndarray) -> None:
    for measure in (sharpness, noise, blockiness, clipping, frame_match):
        assert grade(measure, cat, cat, REPLACE) > 0.9
    assert seam(view(cat, cat), REPLACE).grade is None


def test_blur_costs_more_the_stronger_it_is(cat: np.ndarray) -> None:
    grades = [grade(sharpness, cat, cv2.GaussianBlur(cat, (0, 0), sigma), REPLACE) for sigma in (0.4, 0.8, 1.6, 3.0)]
    assert grades == sorted(grades, reverse=True)
    assert len(set(grades)) == 4
    assert grades[-1] < 0.4


def test_oversharpening_costs_too(cat: np.ndarray) -> None:
    sharpened = cat * 2.5 - cv2.GaussianBlur(cat, (0, 0), 1.5) * 1.5
    assert grade(sharpness, cat, sharpened, REPLACE) < 0.85


def test_a_blurred_insert_is_seen_inside_a_sharp_picture(cat: np.ndarray, other: np.ndarray) -> None:
    mask = disc(*cat.shape[:2], radius=0.3)
    sharp, soft = blend(cat, other, mask), blend(cat, cv2.GaussianBlur(other, (0, 0), 2.5), mask)
    assert grade(sharpness, cat, sharp, REPLACE) > grade(sharpness, cat, soft, REPLACE) + 0.1


def test_blur_that_was_asked_for_is_not_graded(cat: np.ndarray) -> None:
    asked = EditRequest("blur it", ("tone",), "global", tones=("blurrier",))
    assert sharpness(view(cat, cv2.GaussianBlur(cat, (0, 0), 3)), asked).grade is None


def test_a_soft_source_is_not_held_against_the_candidate(cat: np.ndarray, other: np.ndarray) -> None:
    soft, soft_other = (cv2.GaussianBlur(each, (0, 0), 2.0) for each in (cat, other))
    assert grade(sharpness, soft, blend(soft, soft_other, disc(*cat.shape[:2])), REPLACE) > 0.85


def test_noise_is_measured_in_gray_levels(cat: np.ndarray) -> None:
    calm = cv2.GaussianBlur(cat, (0, 0), 1.5)
    grades = [grade(noise, calm, noisy(calm, sigma), REPLACE) for sigma in (0, 2, 5, 12)]
    assert grades == sorted(grades, reverse=True)
    added = noise(view(calm, np.repeat(noisy(calm[..., :1], 8), 3, axis=2)), REPLACE).quantities["added"].value
    assert 5 < added < 9


def test_noise_of_the_source_costs_nothing(cat: np.ndarray) -> None:
    grainy = noisy(cat, 10)
    assert grade(noise, grainy, grainy, REPLACE) > 0.9


def test_strong_jpeg_shows_as_blocks(cat: np.ndarray) -> None:
    grades = [grade(blockiness, cat, jpeg(cat, quality), REPLACE) for quality in (10, 30, 90)]
    assert grades == sorted(grades)
    assert grades[0] < 0.5 < 0.9 < grades[2]
    blocky = jpeg(cat, 10)
    assert grade(blockiness, blocky, blocky, REPLACE) > 0.9


def test_blown_highlights_and_drowned_shadows_cost(cat: np.ndarray) -> None:
    bright, blown, drowned = cat * 1.1, cat * 2.2, cat.astype(np.float32) * 2 - 240
    assert grade(clipping, cat, bright, REPLACE) > 0.9
    assert grade(clipping, cat, blown, REPLACE) < 0.6
    assert grade(clipping, cat, drowned, REPLACE) < 0.6


def test_white_that_was_asked_for_is_not_clipping(cat: np.ndarray) -> None:
    white = blend(cat, np.full_like(cat, 255), disc(*cat.shape[:2], radius=0.4))
    asked = EditRequest("make it white", ("color",), "local", colors=("white",))
    assert grade(clipping, cat, white, asked) > grade(clipping, cat, white, REPLACE) + 0.3


def test_a_pasted_rectangle_shows_more_than_a_feathered_one(cat: np.ndarray, other: np.ndarray) -> None:
    hard, soft = (blend(cat, other, box_mask(cat, softness)) for softness in (0, 12))
    bordered = hard.copy()
    cv2.rectangle(bordered, (150, 100), (309, 219), (255, 255, 255), 3)
    round_ = blend(cat, other, disc(*cat.shape[:2], radius=0.22))
    grades = [grade(seam, cat, each, REPLACE) for each in (bordered, hard, round_, soft)]
    assert grades == sorted(grades)
    assert grades[3] > grades[1] + 0.3


def test_bars_and_frames_are_found(cat: np.ndarray) -> None:
    barred = cat.copy()
    barred[:32] = barred[-32:] = 0
    framed = cv2.copyMakeBorder(cat[12:-12, 12:-12], 12, 12, 12, 12, cv2.BORDER_CONSTANT, value=(255, 255, 255))
    assert grade(frame_match, cat, barred, REPLACE) < 0.5
    assert grade(frame_match, cat, framed, REPLACE) < 0.7
    assert grade(frame_match, barred, barred, REPLACE) > 0.99
    asked = EditRequest("add a white border", ("add",), "local")
    assert grade(frame_match, cat, framed, asked) > 0.95


def test_another_shape_or_a_small_size_costs(cat: np.ndarray) -> None:
    squashed = cv2.resize(cat, (320, 320))
    half, double = cv2.resize(cat, (240, 160)), cv2.resize(cat, (960, 640))
    assert grade(frame_match, cat, squashed, REPLACE) < 0.5
    assert grade(frame_match, cat, half, REPLACE) < 0.7 < 0.9 < grade(frame_match, cat, double, REPLACE)


@pytest.mark.parametrize("size", [(1, 1), (3, 40), (40, 3), (17, 19)])
def test_tiny_pictures_are_measured_too(size: tuple[int, int]) -> None:
    source = np.random.default_rng(3).integers(0, 255, (*size, 3), np.uint8)
    for measure in ALL:
        reading = measure(view(source, 255 - source), REPLACE)
        assert reading.grade is None or 0 <= reading.grade <= 1

from collections.abc import Callable

import cv2
import numpy as np
import pytest
from drawn_edits import blend, disc, jpeg, photo, recolored, view
from hypothesis import given, settings
from hypothesis import strategies as st

from rewardharness.measure.planes import WORKING_SIDE
from rewardharness.measure.view import UNCOVERED

PHOTOS = ("astronaut", "coffee")


def rounded(pixels: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(pixels), 0, 255).astype(np.uint8)


def moved(pixels: np.ndarray, dx: float, dy: float) -> np.ndarray:
    matrix = np.array([[1, 0, dx], [0, 1, dy]], np.float32)
    size = (pixels.shape[1], pixels.shape[0])
    return cv2.warpAffine(pixels, matrix, size, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)


def resampled(pixels: np.ndarray, factor: float) -> np.ndarray:
    small = cv2.resize(pixels, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA)
    return cv2.resize(small, pixels.shape[1::-1], interpolation=cv2.INTER_CUBIC)


def noisy(pixels: np.ndarray, sigma: float) -> np.ndarray:
    return rounded(pixels + np.random.default_rng(0).normal(0, sigma, pixels.shape))


def round_trip(pixels: np.ndarray) -> np.ndarray:
    """What the encoder of a diffusion editor does to everything: a little blur, noise and a tint."""
    blurred = cv2.GaussianBlur(pixels, (0, 0), 0.7).astype(float)
    return noisy(blurred * np.array([1.01, 1.0, 0.99]) + np.array([1.5, -1.0, 1.0]), 2.0)


COPIES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "jpeg 60": lambda pixels: jpeg(pixels, 60),
    "jpeg 75": lambda pixels: jpeg(pixels, 75),
    "jpeg 95": lambda pixels: jpeg(pixels, 95),
    "half size and back": lambda pixels: resampled(pixels, 0.5),
    "three quarters and back": lambda pixels: resampled(pixels, 0.75),
    "one pixel to the right": lambda pixels: moved(pixels, 1, 0),
    "two pixels off": lambda pixels: moved(pixels, -2, 1),
    "half a pixel down": lambda pixels: moved(pixels, 0, 0.5),
    "noise": lambda pixels: noisy(pixels, 2.0),
    "brighter by two": lambda pixels: rounded(pixels.astype(float) + 2),
    "darker by two": lambda pixels: rounded(pixels.astype(float) - 2),
    "editor round trip": round_trip,
}


@pytest.mark.parametrize("name", PHOTOS)
@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_counts_as_unchanged(name: str, copy: str) -> None:
    source = photo(name)
    edit = view(source, COPIES[copy](source))
    assert not edit.identical and edit.changed_share < 0.005


def patched(source: np.ndarray, mask: np.ndarray) -> np.ndarray:
    other = photo("rocket" if source is not photo("rocket") else "coffee")
    return blend(source, other, mask)


def removed(source: np.ndarray, mask: np.ndarray) -> np.ndarray:
    filled = cv2.inpaint(source, (cv2.dilate(mask, np.ones((5, 5))) > 0.01).astype(np.uint8), 3, cv2.INPAINT_TELEA)
    return blend(source, filled, mask)


EDITS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "another colour": lambda source, mask: recolored(source, (40, 160, 60), mask),
    "another picture": patched,
    "removed": removed,
    "darker by a quarter": lambda source, mask: blend(source, source * 0.75, mask),
    "faintly brighter": lambda source, mask: blend(source, np.clip(source + 14.0, 0, 255), mask),
}


@pytest.mark.parametrize("name", PHOTOS)
@pytest.mark.parametrize("kind", EDITS)
def test_a_local_edit_is_found_where_it_is(name: str, kind: str) -> None:
    source = photo(name)
    truth = disc(*source.shape[:2], center=(0.45, 0.55), radius=0.18)
    edit = view(source, EDITS[kind](source, truth))
    inside = truth > 0.5
    overlap = (edit.changed & inside).sum() / (edit.changed | inside).sum()
    assert overlap >= 0.6


@pytest.mark.parametrize("name", PHOTOS)
def test_an_edit_is_found_behind_the_noise_of_an_editor(name: str) -> None:
    source = photo(name)
    truth = disc(*source.shape[:2], center=(0.45, 0.55), radius=0.18)
    edit = view(source, jpeg(round_trip(patched(source, truth)), 80))
    inside = truth > 0.5
    assert (edit.changed & inside).sum() / (edit.changed | inside).sum() >= 0.6
    assert (edit.changed & ~cv2.dilate(inside.astype(np.uint8), np.ones((15, 15))).astype(bool)).mean() < 0.005


@pytest.mark.parametrize(("strength", "low"), [(160, 0.7), (24, 0.4)])
def test_drawn_text_is_found(strength: int, low: float) -> None:
    source = photo("coffee")
    ink = np.zeros(source.shape[:2], np.uint8)
    cv2.putText(ink, "SALE 50%", (40, 180), cv2.FONT_HERSHEY_DUPLEX, 2.0, 255, 5, cv2.LINE_AA)
    edit = view(source, rounded(source + np.sign(128.0 - source[ink > 0].mean()) * strength * (ink[..., None] / 255.0)))
    around = cv2.dilate(ink, np.ones((5, 5))) > 128
    assert (edit.changed & around).sum() / (edit.changed | around).sum() >= low


@pytest.mark.parametrize(
    "change",
    [
        lambda pixels: np.repeat(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)[..., None], 3, axis=2),
        lambda pixels: rounded(pixels * 1.25 + 10),
        lambda pixels: 255 - pixels,
        lambda pixels: rounded(pixels * np.array([1.15, 1.0, 0.8])),
    ],
)
def test_a_global_edit_takes_most_of_the_picture(change: Callable[[np.ndarray], np.ndarray]) -> None:
    assert view(photo("coffee"), change(photo("coffee"))).changed_share > 0.5


def test_a_copy_of_the_very_pixels_is_identical() -> None:
    edit = view(photo("coffee"), photo("coffee").copy())
    assert edit.identical and edit.changed_share == 0.0 and not edit.change.any()
    assert edit.alignment.how == "none" and edit.alignment.note == "" and edit.alignment.shift == (0.0, 0.0)


def test_the_same_frame_at_another_size_is_resized() -> None:
    source = photo("astronaut", 640, 448)
    edit = view(source, cv2.resize(source, (1024, 704), interpolation=cv2.INTER_CUBIC))
    assert edit.alignment.how == "resized" and 0.0 < edit.alignment.aspect_error < 0.03
    assert "1024 x 704" in edit.alignment.note and "640 x 448" in edit.alignment.note
    assert edit.candidate.shape == source.shape and edit.valid.all()
    assert edit.small_source.shape == edit.lab_candidate.shape == (358, WORKING_SIDE, 3)
    assert edit.changed_share < 0.005


def test_another_aspect_ratio_is_letterboxed_and_its_margins_are_not_judged() -> None:
    source = photo("astronaut", 480, 320)
    edit = view(source, source[:, 80:400])
    assert edit.alignment.how == "letterboxed" and edit.alignment.aspect_error == pytest.approx(0.5)
    assert "33%" in edit.alignment.note and edit.valid.mean() == pytest.approx(2 / 3, abs=0.01)
    assert np.all(edit.candidate[:, :79] == UNCOVERED) and np.array_equal(edit.candidate[:, 80:400], source[:, 80:400])
    assert not edit.change[~edit.valid].any() and not edit.changed[~edit.valid].any() and edit.changed_share < 0.005


def test_a_small_shift_is_compensated_and_said() -> None:
    source = photo("coffee")
    edit = view(source, moved(source, 3, -2))
    assert edit.alignment.shift == pytest.approx((-3.0, 2.0), abs=0.15)
    assert "shifted by (-3.0, +2.0)" in edit.alignment.note
    assert not edit.valid[:2].any() and not edit.valid[:, -3:].any()
    assert np.array_equal(edit.candidate, moved(source, 3, -2)), "only the working size is compensated"
    assert np.array_equal(edit.gray_source, cv2.cvtColor(source, cv2.COLOR_RGB2GRAY)), "the search leaves no trace"


def test_a_moved_object_is_no_shift() -> None:
    ground = np.full((320, 480, 3), 120, np.uint8) + noisy(np.zeros((320, 480, 3)), 6.0)
    source = recolored(ground, (250, 30, 30), disc(320, 480, (0.3, 0.5)))
    target = recolored(ground, (250, 30, 30), disc(320, 480, (0.31, 0.5)))
    assert view(source, target).alignment.shift == (0.0, 0.0)


def test_pictures_that_have_nothing_in_common_are_wholly_changed() -> None:
    edit = view(photo("coffee"), photo("astronaut"))
    assert edit.alignment.shift == (0.0, 0.0) and edit.changed_share > 0.8


def test_specks_are_dropped_and_holes_closed() -> None:
    source = photo("coffee").copy()
    speckled = source.copy()
    speckled[50:52, 50] = 255 - speckled[50:52, 50]
    assert view(source, speckled).changed_share == 0.0
    ring = disc(320, 480, radius=0.25) - disc(320, 480, radius=0.05)
    edit = view(source, recolored(source, (30, 60, 230), np.clip(ring, 0, 1)))
    assert edit.changed[160, 240]


def test_color_planes_have_the_ranges_they_promise() -> None:
    edit = view(photo("coffee"), photo("astronaut"))
    assert edit.lab_source.dtype == edit.gray_candidate.dtype == edit.change.dtype == np.float32
    assert edit.lab_source[..., 0].min() >= 0 and 90 < edit.lab_source[..., 0].max() <= 100.01
    assert 200 < edit.gray_candidate.max() <= 255 and edit.change.min() >= 0 and edit.change.max() <= 1


@settings(max_examples=40, deadline=None)
@given(
    source=st.tuples(st.integers(8, 90), st.integers(8, 90)),
    candidate=st.tuples(st.integers(8, 90), st.integers(8, 90)),
    seed=st.integers(0, 100),
    flat=st.booleans(),
)
def test_any_two_sizes_can_be_put_side_by_side(source, candidate, seed, flat):
    random = np.random.default_rng(seed)
    first = np.full((*source, 3), 255, np.uint8) if flat else random.integers(0, 256, (*source, 3), dtype=np.uint8)
    edit = view(first, random.integers(0, 256, (*candidate, 3), dtype=np.uint8))
    assert edit.candidate.shape == edit.source.shape == (*source, 3)
    assert edit.change.shape == edit.changed.shape == edit.valid.shape == edit.small_candidate.shape[:2]
    assert edit.valid.any() and np.isfinite(edit.change).all() and 0.0 <= edit.changed_share <= 1.0


def test_thin_pictures_do_not_break() -> None:
    for shape in ((8, 9000, 3), (9000, 8, 3)):
        edit = view(np.full(shape, 10, np.uint8), np.full((*shape[1::-1], 3), 250, np.uint8))
        assert edit.change.shape == edit.small_source.shape[:2]

"""Changes for readers that see the images: boxes, numbers and aligned crops."""

import numpy as np
import pytest
from drawn_edits import view

from rewardharness.codec import from_json, to_json
from rewardharness.measure.changes import CROP_SIDES, MAX_CROPS, Changes, crop_changes, find_changes
from rewardharness.measure.planes import Pixels


def photo(width: int = 1600, height: int = 1200) -> Pixels:
    """A smooth picture with detail everywhere."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    planes = [128 + 60 * np.sin(x / 37 + k) * np.cos(y / 29 - k) + 20 * np.sin(x / 7 + y / 5) for k in range(3)]
    return np.asarray(np.clip(np.stack(planes, 2), 0, 255), np.uint8)


def painted(pixels: Pixels, *boxes: tuple[int, int, int, int]) -> Pixels:
    edited = pixels.copy()
    for left, top, right, bottom in boxes:
        edited[top:bottom, left:right] = (220, 30, 30)
    return edited


def test_boxes_and_crops_are_where_the_change_is() -> None:
    source = photo()
    both = view(source, painted(source, (200, 300, 400, 500), (1200, 800, 1300, 880)))
    changes = find_changes(both)
    assert changes.regions == 2
    painted_share = (200 * 200 + 100 * 80) / (1600 * 1200)
    assert painted_share < changes.share < 1.5 * painted_share
    assert changes.boxes[0] == pytest.approx((200 / 1600, 300 / 1200, 400 / 1600, 500 / 1200), abs=0.02)
    assert changes.outside_distance < 0.5
    crops = crop_changes(both, changes)
    assert len(crops) == MAX_CROPS
    for crop, (left, top, right, bottom) in zip(crops, [(200, 300, 400, 500), (1200, 800, 1300, 880)], strict=True):
        start, up, end, down = (
            round(side * size) for side, size in zip(crop.box, (1600, 1200, 1600, 1200), strict=True)
        )
        assert start < left and up < top and end > right and down > bottom
        assert CROP_SIDES[0] <= end - start <= CROP_SIDES[1]
        red = (crop.candidate == (220, 30, 30)).all(axis=2)
        assert red.sum() == (right - left) * (bottom - top)
        assert np.array_equal(crop.source[~red], crop.candidate[~red])


def test_crops_are_never_scaled_and_stay_within_the_limit() -> None:
    source = photo()
    both = view(source, painted(source, (100, 100, 1100, 1000)))
    changes = find_changes(both)
    [crop] = crop_changes(both, changes)
    assert crop.source.shape == crop.candidate.shape == (CROP_SIDES[1], CROP_SIDES[1], 3)
    [small] = crop_changes(both, changes, max_pixels=100 * 100)
    assert small.source.shape == (100, 100, 3) and (small.candidate == (220, 30, 30)).all()


def test_an_image_that_changed_everywhere_has_no_crop_if_the_image_shows_as_much() -> None:
    source = photo(320, 240)
    both = view(source, 255 - source)
    changes = find_changes(both)
    assert changes.share > 0.9 and crop_changes(both, changes) == []


def test_a_shifted_candidate_is_cropped_at_the_same_content() -> None:
    source = photo(512, 512)
    shifted = np.roll(painted(source, (100, 100, 160, 160)), (4, 6), axis=(0, 1))
    both = view(source, shifted)
    changes = find_changes(both)
    assert changes.shift == pytest.approx((-6 / 512, -4 / 512), abs=1 / 512)
    crop = crop_changes(both, changes)[0]
    rows, columns = np.nonzero((crop.candidate == (220, 30, 30)).all(axis=2))
    left, top = round(crop.box[0] * 512), round(crop.box[1] * 512)
    assert (columns.min() + left, rows.min() + top) == (100, 100)


def test_nothing_changed() -> None:
    source = photo(400, 300)
    both = view(source, source)
    changes = find_changes(both)
    assert (changes.identical, changes.regions, changes.share, changes.boxes) == (True, 0, 0.0, ())
    assert crop_changes(both, changes) == []


def test_changes_are_kept_as_json() -> None:
    source = photo(400, 300)
    changes = find_changes(view(source, painted(source, (50, 60, 120, 140))))
    assert from_json(Changes, to_json(changes)) == changes

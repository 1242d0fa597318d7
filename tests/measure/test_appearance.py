"""Whole-image similarity: equal images get the best grade, and each measure sees what it is named for."""

from collections.abc import Callable

import cv2
import numpy as np
import pytest
from drawn_edits import photo, view

from rewardharness.judging.instruction import read_instruction
from rewardharness.measure.appearance import mean_difference, ssim
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
def test_each_measure_sees_its_change_more_than_a_small_one(
    name: str, change: Callable[[np.ndarray], np.ndarray]
) -> None:
    small = np.clip(SOURCE.astype(int) + 2, 0, 255).astype(np.uint8)
    assert grades(change(SOURCE))[name] < 0.75 < grades(small)[name]


def test_highlights_and_gloss_fall_when_the_brightest_parts_are_dimmed() -> None:
    matte = np.minimum(SOURCE, np.percentile(SOURCE, 70)).astype(np.uint8)
    dimmed = grades(matte)
    assert dimmed["highlight_similarity"] < 0.75 and dimmed["gloss_similarity"] < 0.95


def scene(side: int = 96, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.integers(0, 256, (side, side + 8, 3), dtype=np.uint8)


def test_equal_pictures_are_exactly_alike() -> None:
    for side in (8, 12, 96, 700):
        assert mean_difference(scene(side), scene(side)) == 0.0 and ssim(scene(side), scene(side)) == 1.0


def test_the_mean_difference_is_what_it_says() -> None:
    black, grey = np.zeros((20, 20, 3), np.uint8), np.full((20, 20, 3), 51, np.uint8)
    assert mean_difference(black, grey) == mean_difference(grey, black) == pytest.approx(0.2)
    assert mean_difference(black, np.full((20, 20, 3), 255, np.uint8)) == 1.0
    corner = black.copy()
    corner[:10, :10] = 255
    assert mean_difference(black, corner) == 0.25


def test_another_size_is_brought_to_that_of_the_source() -> None:
    grey = np.full((40, 30, 3), 90, np.uint8)
    for size in ((80, 60), (17, 20), (300, 11)):
        other = np.full((*size, 3), 90, np.uint8)
        assert mean_difference(grey, other) == 0.0 and ssim(grey, other) == 1.0


def test_more_damage_is_less_alike() -> None:
    first = scene()
    values = []
    for strength in (2, 10, 40, 120):
        noise = np.random.default_rng(1).normal(0, strength, first.shape)
        values.append(ssim(first, np.clip(first + noise, 0, 255).astype(np.uint8)))
    assert values == sorted(values, reverse=True) and all(-1 <= value < 1 for value in values)
    assert ssim(first, 255 - first) < 0


def test_ssim_agrees_with_another_implementation() -> None:
    metrics = pytest.importorskip("skimage.metrics")
    for side, strength in ((64, 5), (200, 30)):
        first = scene(side)
        noise = np.random.default_rng(2).normal(0, strength, first.shape)
        second = np.clip(first + noise, 0, 255).astype(np.uint8)
        grays = [cv2.cvtColor(each, cv2.COLOR_RGB2GRAY).astype(float) for each in (first, second)]
        wanted = metrics.structural_similarity(
            *grays, gaussian_weights=True, sigma=1.5, use_sample_covariance=False, data_range=255
        )
        assert ssim(first, second) == pytest.approx(wanted, abs=1e-9)


def test_large_pictures_are_looked_at_from_afar() -> None:
    fine = np.indices((1024, 1024)).sum(axis=0) % 2 * 2
    flat = np.full((1024, 1024, 3), 128, np.uint8)
    dotted = (flat.astype(int) + (fine - 1)[..., None] * 20).astype(np.uint8)
    assert ssim(flat[:200, :200], dotted[:200, :200]) < 0.5 and ssim(flat, dotted) > 0.99

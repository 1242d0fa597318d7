"""Edits with known truth for the tests of measures: photographs from scikit-image, and what is drawn into them."""

from collections.abc import Callable
from functools import cache

import cv2
import numpy as np

from rewardharness.measure.images import Picture
from rewardharness.measure.planes import Pixels, Reading
from rewardharness.measure.view import EditView
from rewardharness.schema import EditRequest

Function = Callable[[EditView, EditRequest], Reading]


_PICTURES: dict[int, Picture] = {}
"""The photographs that were asked for: all edits of one share what is computed of it, as candidates of a judge do."""


@cache
def photo(name: str, width: int = 480, height: int = 320) -> Pixels:
    """A photograph that ships with scikit-image, at a size that is quick to measure."""
    from skimage import data

    pixels = cv2.resize(getattr(data, name)(), (width, height), interpolation=cv2.INTER_AREA)
    pixels.setflags(write=False)
    _PICTURES[id(pixels)] = Picture("test", pixels, "PNG")
    return pixels


CAT, COFFEE = photo("chelsea"), photo("coffee")


def view(source: np.ndarray, candidate: np.ndarray) -> EditView:
    """Put two pictures side by side."""
    before = _PICTURES.get(id(source)) or _picture(source)
    return EditView(before, _picture(candidate))


def grade(measure: Function, source: np.ndarray, candidate: np.ndarray, asked: EditRequest) -> float:
    """Grade one edit; the reading must be a complete one."""
    edit = view(source, candidate)
    reading = measure(edit, asked)
    assert reading.grade is not None, reading.sentence
    assert reading.sentence.endswith((".", ")")), reading.sentence
    if reading.overlay is not None:
        assert reading.overlay.dtype == np.uint8 and reading.overlay.shape == edit.small_source.shape
    return reading.grade


def disc(height: int, width: int, center: tuple[float, float] = (0.5, 0.5), radius: float = 0.2) -> np.ndarray:
    """Mask of a disc with an edge as soft as that of a lens; centre and radius in shares of the size."""
    mask = np.zeros((height, width), np.float32)
    middle = (round(center[0] * width), round(center[1] * height))
    cv2.circle(mask, middle, round(radius * height), 1.0, -1, cv2.LINE_AA)
    return cv2.GaussianBlur(mask, (0, 0), 0.8)


def blend(below: np.ndarray, above: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Lay one picture over another where the mask says."""
    weight = mask[..., None]
    return _bytes(below * (1.0 - weight) + above * weight)


def recolored(picture: np.ndarray, color: tuple[int, int, int], mask: np.ndarray) -> np.ndarray:
    """Give a region another colour and keep its light and shade."""
    light = picture.mean(axis=2, keepdims=True) / 140.0
    return blend(picture, np.clip(light * np.array(color, np.float32), 0, 255), mask)


def jpeg(picture: np.ndarray, quality: int) -> np.ndarray:
    """Encode and decode as JPEG."""
    _, data = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, quality])
    return cv2.imdecode(data, cv2.IMREAD_COLOR)


def written(picture: np.ndarray, text: str, place: tuple[int, int] = (30, 160), size: float = 1.4) -> np.ndarray:
    """Write white text on a dark plate, so that it is readable on any photograph."""
    result = picture.copy()
    (width, height), base = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, size, 3)
    corner = (place[0] + width + 12, place[1] + base + 8)
    cv2.rectangle(result, (place[0] - 12, place[1] - height - 12), corner, (20, 30, 70), -1)
    return cv2.putText(result, text, place, cv2.FONT_HERSHEY_SIMPLEX, size, (255, 255, 255), 3, cv2.LINE_AA)


def _picture(pixels: np.ndarray) -> Picture:
    return Picture("test", np.ascontiguousarray(_bytes(pixels)), "PNG")


def _bytes(picture: np.ndarray) -> np.ndarray:
    return picture if picture.dtype == np.uint8 else np.clip(np.round(picture), 0, 255).astype(np.uint8)

"""Simulated failures of edits: visible defects and unrequested changes."""

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rewardharness.demo.filters import Picture, fade, tone

Rng = np.random.Generator


def changed(before: Picture, after: Picture) -> NDArray[np.uint8]:
    """Return a mask of clear differences between two images of equal size, without single pixels."""
    difference = cv2.GaussianBlur(cv2.absdiff(before, after).max(axis=2), (0, 0), 2)
    return _bytes(difference > 14)


def _bytes(picture: Any) -> Picture:
    return np.asarray(picture, dtype=np.uint8)


def _noise(before: Picture, after: Picture, rng: Rng) -> Picture:
    grain = rng.standard_normal(after.shape, dtype=np.float32) * rng.uniform(24, 36)
    return _bytes(np.clip(after + grain, 0, 255))


def _blocks(before: Picture, after: Picture, rng: Rng) -> Picture:
    _, data = cv2.imencode(".jpg", after, [cv2.IMWRITE_JPEG_QUALITY, int(rng.integers(4, 8))])
    return _bytes(cv2.imdecode(data, cv2.IMREAD_COLOR))


def _cast(before: Picture, after: Picture, rng: Rng) -> Picture:
    factors = ((0.78, 1.12, 0.78), (1.15, 0.80, 1.15))[int(rng.integers(2))]
    return np.clip(after * np.array(factors, dtype=np.float32), 0, 255).astype(np.uint8)


def _squeezed(before: Picture, after: Picture, rng: Rng) -> Picture:
    """Squeeze the whole image to a different aspect ratio."""
    side = after.shape[0]
    size = (side, round(side * 0.72)) if rng.random() < 0.5 else (round(side * 0.72), side)
    return _bytes(cv2.resize(after, size, interpolation=cv2.INTER_AREA))


def _seam(before: Picture, after: Picture, rng: Rng) -> Picture:
    """Paste a brighter, shifted rectangle with a border around the edit."""
    x0, y0, x1, y1 = _frame(before, after, rng)
    result = after.copy()
    dx, dy = (int(value) for value in rng.integers(4, 8, 2))
    moved = np.roll(after, (dy, dx), axis=(0, 1))[y0:y1, x0:x1].astype(np.float32)
    result[y0:y1, x0:x1] = np.clip(moved * 1.14 + 8, 0, 255).astype(np.uint8)
    cv2.rectangle(result, (x0, y0), (x1, y1), (236, 236, 236), 2)
    return result


def _halo(before: Picture, after: Picture, rng: Rng) -> Picture:
    """Draw a pale rim around the edited region, as from a rough cutout."""
    inside = cv2.morphologyEx(changed(before, after), cv2.MORPH_CLOSE, np.ones((9, 9), dtype=np.uint8))
    rim = cv2.dilate(inside, np.ones((13, 13), dtype=np.uint8)) - cv2.erode(inside, np.ones((3, 3), dtype=np.uint8))
    share = cv2.GaussianBlur(rim.astype(np.float32), (0, 0), 1.2)[..., None] * 0.85
    return _bytes(np.clip(after + (244.0 - after) * share, 0, 255))


def _frame(before: Picture, after: Picture, rng: Rng) -> tuple[int, int, int, int]:
    """Return a rectangle around the edited region, or a random one if everything or nothing changed."""
    side = after.shape[0]
    rows, columns = np.nonzero(changed(before, after))
    if len(rows) and np.ptp(rows) * np.ptp(columns) < 0.5 * side * side:
        low = [max(2, int(places.min()) - 14) for places in (columns, rows)]
        high = [min(side - 3, int(places.max()) + 14) for places in (columns, rows)]
        return low[0], low[1], high[0], high[1]
    x, y = (int(value) for value in rng.integers(round(side * 0.1), round(side * 0.5), 2))
    return x, y, x + round(side * 0.38), y + round(side * 0.38)


_DEFECTS: dict[str, Callable[[Picture, Picture, Rng], Picture]] = {
    "blur": lambda _, after, rng: _bytes(cv2.GaussianBlur(after, (0, 0), float(rng.uniform(2.4, 3.4)))),
    "noise": _noise,
    "blocks": _blocks,
    "cast": _cast,
    "clipped": lambda _, after, rng: tone(tone(after, "more_saturated", 1.6), "more_contrast", 1.1),
    "squeezed": _squeezed,
    "seam": _seam,
    "halo": _halo,
    "ghost": lambda before, after, rng: fade(before, after, float(rng.uniform(0.62, 0.72))),
}

ANYWHERE: frozenset[str] = frozenset(_DEFECTS) - {"halo", "ghost"}
"""Defects that do not need an edited region."""

LOCAL: frozenset[str] = frozenset({"halo", "ghost"})
"""Defects in or around the edited region."""

OF_COLOR: frozenset[str] = frozenset({"cast", "clipped"})
"""Defects that an edit of tone or style may hide or request."""


def spoil(before: Picture, after: Picture, defect: str, rng: Rng) -> Picture:
    """Return an image with a visible defect.

    Args:
        before: The source, to locate the edit.
        after: The correct edit.
        defect: A member of `ANYWHERE` or `LOCAL`.
        rng: Random generator for the details.

    Returns:
        A new picture.
    """
    return _DEFECTS[defect](before, after, rng)


def zoomed(picture: Picture, share: float, rng: Rng) -> Picture:
    """Return a random part of an image of a share of its side, in the size of the image."""
    side = picture.shape[0]
    cut = round(side * share)
    x, y = (int(value) for value in rng.integers(0, side - cut, 2))
    part = picture[y : y + cut, x : x + cut]
    return _bytes(cv2.resize(part, (side, side), interpolation=cv2.INTER_CUBIC))


def _framed(picture: Picture, rng: Rng) -> Picture:
    result = picture.copy()
    color = [(240, 240, 236), (20, 20, 22), (150, 110, 60)][int(rng.integers(3))]
    cv2.rectangle(result, (0, 0), (picture.shape[1] - 1, picture.shape[0] - 1), color, 40)
    return result


_UNASKED: dict[str, Callable[[Picture, Rng], Picture]] = {
    "zoomed in": lambda picture, rng: zoomed(picture, 0.80, rng),
    "mirrored": lambda picture, rng: np.ascontiguousarray(picture[:, ::-1]),
    "given a frame": _framed,
    "tinted warm": lambda picture, rng: tone(picture, "warmer"),
    "tinted cool": lambda picture, rng: tone(picture, "cooler"),
    "darkened": lambda picture, rng: tone(picture, "darker", 0.8),
    "made gray": lambda picture, rng: tone(picture, "less_saturated"),
}

SHAPE_CHANGES: tuple[str, ...] = ("zoomed in", "mirrored", "given a frame")
"""Unrequested global changes that preserve colors."""

COLOR_CHANGES: tuple[str, ...] = ("tinted warm", "tinted cool", "darkened", "made gray")
"""Unrequested global color changes."""


def meddle(picture: Picture, change: str, rng: Rng) -> Picture:
    """Apply an unrequested global change: a member of `SHAPE_CHANGES` or `COLOR_CHANGES`."""
    return _UNASKED[change](picture, rng)

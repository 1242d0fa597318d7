"""Global edits of an image (tones and styles), and simulated failures: visible defects and unrequested changes."""

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rewardharness.demo.paint import Image, color, noise

Picture = NDArray[np.uint8]
"""RGB, 8 bits, height x width x 3."""


def _curve(picture: Picture, change: Callable[[Image], Image], strength: float) -> Picture:
    """Apply a color change in [0, 1] with a strength from 0 (none) to 1 (full)."""
    before = picture.astype(np.float32) / 255
    after = before + (change(before) - before) * strength
    return np.clip(np.round(after * 255), 0, 255).astype(np.uint8)


def _gray(image: Image) -> Image:
    return np.repeat((image @ color(0.299, 0.587, 0.114))[..., None], 3, axis=2)


_TONE_CHANGES: dict[str, Callable[[Image], Image]] = {
    "brighter": lambda image: np.clip(image, 0, 1) ** 0.76 * 1.2,
    "darker": lambda image: image**1.35 * 0.58,
    "warmer": lambda image: image * color(1.17, 1.0, 0.72),
    "cooler": lambda image: image * color(0.76, 0.98, 1.20),
    "more_contrast": lambda image: np.clip((image - 0.45) * 1.75 + 0.45, 0, 1),
    "less_contrast": lambda image: (image - 0.5) * 0.45 + 0.53,
    "more_saturated": lambda image: _gray(image) + (image - _gray(image)) * 1.7,
    "less_saturated": lambda image: _gray(image) + (image - _gray(image)) * 0.32,
    "grayscale": _gray,
    "sepia": lambda image: _gray(image) ** 0.9 * color(1.08, 0.86, 0.62),
}

_OPPOSITES = [
    ("brighter", "darker"),
    ("warmer", "cooler"),
    ("more_contrast", "less_contrast"),
    ("more_saturated", "less_saturated"),
]
OPPOSITE: dict[str, str] = {
    **{name: other for pair in _OPPOSITES for name, other in (pair, pair[::-1])},
    "grayscale": "more_saturated",
    "sepia": "cooler",
}
"""The wrong alternative of each tone."""

TONES: tuple[str, ...] = tuple(_TONE_CHANGES)
"""Directions of light and color, named as in `EditRequest.tones`."""


def tone(picture: Picture, name: str, strength: float = 1.0) -> Picture:
    """Return an image with changed light or color.

    Args:
        picture: The image.
        name: One of `TONES`.
        strength: 1 for the full change, less for a partial one.

    Returns:
        A new picture.
    """
    return _curve(picture, _TONE_CHANGES[name], strength)


def _sketch(picture: Picture) -> Picture:
    gray = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
    soft = cv2.GaussianBlur(gray, (0, 0), 9)
    lines = np.clip(gray.astype(np.float32) / np.maximum(soft, 8) * 255, 0, 255) / 255
    hatch = noise(3, *gray.shape, 3.0, 2) - 0.5
    page = np.clip(lines**2.4 * (0.86 + 0.14 * soft / 255.0) + 0.10 * hatch, 0, 1) * 250
    return np.repeat(page[..., None], 3, axis=2).astype(np.uint8)


def _oil(picture: Picture) -> Picture:
    """Simulate oil paint: displaced color dabs with lighting on their ridges."""
    rows, columns = picture.shape[:2]
    ys, xs = np.mgrid[0:rows, 0:columns].astype(np.float32)
    dabs = (noise(seed, rows // 5, columns // 5, 1.5, 1) for seed in (11, 12))
    dx, dy = ((cv2.resize(dab, (columns, rows), interpolation=cv2.INTER_NEAREST) - 0.5) * 11 for dab in dabs)
    daubed = cv2.remap(picture, xs + dx, ys + dy, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)
    flat = cv2.medianBlur(daubed, 7)
    ridges = noise(13, rows, columns, 7.0, 3)
    relief = cv2.Sobel(ridges + flat.mean(axis=2).astype(np.float32) / 700, cv2.CV_32F, 1, 1, ksize=3)
    light = np.clip(relief, -0.4, 0.4)[..., None] * 0.45
    return _curve(flat, lambda image: _gray(image) + (image - _gray(image)) * 1.25 + light, 1.0)


def _smoothed(picture: Picture) -> Picture:
    """Smooth areas while preserving edges."""
    small = cv2.resize(picture, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
    for _ in range(2):
        small = cv2.bilateralFilter(small, 7, 40, 7)
    return np.asarray(cv2.resize(small, picture.shape[1::-1], interpolation=cv2.INTER_CUBIC), dtype=np.uint8)


def _watercolor(picture: Picture) -> Picture:
    rows, columns = picture.shape[:2]
    ys, xs = np.mgrid[0:rows, 0:columns].astype(np.float32)
    wobble = (noise(21, rows, columns, 26.0, 3) - 0.5) * 7
    soft = cv2.remap(_smoothed(picture), xs + wobble, ys - wobble, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)
    wash = noise(22, rows, columns, 60.0, 4)[..., None]
    paper = noise(23, rows, columns, 3.0, 2)[..., None]
    lines = cv2.Laplacian(soft.mean(axis=2).astype(np.float32), cv2.CV_32F, ksize=5)
    edge = np.clip(np.abs(lines) / 900, 0, 0.25)[..., None]
    return _curve(soft, lambda image: (image * 0.62 + 0.40) * (0.86 + 0.28 * wash) * (0.94 + 0.12 * paper) - edge, 1.0)


def _cartoon(picture: Picture) -> Picture:
    """Quantize brightness to four levels and draw dark edges."""
    soft = _smoothed(picture)
    hue, depth, value = cv2.split(cv2.cvtColor(soft, cv2.COLOR_RGB2HSV))
    steps = np.clip(np.round(value / 255.0 * 4.0) / 4.0 * 235 + 14, 0, 255).astype(np.uint8)
    vivid = np.clip(depth * 1.3, 0, 255).astype(np.uint8)
    flat = cv2.cvtColor(cv2.merge([hue, vivid, cv2.medianBlur(steps, 5)]), cv2.COLOR_HSV2RGB)
    gray = cv2.medianBlur(cv2.cvtColor(soft, cv2.COLOR_RGB2GRAY), 5)
    ink = cv2.adaptiveThreshold(gray, 255, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY, 11, 5)
    ink = cv2.GaussianBlur(ink, (0, 0), 0.7)
    return np.asarray(np.minimum(flat, ink[..., None]), dtype=np.uint8)


def _pixels(picture: Picture) -> Picture:
    small = cv2.resize(picture, (64, 64), interpolation=cv2.INTER_AREA)
    small = np.round(small.astype(np.float32) / 20) * 20
    large = cv2.resize(np.clip(small, 0, 255), picture.shape[1::-1], interpolation=cv2.INTER_NEAREST)
    return np.asarray(large, dtype=np.uint8)


_STYLE_CHANGES: dict[str, Callable[[Picture], Picture]] = {
    "sketch": _sketch,
    "oil": _oil,
    "watercolor": _watercolor,
    "cartoon": _cartoon,
    "pixels": _pixels,
}

STYLES: tuple[str, ...] = tuple(_STYLE_CHANGES)
"""Styles of an image."""


def style(picture: Picture, name: str) -> Picture:
    """Return an image in one of `STYLES`."""
    return _STYLE_CHANGES[name](picture)


def fade(before: Picture, after: Picture, share: float) -> Picture:
    """Blend source and edit to a partial edit; a `share` of 1 is the full edit."""
    return np.asarray(cv2.addWeighted(before, 1 - share, after, share, 0), dtype=np.uint8)


def half(before: Picture, after: Picture, axis: int, edge: float) -> Picture:
    """Return an edit of one part of the image only.

    Args:
        before: The source.
        after: The edit.
        axis: 0 edits the part above the edge, 1 the part left of it.
        edge: Relative position at which the edit ends.

    Returns:
        A new picture.
    """
    result = before.copy()
    end = round(edge * before.shape[axis])
    part = (slice(0, end), slice(None)) if axis == 0 else (slice(None), slice(0, end))
    result[part] = after[part]
    return result


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

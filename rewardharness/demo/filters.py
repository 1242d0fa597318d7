"""Global edits of an image: tones and styles."""

from collections.abc import Callable

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

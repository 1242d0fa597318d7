"""Procedural rendering: noise, textures, masks and shading.

Images are float32 RGB in [0, 1], height x width x 3; masks are float32 in [0, 1]. All functions are
deterministic: the same seed gives the same pixels.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.floating[Any]]
"""Float32 in [0, 1]: an RGB image or, with two axes, a mask."""

Point = tuple[float, float]
"""x to the right and y down, in canvas units."""

COLORS: dict[str, tuple[float, float, float]] = {
    "red": (0.80, 0.09, 0.10),
    "orange": (0.95, 0.48, 0.06),
    "yellow": (0.95, 0.80, 0.12),
    "green": (0.13, 0.56, 0.20),
    "blue": (0.12, 0.30, 0.80),
    "purple": (0.48, 0.17, 0.66),
    "pink": (0.95, 0.50, 0.68),
    "brown": (0.43, 0.25, 0.13),
    "black": (0.07, 0.07, 0.08),
    "white": (0.93, 0.93, 0.91),
    "gray": (0.50, 0.51, 0.53),
}
"""Colors that occur in instructions."""

MATERIALS: tuple[str, ...] = ("wood", "marble", "gold", "stone", "stripes", "dots", "checks")
"""Materials and patterns of objects other than plain."""

SIDE = 320
"""Side of the canvas of an object, in pixels."""

_LIGHT = np.array([-0.50, -0.62, 0.60], dtype=np.float32)
_SHIFT = 4


def rgb(name: str) -> Image:
    """Return a color by name."""
    return color(*COLORS[name])


def color(red: float, green: float, blue: float) -> Image:
    """Return a color by its parts in [0, 1]."""
    return np.array((red, green, blue), dtype=np.float32)


@lru_cache(maxsize=48)
def noise(seed: int, height: int, width: int, scale: float, octaves: int = 4) -> Image:
    """Return smooth noise around 0.5 in [0, 1].

    Args:
        seed: Random seed.
        height: Rows.
        width: Columns.
        scale: Size of the largest blobs in pixels; each further octave has half the size and half the weight.
        octaves: Number of octaves.

    Returns:
        The noise. Cached; copy before writing.
    """
    rng = np.random.default_rng([seed, 77])
    total = np.zeros((height, width), dtype=np.float32)
    weight, norm = 1.0, 0.0
    for _ in range(octaves):
        rows, columns = int(height / scale) + 3, int(width / scale) + 3
        grid = rng.random((rows, columns), dtype=np.float32)
        big = cv2.resize(grid, None, fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC)
        total += weight * big[:height, :width]
        norm += weight
        weight, scale = weight / 2, max(1.0, scale / 2)
    result: Image = np.clip(total / norm, 0, 1)
    return result


def polygon(points: Sequence[Point]) -> Image:
    """Return a mask of a filled polygon on a canvas, with soft edges."""
    mask = np.zeros((SIDE, SIDE), dtype=np.uint8)
    cv2.fillPoly(mask, [_corners(points)], 255, cv2.LINE_AA, _SHIFT)
    return mask.astype(np.float32) / 255


def stroke(points: Sequence[Point], width: float) -> Image:
    """Return a mask of a line through points; `width` in units of the canvas."""
    mask = np.zeros((SIDE, SIDE), dtype=np.uint8)
    cv2.polylines(mask, [_corners(points)], False, 255, max(1, round(width * SIDE)), cv2.LINE_AA, _SHIFT)
    return mask.astype(np.float32) / 255


def _corners(points: Sequence[Point]) -> NDArray[np.int32]:
    return np.round(np.array(points) * SIDE * (1 << _SHIFT)).astype(np.int32)


def ellipse(center: Point, radii: Point, angle: float = 0.0) -> Image:
    """Return a mask of a filled ellipse on a canvas, turned by degrees."""
    turn = np.linspace(0, 2 * np.pi, 72, endpoint=False)
    x, y = radii[0] * np.cos(turn), radii[1] * np.sin(turn)
    c, s = np.cos(np.radians(angle)), np.sin(np.radians(angle))
    return polygon(list(zip(center[0] + c * x - s * y, center[1] + s * x + c * y, strict=True)))


def box(low: Point, high: Point, radius: float = 0.0) -> Image:
    """Return a mask of a rectangle with rounded corners."""
    if radius <= 0:
        return polygon([low, (high[0], low[1]), high, (low[0], high[1])])
    points: list[Point] = []
    for x, y, start in ((high[0], low[1], -90), (*high, 0), (low[0], high[1], 90), (*low, 180)):
        cx = x - radius if x == high[0] else x + radius
        cy = y - radius if y == high[1] else y + radius
        for turn in np.radians(range(start, start + 91, 15)):
            points.append((float(cx + radius * np.cos(turn)), float(cy + radius * np.sin(turn))))
    return polygon(points)


def round_form(mask: Image) -> tuple[Image, Image]:
    """Return the shading of an inflated silhouette; a disc becomes a ball.

    Returns:
        Diffuse light around 1 and a highlight in [0, 1].
    """
    distance = cv2.distanceTransform((mask > 0.5).astype(np.uint8), cv2.DIST_L2, 5)
    reach = max(1.0, float(distance.max()))
    height = np.sqrt(np.maximum(distance * (2 * reach - distance), 0))
    height = cv2.GaussianBlur(height, (0, 0), max(0.8, reach * 0.06))
    dx = cv2.Sobel(height, cv2.CV_32F, 1, 0, ksize=3, scale=0.125)
    dy = cv2.Sobel(height, cv2.CV_32F, 0, 1, ksize=3, scale=0.125)
    length = np.sqrt(dx * dx + dy * dy + 1)
    facing = (_LIGHT[2] - dx * _LIGHT[0] - dy * _LIGHT[1]) / length
    return _lit(facing)


def tube_form(mask: Image) -> tuple[Image, Image]:
    """Return the shading of a body of revolution around a vertical axis, such as a bottle or a mug."""
    inside = mask > 0.5
    columns = np.arange(mask.shape[1], dtype=np.float32)
    any_row = inside.any(axis=1)
    left = np.where(any_row, inside.argmax(axis=1), 0).astype(np.float32)
    right = np.where(any_row, mask.shape[1] - 1 - inside[:, ::-1].argmax(axis=1), 1).astype(np.float32)
    middle, half = (left + right) / 2, np.maximum((right - left) / 2, 1)
    nx = np.clip((columns[None, :] - middle[:, None]) / half[:, None], -1, 1)
    return _lit(nx * _LIGHT[0] * 1.25 + np.sqrt(1 - nx * nx) * 0.75)


def _lit(facing: Image) -> tuple[Image, Image]:
    diffuse: Image = (0.34 + 0.86 * np.clip(facing, 0, 1)).astype(np.float32)
    shine: Image = np.clip((facing - 0.90) / 0.10, 0, 1).astype(np.float32) ** 2
    return diffuse, shine


def material(name: str, color: Image, size: int, seed: int) -> Image:
    """Return the surface of a material on a square canvas. Wood, marble, gold and stone have fixed colors."""
    base = np.broadcast_to(color, (size, size, 3)).astype(np.float32)
    ys, xs = np.mgrid[0:size, 0:size].astype(np.float32) / size
    if name == "plain":
        grain = noise(seed, size, size, max(4.0, size / 10), 4)[..., None]
        return base * (0.94 + 0.12 * grain)
    if name == "wood":
        return wood(seed, size, size)
    if name == "marble":
        return marble(seed, size, size)
    if name == "gold":
        wave = 0.5 + 0.5 * np.sin(7 * xs + 9 * ys + 5 * noise(seed, size, size, size / 3, 3))
        return _mix((0.55, 0.36, 0.06), (1.0, 0.86, 0.40), wave)
    if name == "stone":
        rough = noise(seed, size, size, max(3.0, size / 14), 4)
        return _mix((0.30, 0.29, 0.28), (0.72, 0.70, 0.66), np.clip((rough - 0.5) * 2.6 + 0.5, 0, 1))
    other = np.array((0.96, 0.95, 0.92) if color.mean() < 0.7 else (0.15, 0.25, 0.6), dtype=np.float32)
    if name == "stripes":
        pattern = (np.sin(2 * np.pi * (ys * 6 + xs * 2)) > 0).astype(np.float32)
    elif name == "dots":
        gx, gy = (xs * 7) % 1 - 0.5, (ys * 7 + 0.5 * np.floor(xs * 7)) % 1 - 0.5
        pattern = (gx * gx + gy * gy < 0.085).astype(np.float32)
    else:
        pattern = ((np.floor(xs * 8) + np.floor(ys * 8)) % 2).astype(np.float32)
    pattern = cv2.GaussianBlur(pattern, (0, 0), max(0.5, size / 400))[..., None]
    patterned: Image = base * (1 - pattern) + other * pattern
    return patterned


@lru_cache(maxsize=16)
def wood(seed: int, height: int, width: int) -> Image:
    """Return wood with its grain along x. Cached; copy before writing."""
    bend = noise(seed, height, width, max(8.0, width / 3), 2)
    fine = cv2.resize(noise(seed + 1, height, max(8, width // 14), 4.0, 3), (width, height))
    ys = np.arange(height, dtype=np.float32)[:, None] / height
    rings = 0.5 + 0.5 * np.sin(2 * np.pi * (ys * 7 + bend * 3.2))
    return _mix((0.36, 0.20, 0.09), (0.76, 0.52, 0.30), 0.45 * rings + 0.55 * fine)


@lru_cache(maxsize=16)
def marble(seed: int, height: int, width: int) -> Image:
    """Return white marble with gray veins. Cached; copy before writing."""
    warp = noise(seed, height, width, max(8.0, width / 2.5), 5)
    veins = 1 - np.abs(np.sin(np.pi * (warp * 5 + np.arange(width, dtype=np.float32)[None, :] / width)))
    cloud = noise(seed + 1, height, width, max(8.0, width / 4), 3)
    return _mix((0.42, 0.43, 0.46), (0.95, 0.94, 0.92), np.clip(1.12 - veins**6 - 0.35 * cloud, 0, 1))


def _mix(low: Point | Sequence[float], high: Sequence[float], share: Image) -> Image:
    """Blend two colors by a weight map."""
    a, b = np.array(low, dtype=np.float32), np.array(high, dtype=np.float32)
    result: Image = a + (b - a) * share[..., None]
    return result


def gradient(height: int, width: int, stops: Sequence[tuple[float, Sequence[float]]]) -> Image:
    """Return a vertical gradient; stops are (relative height, color)."""
    places = [stop for stop, _ in stops]
    ys = np.linspace(0, 1, height)
    rows = np.stack([np.interp(ys, places, [color[c] for _, color in stops]) for c in range(3)], axis=1)
    return np.repeat(rows[:, None, :], width, axis=1).astype(np.float32)


def lay(canvas: Image, color: Image, mask: Image) -> None:
    """Blend a color or an image into a canvas by a mask, in place."""
    canvas += (color - canvas) * mask[..., None]


def to_bytes(image: Image) -> NDArray[np.uint8]:
    """Convert float to 8 bits."""
    return np.clip(np.round(image * 255), 0, 255).astype(np.uint8)

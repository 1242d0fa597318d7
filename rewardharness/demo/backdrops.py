"""Render empty scenes: walls, skies, floors and grounds."""

from collections.abc import Sequence
from functools import lru_cache

import cv2
import numpy as np

from rewardharness.demo.paint import COLORS, Image, color, gradient, lay, marble, noise, rgb, wood
from rewardharness.demo.photos import SIDE, surface

TINTS: dict[str, tuple[float, float, float]] = {
    "day": (1.0, 1.0, 1.0),
    "sunset": (1.0, 0.80, 0.66),
    "night": (0.36, 0.42, 0.62),
    "storm": (0.70, 0.73, 0.78),
}
"""Color of the light of each sky."""

_SKIES: dict[str, list[tuple[float, tuple[float, float, float]]]] = {
    "day": [(0, (0.22, 0.46, 0.82)), (0.6, (0.62, 0.80, 0.94)), (1, (0.80, 0.89, 0.95))],
    "sunset": [(0, (0.26, 0.20, 0.45)), (0.28, (0.70, 0.30, 0.40)), (0.5, (0.98, 0.55, 0.24)), (1, (1.0, 0.80, 0.45))],
    "night": [(0, (0.02, 0.03, 0.09)), (1, (0.08, 0.12, 0.26))],
    "storm": [(0, (0.22, 0.24, 0.28)), (1, (0.55, 0.57, 0.60))],
}
_WALLS: dict[str, tuple[float, float, float]] = {
    "cream": (0.86, 0.80, 0.68),
    "blue": (0.40, 0.56, 0.78),
    "green": (0.48, 0.66, 0.46),
    "pink": (0.90, 0.62, 0.66),
    "brick": (0.60, 0.29, 0.22),
}
_GROUNDS: dict[str, tuple[float, tuple[float, float, float]]] = {
    "grass": (0.75, (0.30, 0.44, 0.14)),
    "sand": (0.22, (0.82, 0.68, 0.44)),
    "snow": (0.10, (0.90, 0.93, 0.97)),
    "gravel": (0.45, (0.55, 0.53, 0.50)),
}


@lru_cache(maxsize=8)
def backdrop(place: str, seed: int, wall: str, floor: str) -> Image:
    """Return the empty scene. Cached; copy before writing."""
    return {"room": _room, "table": _tabletop, "street": _street}.get(place, _landscape)(seed, wall, floor)


def _ground(texture: Image, horizon: float, repeat: float = 1.0) -> Image:
    """Project a texture onto the ground plane, from the horizon to the lower edge of the image."""
    height, width = texture.shape[:2]
    rows = SIDE - round(horizon * SIDE)
    depth = 1.0 / (np.linspace(0.06, 1, rows, dtype=np.float32) * 0.9 + 0.1)
    xs = np.linspace(-0.5, 0.5, SIDE, dtype=np.float32)
    u = ((xs[None, :] * depth[:, None] * repeat + 0.5) * width) % width
    v = np.repeat((depth * repeat * height * 0.6 % height)[:, None], SIDE, axis=1)
    near = cv2.remap(texture, u, v, cv2.INTER_LINEAR, borderMode=cv2.BORDER_WRAP)
    haze = np.clip((depth - 2.5) / 6, 0, 0.75)[:, None, None]
    laid: Image = near * (1 - haze) + texture.mean(axis=(0, 1)) * haze
    return laid


def _floor(seed: int, name: str) -> Image:
    """Return the texture of a floor or ground seen from above."""
    if name == "wood":
        rows = [np.roll(wood(seed + k, 128, 512), 97 * k, axis=1) * (0.86 + 0.07 * k) for k in range(4)]
        planks = np.concatenate(rows)
        planks[::128] *= 0.45
        planks[1::128] *= 0.65
        return np.ascontiguousarray(planks.transpose(1, 0, 2))
    if name == "marble":
        vein = np.concatenate([(half := marble(seed, 256, 512)), half[::-1]])
        return np.concatenate([vein[:, ::2], vein[:, ::-2]], axis=1)
    if name == "tiles":
        squares = (np.indices((512, 512)) // 128).sum(axis=0) % 2
        tiles = np.where(squares[..., None] == 0, 0.86, 0.25) * (0.9 + 0.2 * noise(seed, 512, 512, 40.0)[..., None])
        return np.repeat(tiles, 3, axis=2).astype(np.float32)
    if name in {"carpet", "cloth"}:
        dye = rgb("red") * 0.75 if name == "carpet" else color(0.86, 0.88, 0.90)
        weave = 0.92 + 0.16 * np.random.default_rng([seed, 8]).random((512, 512, 1), dtype=np.float32)
        check = (np.indices((512, 512)) // 64 % 2).astype(np.float32).mean(axis=0)[..., None]
        return np.asarray(dye * weave * (1 if name == "carpet" else 0.72 + 0.28 * check), dtype=np.float32)
    strength, tint = _GROUNDS[name]
    source = surface("grass" if name == "grass" else "gravel")
    return (1 + (source[..., None] - 1) * strength) * color(*tint)


def _room(seed: int, wall: str, floor: str) -> Image:
    edge = round(0.66 * SIDE)
    canvas = np.empty((SIDE, SIDE, 3), dtype=np.float32)
    smooth = 0.95 + 0.1 * noise(seed, edge, SIDE, 24.0)[..., None]
    canvas[:edge] = color(*_WALLS[wall]) * (surface("brick")[:edge, :, None] if wall == "brick" else smooth)
    canvas[edge:] = _ground(_floor(seed, floor), 0.66)
    canvas[edge - 16 : edge] = (0.88, 0.87, 0.84)
    canvas[edge - 17 : edge - 15] *= 0.75
    canvas[edge : edge + 6] *= np.linspace(0.5, 0.95, 6, dtype=np.float32)[:, None, None]
    x0 = round((0.60 + 0.05 * (seed % 3)) * SIDE)
    _window(canvas, seed, (x0, round(0.10 * SIDE)), (x0 + 140, round(0.10 * SIDE) + 150))
    light = 0.80 + 0.35 * np.exp(-((np.linspace(0, 1, SIDE) - 0.7) ** 2) / 0.18).astype(np.float32)
    return canvas * light[None, :, None]


def _window(canvas: Image, seed: int, low: tuple[int, int], high: tuple[int, int]) -> None:
    x0, y0, x1, y1 = *low, *high
    canvas[y0 + 6 : y1 + 12, x0 + 4 : x1 + 12] *= 0.8
    canvas[y0 - 8 : y1 + 8, x0 - 8 : x1 + 8] = (0.93, 0.92, 0.90)
    sky = [(0, (0.55, 0.75, 0.95)), (0.6, (0.88, 0.94, 0.98)), (0.66, (0.35, 0.52, 0.26)), (1, (0.28, 0.44, 0.2))]
    canvas[y0:y1, x0:x1] = gradient(y1 - y0, x1 - x0, sky) * (
        0.9 + 0.2 * noise(seed + 9, y1 - y0, x1 - x0, 30.0)[..., None]
    )
    canvas[y0:y1, (x0 + x1) // 2 - 3 : (x0 + x1) // 2 + 3] = (0.90, 0.89, 0.87)
    canvas[(y0 + y1) // 2 - 3 : (y0 + y1) // 2 + 3, x0:x1] = (0.90, 0.89, 0.87)
    canvas[y1 + 8 : y1 + 16, x0 - 14 : x1 + 14] = (0.80, 0.79, 0.77)


_SHELVED = np.array(((1.0, 0.85, 0.65), (0.9, 0.45, 0.3), (0.5, 0.65, 0.75)))
_SEA = [(0.38, 0.66, 0.92), (0.74, 0.87, 0.96), (0.10, 0.45, 0.62), (0.18, 0.58, 0.68), (0.92, 0.84, 0.64)]
_BEHIND: dict[str, tuple[int, Sequence[tuple[float, Sequence[float]]]]] = {
    "kitchen": (16, [(0, (0.72, 0.66, 0.56)), (1, (0.52, 0.45, 0.36))]),
    "garden": (40, [(0, (0.62, 0.78, 0.46)), (1, (0.22, 0.40, 0.14))]),
    "lights": (55, [(0, (0.02, 0.02, 0.07)), (1, (0.06, 0.06, 0.14))]),
    "beach": (0, [*zip((0, 0.55, 0.57, 0.8, 0.83), _SEA, strict=True), (1, (0.88, 0.78, 0.56))]),
}
"""Number of spots, and the colors behind them from top to bottom."""


def _tabletop(seed: int, wall: str, floor: str) -> Image:
    edge, (spots, stops) = round(0.56 * SIDE), _BEHIND[wall]
    canvas = np.empty((SIDE, SIDE, 3), dtype=np.float32)
    behind = gradient(edge, SIDE, stops)
    if wall == "kitchen":
        behind[110:120] = behind[230:240] = (0.34, 0.24, 0.16)
    rng = np.random.default_rng([seed, 12])
    for number in range(spots):
        x, y, radius = int(rng.integers(SIDE)), int(rng.integers(edge)), int(rng.integers(9, 26))
        if wall == "kitchen":
            shade = rng.uniform(0.2, 0.9) * _SHELVED[number % 3]
            shelf = 110 if number % 2 else 230
            cv2.rectangle(behind, (x - radius, shelf - 3 * radius), (x + radius, shelf), shade.tolist(), -1)
        else:
            hot = (1.0, 0.80, 0.40) if rng.random() < 0.6 else (0.5, 0.7, 1.0)
            shade = np.array(hot) * rng.uniform(0.4, 1) if wall == "lights" else behind[y, x] * rng.uniform(0.6, 1.45)
            cv2.circle(behind, (x, y), radius, shade.tolist(), -1)
    canvas[:edge] = np.clip(cv2.GaussianBlur(behind, (0, 0), 4.0 if wall in {"lights", "beach"} else 8.0), 0, 1)
    canvas[edge:] = _ground(_floor(seed, floor), 0.56, 0.7)
    canvas[edge : edge + 5] *= 0.7
    canvas[edge:] *= np.linspace(0.84, 1.04, SIDE - edge, dtype=np.float32)[:, None, None]
    return canvas


def _street(seed: int, sky: str, floor: str) -> Image:
    edge, road, tint = round(0.70 * SIDE), round(0.92 * SIDE), color(*TINTS[sky])
    canvas = np.empty((SIDE, SIDE, 3), dtype=np.float32)
    canvas[:edge] = _sky(seed, sky, edge)
    _facade(canvas, seed, edge, tint, lit=sky == "night")
    canvas[edge:] = _ground(_floor(seed, floor), edge / SIDE) * tint
    canvas[road - 8 : road] = color(0.60, 0.60, 0.58) * tint
    canvas[road:] = (0.22 + 0.08 * noise(seed + 2, SIDE - road, SIDE, 3.0, 2)[..., None]) * tint
    return canvas


def _landscape(seed: int, sky: str, floor: str) -> Image:
    edge, tint = round(0.56 * SIDE), color(*TINTS[sky])
    canvas = np.empty((SIDE, SIDE, 3), dtype=np.float32)
    canvas[:edge] = _sky(seed, sky, edge)
    _mountains(canvas, seed, edge, tint, sky)
    canvas[edge:] = _ground(_floor(seed, floor), edge / SIDE) * tint
    return canvas


def _sky(seed: int, name: str, rows: int) -> Image:
    canvas = gradient(rows, SIDE, _SKIES[name])
    puffs = cv2.resize(noise(seed + 1, rows, SIDE // 2, 70.0, 5), (SIDE, rows))
    if name == "night":
        rng = np.random.default_rng([seed, 3])
        stars = rng.integers(0, SIDE, 130), rng.integers(0, rows, 130), rng.uniform(0.4, 1, 130)
        for x, y, glow in zip(*stars, strict=True):
            canvas[y, x] = glow
            near = canvas[max(0, y - 1) : y + 2, max(0, x - 1) : x + 2]
            np.maximum(near, glow * 0.5, out=near)
        cv2.circle(canvas, (round(0.80 * SIDE), 70), 30, (0.95, 0.94, 0.85), -1, cv2.LINE_AA)
        cv2.circle(canvas, (round(0.80 * SIDE) + 13, 63), 26, canvas[90, 10].tolist(), -1, cv2.LINE_AA)
        return canvas
    gray = {"day": (0.98, 0.98, 0.98), "sunset": (0.75, 0.36, 0.36), "storm": (0.30, 0.31, 0.34)}[name]
    lay(canvas, color(*gray), np.clip((puffs - (0.36 if name == "storm" else 0.50)) * 6, 0, 0.9))
    if name == "sunset":
        glow = np.zeros((rows, SIDE), dtype=np.float32)
        cv2.circle(glow, (round(0.68 * SIDE), round(rows * 0.66)), 30, 1.0, -1, cv2.LINE_AA)
        wide = cv2.GaussianBlur(glow, (0, 0), 26)
        lay(canvas, color(1.0, 0.93, 0.66), np.clip(glow + 1.4 * wide, 0, 1))
    return canvas


def _mountains(canvas: Image, seed: int, edge: int, tint: Image, sky: str) -> None:
    rng = np.random.default_rng([seed, 4])
    far = canvas[edge - 4].mean(axis=0)
    for layer, (top, rough, mix) in enumerate(((0.26, 90.0, 0.55), (0.40, 60.0, 0.25))):
        line = noise(int(rng.integers(1 << 30)), 1, SIDE, rough, 5)[0]
        ridge = np.clip((top + (0.5 - line) * (0.42 - 0.14 * layer)) * SIDE, 20, edge)
        inside = np.clip(np.arange(edge, dtype=np.float32)[:, None] - ridge[None, :], 0, 1)
        slope = noise(seed + 20 + layer, edge, SIDE, 46.0, 5)[..., None]
        rock = (color(0.36, 0.40, 0.46) if layer == 0 else color(0.20, 0.32, 0.20)) * tint
        body = (rock * (0.55 + 0.9 * slope)) * (1 - mix) + far * mix
        if layer == 0 and sky != "night":
            depth = np.arange(edge, dtype=np.float32)[:, None] - ridge[None, :]
            high = np.clip((top * SIDE - ridge[None, :]) / 24, 0, 1)
            white = np.clip(1 - depth / 26 + (slope[..., 0] - 0.5) * 3, 0, 1) * high
            lay(body, color(0.94, 0.95, 0.98) * (0.4 + 0.6 * tint), white)
        lay(canvas[:edge], body, inside)


def _facade(canvas: Image, seed: int, edge: int, tint: Image, *, lit: bool) -> None:
    """Render a row of houses with bricks of different colors, windows and a shop door."""
    rng = np.random.default_rng([seed, 6])
    left = 0
    colors = [COLORS["brown"], (0.60, 0.30, 0.24), (0.66, 0.60, 0.50), (0.42, 0.44, 0.50)]
    while left < SIDE:
        width, top = int(rng.integers(150, 210)), int(rng.integers(60, 150))
        right = min(SIDE, left + width)
        brick = color(*colors[int(rng.integers(len(colors)))])
        wall = surface("brick")[: edge - top, : right - left, None]
        canvas[top:edge, left:right] = brick * (1 + (wall - 1) * 0.8) * tint
        canvas[top : top + 9, left:right] *= 0.6
        for y in range(top + 28, edge - 100, 74):
            for x in range(left + 20, right - 40, 52):
                glass = color(1.0, 0.80, 0.42) if lit and rng.random() < 0.6 else color(0.24, 0.32, 0.40)
                canvas[y - 4 : y + 50, x - 4 : x + 34] = color(0.82, 0.80, 0.76) * tint
                canvas[y : y + 46, x : x + 30] = glass if lit else glass * tint
                canvas[y : y + 46, x + 14 : x + 16] = color(0.82, 0.80, 0.76) * tint
        door = left + (right - left) // 2 - 20
        if right - door > 44:
            canvas[edge - 84 : edge, door : door + 42] = color(0.20, 0.14, 0.12) * tint
            canvas[edge - 78 : edge - 40, door + 6 : door + 36] = color(0.30, 0.40, 0.46) * tint
        left = right

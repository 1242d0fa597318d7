"""Objects of rendered scenes, each painted on its own canvas and standing on the lower edge."""

from collections.abc import Callable
from functools import lru_cache

import cv2
import numpy as np

from rewardharness.demo.canvas import SIDE, Canvas, Thing, letters, profile
from rewardharness.demo.paint import Image, Point, box, ellipse, noise, polygon, rgb, stroke


def _ball(c: Canvas, t: Thing) -> None:
    c.put(ellipse(SIDE, (0.5, 0.55), (0.43, 0.43)), rgb(t.color), "round", gloss=0.5, surface=t.material)


def _cube(c: Canvas, t: Thing) -> None:
    color = rgb(t.color)
    c.put(
        polygon(SIDE, [(0.08, 0.34), (0.27, 0.15), (0.92, 0.15), (0.72, 0.34)]), color, surface=t.material, light=1.15
    )
    c.put(
        polygon(SIDE, [(0.72, 0.34), (0.92, 0.15), (0.92, 0.78), (0.72, 0.98)]), color, surface=t.material, light=0.55
    )
    c.put(
        polygon(SIDE, [(0.08, 0.34), (0.72, 0.34), (0.72, 0.98), (0.08, 0.98)]), color, surface=t.material, light=0.88
    )


def _mug(c: Canvas, t: Thing) -> None:
    color = rgb(t.color)
    ring = np.clip(ellipse(SIDE, (0.70, 0.58), (0.24, 0.23)) - ellipse(SIDE, (0.70, 0.58), (0.15, 0.145)), 0, 1)
    c.put(ring, color, "round", gloss=0.3, surface=t.material)
    body = np.maximum(box(SIDE, (0.12, 0.26), (0.70, 0.90)), ellipse(SIDE, (0.41, 0.90), (0.29, 0.075)))
    c.put(body, color, "tube", gloss=0.5, surface=t.material)
    c.put(ellipse(SIDE, (0.41, 0.26), (0.29, 0.085)), color * 0.9 + 0.1, surface=t.material, light=1.1)
    c.put(ellipse(SIDE, (0.41, 0.267), (0.255, 0.066)), rgb("brown") * 0.55)


def _bottle(c: Canvas, t: Thing) -> None:
    rows = [(0.08, 0.065), (0.30, 0.07), (0.40, 0.16), (0.94, 0.17), (0.98, 0.15)]
    c.put(polygon(SIDE, profile(rows)), rgb(t.color), "tube", gloss=0.8, surface=t.material)
    c.put(box(SIDE, (0.33, 0.55), (0.67, 0.78)), rgb("white"), "tube")
    c.put(box(SIDE, (0.425, 0.02), (0.575, 0.11), 0.02), rgb("gray") * 0.6, "tube", gloss=0.3)


def _vase(c: Canvas, t: Thing) -> None:
    rows = [(0.10, 0.17), (0.14, 0.15), (0.28, 0.10), (0.52, 0.29), (0.72, 0.28), (0.92, 0.14), (0.98, 0.16)]
    c.put(polygon(SIDE, profile(rows)), rgb(t.color), "tube", gloss=0.6, surface=t.material)
    c.put(ellipse(SIDE, (0.5, 0.11), (0.165, 0.04)), rgb(t.color) * 0.25)


def _apple(c: Canvas, t: Thing) -> None:
    body = np.maximum(ellipse(SIDE, (0.37, 0.61), (0.27, 0.35), 8), ellipse(SIDE, (0.63, 0.61), (0.27, 0.35), -8))
    body = np.maximum(body, ellipse(SIDE, (0.5, 0.65), (0.3, 0.29)))
    c.put(body, rgb(t.color), "round", gloss=0.55, surface=t.material)
    c.put(ellipse(SIDE, (0.5, 0.325), (0.13, 0.045)), rgb(t.color) * 0.45)
    c.put(stroke(SIDE, [(0.50, 0.33), (0.51, 0.22), (0.55, 0.12)], 0.04), rgb("brown") * 0.7)
    c.put(ellipse(SIDE, (0.66, 0.17), (0.13, 0.055), -25), rgb("green"), "round")


def _pear(c: Canvas, t: Thing) -> None:
    rows = [(0.17, 0.07), (0.24, 0.13), (0.42, 0.18), (0.62, 0.31), (0.78, 0.345), (0.90, 0.28), (0.98, 0.12)]
    c.put(polygon(SIDE, profile(rows)), rgb(t.color), "round", gloss=0.4, surface=t.material)
    c.put(stroke(SIDE, [(0.50, 0.19), (0.49, 0.11), (0.45, 0.04)], 0.035), rgb("brown") * 0.7)


def _banana(c: Canvas, t: Thing) -> None:
    turn = np.radians(np.linspace(10, 165, 30))
    outer = [(float(0.5 + 0.46 * np.cos(a)), float(0.42 + 0.50 * np.sin(a))) for a in turn]
    inner = [(float(0.5 + 0.40 * np.cos(a)), float(0.36 + 0.30 * np.sin(a))) for a in turn[::-1]]
    c.put(polygon(SIDE, outer + inner), rgb(t.color), "round", gloss=0.2, surface=t.material)
    c.put(ellipse(SIDE, (0.925, 0.46), (0.035, 0.05), 20), rgb("brown") * 0.6, "round")
    c.put(ellipse(SIDE, (0.085, 0.49), (0.03, 0.04), -20), rgb("brown") * 0.6, "round")


def _book(c: Canvas, t: Thing) -> None:
    color = rgb(t.color)
    c.put(polygon(SIDE, [(0.74, 0.10), (0.86, 0.15), (0.86, 0.93), (0.74, 0.98)]), rgb("white"), light=0.8)
    for x in (0.77, 0.80, 0.83):
        c.put(stroke(SIDE, [(x, 0.13), (x, 0.95)], 0.006), rgb("gray"))
    c.put(box(SIDE, (0.16, 0.10), (0.75, 0.98), 0.015), color, surface=t.material, light=0.95)
    c.put(box(SIDE, (0.16, 0.10), (0.225, 0.98), 0.015), color * 0.55, "tube")
    for y, width in ((0.26, 0.36), (0.33, 0.26), (0.83, 0.20)):
        c.put(box(SIDE, (0.49 - width / 2, y), (0.49 + width / 2, y + 0.032)), color * 0.25 + 0.7)


def _candle(c: Canvas, t: Thing) -> None:
    yy, xx = np.mgrid[0:SIDE, 0:SIDE].astype(np.float32) / SIDE
    body = np.maximum(box(SIDE, (0.34, 0.40), (0.66, 0.96)), ellipse(SIDE, (0.5, 0.96), (0.16, 0.025)))
    c.put(body, rgb(t.color), "tube", gloss=0.2, surface=t.material)
    c.put(ellipse(SIDE, (0.5, 0.40), (0.16, 0.04)), np.clip(rgb(t.color) * 1.1 + 0.12, 0, 1))
    c.put(stroke(SIDE, [(0.5, 0.40), (0.5, 0.32)], 0.018), rgb("black"))
    flame = np.exp(-(((xx - 0.5) / 0.05) ** 2 + ((yy - 0.24) / 0.085) ** 2) * 1.1).astype(np.float32)
    c.put(np.clip(flame * 1.5, 0, 1), np.array((1.0, 0.66, 0.15), dtype=np.float32), light=1.1)
    c.put(ellipse(SIDE, (0.5, 0.27), (0.022, 0.045)), np.array((1.0, 0.97, 0.75), dtype=np.float32), light=1.1)


def _plant(c: Canvas, t: Thing) -> None:
    for number, angle in enumerate((-80, -52, -128, -30, -150, -68, -112, -92)):
        turn = np.radians(angle)
        reach = 0.27 + 0.045 * (number % 3)
        center = (float(0.5 + reach * np.cos(turn)), float(0.56 + reach * np.sin(turn)))
        c.put(ellipse(SIDE, center, (0.20, 0.055), angle), rgb("green") * (0.72 + 0.12 * (number % 4)), "round")
    pot = polygon(SIDE, [(0.28, 0.60), (0.72, 0.60), (0.65, 0.98), (0.35, 0.98)])
    c.put(pot, rgb(t.color), "tube", gloss=0.25, surface=t.material)
    c.put(box(SIDE, (0.25, 0.55), (0.75, 0.65), 0.02), rgb(t.color), "tube", gloss=0.25, surface=t.material, light=1.1)


def _lamp(c: Canvas, t: Thing) -> None:
    c.put(ellipse(SIDE, (0.5, 0.955), (0.17, 0.035)), rgb("gray") * 0.55, "round")
    c.put(box(SIDE, (0.48, 0.38), (0.52, 0.95)), rgb("gray") * 0.7, "tube", gloss=0.5)
    shade = polygon(SIDE, [(0.36, 0.05), (0.64, 0.05), (0.80, 0.42), (0.20, 0.42)])
    c.put(shade, rgb(t.color), "tube", surface=t.material, light=1.15)
    c.put(box(SIDE, (0.20, 0.40), (0.80, 0.43)), rgb(t.color) * 0.6, "tube")


def _chair(c: Canvas, t: Thing) -> None:
    color = rgb(t.color)
    for x, top, bottom in ((0.30, 0.60, 0.90), (0.76, 0.60, 0.90)):
        c.put(box(SIDE, (x, top), (x + 0.05, bottom)), color, "tube", surface=t.material, light=0.7)
    for x in (0.27, 0.75):
        c.put(box(SIDE, (x, 0.04), (x + 0.055, 0.62), 0.02), color, "tube", surface=t.material)
    for y in (0.09, 0.23, 0.37):
        c.put(box(SIDE, (0.30, y), (0.77, y + 0.085), 0.02), color, "round", surface=t.material, light=1.05)
    c.put(
        polygon(SIDE, [(0.27, 0.56), (0.80, 0.56), (0.88, 0.66), (0.16, 0.66)]), color, surface=t.material, light=1.05
    )
    c.put(box(SIDE, (0.16, 0.66), (0.88, 0.71)), color, surface=t.material, light=0.7)
    for x in (0.17, 0.81):
        c.put(box(SIDE, (x, 0.69), (x + 0.06, 0.98)), color, "tube", surface=t.material)


def _duck(c: Canvas, t: Thing) -> None:
    color = rgb(t.color)
    body = np.maximum(
        ellipse(SIDE, (0.50, 0.74), (0.38, 0.24)), polygon(SIDE, [(0.12, 0.70), (0.03, 0.47), (0.35, 0.58)])
    )
    c.put(body, color, "round", gloss=0.45, surface=t.material)
    c.put(polygon(SIDE, [(0.86, 0.32), (0.99, 0.37), (0.97, 0.42), (0.84, 0.42)]), rgb("orange"), "round")
    c.put(ellipse(SIDE, (0.68, 0.34), (0.215, 0.21)), color, "round", gloss=0.45, surface=t.material)
    c.put(ellipse(SIDE, (0.76, 0.29), (0.035, 0.042)), rgb("black"))
    c.put(ellipse(SIDE, (0.77, 0.277), (0.012, 0.012)), rgb("white"))
    c.put(ellipse(SIDE, (0.42, 0.72), (0.20, 0.12), 12), np.clip(color * 0.92, 0, 1), "round", surface=t.material)


def _bear(c: Canvas, t: Thing) -> None:
    color = rgb(t.color)
    paw = np.clip(color * 0.5 + 0.42, 0, 1)
    for x in (0.30, 0.70):
        c.put(ellipse(SIDE, (x, 0.10), (0.10, 0.095)), color, "round", surface=t.material)
        c.put(ellipse(SIDE, (x, 0.10), (0.055, 0.05)), paw)
    for x, angle in ((0.21, 35), (0.79, -35)):
        c.put(ellipse(SIDE, (x, 0.56), (0.10, 0.17), angle), color, "round", surface=t.material)
    c.put(ellipse(SIDE, (0.5, 0.66), (0.25, 0.27)), color, "round", surface=t.material)
    c.put(ellipse(SIDE, (0.5, 0.69), (0.15, 0.17)), paw, "round")
    for x in (0.27, 0.73):
        c.put(ellipse(SIDE, (x, 0.87), (0.14, 0.11)), color, "round", surface=t.material)
        c.put(ellipse(SIDE, (x, 0.88), (0.07, 0.06)), paw)
    c.put(ellipse(SIDE, (0.5, 0.25), (0.25, 0.225)), color, "round", surface=t.material)
    c.put(ellipse(SIDE, (0.5, 0.33), (0.11, 0.085)), paw, "round")
    c.put(ellipse(SIDE, (0.5, 0.295), (0.04, 0.028)), rgb("black"))
    for x in (0.405, 0.595):
        c.put(ellipse(SIDE, (x, 0.225), (0.026, 0.03)), rgb("black"))


def _tree(c: Canvas, t: Thing) -> None:
    c.put(
        polygon(SIDE, [(0.45, 0.50), (0.55, 0.50), (0.59, 0.98), (0.41, 0.98)]),
        rgb("brown"),
        "tube",
        surface="wood",
        light=0.7,
    )
    blobs = [
        (0.50, 0.22, 0.20),
        (0.30, 0.36, 0.19),
        (0.70, 0.35, 0.20),
        (0.42, 0.48, 0.17),
        (0.60, 0.49, 0.17),
        (0.5, 0.36, 0.2),
    ]
    crown = np.zeros((SIDE, SIDE), dtype=np.float32)
    for x, y, radius in blobs:
        crown = np.maximum(crown, ellipse(SIDE, (x, y), (radius, radius * 0.92)))
    leaves = noise(c.seed + 3, SIDE, SIDE, 22.0, 3)
    ragged = cv2.GaussianBlur(crown, (0, 0), 7) + (leaves - 0.5) * 1.5
    near = cv2.dilate(crown, np.ones((9, 9), dtype=np.uint8))
    crown = np.clip((ragged - 0.42) * 7, 0, 1) * near
    speckle = 0.45 + 1.1 * noise(c.seed + 4, SIDE, SIDE, 14.0, 3)[..., None]
    c.put(crown, rgb(t.color) * speckle, "round", surface="plain")


def _house(c: Canvas, t: Thing) -> None:
    wall = rgb(t.color) * 0.85 + 0.08
    c.put(box(SIDE, (0.66, 0.06), (0.76, 0.34)), rgb("brown"), surface="stone", light=0.7)
    c.put(polygon(SIDE, [(0.10, 0.42), (0.90, 0.42), (0.90, 0.98), (0.10, 0.98)]), wall, surface=t.material)
    roof = np.array((0.42, 0.16, 0.12) if t.color != "red" else (0.28, 0.28, 0.32), dtype=np.float32)
    c.put(polygon(SIDE, [(0.03, 0.45), (0.50, 0.10), (0.97, 0.45)]), roof)
    c.put(box(SIDE, (0.10, 0.45), (0.90, 0.48)), wall * 0.5)
    c.put(box(SIDE, (0.43, 0.66), (0.59, 0.98)), rgb("brown"), surface="wood", light=0.75)
    for x in (0.19, 0.66):
        c.put(box(SIDE, (x - 0.015, 0.56), (x + 0.165, 0.765)), rgb("white"))
        c.put(box(SIDE, (x, 0.575), (x + 0.15, 0.75)), np.array((0.25, 0.36, 0.47), dtype=np.float32))
        c.put(box(SIDE, (x + 0.068, 0.575), (x + 0.082, 0.75)), rgb("white"))
        c.put(box(SIDE, (x, 0.655), (x + 0.15, 0.67)), rgb("white"))


def _balloon(c: Canvas, t: Thing) -> None:
    color = rgb(t.color)
    rows = [(0.02, 0.06), (0.08, 0.22), (0.20, 0.33), (0.34, 0.36), (0.50, 0.30), (0.64, 0.17), (0.72, 0.09)]
    envelope = polygon(SIDE, profile(rows))
    c.put(envelope, color, "tube", surface=t.material)
    if t.material == "plain":
        band = box(SIDE, (0.0, 0.30), (1.0, 0.42)) * envelope
        c.put(band, np.clip(color * 0.3 + 0.68, 0, 1), "tube")
    for x in (0.42, 0.58):
        c.put(stroke(SIDE, [(x, 0.71), (0.5 + (x - 0.5) * 0.8, 0.86)], 0.008), rgb("brown") * 0.5)
    c.put(box(SIDE, (0.42, 0.85), (0.58, 0.97), 0.02), rgb("brown"), "tube", surface="wood", light=0.8)


def _car(c: Canvas, t: Thing) -> None:
    """Paint a car that faces right."""
    color = rgb(t.color)
    cabin = polygon(SIDE, [(0.07, 0.66), (0.14, 0.47), (0.46, 0.47), (0.63, 0.66)])
    body = np.maximum(box(SIDE, (0.03, 0.63), (0.97, 0.86), 0.07), cabin)
    c.put(body, color, "round", gloss=0.6, surface=t.material, light=1.05)
    glass = np.array((0.16, 0.22, 0.28), dtype=np.float32)
    c.put(polygon(SIDE, [(0.13, 0.65), (0.18, 0.51), (0.29, 0.51), (0.29, 0.65)]), glass)
    c.put(polygon(SIDE, [(0.32, 0.65), (0.32, 0.51), (0.44, 0.51), (0.55, 0.65)]), glass)
    c.put(stroke(SIDE, [(0.305, 0.64), (0.305, 0.83)], 0.008), color * 0.45)
    c.put(ellipse(SIDE, (0.94, 0.71), (0.03, 0.035)), np.array((1.0, 0.95, 0.7), dtype=np.float32))
    c.put(ellipse(SIDE, (0.05, 0.71), (0.018, 0.035)), rgb("red"))
    for x in (0.22, 0.77):
        c.put(ellipse(SIDE, (x, 0.86), (0.12, 0.12)), rgb("black"), "round")
        c.put(ellipse(SIDE, (x, 0.86), (0.06, 0.06)), rgb("gray") * 1.3, "round", gloss=0.4)


def _cone(c: Canvas, t: Thing) -> None:
    c.put(
        polygon(SIDE, [(0.10, 0.90), (0.90, 0.90), (0.96, 0.98), (0.04, 0.98)]), rgb(t.color) * 0.8, surface=t.material
    )
    body = polygon(SIDE, [(0.46, 0.05), (0.54, 0.05), (0.78, 0.91), (0.22, 0.91)])
    c.put(body, rgb(t.color), "tube", gloss=0.2, surface=t.material)
    for top, bottom in ((0.30, 0.44), (0.60, 0.74)):
        c.put(box(SIDE, (0.1, top), (0.9, bottom)) * body, rgb("white"), "tube")


def _bench(c: Canvas, t: Thing) -> None:
    for x in (0.12, 0.82):
        c.put(box(SIDE, (x, 0.46), (x + 0.06, 0.98)), rgb("black") * 1.6, "tube")
    for y in (0.46, 0.55):
        c.put(box(SIDE, (0.04, y), (0.96, y + 0.07), 0.02), rgb(t.color), "round", surface=t.material)
    c.put(
        polygon(SIDE, [(0.06, 0.70), (0.94, 0.70), (0.99, 0.79), (0.01, 0.79)]),
        rgb(t.color),
        surface=t.material,
        light=1.1,
    )
    c.put(box(SIDE, (0.01, 0.79), (0.99, 0.83)), rgb(t.color), surface=t.material, light=0.6)


def _sign(c: Canvas, t: Thing) -> None:
    c.put(box(SIDE, (0.47, 0.40), (0.53, 0.98)), rgb("gray") * 0.7, "tube", gloss=0.3)
    _board(c, t, (0.04, 0.12), (0.96, 0.52))


def _card(c: Canvas, t: Thing) -> None:
    c.put(polygon(SIDE, [(0.04, 0.96), (0.12, 0.52), (0.90, 0.48), (0.99, 0.92)]), rgb("gray") * 0.6)
    _board(c, t, (0.03, 0.52), (0.97, 0.98))


def _poster(c: Canvas, t: Thing) -> None:
    c.put(box(SIDE, (0.05, 0.22), (0.97, 0.80)), rgb("black"), light=0.8)
    _board(c, t, (0.03, 0.20), (0.95, 0.78))


def _board(c: Canvas, t: Thing, low: Point, high: Point) -> None:
    color = rgb(t.color)
    pale = float(color.mean()) > 0.55
    ink = rgb("black") if pale else rgb("white")
    c.put(box(SIDE, low, high, 0.03), ink * 0.9)
    c.put(box(SIDE, (low[0] + 0.02, low[1] + 0.02), (high[0] - 0.02, high[1] - 0.02), 0.02), color, surface=t.material)
    if t.text:
        tall = high[1] - low[1]
        letters(c, t.text, (low[0] + 0.08, low[1] + 0.24 * tall), (high[0] - 0.08, high[1] - 0.24 * tall), ink)


PAINTERS: dict[str, Callable[[Canvas, Thing], None]] = {
    "apple": _apple,
    "balloon": _balloon,
    "ball": _ball,
    "banana": _banana,
    "bear": _bear,
    "bench": _bench,
    "book": _book,
    "bottle": _bottle,
    "candle": _candle,
    "car": _car,
    "card": _card,
    "chair": _chair,
    "cone": _cone,
    "cube": _cube,
    "duck": _duck,
    "house": _house,
    "lamp": _lamp,
    "mug": _mug,
    "pear": _pear,
    "plant": _plant,
    "poster": _poster,
    "sign": _sign,
    "tree": _tree,
    "vase": _vase,
}
"""Painters by kind of object."""


@lru_cache(maxsize=32)
def picture(kind: str, color: str, surface: str, text: str, seed: int) -> tuple[Image, Image]:
    """Paint a single object.

    Returns:
        Colors and opacity on a square canvas. Cached; copy before writing.
    """
    canvas = Canvas(seed)
    PAINTERS[kind](canvas, Thing(kind, color, material=surface, text=text))
    return canvas.color, canvas.alpha

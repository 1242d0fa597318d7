"""Objects of rendered scenes, each painted in parts on its own square canvas and standing on the lower edge."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np
from PIL import Image as Pillow
from PIL import ImageDraw, ImageFont

from rewardharness.demo.paint import (
    SIDE,
    Image,
    Point,
    box,
    color,
    ellipse,
    lay,
    material,
    noise,
    polygon,
    rgb,
    round_form,
    stroke,
    tube_form,
)


@dataclass(frozen=True)
class Thing:
    """One object of a scene."""

    kind: str
    """A key of `KINDS`."""
    color: str = "red"
    """Its main color, a key of `COLORS`."""
    x: float = 0.5
    """Horizontal position of its center, relative to the width."""
    y: float = 0.8
    """Vertical position of its base, relative to the height."""
    size: float = 0.3
    """Side of its canvas, relative to the height."""
    material: str = "plain"
    """`plain` or one of `MATERIALS`."""
    text: str = ""
    """Text on the object, if any."""
    angle: float = 0.0
    """Clockwise rotation around its center, in degrees."""
    mirrored: bool = False
    slot: int = 0
    """Index of its slot in the scene, from left to right."""


@dataclass(frozen=True)
class Kind:
    """What is known of a kind of object."""

    size: float
    """Relative size."""
    colors: str = "red orange yellow green blue purple pink"
    """Plausible colors."""
    edits: str = ""
    """`color` if it can be recolored, `material` if its material can be changed."""
    turns: tuple[str, ...] = ()
    """Possible turns: the correct one and a wrong one."""
    noun: str = ""
    """Its name, if different from the kind."""


KINDS: dict[str, Kind] = {
    "apple": Kind(0.62, "red green yellow", "color material"),
    "ball": Kind(0.72, edits="color material"),
    "balloon": Kind(1.15, noun="hot air balloon"),
    "banana": Kind(0.80, "yellow"),
    "bear": Kind(1.05, "brown pink gray", "color", ("over", "side"), "teddy bear"),
    "bench": Kind(1.20, "brown green blue", "color material"),
    "book": Kind(0.95, edits="color material"),
    "bottle": Kind(1.20, edits="color material", turns=("side", "over")),
    "candle": Kind(0.90, "white red purple", "color"),
    "car": Kind(1.55, edits="color", turns=("mirror", "over")),
    "card": Kind(1.00, "white yellow"),
    "chair": Kind(1.30, "brown red blue green", "color material", ("over", "side")),
    "cone": Kind(0.75, "orange", turns=("side", "over"), noun="traffic cone"),
    "cube": Kind(0.72, edits="color material"),
    "duck": Kind(0.80, "yellow pink blue", "color material", ("mirror", "over"), "rubber duck"),
    "house": Kind(1.60, "yellow white blue pink", "color"),
    "lamp": Kind(1.55, edits="color", turns=("side", "over")),
    "mug": Kind(0.82, edits="color material", turns=("over", "mirror")),
    "pear": Kind(0.74, "green yellow", "material"),
    "plant": Kind(1.10, turns=("side", "over"), noun="potted plant"),
    "poster": Kind(1.00, "white yellow"),
    "sign": Kind(1.30, "blue green white"),
    "tree": Kind(1.65, "green"),
    "vase": Kind(1.05, edits="color material"),
}
"""The kinds of object."""


class Canvas:
    """A transparent square canvas for painting parts. Coordinates are relative to its side."""

    def __init__(self, thing: Thing, seed: int) -> None:
        self.thing, self.seed, self.own = thing, seed, rgb(thing.color)
        self.color: Image = np.zeros((SIDE, SIDE, 3), dtype=np.float32)
        self.alpha: Image = np.zeros((SIDE, SIDE), dtype=np.float32)

    def put(
        self,
        mask: Image,
        color: Image | None = None,
        form: str = "flat",
        *,
        gloss: float = 0.0,
        surface: str = "plain",
        light: float = 1.0,
    ) -> None:
        """Paint one part.

        Args:
            mask: Its mask.
            color: Its color; None for color and material of the object.
            form: Shape for shading: `round`, `tube` or `flat`.
            gloss: Strength of the highlight, in [0, 1].
            surface: Its material, if a color is given.
            light: Factor on its brightness.
        """
        if color is None:
            color, surface = self.own, self.thing.material
        look = material(surface, color, SIDE, self.seed) * light
        if form != "flat":
            diffuse, shine = round_form(mask) if form == "round" else tube_form(mask)
            look = look * diffuse[..., None] + (gloss * shine)[..., None]
        self.alpha = mask + self.alpha * (1 - mask)
        lay(self.color, np.clip(look, 0, 1), mask / np.maximum(self.alpha, 1e-6))

    def letters(self, text: str, low: Point, high: Point, ink: Image) -> None:
        """Draw one line of text in a rectangle, as large as possible."""
        width, height = (high[0] - low[0]) * SIDE, (high[1] - low[1]) * SIDE
        left, top, right, bottom = ImageFont.load_default(100.0).getbbox(text)
        points = 100.0 * min(width / max(1, right - left), height / max(1, bottom - top))
        font = ImageFont.load_default(points)
        sheet = Pillow.new("L", (SIDE, SIDE), 0)
        middle = ((low[0] + high[0]) / 2 * SIDE, (low[1] + high[1]) / 2 * SIDE)
        ImageDraw.Draw(sheet).text(middle, text, fill=255, font=font, anchor="mm", stroke_width=points / 40)
        self.put(np.asarray(sheet, dtype=np.float32) / 255, ink)


def profile(rows: Sequence[tuple[float, float]]) -> list[Point]:
    """Return the outline of a body of revolution; rows are (y, half width)."""
    ys = np.linspace(rows[0][0], rows[-1][0], 40)
    half = np.interp(ys, [y for y, _ in rows], [w for _, w in rows])
    half = np.convolve(np.pad(half, 2, mode="edge"), np.full(5, 0.2), mode="valid")
    right = [(float(0.5 + w), float(y)) for y, w in zip(ys, half, strict=True)]
    return right + [(1 - x, y) for x, y in reversed(right)]


class Painter(Canvas):
    """Paints the parts of an object; a kind of object is the method of its name behind an underscore."""

    def _ball(self) -> None:
        self.put(ellipse((0.5, 0.55), (0.43, 0.43)), form="round", gloss=0.5)

    def _cube(self) -> None:
        self.put(polygon([(0.08, 0.34), (0.27, 0.15), (0.92, 0.15), (0.72, 0.34)]), light=1.15)
        self.put(polygon([(0.72, 0.34), (0.92, 0.15), (0.92, 0.78), (0.72, 0.98)]), light=0.55)
        self.put(polygon([(0.08, 0.34), (0.72, 0.34), (0.72, 0.98), (0.08, 0.98)]), light=0.88)

    def _mug(self) -> None:
        ring = np.clip(ellipse((0.70, 0.58), (0.24, 0.23)) - ellipse((0.70, 0.58), (0.15, 0.145)), 0, 1)
        self.put(ring, form="round", gloss=0.3)
        body = np.maximum(box((0.12, 0.26), (0.70, 0.90)), ellipse((0.41, 0.90), (0.29, 0.075)))
        self.put(body, form="tube", gloss=0.5)
        self.put(ellipse((0.41, 0.26), (0.29, 0.085)), self.own * 0.9 + 0.1, surface=self.thing.material, light=1.1)
        self.put(ellipse((0.41, 0.267), (0.255, 0.066)), rgb("brown") * 0.55)

    def _bottle(self) -> None:
        rows = [(0.08, 0.065), (0.30, 0.07), (0.40, 0.16), (0.94, 0.17), (0.98, 0.15)]
        self.put(polygon(profile(rows)), form="tube", gloss=0.8)
        self.put(box((0.33, 0.55), (0.67, 0.78)), rgb("white"), "tube")
        self.put(box((0.425, 0.02), (0.575, 0.11), 0.02), rgb("gray") * 0.6, "tube", gloss=0.3)

    def _vase(self) -> None:
        rows = [(0.10, 0.17), (0.14, 0.15), (0.28, 0.10), (0.52, 0.29), (0.72, 0.28), (0.92, 0.14), (0.98, 0.16)]
        self.put(polygon(profile(rows)), form="tube", gloss=0.6)
        self.put(ellipse((0.5, 0.11), (0.165, 0.04)), self.own * 0.25)

    def _apple(self) -> None:
        body = np.maximum(ellipse((0.37, 0.61), (0.27, 0.35), 8), ellipse((0.63, 0.61), (0.27, 0.35), -8))
        self.put(np.maximum(body, ellipse((0.5, 0.65), (0.3, 0.29))), form="round", gloss=0.55)
        self.put(ellipse((0.5, 0.325), (0.13, 0.045)), self.own * 0.45)
        self.put(stroke([(0.50, 0.33), (0.51, 0.22), (0.55, 0.12)], 0.04), rgb("brown") * 0.7)
        self.put(ellipse((0.66, 0.17), (0.13, 0.055), -25), rgb("green"), "round")

    def _pear(self) -> None:
        rows = [(0.17, 0.07), (0.24, 0.13), (0.42, 0.18), (0.62, 0.31), (0.78, 0.345), (0.90, 0.28), (0.98, 0.12)]
        self.put(polygon(profile(rows)), form="round", gloss=0.4)
        self.put(stroke([(0.50, 0.19), (0.49, 0.11), (0.45, 0.04)], 0.035), rgb("brown") * 0.7)

    def _banana(self) -> None:
        turn = np.radians(np.linspace(10, 165, 30))
        outer = [(float(0.5 + 0.46 * np.cos(a)), float(0.42 + 0.50 * np.sin(a))) for a in turn]
        inner = [(float(0.5 + 0.40 * np.cos(a)), float(0.36 + 0.30 * np.sin(a))) for a in turn[::-1]]
        self.put(polygon(outer + inner), form="round", gloss=0.2)
        self.put(ellipse((0.925, 0.46), (0.035, 0.05), 20), rgb("brown") * 0.6, "round")
        self.put(ellipse((0.085, 0.49), (0.03, 0.04), -20), rgb("brown") * 0.6, "round")

    def _book(self) -> None:
        self.put(polygon([(0.74, 0.10), (0.86, 0.15), (0.86, 0.93), (0.74, 0.98)]), rgb("white"), light=0.8)
        for x in (0.77, 0.80, 0.83):
            self.put(stroke([(x, 0.13), (x, 0.95)], 0.006), rgb("gray"))
        self.put(box((0.16, 0.10), (0.75, 0.98), 0.015), light=0.95)
        self.put(box((0.16, 0.10), (0.225, 0.98), 0.015), self.own * 0.55, "tube")
        for y, width in ((0.26, 0.36), (0.33, 0.26), (0.83, 0.20)):
            self.put(box((0.49 - width / 2, y), (0.49 + width / 2, y + 0.032)), self.own * 0.25 + 0.7)

    def _candle(self) -> None:
        yy, xx = np.mgrid[0:SIDE, 0:SIDE].astype(np.float32) / SIDE
        body = np.maximum(box((0.34, 0.40), (0.66, 0.96)), ellipse((0.5, 0.96), (0.16, 0.025)))
        self.put(body, form="tube", gloss=0.2)
        self.put(ellipse((0.5, 0.40), (0.16, 0.04)), np.clip(self.own * 1.1 + 0.12, 0, 1))
        self.put(stroke([(0.5, 0.40), (0.5, 0.32)], 0.018), rgb("black"))
        flame = np.exp(-(((xx - 0.5) / 0.05) ** 2 + ((yy - 0.24) / 0.085) ** 2) * 1.1).astype(np.float32)
        self.put(np.clip(flame * 1.5, 0, 1), color(1.0, 0.66, 0.15), light=1.1)
        self.put(ellipse((0.5, 0.27), (0.022, 0.045)), color(1.0, 0.97, 0.75), light=1.1)

    def _plant(self) -> None:
        for number, angle in enumerate((-80, -52, -128, -30, -150, -68, -112, -92)):
            turn = np.radians(angle)
            reach = 0.27 + 0.045 * (number % 3)
            center = (float(0.5 + reach * np.cos(turn)), float(0.56 + reach * np.sin(turn)))
            self.put(ellipse(center, (0.20, 0.055), angle), rgb("green") * (0.72 + 0.12 * (number % 4)), "round")
        self.put(polygon([(0.28, 0.60), (0.72, 0.60), (0.65, 0.98), (0.35, 0.98)]), form="tube", gloss=0.25)
        self.put(box((0.25, 0.55), (0.75, 0.65), 0.02), form="tube", gloss=0.25, light=1.1)

    def _lamp(self) -> None:
        self.put(ellipse((0.5, 0.955), (0.17, 0.035)), rgb("gray") * 0.55, "round")
        self.put(box((0.48, 0.38), (0.52, 0.95)), rgb("gray") * 0.7, "tube", gloss=0.5)
        self.put(polygon([(0.36, 0.05), (0.64, 0.05), (0.80, 0.42), (0.20, 0.42)]), form="tube", light=1.15)
        self.put(box((0.20, 0.40), (0.80, 0.43)), self.own * 0.6, "tube")

    def _chair(self) -> None:
        for x in (0.30, 0.76):
            self.put(box((x, 0.60), (x + 0.05, 0.90)), form="tube", light=0.7)
        for x in (0.27, 0.75):
            self.put(box((x, 0.04), (x + 0.055, 0.62), 0.02), form="tube")
        for y in (0.09, 0.23, 0.37):
            self.put(box((0.30, y), (0.77, y + 0.085), 0.02), form="round", light=1.05)
        self.put(polygon([(0.27, 0.56), (0.80, 0.56), (0.88, 0.66), (0.16, 0.66)]), light=1.05)
        self.put(box((0.16, 0.66), (0.88, 0.71)), light=0.7)
        for x in (0.17, 0.81):
            self.put(box((x, 0.69), (x + 0.06, 0.98)), form="tube")

    def _duck(self) -> None:
        tail = polygon([(0.12, 0.70), (0.03, 0.47), (0.35, 0.58)])
        self.put(np.maximum(ellipse((0.50, 0.74), (0.38, 0.24)), tail), form="round", gloss=0.45)
        self.put(polygon([(0.86, 0.32), (0.99, 0.37), (0.97, 0.42), (0.84, 0.42)]), rgb("orange"), "round")
        self.put(ellipse((0.68, 0.34), (0.215, 0.21)), form="round", gloss=0.45)
        self.put(ellipse((0.76, 0.29), (0.035, 0.042)), rgb("black"))
        self.put(ellipse((0.77, 0.277), (0.012, 0.012)), rgb("white"))
        wing = np.clip(self.own * 0.92, 0, 1)
        self.put(ellipse((0.42, 0.72), (0.20, 0.12), 12), wing, "round", surface=self.thing.material)

    def _bear(self) -> None:
        paw = np.clip(self.own * 0.5 + 0.42, 0, 1)
        for x in (0.30, 0.70):
            self.put(ellipse((x, 0.10), (0.10, 0.095)), form="round")
            self.put(ellipse((x, 0.10), (0.055, 0.05)), paw)
        for x, angle in ((0.21, 35), (0.79, -35)):
            self.put(ellipse((x, 0.56), (0.10, 0.17), angle), form="round")
        self.put(ellipse((0.5, 0.66), (0.25, 0.27)), form="round")
        self.put(ellipse((0.5, 0.69), (0.15, 0.17)), paw, "round")
        for x in (0.27, 0.73):
            self.put(ellipse((x, 0.87), (0.14, 0.11)), form="round")
            self.put(ellipse((x, 0.88), (0.07, 0.06)), paw)
        self.put(ellipse((0.5, 0.25), (0.25, 0.225)), form="round")
        self.put(ellipse((0.5, 0.33), (0.11, 0.085)), paw, "round")
        self.put(ellipse((0.5, 0.295), (0.04, 0.028)), rgb("black"))
        for x in (0.405, 0.595):
            self.put(ellipse((x, 0.225), (0.026, 0.03)), rgb("black"))

    def _tree(self) -> None:
        trunk = polygon([(0.45, 0.50), (0.55, 0.50), (0.59, 0.98), (0.41, 0.98)])
        self.put(trunk, rgb("brown"), "tube", surface="wood", light=0.7)
        blobs = [(0.5, 0.22, 0.2), (0.3, 0.36, 0.19), (0.7, 0.35, 0.2), (0.42, 0.48, 0.17), (0.6, 0.49, 0.17)]
        crown = ellipse((0.5, 0.36), (0.2, 0.2 * 0.92))
        for x, y, radius in blobs:
            crown = np.maximum(crown, ellipse((x, y), (radius, radius * 0.92)))
        ragged = cv2.GaussianBlur(crown, (0, 0), 7) + (noise(self.seed + 3, SIDE, SIDE, 22.0, 3) - 0.5) * 1.5
        crown = np.clip((ragged - 0.42) * 7, 0, 1) * cv2.dilate(crown, np.ones((9, 9), dtype=np.uint8))
        speckle = 0.45 + 1.1 * noise(self.seed + 4, SIDE, SIDE, 14.0, 3)[..., None]
        self.put(crown, self.own * speckle, "round")

    def _house(self) -> None:
        wall = self.own * 0.85 + 0.08
        self.put(box((0.66, 0.06), (0.76, 0.34)), rgb("brown"), surface="stone", light=0.7)
        front = polygon([(0.10, 0.42), (0.90, 0.42), (0.90, 0.98), (0.10, 0.98)])
        self.put(front, wall, surface=self.thing.material)
        roof = color(0.42, 0.16, 0.12) if self.thing.color != "red" else color(0.28, 0.28, 0.32)
        self.put(polygon([(0.03, 0.45), (0.50, 0.10), (0.97, 0.45)]), roof)
        self.put(box((0.10, 0.45), (0.90, 0.48)), wall * 0.5)
        self.put(box((0.43, 0.66), (0.59, 0.98)), rgb("brown"), surface="wood", light=0.75)
        for x in (0.19, 0.66):
            self.put(box((x - 0.015, 0.56), (x + 0.165, 0.765)), rgb("white"))
            self.put(box((x, 0.575), (x + 0.15, 0.75)), color(0.25, 0.36, 0.47))
            self.put(box((x + 0.068, 0.575), (x + 0.082, 0.75)), rgb("white"))
            self.put(box((x, 0.655), (x + 0.15, 0.67)), rgb("white"))

    def _balloon(self) -> None:
        rows = [(0.02, 0.06), (0.08, 0.22), (0.20, 0.33), (0.34, 0.36), (0.50, 0.30), (0.64, 0.17), (0.72, 0.09)]
        envelope = polygon(profile(rows))
        self.put(envelope, form="tube")
        if self.thing.material == "plain":
            band = box((0.0, 0.30), (1.0, 0.42)) * envelope
            self.put(band, np.clip(self.own * 0.3 + 0.68, 0, 1), "tube")
        for x in (0.42, 0.58):
            self.put(stroke([(x, 0.71), (0.5 + (x - 0.5) * 0.8, 0.86)], 0.008), rgb("brown") * 0.5)
        self.put(box((0.42, 0.85), (0.58, 0.97), 0.02), rgb("brown"), "tube", surface="wood", light=0.8)

    def _car(self) -> None:
        """Paint a car that faces right."""
        cabin = polygon([(0.07, 0.66), (0.14, 0.47), (0.46, 0.47), (0.63, 0.66)])
        body = np.maximum(box((0.03, 0.63), (0.97, 0.86), 0.07), cabin)
        self.put(body, form="round", gloss=0.6, light=1.05)
        glass = color(0.16, 0.22, 0.28)
        self.put(polygon([(0.13, 0.65), (0.18, 0.51), (0.29, 0.51), (0.29, 0.65)]), glass)
        self.put(polygon([(0.32, 0.65), (0.32, 0.51), (0.44, 0.51), (0.55, 0.65)]), glass)
        self.put(stroke([(0.305, 0.64), (0.305, 0.83)], 0.008), self.own * 0.45)
        self.put(ellipse((0.94, 0.71), (0.03, 0.035)), color(1.0, 0.95, 0.7))
        self.put(ellipse((0.05, 0.71), (0.018, 0.035)), rgb("red"))
        for x in (0.22, 0.77):
            self.put(ellipse((x, 0.86), (0.12, 0.12)), rgb("black"), "round")
            self.put(ellipse((x, 0.86), (0.06, 0.06)), rgb("gray") * 1.3, "round", gloss=0.4)

    def _cone(self) -> None:
        foot = polygon([(0.10, 0.90), (0.90, 0.90), (0.96, 0.98), (0.04, 0.98)])
        self.put(foot, self.own * 0.8, surface=self.thing.material)
        body = polygon([(0.46, 0.05), (0.54, 0.05), (0.78, 0.91), (0.22, 0.91)])
        self.put(body, form="tube", gloss=0.2)
        for top, bottom in ((0.30, 0.44), (0.60, 0.74)):
            self.put(box((0.1, top), (0.9, bottom)) * body, rgb("white"), "tube")

    def _bench(self) -> None:
        for x in (0.12, 0.82):
            self.put(box((x, 0.46), (x + 0.06, 0.98)), rgb("black") * 1.6, "tube")
        for y in (0.46, 0.55):
            self.put(box((0.04, y), (0.96, y + 0.07), 0.02), form="round")
        self.put(polygon([(0.06, 0.70), (0.94, 0.70), (0.99, 0.79), (0.01, 0.79)]), light=1.1)
        self.put(box((0.01, 0.79), (0.99, 0.83)), light=0.6)

    def _sign(self) -> None:
        self.put(box((0.47, 0.40), (0.53, 0.98)), rgb("gray") * 0.7, "tube", gloss=0.3)
        self._board((0.04, 0.12), (0.96, 0.52))

    def _card(self) -> None:
        self.put(polygon([(0.04, 0.96), (0.12, 0.52), (0.90, 0.48), (0.99, 0.92)]), rgb("gray") * 0.6)
        self._board((0.03, 0.52), (0.97, 0.98))

    def _poster(self) -> None:
        self.put(box((0.05, 0.22), (0.97, 0.80)), rgb("black"), light=0.8)
        self._board((0.03, 0.20), (0.95, 0.78))

    def _board(self, low: Point, high: Point) -> None:
        ink = rgb("black") if float(self.own.mean()) > 0.55 else rgb("white")
        self.put(box(low, high, 0.03), ink * 0.9)
        self.put(box((low[0] + 0.02, low[1] + 0.02), (high[0] - 0.02, high[1] - 0.02), 0.02))
        if self.thing.text:
            edge = 0.24 * (high[1] - low[1])
            self.letters(self.thing.text, (low[0] + 0.08, low[1] + edge), (high[0] - 0.08, high[1] - edge), ink)


@lru_cache(maxsize=32)
def picture(kind: str, color: str, surface: str, text: str, seed: int) -> tuple[Image, Image]:
    """Paint a single object.

    Returns:
        Colors and opacity on a square canvas. Cached; copy before writing.
    """
    canvas = Painter(Thing(kind, color, material=surface, text=text), seed)
    getattr(canvas, f"_{kind}")()
    return canvas.color, canvas.alpha

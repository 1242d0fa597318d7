"""A transparent square canvas on which one object of a scene is painted in parts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image as Pillow
from PIL import ImageDraw, ImageFont

from rewardharness.demo.paint import SIDE, Image, Point, lay, material, rgb, round_form, tube_form


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

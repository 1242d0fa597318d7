"""English color names: CIELAB prototypes and the distance of pixels from them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import cv2
import numpy as np

from rewardharness.measure.planes import Plane

_RGB: Mapping[str, str] = {
    "red": "d81e1e",
    "orange": "f58a1f",
    "yellow": "f2d51c",
    "green": "2f9e3a",
    "blue": "2553d0",
    "purple": "7d32a8",
    "pink": "f08cb4",
    "brown": "7a4a24",
    "black": "101010",
    "white": "f6f6f6",
    "gray": "808080",
    "silver": "bcbec2",
    "charcoal": "3a3c40",
    "gold": "d4a62a",
    "bronze": "a5713a",
    "copper": "b8703c",
    "rust": "b1491c",
    "beige": "e4d6b8",
    "cream": "f7edcf",
    "tan": "cda77a",
    "khaki": "bfb283",
    "olive": "7b7a2a",
    "mustard": "d3a21e",
    "maroon": "6e1423",
    "burgundy": "6f1230",
    "crimson": "c31432",
    "scarlet": "e0301a",
    "coral": "f9775f",
    "salmon": "f48c78",
    "peach": "f9c49e",
    "navy": "182452",
    "teal": "15808a",
    "turquoise": "38cfc4",
    "cyan": "18cfe0",
    "aqua": "30d2dc",
    "sky blue": "83c4ee",
    "indigo": "402a96",
    "violet": "8a46d8",
    "lavender": "c0aee6",
    "lilac": "c6a0d4",
    "mauve": "a97ba6",
    "plum": "77336b",
    "magenta": "d420b0",
    "fuchsia": "e0289c",
    "rose": "e2557c",
    "lime": "93dc22",
    "mint": "a4e6c2",
    "emerald": "129a68",
}
"""A typical example of each color in daylight, as sRGB."""

_ALIASES: Mapping[str, str] = {
    "grey": "gray",
    "golden": "gold",
    "silvery": "silver",
    "amber": "mustard",
    "blonde": "tan",
    "blond": "tan",
    "azure": "sky blue",
    "skyblue": "sky blue",
    "ivory": "cream",
    "wine": "burgundy",
    "jade": "emerald",
}

BASIC_COLORS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white", "gray")
"""The basic color terms of English (Berlin and Kay, 1969)."""

_FREE_LIGHTNESS = frozenset({"red", "orange", "yellow", "green", "blue", "purple"})
"""Names that people use for a hue at almost any lightness."""

_LIGHT = frozenset({"light", "pale", "pastel", "soft", "baby"})
_DARK = frozenset({"dark", "deep", "midnight", "forest"})
_VIVID = frozenset({"bright", "vivid", "neon", "hot", "vibrant", "electric", "fluorescent"})

_NEUTRAL_CHROMA = 9.0
"""CIELAB chroma below which a color counts as neutral."""


@dataclass(frozen=True)
class ColorTarget:
    """A named color in CIELAB."""

    name: str
    lightness: float
    """L*, 0 to 100."""
    chroma: float
    """C*ab of a typical example; 0 for black, white and gray."""
    hue: float
    """Hue angle in radians; undefined if chroma is 0."""
    lightness_weight: float
    """Weight of a lightness difference, 0 to 1."""

    @property
    def lab(self) -> Plane:
        """L, a and b."""
        return np.array([self.lightness, self.chroma * np.cos(self.hue), self.chroma * np.sin(self.hue)], np.float32)


@cache
def color_named(name: str) -> ColorTarget | None:
    """Return the color for an English name.

    Supports about fifty English names and the modifiers light, pale, dark, deep, bright, vivid and the like, in any
    case, joined by spaces or hyphens, as in `dark green`, `navy blue` or `reddish`.

    Returns:
        The color, or None for an unknown name.
    """
    words = re.findall(r"[a-z]+", name.lower())
    words = [word[:-3] if word.endswith("ish") else word for word in words]
    words = [
        {"redd": "red", "purpl": "purple", "blu": "blue", "whit": "white", "orang": "orange"}.get(word, word)
        for word in words
    ]
    base = _base_name(words)
    if base is None:
        return None
    target = _prototype(base)
    modifiers = set(words) - set(base.split())
    if modifiers & _LIGHT:
        lightness = target.lightness + 0.6 * max(0.0, 88.0 - target.lightness)
        target = replace(target, lightness=lightness, chroma=0.6 * target.chroma, lightness_weight=0.8)
    elif modifiers & _DARK:
        chroma = 0.7 * target.chroma
        target = replace(target, lightness=0.55 * target.lightness, chroma=chroma, lightness_weight=0.8)
    elif modifiers & _VIVID and target.chroma:
        target = replace(target, chroma=1.3 * target.chroma)
    return replace(target, name=" ".join(words))


def color_distance(lab: Iterable[Plane], target: ColorTarget, chroma: Plane | None = None) -> Plane:
    """Return the distance of each pixel from a named color.

    For colors with a hue the distance weighs the hue difference dH = 2 sqrt(C C') sin(dh / 2) of CIE 1976 most,
    missing chroma strongly, and excess chroma and lightness little, because a shaded red object is still red. For
    black, white and gray it weighs lightness and any chroma.

    Args:
        lab: L, a and b.
        target: The color.
        chroma: Their chroma, if it is known.

    Returns:
        Distances in weighted CIELAB units, 0 or more.
    """
    lightness, a, b = lab
    chroma = np.hypot(a, b) if chroma is None else chroma
    if target.chroma == 0.0:
        difference = lightness - np.float32(target.lightness)
        if target.lightness > 90.0:
            difference = np.minimum(difference, 0.0)
        elif target.lightness < 20.0:
            difference = np.maximum(difference, 0.0)
        squared = (target.lightness_weight * difference) ** 2 + (1.3 * chroma) ** 2
        return np.asarray(np.sqrt(squared), np.float32)
    along = chroma - np.float32(target.chroma)
    # A vivid pixel misses a pale target such as beige; a vivid target has hardly any excess chroma.
    too_vivid = 0.2 + 0.5 * max(0.0, 1.0 - target.chroma / 40.0)
    by_chroma = np.where(along < 0, 0.8 * along, too_vivid * along)
    cosine = (a * np.float32(np.cos(target.hue)) + b * np.float32(np.sin(target.hue))) / np.maximum(chroma, 1e-6)
    by_hue_squared = 2.0 * np.minimum(chroma, 1.5 * target.chroma) * target.chroma * (1.0 - cosine)
    by_lightness = target.lightness_weight * (lightness - np.float32(target.lightness))
    return np.asarray(np.sqrt(1.7 * by_hue_squared + by_chroma**2 + by_lightness**2), np.float32)


def _base_name(words: Sequence[str]) -> str | None:
    for length in (2, 1):
        for start in range(len(words) - length, -1, -1):
            joined = " ".join(words[start : start + length])
            name = _ALIASES.get(joined, joined)
            if name in _RGB:
                # `navy blue` and `lime green`: the first word is the narrower name.
                first = _ALIASES.get(words[start - 1], words[start - 1]) if start else ""
                return first if first in _RGB and name in _FREE_LIGHTNESS else name
    return None


def _prototype(base: str) -> ColorTarget:
    red, green, blue = (int(_RGB[base][index : index + 2], 16) / 255.0 for index in (0, 2, 4))
    patch = np.array([[[red, green, blue]]], np.float32)
    lightness, a, b = (float(value) for value in cv2.cvtColor(patch, cv2.COLOR_RGB2Lab)[0, 0])
    chroma = float(np.hypot(a, b))
    if chroma < _NEUTRAL_CHROMA:
        return ColorTarget(base, lightness, 0.0, 0.0, 0.45 if base == "gray" else 0.9)
    weight = 0.35 if base in _FREE_LIGHTNESS else 0.7
    # Objects in daylight are less saturated than prototypes: half the chroma is a typical example.
    return ColorTarget(base, lightness, min(chroma, 20.0 + 0.4 * chroma), float(np.arctan2(b, a)), weight)

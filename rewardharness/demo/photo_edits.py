"""Edits of the photographs of scikit-image at predefined locations."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import cv2
import numpy as np
from PIL import Image as Pillow
from PIL import ImageDraw, ImageFont

from rewardharness.demo.edits import Base, Draw, KnownEdit, Named, meddle_later, misspelt, pick
from rewardharness.demo.filters import ANYWHERE, COLOR_CHANGES, SHAPE_CHANGES, Picture, Rng, fade, half
from rewardharness.demo.paint import Image, gradient, to_bytes
from rewardharness.demo.photos import SIDE, photo
from rewardharness.demo.scenes import place_thing
from rewardharness.demo.things import Thing

_HUES = {"red": 0, "orange": 26, "yellow": 52, "green": 125, "blue": 222, "purple": 275, "pink": 325}
"""Hues of the target colors, in degrees."""

_Spot = tuple[str, float, float, float]
_SPOTS: dict[str, tuple[_Spot, _Spot]] = {
    "motorcycle": (("on the floor on the right", 0.62, 0.97, 0.19), ("on the floor on the left", 0.13, 0.97, 0.19)),
    "rocket": (("in the sky on the left", 0.24, 0.36, 0.24), ("in the sky on the right", 0.76, 0.36, 0.24)),
    "coffee": (("in the top left corner", 0.12, 0.22, 0.21), ("in the bottom left corner", 0.12, 0.98, 0.19)),
    "photographer": (("on the grass on the right", 0.84, 0.95, 0.17), ("on the grass in the distance", 0.9, 0.62, 0.1)),
}
"""Free locations in photographs: description, x, y and size as in `Thing`."""

_BALL, _CONE = ("ball", "blue", "a blue ball"), ("cone", "orange", "a traffic cone")
_DUCK, _APPLE = ("duck", "yellow", "a rubber duck"), ("apple", "green", "a green apple")

_ADDED: dict[str, tuple[tuple[str, str, str], ...]] = {
    "motorcycle": (_BALL, _CONE, _DUCK),
    "rocket": (("balloon", "red", "a red hot air balloon"), ("balloon", "yellow", "a yellow hot air balloon")),
    "coffee": (_APPLE, ("cube", "blue", "a blue cube"), _DUCK),
    "photographer": (("ball", "gray", "a ball"), ("cone", "white", "a traffic cone"), ("bear", "gray", "a teddy bear")),
}

_GRAY = ("coins", "photographer", "stars")
"""Photographs with low saturation."""

_WORDS = ("HELLO", "WELCOME", "SUMMER", "DREAM", "TODAY", "ENJOY", "STORY", "WONDER")


def base_of(name: str) -> Base:
    """Return a photograph to edit."""
    spots = _SPOTS.get(name, (("in the corner", 0.85, 0.97, 0.22),))
    kind, color, phrase = _ADDED.get(name, (_BALL,))[0]
    added = (f"{phrase[2:]} added", partial(_placed, name, kind, color, spots[0]))
    return Base(f"photo-{name}", partial(photo, name), (added,), colorful=name not in _GRAY)


def _case(
    category: str, instruction: str, base: Base, right: Draw, wrong: Named, half_done: Draw, rng: Rng
) -> KnownEdit:
    over = meddle_later(right, SHAPE_CHANGES, rng) + meddle_later(right, COLOR_CHANGES, rng)
    defects = ANYWHERE if category == "background" else KnownEdit.defects
    return KnownEdit(category, instruction, base.key, base.picture, right, wrong, half_done, over, defects)


def _placed(name: str, kind: str, color: str, spot: _Spot) -> Picture:
    canvas = photo(name).astype(np.float32) / 255
    _, x, y, size = spot
    place_thing(canvas, Thing(kind, color, x, y, size), np.ones(3, dtype=np.float32), 3)
    return to_bytes(canvas)


def add(base: Base, rng: Rng) -> KnownEdit | None:
    """Generate an edit that adds an object at a free location."""
    name = base.key.removeprefix("photo-")
    if name not in _SPOTS:
        return None
    spots, things = _SPOTS[name], _ADDED[name]
    first, second = int(rng.integers(len(spots))), int(rng.integers(len(things)))
    spot, (kind, color, what) = spots[first], things[second]
    other = things[second - 1]
    right = partial(_placed, name, kind, color, spot)
    wrong: Named = (
        (f"{other[2]} added instead", partial(_placed, name, other[0], other[1], spot)),
        (f"added {spots[first - 1][0]}", partial(_placed, name, kind, color, spots[first - 1])),
    )
    instruction = pick("Add {} {}.|Put {} {}.|Place {} {}.", rng).format(what, spot[0])
    return _case("add", instruction, base, right, wrong, lambda: fade(base.picture(), right(), 0.45), rng)


_Ellipse = tuple[int, int, int, int]


@lru_cache(maxsize=8)
def _by_hue(
    name: str, low: float, high: float, least: tuple[int, int], inside: tuple[_Ellipse, ...] = (), *outside: _Ellipse
) -> Image:
    """Return a soft mask of pixels in a hue range with a minimum saturation and brightness.

    Args:
        name: Name of the photograph.
        low: Smallest hue in degrees, from -180.
        high: Largest hue.
        least: Minimum saturation and value, of 255.
        inside: Ellipses (x, y, rx, ry) in pixels that limit the mask; empty for no limit.
        outside: Ellipses to exclude.
    """
    hsv = cv2.cvtColor(cv2.GaussianBlur(photo(name), (0, 0), 1.0), cv2.COLOR_RGB2HSV_FULL).astype(np.float32)
    hue = (hsv[..., 0] * (360 / 256) + 180) % 360 - 180
    mask = ((hue >= low) & (hue <= high) & (hsv[..., 1] >= least[0]) & (hsv[..., 2] >= least[1])).astype(np.uint8)
    kept = np.zeros_like(mask) if inside else np.ones_like(mask)
    for value, ellipses in ((1, inside), (0, outside)):
        for x, y, rx, ry in ellipses:
            cv2.ellipse(kept, (x, y), (rx, ry), 0, 0, 360, value, -1)
    mask &= kept
    mask = cv2.morphologyEx(mask, cv2.MORPH_OPEN, np.ones((3, 3), dtype=np.uint8))
    mask = cv2.morphologyEx(mask, cv2.MORPH_CLOSE, np.ones((7, 7), dtype=np.uint8))
    soft: Image = cv2.GaussianBlur(mask.astype(np.float32), (0, 0), 1.1)
    return soft


_PARTS: dict[str, tuple[str, str, tuple[Any, ...]]] = {
    "astronaut": ("space suit", "orange red yellow", (3, 24, (140, 70))),
    "motorcycle": ("motorcycle", "red orange pink", (-20, 9, (140, 50), ((185, 235, 215, 75), (475, 300, 60, 48)))),
    "coffee": (
        "cup and saucer",
        "red orange pink yellow",
        (-30, 17, (90, 15), ((262, 292, 258, 207),), (292, 150, 158, 118)),
    ),
    "cat": (
        "eyes of the cat",
        "yellow green orange red",
        (35, 110, (60, 40), ((207, 200, 66, 62), (472, 230, 46, 56))),
    ),
}
"""Objects that can be recolored: name, current or similar colors, and location as in `_by_hue`."""


def _dyed(name: str, color: str, everywhere: bool = False) -> Picture:
    """Return a photograph with a new hue in the masked part; lightness is preserved."""
    picture = photo(name)
    hsv = cv2.cvtColor(picture, cv2.COLOR_RGB2HSV_FULL)
    hsv[..., 0] = round(_HUES[color] * 256 / 360) % 256
    hsv[..., 1] = np.maximum(hsv[..., 1], 140)
    dyed = cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB_FULL).astype(np.float32)
    mask = (
        np.ones((*picture.shape[:2], 1), dtype=np.float32) if everywhere else _by_hue(name, *_PARTS[name][2])[..., None]
    )
    return np.asarray(np.clip(np.round(picture + (dyed - picture) * mask), 0, 255), dtype=np.uint8)


def _half_dyed(name: str, color: str) -> Picture:
    """Return a photograph with the new hue in the upper half of the part only."""
    rows = np.flatnonzero(_by_hue(name, *_PARTS[name][2]).max(axis=1) > 0.5)
    return half(photo(name), _dyed(name, color), 0, float(rows[0] + rows[-1]) / 2 / SIDE)


def recolor(base: Base, rng: Rng) -> KnownEdit | None:
    """Generate a color edit of the object in the photograph."""
    name = base.key.removeprefix("photo-")
    if name not in _PARTS:
        return None
    what, like, _ = _PARTS[name]
    color, bad = (
        str(choice) for choice in rng.choice([hue for hue in _HUES if hue not in like.split()], 2, replace=False)
    )
    template = pick("Make the {0} {1}.|Change the color of the {0} to {1}.|Turn the {0} {1}.", rng)
    wrong: Named = (
        (f"made {bad}", partial(_dyed, name, bad)),
        (f"everything made {color}", partial(_dyed, name, color, True)),
    )
    right = partial(_dyed, name, color)
    return _case("color", template.format(what, color), base, right, wrong, partial(_half_dyed, name, color), rng)


_SKIES: dict[str, tuple[str, list[tuple[float, tuple[float, float, float]]]]] = {
    "a sunset": (
        "Change the sky to a sunset.|Make the sky an orange sunset.",
        [(0, (0.30, 0.18, 0.42)), (0.45, (0.82, 0.32, 0.32)), (0.8, (0.99, 0.62, 0.26)), (1, (1.0, 0.82, 0.5))],
    ),
    "bright day": (
        "Change the sky to a bright daytime sky.|Make the sky light blue, as on a sunny day.",
        [(0, (0.30, 0.56, 0.92)), (1, (0.78, 0.90, 0.98))],
    ),
    "green": (
        "Make the sky glow green like an aurora.|Fill the sky with green northern lights.",
        [(0, (0.02, 0.10, 0.10)), (0.4, (0.10, 0.62, 0.36)), (0.75, (0.16, 0.50, 0.40)), (1, (0.04, 0.16, 0.18))],
    ),
}


def _with_sky(name: str) -> Picture:
    """Return the rocket in front of a new sky. Clearly blue pixels are sky."""
    image = photo("rocket").astype(np.float32) / 255
    soft = cv2.GaussianBlur(image, (0, 0), 0.8)
    blue = np.clip((soft[..., 2] - soft[..., 0] - 0.02) / 0.06, 0, 1)
    sky = gradient(SIDE, SIDE, _SKIES[name][1])
    texture = image.mean(axis=2) - cv2.GaussianBlur(image.mean(axis=2), (0, 0), 6)
    return to_bytes(image + (sky + texture[..., None] - image) * blue[..., None])


def change_background(base: Base, rng: Rng) -> KnownEdit | None:
    """Generate a background edit of the rocket photograph."""
    if base.key != "photo-rocket":
        return None
    name, bad = (str(sky) for sky in rng.choice(list(_SKIES), 2, replace=False))
    right = partial(_with_sky, name)
    wrong: Named = ((f"made {bad}", partial(_with_sky, bad)),)
    edge = float(rng.uniform(0.35, 0.6))
    instruction = pick(_SKIES[name][0], rng)
    return _case("background", instruction, base, right, wrong, lambda: half(base.picture(), right(), 1, edge), rng)


def _across(picture: Picture, left: int, right: int, low: int) -> Picture:
    """Fill columns down to a row from the pixels to their left and right."""
    image = picture.astype(np.float32)
    a = cv2.GaussianBlur(image[:, left - 8 : left].mean(axis=1, keepdims=True), (1, 9), 2)
    b = cv2.GaussianBlur(image[:, right : right + 8].mean(axis=1, keepdims=True), (1, 9), 2)
    share = np.linspace(0, 1, right - left, dtype=np.float32)[None, :, None]
    grain = np.random.default_rng(5).standard_normal((SIDE, right - left, 1), dtype=np.float32) * 2.0
    result = picture.copy()
    result[:low, left:right] = np.clip(a + (b - a) * share + grain, 0, 255)[:low].astype(np.uint8)
    return result


def _patched(picture: Picture, x: int, y: int, rx: int, ry: int) -> Picture:
    """Fill an ellipse from its surroundings."""
    mask = np.zeros(picture.shape[:2], dtype=np.uint8)
    cv2.ellipse(mask, (x, y), (rx, ry), 0, 0, 360, 255, -1)
    filled = cv2.inpaint(picture, mask, 9, cv2.INPAINT_TELEA).astype(np.float32)
    grain = np.random.default_rng(6).standard_normal((*picture.shape[:2], 1), dtype=np.float32) * 4.0
    soft = cv2.GaussianBlur(mask.astype(np.float32) / 255, (0, 0), 1.5)[..., None]
    result = picture + (filled + grain - picture) * soft
    return np.asarray(np.clip(np.round(result), 0, 255), dtype=np.uint8)


_REMOVED: dict[str, tuple[Callable[..., Picture], dict[str, tuple[int, ...]]]] = {
    "rocket": (_across, {"rocket in the middle": (214, 284, 486), "lattice tower on the left": (60, 112, 436)}),
    "coins": (
        _patched,
        {
            "large coin at the bottom, third from the left": (225, 440, 56, 54),
            "coin in the bottom right corner": (441, 446, 52, 52),
        },
    ),
    "astronaut": (
        _patched,
        {"round badge on the chest": (168, 387, 44, 42), "rectangular patch on the suit": (303, 361, 34, 28)},
    ),
}
"""How an object is removed, and where each of two objects is."""


def remove(base: Base, rng: Rng) -> KnownEdit | None:
    """Generate an edit that removes an object."""
    name = base.key.removeprefix("photo-")
    if name not in _REMOVED:
        return None
    fill, places = _REMOVED[name]
    what, other = list(places)[:: 1 if rng.integers(2) == 0 else -1]
    instruction = pick("Remove the {}.|Erase the {}.|Take out the {}.", rng).format(what)

    def without(thing: str, share: float = 1.0) -> Picture:
        picture = base.picture()
        return fade(picture, fill(picture, *places[thing]), share) if share < 1 else fill(picture, *places[thing])

    wrong: Named = ((f"{other} removed instead", partial(without, other)),)
    return _case("remove", instruction, base, partial(without, what), wrong, partial(without, what, 0.5), rng)


def captioned(base: Base, text: str, height: float) -> Picture:
    """Return a picture with a text at a height, in pixels from the top."""
    sheet = Pillow.fromarray(base.picture())
    pen = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(64)
    middle = (SIDE / 2, height)
    pen.text(middle, text, fill=(255, 255, 255), font=font, anchor="mm", stroke_width=3, stroke_fill=(15, 15, 15))
    return np.asarray(sheet, dtype=np.uint8).copy()


def write(base: Base, rng: Rng) -> KnownEdit | None:
    """Generate an edit that writes a word across the photograph."""
    word, top = pick(_WORDS, rng), bool(rng.random() < 0.5)
    where, near, far = ("top", 52, SIDE - 52) if top else ("bottom", SIDE - 52, 52)
    templates = 'Write "{0}" at the {1} of the picture.|Put the word "{0}" in white at the {1}.'.split("|")
    templates.insert(1, "Add the text '{0}' at the {1}.")
    bad = misspelt(word, rng)
    right = partial(captioned, base, word, near)
    wrong: Named = (
        (f'written "{bad}"', partial(captioned, base, bad, near)),
        ("written at the other end", partial(captioned, base, word, far)),
    )
    begun = partial(captioned, base, word[: len(word) // 2], near)
    return _case("text", pick(templates, rng).format(word, where), base, right, wrong, begun, rng)

"""Rendered scenes: a place with a wall or sky, a floor, and objects; and the words of instructions for them.

A scene is a value, and an edit of it is another scene. The correct edit is therefore rendered like the source,
including the background of removed objects.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from rewardharness.demo.backdrops import TINTS, backdrop
from rewardharness.demo.edits import pick
from rewardharness.demo.paint import Image, color, lay, to_bytes
from rewardharness.demo.photos import SIDE
from rewardharness.demo.things import KINDS, Thing, picture

Contents = Literal["mixed", "sign", "many"]
"""What a scene contains; see `furnish`."""


@dataclass(frozen=True)
class Place:
    """A kind of scene."""

    kinds: tuple[str, ...]
    """Possible objects."""
    slots: tuple[tuple[float, float], ...]
    """Positions from left to right: x and y relative to the side."""
    unit: float
    """Size of an object of size 1, relative to the side."""
    walls: tuple[str, ...]
    floors: tuple[str, ...]
    written: tuple[str, tuple[float, float]]
    """The object with text, and its position if it has a fixed one."""


PLACES: dict[str, Place] = {
    "room": Place(
        ("chair", "lamp", "plant", "ball", "cube", "bear", "vase", "duck"),
        ((0.17, 0.86), (0.50, 0.90), (0.83, 0.86)),
        0.30,
        ("cream", "blue", "green", "pink", "brick"),
        ("wood", "tiles", "carpet"),
        ("poster", (0.32, 0.44)),
    ),
    "table": Place(
        ("mug", "apple", "pear", "banana", "ball", "cube", "bottle", "vase", "book", "candle", "duck", "plant"),
        ((0.14, 0.80), (0.38, 0.86), (0.62, 0.86), (0.86, 0.80)),
        0.31,
        ("kitchen", "garden", "lights", "beach"),
        ("wood", "marble", "cloth"),
        ("card", (0.5, 0.88)),
    ),
    "landscape": Place(
        ("tree", "house", "bench", "car", "ball"),
        ((0.17, 0.80), (0.50, 0.86), (0.83, 0.79)),
        0.25,
        ("day", "sunset", "night", "storm"),
        ("grass", "snow", "sand"),
        ("sign", (0.5, 0.90)),
    ),
    "street": Place(
        ("cone", "bench", "tree", "car", "plant", "ball"),
        ((0.17, 0.86), (0.50, 0.88), (0.83, 0.86)),
        0.25,
        ("day", "sunset", "night", "storm"),
        ("gravel", "snow", "grass"),
        ("sign", (0.5, 0.90)),
    ),
}
"""The kinds of scene."""

FLYING = ("balloon", "poster")
"""Objects that do not stand on the ground and cast no shadow on it."""

WORDS = tuple("OPEN SALE PIZZA HOTEL COFFEE BAKERY MUSIC WELCOME GARDEN STATION FRESH CLOSED".split())
"""Texts on signs."""


@dataclass(frozen=True)
class Scene:
    """A place with its objects."""

    place: str
    """A key of `PLACES`."""
    seed: int
    """Seed of everything that edits do not change: textures, clouds, noise."""
    wall: str
    """One of the walls or skies of its place."""
    floor: str
    """One of the floors of its place."""
    things: tuple[Thing, ...]
    key: str = ""
    """Key of the scene as a source image; equal for equal images."""

    @property
    def spec(self) -> Place:
        """What is known of its place."""
        return PLACES[self.place]

    @property
    def standing(self) -> list[Thing]:
        """The objects that take a slot: all except one with text."""
        return [thing for thing in self.things if thing.slot >= 0]

    @property
    def free(self) -> list[int]:
        """Free slots. A sign or card in the middle takes the inner ones."""
        slots = list(range(len(self.spec.slots)))
        if any(thing.kind in {"card", "sign"} for thing in self.things):
            slots = [slots[0], slots[-1]]
        taken = {thing.slot for thing in self.things}
        return [slot for slot in slots if slot not in taken]

    def beside(self, thing: Thing) -> list[Thing]:
        """Return the other objects that take a slot."""
        return [other for other in self.standing if other != thing]

    def without(self, thing: Thing) -> "Scene":
        """Return the scene without an object."""
        return replace(self, things=tuple(other for other in self.things if other != thing))

    def changed(self, old: Thing, new: Thing) -> "Scene":
        """Return the scene with an object replaced."""
        return replace(self, things=tuple(new if thing == old else thing for thing in self.things))

    def altered(self, thing: Thing, **values: Any) -> "Scene":
        """Return the scene with other values of the fields of an object."""
        return self.changed(thing, replace(thing, **values))

    def plus(self, thing: Thing) -> "Scene":
        """Return the scene with an additional object."""
        return replace(self, things=(*self.things, thing))


def _natural_color(kind: str, rng: np.random.Generator) -> str:
    return str(pick(KINDS[kind].colors.split(), rng))


def stand(place: str, kind: str, slot: int, rng: np.random.Generator, color: str = "") -> Thing:
    """Return an object at a slot of a place, slightly off its center, by default in a plausible color."""
    spec, color = PLACES[place], color or _natural_color(kind, rng)
    x, y = spec.slots[slot]
    dx, dy = rng.uniform(-0.02, 0.02, 2)
    return Thing(kind, color, float(x + dx), float(y + dy), KINDS[kind].size * spec.unit, slot=slot)


def furnish(place: str, seed: int, what: Contents = "mixed") -> Scene:
    """Generate a scene.

    Args:
        place: A key of `PLACES`.
        seed: Random seed.
        what: `mixed`: two different objects and free slots; `sign`: also a sign, card or poster, blank in a third of
            the cases; `many`: one or more objects of one kind.

    Returns:
        The scene.
    """
    rng = np.random.default_rng([seed, list(PLACES).index(place), ("mixed", "sign", "many").index(what)])
    spec = PLACES[place]
    number = int(rng.integers(1, len(spec.slots) + 1)) if what == "many" else 2
    kinds = [spec.kinds[int(i)] for i in rng.choice(len(spec.kinds), 2, replace=False)]
    slots = sorted(int(i) for i in rng.choice(len(spec.slots), number, replace=False))
    if what == "sign" and place != "room":
        slots = [0, len(spec.slots) - 1]
    if what == "many":
        kinds = [kind for kind in kinds if kind not in {"car", "house"}] or ["ball"]
        color = _natural_color(kinds[0], rng)
        things = [stand(place, kinds[0], slot, rng, color) for slot in slots]
    else:
        things = [stand(place, kind, slot, rng) for kind, slot in zip(kinds, slots, strict=True)]
    if what == "sign":
        kind, (x, y) = spec.written
        text = "" if rng.random() < 0.33 else pick(WORDS, rng)
        things.append(Thing(kind, _natural_color(kind, rng), x, y, KINDS[kind].size * spec.unit, text=text, slot=-1))
    walls = spec.walls[:-1] if place == "room" else spec.walls[:1]
    floors = spec.floors[:2] if place in {"room", "table"} else spec.floors[:1]
    return Scene(place, seed, pick(walls, rng), pick(floors, rng), tuple(things))


def draw(scene: Scene) -> NDArray[np.uint8]:
    """Render a scene as an 8-bit RGB image of `SIDE` x `SIDE` pixels."""
    canvas = backdrop(scene.place, scene.seed, scene.wall, scene.floor).copy()
    tint = color(*TINTS.get(scene.wall, (1.0, 1.0, 1.0)))
    for thing in sorted(scene.things, key=lambda thing: thing.y):
        place_thing(canvas, thing, tint, scene.seed)
    return _expose(canvas, scene.seed)


def place_thing(canvas: Image, thing: Thing, tint: Image, seed: int) -> None:
    """Draw an object with its shadow into an image, in place."""
    side = max(8, round(thing.size * SIDE))
    parts = picture(thing.kind, thing.color, thing.material, thing.text, seed % 997)
    look, alpha = (cv2.resize(part, (side, side), interpolation=cv2.INTER_AREA) for part in parts)
    if thing.mirrored:
        look, alpha = look[:, ::-1], alpha[:, ::-1]
    if thing.kind not in FLYING:
        _shadow(canvas, thing, alpha)
    lowered = 0
    if thing.angle:
        turn = cv2.getRotationMatrix2D((side / 2, side / 2), -thing.angle, 1.0)
        look = cv2.warpAffine(np.ascontiguousarray(look), turn, (side, side), borderMode=cv2.BORDER_REPLICATE)
        alpha = cv2.warpAffine(np.ascontiguousarray(alpha), turn, (side, side))
        rows = np.flatnonzero(alpha.max(axis=1) > 0.5)
        lowered = side - 1 - int(rows[-1]) if rows.size else 0
    left, top = round(thing.x * SIDE - side / 2), round(thing.y * SIDE - side) + lowered
    x0, y0, x1, y1 = max(0, left), max(0, top), min(SIDE, left + side), min(SIDE, top + side)
    if x0 < x1 and y0 < y1:
        part = (slice(y0 - top, y1 - top), slice(x0 - left, x1 - left))
        lay(canvas[y0:y1, x0:x1], look[part] * tint, alpha[part])


def _shadow(canvas: Image, thing: Thing, alpha: Image) -> None:
    """Darken the ground under an object by the width of its base."""
    foot = np.flatnonzero(alpha[int(alpha.shape[0] * 0.78) :].max(axis=0) > 0.3)
    if not foot.size:
        return
    scale = thing.size * SIDE / alpha.shape[1]
    wide = max(6.0, (foot[-1] - foot[0]) * scale / 2)
    middle = thing.x * SIDE - thing.size * SIDE / 2 + (foot[-1] + foot[0]) / 2 * scale
    dark = np.zeros((SIDE, SIDE), dtype=np.uint8)
    center = (round(middle + wide * 0.22), round(thing.y * SIDE - wide * 0.05))
    cv2.ellipse(dark, center, (round(wide * 1.15), max(2, round(wide * 0.24))), 0, 0, 360, 255, -1, cv2.LINE_AA)
    reach = round(wide * 1.7) + 12
    y0, y1 = max(0, center[1] - reach), min(SIDE, center[1] + reach)
    x0, x1 = max(0, center[0] - reach), min(SIDE, center[0] + reach)
    if x0 < x1 and y0 < y1:
        soft = cv2.GaussianBlur(dark[y0:y1, x0:x1], (0, 0), max(2.0, wide * 0.10)).astype(np.float32) / 255
        canvas[y0:y1, x0:x1] *= (1 - 0.55 * soft)[..., None]


def _expose(canvas: Image, seed: int) -> NDArray[np.uint8]:
    """Simulate a camera: slight blur, vignetting, noise. Identical for all images of a scene."""
    image = cv2.GaussianBlur(canvas, (0, 0), 0.7)
    image *= _vignette()
    image += _grain(seed)
    return to_bytes(image)


@lru_cache(maxsize=1)
def _vignette() -> Image:
    axis = np.linspace(-1, 1, SIDE, dtype=np.float32)
    falloff: Image = (1.03 - 0.13 * (axis[None, :] ** 2 + axis[:, None] ** 2))[..., None]
    return falloff


@lru_cache(maxsize=4)
def _grain(seed: int) -> Image:
    rng = np.random.default_rng([seed, 5])
    grain: Image = rng.standard_normal((SIDE, SIDE, 3), dtype=np.float32) * np.float32(0.011)
    return grain


PAINTS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "black", "white")
"""Colors of objects."""

MATERIAL_WORDS: dict[str, str] = {
    "wood": "Make the {} out of wood.|Turn the {} into a wooden one.|Change the material of the {} to wood.",
    "marble": "Make the {} out of white marble.|Change the material of the {} to marble.",
    "gold": "Make the {} out of gold.|Turn the {} into solid gold.",
    "stone": "Make the {} out of gray stone.|Change the material of the {} to rough stone.",
    "stripes": "Give the {} a striped pattern.|Put stripes on the {}.",
    "dots": "Give the {} a polka dot pattern.|Put polka dots on the {}.",
    "checks": "Give the {} a checkered pattern.|Make the {} checkered.",
}
"""Instruction phrases for materials."""

LOOKS_LIKE = {"wood": "brown", "marble": "white", "stone": "gray", "gold": "yellow"}
"""Materials that are barely visible on an object of this color."""

WALL_WORDS: dict[str, str] = {
    "cream": "Paint the wall cream.|Change the wall to a cream color.",
    "blue": "Paint the wall blue.|Change the background wall to blue.",
    "green": "Paint the wall green.|Change the background wall to green.",
    "pink": "Paint the wall pink.|Change the background wall to pink.",
    "brick": "Change the wall behind to a red brick wall.|Replace the background with a brick wall.",
    "kitchen": "Change the background to kitchen shelves.",
    "garden": "Change the background to a green garden.|Replace the background with blurred green foliage.",
    "lights": "Change the background to city lights at night.|Replace the background with a city at night.",
    "beach": "Change the background to a beach.|Replace the background with a sunny beach and the sea.",
    "day": "Make it a sunny day with a blue sky.",
    "sunset": "Change the sky to a sunset.|Make the background an orange sunset.|Make it sunset.",
    "night": "Change the sky to a starry night.|Make it night, with a moon and stars.|Turn day into night.",
    "storm": "Change the sky to dark storm clouds.|Make the sky stormy and gray.",
}
"""Instruction phrases for walls, backgrounds and skies."""

FLOOR_WORDS: dict[str, str] = {
    "snow": "Cover the ground with snow.|Make the ground snowy.",
    "sand": "Turn the meadow into a sandy desert.|Replace the grass with sand.",
    "grass": "Replace the pavement with grass.|Turn the sidewalk into a lawn.",
    "wood": "Change the {} to wood.|Make the {} wooden.",
    "marble": "Make the {} out of white marble.|Change the material of the {} to marble.",
    "tiles": "Change the {} to black and white tiles.|Lay black and white tiles on the {}.",
    "carpet": "Lay a red carpet on the {}.|Cover the {} with a red carpet.",
    "cloth": "Put a checked tablecloth on the {}.|Cover the {} with a checked cloth.",
}
"""Instruction phrases for floors and grounds."""

TURN_WORDS: dict[str, str] = {
    "over": "Turn the {} upside down.|Flip the {} upside down.",
    "side": "Lay the {} on its side.|Tip the {} over so that it lies on its side.",
    "mirror": "Mirror the {} so that it faces the other way.|Make the {} face the other direction.",
}
"""Instruction phrases for turns."""

NUMBERS = ("no", "one", "two", "three", "four")
"""Number words."""


def noun(thing: Thing) -> str:
    """Return the name of an object."""
    return KINDS[thing.kind].noun or thing.kind


def article(phrase: str) -> str:
    """Return words with the indefinite article."""
    return f"an {phrase}" if phrase[0] in "aeiou" else f"a {phrase}"

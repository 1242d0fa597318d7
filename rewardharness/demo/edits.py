"""Edits with known labels: the instruction, the correct result, and results with known flaws."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from rewardharness.demo.filters import (
    ANYWHERE,
    COLOR_CHANGES,
    LOCAL,
    OF_COLOR,
    OPPOSITE,
    SHAPE_CHANGES,
    STYLES,
    TONES,
    Picture,
    Rng,
    fade,
    half,
    meddle,
    style,
    tone,
)

Draw = Callable[[], Picture]
"""Renders an image on demand."""

Named = tuple[tuple[str, Draw], ...]
"""Images with a description of each."""

T = TypeVar("T")


@dataclass(frozen=True)
class Base:
    """An image to edit."""

    key: str
    """Its key; equal for equal images."""
    picture: Draw
    meddled: Named
    """The same image with a local change that no instruction requests."""
    colorful: bool = True
    """Whether color edits are visible."""


@dataclass(frozen=True)
class KnownEdit:
    """One edit of one image."""

    category: str
    """A member of `EDIT_KINDS`."""
    instruction: str
    key: str
    """Key of the source image; equal for equal images."""
    source: Draw
    right: Draw
    """The correct edit."""
    wrong: Named = ()
    """Wrong edits, such as a model's misinterpretations."""
    half_done: Draw | None = None
    """The incomplete edit."""
    over: Named = ()
    """The correct edit with an unrequested change."""
    defects: frozenset[str] = ANYWHERE | LOCAL
    """Defects that are visible in the correct edit and not requested."""
    again: Draw | None = None
    """Another correct edit."""


def pick(options: Sequence[T], rng: Rng) -> T:
    """Return a random one of several options, or of the parts of a text between `|`."""
    choices: Sequence[Any] = options.split("|") if isinstance(options, str) else options
    chosen: T = choices[int(rng.integers(len(choices)))]
    return chosen


def misspelt(word: str, rng: Rng) -> str:
    """Return a misspelled word: two letters swapped, one omitted or one doubled."""
    ways = [word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in range(len(word) - 1) if word[i] != word[i + 1]]
    ways += [word[:i] + word[i + 1 :] for i in range(1, len(word) - 1)]
    ways += [word[:i] + word[i] + word[i:] for i in range(1, len(word) - 1)]
    return pick([way for way in ways if way != word], rng)


def meddle_later(right: Draw, changes: tuple[str, ...], rng: Rng) -> Named:
    """Return the correct edit with one unrequested global change."""
    change, seed = pick(changes, rng), int(rng.integers(1 << 30))
    return ((change, lambda: meddle(right(), change, np.random.default_rng(seed))),)


def _then(draw: Draw, apply: Callable[[Picture], Picture]) -> Draw:
    return lambda: apply(draw())


_TONE_WORDS: dict[str, str] = {
    "brighter": "Make the image brighter.|Brighten the picture.|Increase the brightness.",
    "darker": "Make the image darker.|Darken the picture.|Lower the brightness of the photo.",
    "warmer": "Make the colors warmer.|Give the picture a warmer tone.|Warm up the image.",
    "cooler": "Make the colors cooler.|Give the picture a cooler, bluish tone.|Cool down the colors.",
    "more_contrast": "Increase the contrast.|Give the image more contrast.|Make the contrast stronger.",
    "less_contrast": "Reduce the contrast.|Give the image less contrast.|Make the contrast softer.",
    "more_saturated": "Make the colors more vivid.|Increase the saturation.|Make the image more colorful.",
    "less_saturated": "Make the colors less saturated.|Reduce the saturation.|Make the colors more muted.",
    "grayscale": "Turn the image into black and white.|Convert the photo to grayscale.|Make it black and white.",
    "sepia": "Apply a sepia tone.|Give the photo a sepia look.|Turn it into a sepia photograph.",
}

STYLE_WORDS: dict[str, str] = {
    "sketch": "Turn it into a pencil sketch.|Make it look like a pencil drawing.|Redraw this as a pencil sketch.",
    "oil": "Turn this into an oil painting.|Make it look like an oil painting.|Repaint it in oil paint style.",
    "watercolor": "Turn it into a watercolor painting.|Make it look like a watercolor.|Paint this in watercolor.",
    "cartoon": "Turn it into a cartoon.|Make it look like a comic book drawing.|Redraw this in cartoon style.",
    "pixels": "Turn it into pixel art.|Make it look like pixel art from an old video game.|Convert to pixel art.",
}

_FLIP_WORDS: dict[str, str] = {
    "mirrored": "Flip the image horizontally.|Mirror the picture from left to right.|Flip the photo left to right.",
    "upside down": "Turn the image upside down.|Rotate the picture by 180 degrees.|Rotate the photo 180 degrees.",
    "a quarter turn": "Rotate the image 90 degrees clockwise.|Turn the picture a quarter turn clockwise.",
    "a quarter turn the other way": "Rotate the image 90 degrees counterclockwise.|"
    "Turn the picture a quarter turn counterclockwise.",
}
_TURNS = {"upside down": 2, "a quarter turn": -1, "a quarter turn the other way": 1}

_KEEP_WORDS = (
    "Keep the image exactly as it is.|Do not change anything.|Reproduce the picture without any changes.|"
    "Leave the photo unchanged."
)


def _whole(
    category: str,
    instructions: str,
    base: Base,
    change: Callable[[Picture], Picture],
    unasked: tuple[str, ...],
    rng: Rng,
    **fields: Any,
) -> KnownEdit:
    """Return an edit of a whole image, with unrequested changes of some kinds; `fields` are other fields of it."""
    right, instruction = _then(base.picture, change), pick(instructions, rng)
    over = (*((what, _then(draw, change)) for what, draw in base.meddled), *meddle_later(right, unasked, rng))
    known = {"over": over, "defects": ANYWHERE, **fields}
    return KnownEdit(category, instruction, base.key, base.picture, right, **known)


def change_tone(base: Base, rng: Rng) -> KnownEdit | None:
    """Generate a global edit of light or color."""
    name = pick(TONES if base.colorful else ("brighter", "darker", "more_contrast", "less_contrast", "sepia"), rng)
    wrong = OPPOSITE[name] if base.colorful or name != "sepia" else "brighter"
    return _whole(
        "tone",
        _TONE_WORDS[name],
        base,
        partial(tone, name=name),
        SHAPE_CHANGES,
        rng,
        wrong=((f"made {wrong}", lambda: tone(base.picture(), wrong)),),
        half_done=lambda: tone(base.picture(), name, 0.28),
        defects=ANYWHERE - OF_COLOR,
        again=lambda: tone(base.picture(), name, 0.93),
    )


def change_style(base: Base, rng: Rng) -> KnownEdit | None:
    """Generate a style transfer to a drawing or painting."""
    name = pick(STYLES, rng)
    other = pick([option for option in STYLES if option != name], rng)
    share = float(rng.uniform(0.35, 0.6))
    return _whole(
        "style",
        STYLE_WORDS[name],
        base,
        partial(style, name=name),
        SHAPE_CHANGES,
        rng,
        wrong=((f"turned into {other}", lambda: style(base.picture(), other)),),
        half_done=lambda: half(base.picture(), style(base.picture(), name), 1, share),
        defects=frozenset({"squeezed", "seam"} | ({"blur", "blocks"} if name != "pixels" else set())),
        again=lambda: fade(base.picture(), style(base.picture(), name), 0.96),
    )


def _turned(picture: Picture, name: str) -> Picture:
    return np.ascontiguousarray(np.rot90(picture, _TURNS[name]) if name in _TURNS else picture[:, ::-1])


def flip(base: Base, rng: Rng) -> KnownEdit | None:
    """Generate a flip or rotation of the image."""
    name = pick(list(_FLIP_WORDS), rng)
    other = pick([turn for turn in _FLIP_WORDS if turn != name], rng)
    wrong = ((other, _then(base.picture, partial(_turned, name=other))),)
    half_done = _then(base.picture, lambda picture: fade(picture, _turned(picture, name), 0.55))
    change = partial(_turned, name=name)
    return _whole("pose", _FLIP_WORDS[name], base, change, COLOR_CHANGES, rng, wrong=wrong, half_done=half_done)


def keep(base: Base, rng: Rng) -> KnownEdit | None:
    """Generate an instruction to change nothing."""
    unasked = SHAPE_CHANGES + COLOR_CHANGES
    return _whole("keep", _KEEP_WORDS, base, lambda picture: picture, unasked, rng, again=base.picture)

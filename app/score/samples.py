"""A few comparisons to try: photographs that come with scikit-image, edited by code when they are first looked at."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from PIL import Image, ImageEnhance, ImageFilter

from rewardharness import files
from rewardharness.demo.photos import photo

Edit = Callable[[Image.Image], Image.Image]

ICON = 64
"""Longest side of the picture on a button, in pixels."""


@dataclass(frozen=True)
class Sample:
    """A comparison to try."""

    title: str
    """A few words for its button."""
    instruction: str
    photograph: str
    """One of `rewardharness.demo.photos.PHOTOS`."""
    edits: tuple[Edit, ...]
    folder: Path
    """Where its pictures are written."""
    icon: Path
    """A small version of the source, for its button."""

    @cached_property
    def images(self) -> tuple[Path, ...]:
        """The source and the candidates, drawn once."""
        source = Image.fromarray(photo(self.photograph))
        paths = [self.folder / f"{self.photograph}-{number}.png" for number in range(1 + len(self.edits))]
        for path, edit in zip(paths, (_same, *self.edits), strict=True):
            if not path.is_file():
                buffer = io.BytesIO()
                edit(source).save(buffer, "PNG", compress_level=1)
                files.write_bytes(path, buffer.getvalue())
        return tuple(paths)

    @property
    def source(self) -> Path:
        """The photograph."""
        return self.images[0]

    @property
    def candidates(self) -> tuple[Path, ...]:
        """The edits."""
        return self.images[1:]


def make_samples(folder: Path) -> list[Sample]:
    """Return the samples, of which only the icons are drawn.

    Args:
        folder: Where their pictures are written.

    Raises:
        MissingPackageError: If scikit-image is not installed.
        DataError: If it does not bring the photographs.
    """
    edits = {
        "astronaut": ("Blue space suit", "Make the orange space suit blue.", (_recolor_orange, _tint_blue)),
        "rocket": ("A red balloon", "Add a red balloon to the sky.", (_paste_balloon, _draw_balloon)),
        "coffee": ("Brighter picture", "Make the picture brighter.", (_same, _burn_out, _brighten)),
        "cat": ("Black and white", "Turn the photo into black and white.", (_gray, _fade)),
    }
    return [_sample(folder, name, *about) for name, about in edits.items()]


def _sample(folder: Path, name: str, title: str, instruction: str, edits: Sequence[Edit]) -> Sample:
    small = Image.fromarray(photo(name))
    small.thumbnail((ICON, ICON))
    buffer = io.BytesIO()
    small.save(buffer, "WEBP", quality=80)
    icon = folder / f"{name}-icon.webp"
    files.write_bytes(icon, buffer.getvalue())
    return Sample(title, instruction, name, tuple(edits), folder, icon)


def _same(source: Image.Image) -> Image.Image:
    return source.copy()


def _gray(source: Image.Image) -> Image.Image:
    return source.convert("L").convert("RGB")


def _fade(source: Image.Image) -> Image.Image:
    """Black and white, half-heartedly and blurred."""
    return ImageEnhance.Color(source).enhance(0.45).filter(ImageFilter.GaussianBlur(1.6))


def _brighten(source: Image.Image) -> Image.Image:
    return source.point([round(255 * (value / 255) ** 0.7) for value in range(256)] * 3)


def _burn_out(source: Image.Image) -> Image.Image:
    return ImageEnhance.Contrast(ImageEnhance.Brightness(source).enhance(2.4)).enhance(1.3)


def _orange_suit(source: Image.Image) -> Image.Image:
    """Mask of the saturated orange of the suit, without the face above it."""
    hue, saturation, value = (np.asarray(band, np.int32) for band in source.convert("HSV").split())
    orange = (hue > 3) & (hue < 22) & (saturation > 130) & (value > 70)
    orange[:190] = False
    mask = Image.fromarray(np.where(orange, 255, 0).astype(np.uint8))
    return mask.filter(ImageFilter.MaxFilter(5)).filter(ImageFilter.MedianFilter(9)).filter(ImageFilter.GaussianBlur(1))


def _recolor_orange(source: Image.Image) -> Image.Image:
    """The suit in blue, its folds kept."""
    value = source.convert("HSV").getchannel("V")
    hue = Image.new("L", source.size, 156)
    saturation = Image.new("L", source.size, 175)
    blue = Image.merge("HSV", (hue, saturation, value)).convert("RGB")
    return Image.composite(blue, source, _orange_suit(source))


def _tint_blue(source: Image.Image) -> Image.Image:
    """All of the picture in blue."""
    gray = source.convert("L")
    dark = gray.point([round(0.35 * value) for value in range(256)])
    return Image.blend(source, Image.merge("RGB", (dark, dark, gray)), 0.75)


def _balloon(size: int) -> Image.Image:
    """A shaded red balloon on a string, with transparency."""
    rows, columns = np.mgrid[0 : 2 * size, 0:size].astype(np.float64)
    across, down = (columns - size / 2) / (0.46 * size), (rows - 0.56 * size) / (0.55 * size)
    radius = np.hypot(across, down)
    light = np.clip(1.05 - 0.75 * np.hypot(across + 0.35, down + 0.4), 0.25, 1.0)
    shine = np.exp(-(((across + 0.38) / 0.16) ** 2 + ((down + 0.45) / 0.22) ** 2))
    color = np.stack([225 * light + 60 * shine, 30 * light + 190 * shine, 38 * light + 190 * shine], axis=-1)
    string = (np.abs(columns - size / 2 - 2 * np.sin(rows / 14)) < 0.9) & (rows > 1.1 * size) & (rows < 1.95 * size)
    alpha = np.clip((1 - radius) * 0.25 * size, 0, 1)
    color[string] = 70
    alpha[string] = 1
    return Image.fromarray(np.dstack([np.clip(color, 0, 255), 255 * alpha]).astype(np.uint8), "RGBA")


def _draw_balloon(source: Image.Image) -> Image.Image:
    result = source.copy()
    balloon = _balloon(84)
    result.paste(balloon, (400, 40), balloon)
    return result


def _paste_balloon(source: Image.Image) -> Image.Image:
    """A balloon cut out with a piece of another sky, on a picture that lost its sharpness."""
    result = source.filter(ImageFilter.GaussianBlur(2.2))
    balloon = _balloon(84)
    patch = Image.new("RGB", balloon.size, (203, 214, 226))
    patch.paste(balloon, (0, 0), balloon)
    result.paste(patch, (400, 40))
    return result

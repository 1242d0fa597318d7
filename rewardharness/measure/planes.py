"""Results of measures, one image at working size with the planes that measures share, and results computed once."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import cv2
import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]
"""An sRGB image, height x width x 3, 0 to 255."""


@dataclass(frozen=True)
class Reading:
    """The result of one measure for one candidate.

    Raises:
        ValueError: If the grade is outside [0, 1], or a number is not finite. Measures cap unbounded values.
    """

    quantities: Mapping[str, float]
    """Measured numbers by name; the documentation of each measure and the sentence say their units."""
    grade: float | None
    """Quality with regard to the instruction, 0 to 1; None if the measure does not apply to the request."""
    sentence: str
    """One sentence that states the numbers."""
    draw: Callable[[], Pixels] | None = field(default=None, compare=False, repr=False)
    """Draws the overlay."""

    def __post_init__(self) -> None:
        if self.grade is not None and not 0.0 <= self.grade <= 1.0:
            raise ValueError(f"a grade must be in [0, 1], got {self.grade}")
        if not all(map(math.isfinite, self.quantities.values())):
            raise ValueError(f"measured numbers must be finite, got {dict(self.quantities)}")

    @cached_property
    def overlay(self) -> Pixels | None:
        """Visualization at working size, drawn on first access; None if there is none."""
        return None if self.draw is None else self.draw()

    def to_json(self) -> dict[str, Any]:
        """Return the grade and all quantities as JSON numbers, rounded to four decimals."""
        numbers: dict[str, Any] = {name: round(float(value), 4) for name, value in self.quantities.items()}
        return {"grade": None if self.grade is None else round(float(self.grade), 4), **numbers}


Plane = npt.NDArray[np.float32]
"""Float image: height x width, or height x width x 3."""
Mask = npt.NDArray[np.bool_]
"""Boolean mask, height x width."""

WORKING_SIDE = 512
"""Long side of the images that are measured, in pixels. Smaller images keep their size."""


class _Holder(Protocol):
    results: dict[Any, Any]


H = TypeVar("H", bound=_Holder)
P = ParamSpec("P")
T = TypeVar("T")


def once(function: Callable[Concatenate[H, P], T]) -> Callable[Concatenate[H, P], T]:
    """Decorate a function of an image or a pair of images, so that its result is computed once for each of them.

    Further arguments are positional and hashable. Treat results as read-only.
    """

    @wraps(function)
    def call(holder: H, /, *args: P.args, **kwargs: P.kwargs) -> T:
        key = (function, *args)
        if key not in holder.results:
            holder.results[key] = function(holder, *args, **kwargs)
        result: T = holder.results[key]
        return result

    return call


class Planes:
    """An image in the frame of the source, with planes that are computed on first access. Treat them as read-only.

    Args:
        pixels: The image at its own size.
        small: The image at working size; None to shrink it.
    """

    def __init__(self, pixels: Pixels, small: Pixels | None = None) -> None:
        self.pixels = pixels
        self.results: dict[Any, Any] = {}
        """Results of functions that are decorated with `once`."""
        self._small = small

    @cached_property
    def small(self) -> Pixels:
        """The image at working size: long side at most `WORKING_SIDE`."""
        return _shrink(self.pixels) if self._small is None else self._small

    @cached_property
    def lab(self) -> Plane:
        """CIELAB (D65; L from 0 to 100) at working size."""
        return np.asarray(cv2.cvtColor(self.small.astype(np.float32) / 255.0, cv2.COLOR_RGB2Lab), np.float32)

    @cached_property
    def channels(self) -> tuple[Plane, Plane, Plane]:
        """L, a and b as separate planes, which are several times faster to compute with."""
        lightness, a, b = cv2.split(self.lab)
        return np.asarray(lightness, np.float32), np.asarray(a, np.float32), np.asarray(b, np.float32)

    @cached_property
    def chroma(self) -> Plane:
        """CIELAB chroma at working size."""
        _, a, b = self.channels
        return np.asarray(np.sqrt(a * a + b * b), np.float32)  # several times faster than `np.hypot`

    @cached_property
    def gray(self) -> Plane:
        """Luma (BT.601), 0 to 255, at working size."""
        return np.asarray(cv2.cvtColor(self.small, cv2.COLOR_RGB2GRAY), np.float32)

    @cached_property
    def luma(self) -> Pixels:
        """The same at full size."""
        return np.asarray(cv2.cvtColor(self.pixels, cv2.COLOR_RGB2GRAY), np.uint8)


def resize(pixels: Pixels, width: int, height: int) -> Pixels:
    """Resize with area averaging when shrinking and bicubic interpolation when enlarging."""
    if pixels.shape[:2] == (height, width):
        return pixels
    smaller = width * height < pixels.shape[0] * pixels.shape[1]
    interpolation = cv2.INTER_AREA if smaller else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(pixels, (width, height), interpolation=interpolation), np.uint8)


def _shrink(pixels: Pixels) -> Pixels:
    height, width = pixels.shape[:2]
    scale = min(1.0, WORKING_SIDE / max(height, width))
    return resize(pixels, max(1, round(width * scale)), max(1, round(height * scale)))

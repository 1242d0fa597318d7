"""One image at working size: the planes that measures share, and results that are computed once."""

from collections.abc import Callable
from functools import cached_property, wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import cv2
import numpy as np
import numpy.typing as npt

from rewardharness.measure.reading import Pixels

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
    how = cv2.INTER_AREA if smaller else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(pixels, (width, height), interpolation=how), np.uint8)


def _shrink(pixels: Pixels) -> Pixels:
    height, width = pixels.shape[:2]
    scale = min(1.0, WORKING_SIDE / max(height, width))
    return resize(pixels, max(1, round(width * scale)), max(1, round(height * scale)))

"""Source and candidate side by side: one frame, one working size, and where they differ.

Everything that measures of one candidate share is computed here, each thing at most once and only when asked for.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import cv2
import numpy as np
import numpy.typing as npt

from rewardharness.measure.images import Picture
from rewardharness.measure.reading import Pixels

Plane = npt.NDArray[np.float32]
"""Float pictures: height x width, or height x width x 3."""
Mask = npt.NDArray[np.bool_]
"""Height x width, true where something holds."""

WORKING_SIDE = 512
"""Long side of the pictures that are measured, in pixels; smaller pictures keep their size."""


@dataclass(frozen=True)
class Alignment:
    """How the candidate was brought into the frame of the source."""

    how: Literal["none", "resized", "letterboxed"]
    source_size: tuple[int, int]
    """Width and height in pixels."""
    candidate_size: tuple[int, int]
    """Width and height in pixels, as given."""
    aspect_error: float
    """Relative difference of the aspect ratios, 0 when equal."""
    shift: tuple[float, float]
    """Compensated translation to the right and down, in working pixels."""
    note: str
    """In words; empty when nothing was done."""


class EditView:
    """A source and one candidate, ready to be measured.

    Attributes are computed when first read and then kept. Arrays must not be written to.

    Args:
        source: The picture before the edit.
        candidate: The edited picture.
    """

    def __init__(self, source: Picture, candidate: Picture) -> None:
        self._source = source
        self._candidate = candidate

    @cached_property
    def identical(self) -> bool:
        """Whether the candidate has the very pixels of the source, before any alignment."""
        return bool(np.array_equal(self._source.pixels, self._candidate.pixels))

    @property
    def source(self) -> Pixels:
        """The source at its own size."""
        return self._source.pixels

    @cached_property
    def candidate(self) -> Pixels:
        """The candidate in the frame of the source, at the size of the source."""
        height, width = self.source.shape[:2]
        if self._candidate.pixels.shape == self.source.shape:
            return self._candidate.pixels
        return np.asarray(cv2.resize(self._candidate.pixels, (width, height), interpolation=cv2.INTER_AREA), np.uint8)

    @cached_property
    def alignment(self) -> Alignment:
        """How the candidate was brought into the frame of the source."""
        size = (self.source.shape[1], self.source.shape[0])
        return Alignment("none", size, size, 0.0, (0.0, 0.0), "")

    @cached_property
    def small_source(self) -> Pixels:
        """The source at working size: long side at most `WORKING_SIDE`."""
        return _shrink(self.source)

    @cached_property
    def small_candidate(self) -> Pixels:
        """The candidate at working size, compensated for a small global shift."""
        return _shrink(self.candidate)

    @cached_property
    def lab_source(self) -> Plane:
        """The source in CIELAB (D65; L from 0 to 100) at working size."""
        return _lab(self.small_source)

    @cached_property
    def lab_candidate(self) -> Plane:
        """The candidate in CIELAB at working size."""
        return _lab(self.small_candidate)

    @cached_property
    def gray_source(self) -> Plane:
        """Luma of the source, 0 to 255, at working size."""
        return _gray(self.small_source)

    @cached_property
    def gray_candidate(self) -> Plane:
        """Luma of the candidate, 0 to 255, at working size."""
        return _gray(self.small_candidate)

    @cached_property
    def valid(self) -> Mask:
        """Working pixels that the candidate covers; false in the margins of a letterboxed candidate."""
        return np.ones(self.small_source.shape[:2], dtype=bool)

    @cached_property
    def change(self) -> Plane:
        """How surely each place was edited, 0 to 1, at working size; 0 where not valid."""
        distance = np.linalg.norm(self.lab_source - self.lab_candidate, axis=2)
        return np.asarray(1.0 - np.exp(-((distance / 8.0) ** 2)), np.float32)

    @cached_property
    def changed(self) -> Mask:
        """The edited regions at working size: specks dropped, small holes closed."""
        return (self.change > 0.5) & self.valid

    @cached_property
    def changed_share(self) -> float:
        """Share of the valid working pixels that were edited."""
        return float(self.changed.sum() / max(1, int(self.valid.sum())))


def _shrink(pixels: Pixels) -> Pixels:
    """Bring a picture to working size."""
    height, width = pixels.shape[:2]
    scale = WORKING_SIDE / max(height, width)
    if scale >= 1:
        return pixels
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)


def _lab(pixels: Pixels) -> Plane:
    return np.asarray(cv2.cvtColor(pixels.astype(np.float32) / 255.0, cv2.COLOR_RGB2Lab), np.float32)


def _gray(pixels: Pixels) -> Plane:
    return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), np.float32)

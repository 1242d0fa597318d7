"""Align a source image and a candidate to one frame and working size, and locate their differences.

Intermediate results that several measures share are computed here lazily and cached.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import cv2
import numpy as np
import numpy.typing as npt

from rewardharness.measure.curves import dot
from rewardharness.measure.heat import color_change, find_edited, structure_change
from rewardharness.measure.images import Picture
from rewardharness.measure.planes import Mask, Pixels, Plane, Planes, resize

ASPECT_TOLERANCE = 0.03
"""Largest relative aspect-ratio difference that counts as the same frame (editors round sizes to multiples of 8 to
64)."""
MAX_SHIFT = 0.02
"""Largest translation that is corrected, as a fraction of the long side."""
UNCOVERED = 128
"""Gray value of the frame area that a letterboxed candidate does not cover."""


@dataclass(frozen=True)
class Alignment:
    """How the candidate was aligned with the frame of the source."""

    how: Literal["none", "resized", "letterboxed"]
    source_size: tuple[int, int]
    """Width and height in pixels."""
    candidate_size: tuple[int, int]
    """Width and height in pixels before alignment."""
    aspect_error: float
    """Relative difference of the aspect ratios, 0 when equal."""
    shift: tuple[float, float]
    """Translation applied to the candidate at working size: right and down, in working pixels."""
    note: str
    """Description of the alignment; empty if none was needed."""


class EditView:
    """A source image and one candidate, prepared for measuring.

    Attributes are computed on first access and cached. Treat the arrays as read-only.

    Args:
        source: The image before the edit.
        candidate: The edited image.
    """

    def __init__(self, source: Picture, candidate: Picture) -> None:
        self.before = source.planes
        """The source and its planes, which the views of other candidates share."""
        self._given_candidate = candidate.pixels
        self.results: dict[Any, Any] = {}
        """Results of functions that are decorated with `once`."""

    @cached_property
    def identical(self) -> bool:
        """Whether the candidate has exactly the pixels of the source, before any alignment."""
        return bool(np.array_equal(self.source, self._given_candidate))

    @property
    def source(self) -> Pixels:
        """The source at its own size."""
        return self.before.pixels

    @property
    def candidate(self) -> Pixels:
        """The candidate in the frame and at the size of the source; `UNCOVERED` where it has no pixels."""
        return self.aligned.pixels

    @cached_property
    def aligned(self) -> Planes:
        """The candidate in the frame of the source, before any correction of a shift."""
        if self.identical:
            return self.before
        if self._how == "none":
            return Planes(self._given_candidate)
        left, top, width, height = self._box
        fitted = resize(self._given_candidate, width, height)
        if self._how == "resized":
            return Planes(fitted)
        frame = np.full_like(self.source, UNCOVERED)
        frame[top : top + height, left : left + width] = fitted
        return Planes(frame)

    @cached_property
    def after(self) -> Planes:
        """The candidate and its planes, corrected for a small global shift at working size."""
        if self._shift == (0.0, 0.0):
            return self.aligned
        return Planes(self.candidate, _move(self.aligned.small, self._shift))

    @cached_property
    def _aspect_error(self) -> float:
        height, width = self.source.shape[:2]
        own_height, own_width = self._given_candidate.shape[:2]
        ratio = (own_width * height) / (own_height * width)
        return float(max(ratio, 1.0 / ratio) - 1.0)

    @cached_property
    def _how(self) -> Literal["none", "resized", "letterboxed"]:
        if self.source.shape == self._given_candidate.shape:
            return "none"
        return "resized" if self._aspect_error <= ASPECT_TOLERANCE else "letterboxed"

    @cached_property
    def _box(self) -> tuple[int, int, int, int]:
        """Left, top, width and height of the candidate within the frame of the source."""
        height, width = self.source.shape[:2]
        if self._how != "letterboxed":
            return 0, 0, width, height
        own_height, own_width = self._given_candidate.shape[:2]
        scale = min(width / own_width, height / own_height)
        inner = max(1, min(width, round(own_width * scale))), max(1, min(height, round(own_height * scale)))
        return (width - inner[0]) // 2, (height - inner[1]) // 2, *inner

    @cached_property
    def alignment(self) -> Alignment:
        """How the candidate was aligned with the frame of the source."""
        height, width = self.source.shape[:2]
        own_height, own_width = self._given_candidate.shape[:2]
        notes = []
        if self._how == "resized":
            notes.append(f"resized from {own_width} x {own_height} to {width} x {height}")
        elif self._how == "letterboxed":
            share = 1.0 - self._box[2] * self._box[3] / (width * height)
            notes.append(
                f"different aspect ratio ({own_width} x {own_height} instead of {width} x {height}):"
                f" fitted into the frame; {share:.0%} of the frame is not covered"
            )
        if self._shift != (0.0, 0.0):
            notes.append(
                f"shifted by ({self._shift[0]:+.1f}, {self._shift[1]:+.1f}) working pixels to match the source"
            )
        return Alignment(
            self._how, (width, height), (own_width, own_height), self._aspect_error, self._shift, "; ".join(notes)
        )

    @cached_property
    def _shift(self) -> tuple[float, float]:
        if self.identical:
            return 0.0, 0.0
        return _translation(self.before.gray, self.aligned.gray)

    @property
    def small_source(self) -> Pixels:
        """The source at working size: long side at most `WORKING_SIDE`."""
        return self.before.small

    @property
    def small_candidate(self) -> Pixels:
        """The candidate at working size, corrected for a small global shift."""
        return self.after.small

    @property
    def lab_source(self) -> Plane:
        """The source in CIELAB (D65; L from 0 to 100) at working size."""
        return self.before.lab

    @property
    def lab_candidate(self) -> Plane:
        """The candidate in CIELAB at working size."""
        return self.after.lab

    @property
    def gray_source(self) -> Plane:
        """Luma (BT.601) of the source, 0 to 255, at working size."""
        return self.before.gray

    @property
    def gray_candidate(self) -> Plane:
        """Luma of the candidate, 0 to 255, at working size."""
        return self.after.gray

    @cached_property
    def valid(self) -> Mask:
        """Working pixels that the candidate covers; false in the margins of a letterboxed or moved candidate."""
        height, width = self.small_source.shape[:2]
        left, top, inner_width, inner_height = self._box
        scale = width / self.source.shape[1]
        covered = np.zeros((height, width), bool)
        right, bottom = (left + inner_width) * scale, (top + inner_height) * scale
        dx, dy = self._shift
        rows = slice(int(np.ceil(top * scale + max(dy, 0))), int(np.floor(bottom + 1e-6 + min(dy, 0))))
        columns = slice(int(np.ceil(left * scale + max(dx, 0))), int(np.floor(right + 1e-6 + min(dx, 0))))
        covered[rows, columns] = True
        return covered

    @cached_property
    def color_distance(self) -> Plane:
        """CIE 1976 color difference at each working pixel."""
        lightness, a, b = (
            after - before for before, after in zip(self.before.channels, self.after.channels, strict=True)
        )
        return np.asarray(np.sqrt(lightness * lightness + a * a + b * b), np.float32)

    @cached_property
    def change(self) -> Plane:
        """Confidence that each working pixel was edited, 0 to 1; 0 where not valid.

        0.5 means a difference that is just visible beyond re-encoding. The squares of `color_change` and
        `structure_change` are added.
        """
        if self.identical:
            return np.zeros(self.small_source.shape[:2], np.float32)
        lab, lightness = self.after.lab, self.after.channels[0]
        if not self.valid.all():
            # Uncovered pixels count as unchanged; this also keeps the border from bleeding into the image.
            lab = np.where(self.valid[..., None], lab, self.before.lab)
            lightness = np.ascontiguousarray(lab[..., 0])
        height, width = self.valid.shape
        color = cv2.resize(color_change(self.before, lab, self.valid), (width, height))
        structure = structure_change(self.before, lightness, self.valid)
        heat = 1.0 - np.exp(-np.log(2.0) * (color**2 + structure**2))
        return np.asarray(np.where(self.valid, heat, 0.0), np.float32)

    @cached_property
    def changed(self) -> Mask:
        """The edited regions at working size, without specks and small holes."""
        return find_edited(self.change) & self.valid

    @cached_property
    def changed_share(self) -> float:
        """Fraction of the valid working pixels that were edited."""
        return float(self.changed.sum() / max(1, int(self.valid.sum())))


def _move(plane: npt.NDArray[Any], shift: tuple[float, float]) -> npt.NDArray[Any]:
    """Translate right and down, replicating the border."""
    if shift == (0.0, 0.0):
        return plane
    matrix = np.array([[1.0, 0.0, shift[0]], [0.0, 1.0, shift[1]]], np.float32)
    size = (plane.shape[1], plane.shape[0])
    moved = cv2.warpAffine(plane, matrix, size, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(moved, plane.dtype)


def _translation(source: Plane, candidate: Plane) -> tuple[float, float]:
    """Return the small translation that aligns the candidate with the source, (0, 0) if there is none.

    Phase correlation (Kuglin and Hines, 1975) estimates the translation and two steps of Lucas and Kanade (1981)
    refine it. It is accepted if it clearly lowers the mean difference, clipped between the noise level and gross
    disagreement.
    """
    height, width = source.shape
    if min(height, width) < 32 or np.ptp(source) == 0 or np.ptp(candidate) == 0:
        return 0.0, 0.0
    window = cv2.createHanningWindow((width, height), cv2.CV_32F)
    # OpenCV may apply the window to its arguments in place, so pass copies.
    (found_x, found_y), _ = cv2.phaseCorrelate(source.copy(), candidate.copy(), window)
    limit = MAX_SHIFT * max(height, width)
    if not 0.05 <= np.hypot(found_x, found_y) <= limit:
        return 0.0, 0.0
    shift = (-float(found_x), -float(found_y))
    for _ in range(2):
        shift = _refined(source, candidate, shift)
    if not 0.2 <= np.hypot(*shift) <= limit:
        return 0.0, 0.0
    before, after = (
        np.clip(np.abs(source - _move(candidate, move)) - 4.0, 0.0, 20.0).mean() for move in ((0.0, 0.0), shift)
    )
    return shift if after < 0.8 * before else (0.0, 0.0)


def _refined(source: Plane, candidate: Plane, shift: tuple[float, float]) -> tuple[float, float]:
    """Refine a translation by one least-squares step over the pixels that roughly agree."""
    moved = _move(candidate, shift)
    error = source - moved
    agree = np.abs(error) < 24.0
    across = (cv2.Sobel(moved, cv2.CV_32F, 1, 0) / 8.0)[agree].astype(np.float64)
    down = (cv2.Sobel(moved, cv2.CV_32F, 0, 1) / 8.0)[agree].astype(np.float64)
    matrix = np.array([[dot(across, across), dot(across, down)], [dot(across, down), dot(down, down)]])
    if np.linalg.det(matrix) <= 1e-6 * matrix.trace() ** 2:
        return shift
    left = error[agree].astype(np.float64)
    step = np.linalg.solve(matrix, np.array([dot(across, left), dot(down, left)]))
    return shift[0] - float(step[0]), shift[1] - float(step[1])

"""Align a source image and a candidate to one frame and working size, and locate their differences.

Intermediate results that several measures share are computed here lazily and cached.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import cv2
import numpy as np
import numpy.typing as npt

from rewardharness.measure.images import Picture
from rewardharness.measure.planes import Plane, Planes, once, resize
from rewardharness.measure.reading import Pixels

Mask = npt.NDArray[np.bool_]
"""Boolean mask, height x width."""

ASPECT_TOLERANCE = 0.03
"""Largest relative aspect-ratio difference that counts as the same frame (editors round sizes to multiples of 8 to
64)."""
MAX_SHIFT = 0.02
"""Largest translation that is corrected, as a fraction of the long side."""
UNCOVERED = 128
"""Gray value of the frame area that a letterboxed candidate does not cover."""

COLOR_OFFSET = (3.0, 2.0, 2.0)
"""Largest uniform offsets in L, a and b that are attributed to re-encoding rather than to an edit."""
COLOR_FLOOR, COLOR_CEILING = 1.8, 4.0
"""Color difference (dE) that counts as half an edit, on a clean and on a noisy pair."""
STRUCTURE_FLOOR, STRUCTURE_CEILING = 1.2, 3.0
"""Structure difference (in L) that counts as half an edit in a flat area, on a clean and on a noisy pair."""
MASKING_FLOOR, MASKING_CEILING = 0.4, 0.7
"""Visual masking of structure differences per unit of local contrast, on a clean and on a noisy pair."""


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
            self._how,
            (width, height),
            (own_width, own_height),
            self._aspect_error,
            self._shift,
            "; ".join(notes),
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

        0.5 means a difference that is just visible beyond re-encoding. The squares of `_color_change` and
        `_structure_change` are added.
        """
        if self.identical:
            return np.zeros(self.small_source.shape[:2], np.float32)
        lab, lightness = self.after.lab, self.after.channels[0]
        if not self.valid.all():
            # Uncovered pixels count as unchanged; this also keeps the border from bleeding into the image.
            lab = np.where(self.valid[..., None], lab, self.before.lab)
            lightness = np.ascontiguousarray(lab[..., 0])
        height, width = self.valid.shape
        color = cv2.resize(_color_change(self.before, lab, self.valid), (width, height))
        structure = _structure_change(self.before, lightness, self.valid)
        heat = 1.0 - np.exp(-np.log(2.0) * (color**2 + structure**2))
        return np.asarray(np.where(self.valid, heat, 0.0), np.float32)

    @cached_property
    def changed(self) -> Mask:
        """The edited regions at working size, without specks and small holes."""
        return _regions(self.change) & self.valid

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
        np.clip(np.abs(source - _move(candidate, each)) - 4.0, 0.0, 20.0).mean() for each in ((0.0, 0.0), shift)
    )
    return shift if after < 0.8 * before else (0.0, 0.0)


def _refined(source: Plane, candidate: Plane, shift: tuple[float, float]) -> tuple[float, float]:
    """Refine a translation by one least-squares step over the pixels that roughly agree."""
    moved = _move(candidate, shift)
    error = source - moved
    agree = np.abs(error) < 24.0
    across = (cv2.Sobel(moved, cv2.CV_32F, 1, 0) / 8.0)[agree].astype(np.float64)
    down = (cv2.Sobel(moved, cv2.CV_32F, 0, 1) / 8.0)[agree].astype(np.float64)
    matrix = np.array([[_dot(across, across), _dot(across, down)], [_dot(across, down), _dot(down, down)]])
    if np.linalg.det(matrix) <= 1e-6 * matrix.trace() ** 2:
        return shift
    left = error[agree].astype(np.float64)
    step = np.linalg.solve(matrix, np.array([_dot(across, left), _dot(down, left)]))
    return shift[0] - float(step[0]), shift[1] - float(step[1])


def _dot(first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]) -> float:
    """Return the scalar product without BLAS, whose threads would wait in a loop and take processors from others."""
    return float(np.einsum("i,i->", first, second))


def _blur(plane: Plane, sigma: float) -> Plane:
    return np.asarray(cv2.GaussianBlur(plane, (0, 0), sigma, borderType=cv2.BORDER_REFLECT_101), np.float32)


def _neighbors(plane: Plane) -> list[Plane]:
    """Return the nine copies of the plane shifted by up to one pixel in each direction."""
    height, width = plane.shape[:2]
    padded = cv2.copyMakeBorder(plane, 1, 1, 1, 1, cv2.BORDER_REFLECT_101)
    return [padded[y : y + height, x : x + width] for y in range(3) for x in range(3)]


def _soft_colors(lab: Plane) -> list[Plane]:
    """Average L, a and b at half the working size, a and b over a wider area."""
    height, width = lab.shape[:2]
    size = (max(1, width // 2), max(1, height // 2))
    soft = _blur(np.asarray(cv2.resize(lab, size, interpolation=cv2.INTER_AREA), np.float32), 1.0)
    chroma = _blur(np.ascontiguousarray(soft[..., 1:]), 1.0)
    return [np.ascontiguousarray(plane) for plane in (soft[..., 0], chroma[..., 0], chroma[..., 1])]


@once
def _soft_source(source: Planes) -> list[Plane]:
    return _soft_colors(source.lab)


def _color_change(source: Planes, candidate: Plane, valid: Mask) -> Plane:
    """Measure the local color change at half the working size; 1 is just visible.

    Chroma is averaged over a wider area than lightness, as in human vision and image codecs, and weighs less in
    saturated colors (after CIE94). The smallest difference over one-pixel displacements counts. The visibility
    threshold is estimated from the pair: the median difference is attributed to re-encoding, within fixed limits so
    that a global edit stays visible.
    """
    first, second = _soft_source(source), _soft_colors(candidate)
    size = first[0].shape[::-1]
    inside = cv2.resize(valid.astype(np.uint8), size, interpolation=cv2.INTER_NEAREST).astype(bool)
    if not inside.any():
        return np.zeros(inside.shape, np.float32)
    for axis, (before, after, limit) in enumerate(zip(first, second, COLOR_OFFSET, strict=True)):
        offset = np.median((after - before)[inside][::7])
        second[axis] = after - np.float32(np.clip(offset, -limit, limit))
    chroma = np.minimum(np.hypot(*first[1:]), np.hypot(*second[1:]))
    weight = (1.0 / (1.0 + 0.03 * chroma)) ** 2
    least = np.full(inside.shape, np.inf, np.float32)
    step, squared, other = (np.empty_like(least) for _ in range(3))
    for lightness, a, b in zip(*map(_neighbors, second), strict=True):
        np.subtract(first[1], a, out=squared)
        squared *= squared
        np.subtract(first[2], b, out=other)
        other *= other
        squared += other
        squared *= weight
        np.subtract(first[0], lightness, out=step)
        step *= step
        step += squared
        np.minimum(least, step, out=least)
    distance = np.sqrt(least)
    noise = float(np.median(distance[inside][::4]))
    return np.asarray(distance / np.clip(0.9 + 3.0 * noise, COLOR_FLOOR, COLOR_CEILING), np.float32)


@once
def _source_structure(source: Planes) -> tuple[Plane, Plane]:
    return _structure(source.channels[0])


def _structure(lightness: Plane) -> tuple[Plane, Plane]:
    """Return slightly smoothed lightness and its local contrast."""
    smooth = _blur(lightness, 0.7)
    return smooth, np.sqrt(np.maximum(_variance(smooth, 2.2), 0.0))


def _structure_change(source: Planes, candidate: Plane, valid: Mask) -> Plane:
    """Measure the local change of structure in lightness; 1 is just visible.

    The measure is the local standard deviation of the difference, the smallest over one-pixel displacements, relative
    to what the local contrast masks (Weber's law). The lower contrast of the two images is used, so that new or lost
    texture does not mask itself.
    """
    (first, contrast), (second, other) = _source_structure(source), _structure(candidate)
    contrast = np.minimum(contrast, other)
    least = np.full(first.shape, np.inf, np.float32)
    for moved in _neighbors(second):
        np.minimum(least, _variance(first - moved, 1.5), out=least)
    difference = np.sqrt(np.maximum(least, 0.0))
    if not valid.any():
        return difference
    noise = min(1.0, float(np.quantile(difference[valid][::9], 0.4)) / 0.7)
    hidden = STRUCTURE_FLOOR + (STRUCTURE_CEILING - STRUCTURE_FLOOR) * noise
    masking = MASKING_FLOOR + (MASKING_CEILING - MASKING_FLOOR) * noise
    ratio = difference / (hidden + masking * contrast)
    everywhere = float(np.quantile(ratio[valid][::9], 0.4))
    return np.asarray(ratio / np.clip(everywhere / 0.35, 1.0, 2.5), np.float32)


def _variance(plane: Plane, sigma: float) -> Plane:
    """Return the local variance; rounding may make it slightly negative."""
    mean = _blur(plane, sigma)
    mean *= mean
    variance = _blur(plane * plane, sigma)
    variance -= mean
    return variance


def _regions(heat: Plane) -> Mask:
    """Segment the change map: threshold with hysteresis, drop specks, close small gaps."""
    weak = (heat > 0.4).astype(np.uint8)
    weak = cv2.morphologyEx(weak, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
    count, labels, stats, _ = cv2.connectedComponentsWithStats(weak, connectivity=8)
    peaks = np.zeros(count, np.float32)
    np.maximum.at(peaks, labels.ravel(), heat.ravel())
    keep = (stats[:, cv2.CC_STAT_AREA] >= max(24.0, 3e-4 * heat.size)) & (peaks >= 0.7)
    keep[0] = False
    if not keep.any():
        return np.zeros(heat.shape, bool)
    regions = keep[labels].astype(np.uint8)
    regions = cv2.morphologyEx(regions, cv2.MORPH_CLOSE, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (7, 7)))
    _, labels, stats, _ = cv2.connectedComponentsWithStats(1 - regions, connectivity=4)
    holes = stats[:, cv2.CC_STAT_AREA] < 0.01 * heat.size
    holes[0] = False
    return np.asarray(regions.astype(bool) | holes[labels], bool)

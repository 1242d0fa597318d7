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
from rewardharness.measure.reading import Pixels

Plane = npt.NDArray[np.float32]
"""Float image: height x width, or height x width x 3."""
Mask = npt.NDArray[np.bool_]
"""Boolean mask, height x width."""

WORKING_SIDE = 512
"""Long side of the images that are measured, in pixels. Smaller images keep their size."""
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
        self._given_source = source.pixels
        self._given_candidate = candidate.pixels

    @cached_property
    def identical(self) -> bool:
        """Whether the candidate has exactly the pixels of the source, before any alignment."""
        return bool(np.array_equal(self._given_source, self._given_candidate))

    @property
    def source(self) -> Pixels:
        """The source at its own size."""
        return self._given_source

    @cached_property
    def candidate(self) -> Pixels:
        """The candidate in the frame and at the size of the source; `UNCOVERED` where it has no pixels."""
        if self._how == "none":
            return self._given_candidate
        left, top, width, height = self._box
        fitted = _resize(self._given_candidate, width, height)
        if self._how == "resized":
            return fitted
        frame = np.full_like(self.source, UNCOVERED)
        frame[top : top + height, left : left + width] = fitted
        return frame

    @cached_property
    def _aspect_error(self) -> float:
        height, width = self._given_source.shape[:2]
        own_height, own_width = self._given_candidate.shape[:2]
        ratio = (own_width * height) / (own_height * width)
        return float(max(ratio, 1.0 / ratio) - 1.0)

    @cached_property
    def _how(self) -> Literal["none", "resized", "letterboxed"]:
        if self._given_source.shape == self._given_candidate.shape:
            return "none"
        return "resized" if self._aspect_error <= ASPECT_TOLERANCE else "letterboxed"

    @cached_property
    def _box(self) -> tuple[int, int, int, int]:
        """Left, top, width and height of the candidate within the frame of the source."""
        height, width = self._given_source.shape[:2]
        if self._how != "letterboxed":
            return 0, 0, width, height
        own_height, own_width = self._given_candidate.shape[:2]
        scale = min(width / own_width, height / own_height)
        inner = max(1, min(width, round(own_width * scale))), max(1, min(height, round(own_height * scale)))
        return (width - inner[0]) // 2, (height - inner[1]) // 2, *inner

    @cached_property
    def alignment(self) -> Alignment:
        """How the candidate was aligned with the frame of the source."""
        height, width = self._given_source.shape[:2]
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
    def small_source(self) -> Pixels:
        """The source at working size: long side at most `WORKING_SIDE`."""
        return _shrink(self.source)

    @cached_property
    def _unmoved_candidate(self) -> Pixels:
        return _shrink(self.candidate)

    @cached_property
    def _shift(self) -> tuple[float, float]:
        if self.identical:
            return 0.0, 0.0
        return _translation(self.gray_source, _gray(self._unmoved_candidate))

    @cached_property
    def small_candidate(self) -> Pixels:
        """The candidate at working size, corrected for a small global shift."""
        return _move(self._unmoved_candidate, self._shift)

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
        """Luma (BT.601) of the source, 0 to 255, at working size."""
        return _gray(self.small_source)

    @cached_property
    def gray_candidate(self) -> Plane:
        """Luma of the candidate, 0 to 255, at working size."""
        return _gray(self.small_candidate)

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
    def change(self) -> Plane:
        """Confidence that each working pixel was edited, 0 to 1; 0 where not valid.

        0.5 means a difference that is just visible beyond re-encoding. The squares of `_color_change` and
        `_structure_change` are added.
        """
        if self.identical:
            return np.zeros(self.small_source.shape[:2], np.float32)
        source = self.lab_source
        # Uncovered pixels count as unchanged; this also keeps the border from bleeding into the image.
        candidate = np.where(self.valid[..., None], self.lab_candidate, source)
        height, width = source.shape[:2]
        color = cv2.resize(_color_change(source, candidate, self.valid), (width, height))
        structure = _structure_change(source[..., 0], candidate[..., 0], self.valid)
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


def _resize(pixels: Pixels, width: int, height: int) -> Pixels:
    """Resize with area averaging when shrinking and bicubic interpolation when enlarging."""
    if pixels.shape[:2] == (height, width):
        return pixels
    smaller = width * height < pixels.shape[0] * pixels.shape[1]
    how = cv2.INTER_AREA if smaller else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(pixels, (width, height), interpolation=how), np.uint8)


def _shrink(pixels: Pixels) -> Pixels:
    """Shrink an image to working size."""
    height, width = pixels.shape[:2]
    scale = min(1.0, WORKING_SIDE / max(height, width))
    return _resize(pixels, max(1, round(width * scale)), max(1, round(height * scale)))


def _lab(pixels: Pixels) -> Plane:
    return np.asarray(cv2.cvtColor(pixels.astype(np.float32) / 255.0, cv2.COLOR_RGB2Lab), np.float32)


def _gray(pixels: Pixels) -> Plane:
    return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), np.float32)


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
    matrix = np.array([[across @ across, across @ down], [across @ down, down @ down]])
    if np.linalg.det(matrix) <= 1e-6 * matrix.trace() ** 2:
        return shift
    step = np.linalg.solve(matrix, np.array([across @ error[agree], down @ error[agree]]))
    return shift[0] - float(step[0]), shift[1] - float(step[1])


def _blur(plane: Plane, sigma: float) -> Plane:
    return np.asarray(cv2.GaussianBlur(plane, (0, 0), sigma, borderType=cv2.BORDER_REFLECT_101), np.float32)


def _neighbors(plane: Plane) -> list[Plane]:
    """Return the nine copies of the plane shifted by up to one pixel in each direction."""
    height, width = plane.shape[:2]
    padded = cv2.copyMakeBorder(plane, 1, 1, 1, 1, cv2.BORDER_REFLECT_101)
    return [padded[y : y + height, x : x + width] for y in range(3) for x in range(3)]


def _color_change(source: Plane, candidate: Plane, valid: Mask) -> Plane:
    """Measure the local color change at half the working size; 1 is just visible.

    Chroma is averaged over a wider area than lightness, as in human vision and image codecs, and weighs less in
    saturated colors (after CIE94). The smallest difference over one-pixel displacements counts. The visibility
    threshold is estimated from the pair: the median difference is attributed to re-encoding, within fixed limits so
    that a global edit stays visible.
    """
    size = (max(1, source.shape[1] // 2), max(1, source.shape[0] // 2))
    planes = []
    for lab in (source, candidate):
        smooth = _blur(np.asarray(cv2.resize(lab, size, interpolation=cv2.INTER_AREA), np.float32), 1.0)
        smooth[..., 1:] = _blur(np.ascontiguousarray(smooth[..., 1:]), 1.0)
        planes.append(smooth)
    first, second = planes
    inside = cv2.resize(valid.astype(np.uint8), size, interpolation=cv2.INTER_NEAREST).astype(bool)
    if not inside.any():
        return np.zeros(inside.shape, np.float32)
    offset = np.median((second - first)[inside][::7], axis=0)
    second = second - np.clip(offset, -np.array(COLOR_OFFSET), COLOR_OFFSET).astype(np.float32)
    chroma = np.minimum(np.hypot(first[..., 1], first[..., 2]), np.hypot(second[..., 1], second[..., 2]))
    weight = (1.0 / (1.0 + 0.03 * chroma)) ** 2
    least = np.full(inside.shape, np.inf, np.float32)
    for moved in _neighbors(second):
        step = first - moved
        step *= step
        np.minimum(least, step[..., 0] + (step[..., 1] + step[..., 2]) * weight, out=least)
    distance = np.sqrt(least)
    noise = float(np.median(distance[inside][::4]))
    return np.asarray(distance / np.clip(0.9 + 3.0 * noise, COLOR_FLOOR, COLOR_CEILING), np.float32)


def _structure_change(source: Plane, candidate: Plane, valid: Mask) -> Plane:
    """Measure the local change of structure in lightness; 1 is just visible.

    The measure is the local standard deviation of the difference, the smallest over one-pixel displacements, relative
    to what the local contrast masks (Weber's law). The lower contrast of the two images is used, so that new or lost
    texture does not mask itself.
    """
    first, second = _blur(np.ascontiguousarray(source), 0.7), _blur(np.ascontiguousarray(candidate), 0.7)
    contrast = np.minimum(_deviation(first, 2.2), _deviation(second, 2.2))
    least = np.full(first.shape, np.inf, np.float32)
    for moved in _neighbors(second):
        np.minimum(least, _variance(first - moved, 1.5), out=least)
    difference = np.sqrt(least)
    if not valid.any():
        return difference
    noise = min(1.0, float(np.quantile(difference[valid][::9], 0.4)) / 0.7)
    hidden = STRUCTURE_FLOOR + (STRUCTURE_CEILING - STRUCTURE_FLOOR) * noise
    masking = MASKING_FLOOR + (MASKING_CEILING - MASKING_FLOOR) * noise
    ratio = difference / (hidden + masking * contrast)
    everywhere = float(np.quantile(ratio[valid][::9], 0.4))
    return np.asarray(ratio / np.clip(everywhere / 0.35, 1.0, 2.5), np.float32)


def _variance(plane: Plane, sigma: float) -> Plane:
    mean = _blur(plane, sigma)
    return np.asarray(np.maximum(_blur(plane * plane, sigma) - mean * mean, 0.0), np.float32)


def _deviation(plane: Plane, sigma: float) -> Plane:
    return np.asarray(np.sqrt(_variance(plane, sigma)), np.float32)


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

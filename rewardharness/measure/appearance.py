"""Measure how alike the whole image looks to the source, for instructions that ask for the same appearance.

Unlike `preservation` and `fidelity`, which locate differences, these compare statistics of the whole image. Each grade
is `exp(-distance / scale)`, so the logarithm of a grade is linear in its distance. The scales give the grades a similar
spread on 320 pairs of renderings of materials, so that a regularized fit treats them alike.
"""

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from rewardharness.measure.curves import fall
from rewardharness.measure.planes import Pixels, Plane, Planes, Reading, once
from rewardharness.measure.view import EditView
from rewardharness.schema import EditRequest

_SIDE = 256
"""Long side of the images whose statistics are compared, in pixels; for SSIM the shorter side, as in the original."""
_STABLE = (0.01 * 255) ** 2, (0.03 * 255) ** 2
_HALF = 5
"""Half the side of the 11 x 11 SSIM window, in pixels."""
_SHARES = np.linspace(0.02, 0.98, 25)
"""Shares of the pixels whose brightness is compared."""

STRUCTURE_SCALE = 0.25
"""Loss of structural similarity with a grade of .37."""
BRIGHTNESS_SCALE = 20.0
"""Mean difference of the brightness distributions with a grade of .37, in L."""
COLOR_SCALE = 25.0
"""Distance of the mean colors with a grade of .37, in a and b."""
HIGHLIGHT_SCALE = 20.0
"""Difference of the strength of the highlights with a grade of .37, in L."""
GLOSS_SCALE = 0.6
"""Difference of the skewness of brightness with a grade of .37."""
DETAIL_SCALE = 1.1
"""Difference of the amount of fine detail with a grade of .37, in octaves."""


_Wide = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Look:
    """Statistics of one image."""

    brightness: Plane
    """L at `_SHARES` of the pixels, darkest first."""
    color: Plane
    """Mean a and b."""
    highlights: float
    """L of the brightest hundredth above the median."""
    skewness: float
    detail: float
    """Logarithm to base 2 of the mean absolute Laplacian of L."""


def structure_similarity(view: EditView, request: EditRequest) -> Reading:
    """Measure the structural similarity (SSIM) of the candidate and the source."""
    value = ssim(view.source, view.candidate)
    sentence = f"Structural similarity to the source: {value:.2f} (1: the same)."
    return Reading({"ssim": value}, fall(1.0 - value, STRUCTURE_SCALE), sentence)


def brightness_similarity(view: EditView, request: EditRequest) -> Reading:
    """Measure how alike the distributions of brightness are."""
    source, candidate = _looks(view)
    distance = float(np.abs(candidate.brightness - source.brightness).mean())
    sentence = f"The distribution of brightness differs from the source by {distance:.1f} of 100 on average."
    return Reading({"difference": distance}, fall(distance, BRIGHTNESS_SCALE), sentence)


def color_similarity(view: EditView, request: EditRequest) -> Reading:
    """Measure how alike the mean hue and saturation are."""
    source, candidate = _looks(view)
    distance = float(np.hypot(*(candidate.color - source.color)))
    sentence = f"The mean color differs from the source by {distance:.1f} (2 is barely visible)."
    return Reading({"difference": distance}, fall(distance, COLOR_SCALE), sentence)


def highlight_similarity(view: EditView, request: EditRequest) -> Reading:
    """Measure how alike the strength of the highlights is: the brightest hundredth above the median."""
    source, candidate = _looks(view)
    change = candidate.highlights - source.highlights
    sentence = f"Highlights are {abs(change):.1f} of 100 {'stronger' if change > 0 else 'weaker'} than in the source."
    return Reading({"change": change}, fall(abs(change), HIGHLIGHT_SCALE), sentence)


def gloss_similarity(view: EditView, request: EditRequest) -> Reading:
    """Measure how alike the gloss is, by the skewness of brightness (Motoyoshi et al., Nature 447, 2007)."""
    source, candidate = _looks(view)
    change = candidate.skewness - source.skewness
    sentence = f"The skewness of brightness, which rises with gloss, differs from the source by {change:+.2f}."
    return Reading({"change": change}, fall(abs(change), GLOSS_SCALE), sentence)


def detail_similarity(view: EditView, request: EditRequest) -> Reading:
    """Measure how alike the amount of fine detail is, over the whole image."""
    source, candidate = _looks(view)
    change = candidate.detail - source.detail
    sentence = (
        f"Fine detail in the whole image differs from the source by {change:+.2f} octaves (negative is smoother)."
    )
    return Reading({"change": change}, fall(abs(change), DETAIL_SCALE), sentence)


def _looks(view: EditView) -> tuple[_Look, _Look]:
    return _look(view.before), _look(view.after)


@once
def _look(image: Planes) -> _Look:
    lab = image.lab
    height, width = lab.shape[:2]
    factor = min(1.0, _SIDE / max(height, width))
    size = max(2, round(width * factor)), max(2, round(height * factor))
    small = np.asarray(cv2.resize(lab, size, interpolation=cv2.INTER_AREA), np.float64)
    bright = small[..., 0]
    spread = float(bright.std())
    skewness = float((((bright - bright.mean()) / (spread + 0.1)) ** 3).mean())
    laplacian = cv2.Laplacian(bright, cv2.CV_64F)
    return _Look(
        brightness=np.asarray(np.quantile(bright, _SHARES), np.float32),
        color=np.asarray(small[..., 1:].mean(axis=(0, 1)), np.float32),
        highlights=float(np.quantile(bright, 0.99) - np.median(bright)),
        skewness=skewness,
        detail=float(np.log2(np.abs(laplacian).mean() + 0.05)),
    )


def mean_difference(source: Pixels, candidate: Pixels) -> float:
    """Return the mean absolute difference of two images over all pixels and channels.

    Args:
        source: sRGB, height x width x 3.
        candidate: sRGB; resized to the size of the source if different.

    Returns:
        A fraction of the channel range, in [0, 1]; 0 for equal images.
    """
    return float(cv2.absdiff(source, _sized(candidate, source)).mean(dtype=np.float64)) / 255.0


def ssim(source: Pixels, candidate: Pixels) -> float:
    """Return the structural similarity of brightness (Wang et al., IEEE Transactions on Image Processing 13, 2004).

    Uses the authors' constants: an 11 x 11 Gaussian window with a sigma of 1.5 pixels and K = (0.01, 0.03). Larger
    images are averaged down by an integer factor to about 256 pixels first.

    Args:
        source: sRGB, height x width x 3, at least 8 x 8.
        candidate: sRGB; resized to the size of the source if different.

    Returns:
        A number in [-1, 1]; 1 for equal images.
    """
    first, second = _brightness(source), _brightness(_sized(candidate, source))
    mean, other = _smooth(first), _smooth(second)
    variances = (_smooth(first * first) - mean * mean) + (_smooth(second * second) - other * other)
    both = _smooth(first * second) - mean * other
    low, high = _STABLE
    values = ((2 * mean * other + low) * (2 * both + high)) / ((mean * mean + other * other + low) * (variances + high))
    if min(values.shape) > 2 * _HALF:
        values = values[_HALF:-_HALF, _HALF:-_HALF]
    return float(values.mean())


def _sized(picture: Pixels, other: Pixels) -> Pixels:
    height, width = other.shape[:2]
    if picture.shape == other.shape:
        return picture
    smaller = height * width < picture.shape[0] * picture.shape[1]
    interpolation = cv2.INTER_AREA if smaller else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(picture, (width, height), interpolation=interpolation), np.uint8)


def _brightness(picture: Pixels) -> _Wide:
    gray: _Wide = np.asarray(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), np.float64)
    height, width = gray.shape
    factor = max(1, round(min(height, width) / _SIDE))
    if factor == 1:
        return gray
    whole = gray[: height // factor * factor, : width // factor * factor]
    return np.asarray(whole.reshape(height // factor, factor, width // factor, factor).mean(axis=(1, 3)))


def _smooth(plane: _Wide) -> _Wide:
    size = (2 * _HALF + 1, 2 * _HALF + 1)
    return np.asarray(cv2.GaussianBlur(plane, size, 1.5, borderType=cv2.BORDER_REFLECT))

"""Measure how alike the whole image looks to the source, for instructions that ask for the same appearance.

Unlike `preservation` and `fidelity`, which locate differences, these compare statistics of the whole image. Each grade
is `exp(-distance / scale)`, so the logarithm of a grade is linear in its distance. The scales give the grades a similar
spread on 320 pairs of renderings of materials, so that a regularized fit treats them alike.
"""

from dataclasses import dataclass

import cv2
import numpy as np

from rewardharness.measure.curves import fall
from rewardharness.measure.planes import Plane, Planes, once
from rewardharness.measure.reading import Quantity, Reading
from rewardharness.measure.similarity import ssim
from rewardharness.measure.view import EditView
from rewardharness.schema import EditRequest

_SIDE = 256
"""Long side of the images whose statistics are compared, in pixels."""
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
    return Reading({"ssim": Quantity(value, "ratio", -1.0, 1.0)}, fall(1.0 - value, STRUCTURE_SCALE), sentence)


def brightness_similarity(view: EditView, request: EditRequest) -> Reading:
    """Measure how alike the distributions of brightness are."""
    source, candidate = _looks(view)
    distance = float(np.abs(candidate.brightness - source.brightness).mean())
    sentence = f"The distribution of brightness differs from the source by {distance:.1f} of 100 on average."
    return Reading({"difference": Quantity(distance, "L", 0.0, 100.0)}, fall(distance, BRIGHTNESS_SCALE), sentence)


def color_similarity(view: EditView, request: EditRequest) -> Reading:
    """Measure how alike the mean hue and saturation are."""
    source, candidate = _looks(view)
    distance = float(np.hypot(*(candidate.color - source.color)))
    sentence = f"The mean color differs from the source by {distance:.1f} (2 is barely visible)."
    return Reading({"difference": Quantity(distance, "dE", 0.0, 400.0)}, fall(distance, COLOR_SCALE), sentence)


def highlight_similarity(view: EditView, request: EditRequest) -> Reading:
    """Measure how alike the strength of the highlights is: the brightest hundredth above the median."""
    source, candidate = _looks(view)
    change = candidate.highlights - source.highlights
    sentence = f"Highlights are {abs(change):.1f} of 100 {'stronger' if change > 0 else 'weaker'} than in the source."
    return Reading({"change": Quantity(change, "L", -100.0, 100.0)}, fall(abs(change), HIGHLIGHT_SCALE), sentence)


def gloss_similarity(view: EditView, request: EditRequest) -> Reading:
    """Measure how alike the gloss is, by the skewness of brightness (Motoyoshi et al., Nature 447, 2007)."""
    source, candidate = _looks(view)
    change = candidate.skewness - source.skewness
    sentence = f"The skewness of brightness, which rises with gloss, differs from the source by {change:+.2f}."
    return Reading({"change": Quantity(change, "ratio", -1e3, 1e3)}, fall(abs(change), GLOSS_SCALE), sentence)


def detail_similarity(view: EditView, request: EditRequest) -> Reading:
    """Measure how alike the amount of fine detail is, over the whole image."""
    source, candidate = _looks(view)
    change = candidate.detail - source.detail
    sentence = (
        f"Fine detail in the whole image differs from the source by {change:+.2f} octaves (negative is smoother)."
    )
    return Reading({"change": Quantity(change, "octaves", -20.0, 20.0)}, fall(abs(change), DETAIL_SCALE), sentence)


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

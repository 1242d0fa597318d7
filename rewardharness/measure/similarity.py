"""Baseline similarity of two images: mean difference and SSIM, without alignment or change map."""

import cv2
import numpy as np
import numpy.typing as npt

from rewardharness.measure.reading import Pixels

Plane = npt.NDArray[np.float64]

_SIDE = 256
"""Shorter side to which larger images are averaged down for SSIM, in pixels, as in the original."""
_STABLE = (0.01 * 255) ** 2, (0.03 * 255) ** 2
_HALF = 5
"""Half the side of the 11 x 11 SSIM window, in pixels."""


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
    how = cv2.INTER_AREA if smaller else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(picture, (width, height), interpolation=how), np.uint8)


def _brightness(picture: Pixels) -> Plane:
    gray: Plane = np.asarray(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), np.float64)
    height, width = gray.shape
    factor = max(1, round(min(height, width) / _SIDE))
    if factor == 1:
        return gray
    whole = gray[: height // factor * factor, : width // factor * factor]
    return np.asarray(whole.reshape(height // factor, factor, width // factor, factor).mean(axis=(1, 3)))


def _smooth(plane: Plane) -> Plane:
    size = (2 * _HALF + 1, 2 * _HALF + 1)
    return np.asarray(cv2.GaussianBlur(plane, size, 1.5, borderType=cv2.BORDER_REFLECT))

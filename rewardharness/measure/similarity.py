"""How alike two pictures are, by the two plainest measures there are. For baselines: no alignment, no change map."""

import cv2
import numpy as np
import numpy.typing as npt

from rewardharness.measure.reading import Pixels

Plane = npt.NDArray[np.float64]

_SIDE = 256
"""Shorter side, in pixels, down to which SSIM averages larger pictures, as its authors do."""
_STABLE = (0.01 * 255) ** 2, (0.03 * 255) ** 2
_HALF = 5
"""Half the window of SSIM, which is 11 x 11 pixels."""


def mean_difference(source: Pixels, candidate: Pixels) -> float:
    """Mean absolute difference of two pictures over all pixels and channels.

    Args:
        source: sRGB, height x width x 3.
        candidate: The same; one of another size is brought to the size of the source.

    Returns:
        A share of the range of a channel, in [0, 1]: 0 for equal pictures.
    """
    return float(cv2.absdiff(source, _sized(candidate, source)).mean(dtype=np.float64)) / 255.0


def ssim(source: Pixels, candidate: Pixels) -> float:
    """Structural similarity of two pictures' brightness (Wang et al., IEEE Transactions on Image Processing 13, 2004).

    With the authors' constants: a Gaussian window of 11 x 11 and 1.5 pixels, K = (0.01, 0.03), and larger pictures
    averaged down by a whole factor to about 256 pixels first.

    Args:
        source: sRGB, height x width x 3, at least 8 x 8.
        candidate: The same; one of another size is brought to the size of the source.

    Returns:
        A number in [-1, 1]: 1 for equal pictures.
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

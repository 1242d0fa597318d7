"""Curves that map measured numbers to grades, and sums and products without BLAS.

The threads of BLAS wait in a loop and take processors from other judgments.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from rewardharness.measure.planes import Plane

Array = npt.NDArray[Any]


def rise(value: float, scale: float) -> float:
    """Return 1 - exp(-value / scale): 0 at 0, about 0.63 at one scale, approaching 1; negative values count as 0."""
    return -math.expm1(-max(value, 0.0) / scale)


def fall(value: float, scale: float) -> float:
    """Return exp(-value / scale): 1 at 0, about 0.37 at one scale, approaching 0; negative values count as 0."""
    return math.exp(-max(value, 0.0) / scale)


def step(value: float, middle: float, width: float) -> float:
    """Return the logistic curve: 0.5 at the middle, 0.73 one width above it, 0.27 one width below it."""
    return 0.5 * (1.0 + math.tanh((value - middle) / (2.0 * width)))


def excess(value: float, width: float) -> float:
    """Return the softplus curve: a smooth max(0, value) that bends within about two widths around 0."""
    return float(np.logaddexp(0.0, value / width)) * width


def weighted_mean(values: Plane, weights: Plane, empty: float = 0.0) -> float:
    """Return the weighted mean of the values, or `empty` if all weights are 0."""
    total = float(weights.sum(dtype=np.float64))
    return float((values * weights).sum(dtype=np.float64)) / total if total > 1e-9 else empty


def magnitude(across: Plane, down: Plane) -> Plane:
    """Return the length of vectors from their components.

    Unlike `cv2.magnitude`, rounding does not depend on the memory address: equal images must get bit-identical grades.
    """
    return np.asarray(np.sqrt(across * across + down * down), np.float32)


def dot(first: Array, second: Array) -> float:
    """Return the scalar product of two vectors."""
    return float(np.einsum("i,i->", first, second))


def product(first: Array, second: Array) -> Array:
    """Return the product of two matrices."""
    return np.asarray(np.einsum("ij,jk->ik", first, second))


def least_squares(terms: Array, values: Array) -> Array:
    """Return the coefficients with the least squared error, terms x columns of values.

    As in `np.linalg.lstsq`, singular values below the rounding error of the terms are left out.
    """
    wide = terms.astype(np.float64)
    powers, axes = np.linalg.eigh(np.einsum("ni,nj->ij", wide, wide))
    sure = powers > powers[-1] * (np.finfo(terms.dtype).eps * max(terms.shape)) ** 2
    axes = axes[:, sure]
    moments = np.einsum("ni,nc->ic", wide, values.astype(np.float64))
    return np.asarray(product(axes, product(axes.T, moments) / powers[sure, None]), terms.dtype)

"""Products of matrices without BLAS, whose threads wait in a loop and take processors from other judgments."""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


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

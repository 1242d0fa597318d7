"""Rank correlation."""

import math
from collections.abc import Sequence

import numpy as np

from rewardharness.errors import InputError


def average_ranks(values: Sequence[float]) -> list[float]:
    """Rank values from 1; equal values share the average of their ranks."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return [float(rank) for rank in (np.cumsum(counts) - (counts - 1) / 2)[places]]


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Compute Spearman's rank correlation of two lists of numbers.

    Returns:
        A number in [-1, 1], or None for fewer than two values or if all values of a list are equal.

    Raises:
        InputError: If the lengths differ or a value is not a finite number.
    """
    if len(first) != len(second):
        message = f"{len(first)} values cannot be correlated with {len(second)}."
        raise InputError(message, next_step="Use lists of equal length.")
    if not all(map(math.isfinite, (*first, *second))):
        raise InputError("A value to be ranked is not a finite number.", next_step="Leave failed judgments out.")
    n = len(first)
    center = (n + 1) / 2
    first_ranks = [rank - center for rank in average_ranks(first)]
    second_ranks = [rank - center for rank in average_ranks(second)]
    # Ranks are multiples of 1/2, so these sums are exact and equal orders give exactly 1.
    square, other_square = math.fsum(a * a for a in first_ranks), math.fsum(b * b for b in second_ranks)
    if not square or not other_square:
        return None
    rho = math.fsum(a * b for a, b in zip(first_ranks, second_ranks, strict=True)) / math.sqrt(square * other_square)
    return max(-1.0, min(1.0, rho))

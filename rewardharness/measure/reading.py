"""Result types of measures: named quantities, a grade, a sentence and an overlay."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]
"""An sRGB image, height x width x 3, 0 to 255."""


@dataclass(frozen=True)
class Quantity:
    """One measured number with its unit and range.

    Raises:
        ValueError: If the value is not finite. Measures cap unbounded values.
    """

    value: float
    unit: str
    """`share`, `dE` (CIELAB color difference), `L`, `px`, `dB`, `ratio`, `count`, ..."""
    low: float
    """Smallest possible value; may be minus infinity."""
    high: float
    """Largest possible value; may be infinity."""

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise ValueError(f"a quantity must be a finite number, got {self.value}")


@dataclass(frozen=True)
class Reading:
    """The result of one measure for one candidate.

    Raises:
        ValueError: If the grade is outside [0, 1].
    """

    quantities: Mapping[str, Quantity]
    """Measured numbers by name."""
    grade: float | None
    """Quality with regard to the instruction, 0 to 1; None if the measure does not apply to the request."""
    sentence: str
    """One sentence that states the numbers."""
    draw: Callable[[], Pixels] | None = field(default=None, compare=False, repr=False)
    """Draws the overlay."""

    def __post_init__(self) -> None:
        if self.grade is not None and not 0.0 <= self.grade <= 1.0:
            raise ValueError(f"a grade must be in [0, 1], got {self.grade}")

    @cached_property
    def overlay(self) -> Pixels | None:
        """Visualization at working size, drawn on first access; None if there is none."""
        return None if self.draw is None else self.draw()

    def to_json(self) -> dict[str, Any]:
        """Return the grade and all quantities as JSON numbers, rounded to four decimals."""
        numbers: dict[str, Any] = {name: round(float(item.value), 4) for name, item in self.quantities.items()}
        return {"grade": None if self.grade is None else round(float(self.grade), 4), **numbers}

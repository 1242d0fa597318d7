"""What a measure hands back: named numbers, a grade, a sentence, and a picture to look at."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]
"""An sRGB picture, height x width x 3, 0 to 255."""


@dataclass(frozen=True)
class Quantity:
    """One measured number with its unit and the range it can lie in.

    Raises:
        ValueError: If the value is not a finite number. A measure caps what can grow without bound.
    """

    value: float
    unit: str
    """`share`, `dE` (CIELAB colour difference), `L`, `px`, `dB`, `ratio`, `count`, ..."""
    low: float
    """Smallest possible value; may be minus infinity."""
    high: float
    """Largest possible value; may be infinity."""

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise ValueError(f"a quantity must be a finite number, got {self.value}")


@dataclass(frozen=True)
class Reading:
    """What one measure says about one candidate.

    Raises:
        ValueError: If the grade is outside [0, 1].
    """

    quantities: Mapping[str, Quantity]
    """Named numbers."""
    grade: float | None
    """How good that is with regard to what was asked, 0 to 1. None: this measure does not speak to this request."""
    sentence: str
    """One plain English sentence that names the numbers."""
    overlay: Pixels | None = field(default=None, compare=False, repr=False)
    """A picture at working size that helps a person see it."""

    def __post_init__(self) -> None:
        if self.grade is not None and not 0.0 <= self.grade <= 1.0:
            raise ValueError(f"a grade must lie in [0, 1], got {self.grade}")

    def to_json(self) -> dict[str, Any]:
        """Return the grade and all quantities as JSON numbers, rounded to four decimals."""
        numbers: dict[str, Any] = {name: round(float(each.value), 4) for name, each in self.quantities.items()}
        return {"grade": None if self.grade is None else round(float(self.grade), 4), **numbers}

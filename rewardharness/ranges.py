"""The check of numbers that a user gives: one rule and one message for every option and configuration."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from rewardharness.errors import InputError


class Range(NamedTuple):
    """The finite numbers that an option may have."""

    low: float
    high: float | None = None
    without: tuple[float, ...] = ()
    """Ends that are not allowed themselves."""

    def check(self, name: str, value: Any) -> None:
        """Check the value of an option: a number, several, or None.

        Raises:
            InputError: If a number is out of range.
        """
        for number in value if isinstance(value, tuple) else (value,):
            if number is None:
                continue
            inside = self.low <= number and (self.high is None or number <= self.high) and number not in self.without
            if not inside or not math.isfinite(number):
                option = name.replace("_", "-")
                raise InputError(f"--{option} {number} is out of range.", next_step=f"Give a number {self.words}.")

    @property
    def words(self) -> str:
        """The range in words, such as `of at least 1`."""
        low = f"above {self.low:g}" if self.low in self.without else f"of at least {self.low:g}"
        if self.high is None:
            return low
        return f"{low} and {'below' if self.high in self.without else 'at most'} {self.high:g}"


SHARE = Range(0, 1)
POSITIVE = Range(0, None, (0,))
PORTS = Range(0, 65535)


def check_ranges(config: object, ranges: Mapping[str, Range]) -> None:
    """Check the fields of a configuration.

    Raises:
        InputError: If a number is out of range.
    """
    for name, allowed in ranges.items():
        allowed.check(name, getattr(config, name))

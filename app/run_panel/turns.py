"""The place for visitors' runs: it goes first to those who had none for longest."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from rewardharness.errors import RunError

PATIENCE = 120.0
"""Seconds for which a visitor who was told to wait has priority over one who had a run since."""

HOUR = 3600


class BusyError(RunError):
    """A run cannot start because it or another one is running."""

    title = "This cannot start now"


class Turns:
    """When addresses waited for the place, and when they had it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, float] = {}
        self._had: dict[str, float] = {}

    @contextmanager
    def take(self, owner: str) -> Iterator[None]:
        """Take the place inside, where an error says that it is not free.

        Args:
            owner: Pseudonym of an address.

        Raises:
            BusyError: If others wait who had no run since the last one of the address.
        """
        with self._lock:
            now = time.monotonic()
            self._waiting = {other: when for other, when in self._waiting.items() if now - when <= PATIENCE}
            self._had = {other: when for other, when in self._had.items() if now - when <= HOUR}
            last = self._had.get(owner, 0.0)
            first = [other for other in self._waiting if other != owner and self._had.get(other, 0.0) < last]
            self._waiting[owner] = now
            if first:
                raise BusyError(
                    "Other visitors wait who had no run since yours.", next_step="Try again in two minutes."
                )
            yield
            del self._waiting[owner]
            self._had[owner] = now


@lru_cache(maxsize=16)
def turns_of(home: Path) -> Turns:
    """Return the turns of an app: its tabs share the place."""
    return Turns()

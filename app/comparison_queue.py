"""The comparisons of one visitor: one runs at a time, and a newer one replaces it.

A request is registered when the visitor clicks and is taken from the queue later; in between it can be withdrawn.
"""

import threading
from typing import Any

from app.running import Running

REPLACE_TIMEOUT = 20.0
"""Seconds for which a comparison waits for the end of the one that it replaces."""


class ComparisonRequest:
    """One comparison, from the moment it leaves the queue to its last update of the page."""

    def __init__(self) -> None:
        self.forgotten = False
        """Whether its result is discarded."""
        self.replaced = False
        """Whether another comparison uses the page, so that this one must not update it."""
        self.ending = False
        """Whether only the last update is left."""
        self.over = threading.Event()
        self._running: Running | None = None

    def begin(self, running: Running) -> Running:
        """Set the running comparison; stop it if the request was forgotten in the meantime."""
        self._running = running
        if self.forgotten:
            running.forget()
        return running

    def stop(self) -> None:
        """Stop the comparison. Its last update says so."""
        if self._running is not None:
            self._running.stop()

    def forget(self) -> None:
        """Stop the comparison and discard its result."""
        self.forgotten = True
        if self._running is not None:
            self._running.forget()

    @property
    def leaving(self) -> bool:
        """Whether the next request is accepted: this one has ended, or is about to."""
        return self.ending or self.forgotten or self.over.is_set()

    def conclude(self) -> None:
        """Announce that only the last update is left; the next request is accepted from now on."""
        self.ending = True

    def end(self) -> None:
        """Announce that there are no more updates."""
        self.stop()
        self.over.set()


class ComparisonQueue:
    """The comparisons of one visitor."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: str | None = None
        self._current: ComparisonRequest | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> "ComparisonQueue":
        """Return an empty queue, since each visitor has one."""
        return ComparisonQueue()

    def ask(self, trigger: str) -> None:
        """Request a comparison. Ignored while one is running: a double click is one request.

        Args:
            trigger: Name of the control that was used; `take` expects the same.
        """
        with self._lock:
            if self._current is None or self._current.leaving:
                self._waiting = trigger

    def replace(self, trigger: str) -> None:
        """Request a comparison in place of the one that is waiting or running."""
        with self._lock:
            self._forget()
            self._waiting = trigger

    def forget(self) -> None:
        """Withdraw the waiting request, and stop and discard the running comparison."""
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        self._waiting = None
        if self._current is not None:
            self._current.forget()

    def take(self, trigger: str) -> ComparisonRequest | None:
        """Return the waiting request, or None if it was withdrawn. Waits for the end of the comparison before it."""
        with self._lock:
            if self._waiting != trigger:
                return None
            self._waiting, before = None, self._current
            request = self._current = ComparisonRequest()
            if before is not None:
                before.replaced = True
                before.forget()
        if before is not None:
            before.over.wait(REPLACE_TIMEOUT)
        return request

    def stop(self) -> None:
        """Stop the running comparison."""
        with self._lock:
            if self._current is not None:
                self._current.stop()

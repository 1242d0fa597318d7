"""The logger of one tracker: a bounded queue and a thread, so that a slow or dead tracker cannot hold up a run."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from rewardharness.errors import HarnessError
from rewardharness.leaks import masked
from rewardharness.tracking.trackers import Numbers, Tracker

log = logging.getLogger(__name__)

QUEUE = 1000
"""Records that wait for a tracker, at most; further ones are dropped."""
PATIENCE = 10.0
"""Seconds that the end of a run waits for its trackers."""


class Logger:
    """Passes records to a tracker in a thread.

    Args:
        name: Name of the tracker, for warnings.
        open_run: Opens the run in the tracker; called in the thread.
        size: Records that wait, at most.
    """

    def __init__(self, name: str, open_run: Callable[[], Tracker], *, size: int = QUEUE) -> None:
        self.name = name
        self._open = open_run
        self._size = size
        self._waiting: deque[tuple[Numbers, int]] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._warned = False
        self._put = self._sent = 0
        self._thread = threading.Thread(target=self._work, name=f"tracker {name}", daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        """Number of records that the tracker did not get so far."""
        return self._put - self._sent

    def put(self, numbers: Numbers, step: int) -> None:
        """Queue a record; it is dropped if the queue is full. Never waits for the tracker."""
        with self._changed:
            self._put += 1
            if len(self._waiting) < self._size:
                self._waiting.append((numbers, step))
                self._changed.notify()

    def end(self) -> None:
        """Have the tracker finish the run once it has all records. Does not wait."""
        with self._changed:
            self._closing = True
            self._changed.notify()

    def join(self, ends: float) -> None:
        """Wait for the tracker until a time of `time.monotonic`, and warn about records that it did not get."""
        self._thread.join(max(0.0, ends - time.monotonic()))
        if self._thread.is_alive():
            log.warning("%s did not finish in time; %d of %d records were dropped.", self.name, self.dropped, self._put)
        elif self.dropped:
            log.warning("%s: %d of %d records were dropped.", self.name, self.dropped, self._put)

    def _work(self) -> None:
        try:
            tracker = self._open()
        except Exception as error:
            self._warn("cannot be used", error)
            return
        while (record := self._next()) is not None:
            try:
                tracker.log(*record)
                self._sent += 1
            except Exception as error:
                self._warn("did not accept a record", error)
        try:
            tracker.finish()
        except Exception as error:
            self._warn("could not finish the run", error)

    def _next(self) -> tuple[Numbers, int] | None:
        """Wait for the next record; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            return self._waiting.popleft() if self._waiting else None

    def _warn(self, what: str, error: Exception) -> None:
        """Warn about the first error; the others only count as dropped records."""
        if not self._warned:
            self._warned = True
            reason = error.message if isinstance(error, HarnessError) else f"{type(error).__name__}: {error}"
            log.warning("%s %s (%s). The run continues.", self.name, what, masked(reason))

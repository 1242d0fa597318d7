"""How much may be in flight: requests per endpoint, found by trying, and bytes in all."""

import asyncio
from collections import deque

_FULL = 0.8
"""A round says something about the limit only if at least this share of it was in use."""

_GAIN = 1.5
"""Twice the requests in flight must cost less than this factor in latency, or they gain too little."""

_HOLDS = 1.25
"""Latency holds while it is below this multiple of the reference."""

_CUT = 0.8
"""What is left of the limit after an overload."""


class AdaptiveLimit:
    """How many requests an endpoint may have in flight (additive increase, multiplicative decrease).

    It is looked at once per round, that is after as many successes as the limit allows in flight. While it starts
    it doubles each round, until doubling no longer pays in throughput; then it grows by a twentieth per round as
    long as latency holds. An overload (429, 503, a timeout) cuts it, once for all requests that were on their way
    at that moment. A server that queues instead of refusing, as vLLM does, is found by its latency.

    Args:
        start: The limit at the beginning.
        most: The limit never rises above this.
    """

    def __init__(self, start: int, most: int) -> None:
        self._most = float(max(1, most))
        self._limit = max(1.0, min(float(start), self._most))
        self._doubling = True
        self._reference = 0.0  # seconds; 0 before the first round
        self._last_cut = float("-inf")
        self._begin_round()

    @property
    def value(self) -> int:
        """Most requests in flight, at least 1."""
        return int(self._limit)

    def _begin_round(self) -> None:
        self._count = 0
        self._seconds = 0.0
        self._used = 0
        self._clean = True

    def succeeded(self, seconds: float, in_flight: int) -> None:
        """Take note of a reply.

        Args:
            seconds: How long it took.
            in_flight: Requests in flight at its end, itself among them.
        """
        self._count += 1
        self._seconds += seconds
        self._used = max(self._used, in_flight)
        if self._count < self.value:
            return
        latency, full, clean = self._seconds / self._count, self._used >= _FULL * self.value, self._clean
        self._begin_round()
        if full and clean:
            self._grow(latency)

    def _grow(self, latency: float) -> None:
        """Raise the limit after a clean round in which it was used, if that pays."""
        if not self._reference:
            self._reference = latency
        if self._doubling:
            if latency > _GAIN * self._reference:
                self._doubling = False
                self._limit = max(1.0, self._limit / 2)
            else:
                self._reference = latency
                self._limit = min(self._most, 2 * self._limit)
            return
        # Better latency is believed soon, worse slowly: else saturation would become the new normal.
        self._reference += (0.5 if latency < self._reference else 0.02) * (latency - self._reference)
        if latency <= _HOLDS * self._reference:
            self._limit = min(self._most, self._limit + max(1.0, 0.05 * self._limit))

    def failed(self) -> None:
        """Take note of a failure that says nothing about load: no growth this round."""
        self._clean = False

    def overloaded(self, began: float, now: float, in_flight: int) -> None:
        """Take note of a sign of overload.

        Args:
            began: When the request that met it was sent. Requests sent before the last cut cut no further.
            now: The time, by the same clock.
            in_flight: Requests in flight, itself among them.
        """
        self._clean = False
        if began < self._last_cut:
            return
        self._last_cut = now
        self._doubling = False
        self._limit = max(1.0, _CUT * min(self._limit, float(in_flight)))
        self._begin_round()


class ByteBudget:
    """A bound on the bytes of request bodies in flight, first come first served.

    A body that is larger than the whole budget goes alone.

    Args:
        most: Bytes in flight at most.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def held(self) -> int:
        """Bytes in flight now."""
        return self._held

    @property
    def waiting(self) -> int:
        """Bodies that wait now."""
        return len(self._waiting)

    def _fits(self, size: int) -> bool:
        return self._held == 0 or self._held + size <= self._most

    async def acquire(self, size: int) -> None:
        """Wait until a body of this many bytes may go."""
        if not self._waiting and self._fits(size):
            self._held += size
            return
        turn = asyncio.get_running_loop().create_future()
        entry = (size, turn)
        self._waiting.append(entry)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self.release(size)  # its turn came in the same moment
            elif entry in self._waiting:
                self._waiting.remove(entry)
                self._admit()
            raise

    def release(self, size: int) -> None:
        """Give back the bytes of a body that is no longer in flight."""
        self._held -= size
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size, turn = self._waiting.popleft()
            if not turn.done():
                self._held += size
                turn.set_result(None)

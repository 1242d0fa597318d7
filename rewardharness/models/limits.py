"""Concurrency limits: adaptive requests per endpoint, and total bytes in flight."""

import asyncio
from collections import deque
from dataclasses import dataclass, field

_FULL = 0.8
"""Minimum utilization of the limit for a round to count."""

_GAIN = 1.5
"""Maximum latency factor at which doubling the concurrency still pays off."""

_HOLDS = 1.25
"""Latency counts as stable below this multiple of the reference."""

_CUT = 0.8
"""Factor applied to the limit after an overload."""


@dataclass(frozen=True, kw_only=True)
class EndpointSettings:
    """Key, retries and limits of the endpoints of one model."""

    api_key: str | None = field(default=None, repr=False)
    """Key instead of the one in the environment. It is sent to every endpoint, and never stored."""
    retries: int = 7
    """Further attempts of a failed request."""
    request_timeout: float = 120.0
    """Seconds that one attempt may take, from sending to the complete reply."""
    start: int = 8
    """Initial number of concurrent requests per endpoint."""
    most_in_flight: int = 256
    """Maximum number of concurrent requests per endpoint."""
    trip_after: int = 5
    """Consecutive failures after which an endpoint becomes unavailable."""
    shortest_aside: float = 1.0
    """Initial seconds before a trial request to an unavailable endpoint; doubled after each failed trial."""
    longest_aside: float = 30.0
    patience: float = 30.0
    """Seconds without an available endpoint after which requests fail at once instead of waiting."""
    longest_wait: float = 60.0
    """Longest `Retry-After` that is accepted, in seconds; a longer one fails the request."""
    backoff: float = 0.5
    """Upper bound of the first random pause before a retry, in seconds; doubled each time."""
    longest_backoff: float = 20.0
    bytes_in_flight: int = 2 << 30
    """Maximum bytes of images in flight over all endpoints, which limits the load of the servers."""
    send_once: bool = False
    """Refer to an image that an endpoint received before by its hash, where probing showed that this works."""
    public_only: bool = False
    """Connect only to endpoints on the public internet, by HTTPS, for user-supplied addresses."""


class AdaptiveLimit:
    """Adaptive limit of concurrent requests (additive increase, multiplicative decrease).

    The limit is updated once per round, which is as many successes as the limit. At first it doubles each round until
    doubling no longer improves throughput; then it grows by 5% per round while latency is stable. An overload (429,
    503, a timeout) cuts it once for all requests in flight at that moment. Latency detects servers that queue instead
    of rejecting requests, such as vLLM.

    Args:
        start: The initial limit.
        most: The maximum limit.
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
        """The current limit, at least 1."""
        return int(self._limit)

    def _begin_round(self) -> None:
        self._count = 0
        self._seconds = 0.0
        self._used = 0
        self._clean = True

    def succeeded(self, seconds: float, in_flight: int) -> None:
        """Record a reply.

        Args:
            seconds: Its duration.
            in_flight: Concurrent requests at its end, including itself.
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
        """Raise the limit after a fully used round without failures, if that improves throughput."""
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
        # Adapt quickly to lower latency and slowly to higher latency, so that saturation does not become the reference.
        self._reference += (0.5 if latency < self._reference else 0.02) * (latency - self._reference)
        if latency <= _HOLDS * self._reference:
            self._limit = min(self._most, self._limit + max(1.0, 0.05 * self._limit))

    def failed(self) -> None:
        """Record a failure unrelated to load; the limit does not grow in this round."""
        self._clean = False

    def overloaded(self, began: float, now: float, in_flight: int) -> None:
        """Record an overload.

        Args:
            began: Time at which the failed request was sent. Requests sent before the last cut are ignored.
            now: The current time by the same clock.
            in_flight: Concurrent requests, including itself.
        """
        self._clean = False
        if began < self._last_cut:
            return
        self._last_cut = now
        self._doubling = False
        self._limit = max(1.0, _CUT * min(self._limit, float(in_flight)))
        self._begin_round()


class ByteBudget:
    """A limit of the bytes of request bodies in flight, in FIFO order.

    A body larger than the whole budget is sent alone.

    Args:
        most: Maximum bytes in flight.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def held(self) -> int:
        """Current bytes in flight."""
        return self._held

    @property
    def waiting(self) -> int:
        """Number of waiting bodies."""
        return len(self._waiting)

    def _fits(self, size: int) -> bool:
        return self._held == 0 or self._held + size <= self._most

    def acquire_now(self, size: int) -> bool:
        """Hold the bytes of a body if it need not wait; return whether it does."""
        if self._waiting or not self._fits(size):
            return False
        self._held += size
        return True

    async def acquire(self, size: int) -> None:
        """Wait until a body of this many bytes may be sent."""
        if self.acquire_now(size):
            return
        turn = asyncio.get_running_loop().create_future()
        entry = (size, turn)
        self._waiting.append(entry)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self.release(size)  # admitted at the same moment
            elif entry in self._waiting:
                self._waiting.remove(entry)
                self._admit()
            raise

    def release(self, size: int) -> None:
        """Release the bytes of a body that is no longer in flight."""
        self._held -= size
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size, turn = self._waiting.popleft()
            if not turn.done():
                self._held += size
                turn.set_result(None)

"""Limits of the server, and admission control."""

import asyncio
import itertools
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace

from rewardharness.errors import InputError
from rewardharness.measure.bounds import MAX_BYTES, MAX_SCALED_PIXELS
from rewardharness.models.limits import ByteBudget
from rewardharness.schema import SOURCES
from rewardharness.serving.faults import Fault, RefusedError


@dataclass(frozen=True)
class Limits:
    """Limits of a server, as reported by `/info`."""

    concurrency: int = 32
    """Maximum number of concurrent judgments; others wait in the queue."""
    queue: int = 4096
    """Maximum number of running and waiting judgments; requests beyond it get status 429."""
    body_bytes: int = 64 << 20
    """Maximum size of a request body, in bytes."""
    bytes_at_once: int = 512 << 20
    """Maximum total size of the bodies of all open requests; others wait for at most `read_seconds`."""
    image_bytes: int = MAX_BYTES
    """Maximum size of an encoded image, in bytes."""
    pixels: int = MAX_SCALED_PIXELS
    """Maximum number of pixels of an image. The judge may scale down or refuse smaller images."""
    items: int = 256
    """Maximum number of edits in a batch."""
    group: int = 64
    """Maximum number of candidates in a group that is ranked by scores."""
    duels: int = 16
    """Maximum number of candidates in a group that is ranked by win rate: G candidates need G(G-1)/2 comparisons."""
    read_seconds: float = 30.0
    """Time limit for a request's head, and again for its body, plus one second per 500 kB of body."""
    deadline: float = 600.0
    """Maximum and default time limit of a request, in seconds."""
    drain_seconds: float = 2.0
    """Time for open requests during shutdown, in seconds."""
    remembered: int = 16_384
    """Maximum number of cached judgments; 0 disables the cache."""

    @property
    def images(self) -> int:
        """Maximum number of images in the field `images`."""
        return (1 + SOURCES) * max(self.items, self.group)

    @property
    def values(self) -> int:
        """Maximum number of JSON values in a request."""
        return 24 * max(self.items, self.group) + 64

    @property
    def text_bytes(self) -> int:
        """Maximum size of a request without its images, in bytes."""
        return max(1 << 20, 4096 * self.items)

    def changed(self, values: Mapping[str, float]) -> "Limits":
        """Return limits with changed values, each of which is in its range already.

        Raises:
            InputError: If a batch would never fit into the queue.
        """
        changed = replace(self, **dict(values))  # type: ignore[arg-type]
        if changed.items > changed.queue:
            message = f"A batch of {changed.items} edits would never fit into a queue of {changed.queue}."
            raise InputError(message, next_step="Make the queue at least as long as a batch, or batches shorter.")
        return replace(changed, bytes_at_once=max(changed.bytes_at_once, changed.body_bytes))


BYTES_PER_SECOND = 500_000
"""Minimum transfer rate of a request body after `read_seconds`."""


Take = Callable[[int], Awaitable[None]]
"""Waits until a number of bytes is available."""


class AdmissionControl:
    """Admission control: counts bytes of open request bodies, and accepted judgments that are not finished.

    Args:
        limits: Limits of the server.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._bytes = ByteBudget(limits.bytes_at_once)
        self._pace = 1.0
        self._numbers = itertools.count()
        self._stuck: dict[int, asyncio.Timeout] = {}
        self.open = True
        """Whether new requests are accepted; false during shutdown."""
        self.requests = 0
        """Open requests."""
        self.judgments = 0
        """Running and waiting judgments."""

    @property
    def bytes_held(self) -> int:
        """Bytes of the bodies of open requests."""
        return self._bytes.held

    def took(self, seconds: float) -> None:
        """Record the duration of a judgment, from which `Retry-After` is estimated."""
        self._pace += 0.05 * (seconds - self._pace)

    @asynccontextmanager
    async def room(self) -> AsyncIterator[Take]:
        """Count one request, and reserve memory for its bytes as they arrive.

        Yields:
            A function that waits for a number of bytes, and raises `RefusedError` with 429 on a timeout.
        """
        number, held = next(self._numbers), 0

        async def take(size: int) -> None:
            nonlocal held
            if self._bytes.acquire_now(size):
                held += size
                return
            try:
                async with asyncio.timeout(self._limits.read_seconds) as self._stuck[number]:
                    asyncio.get_running_loop().call_soon(self._unblock)  # runs if `acquire` waits
                    await self._bytes.acquire(size)
            except TimeoutError:
                raise self.busy("The server holds as many bytes of requests as it may.") from None
            finally:
                self._stuck.pop(number, None)
            held += size

        self.requests += 1
        try:
            yield take
        finally:
            self.requests -= 1
            self._bytes.release(held)
            self._unblock()

    def _unblock(self) -> None:
        """When every request waits for the bytes of the others, refuse the latest."""
        if 0 < self.requests == self._bytes.waiting == len(self._stuck):
            now = asyncio.get_running_loop().time()
            self._stuck.pop(max(self._stuck)).reschedule(now)

    @contextmanager
    def admit(self, judgments: int) -> Iterator[None]:
        """Hold places in the queue.

        Raises:
            RefusedError: 429 if there are too few.
        """
        if self.judgments and self.judgments + judgments > self._limits.queue:
            raise self.busy(f"{self.judgments} judgments are under way or waiting, and {self._limits.queue} may be.")
        self.judgments += judgments
        try:
            yield
        finally:
            self.judgments -= judgments

    def busy(self, message: str) -> RefusedError:
        """Make the refusal of a request that comes at a bad time, with how long to wait."""
        expected = self.judgments * self._pace / self._limits.concurrency / 2
        wait = max(1, min(60, math.ceil(expected)))
        fault = Fault("busy", message, "Send it again after the seconds that Retry-After names.", True)
        return RefusedError(429, fault, retry_after=wait)

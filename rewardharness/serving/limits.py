"""How much the server takes on at once, and what it says when that is reached."""

import asyncio
import itertools
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace

from rewardharness.errors import InputError
from rewardharness.measure.bounds import MAX_BYTES, MAX_SCALED_PIXELS
from rewardharness.models.limits import ByteBudget
from rewardharness.serving.faults import Fault, RefusedError


@dataclass(frozen=True)
class Limits:
    """The limits of one server. Every one of them is told by `/info`."""

    concurrency: int = 32
    """Judgments under way at once; the others wait in the queue."""
    queue: int = 4096
    """Judgments that may be under way or waiting; a request that would make it more gets 429."""
    body_bytes: int = 64 << 20
    """Bytes of one request's body."""
    bytes_at_once: int = 512 << 20
    """Bytes of the bodies of all requests that are being read or judged; more wait, for at most `read_seconds`."""
    image_bytes: int = MAX_BYTES
    """Bytes of one encoded image."""
    pixels: int = MAX_SCALED_PIXELS
    """Pixels of one image. Below that the judge itself scales images down or refuses them."""
    items: int = 256
    """Edits in one batch."""
    group: int = 64
    """Candidates in one group that is ranked by scores."""
    duels: int = 16
    """Candidates in one group that is ranked by win rate: G of them take G(G-1)/2 comparisons."""
    read_seconds: float = 30.0
    """Seconds for a request's head, and again for its body; a body gets one more per half a megabyte."""
    deadline: float = 600.0
    """Seconds that a request may take at most, and does when it names none."""
    drain_seconds: float = 60.0
    """Seconds that what is under way is given when the server is told to end."""
    remembered: int = 16_384
    """Judgments kept in memory, to answer the same question again; 0 for none."""

    @property
    def images(self) -> int:
        """Images that one request names in its field `images` at most."""
        return 2 * max(self.items, self.group)

    @property
    def values(self) -> int:
        """Values of JSON in one request at most."""
        return 16 * max(self.items, self.group) + 64

    @property
    def text_bytes(self) -> int:
        """Bytes of one request without its images at most."""
        return max(1 << 20, 4096 * self.items)

    def changed(self, values: Mapping[str, float]) -> "Limits":
        """Return limits of which some have other values.

        Raises:
            InputError: If a value is too small or too large to make sense.
        """
        for name, value in values.items():
            low, high = _RANGES.get(name, (1, 1 << 40))
            if not low <= value <= high:
                message = f"The limit {name.replace('_', ' ')} cannot be {value:g}."
                raise InputError(message, next_step=f"Give a number from {low:g} to {high:g}.")
        changed = replace(self, **dict(values))  # type: ignore[arg-type]
        if changed.items > changed.queue:
            message = f"A batch of {changed.items} edits would never fit into a queue of {changed.queue}."
            raise InputError(message, next_step="Make the queue at least as long as a batch, or batches shorter.")
        return replace(changed, bytes_at_once=max(changed.bytes_at_once, changed.body_bytes))


_RANGES: Mapping[str, tuple[float, float]] = {
    "concurrency": (1, 4096),
    "body_bytes": (1_000_000, 1 << 30),
    "deadline": (0.1, 86_400),
    "drain_seconds": (0, 86_400),
    "read_seconds": (0.1, 3600),
    "remembered": (0, 1 << 24),
}


BYTES_PER_SECOND = 500_000
"""The slowest sender that is waited for, once `read_seconds` are over."""


Take = Callable[[int], Awaitable[None]]
"""Waits until there is room for so many more bytes."""


class Gate:
    """Counts what has been let in: bytes of bodies, and judgments that were promised and not yet made.

    Args:
        limits: How much that may be.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._bytes = ByteBudget(limits.bytes_at_once)
        self._pace = 1.0
        self._numbers = itertools.count()
        self._stuck: dict[int, asyncio.Timeout] = {}
        self.open = True
        """Whether new requests are let in; false while the server ends."""
        self.requests = 0
        """Requests that are being answered."""
        self.judgments = 0
        """Judgments under way or waiting."""

    @property
    def bytes_held(self) -> int:
        """Bytes of the bodies that are being read or judged."""
        return self._bytes.held

    def took(self, seconds: float) -> None:
        """Take note of how long a judgment took, for what callers are told who have to wait."""
        self._pace += 0.05 * (seconds - self._pace)

    @asynccontextmanager
    async def room(self) -> AsyncIterator[Take]:
        """Count one request, and hold room for its bytes as they arrive; a length that is announced holds nothing.

        Yields:
            What waits for room for so many more bytes, and raises `RefusedError` with 429 if there is none in time.
        """
        number, held = next(self._numbers), 0

        async def take(size: int) -> None:
            nonlocal held
            try:
                async with asyncio.timeout(self._limits.read_seconds) as self._stuck[number]:
                    asyncio.get_running_loop().call_soon(self._unblock)  # when this one waits
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

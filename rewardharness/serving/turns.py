"""Shares the event loop between bodies that are parsed on it."""

import asyncio
from collections import deque

_PER_TURN = 512 << 10
"""Bytes of bodies that are parsed in one turn of the event loop, so that many at once do not block it."""
_LEAST = 64 << 10
"""Bytes that a body counts at least: a turn takes eight small ones, however many are waiting."""


class Turns:
    """Lets bodies through in the order of their arrival, so many per turn of the event loop."""

    def __init__(self) -> None:
        self._taken = 0
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    async def wait(self, size: int) -> None:
        """Wait until a body of a size in bytes may be parsed."""
        cost = max(_LEAST, size)
        if not self._waiting and self._taken < _PER_TURN:
            self._take(cost)
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((future, cost))
        await future

    def _take(self, cost: int) -> None:
        if not self._taken:
            asyncio.get_running_loop().call_soon(self._next)
        self._taken += cost

    def _next(self) -> None:
        self._taken = 0
        while self._waiting and self._taken < _PER_TURN:
            future, cost = self._waiting.popleft()
            if not future.done():  # as of a caller that went away
                future.set_result(None)
                self._take(cost)

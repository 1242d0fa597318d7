"""Lets one request of a judgment introduce its images; the others follow when the server knows them.

A judgment asks several things about the same images. Servers that remember an image by its hash get its bytes once,
and start the other requests from what they have already read, if those wait for the first answer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from rewardharness.models.base import ChatRequest, Model, Reply
from rewardharness.models.probe import Probe


@dataclass(frozen=True)
class Counted:
    """A model that reports its replies, also those of a judgment that is abandoned."""

    model: Model
    on_reply: Callable[[Reply], None]

    @property
    def id(self) -> str:
        """The model's own id."""
        return self.model.id

    async def ask(self, request: ChatRequest) -> Reply:
        """Ask, and report the reply."""
        reply = await self.model.ask(request)
        self.on_reply(reply)
        return reply

    async def close(self) -> None:
        """Close the model."""
        await self.model.close()


class Servers:
    """What is known of a model's servers. Copies of a judge share it."""

    def __init__(self) -> None:
        self._finding: asyncio.Future[Sequence[Probe]] | None = None

    async def remember(self, find_out: Callable[[], Awaitable[Sequence[Probe]]] | None) -> bool:
        """Return whether the servers cache images; the first caller probes them, once."""
        if find_out is None:
            return False
        if self._finding is None or self._lost(self._finding):
            self._finding = asyncio.ensure_future(find_out())
        if not self._finding.done():
            await asyncio.shield(self._finding)
        return any(probe.capabilities is not None and probe.capabilities.uuid for probe in self._finding.result())

    @staticmethod
    def _lost(finding: asyncio.Future[Sequence[Probe]]) -> bool:
        """Return whether servers must be probed again.

        Probing failed, its event loop ended before it did, or no server answered it in an earlier event loop.
        """
        if finding.done() and (finding.cancelled() or finding.exception() is not None):
            return True
        useless = not finding.done() or all(probe.capabilities is None for probe in finding.result())
        return useless and finding.get_loop() is not asyncio.get_running_loop()


class Introduction:
    """A model for the length of one judgment.

    Args:
        model: The model that is asked.
        remembers: Finds out whether its servers remember images; otherwise nobody waits. Called when something is
            asked, so that a judgment that is remembered here needs no server.
    """

    def __init__(self, model: Model, remembers: Callable[[], Awaitable[bool]]) -> None:
        self._model = model
        self._remembers = remembers
        self._known = asyncio.Event()
        self._led = False

    @property
    def id(self) -> str:
        """The model's own id."""
        return self._model.id

    async def ask(self, request: ChatRequest) -> Reply:
        """Ask; all but the first wait until the first was answered, whatever the answer.

        Raises:
            ModelError: If there is no usable reply.
        """
        if self._led:
            await self._known.wait()
            return await self._model.ask(request)
        self._led = True
        try:
            if not await self._remembers():
                self._known.set()
            return await self._model.ask(request)
        finally:
            self._known.set()

    async def close(self) -> None:
        """Nothing is closed: the model outlives the judgment."""

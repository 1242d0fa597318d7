"""Wrappers of a model for judgments: reporting of replies, and a first request that fills the caches of servers.

A judgment sends several requests with the same images. Servers with an image cache receive the bytes once and reuse
the encoded prefix if the other requests wait for the first reply.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from rewardharness.models.base import ChatRequest, Model, Reply
from rewardharness.models.probe import Probe


@dataclass(frozen=True)
class ReportingModel:
    """A model that reports its replies, including those of canceled judgments."""

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


class ServerProbes:
    """Probing results of the endpoints of a model. Copies of a judge share them."""

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


class WarmUpModel:
    """The model of one judgment, whose first request is sent alone.

    Args:
        model: The model.
        remembers: Returns whether its servers cache images; otherwise requests do not wait. Called at the first
            request, so that a cached judgment needs no server.
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
        """Send a request; all but the first wait for the reply or failure of the first.

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
        """Do nothing: the model is used after the judgment."""

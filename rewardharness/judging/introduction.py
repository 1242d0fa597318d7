"""Lets one request of a judgment introduce its images; the others follow when the server knows them.

A judgment asks several things about the same images. Servers that remember an image by its hash get its bytes once,
and start the other requests from what they have already read, if those wait for the first answer.
"""

import asyncio
from collections.abc import Awaitable, Callable

from rewardharness.models.base import ChatRequest, Model, Reply


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

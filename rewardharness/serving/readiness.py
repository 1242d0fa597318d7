"""Whether there is a judge to ask: by what judgments came to lately, and by asking when there were none."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from rewardharness.models.probe import Probe
from rewardharness.serving.faults import UPSTREAM_TROUBLE, Fault
from rewardharness.serving.results import Outcome

FRESH_SECONDS = 30.0
"""For how long a sign of life counts."""
AGAIN_SECONDS = 5.0
"""Seconds between two probes that find nothing."""
PROBE_SECONDS = 20.0
"""How long a probe may take."""
FAILURES = 10
"""Judgments in a row that fail for trouble with the model, after which it counts as gone."""

NOT_READY = Fault("not_ready", "The judge does not answer.", "Wait; the server asks it again by itself.", True)
ENDING = Fault("shutting_down", "The server is shutting down.", "Ask another server.", True)


class Readiness:
    """Knows whether the judge can be asked.

    A judgment that came to an end is the best sign; only where there was none lately is the judge's endpoint probed,
    once for all who want to know. A judge that asks nobody is always ready.

    Args:
        probe: Finds out what the judge's endpoints do; None where there is nothing to be probed.
        clock: Seconds, never going back.
    """

    def __init__(
        self, probe: Callable[[], Awaitable[Sequence[Probe]]] | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._probe = probe
        self._clock = clock
        self._alive_at = float("-inf")
        self._probed_at = float("-inf")
        self._failures = 0
        self._probing: asyncio.Task[bool] | None = None
        self.ending = False
        """Whether the server is about to end."""

    def saw(self, outcome: Outcome) -> None:
        """Take note of what came of a judgment."""
        failure = outcome.judgment.failure
        if failure is not None and failure.code in UPSTREAM_TROUBLE:
            self._failures += 1
            if self._failures >= FAILURES:
                self._alive_at = float("-inf")
        elif failure is None or failure.code != "defect":
            self._failures = 0
            self._alive_at = self._clock()

    async def trouble(self) -> Fault | None:
        """Say why nobody should ask; None when all is well."""
        if self.ending:
            return ENDING
        if self._probe is None:
            return None
        now = self._clock()
        if now - self._alive_at <= FRESH_SECONDS:
            return None
        if self._probing is None:
            if now - self._probed_at < AGAIN_SECONDS:
                return NOT_READY
            self._probing = asyncio.create_task(self._look(self._probe))
        alive = await asyncio.shield(self._probing)
        return None if alive else NOT_READY

    async def _look(self, probe: Callable[[], Awaitable[Sequence[Probe]]]) -> bool:
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                found = await probe()
            alive = any(each.capabilities is not None for each in found)
        except Exception:  # whatever it is, there is no answer
            alive = False
        self._probed_at = self._clock()
        self._probing = None
        if alive:
            self._failures = 0
            self._alive_at = self._clock()
        return alive

    async def close(self) -> None:
        """Give up a probe that is under way."""
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.wait({self._probing})

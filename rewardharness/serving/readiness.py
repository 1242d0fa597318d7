"""Readiness of the judge, from recent judgments and, without any, from probes."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from rewardharness.models.probe import Probe
from rewardharness.serving.faults import UPSTREAM_TROUBLE, Fault
from rewardharness.serving.results import JudgedEdit

FRESH_SECONDS = 30.0
"""How long a successful judgment or probe counts, in seconds."""
AGAIN_SECONDS = 5.0
"""Minimum time between failing probes, in seconds."""
PROBE_SECONDS = 20.0
"""Timeout of a probe, in seconds."""
FAILURES = 10
"""Number of consecutive judgments with model errors after which the judge is not ready."""

NOT_READY = Fault("not_ready", "The judge does not answer.", "Wait; the server asks it again by itself.", True)
ENDING = Fault("shutting_down", "The server is shutting down.", "Ask another server.", True)


class Readiness:
    """Tracks whether the judge is available.

    A recent judgment shows that it is. Otherwise the judge's endpoint is probed, once for all concurrent callers. A
    judge without a model is always ready.

    Args:
        probe: Probes the endpoints of the judge; None if there is nothing to probe.
        clock: Monotonic clock in seconds.
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
        """Whether the server is shutting down."""

    def saw(self, outcome: JudgedEdit) -> None:
        """Record the outcome of a judgment."""
        failure = outcome.judgment.failure
        if failure is not None and failure.code in UPSTREAM_TROUBLE:
            self._failures += 1
            if self._failures >= FAILURES:
                self._alive_at = float("-inf")
        elif failure is None or failure.code != "defect":
            self._failures = 0
            self._alive_at = self._clock()

    async def problem(self) -> Fault | None:
        """Return why the judge is not available; None if it is ready."""
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
                probes = await probe()
            alive = any(probe.capabilities is not None for probe in probes)
        except Exception:  # any error means that the probe failed
            alive = False
        self._probed_at = self._clock()
        self._probing = None
        if alive:
            self._failures = 0
            self._alive_at = self._clock()
        return alive

    async def close(self) -> None:
        """Cancel a running probe."""
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.wait({self._probing})

import asyncio
from collections.abc import Sequence

import pytest

from rewardharness.models.base import ModelError
from rewardharness.models.probe import Probe
from rewardharness.models.wire import VLLM
from rewardharness.schema import Failure, Judgment
from rewardharness.serving.monitoring import AGAIN_SECONDS, FAILURES, FRESH_SECONDS, Readiness
from rewardharness.serving.results import JudgedEdit

pytestmark = pytest.mark.anyio

ALIVE = Probe("host:1", VLLM)
DEAD = Probe("host:1", None, ModelError("unreachable", "host:1 cannot be reached."))


class World:
    """A clock, and an endpoint that is probed."""

    def __init__(self) -> None:
        self.now = 100.0
        self.found: Sequence[Probe] | Exception = (ALIVE,)
        self.probes = 0
        self.readiness = Readiness(self.probe, lambda: self.now)

    async def probe(self) -> Sequence[Probe]:
        self.probes += 1
        await asyncio.sleep(0)
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    async def ready(self) -> bool:
        return await self.readiness.problem() is None


def outcome(failure: str | None = None) -> JudgedEdit:
    return JudgedEdit(Judgment("e", "j", "p", "l", failure=Failure(failure, "") if failure else None))


async def test_an_endpoint_is_probed_once_for_all_and_not_again_while_that_is_fresh() -> None:
    world = World()
    assert await asyncio.gather(*(world.ready() for _ in range(20))) == [True] * 20
    world.now += FRESH_SECONDS
    assert await world.ready() and world.probes == 1
    world.now += 1
    assert await world.ready() and world.probes == 2


async def test_a_dead_endpoint_is_asked_again_after_a_while() -> None:
    world = World()
    for found in ((DEAD,), RuntimeError("odd")):
        world.found = found
        world.now += 2 * FRESH_SECONDS
        before = world.probes
        assert not await world.ready() and not await world.ready() and world.probes == before + 1
    world.found = (DEAD, ALIVE)
    world.now += AGAIN_SECONDS
    assert await world.ready()


async def test_judgments_are_signs_of_life_and_of_death() -> None:
    world = World()
    world.readiness.saw(outcome())
    assert await world.ready() and world.probes == 0
    world.found = (DEAD,)
    for number in range(FAILURES):
        assert await world.ready(), number
        world.readiness.saw(outcome("unreachable"))
    assert not await world.ready()
    world.readiness.saw(outcome("image"))  # it was judged as far as it could be
    assert await world.ready()


async def test_closing_gives_a_probe_up() -> None:
    async def never() -> Sequence[Probe]:
        await asyncio.get_running_loop().create_future()
        return ()

    readiness = Readiness(never)
    asking = asyncio.create_task(readiness.problem())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await readiness.close()
    await asyncio.wait({asking})
    assert asking.cancelled()

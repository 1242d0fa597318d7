"""A pool of endpoints that lives by a virtual clock, and calls that fail as told."""

import asyncio
from contextlib import asynccontextmanager

from virtual_time import now

from rewardharness.models.base import ModelError
from rewardharness.models.endpoints import EndpointPool
from rewardharness.models.limits import EndpointSettings
from rewardharness.models.openai_compatible import OpenAICompatibleModel

ONE = ("a",)
THREE = ("a", "b", "c")


@asynccontextmanager
async def opened(*urls, kind="vllm", name="judge", settings=EndpointSettings()):
    """A model of these servers that is closed in the end."""
    model = OpenAICompatibleModel(kind, name, urls, settings)
    try:
        yield model
    finally:
        await model.close()


def pool(aliases=ONE, chance=lambda: 1.0, **options) -> EndpointPool:
    """A pool that lives by the clock of the virtual loop."""
    return EndpointPool(aliases, EndpointSettings(**options), clock=now, chance=chance)


def failing(*errors):
    """A call that meets these errors in turn and then succeeds with the time."""
    left = list(errors)
    calls = []

    async def call(endpoint):
        calls.append((endpoint.alias, now()))
        if left:
            raise left.pop(0)
        return now()

    return call, calls


def error(code, **options) -> ModelError:
    return ModelError(code, f"it is {code}", **options)


async def outcome(awaitable):
    try:
        return await awaitable
    except ModelError as problem:
        return problem


def idle(pool: EndpointPool) -> bool:
    return all(endpoint.in_flight == 0 for endpoint in pool.endpoints) and not pool._waiting and not pool._woken


async def workers(subject, call, number, questions, affinity=lambda index: ""):
    """Ask so many questions, so many at a time; return the outcomes in order."""
    results = [None] * questions
    numbers = iter(range(questions))

    async def work():
        for index in numbers:
            results[index] = await outcome(subject.run(call, affinity=affinity(index)))

    await asyncio.gather(*(work() for _ in range(number)))
    return results


async def affinity_of(alias, aliases) -> str:
    """A text that prefers an endpoint."""

    async def alias_of(endpoint):
        return endpoint.alias

    for number in range(100):
        if (await pool(aliases).run(alias_of, affinity=str(number))).value == alias:
            return str(number)
    raise AssertionError(alias)

import asyncio
import random
from collections import Counter

import virtual_time
from endpoint_parts import THREE, error, pool, workers
from virtual_time import now

from rewardharness.models.base import ModelError

RUN = virtual_time.run


async def test_no_more_in_flight_than_the_limit_and_first_come_first_served():
    subject = pool(start=3, most_in_flight=3)
    in_flight = most = 0
    order = []

    async def ask(number):
        async def call(endpoint):
            nonlocal in_flight, most
            in_flight += 1
            most = max(most, in_flight)
            order.append(number)
            await asyncio.sleep(1)
            in_flight -= 1

        await subject.run(call)

    await asyncio.gather(*(ask(number) for number in range(30)))
    assert most == 3 and order == list(range(30)) and now() == 10


async def test_a_slow_endpoint_gets_less():
    subject = pool(("slow", "fast"), start=64, most_in_flight=64)
    asked = Counter()

    async def call(endpoint):
        asked[endpoint.alias] += 1
        await asyncio.sleep(1.0 if endpoint.alias == "slow" else 0.1)

    await workers(subject, call, 44, 2000)
    # In turns it would take 2000 / 44 * 0.55 s = 25 s.
    assert now() < 12 and asked["fast"] > 3 * asked["slow"]


async def test_the_same_image_goes_to_the_same_endpoint_and_images_spread_evenly():
    subject = pool(THREE)
    homes = {}

    async def call(endpoint):
        return endpoint.alias

    for image in range(300):
        homes[image] = (await subject.run(call, affinity=f"image {image}")).value
    for image in range(300):
        assert (await subject.run(call, affinity=f"image {image}")).value == homes[image]
    assert all(70 <= count <= 130 for count in Counter(homes.values()).values())


async def test_affinity_gives_way_to_load():
    subject = pool(THREE, start=64)
    asked = Counter()

    async def call(endpoint):
        asked[endpoint.alias] += 1
        await asyncio.sleep(1)

    await asyncio.gather(*(subject.run(call, affinity="one image") for _ in range(60)))
    assert now() == 1 and min(asked.values()) >= 15


async def test_finds_what_a_server_bears_that_refuses():
    subject = pool(start=8, most_in_flight=512, chance=random.Random(1).random)
    in_flight = 0

    async def call(endpoint):
        nonlocal in_flight
        if in_flight >= 64:
            raise error("rate_limited", status=429)
        in_flight += 1
        try:
            await asyncio.sleep(0.2)
        finally:
            in_flight -= 1

    results = await workers(subject, call, 512, 3000)
    assert not [result for result in results if isinstance(result, ModelError)]
    assert 32 <= subject.endpoints[0].limit.value <= 80 and now() < 2 * 3000 / 64 * 0.2

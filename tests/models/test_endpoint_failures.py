import asyncio
import random
from collections import Counter
from functools import partial
from itertools import pairwise

import pytest
import virtual_time
from endpoint_parts import THREE, error, failing, idle, outcome, pool, workers
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_time import now

from rewardharness.models.base import ModelError

RUN = virtual_time.run


async def test_a_dead_endpoint_is_set_aside_and_comes_back():
    subject = pool(("dead", "live"))
    tried = []
    alive_at = 100.0

    async def call(endpoint):
        if endpoint.alias == "dead":
            tried.append(now())
            if now() < alive_at:
                raise error("unreachable")
        await asyncio.sleep(0.1)
        return endpoint.alias

    while now() < 200:
        assert (await subject.run(call)).value in {"dead", "live"}
    before = [time for time in tried if time < alive_at]
    # Five failures, then single trials after 1, 2, 4, 8, 16, 30, 30 ... s.
    assert len(before) <= 5 + 9
    assert [round(later - sooner) for sooner, later in pairwise(before[4:9])] == [1, 2, 4, 8]
    assert len([time for time in tried if time >= 140]) > 200
    assert not any(endpoint.is_aside for endpoint in subject.endpoints)


async def test_an_endpoint_that_is_set_aside_gets_one_request_at_a_time():
    subject = pool(("dead", "live"), start=16, request_timeout=5.0)
    together = most = 0

    async def call(endpoint):
        nonlocal together, most
        if endpoint.alias == "live" or now() < 1:
            await asyncio.sleep(0.1)
            if endpoint.alias == "dead":
                raise error("server_error", status=500)
            return
        together += 1
        most = max(most, together)
        try:
            await asyncio.sleep(1e9)
        finally:
            together -= 1

    await workers(subject, call, 20, 5000)
    assert most == 1


async def test_two_of_three_carry_on_while_one_dies_crawls_and_returns():
    subject = pool(THREE, start=8, most_in_flight=32, request_timeout=10.0, chance=random.Random(3).random)
    done = Counter()

    async def call(endpoint):
        seconds = 0.5
        if endpoint.alias == "a" and 20 <= now() < 40:
            raise error("unreachable")
        if endpoint.alias == "a" and 40 <= now() < 60:
            seconds = 5.0
        await asyncio.sleep(seconds)
        done[int(now() // 20)] += 1
        return "done"

    results = await workers(subject, call, 48, 8000)
    assert {getattr(result, "value", result) for result in results} == {"done"}
    healthy = done[0]
    assert done[1] > 0.6 * healthy and done[2] > 0.6 * healthy and done[3] > 0.9 * healthy


async def test_all_endpoints_dead_ends_soon_and_then_fails_at_once():
    subject = pool(THREE)
    calls = 0

    async def call(endpoint):
        nonlocal calls
        calls += 1
        raise error("unreachable")

    results = await asyncio.gather(*(outcome(subject.run(call)) for _ in range(500)))
    assert {result.code for result in results} == {"unreachable"} and now() <= 35 and calls < 200
    await asyncio.sleep(0.5)
    start = now()
    problem = await outcome(subject.run(call))
    assert now() - start <= 0.5 and "All endpoints are unavailable" in str(problem) and idle(subject)


async def test_a_server_that_starts_again_costs_nothing_but_time():
    subject = pool(start=16)

    async def call(endpoint):
        if 1 <= now() < 12:
            raise error("unreachable")
        await asyncio.sleep(0.2)
        return "done"

    results = await workers(subject, call, 100, 1000)
    assert [result for result in results if isinstance(result, ModelError)] == [] and 12 < now() < 60


async def test_an_endpoint_that_refuses_a_request_is_alive():
    subject = pool()
    call, _ = failing(*[error("unreachable")] * 5, error("refused"))
    assert (await outcome(subject.run(call))).code == "refused" and not subject.endpoints[0].is_aside


async def test_a_wrong_key_stops_at_once_and_is_tried_again_later():
    subject = pool(longest_aside=30.0)
    calls = 0

    async def call(endpoint):
        nonlocal calls
        calls += 1
        if now() < 10:
            raise error("unauthorized", status=401)
        return "done"

    results = await asyncio.gather(*(outcome(subject.run(call)) for _ in range(50)))
    assert {result.code for result in results} == {"unauthorized"} and now() == 0 and calls <= 8
    calls = 0
    assert (await outcome(subject.run(call))).code == "unauthorized" and calls == 0
    await asyncio.sleep(30)
    assert (await subject.run(call)).value == "done"


async def test_whoever_asks_again_is_answered_at_once():
    subject = pool(longest_aside=30.0)
    right = False

    async def call(endpoint):
        if not right:
            raise error("unauthorized", status=401)
        return now()

    for _ in range(8):
        assert (await outcome(subject.run(call))).code == "unauthorized"
        await asyncio.sleep(31)
    assert (await outcome(subject.run(call))).code == "unauthorized"
    right = True
    assert (await outcome(subject.run(call))).code == "unauthorized"
    subject.readmit()
    assert await subject.run(call) and not subject.endpoints[0].is_aside and idle(subject)


async def test_a_wrong_key_on_one_endpoint_leaves_the_others():
    subject = pool(("wrong", "right"))

    wrong = []

    async def call(endpoint):
        if endpoint.alias == "wrong":
            wrong.append(now())
            raise error("model_not_found", status=404)
        await asyncio.sleep(0.1)
        return endpoint.alias

    results = await workers(subject, call, 10, 200)
    assert {result.value for result in results} == {"right"} and len(wrong) <= 10


async def test_a_request_that_breaks_the_server_does_not_stop_the_others():
    subject = pool(chance=random.Random(5).random)

    async def poison(endpoint):
        await asyncio.sleep(0.1)
        raise error("server_error", status=500)

    async def healthy(endpoint):
        await asyncio.sleep(0.1)
        return "done"

    bad = asyncio.create_task(outcome(subject.run(poison)))
    results = await workers(subject, healthy, 4, 200)
    assert {result.value for result in results} == {"done"} and (await bad).code == "server_error"


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 40), st.floats(0, 1))
async def test_nothing_is_lost_whatever_happens(seed, endpoints, at_a_time, trouble):
    """Random failures, delays, waits, deadlines and cancellations: every question ends exactly once."""
    chance = random.Random(seed)
    codes = ["timeout", "rate_limited", "bad_response", "unreachable", "server_error", "unauthorized", "refused"]
    subject = pool(THREE[:endpoints], start=2, most_in_flight=8, chance=chance.random, request_timeout=5.0)
    succeeded = Counter()

    async def question(number):
        async def call(endpoint):
            await asyncio.sleep(chance.choice([0, 0.1, 1, 10]))
            if chance.random() < trouble:
                wait = chance.choice([None, None, 0.0, 3.0, 1e4])
                raise error(chance.choice(codes), retry_after=wait)
            succeeded[number] += 1
            return number

        timeout = chance.choice([None, None, 1.0, 60.0])
        try:
            result = await subject.run(call, affinity=chance.choice(["", "x"]), timeout=timeout)
        except ModelError as problem:
            return problem
        assert result.value == number
        return number

    tasks = [asyncio.create_task(question(number)) for number in range(at_a_time)]
    for task in tasks:
        if chance.random() < 0.2:
            await asyncio.sleep(chance.choice([0, 0.05, 2]))
            task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    for number, result in enumerate(results):
        assert result == number or isinstance(result, (ModelError, asyncio.CancelledError))
        assert succeeded[number] <= 1
    assert idle(subject)


@pytest.mark.parametrize(("code", "status"), [("unauthorized", 403), ("model_not_found", 404)])
@pytest.mark.parametrize("probed", [False, True])
async def test_after_a_success_a_refusal_is_about_one_input(code, status, probed):
    subject = pool()

    sent = []

    async def call(number, endpoint):
        sent.append(number)
        if number in flagged:
            raise error(code, status=status)
        return number

    flagged = {1, 2, 3} if not probed else {0, 1}
    if probed:
        subject.readmit("a", works=True)
    found = []
    for number in range(6):
        found.append(await outcome(subject.run(partial(call, number))))
    assert [result.code for result in found if isinstance(result, ModelError)] == [code] * len(flagged)
    flagged = range(1000)
    for number in range(100):  # it repeats: the endpoint is tried with growing pauses, and given up in the end
        last = await outcome(subject.run(partial(call, number)))
    assert "All endpoints are unavailable" in last.message and len(sent) < 30


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (error("rate_limited", status=429, retry_after=7.0), "429 from a, again in 7 s; 1 of 1 waiting"),
        (error("server_error", status=500), "500 from a, again in 0 s; 1 of 1 waiting"),
        (error("server_error", status=200), "server_error from a, again in 0 s; 1 of 1 waiting"),
        (error("unreachable"), "no connection from a, again in 0 s; 1 of 1 waiting"),
    ],
)
async def test_waiting_is_reported(failure, words):
    subject = pool()
    told = []
    subject.on_wait = told.append
    call, _ = failing(failure)
    await subject.run(call)
    assert [str(waiting) for waiting in told] == [words]


async def test_a_request_that_is_not_answered_is_reported():
    subject = pool(request_timeout=30.0)
    told = []
    subject.on_wait = lambda waiting: told.append((now(), str(waiting)))

    async def call(endpoint):
        await asyncio.sleep(1000 if not told else 0)

    began = now()
    await subject.run(call)
    assert told[0] == (began + 10, "no answer from a yet, given up in 20 s")
    assert told[1][1].startswith("no answer from a, again in")

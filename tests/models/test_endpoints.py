import asyncio
import random
from collections import Counter
from itertools import pairwise

import pytest
import virtual_time
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_time import now

from rewardharness.models.base import ModelError
from rewardharness.models.endpoints import EndpointPool, PoolSettings

ONE = ("a",)
THREE = ("a", "b", "c")


def pool(aliases=ONE, chance=lambda: 1.0, **options) -> EndpointPool:
    """A pool that lives by the clock of the virtual loop."""
    return EndpointPool(aliases, PoolSettings(**options), clock=now, chance=chance)


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
    return all(stats.in_flight == 0 for stats in pool.stats()) and not pool._waiting and not pool._woken


# ---- repetition


def test_pauses_double_and_are_a_random_part_of_their_bound():
    async def main(chance):
        call, calls = failing(*[error("unreachable")] * 4)
        subject = pool(chance=lambda: chance)
        result = await subject.run(call)
        assert result.attempts == 5 and result.endpoint == "a"
        return [time for _, time in calls]

    assert virtual_time.run(main(1.0)) == [0, 0.5, 1.5, 3.5, 7.5]
    assert virtual_time.run(main(0.5)) == [0, 0.25, 0.75, 1.75, 3.75]


@pytest.mark.parametrize("code", ["bad_request", "context_too_long", "refused", "unauthorized", "model_not_found"])
def test_what_cannot_pass_is_not_repeated(code):
    async def main():
        call, calls = failing(error(code, status=400))
        problem = await outcome(pool().run(call))
        assert (problem.code, problem.status, len(calls)) == (code, 400, 1)
        assert str(problem) == f"it is {code}"

    virtual_time.run(main())


@pytest.mark.parametrize(
    ("code", "attempts"),
    [("rate_limited", 8), ("unreachable", 8), ("server_error", 5), ("timeout", 3), ("bad_response", 3)],
)
def test_repetitions_end(code, attempts):
    async def main():
        call, calls = failing(*[error(code)] * 99)
        problem = await outcome(pool(trip_after=99).run(call))
        assert (problem.code, len(calls)) == (code, attempts)
        assert problem.retryable
        assert f"{attempts} requests were sent" in str(problem)

    virtual_time.run(main())


def test_waits_as_long_as_the_server_asks():
    async def main():
        call, _ = failing(error("rate_limited", status=429, retry_after=7.0))
        assert (await pool().run(call)).value == 7.0

    virtual_time.run(main())


def test_a_wait_holds_for_all_requests_and_others_take_over():
    async def main():
        subject = pool(("a", "b"))
        asked = Counter()

        async def call(endpoint):
            asked[endpoint.alias] += 1
            if endpoint.alias == "a":
                raise error("rate_limited", retry_after=7.0)
            await asyncio.sleep(0.01)
            return now()

        results = await asyncio.gather(*(subject.run(call) for _ in range(20)))
        assert max(result.value for result in results) < 1
        assert asked["b"] == 20 and asked["a"] <= 8
        assert [stats.state for stats in subject.stats()] == ["waiting", "in service"]

    virtual_time.run(main())


def test_a_wait_that_is_too_long_is_reported_at_once():
    async def main():
        call, calls = failing(error("rate_limited", retry_after=3600.0))
        subject = pool()
        problem = await outcome(subject.run(call))
        assert (problem.code, problem.retry_after, now()) == ("rate_limited", 3600.0, 0)
        assert (await outcome(subject.run(call))).code == "rate_limited"
        assert len(calls) == 1

    virtual_time.run(main())


def test_all_who_queue_hear_of_a_wait_that_is_too_long():
    async def main():
        subject = pool(start=2)

        async def call(endpoint):
            await asyncio.sleep(1)
            raise error("rate_limited", retry_after=3600.0)

        results = await asyncio.gather(*(outcome(subject.run(call)) for _ in range(50)))
        assert {result.code for result in results} == {"rate_limited"}
        assert now() == 1 and idle(subject)

    virtual_time.run(main())


# ---- deadlines and cancellation


def test_total_deadline_with_a_server_that_hangs():
    async def main():
        subject = pool()

        async def hang(endpoint):
            await asyncio.sleep(1e9)

        problem = await outcome(subject.run(hang, timeout=3.0))
        assert (problem.code, now()) == ("timeout", 3.0)
        assert "1 requests" in str(problem) and idle(subject)
        assert subject.stats()[0].failures == {"timeout": 1}

    virtual_time.run(main())


def test_total_deadline_counts_waiting_in_the_queue():
    async def main():
        subject = pool(start=1, most_in_flight=1)

        async def hang(endpoint):
            await asyncio.sleep(10)

        first = asyncio.create_task(subject.run(hang))
        await asyncio.sleep(0)
        problem = await outcome(subject.run(hang, timeout=2.0))
        assert now() == 2.0 and "no request could be sent" in str(problem)
        await first
        assert idle(subject)

    virtual_time.run(main())


def test_total_deadline_bounds_all_attempts_together():
    async def main():
        async def slow(endpoint):
            await asyncio.sleep(2)
            raise error("server_error")

        problem = await outcome(pool().run(slow, timeout=5.0))
        assert problem.code == "timeout" and now() == 5.0

    virtual_time.run(main())


def test_an_attempt_that_hangs_is_made_elsewhere():
    async def main():
        subject = pool(("a", "b"), attempt_timeout=4.0)

        async def call(endpoint):
            if endpoint.alias == "a":
                await asyncio.sleep(1e9)
            return endpoint.alias

        result = await subject.run(call, affinity=await affinity_of("a", ("a", "b")))
        assert (result.value, result.attempts, result.seconds) == ("b", 2, 4.0)

    virtual_time.run(main())


def test_cancellation_leaves_nothing_behind():
    async def main():
        subject = pool(THREE, start=4, most_in_flight=4)
        running = Counter()

        async def call(endpoint):
            running[endpoint.alias] += 1
            try:
                await asyncio.sleep(1)
            finally:
                running[endpoint.alias] -= 1
            return "done"

        tasks = [asyncio.create_task(subject.run(call)) for _ in range(100)]
        await asyncio.sleep(0.5)
        for task in tasks[::2]:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in results[::2])
        assert all(result.value == "done" for result in results[1::2])
        assert set(running.values()) == {0} and idle(subject)
        # None of the cancelled was held against an endpoint.
        assert all(not stats.failures for stats in subject.stats())

    virtual_time.run(main())


def test_a_turn_that_is_not_taken_goes_to_the_next():
    async def main():
        subject = pool(start=1, most_in_flight=1)

        async def call(endpoint):
            await asyncio.sleep(1)
            return now()

        async def leader():
            await subject.run(call)
            follower.cancel()  # it has been woken, and has not run yet

        first = asyncio.create_task(leader())
        await asyncio.sleep(0)
        follower = asyncio.create_task(subject.run(call))
        last = asyncio.create_task(subject.run(call))
        await first
        assert (await last).value == 2.0
        assert follower.cancelled() and idle(subject)

    virtual_time.run(main())


def test_those_who_queue_do_not_depend_on_those_who_wait_for_a_pause_to_end():
    async def main():
        subject = pool(start=1, most_in_flight=1)

        async def call(endpoint):
            await asyncio.sleep(1)
            if now() < 2:
                raise error("rate_limited", retry_after=5.0)
            return "done"

        tasks = [asyncio.create_task(subject.run(call)) for _ in range(6)]
        await asyncio.sleep(3)
        for task in tasks[:3]:
            task.cancel()
        assert [(await task).value for task in tasks[3:]] == ["done"] * 3
        assert idle(subject)

    virtual_time.run(main())


# ---- balance


def test_no_more_in_flight_than_the_limit_and_first_come_first_served():
    async def main():
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

    virtual_time.run(main())


def test_a_slow_endpoint_gets_less():
    async def main():
        subject = pool(("slow", "fast"), start=64, most_in_flight=64)
        asked = Counter()

        async def call(endpoint):
            asked[endpoint.alias] += 1
            await asyncio.sleep(1.0 if endpoint.alias == "slow" else 0.1)

        await workers(subject, call, 44, 2000)
        # In turns it would take 2000 / 44 * 0.55 s = 25 s.
        assert now() < 12 and asked["fast"] > 3 * asked["slow"]

    virtual_time.run(main())


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


def test_the_same_image_goes_to_the_same_endpoint_and_images_spread_evenly():
    async def main():
        subject = pool(THREE)
        homes = {}

        async def call(endpoint):
            return endpoint.alias

        for image in range(300):
            homes[image] = (await subject.run(call, affinity=f"image {image}")).value
        for image in range(300):
            assert (await subject.run(call, affinity=f"image {image}")).value == homes[image]
        assert all(70 <= count <= 130 for count in Counter(homes.values()).values())

    virtual_time.run(main())


def test_affinity_gives_way_to_load():
    async def main():
        subject = pool(THREE, start=64)
        asked = Counter()

        async def call(endpoint):
            asked[endpoint.alias] += 1
            await asyncio.sleep(1)

        await asyncio.gather(*(subject.run(call, affinity="one image") for _ in range(60)))
        assert now() == 1 and min(asked.values()) >= 15

    virtual_time.run(main())


def test_finds_what_a_server_bears_that_refuses():
    async def main():
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
        assert 32 <= subject.stats()[0].limit <= 80
        assert now() < 2 * 3000 / 64 * 0.2

    virtual_time.run(main())


# ---- endpoints that fail


def test_a_dead_endpoint_is_set_aside_and_comes_back():
    async def main():
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
        assert [stats.state for stats in subject.stats()] == ["in service"] * 2

    virtual_time.run(main())


def test_an_endpoint_that_is_set_aside_gets_one_request_at_a_time():
    async def main():
        subject = pool(("dead", "live"), start=16, attempt_timeout=5.0)
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

    virtual_time.run(main())


def test_two_of_three_carry_on_while_one_dies_crawls_and_returns():
    async def main():
        subject = pool(THREE, start=8, most_in_flight=32, attempt_timeout=10.0, chance=random.Random(3).random)
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

    virtual_time.run(main())


def test_all_endpoints_dead_ends_soon_and_then_fails_at_once():
    async def main():
        subject = pool(THREE)
        calls = 0

        async def call(endpoint):
            nonlocal calls
            calls += 1
            raise error("unreachable")

        results = await asyncio.gather(*(outcome(subject.run(call)) for _ in range(500)))
        assert {result.code for result in results} == {"unreachable"}
        assert now() <= 35 and calls < 200
        await asyncio.sleep(0.5)
        start = now()
        problem = await outcome(subject.run(call))
        assert now() - start <= 0.5 and "No endpoint is in service" in str(problem)
        assert idle(subject)

    virtual_time.run(main())


def test_a_server_that_starts_again_costs_nothing_but_time():
    async def main():
        subject = pool(start=16)

        async def call(endpoint):
            if 1 <= now() < 12:
                raise error("unreachable")
            await asyncio.sleep(0.2)
            return "done"

        results = await workers(subject, call, 100, 1000)
        assert [result for result in results if isinstance(result, ModelError)] == []
        assert 12 < now() < 60

    virtual_time.run(main())


def test_an_endpoint_that_refuses_a_request_is_alive():
    async def main():
        subject = pool()
        call, _ = failing(*[error("unreachable")] * 5, error("refused"))
        assert (await outcome(subject.run(call))).code == "refused"
        assert subject.stats()[0].state == "in service"

    virtual_time.run(main())


def test_a_wrong_key_stops_at_once_and_is_tried_again_later():
    async def main():
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

    virtual_time.run(main())


def test_a_wrong_key_on_one_endpoint_leaves_the_others():
    async def main():
        subject = pool(("wrong", "right"))

        async def call(endpoint):
            if endpoint.alias == "wrong":
                raise error("model_not_found", status=404)
            await asyncio.sleep(0.1)
            return endpoint.alias

        results = await workers(subject, call, 10, 200)
        assert {result.value for result in results} == {"right"}
        assert subject.stats()[0].sent <= 10

    virtual_time.run(main())


def test_a_request_that_breaks_the_server_does_not_stop_the_others():
    async def main():
        subject = pool(chance=random.Random(5).random)

        async def poison(endpoint):
            await asyncio.sleep(0.1)
            raise error("server_error", status=500)

        async def healthy(endpoint):
            await asyncio.sleep(0.1)
            return "done"

        bad = asyncio.create_task(outcome(subject.run(poison)))
        results = await workers(subject, healthy, 4, 200)
        assert {result.value for result in results} == {"done"}
        assert (await bad).code == "server_error"

    virtual_time.run(main())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 40), st.floats(0, 1))
def test_nothing_is_lost_whatever_happens(seed, endpoints, at_a_time, trouble):
    """Random failures, delays, waits, deadlines and cancellations: every question ends exactly once."""
    chance = random.Random(seed)
    codes = ["timeout", "rate_limited", "bad_response", "unreachable", "server_error", "unauthorized", "refused"]

    async def main():
        subject = pool(THREE[:endpoints], start=2, most_in_flight=8, chance=chance.random, attempt_timeout=5.0)
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

    virtual_time.run(main())

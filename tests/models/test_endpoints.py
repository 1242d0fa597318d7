import asyncio
from collections import Counter

import pytest
import virtual_time
from endpoint_parts import THREE, affinity_of, error, failing, idle, outcome, pool
from virtual_time import now

RUN = virtual_time.run


def test_pauses_double_and_are_a_random_part_of_their_bound():
    async def main(chance):
        call, calls = failing(*[error("unreachable")] * 4)
        subject = pool(chance=lambda: chance)
        result = await subject.run(call)
        assert result.attempts == 5 and calls[0][0] == "a"
        return [time for _, time in calls]

    assert virtual_time.run(main(1.0)) == [0, 0.5, 1.5, 3.5, 7.5]
    assert virtual_time.run(main(0.5)) == [0, 0.25, 0.75, 1.75, 3.75]


@pytest.mark.parametrize("code", ["bad_request", "context_too_long", "refused", "unauthorized", "model_not_found"])
async def test_what_cannot_pass_is_not_repeated(code):
    call, calls = failing(error(code, status=400))
    problem = await outcome(pool().run(call))
    assert (problem.code, problem.status, len(calls)) == (code, 400, 1) and problem.message == f"it is {code}"


@pytest.mark.parametrize(
    ("code", "attempts"),
    [("rate_limited", 8), ("unreachable", 8), ("server_error", 5), ("timeout", 3), ("bad_response", 3)],
)
async def test_repetitions_end(code, attempts):
    call, calls = failing(*[error(code)] * 99)
    problem = await outcome(pool(trip_after=99).run(call))
    assert (problem.code, len(calls)) == (code, attempts) and problem.retryable
    assert f"Requests sent: {attempts}" in str(problem)


async def test_waits_as_long_as_the_server_asks():
    call, _ = failing(error("rate_limited", status=429, retry_after=7.0))
    assert (await pool().run(call)).value == 7.0


async def test_a_wait_holds_for_all_requests_and_others_take_over():
    subject = pool(("a", "b"))
    asked = Counter()

    async def call(endpoint):
        asked[endpoint.alias] += 1
        if endpoint.alias == "a":
            raise error("rate_limited", retry_after=7.0)
        await asyncio.sleep(0.01)
        return now()

    results = await asyncio.gather(*(subject.run(call) for _ in range(20)))
    assert max(result.value for result in results) < 1 and asked["b"] == 20 and asked["a"] <= 8
    assert [endpoint.resume_at > now() for endpoint in subject.endpoints] == [True, False]


async def test_a_wait_that_is_too_long_is_reported_at_once():
    call, calls = failing(error("rate_limited", retry_after=3600.0))
    subject = pool()
    problem = await outcome(subject.run(call))
    assert (problem.code, problem.retry_after, now()) == ("rate_limited", 3600.0, 0)
    assert (await outcome(subject.run(call))).code == "rate_limited" and len(calls) == 1


async def test_all_who_queue_hear_of_a_wait_that_is_too_long():
    subject = pool(start=2)

    async def call(endpoint):
        await asyncio.sleep(1)
        raise error("rate_limited", retry_after=3600.0)

    results = await asyncio.gather(*(outcome(subject.run(call)) for _ in range(50)))
    assert {result.code for result in results} == {"rate_limited"} and now() == 1 and idle(subject)


@pytest.mark.parametrize(
    ("seconds", "busy", "said"),
    [(1e9, False, "1 request"), (2.0, False, "2 requests"), (10.0, True, "no request could be sent")],
)
async def test_total_deadline_bounds_hanging_repeating_and_queueing_together(seconds, busy, said):
    subject = pool(start=1, most_in_flight=1)

    async def slow(endpoint):
        await asyncio.sleep(seconds)
        if not busy:
            raise error("server_error")

    first = asyncio.create_task(subject.run(slow)) if busy else None
    await asyncio.sleep(0)
    problem = await outcome(subject.run(slow, timeout=3.0))
    assert (problem.code, now()) == ("timeout", 3.0) and said in str(problem)
    assert busy or subject.endpoints[0].last_error.code == "timeout"
    await asyncio.gather(*([first] if first else []))
    assert idle(subject)


async def test_an_attempt_that_hangs_is_made_elsewhere():
    subject = pool(("a", "b"), request_timeout=4.0)

    async def call(endpoint):
        if endpoint.alias == "a":
            await asyncio.sleep(1e9)
        return endpoint.alias

    result = await subject.run(call, affinity=await affinity_of("a", ("a", "b")))
    assert (result.value, result.attempts, result.seconds) == ("b", 2, 4.0)


async def test_cancellation_leaves_nothing_behind():
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
    assert all(not endpoint.failures_in_row for endpoint in subject.endpoints)


async def test_a_turn_that_is_not_taken_goes_to_the_next():
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
    assert (await last).value == 2.0 and follower.cancelled() and idle(subject)


async def test_those_who_queue_do_not_depend_on_those_who_wait_for_a_pause_to_end():
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
    assert [(await task).value for task in tasks[3:]] == ["done"] * 3 and idle(subject)

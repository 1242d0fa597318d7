import asyncio

import virtual_time
from hypothesis import given, settings
from hypothesis import strategies as st

from rewardharness.models.limits import AdaptiveLimit, ByteBudget

RUN = virtual_time.run


def rounds(limit: AdaptiveLimit, number: int, seconds) -> list[int]:
    """Let a limit live through full rounds; `seconds` gives the latency at so many requests in flight."""
    seen = []
    for _ in range(number):
        for _ in range(limit.value):
            limit.succeeded(seconds(limit.value), limit.value)
        seen.append(limit.value)
    return seen


def test_doubles_while_latency_holds():
    assert rounds(AdaptiveLimit(8, 100), 5, lambda n: 1.0) == [16, 32, 64, 100, 100]


def test_goes_back_when_doubling_does_not_pay():
    # A server of 32 places queues: from there latency grows with the number in flight.
    seen = rounds(AdaptiveLimit(8, 1000), 5, lambda n: max(1.0, n / 32))
    assert seen[:3] == [16, 32, 64] and seen[3] == 32


def test_saturation_is_not_believed_to_be_normal():
    limit = AdaptiveLimit(8, 1000)
    rounds(limit, 60, lambda n: max(1.0, n / 32))
    assert 32 <= limit.value <= 64


def test_grows_again_slowly_after_a_cut():
    limit = AdaptiveLimit(64, 64)
    limit.overloaded(began=1.0, now=2.0, in_flight=64)
    assert limit.value == 51
    assert rounds(limit, 5, lambda n: 1.0) == [53, 56, 59, 62, 64]


def test_one_cut_for_all_requests_that_were_on_their_way():
    limit = AdaptiveLimit(64, 64)
    for _ in range(30):
        limit.overloaded(began=1.0, now=2.0, in_flight=64)
    assert limit.value == 51
    limit.overloaded(began=2.5, now=3.0, in_flight=51)
    assert limit.value == 40


def test_a_cut_counts_from_what_was_in_use():
    limit = AdaptiveLimit(200, 200)
    limit.overloaded(began=1.0, now=2.0, in_flight=10)
    assert limit.value == 8 and AdaptiveLimit(0, 0).value == 1, "something is always allowed"


def test_no_growth_without_use_or_after_a_failure():
    idle = AdaptiveLimit(8, 100)
    for _ in range(50):
        idle.succeeded(1.0, 2)
    assert idle.value == 8
    failing = AdaptiveLimit(8, 100)
    for number in range(16):
        failing.succeeded(1.0, 8)
        if number % 8 == 0:
            failing.failed()
    assert failing.value == 8


@settings(max_examples=50)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("ok"), st.floats(0.001, 100), st.integers(1, 300)),
            st.tuples(st.just("over"), st.floats(0, 100), st.integers(1, 300)),
            st.tuples(st.just("failed"), st.just(0.0), st.just(0)),
        ),
        max_size=300,
    ),
    st.integers(1, 64),
)
def test_stays_within_its_bounds(events, most):
    limit = AdaptiveLimit(8, most)
    for time, (kind, number, in_flight) in enumerate(events):
        if kind == "ok":
            limit.succeeded(number, in_flight)
        elif kind == "over":
            limit.overloaded(time - number, time, in_flight)
        else:
            limit.failed()
        assert 1 <= limit.value <= most


async def test_bytes_stay_within_the_budget():
    budget = ByteBudget(100)
    most = 0
    order = []

    async def hold(number: int, size: int) -> None:
        nonlocal most
        await budget.acquire(size)
        order.append(number)
        most = max(most, budget.held)
        await asyncio.sleep(1)
        budget.release(size)

    await asyncio.gather(*(hold(number, 30 + number % 20) for number in range(40)))
    assert 60 <= most <= 100 and order == list(range(40)) and budget.held == 0


async def test_a_body_beyond_the_budget_goes_alone():
    budget = ByteBudget(100)
    await budget.acquire(10)
    large = asyncio.create_task(budget.acquire(5000))
    small = asyncio.create_task(budget.acquire(10))
    await asyncio.sleep(1)
    assert not large.done() and not small.done()
    budget.release(10)
    await large
    assert budget.held == 5000 and not small.done()
    budget.release(5000)
    await small
    assert budget.held == 10


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(1, 150), st.integers(0, 5), st.booleans()), max_size=30))
async def test_no_byte_is_lost_when_requests_are_cancelled(bodies):
    budget = ByteBudget(100)

    async def hold(size: int, seconds: int) -> None:
        await budget.acquire(size)
        try:
            await asyncio.sleep(seconds)
        finally:
            budget.release(size)

    tasks = [asyncio.create_task(hold(size, seconds)) for size, seconds, _ in bodies]
    for task, (_, _, cancel) in zip(tasks, bodies, strict=True):
        await asyncio.sleep(0.5)
        if cancel:
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert budget.held == 0
    await budget.acquire(100)

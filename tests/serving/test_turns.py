"""Bodies that are parsed on the event loop take turns."""

import asyncio

from rewardharness.serving.turns import Turns


async def parse(turns: Turns, size: int, number: int, order: list[tuple[int, int]], turn: list[int]) -> None:
    await turns.wait(size)
    order.append((turn[0], number))


async def parse_all(sizes: list[int], cancelled: int | None = None) -> list[tuple[int, int]]:
    """Return turn and number of each body, in the order in which they are parsed."""
    turns, turn = Turns(), [0]
    order: list[tuple[int, int]] = []
    tasks = [asyncio.create_task(parse(turns, size, number, order, turn)) for number, size in enumerate(sizes)]
    await asyncio.sleep(0)
    if cancelled is not None:
        tasks[cancelled].cancel()
    while not all(task.done() for task in tasks):
        turn[0] += 1
        await asyncio.sleep(0)
    return order


def test_a_turn_takes_eight_small_bodies_in_the_order_of_arrival() -> None:
    order = asyncio.run(parse_all([1000] * 30))
    assert [number for _, number in order] == list(range(30))
    counts = [sum(turn == each for turn, _ in order) for each in sorted({turn for turn, _ in order})]
    assert max(counts) == 8 and len(counts) == 4


def test_a_turn_takes_as_many_bytes_and_a_small_body_does_not_overtake() -> None:
    order = asyncio.run(parse_all([400 << 10, 400 << 10, 400 << 10, 10]))
    assert [number for _, number in order] == [0, 1, 2, 3]
    assert order[1][0] == order[0][0] < order[2][0]


def test_a_caller_that_leaves_does_not_keep_the_next_waiting() -> None:
    order = asyncio.run(parse_all([500 << 10] * 5, cancelled=3))
    assert [number for _, number in order] == [0, 1, 2, 4]

"""Judges many examples. Owns the one asyncio loop that judging runs on; callers stay plain functions."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator

from rewardharness.judging.judge import Judge, unjudged
from rewardharness.library.store import Library
from rewardharness.schema import Example, Failure, Judgment

log = logging.getLogger(__name__)


def evaluate(
    judge: Judge,
    library: Library,
    examples: Iterable[Example],
    *,
    concurrency: int = 8,
    on_judgment: Callable[[Example, Judgment], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> list[tuple[Example, Judgment]]:
    """Judge examples side by side.

    Trouble with one example never ends the others: it becomes a Judgment with a failure.

    Args:
        judge: Who judges.
        library: What it knows.
        examples: Read lazily; no more than `concurrency` are held at once.
        concurrency: How many examples are under way at once, at least 1.
        on_judgment: Called for each judgment as it comes, in the calling thread, one at a time.
        should_stop: Asked before each new example; when it says True, no new one is begun.

    Returns:
        Examples and judgments, in the order in which they were given.
    """
    return asyncio.run(_evaluate(judge, library, iter(examples), max(1, concurrency), on_judgment, should_stop))


async def _evaluate(
    judge: Judge,
    library: Library,
    examples: Iterator[Example],
    concurrency: int,
    on_judgment: Callable[[Example, Judgment], None] | None,
    should_stop: Callable[[], bool] | None,
) -> list[tuple[Example, Judgment]]:
    numbered = enumerate(examples)
    done: dict[int, tuple[Example, Judgment]] = {}

    async def work() -> None:
        while not (should_stop and should_stop()):
            try:
                number, example = next(numbered)
            except StopIteration:
                return
            judgment = await _guarded(judge, library, example)
            done[number] = (example, judgment)
            if on_judgment:
                on_judgment(example, judgment)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(work())
    finally:
        await judge.close()
    return [done[number] for number in sorted(done)]


async def _guarded(judge: Judge, library: Library, example: Example) -> Judgment:
    """Judge one example; a defect of ours must not cost the other examples their judgments."""
    try:
        return await judge.judge(example, library)
    except Exception as error:
        log.exception("judging %s failed unexpectedly", example.id)
        return unjudged(example, judge, library, Failure("defect", f"{type(error).__name__}: {error}"))

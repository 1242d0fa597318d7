"""Judges many examples. Owns the one asyncio loop that judging runs on; callers stay plain functions."""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

from rewardharness.judging.judge import Judge, unjudged
from rewardharness.library.store import Library
from rewardharness.schema import Example, Failure, Judgment

log = logging.getLogger(__name__)
T = TypeVar("T")


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on an event loop of its own and return its result.

    Where the calling thread has a running loop already (notebooks, asynchronous trainers), the coroutine runs in a
    thread of its own. The caller waits for it; to keep its loop responsive, call this through `asyncio.to_thread`.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    cancel: Callable[[], object] = bool

    async def main() -> T:
        nonlocal cancel
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        cancel = lambda: loop.call_soon_threadsafe(task.cancel)  # noqa: E731
        return await work

    with ThreadPoolExecutor(1, thread_name_prefix="judging") as pool:
        future = pool.submit(copy_context().run, asyncio.run, main())
        try:
            return future.result()
        except BaseException:
            if not future.done():  # the wait was interrupted, as by Ctrl-C
                cancel()
            raise


class Cancel:
    """Ends an evaluation at once, from any thread: nothing new is begun, and what is under way is given up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._give_up: Callable[[], None] | None = None
        self.requested = False
        """Whether the end was asked for."""

    def __call__(self) -> None:
        """Ask for the end. Asking again, before the beginning or after the end, does no harm."""
        with self._lock:
            self.requested = True
            if self._give_up is not None:
                self._give_up()

    def bind(self, give_up: Callable[[], None] | None) -> None:
        """Say how to give up what is under way; None when nothing is. For `evaluate` alone."""
        with self._lock:
            self._give_up = give_up


def evaluate(
    judge: Judge,
    library: Library,
    examples: Iterable[Example],
    *,
    concurrency: int = 8,
    on_judgment: Callable[[Example, Judgment], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    cancel: Cancel | None = None,
) -> list[tuple[Example, Judgment]]:
    """Judge examples side by side.

    Trouble with one example never ends the others: it becomes a Judgment with a failure.

    Args:
        judge: Who judges.
        library: What it knows.
        examples: Read lazily; no more than `concurrency` are held at once.
        concurrency: How many examples are under way at once, at least 1.
        on_judgment: Called for each judgment as it comes, one at a time.
        should_stop: Asked before each new example; when it says True, no new one is begun.
        cancel: Ends everything at once when it is called. Examples that were under way are left out of the result.

    Returns:
        Examples and judgments, in the order in which they were given.
    """
    cancel = cancel or Cancel()
    work = _evaluate(judge, library, iter(examples), max(1, concurrency), on_judgment, should_stop, cancel)
    return run_to_end(work)


async def _evaluate(
    judge: Judge,
    library: Library,
    examples: Iterator[Example],
    concurrency: int,
    on_judgment: Callable[[Example, Judgment], None] | None,
    should_stop: Callable[[], bool] | None,
    cancel: Cancel,
) -> list[tuple[Example, Judgment]]:
    numbered = enumerate(examples)
    done: dict[int, tuple[Example, Judgment]] = {}
    workers: list[asyncio.Task[None]] = []
    loop = asyncio.get_running_loop()

    def cancel_workers() -> None:
        for worker in workers:
            worker.cancel()

    def give_up() -> None:
        loop.call_soon_threadsafe(cancel_workers)

    async def work() -> None:
        while not cancel.requested and not (should_stop and should_stop()):
            try:
                number, example = next(numbered)
            except StopIteration:
                return
            judgment = await _guarded(judge, library, example)
            done[number] = (example, judgment)
            if on_judgment:
                on_judgment(example, judgment)

    cancel.bind(give_up)
    try:
        async with asyncio.TaskGroup() as group:
            workers += [group.create_task(work()) for _ in range(concurrency)]
    except ExceptionGroup as errors:  # what `on_judgment` raised, such as a full disk; one error is enough
        raise errors.exceptions[0] from None
    finally:
        cancel.bind(None)
        await judge.close()
    return [done[number] for number in sorted(done)]


async def _guarded(judge: Judge, library: Library, example: Example) -> Judgment:
    """Judge one example; a defect of ours must not cost the other examples their judgments."""
    try:
        return await judge.judge(example, library)
    except Exception as error:
        log.exception("judging %s failed unexpectedly", example.id)
        return unjudged(example, judge, library, Failure("defect", f"{type(error).__name__}: {error}"))

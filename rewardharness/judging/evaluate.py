"""Judging of many examples on one asyncio loop; callers are synchronous."""

import asyncio
import logging
import threading
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, Protocol, TypeVar

from rewardharness.judging.calibration import edit_kind
from rewardharness.judging.interface import JudgeProtocol, unjudged
from rewardharness.library.store import Library
from rewardharness.schema import Example, Failure, Judgment
from rewardharness.telemetry import judgment_span, record_judgment

log = logging.getLogger(__name__)
T = TypeVar("T")
K = TypeVar("K")
R = TypeVar("R")


class Executor(Protocol):
    """What judges examples: this process, or a cluster (`on_ray.RayExecutor`)."""

    def concurrency(self, judge: JudgeProtocol, chosen: int) -> int:
        """Return the number of examples in progress, where the caller has chosen one."""

    async def judge(self, judge: JudgeProtocol, library: Library, example: Example) -> Judgment:
        """Judge one example. An error that concerns it alone gives a failure; others are raised."""


LOOK = 0.5
"""Seconds between two looks whether a stop was requested."""
GRACE = 10.0
"""Seconds that judgments in progress have to end after a stop request. Others are given up, as while a server asks to
wait; they are not judged."""

_logged: set[tuple[str, int | None]] = set()
"""Lines of code whose errors were logged: file and number."""


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a new event loop and return its result.

    If the calling thread has a running loop (notebooks, asynchronous trainers), the coroutine runs in another thread.
    The caller waits for it; to keep its loop responsive, call this through `asyncio.to_thread`.
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
    """Cancels an evaluation at once, from any thread, including the judgments in progress."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._give_up: Callable[[], None] | None = None
        self.requested = False
        """Whether cancellation was requested."""

    def __call__(self) -> None:
        """Request cancellation. Idempotent, also before the start and after the end."""
        with self._lock:
            self.requested = True
            if self._give_up is not None:
                self._give_up()

    def bind(self, give_up: Callable[[], None] | None) -> None:
        """Set the function that cancels judgments in progress; None if there are none. For `evaluate` only."""
        with self._lock:
            self._give_up = give_up


def evaluate(
    judge: JudgeProtocol,
    library: Library,
    examples: Iterable[Example],
    *,
    concurrency: int = 8,
    on_judgment: Callable[[Example, Judgment], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    cancel: Cancel | None = None,
    executor: Executor | None = None,
) -> list[tuple[Example, Judgment]]:
    """Judge examples concurrently.

    An error of one example does not affect the others: it gives a Judgment with a failure.

    Args:
        judge: The judge.
        library: Its Library.
        examples: Read lazily; at most `concurrency` are in memory.
        concurrency: Maximum number of concurrent examples, at least 1.
        on_judgment: Called with each judgment when it is complete, one at a time.
        should_stop: Called before each example; True stops before it.
        cancel: Cancels everything at once when called. Examples in progress are missing from the result.
        executor: What judges; None for this process.

    Returns:
        Examples and judgments, in the order of `examples`.
    """
    done: dict[int, tuple[Example, Judgment]] = {}

    def keep(number: int, example: Example, judgment: Judgment) -> None:
        done[number] = (example, judgment)
        if on_judgment:
            on_judgment(example, judgment)

    async def work() -> None:
        try:
            await judge_each(
                judge,
                library,
                enumerate(examples),
                keep,
                concurrency=concurrency,
                should_stop=should_stop,
                cancel=cancel,
                executor=executor,
            )
        finally:
            await judge.close()

    run_to_end(work())
    return [done[number] for number in sorted(done)]


async def judge_each(
    judge: JudgeProtocol,
    library: Library,
    items: Iterable[tuple[K, Example]],
    on_judgment: Callable[[K, Example, Judgment], None],
    *,
    concurrency: int,
    executor: Executor | None = None,
    **options: Any,
) -> None:
    """Judge examples concurrently without keeping them. The judge is not closed.

    Args:
        judge: The judge.
        library: Its Library.
        items: Keys and examples, read lazily; at most `concurrency` are in memory.
        on_judgment: Called with the key, the example and each judgment when it is complete, one at a time.
        concurrency: Maximum number of concurrent examples, at least 1.
        executor: What judges; None for this process.
        options: Further arguments of `work_each`.
    """
    worker = executor or LocalExecutor()
    at_once = worker.concurrency(judge, concurrency)
    await work_each(
        items, lambda example: worker.judge(judge, library, example), on_judgment, concurrency=at_once, **options
    )


async def work_each(
    items: Iterable[tuple[K, T]],
    work: Callable[[T], Awaitable[R]],
    on_result: Callable[[K, T, R], None],
    *,
    concurrency: int,
    should_stop: Callable[[], bool] | None = None,
    cancel: Cancel | None = None,
    blocking: bool = False,
) -> None:
    """Work on items concurrently.

    Args:
        items: Keys and items, read lazily; at most `concurrency` are in memory.
        work: Works on an item.
        on_result: Called with the key, the item and each result when it is complete, one at a time.
        concurrency: Maximum number of concurrent items, at least 1.
        should_stop: Called before each item and at intervals; True stops before it. Work in progress has `GRACE`
            seconds to end.
        cancel: Cancels everything at once when called.
        blocking: Whether reading an item takes long enough that it must not run on the event loop.
    """
    iterator, end, turn = iter(items), object(), asyncio.Lock()
    workers: list[asyncio.Task[None]] = []
    loop = asyncio.get_running_loop()
    cancel = cancel or Cancel()

    def cancel_workers() -> None:
        for worker in workers:
            worker.cancel()

    def give_up() -> None:
        loop.call_soon_threadsafe(cancel_workers)

    async def take() -> Any:
        if not blocking:
            return next(iterator, end)
        async with turn:
            return await asyncio.to_thread(next, iterator, end)

    async def run() -> None:
        while not cancel.requested and not (should_stop and should_stop()):
            taken = await take()
            if taken is end:
                return
            key, item = taken
            on_result(key, item, await work(item))

    async def watch() -> None:
        while should_stop is not None and not should_stop():
            await asyncio.sleep(LOOK)
        await asyncio.sleep(GRACE)
        cancel_workers()

    cancel.bind(give_up)
    watcher = asyncio.create_task(watch()) if should_stop is not None else None
    try:
        async with asyncio.TaskGroup() as group:
            workers += [group.create_task(run()) for _ in range(max(1, concurrency))]
    except ExceptionGroup as errors:  # raised by `on_result`, such as a full disk; the first one is reported
        raise errors.exceptions[0] from None
    finally:
        cancel.bind(None)
        if watcher is not None:
            watcher.cancel()


class LocalExecutor:
    """Judges in this process."""

    def concurrency(self, judge: JudgeProtocol, chosen: int) -> int:
        """Return what the caller has chosen."""
        return chosen

    async def judge(self, judge: JudgeProtocol, library: Library, example: Example) -> Judgment:
        """Judge one example; an internal error gives a failure and does not affect other examples."""
        try:
            return await judge_calibrated(judge, example, library)
        except Exception as error:
            _log_once(example.id, error)
            return unjudged(example, judge, library, Failure("defect", f"{type(error).__name__}: {error}"))


async def judge_calibrated(judge: JudgeProtocol, example: Example, library: Library) -> Judgment:
    """Judge one example, and calibrate the confidence if the judge has a calibration for what it did."""
    with judgment_span(judge.name, library.id) as span:
        judgment = await judge.judge(example, library)
        record_judgment(span, judgment)
    if judge.calibration is None:
        return judgment
    return judge.calibration.apply(judgment, edit_kind(example, judgment), judge.revision)


def _log_once(name: str, error: Exception) -> None:
    """Log an internal error with its traceback; those of the same line of code that follow only for debugging."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = (last.filename, last.lineno)
    if place in _logged:
        log.debug("judging %s failed unexpectedly, again: %s", name, error)
        return
    _logged.add(place)
    log.error("judging %s failed unexpectedly; the same error is not shown again", name, exc_info=error)

"""Work that several processes share."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_CHUNK = 4
_SHARE = 16
"""Items that are worth starting a process for."""


def in_order(function: Callable[[T], R], items: Iterable[T], workers: int) -> Iterator[R]:
    """Apply a function to items and yield the results in the order of the items.

    Where processes cannot be started, or one of them is killed, this process does the rest of the work.

    Args:
        function: A picklable function. It may be applied twice to an item.
        items: Its picklable arguments.
        workers: Number of processes; 1 does the work in this one.
    """
    rest = list(items)
    workers = min(workers, len(rest) // _SHARE)
    done = 0
    if workers > 1:
        # Threads of this process would not survive a fork.
        pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _prepare)
        try:
            for result in pool.map(function, rest, chunksize=_CHUNK):
                yield result
                done += 1
        except BrokenProcessPool:
            pass
        finally:
            pool.shutdown(cancel_futures=True)
    yield from map(function, rest[done:])


def _prepare() -> None:
    """Leave interrupts to the process that waits for this one, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)

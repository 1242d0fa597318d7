"""Run work in parallel processes."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import TypeVar

import cv2

T = TypeVar("T")
R = TypeVar("R")

_CHUNK = 4
_SHARE = 16
"""Minimum number of items per process."""


def in_order(function: Callable[[T], R], items: Iterable[T], workers: int) -> Iterator[R]:
    """Apply a function to items in parallel and yield the results in order.

    If processes cannot be started or one is killed, this process does the remaining work. OpenCV works with one thread
    meanwhile, as its rounding depends on the number of threads.

    Args:
        function: A picklable function. It may be called twice for an item.
        items: Its picklable arguments.
        workers: Number of processes; 1 uses the current process.
    """
    rest, work = list(items), partial(_in_one_thread, function)
    workers = min(workers, len(rest) // _SHARE)
    done = 0
    if workers > 1:
        # Forking would not preserve the threads of this process.
        pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _prepare)
        try:
            for result in pool.map(work, rest, chunksize=_CHUNK):
                yield result
                done += 1
        except BrokenProcessPool:
            pass
        finally:
            pool.shutdown(cancel_futures=True)
    yield from map(work, rest[done:])


def _in_one_thread(function: Callable[[T], R], item: T) -> R:
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        return function(item)
    finally:
        cv2.setNumThreads(threads)


def _prepare() -> None:
    """Ignore interrupts, which the parent process handles, and exit with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)

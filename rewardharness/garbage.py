"""Memory of this process: pauses of Python's garbage collector, and what the C library keeps for the next use."""

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause the collector, for work that is bounded and leaves no cycles behind. Also usable as a decorator.

    While very many objects are created that all stay, it would go through them again and again, for up to a third of
    the time.
    """
    active = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if active:
            gc.enable()


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_KEPT_BYTES, _LARGEST_BYTES = 128 << 20, 32 << 20


def keep_freed_memory() -> None:
    """Let the C library keep up to 128 MB of freed memory, for code that allocates the same arrays again and again.

    Otherwise glibc returns it to the system each time, and the page faults of the next array take an eighth of the CPU
    time of a judgment by pixels. Without glibc, nothing changes. See mallopt(3).
    """
    adjust = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if adjust is not None:
        adjust(_M_ARENA_MAX, 1)  # the memory of other arenas is returned in any case
        adjust(_M_MMAP_THRESHOLD, _LARGEST_BYTES)
        adjust(_M_TRIM_THRESHOLD, _KEPT_BYTES)

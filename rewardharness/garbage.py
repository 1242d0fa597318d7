"""Pausing of Python's garbage collector while very many objects are created that all stay.

The collector would go through the same objects again and again, which takes up to a third of the time.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause the collector, for work that is bounded and leaves no cycles behind. Also usable as a decorator."""
    active = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if active:
            gc.enable()

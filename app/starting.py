"""A quick start of the app: what is not needed while it starts is left out until it serves."""

import gc
import inspect
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import Gradio in three quarters of the time.

    Gradio parses the source code of each of its components to rewrite its stub files, which come with its package. It
    skips that for a class whose file is unknown. Garbage is not looked for, as modules stay.
    """
    getfile = inspect.getfile

    def of_others(thing: object) -> str:
        if isinstance(thing, type) and thing.__module__.startswith("gradio."):
            raise OSError("not needed")
        return getfile(thing)  # type: ignore[arg-type]

    gc.disable()
    inspect.getfile = of_others  # type: ignore[assignment]
    try:
        yield
    finally:
        inspect.getfile = getfile


def started() -> None:
    """End the start: garbage is looked for again, among what is made from now on."""
    gc.freeze()
    gc.enable()

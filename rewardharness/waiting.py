"""What this process waits for: the model layer reports it, and a display shows it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_displays: list[Callable[[str], None]] = []


def on_wait(text: str) -> None:
    """Report what is waited for, as in "429 from URL, again in 2 s; 3 of 12 waiting"; empty once nothing is."""
    for display in list(_displays):
        display(text)


@contextmanager
def shown(display: Callable[[str], None]) -> Iterator[None]:
    """Show what is waited for in this context. `display` may be called from any thread."""
    _displays.append(display)
    try:
        yield
    finally:
        _displays.remove(display)

"""What all tabs are made of."""

from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr

QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
"""How events behave that are no part of the public API and whose progress we show ourselves."""

KEPT = 6 * 3600
"""Seconds for which a visitor's session remembers what it holds."""

Updates = dict[Any, Any]
"""Parts of the page, and what becomes of them. Parts that are not named stay as they are."""


def waiting_at(part: gr.Markdown) -> dict[str, Any]:
    """Return how events behave that may wait long: a line above a part shows the place in the queue.

    The line goes with the first update of an event, which is to come when its work begins.
    """
    return {"api_visibility": "private", "show_progress": "minimal", "show_progress_on": part}


def announced(sign: Callable[[], Updates], work: Callable[..., Updates]) -> Callable[..., Iterator[Updates]]:
    """Return work that gives a sign when it begins."""

    def run(*values: Any) -> Iterator[Updates]:
        begun = sign()
        yield begun
        yield begun | work(*values)

    return run


def markup(value: str = "", **options: Any) -> gr.Markdown:
    """A place for markup of the views. Formulas are off: foreign text must not be typeset."""
    return gr.Markdown(value, latex_delimiters=[], **options)

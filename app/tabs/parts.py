"""Widgets and event options shared by all tabs."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any

import gradio as gr

QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
"""Options of events outside the public API that show their own progress."""

VOTE_EVENTS: dict[str, Any] = {"concurrency_limit": 20, "concurrency_id": "votes"}
"""Options of events that store a vote: each waits for the commit that it shares with others."""

KEPT = 6 * 3600
"""Lifetime of session state in seconds."""

Updates = dict[Any, Any]
"""New values per widget. Other widgets do not change."""


class Widgets:
    """Base of dataclasses whose fields are widgets or groups of them: tuples, mappings and other `Widgets`."""

    @property
    def parts(self) -> list[Any]:
        """All widgets in the order of the fields, those of groups included."""
        return list(_flat(vars(self).values()))


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, Widgets):
            yield from value.parts
        elif isinstance(value, Mapping):
            yield from _flat(value.values())
        elif isinstance(value, tuple):
            yield from _flat(value)
        else:
            yield value


def waiting_at(part: gr.Markdown) -> dict[str, Any]:
    """Return options of events that may wait: a line above a widget shows the position in the queue.

    The line disappears with the first update of the event, which comes when its work starts.
    """
    return {"api_visibility": "private", "show_progress": "minimal", "show_progress_on": part}


def announced(progress: Callable[[], Updates], work: Callable[..., Updates]) -> Callable[..., Iterator[Updates]]:
    """Return a handler that sends an update when its work starts."""

    @wraps(work)  # Gradio passes a login to the parameters that are annotated
    def run(*values: Any) -> Iterator[Updates]:
        begun = progress()
        yield begun
        yield begun | work(*values)

    return run


def markup(value: str = "", **options: Any) -> gr.Markdown:
    """Return a Markdown widget without formulas, since foreign text must not be typeset."""
    return gr.Markdown(value, latex_delimiters=[], **options)

"""Widgets and event options shared by all tabs."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any

import gradio as gr
from gradio.blocks import Block

QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
"""Options of events outside the public API that show their own progress."""

VOTE_EVENTS: dict[str, Any] = {"concurrency_limit": 20, "concurrency_id": "votes"}
"""Options of events that store a vote: each waits for the commit that it shares with others."""

KEPT = 6 * 3600
"""Lifetime of session state in seconds."""

Updates = dict[Any, Any]
"""New values per widget. Other widgets do not change."""


class Widgets:
    """Base of groups of widgets that draw themselves.

    Attributes that are widgets, or tuples, mappings and groups of them, are parts; others are not.
    """

    @property
    def parts(self) -> list[Any]:
        """All widgets in the order in which they were set, those of groups included, each once."""
        return list(dict.fromkeys(_flat(vars(self).values())))


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, Block):
            yield value
        elif isinstance(value, Widgets):
            yield from value.parts
        elif isinstance(value, Mapping | tuple):
            yield from _flat(value.values() if isinstance(value, Mapping) else value)


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


def textbox(label: str, name: str, value: str = "", **options: Any) -> gr.Textbox:
    """Return a field for one line. `name`: its element id."""
    return gr.Textbox(value, label=label, elem_id=name, **{"max_lines": 1, "max_length": 1000, **options})


def secret(label: str, name: str, info: str, **options: Any) -> gr.Textbox:
    """Return a field for a key, which the browser does not store. `name`: its element id."""
    attributes = gr.InputHTMLAttributes(autocomplete="off", spellcheck=False)
    options = {"type": "password", "max_length": 500, "html_attributes": attributes, **options}
    return textbox(label, name, info=info, **options)


def button(text: str, name: str, **options: Any) -> gr.Button:
    """Return a button that is as wide as its text. `name`: its element id."""
    return gr.Button(text, elem_id=name, **{"size": "md", "scale": 0, **options})


def choices(label: str, name: str, offered: Sequence[Any] = (), **options: Any) -> gr.Radio:
    """Return a choice whose texts may have several lines. `name`: its element id."""
    return gr.Radio(list(offered), label=label, elem_id=name, elem_classes="choices", **options)


def section(title: str, **options: Any) -> gr.Accordion:
    """Return a slim section, closed."""
    return gr.Accordion(title, **{"open": False, "elem_classes": "slim", **options})


def state(value: Any = None) -> gr.State:
    """Return a value that is stored on the server for each visitor."""
    return gr.State(value, time_to_live=KEPT)

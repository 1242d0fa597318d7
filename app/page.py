"""The page as Gradio builds it, without work and bytes that this app does not need."""

from copy import copy
from typing import Any

import gradio as gr
from gradio.blocks import BlockFunction
from gradio.data_classes import BlocksConfigDict
from gradio.state_holder import SessionState

from app.fairness import FairQueue

DESCRIBED = ("api_info", "api_info_as_input", "api_info_as_output", "example_inputs")
"""What the configuration of a widget says for programs: four fifths of it, and the page does not read it."""


class Page(gr.Blocks):  # type: ignore[misc]  # Gradio has no types for it
    """A page with a fair queue, no open endpoints but the named ones, and a short configuration.

    Args:
        title: Title of the page.
        cache: Seconds between two removals of old files, and their age.
        local: See `FairQueue`.
        proxied: See `FairQueue`.
    """

    def __init__(self, title: str, cache: tuple[int, int], *, local: bool, proxied: bool) -> None:
        self._shared = {"local": local, "proxied": proxied}
        super().__init__(title=title, analytics_enabled=False, delete_cache=cache, fill_width=False)
        self.api_open = False

    def queue(self) -> "Page":
        """Give the page its queue. Gradio's own method builds all routes, which `launch` does again."""
        self._queue = FairQueue(self, **self._shared)
        return self

    def get_config_file(self) -> BlocksConfigDict:
        """Return the configuration, in which only widgets of named endpoints are described for programs."""
        config = super().get_config_file()
        named = [event for event in self.fns.values() if event.api_visibility == "public"]
        public = {widget._id for event in named for widget in (*event.inputs, *event.outputs)}
        for widget in config["components"]:
            if widget["id"] not in public:
                for key in DESCRIBED:
                    widget.pop(key, None)
        # The page would refuse a photograph before `assets/scaling.js` scales it down; the server keeps its limit.
        config["max_file_size"] = None
        return config

    async def postprocess_data(
        self, block_fn: BlockFunction, predictions: Any, state: SessionState | None
    ) -> list[Any]:
        """Return what the page gets; for outputs that the answer of a handler leaves out, an empty update.

        For these outputs, too, Gradio would construct the widget and its configuration again.
        """
        if not isinstance(predictions, dict) or not predictions.keys() <= set(block_fn.outputs):
            return list(await super().postprocess_data(block_fn, predictions, state))
        given = copy(block_fn)
        given.outputs = [widget for widget in block_fn.outputs if widget in predictions]
        values = [predictions[widget] for widget in given.outputs]
        made = await super().postprocess_data(given, values[0] if len(values) == 1 else values, state)
        updates = dict(zip(given.outputs, made, strict=True))
        return [updates.get(widget, None if widget.stateful else gr.skip()) for widget in block_fn.outputs]

"""The page as Gradio builds it, without work and bytes that this app does not need, and its colors and sizes.

`assets/style.css` styles our own markup.
"""

import re
from copy import copy
from typing import Any

import gradio as gr
from gradio.blocks import BlockFunction
from gradio.data_classes import BlocksConfigDict
from gradio.routes import templates, toorjson
from gradio.state_holder import SessionState
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.fairness import FairQueue

DESCRIBED = ("api_info", "api_info_as_input", "api_info_as_output", "example_inputs")
"""What the configuration of a widget says for programs: four fifths of it, and the page does not read it."""

UNREAD = ("key", "preserved_by_key", "skip_api", "delete_callback")
"""What the page reads of no widget: for layouts that are drawn again, and for programs."""


START = """(config => {
const ids = list => list.map(each => each.id), {layout, components, dependencies} = config;
config.page = {"": {layout, components: ids(components), dependencies: ids(dependencies)}};
Object.setPrototypeOf(dependencies, (class extends Array {}).prototype);
})(window.gradio_config)"""
"""Runs before Gradio's page: names the only page, and keeps Svelte from watching the list of events.

The list never changes, and Svelte watches plain arrays and objects alone. For each widget the page goes through all
events; watched ones take half of the time until it can be used.
"""
ONCE = """;for (const {targets} of window.gradio_config.dependencies) {
  const all = [...targets];
  let pass = 0;
  targets[Symbol.iterator] = () => (++pass % 2 ? all : []).values();
}"""
"""Leaves out another third of the work, in the version of Gradio whose page reads the starts of events twice.

The second time, it searches all widgets for each of them, to give it arguments of the event; no event here has any.
"""
READS_TWICE = "6.31.0"
"""The version for which the browser tests have shown this."""


def _config_of_page(value: Any) -> Any:
    if not isinstance(value, dict) or not value.get("components"):
        return toorjson(value)
    text = toorjson({**value, "page": {}})
    once = ONCE if gr.__version__ == READS_TWICE else ""
    return type(text)(f"{text};{START}{once}")


templates.env.filters["toorjson"] = _config_of_page


class Page(gr.Blocks):  # type: ignore[misc]  # Gradio has no types for it
    """A page with a fair queue, no open endpoints but the named ones, and a short configuration.

    Args:
        title: Title of the page.
        cache: Seconds between two removals of old files, and their age.
        local: See `FairQueue`.
        proxied: See `FairQueue`.
    """

    agreed: gr.State
    """Whether Libraries that the address names are loaded from the Hub."""

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
        events = [event for event in self.fns.values() if event.api_visibility == "public"]
        public = {widget._id for event in events for widget in (*event.inputs, *event.outputs)}
        for widget in config["components"]:
            widget["component_class_id"] = ""  # a long hash that only widgets of other packages need
            described = () if widget["id"] in public else DESCRIBED
            named = widget["id"] in public or widget["type"] == "tabs"  # the page reads the name of tabs alone
            unselected = () if widget["props"].get("_selectable") else ("_selectable",)
            for key in (*UNREAD, *described, *unselected, *(() if named else ("name",))):
                widget.pop(key, None)
                widget["props"].pop(key, None)
            if attributes := widget["props"].get("html_attributes"):
                widget["props"]["html_attributes"] = {
                    key: value for key, value in attributes.items() if value is not None
                }
        for event in config["dependencies"]:
            # The page searches all widgets for that of an event, also for None, of what follows on another event.
            event["targets"] = [(config["layout"]["id"] if name is None else name, on) for name, on in event["targets"]]
            event.pop("max_batch_size", None)
            if event["api_visibility"] != "public":
                event.pop("api_description", None)
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
        function = copy(block_fn)
        function.outputs = [widget for widget in block_fn.outputs if widget in predictions]
        values = [predictions[widget] for widget in function.outputs]
        made = await super().postprocess_data(function, values[0] if len(values) == 1 else values, state)
        updates = dict(zip(function.outputs, made, strict=True))
        return [updates.get(widget, None if widget.stateful else gr.skip()) for widget in block_fn.outputs]


PUBLIC = "public, max-age=31536000, immutable"
PRIVATE = "private, max-age=86400, immutable"

_BUILT = re.compile(r"/assets/(?:[^/]+/)*[^/]+-[\w-]{8}\.(?:js|css|woff2?|ttf|svg|png|wasm)")
"""Files of the page; the name ends in eight letters of a hash."""

_UPLOADED = re.compile(r"/gradio_api/file=.*/[0-9a-f]{64}/[^/]+")
"""Images of visitors and of samples; the folder is the hash of the content. Gradio removes them after a day."""


def policy(path: str) -> str | None:
    """Return the `Cache-Control` of a path; None for one whose content may change."""
    if _BUILT.fullmatch(path):
        return PUBLIC
    return PRIVATE if _UPLOADED.fullmatch(path) else None


class CacheMiddleware:
    """Adds `Cache-Control` to successful answers.

    Args:
        app: The app.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        wanted = policy(str(scope.get("path", ""))) if scope["type"] == "http" else None

        async def reply(message: Message) -> None:
            if wanted is not None and message["type"] == "http.response.start" and message["status"] in {200, 206, 304}:
                MutableHeaders(scope=message)["Cache-Control"] = wanted
            await send(message)

        await self._app(scope, receive, reply)


_LOOK = {
    ("#f7f7f5", "#131416"): "body_background_fill",
    ("#ffffff", "#1b1d20"): "background_fill_primary block_background_fill",
    ("#f1f1ee", "#17191b"): "background_fill_secondary",
    ("1px",): "block_border_width button_border_width input_border_width",
    ("#e3e3de", "#2c2f34"): "block_border_color border_color_primary",
    ("none",): "block_shadow checkbox_label_shadow",
    ("600",): "block_title_text_weight block_label_text_weight button_large_text_weight",
    ("*neutral_800", "*neutral_100"): "block_title_text_color",
    ("*background_fill_primary", "*background_fill_primary"): "block_label_background_fill",
    ("*neutral_700", "*neutral_200"): "block_label_text_color",
    ("*neutral_600", "*neutral_400"): "block_info_text_color",
    ("#ffffff", "#131416"): "input_background_fill",
    ("#cfcfc8", "#3b3f45"): "input_border_color button_secondary_border_color",
    ("*primary_600", "*primary_400"): "input_border_color_focus",
    ("*neutral_500", "*neutral_400"): "input_placeholder_color",
    ("*primary_700", "*primary_700"): "button_primary_background_fill",
    ("*primary_800", "*primary_800"): "button_primary_background_fill_hover",
    ("#ffffff", "#ffffff"): "button_primary_text_color",
    ("#ffffff", "#23262a"): "button_secondary_background_fill",
    ("#f1f1ee", "#2c2f34"): "button_secondary_background_fill_hover",
    ("transparent", "transparent"): "button_primary_border_color",
    ("*primary_700", "*primary_300"): "link_text_color",
    ("*primary_50", "#12312e"): "checkbox_label_background_fill_selected",
    ("*primary_900", "*primary_100"): "checkbox_label_text_color_selected",
    ("*primary_600", "*primary_500"): "checkbox_label_border_color_selected",
    ("16px",): "layout_gap",
    ("*primary_700",): "color_accent",
    ("500",): "button_medium_text_weight button_small_text_weight",
    ("*primary_700", "*primary_500"): "checkbox_background_color_selected checkbox_border_color_selected",
}
"""Variables of the theme that differ from Gradio's, by their values in light and in dark.

An asterisk refers to the palettes of Gradio.
"""


def make_theme() -> gr.themes.Base:
    """Build the theme: system fonts, quiet neutral surfaces, one accent color, light and dark."""
    theme = gr.themes.Base(
        primary_hue=gr.themes.colors.teal,
        secondary_hue=gr.themes.colors.teal,
        neutral_hue=gr.themes.colors.zinc,
        radius_size=gr.themes.sizes.radius_lg,
        text_size=gr.themes.sizes.text_md,
        font=["system-ui", "-apple-system", "Segoe UI", "Roboto", "Noto Sans", "sans-serif"],
        font_mono=["ui-monospace", "SFMono-Regular", "Consolas", "Liberation Mono", "monospace"],
    )
    return theme.set(
        **{
            name + mode: value
            for values, names in _LOOK.items()
            for name in names.split()
            for mode, value in zip(("", "_dark"), values, strict=False)
        }
    )

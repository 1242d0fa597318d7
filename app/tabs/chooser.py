"""The choice of a Library, shared by all tabs: the built-in one, a folder, or one on the Hugging Face Hub."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr

from app import hub_views
from app.libraries import BUILTIN, FOLDER, HUB
from app.releases import RELEASE
from app.services import AppServices
from app.tabs.guard import explain
from app.tabs.parts import KEPT, QUIET, Updates, markup
from app.tabs.visitors import visitor_of
from rewardharness.errors import HarnessError

IN_ADDRESS, BEFORE = "library", "before"
"""Query parameters of the page that select a Library, as in `?library=org/name@v1.0.0`, and one to compare it with.

They take `builtin` too, and on the computer that runs the app an absolute path.
"""

NOT_LOADED = "The Library could not be loaded; see the choice of the Library."

HUB_EVENTS: dict[str, Any] = {"concurrency_limit": 4, "concurrency_id": "hub", **QUIET}
"""Options of events that query the Hub."""


@dataclass(frozen=True)
class Chooser:
    """The widgets of one choice. Handlers take their values and make a `Choice`."""

    kind: gr.Radio
    folder: gr.Textbox
    spec: gr.Textbox
    loaded: gr.State
    events: tuple[Any, ...]
    """Events that may change the choice: the page has opened, a Library of the Hub was loaded."""

    @property
    def parts(self) -> list[gr.components.Component]:
        """The widgets with the choice, in the order of the fields of `Choice`."""
        return [self.kind, self.folder, self.spec, self.loaded]


def make_chooser(
    services: AppServices,
    name: str,
    label: str,
    *,
    address: str = IN_ADDRESS,
    aloud: bool = True,
    release: bool = False,
    after: Any = None,
) -> Chooser:
    """Draw a choice of Libraries; a path can be entered only on the computer that runs the app.

    Args:
        services: The services.
        name: Prefix of the element ids, unique in the page.
        label: Label of the choice.
        address: Query parameter of the page that selects a Library here; empty for none.
        aloud: Whether a notification announces that, since the choice may be out of sight.
        release: Whether the Library of the release that the app is fixed to is a choice.
        after: The event that the address is read after; by default the page has opened.
    """
    choices = services.libraries.choices()
    if release and services.fixed is not None:
        choices.insert(0, (f"Of {services.fixed.name}", RELEASE))
    kind = gr.Radio(choices, value=choices[0][1], label=label, elem_id=f"{name}-kind", visible=len(choices) > 1)
    folder = gr.Textbox(
        label="Folder of the Library",
        info="The folder with registry.json.",
        placeholder="/home/me/my-library",
        max_lines=1,
        max_length=1000,
        visible=False,
        elem_id=f"{name}-folder",
    )
    loaded = gr.State(None, time_to_live=KEPT)
    hub, spec, button, status = _draw_hub(name)

    def show(chosen: str, path: str = "") -> Updates:
        value = {"value": path} if path else {}
        return {folder: gr.Textbox(visible=chosen == FOLDER, **value), hub: gr.Column(visible=chosen == HUB)}

    def load(token: gr.OAuthToken | None, profile: gr.OAuthProfile | None, typed: str) -> Updates:
        try:
            library = services.hub.load(typed, visitor_of(token, profile))
        except HarnessError as error:
            message = hub_views.hub_error(error, with_login=services.hub.with_login)
        except Exception as error:  # every error is shown, so that the page stays usable
            message = explain(error)
        else:
            return {loaded: library, status: hub_views.loaded(library)}
        return {loaded: None, status: message}

    def arrive(request: gr.Request, token: gr.OAuthToken | None, profile: gr.OAuthProfile | None) -> Updates:
        typed = str(dict(request.query_params).get(address, ""))[:1000].strip()
        if typed == BUILTIN:
            return {kind: gr.Radio(value=BUILTIN), **show(BUILTIN)}
        if services.local and Path(typed).is_absolute():
            return {kind: gr.Radio(value=FOLDER), **show(FOLDER, typed)}
        if not typed:
            return {status: gr.skip()}
        typed = typed[:260]
        updates = load(token, profile, typed)
        if aloud and updates[loaded] is not None:
            gr.Info(hub_views.announcement(updates[loaded]), title="Library from the address", duration=8)
        elif aloud:
            gr.Warning(NOT_LOADED, title="Library from the address")
        return {kind: gr.Radio(value=HUB), spec: gr.Textbox(value=typed), **show(HUB), **updates}

    kind.input(show, kind, [folder, hub], queue=False, **QUIET)
    fetched = gr.on([button.click, spec.submit], load, spec, [loaded, status], **HUB_EVENTS)
    events = [fetched]
    if address:
        opened = gr.on if after is None else after.then
        events.append(opened(fn=arrive, outputs=[kind, folder, hub, spec, loaded, status], **HUB_EVENTS))
    return Chooser(kind, folder, spec, loaded, tuple(events))


def _draw_hub(name: str) -> tuple[gr.Column, gr.Textbox, gr.Button, gr.Markdown]:
    with gr.Column(visible=False, elem_id=f"{name}-hub") as hub:
        spec = gr.Textbox(
            label="Library on the Hub",
            placeholder="org/name@v1.0.0",
            max_lines=1,
            max_length=260,
            elem_id=f"{name}-spec",
        )
        button = gr.Button("Load", elem_id=f"{name}-load", size="md", scale=0, min_width=120)
        status = markup(hub_views.hub_hint(), elem_id=f"{name}-status")
    return hub, spec, button, status

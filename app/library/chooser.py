"""The choice of a Library, shared by all tabs: the built-in one, a folder, or one on the Hugging Face Hub."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import gradio as gr

from app.library import hub_views
from app.library.libraries import BUILTIN, FOLDER, HUB, Visitor
from app.score.releases import RELEASE
from app.services import AppServices
from app.widgets import QUIET, Updates, Widgets, button, markup, state, textbox

T = TypeVar("T")

IN_ADDRESS, BEFORE = "library", "before"
"""Query parameters of the page that select a Library, as in `?library=org/name@v1.0.0`, and one to compare it with.

They take `builtin` too, and on the computer that runs the app an absolute path.
"""

NOT_LOADED = "The Library could not be loaded; see the choice of the Library."

HUB_EVENTS: dict[str, Any] = {"concurrency_limit": 4, "concurrency_id": "hub", **QUIET}
"""Options of events that query the Hub."""


def asking_hub(services: AppServices, work: Callable[..., T], failed: Callable[[str], T]) -> Callable[..., T]:
    """Return a handler that asks the Hub with the rights of the visitor.

    Args:
        services: The services.
        work: Gets the visitor and the values of the widgets.
        failed: Returns what the page shows for an error that was put into words.
    """

    def run(token: gr.OAuthToken | None, profile: gr.OAuthProfile | None, *values: Any) -> T:
        try:
            return work(services.visitor(token, profile), *values)
        except Exception as error:  # every error is shown, so that the page stays usable
            return failed(hub_views.explain_hub(error, services.hub))

    return run


class Chooser(Widgets):
    """One choice of a Library; a path can be entered only on the computer that runs the app.

    Handlers take the values of `inputs` and make a `Choice`.

    Args:
        services: The services.
        name: Prefix of the element ids, unique in the page.
        label: Label of the choice.
        address: Query parameter of the page that selects a Library here; empty for none.
        aloud: Whether a notification announces that, since the choice may be out of sight.
        release: Whether the Library of the release that the app is fixed to is a choice.
        after: The event that the address is read after; by default the page has opened.
    """

    def __init__(
        self,
        services: AppServices,
        name: str,
        label: str,
        *,
        address: str = IN_ADDRESS,
        aloud: bool = True,
        release: bool = False,
        after: Any = None,
    ) -> None:
        self._services, self._address, self._aloud = services, address, aloud
        kinds = services.libraries.choices()
        if release and services.fixed is not None:
            kinds.insert(0, (f"Of {services.fixed.name}", RELEASE))
        self.kind = gr.Radio(kinds, value=kinds[0][1], label=label, elem_id=f"{name}-kind", visible=len(kinds) > 1)
        self.folder = textbox(
            "Folder of the Library", f"{name}-folder", info="The folder with registry.json.",
            placeholder="/home/me/my-library", visible=False,
        )  # fmt: skip
        self.loaded = state()
        with gr.Column(visible=False, elem_id=f"{name}-hub") as self.hub:
            self.spec = textbox("Library on the Hub", f"{name}-spec", placeholder="org/name@v1.0.0", max_length=260)
            load = button("Load", f"{name}-load", min_width=120)
            self.status = markup(hub_views.HUB_HINT, elem_id=f"{name}-status")
        self.kind.input(self._show, self.kind, [self.folder, self.hub], queue=False, **QUIET)
        changed = [self.loaded, self.status]
        # Events that may change the choice: a Library of the Hub was loaded, the page has opened.
        self._loading = asking_hub(services, self._load, lambda text: {self.loaded: None, self.status: text})
        self.events = [gr.on([load.click, self.spec.submit], self._loading, self.spec, changed, **HUB_EVENTS)]
        if address:
            changed = [self.kind, self.folder, self.hub, self.spec, *changed]
            self.events.append((gr.on if after is None else after.then)(fn=self._arrive, outputs=changed, **HUB_EVENTS))
        self.inputs: list[Any] = [self.kind, self.folder, self.spec, self.loaded]
        """The widgets with the choice, in the order of the fields of `Choice`."""

    def _show(self, chosen: str, path: str = "") -> Updates:
        value = {"value": path} if path else {}
        folder = gr.Textbox(visible=chosen == FOLDER, **value)
        return {self.folder: folder, self.hub: gr.Column(visible=chosen == HUB)}

    def _load(self, visitor: Visitor, typed: str) -> Updates:
        library = self._services.hub.load(typed, visitor)
        return {self.loaded: library, self.status: hub_views.loaded(library)}

    def _arrive(self, request: gr.Request, token: gr.OAuthToken | None, profile: gr.OAuthProfile | None) -> Updates:
        typed = str(dict(request.query_params).get(self._address, ""))[:1000].strip()
        if typed == BUILTIN:
            return {self.kind: gr.Radio(value=BUILTIN), **self._show(BUILTIN)}
        if self._services.local and Path(typed).is_absolute():
            return {self.kind: gr.Radio(value=FOLDER), **self._show(FOLDER, typed)}
        if not typed:
            return {self.status: gr.skip()}
        typed = typed[:260]
        updates = self._loading(token, profile, typed)
        if self._aloud and updates[self.loaded] is not None:
            gr.Info(hub_views.announcement(updates[self.loaded]), title="Library from the address", duration=8)
        elif self._aloud:
            gr.Warning(NOT_LOADED, title="Library from the address")
        return {self.kind: gr.Radio(value=HUB), self.spec: gr.Textbox(value=typed), **self._show(HUB), **updates}

"""The choice of a Library, shared by all tabs: the built-in one, a folder, or one on the Hugging Face Hub."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import gradio as gr
from gradio.context import Context

from app import markup as m
from app.library import hub_views
from app.library.libraries import BUILTIN, FOLDER, HUB, Choice, Loaded, Visitor
from app.page import Page
from app.score.releases import RELEASE
from app.services import AppServices
from app.widgets import QUIET, Updates, Widgets, button, markup, state, textbox
from rewardharness.errors import HarnessError

T = TypeVar("T")

IN_ADDRESS, BEFORE = "library", "before"
"""Query parameters of the page that select a Library, as in `?library=org/name@v1.0.0`, and one to compare it with.

They take `builtin` too, and on the computer that runs the app an absolute path.
"""

NOT_LOADED = "It could not be loaded; “From the Hugging Face Hub” says why. Choose a Library there."

HUB_EVENTS: dict[str, Any] = {"concurrency_limit": 4, "concurrency_id": "hub", **QUIET}
"""Options of events that query the Hub."""


TO_ADDRESS = """(kind, folder, spec) =>
  window.rhPlace.put("NAME", {builtin: "builtin", folder: folder, hub: spec}[kind] ?? "")"""
"""Puts the chosen Library into the address."""


def addressed(request: gr.Request, name: str, *, local: bool) -> Choice | None:
    """Return the Library that a query parameter of the page names, as typed; None if there is none."""
    typed = str(dict(request.query_params).get(name, ""))[:1000].strip()
    if local and Path(typed).is_absolute():
        return Choice(FOLDER, folder=typed)
    if typed == BUILTIN:
        return Choice(BUILTIN)
    return Choice(HUB, spec=typed[:260]) if typed else None


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
        options: dict[str, Any] = {"label": "Saved in this app", "visible": False, "elem_id": f"{name}-saved"}
        self.saved = gr.Dropdown(services.libraries.saved(), value=None, **options)
        self.loaded = state()
        with gr.Column(visible=False, elem_id=f"{name}-hub") as self.hub:
            self.spec = textbox("Library on the Hub", f"{name}-spec", placeholder="org/name@v1.0.0", max_length=260)
            load = button("Load", f"{name}-load", min_width=120)
            self.status = markup(hub_views.HUB_HINT, elem_id=f"{name}-status")
        self.kind.input(self._show, self.kind, [self.folder, self.saved, self.hub], queue=False, **QUIET)
        changed = [self.spec, self.loaded, self.status]
        # Events that may change the choice: a Library of the Hub was loaded, the page has opened.
        self._loading = asking_hub(services, self._load, lambda text: {self.loaded: None, self.status: text})
        inputs = [self.spec, self.loaded]
        self.events = [gr.on([load.click, self.spec.submit], self._loading, inputs, changed, **HUB_EVENTS)]
        self.events.append(self.saved.input(lambda path: path, self.saved, self.folder, queue=False, **QUIET))
        if address:
            changed = [self.kind, self.folder, self.saved, self.hub, *changed]
            page = Context.root_block
            assert isinstance(page, Page)
            # Without triggers `gr.on` runs when the page opens, and when the visitor agrees.
            arrived: dict[str, Any] = {"fn": self._arrive, "inputs": page.agreed, "outputs": changed, **HUB_EVENTS}
            self.events.append(gr.on(**arrived) if after is None else after.then(**arrived))
            chosen = [self.kind.input, self.folder.submit, load.click, self.spec.submit]
            spelled = [self.kind, self.folder, self.spec]
            gr.on(chosen, None, spelled, None, js=TO_ADDRESS.replace("NAME", address), **QUIET)
        self.inputs: list[Any] = [self.kind, self.folder, self.spec, self.loaded]
        """The widgets with the choice, in the order of the fields of `Choice`."""

    def _show(self, chosen: str, path: str = "") -> Updates:
        value = {"value": path} if path else {}
        copies = self._services.libraries.saved() if chosen == FOLDER else []
        return {
            self.folder: gr.Textbox(visible=chosen == FOLDER, **value),
            self.saved: gr.Dropdown(copies, value=None, visible=bool(copies)),
            self.hub: gr.Column(visible=chosen == HUB),
        }

    def point_to(self, folder: str) -> Updates:
        """Choose a folder on this computer."""
        return {self.kind: gr.Radio(value=FOLDER), **self._show(FOLDER, folder)}

    def _load(self, visitor: Visitor, typed: str, former: Loaded | None) -> Updates:
        try:
            library = self._services.hub.load(typed, visitor)
        except HarnessError as error:
            if former is None:
                raise
            text = hub_views.explain_hub(error, self._services.hub) + m.faint(f"{former.name} stays chosen.")
            return {self.spec: former.spec, self.status: text}
        return {self.loaded: library, self.status: hub_views.loaded(library)}

    def _arrive(
        self, agreed: bool, request: gr.Request, token: gr.OAuthToken | None, profile: gr.OAuthProfile | None
    ) -> Updates:
        choice = addressed(request, self._address, local=self._services.local)
        if choice is None or (choice.kind == HUB and not agreed):
            return {self.status: gr.skip()}
        chosen = {self.kind: gr.Radio(value=choice.kind), **self._show(choice.kind, choice.folder)}
        if choice.kind != HUB:
            return chosen
        updates = self._loading(token, profile, choice.spec, None)
        if updates[self.loaded] is None and self._aloud:
            gr.Warning(NOT_LOADED, title="Library from the address")
        elif self._aloud:
            gr.Info(hub_views.announcement(updates[self.loaded]), title="Library from the address", duration=8)
        return {**chosen, self.spec: gr.Textbox(value=choice.spec), **updates}

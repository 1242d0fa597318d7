"""The Lineage tab: widgets and events."""

from typing import Any

import gradio as gr

from app.failures import explaining_at
from app.library.chooser import Chooser
from app.library.libraries import Choice
from app.lineage import views
from app.lineage.services import LineageView
from app.services import AppServices
from app.widgets import QUIET, Updates, Widgets, button, markup, textbox

RECORDS, OTHER, LIBRARY = "records", "folder", "library"
"""What is shown: the records in the default folder, those in another folder, or the lineage of a Library."""

EVERYTHING = ""
"""Value of `about` for the whole lineage."""


class _Tab(Widgets):
    """The widgets and their handlers. Stateless."""

    def __init__(self, services: AppServices, tab: gr.Tab) -> None:
        self._services, local = services, services.local
        markup(views.introduction(local=local))
        kinds = [("Records on this computer", RECORDS), ("Records in a folder", OTHER), ("A Library", LIBRARY)]
        kinds = kinds if local else kinds[-1:]
        self.kind = gr.Radio(kinds, value=kinds[0][1], label="Show", elem_id="lineage-kind", visible=local)
        with gr.Column(visible=not local) as self.library:
            self.chooser = Chooser(services, "lineage-library", "Library whose lineage is shown", aloud=False)
        with gr.Row(elem_id="lineage-what"):
            self.folder = textbox(
                "Folder with records", "lineage-folder", info="It contains files such as manifest.NAME.json.",
                placeholder="/home/me/lineage", visible=False, min_width=280,
            )  # fmt: skip
            self.about = gr.Dropdown(
                [("Everything", EVERYTHING)], value=EVERYTHING, label="About", min_width=240, elem_id="lineage-about",
                info="Shows the causes, effects and details of one item.",
            )  # fmt: skip
            refresh = button("Refresh", "lineage-refresh", min_width=140)
        self.message = markup(elem_id="lineage-message")
        self.diagram = markup(elem_id="lineage-diagram")
        self.hidden = markup(elem_id="lineage-hidden")
        self.details = markup(elem_id="lineage-details")
        with gr.Accordion("Table", open=False, visible=False, elem_id="lineage-as-table") as self.table_part:
            self.table = markup(elem_id="lineage-table")
        shown: dict[str, Any] = {
            "fn": self.show,
            "inputs": [self.kind, self.folder, self.about, *self.chooser.inputs],
            "outputs": self.parts,
            "concurrency_limit": 2,
            "concurrency_id": "lineage",
            **QUIET,
        }
        triggers = [self.folder.submit, self.about.input, self.chooser.folder.submit, self.chooser.kind.input]
        gr.on([tab.select, refresh.click, *triggers], **shown)
        for loaded in self.chooser.events:
            loaded.then(**shown)
        self.kind.input(self.choose, self.kind, self.parts, queue=False, **QUIET).then(**shown)

    @property
    def tab(self) -> "_Tab":
        """Where errors are shown."""
        return self

    def choose(self, kind: str) -> Updates:
        """Show the fields of a choice."""
        return {
            self.folder: gr.Textbox(visible=kind == OTHER),
            self.library: gr.Column(visible=kind == LIBRARY),
            self.about: gr.Dropdown([("Everything", EVERYTHING)], value=EVERYTHING),
        }

    @explaining_at("tab")
    def show(self, kind: str, folder: str, about: str | None, *values: Any) -> Updates:
        """Read the chosen lineage and show it."""
        choice, folder = Choice(*values), (folder or "").strip() if kind == OTHER else ""
        services, chosen = self._services.lineage, about or EVERYTHING
        if choice.is_pending if kind == LIBRARY else kind == OTHER and not folder:
            return self.empty()
        if kind != LIBRARY:
            view = services.of_records(folder, chosen)
            nothing = views.no_records(folder or str(services.default_folder))
            return self._filled(view) if view.choices else self.empty(nothing)
        library = self._services.libraries.open(choice)
        if not library.lineage:
            return self.empty(views.no_lineage(self._services.libraries.name(choice), local=self._services.local))
        return self._filled(services.of_library(library, chosen))

    def _filled(self, view: LineageView) -> Updates:
        chosen = view.chosen.id if view.chosen else EVERYTHING
        return {
            self.message: "",
            self.about: gr.Dropdown([("Everything", EVERYTHING), *view.choices], value=chosen, visible=True),
            self.diagram: views.diagram(view),
            self.hidden: views.hidden(view),
            self.details: views.details(view.chosen),
            self.table_part: gr.Accordion(visible=True),
            self.table: views.as_table(view.graph),
        }

    def empty(self, message: str = "") -> Updates:
        """Show a message instead of a lineage."""
        return {
            self.message: message,
            self.about: gr.Dropdown(visible=False),
            **dict.fromkeys((self.diagram, self.hidden, self.details, self.table), ""),
            self.table_part: gr.Accordion(visible=False),
        }


def build_lineage_tab(services: AppServices, tab: gr.Tab) -> None:
    """Build the tab.

    Args:
        services: The services.
        tab: The tab; its content is read when it is selected.
    """
    _Tab(services, tab)

"""The Lineage tab: widgets and events."""

from dataclasses import dataclass
from typing import Any

import gradio as gr

from app.libraries import FOLDER, HUB, Choice
from app.lineage import views
from app.lineage.services import LineageView
from app.services import AppServices
from app.tabs.chooser import Chooser, make_chooser
from app.tabs.guard import explain
from app.tabs.parts import QUIET, Updates, markup

RECORDS, OTHER, LIBRARY = "records", "folder", "library"
"""What is shown: the records in the default folder, those in another folder, or the lineage of a Library."""

EVERYTHING = ""
"""Value of `about` for the whole lineage."""


@dataclass(frozen=True)
class _Tab:
    """The widgets."""

    kind: gr.Radio
    folder: gr.Textbox
    library: gr.Column
    chooser: Chooser
    about: gr.Dropdown
    message: gr.Markdown
    diagram: gr.Markdown
    hidden: gr.Markdown
    details: gr.Markdown
    table_part: gr.Accordion
    table: gr.Markdown
    compare_part: gr.Accordion
    base: gr.Dropdown
    new: gr.Dropdown
    judges: gr.Checkbox
    compared: gr.Markdown

    @property
    def inputs(self) -> list[Any]:
        """Inputs of `_Events.show`."""
        return [self.kind, self.folder, self.about, *self.chooser.parts]

    @property
    def outputs(self) -> list[Any]:
        """All widgets that events update."""
        return [widget for widget in vars(self).values() if not isinstance(widget, Chooser)]


def build_lineage_tab(services: AppServices, tab: gr.Tab) -> None:
    """Build the tab.

    Args:
        services: The services.
        tab: The tab; its content is read when it is selected.
    """
    markup(views.introduction(local=services.local))
    kinds = [("Records on this computer", RECORDS), ("Records in a folder", OTHER), ("A Library", LIBRARY)]
    kinds = kinds if services.local else kinds[-1:]
    kind = gr.Radio(kinds, value=kinds[0][1], label="Show", elem_id="lineage-kind", visible=services.local)
    with gr.Column(visible=not services.local) as library:
        chooser = make_chooser(services, "lineage-library", "Library whose lineage is shown", aloud=False)
    with gr.Row(elem_id="lineage-what"):
        folder = gr.Textbox(
            label="Folder with records",
            info="It contains files such as manifest.NAME.json.",
            placeholder="/home/me/lineage",
            max_lines=1,
            max_length=1000,
            visible=False,
            elem_id="lineage-folder",
            min_width=280,
        )
        about = gr.Dropdown(
            [("Everything", EVERYTHING)],
            value=EVERYTHING,
            label="About",
            info="Shows the causes, effects and details of one item.",
            elem_id="lineage-about",
            min_width=240,
        )
        refresh = gr.Button("Refresh", elem_id="lineage-refresh", size="md", scale=0, min_width=140)
    message = markup(elem_id="lineage-message")
    diagram = markup(elem_id="lineage-diagram")
    hidden = markup(elem_id="lineage-hidden")
    details = markup(elem_id="lineage-details")
    with gr.Accordion("Table", open=False, visible=False, elem_id="lineage-as-table") as table_part:
        table = markup(elem_id="lineage-table")
    with gr.Accordion("Compare two evals", open=False, visible=False, elem_id="lineage-compare") as compare_part:
        with gr.Row(equal_height=True):
            base = gr.Dropdown([], label="Reference", elem_id="lineage-base", min_width=200)
            new = gr.Dropdown([], label="Compared eval", elem_id="lineage-new", min_width=200)
        judges = gr.Checkbox(False, label="Allow different judges", elem_id="lineage-judges")
        compare = gr.Button("Compare", elem_id="lineage-compare-them", size="md", scale=0, min_width=160)
        compared = markup(views.COMPARE_HINT, elem_id="lineage-compared")
    widgets = _Tab(
        kind, folder, library, chooser, about, message, diagram, hidden, details, table_part, table, compare_part, base,
        new, judges, compared,
    )  # fmt: skip
    _connect(_Events(services, widgets), tab, refresh, compare)


def _connect(events: "_Events", tab: gr.Tab, refresh: gr.Button, compare: gr.Button) -> None:
    tabs = events.widgets
    options: dict[str, Any] = {"concurrency_limit": 2, "concurrency_id": "lineage", "outputs": tabs.outputs, **QUIET}
    triggers = [tab.select, refresh.click, tabs.folder.submit, tabs.chooser.folder.submit, tabs.chooser.kind.input]
    gr.on([*triggers, tabs.about.input], events.show, tabs.inputs, **options)
    for loaded in tabs.chooser.events:
        loaded.then(events.show, tabs.inputs, **options)
    tabs.kind.input(events.choose, tabs.kind, tabs.outputs, queue=False, **QUIET).then(
        events.show, tabs.inputs, **options
    )
    compare.click(events.compare, [tabs.kind, tabs.folder, tabs.base, tabs.new, tabs.judges], tabs.compared, **QUIET)


class _Events:
    """Event handlers. Stateless."""

    def __init__(self, services: AppServices, widgets: _Tab) -> None:
        self._services = services
        self.widgets = widgets

    def choose(self, kind: str) -> Updates:
        """Show the fields of a choice."""
        widgets = self.widgets
        return {
            widgets.folder: gr.Textbox(visible=kind == OTHER),
            widgets.library: gr.Column(visible=kind == LIBRARY),
            widgets.about: gr.Dropdown([("Everything", EVERYTHING)], value=EVERYTHING),
            widgets.compared: views.COMPARE_HINT,
        }

    def show(self, kind: str, folder: str, about: str | None, *values: Any) -> Updates:
        """Read the chosen lineage and show it."""
        choice, folder = Choice(*values), (folder or "").strip()
        incomplete = kind == OTHER and not folder
        if kind == LIBRARY:
            incomplete = (choice.kind == FOLDER and not (choice.folder or "").strip()) or (
                choice.kind == HUB and choice.loaded is None
            )
        if incomplete:
            return self._empty()
        try:
            services, chosen = self._services.lineage, about or EVERYTHING
            if kind == LIBRARY:
                library = self._services.libraries.open(choice)
                if not library.lineage:
                    return self._empty(views.no_lineage(self._services.libraries.name(choice)))
                return self._filled(services.of_library(library, chosen))
            view = services.of_records(folder if kind == OTHER else "", chosen)
            if not view.choices:
                return self._empty(views.no_records(folder if kind == OTHER else str(services.default_folder)))
            return self._filled(view)
        except Exception as error:  # any error is shown, and the page stays usable
            return self._empty(explain(error))

    def compare(self, kind: str, folder: str, base: str | None, new: str | None, judges: bool) -> str:
        """Compare two evals."""
        try:
            where = folder or "" if kind == OTHER else ""
            return views.compared(
                *self._services.lineage.compare(where, base or "", new or "", different_judges=judges)
            )
        except Exception as error:
            return explain(error)

    def _filled(self, view: LineageView) -> Updates:
        widgets, evals = self.widgets, list(view.evals)
        base, new = view.pair or (None, None)
        chosen = view.chosen.id if view.chosen else EVERYTHING
        return {
            widgets.message: "",
            widgets.about: gr.Dropdown([("Everything", EVERYTHING), *view.choices], value=chosen),
            widgets.diagram: views.diagram(view),
            widgets.hidden: views.hidden(view),
            widgets.details: views.details(view.chosen),
            widgets.table_part: gr.Accordion(visible=True),
            widgets.table: views.as_table(view.graph),
            widgets.compare_part: gr.Accordion(visible=view.pair is not None),
            widgets.base: gr.Dropdown(evals, value=base),
            widgets.new: gr.Dropdown(evals, value=new),
        }

    def _empty(self, message: str = "") -> Updates:
        widgets = self.widgets
        return {
            widgets.message: message,
            **dict.fromkeys((widgets.diagram, widgets.hidden, widgets.details, widgets.table), ""),
            widgets.table_part: gr.Accordion(visible=False),
            widgets.compare_part: gr.Accordion(visible=False),
        }

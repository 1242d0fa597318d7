"""The Lineage tab: from human preferences over edits of a Library to releases, trainings and what they are worth."""

from dataclasses import dataclass
from typing import Any

import gradio as gr

from app import lineage_views
from app.libraries import FOLDER, HUB, Choice
from app.lineage_picture import picture
from app.lineage_services import Gathered
from app.services import AppServices
from app.tabs.chooser import Chooser, make_chooser
from app.tabs.guard import explain
from app.tabs.parts import QUIET, Updates, markup

RECORDS, OTHER, LIBRARY = "records", "folder", "library"
"""What is shown: the records of this computer, those in another folder, or how a Library came to be."""

EVERYTHING = ""
"""Choice of all records."""


@dataclass(frozen=True)
class _Tab:
    """The parts."""

    kind: gr.Radio
    folder: gr.Textbox
    library: gr.Column
    chooser: Chooser
    about: gr.Dropdown
    told: gr.Markdown
    picture: gr.HTML
    table_part: gr.Accordion
    table: gr.Markdown
    compare_part: gr.Accordion
    base: gr.Dropdown
    new: gr.Dropdown
    judges: gr.Checkbox
    compared: gr.Markdown

    @property
    def inputs(self) -> list[Any]:
        """What says what is shown, in the order of the arguments of `_Events.show`."""
        return [self.kind, self.folder, self.about, *self.chooser.parts]

    @property
    def parts(self) -> list[Any]:
        """All that events may change."""
        return [each for each in vars(self).values() if not isinstance(each, Chooser)]


def build_lineage_tab(services: AppServices, tab: gr.Tab) -> None:
    """Draw the tab and connect its parts.

    Args:
        services: The services.
        tab: The tab itself; what it shows is read when it is opened.
    """
    markup(lineage_views.introduction(local=services.local))
    kinds = [("Records of this computer", RECORDS), ("Records in a folder", OTHER), ("A Library", LIBRARY)]
    kinds = kinds if services.local else kinds[-1:]
    kind = gr.Radio(kinds, value=kinds[0][1], label="Show", elem_id="lineage-kind", visible=services.local)
    with gr.Column(visible=not services.local) as library:
        chooser = make_chooser(services, "lineage-library", "How this Library came to be", aloud=False)
    with gr.Row(elem_id="lineage-what"):
        folder = gr.Textbox(
            label="Folder of records",
            info="The one with manifest.….json in it.",
            placeholder="/home/me/lineage",
            max_lines=1,
            max_length=1000,
            visible=False,
            elem_id="lineage-folder",
            min_width=280,
        )
        about = gr.Dropdown(
            [("Everything", EVERYTHING)], value=EVERYTHING, label="About", elem_id="lineage-about", min_width=240,
            visible=services.local,
        )  # fmt: skip
        again = gr.Button("Look again", elem_id="lineage-again", size="md", scale=0, min_width=140)
    told = markup(elem_id="lineage-told")
    # Not Markdown, which takes from pictures what they need. Whatever is foreign in it is escaped.
    picture = gr.HTML(elem_id="lineage-picture", js_on_load=None)
    with gr.Accordion("The same as a table", open=False, visible=False, elem_id="lineage-as-table") as table_part:
        table = markup(elem_id="lineage-table")
    with gr.Accordion("Compare two evals", open=False, visible=False, elem_id="lineage-compare") as compare_part:
        with gr.Row(equal_height=True):
            base = gr.Dropdown([], label="This eval", elem_id="lineage-base", min_width=200)
            new = gr.Dropdown([], label="With this newer one", elem_id="lineage-new", min_width=200)
        judges = gr.Checkbox(False, label="Although different judges measured", elem_id="lineage-judges")
        compare = gr.Button("Compare", elem_id="lineage-compare-them", size="md", scale=0, min_width=160)
        compared = markup(lineage_views.compare_hint(), elem_id="lineage-compared")
    parts = _Tab(
        kind, folder, library, chooser, about, told, picture, table_part, table, compare_part, base, new, judges,
        compared,
    )  # fmt: skip
    _connect(_Events(services, parts), tab, again, compare)


def _connect(events: "_Events", tab: gr.Tab, again: gr.Button, compare: gr.Button) -> None:
    parts = events.parts
    looking: dict[str, Any] = {"concurrency_limit": 2, "concurrency_id": "lineage", "outputs": parts.parts, **QUIET}
    looks = [tab.select, again.click, parts.folder.submit, parts.chooser.folder.submit, parts.chooser.kind.input]
    gr.on(looks, events.show, parts.inputs, trigger_mode="always_last", **looking)
    for came in parts.chooser.came:
        came.then(events.show, parts.inputs, **looking)
    parts.kind.input(events.choose, parts.kind, parts.parts, queue=False, **QUIET).then(
        events.show, parts.inputs, **looking
    )
    parts.about.input(events.show, parts.inputs, trigger_mode="always_last", **looking)
    compared = [parts.kind, parts.folder, parts.base, parts.new, parts.judges]
    compare.click(events.compare, compared, parts.compared, **QUIET)


class _Events:
    """Answers to what a visitor does. Holds nothing of any visitor."""

    def __init__(self, services: AppServices, parts: _Tab) -> None:
        self._services = services
        self.parts = parts

    def choose(self, kind: str) -> Updates:
        """Show the fields that belong to a choice."""
        parts = self.parts
        return {
            parts.folder: gr.Textbox(visible=kind == OTHER),
            parts.library: gr.Column(visible=kind == LIBRARY),
            parts.about: gr.Dropdown([("Everything", EVERYTHING)], value=EVERYTHING, visible=kind != LIBRARY),
            parts.compared: lineage_views.compare_hint(),
        }

    def show(self, kind: str, folder: str, about: str | None, *values: Any) -> Updates:
        """Read what is chosen, and draw it."""
        parts, choice = self.parts, Choice(*values)
        waits = kind == OTHER and not (folder or "").strip()
        if kind == LIBRARY:
            waits = (choice.kind == FOLDER and not (choice.folder or "").strip()) or (
                choice.kind == HUB and choice.loaded is None
            )
        if waits:
            return {**self._nothing(), parts.told: ""}
        try:
            return self._library(choice) if kind == LIBRARY else self._records(kind, folder, about or EVERYTHING)
        except Exception as error:  # Whatever goes wrong, the page must say so and stay usable.
            return {**self._nothing(), parts.told: explain(error)}

    def compare(self, kind: str, folder: str, base: str | None, new: str | None, judges: bool) -> str:
        """Compare two evals."""
        try:
            place = folder or "" if kind == OTHER else ""
            found = self._services.lineage.compare(place, base or "", new or "", different_judges=judges)
            return lineage_views.compared(*found)
        except Exception as error:
            return explain(error)

    def _library(self, choice: Choice) -> Updates:
        library, name = self._services.libraries.open(choice), self._services.libraries.name(choice)
        found = self._services.lineage.of_library(library)
        if not library.lineage:
            return {**self._nothing(), self.parts.told: lineage_views.no_lineage(name)}
        return self._drawn(found, f"How {name} came to be")

    def _records(self, kind: str, folder: str, about: str) -> Updates:
        place = folder if kind == OTHER else ""
        found = self._services.lineage.of_records(place or "", about)
        if not found.records:
            where = (folder or "").strip() if kind == OTHER else str(self._services.lineage.usual)
            return {**self._nothing(), self.parts.told: lineage_views.no_records(where)}
        title = next((words for words, id_ in found.records if id_ == found.chosen), "Everything")
        return {
            **self._drawn(found, title),
            self.parts.about: gr.Dropdown([("Everything", EVERYTHING), *found.records], value=found.chosen),
        }

    def _drawn(self, found: Gathered, title: str) -> Updates:
        parts, evals = self.parts, list(found.evals)
        base, new = found.pair or (None, None)
        return {
            parts.told: "",
            parts.picture: picture(found.drawn, title, found.chosen),
            parts.table_part: gr.Accordion(visible=True),
            parts.table: lineage_views.as_table(found.drawn),
            parts.compare_part: gr.Accordion(visible=found.pair is not None),
            parts.base: gr.Dropdown(evals, value=base),
            parts.new: gr.Dropdown(evals, value=new),
        }

    def _nothing(self) -> Updates:
        parts = self.parts
        return {
            parts.picture: "",
            parts.table: "",
            parts.table_part: gr.Accordion(visible=False),
            parts.compare_part: gr.Accordion(visible=False),
        }

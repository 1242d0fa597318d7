"""The Library tab: entries, routing, check, comparison and Hub."""

from typing import Any

import gradio as gr

from app.failures import explain, explaining
from app.library import hub_views
from app.library import views as library_views
from app.library.chooser import BEFORE, HUB_EVENTS, IN_ADDRESS, Chooser, addressed, asking_hub
from app.library.edit_page import Editor
from app.library.libraries import FOLDER, HUB, Choice, Visitor
from app.library.publish import draw_hub
from app.services import AppServices
from app.widgets import QUIET, Updates, Widgets, button, markup, state, textbox
from rewardharness.judging.router import route
from rewardharness.library.diff import diff_libraries
from rewardharness.library.store import Library

TO_COMPARISON = """() => {
  const tab = (row, name) => [...document.querySelectorAll(`#${row} > .tab-wrapper [role=tab]`)]
    .find(each => each.textContent.trim() === name && each.checkVisibility());
  if (!new URLSearchParams(location.search).has("before") || document.querySelector("#differences .rh")) return;
  tab("tabs", "Library")?.click();
  requestAnimationFrame(() => tab("library-tabs", "Compare")?.click());
}"""
"""Opens the comparison that the address of the page asks for, once."""


class Reader(Widgets):
    """Widgets that show a Library and one of its entries."""

    def __init__(self, services: AppServices) -> None:
        self._libraries = services.libraries
        self.library = state()
        self.summary = markup(elem_id="library-summary")

    def draw(self) -> None:
        """Draw the entries, in their tab."""
        with gr.Row(equal_height=False):
            with gr.Column(scale=5, min_width=300):
                self.search = textbox("Search", "search", placeholder="text, color, background, …", max_length=200)
                self.entries = gr.Radio([], label="Entries", elem_id="entries")
            with gr.Column(scale=8, min_width=300):
                self.head = markup(library_views.no_entry("", 1), elem_id="entry-head")
                with gr.Accordion("Text", open=True, visible=False) as self.text_part:
                    self.text = markup(elem_id="entry-text")
                with gr.Accordion("Rubric", open=True, visible=False) as self.rubric_part:
                    self.rubric = markup(elem_id="entry-rubric")
                with gr.Accordion("How it runs", open=True, visible=False) as self.tool_part:
                    self.tool = markup(elem_id="entry-tool")

    def open(self, *values: Any) -> Updates:
        """Open the chosen Library."""
        choice = Choice(*values)
        if choice.is_pending:
            return {self.summary: gr.skip()}
        library = None
        try:
            library = self._libraries.open(choice)
            summary = library_views.summary(library, self._libraries.name(choice))
        except Exception as error:  # Whatever goes wrong, the page must say so and stay usable.
            summary = explain(error, "The tab Check lists all errors and warnings.")
        return {self.library: library, self.summary: summary, self.search: "", **self.list(library, "")}

    def open_loaded(self, library: Library | None, *values: Any) -> Updates:
        """Open the loaded or initial Library, unless the visitor has opened another one already."""
        if library is not None and Choice(*values).kind not in {HUB, FOLDER}:
            return {self.summary: gr.skip()}
        return self.open(*values)

    def list(self, library: Library | None, query: str) -> Updates:
        """List the entries that match a query; none is open."""
        entries = library_views.entry_choices(library, query) if library is not None else []
        return {
            self.entries: gr.Radio(entries, value=None, label=f"Entries ({len(entries)})", visible=bool(entries)),
            **self.show(None, None),
            self.head: library_views.no_entry(query, len(entries)) if library is not None else "",
        }

    def show(self, library: Library | None, name: str | None) -> Updates:
        """Show an entry; without one the widgets are hidden."""
        entry = library.get(name) if library is not None and name is not None else None
        updates: Updates = {
            self.text_part: gr.Accordion(visible=entry is not None),
            self.rubric_part: gr.Accordion(visible=entry is not None and entry.rubric is not None),
            self.tool_part: gr.Accordion(visible=entry is not None and entry.kind == "tool"),
        }
        if entry is not None:
            updates |= {
                self.head: library_views.entry_head(entry),
                self.text: library_views.entry_document(entry),
                self.rubric: library_views.entry_rubric(entry),
                self.tool: library_views.entry_tool(entry),
            }
        return updates


def build_library_tab(services: AppServices) -> None:
    """Build the tab."""
    chooser = Chooser(services, "library", "Library", aloud=False, release=True)
    reopen = button("Open", "library-open", min_width=120, visible=False)
    reader = Reader(services)
    with gr.Tabs(elem_id="library-tabs"):
        with gr.Tab("Entries"):
            reader.draw()
        with gr.Tab("Edit"):
            Editor(services, chooser)
        with gr.Tab("Try it"):
            _draw_routing(reader)
        with gr.Tab("Check"):
            _draw_check(services, chooser)
        with gr.Tab("Compare"):
            _draw_difference(services, chooser)
        with gr.Tab("Hub"):
            draw_hub(services, chooser)
        with gr.Tab("Gallery") as gallery:
            _draw_gallery(services, gallery)
    chooser.kind.input(lambda kind: gr.Button(visible=kind == FOLDER), chooser.kind, reopen, queue=False, **QUIET)
    opened: dict[str, Any] = {"outputs": reader.parts, **QUIET}
    for event in chooser.events:
        event.then(reader.open_loaded, [reader.library, *chooser.inputs], **opened)
    gr.on([chooser.kind.input, chooser.folder.submit, reopen.click], reader.open, chooser.inputs, queue=False, **opened)
    reader.search.change(reader.list, [reader.library, reader.search], **opened)
    reader.entries.input(reader.show, [reader.library, reader.entries], queue=False, **opened)


def _draw_routing(reader: Reader) -> None:
    def try_out(library: Library | None, instruction: str | None) -> str:
        if library is None or instruction is None or not instruction.strip():
            return library_views.ROUTING_HINT
        return library_views.routed(route(library, instruction), library)

    instruction = textbox(
        "Instruction", "try-instruction", max_length=2000,
        info="Each entry is routed independently, by its triggers or its description.",
        placeholder="Replace the dog with a cat and make the sky blue.",
    )  # fmt: skip
    result = markup(library_views.ROUTING_HINT, elem_id="routed")
    instruction.change(try_out, [reader.library, instruction], result, **QUIET)


def _draw_check(services: AppServices, chooser: Chooser) -> None:
    @explaining
    def check(*values: Any) -> str:
        return library_views.problems(services.libraries.check(Choice(*values)))

    start = button("Check this Library", "check", min_width=200)
    start.click(check, chooser.inputs, markup(library_views.CHECK_HINT, elem_id="problems"), **QUIET)


def _draw_difference(services: AppServices, chooser: Chooser) -> None:
    libraries = services.libraries

    @explaining
    def compare(*values: Any) -> str:
        half = len(chooser.inputs)
        after, before = Choice(*values[:half]), Choice(*values[half:])
        names = libraries.name(before), libraries.name(after)
        return library_views.differences(diff_libraries(libraries.open(before), libraries.open(after)), *names)

    def arrive(request: gr.Request, *values: Any) -> str:
        named = [addressed(request, name, local=services.local) for name in (IN_ADDRESS, BEFORE)]
        kinds = values[0], values[len(chooser.inputs)]  # those of the Hub are loaded when the visitor agrees
        there = all(choice is None or choice.kind == kind for choice, kind in zip(named, kinds, strict=True))
        return compare(*values) if named[1] is not None and there else ""

    # One after the other, as the comparison of the address needs both; before that, its tab is not opened.
    label, last = "Earlier Library to compare with", chooser.events[-1]
    other = Chooser(services, "other-library", label, address=BEFORE, aloud=False, after=last)
    start = button("Compare", "diff", min_width=200)
    result = markup(elem_id="differences")
    inputs = [*chooser.inputs, *other.inputs]
    start.click(compare, inputs, result, **QUIET)
    other.events[-1].then(arrive, inputs, result, **QUIET).then(None, None, None, js=TO_COMPARISON, **QUIET)


def _draw_gallery(services: AppServices, tab: gr.Tab) -> None:
    """Draw the search of Libraries on the Hub. The Hub is asked when the tab is opened for the first time."""

    def search(visitor: Visitor, query: str | None) -> str:
        libraries, cached = services.hub.search(query or "", visitor)
        return hub_views.gallery(libraries, query or "", cached=cached)

    query = textbox("Search the Hub", "gallery-query", placeholder="Part of a name", max_length=200)
    result = markup(hub_views.GALLERY_HINT, elem_id="gallery")
    for event in (tab.select, query.submit):
        searching = event(lambda: hub_views.SEARCHING, None, result, queue=False, **QUIET)
        searching.then(asking_hub(services, search, str), query, result, **HUB_EVENTS)

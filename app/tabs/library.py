"""The Library tab: entries, routing, check, comparison and Hub."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gradio as gr

from app import gallery_views, hub_views, library_views
from app.libraries import FOLDER, HUB, Choice
from app.services import AppServices
from app.tabs.chooser import BEFORE, HUB_EVENTS, Chooser, make_chooser
from app.tabs.guard import explain
from app.tabs.parts import KEPT, QUIET, Updates, Widgets, markup
from app.tabs.publish import draw_hub
from app.tabs.visitors import visitor_of
from rewardharness.errors import HarnessError
from rewardharness.judging.router import route
from rewardharness.library.diff import diff_libraries
from rewardharness.library.gallery import search_libraries
from rewardharness.library.store import Library

TO_COMPARISON = """() => {
  const tab = (row, name) => [...document.querySelectorAll(`#${row} > .tab-wrapper [role=tab]`)]
    .find(each => each.textContent.trim() === name && each.checkVisibility());
  if (!new URLSearchParams(location.search).has("before") || document.querySelector("#differences .rh")) return;
  tab("tabs", "Library")?.click();
  requestAnimationFrame(() => tab("library-tabs", "Compare")?.click());
}"""
"""Opens the comparison that the address of the page asks for, once."""


@dataclass(frozen=True)
class Reader(Widgets):
    """Widgets that show a Library and one of its entries."""

    library: gr.State
    summary: gr.Markdown
    search: gr.Textbox
    entries: gr.Radio
    head: gr.Markdown
    text_part: gr.Accordion
    text: gr.Markdown
    rubric_part: gr.Accordion
    rubric: gr.Markdown
    tool_part: gr.Accordion
    tool: gr.Markdown


def build_library_tab(services: AppServices) -> None:
    """Build the tab."""
    chooser = make_chooser(services, "library", "Library", aloud=False, release=True)
    reopen = gr.Button("Open", elem_id="library-open", size="md", scale=0, min_width=120, visible=False)
    summary = markup(elem_id="library-summary")
    with gr.Tabs(elem_id="library-tabs"):
        with gr.Tab("Entries"):
            reader = _draw_reader(summary)
        with gr.Tab("Try it"):
            _draw_routing(services, reader)
        with gr.Tab("Check"):
            _draw_check(services, chooser)
        with gr.Tab("Compare"):
            _draw_difference(services, chooser)
        with gr.Tab("Hub"):
            draw_hub(services, chooser)
        with gr.Tab("Gallery") as gallery:
            _draw_gallery(services, gallery)
    _connect(services, chooser, reopen, reader)


def _draw_reader(summary: gr.Markdown) -> Reader:
    with gr.Row(equal_height=False):
        with gr.Column(scale=5, min_width=300):
            search = gr.Textbox(
                label="Search", placeholder="text, color, background, …", max_lines=1, max_length=200, elem_id="search"
            )
            entries = gr.Radio([], label="Entries", elem_id="entries")
        with gr.Column(scale=8, min_width=300):
            head = markup(library_views.no_entry("", 1), elem_id="entry-head")
            with gr.Accordion("Text", open=True, visible=False) as text_part:
                text = markup(elem_id="entry-text")
            with gr.Accordion("Rubric", open=True, visible=False) as rubric_part:
                rubric = markup(elem_id="entry-rubric")
            with gr.Accordion("How it runs", open=True, visible=False) as tool_part:
                tool = markup(elem_id="entry-tool")
    library = gr.State(None, time_to_live=KEPT)
    return Reader(library, summary, search, entries, head, text_part, text, rubric_part, rubric, tool_part, tool)


def _connect(services: AppServices, chooser: Chooser, reopen: gr.Button, reader: Reader) -> None:
    def open_library(*values: Any) -> Updates:
        choice = Choice(*values)
        if (choice.kind == FOLDER and not choice.folder.strip()) or (choice.kind == HUB and choice.loaded is None):
            return {reader.summary: gr.skip()}
        library = None
        try:
            library = services.libraries.open(choice)
            shown = library_views.summary(library, services.libraries.name(choice))
        except Exception as error:  # Whatever goes wrong, the page must say so and stay usable.
            shown = explain(error, "The tab Check lists all errors and warnings.")
        return {reader.library: library, reader.summary: shown, reader.search: "", **_listed(reader, library, "")}

    def open_loaded(library: Library | None, *values: Any) -> Updates:
        """Open the loaded or initial Library, unless the visitor has opened another one already."""
        if library is not None and Choice(*values).kind != HUB:
            return {reader.summary: gr.skip()}
        return open_library(*values)

    chooser.kind.input(lambda kind: gr.Button(visible=kind == FOLDER), chooser.kind, reopen, queue=False, **QUIET)
    opened: dict[str, Any] = {"outputs": reader.parts, **QUIET}
    for event in chooser.events:
        event.then(open_loaded, [reader.library, *chooser.parts], **opened)
    gr.on([chooser.kind.input, chooser.folder.submit, reopen.click], open_library, chooser.parts, queue=False, **opened)
    reader.search.change(
        lambda library, query: _listed(reader, library, query),
        [reader.library, reader.search],
        **opened,
    )
    reader.entries.input(
        lambda library, name: _shown(reader, library, name), [reader.library, reader.entries], queue=False, **opened
    )


def _listed(reader: Reader, library: Library | None, query: str) -> Updates:
    """List the entries that match a query; none is open."""
    choices = library_views.entry_choices(library, query) if library is not None else []
    return {
        reader.entries: gr.Radio(choices, value=None, label=f"Entries ({len(choices)})", visible=bool(choices)),
        **_shown(reader, None, None),
        reader.head: library_views.no_entry(query, len(choices)) if library is not None else "",
    }


def _shown(reader: Reader, library: Library | None, name: str | None) -> Updates:
    """Show an entry; without one the widgets are hidden."""
    entry = library.get(name) if library is not None and name is not None else None
    updates: Updates = {
        reader.text_part: gr.Accordion(visible=entry is not None),
        reader.rubric_part: gr.Accordion(visible=entry is not None and entry.rubric is not None),
        reader.tool_part: gr.Accordion(visible=entry is not None and entry.kind == "tool"),
    }
    if entry is not None:
        updates |= {
            reader.head: library_views.entry_head(entry),
            reader.text: library_views.entry_document(entry),
            reader.rubric: library_views.entry_rubric(entry),
            reader.tool: library_views.entry_tool(entry),
        }
    return updates


def _draw_routing(services: AppServices, reader: Reader) -> None:
    def try_out(library: Library | None, instruction: str | None) -> str:
        if library is None or instruction is None or not instruction.strip():
            return library_views.routing_hint()
        return library_views.routed(route(library, instruction), len(library))

    instruction = gr.Textbox(
        label="Instruction",
        info="Each entry is routed independently, by its triggers or its description.",
        placeholder="Replace the dog with a cat and make the sky blue.",
        max_lines=1,
        max_length=2000,
        elem_id="try-instruction",
    )
    result = markup(library_views.routing_hint(), elem_id="routed")
    instruction.change(try_out, [reader.library, instruction], result, **QUIET)


def _draw_check(services: AppServices, chooser: Chooser) -> None:
    def check(*values: Any) -> str:
        try:
            return library_views.problems(services.libraries.check(Choice(*values)))
        except Exception as error:
            return explain(error)

    button = gr.Button("Check this Library", elem_id="check", size="md", scale=0, min_width=200)
    result = markup(library_views.check_hint(), elem_id="problems")
    button.click(check, chooser.parts, result, **QUIET)


def _draw_difference(services: AppServices, chooser: Chooser) -> None:
    def compare(*values: Any) -> str:
        half = len(chooser.parts)
        after, before = Choice(*values[:half]), Choice(*values[half:])
        try:
            names = services.libraries.name(before), services.libraries.name(after)
            found = diff_libraries(services.libraries.open(before), services.libraries.open(after))
            return library_views.differences(found, *names)
        except Exception as error:
            return explain(error)

    def arrive(request: gr.Request, *values: Any) -> str:
        return compare(*values) if BEFORE in request.query_params else ""

    # One after the other, as the comparison of the address needs both; before that, its tab is not opened.
    label, last = "Earlier Library to compare with", chooser.events[-1]
    other = make_chooser(services, "other-library", label, address=BEFORE, aloud=False, after=last)
    button = gr.Button("Compare", elem_id="diff", size="md", scale=0, min_width=200)
    result = markup(elem_id="differences")
    given = [*chooser.parts, *other.parts]
    button.click(compare, given, result, **QUIET)
    other.events[-1].then(arrive, given, result, **QUIET).then(None, None, None, js=TO_COMPARISON, **QUIET)


def _draw_gallery(services: AppServices, tab: gr.Tab) -> None:
    """Draw the search of Libraries on the Hub. The Hub is asked when the tab is opened for the first time."""

    def search(token: gr.OAuthToken | None, profile: gr.OAuthProfile | None, query: str | None) -> Iterator[str]:
        yield gallery_views.searching()
        try:
            found = search_libraries(query or "", access=services.hub.access(visitor_of(token, profile)))
        except HarnessError as error:
            yield hub_views.hub_error(error, with_login=services.hub.with_login)
        except Exception as error:  # every error is shown, so that the page stays usable
            yield explain(error)
        else:
            yield gallery_views.gallery(found, query or "")

    query = gr.Textbox(
        label="Search the Hub", placeholder="Part of a name", max_lines=1, max_length=200, elem_id="gallery-query"
    )
    result = markup(gallery_views.hint(), elem_id="gallery")
    tab.select(search, query, result, **HUB_EVENTS)
    query.submit(search, query, result, **HUB_EVENTS)

"""The session on the Score tab: what survives a reload, earlier comparisons, and sharing a result."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.context import Context

from app import views
from app.comparisons import Comparison
from app.services import AppServices
from app.sessions import Draft, Sessions
from app.tabs.guard import explain
from app.tabs.parts import QUIET, Updates, markup
from app.tabs.score.events import ScoreEvents

TOKEN = """() => {
  let token = sessionStorage.getItem("rh-session");
  if (!token) {
    token = [...crypto.getRandomValues(new Uint8Array(16))].map(each => each.toString(16).padStart(2, "0")).join("");
    sessionStorage.setItem("rh-session", token);
  }
  return [token];
}"""
"""Returns the name of the session; the tab of the browser keeps it."""


@dataclass(frozen=True)
class SessionParts:
    """The widgets."""

    token: gr.Textbox
    keep: gr.Button
    kept: gr.Markdown
    section: gr.Accordion
    history: gr.Gallery

    @property
    def parts(self) -> list[Any]:
        """All widgets but the name of the session."""
        return [self.keep, self.kept, self.section, self.history]


def draw_sharing(services: AppServices) -> tuple[tuple[gr.Button, ...], gr.Button, gr.Markdown]:
    """Draw the buttons that share a result: links to its record, report and picture, and one that keeps a link."""
    titles = {
        "download": "Download as JSON",
        "share-report": "Download a report (HTML)",
        "share-picture": "Download a picture (PNG)",
    }
    with gr.Row(elem_id="share"):
        downloads = tuple(gr.Button(title, elem_id=name, size="md", scale=0) for name, title in titles.items())
        keep = gr.Button("Keep a link", elem_id="share-keep", size="md", scale=0, visible=services.local)
    return downloads, keep, markup(elem_id="share-kept")


def draw_history() -> tuple[gr.Accordion, gr.Gallery]:
    """Draw the earlier comparisons."""
    with gr.Accordion("Earlier comparisons", visible=False, elem_id="history-section") as section:
        history = gr.Gallery(
            label="Earlier comparisons, newest first",
            columns=6,
            height="auto",
            object_fit="contain",
            format="webp",
            interactive=False,
            allow_preview=False,
            buttons=[],
            elem_id="history",
        )
    return section, history


class SessionEvents:
    """Handlers of the session. Sessions are named by a secret of the browser's tab."""

    def __init__(self, services: AppServices, events: ScoreEvents, parts: SessionParts) -> None:
        self._services = services
        self._events = events
        self._parts = parts
        self.sessions = Sessions()

    def arrive(self, token: str) -> Updates:
        """Fill in what the session had on the page before a reload."""
        self._services.warm_up()
        session = self.sessions.of(token)
        updates: Updates = {self._parts.token: token, **self._history(session.past)}
        if session.draft != Draft() and session.draft.is_there():
            updates |= self._events.restore(session.draft, session.past[0].comparison if session.past else None)
        return updates

    def check_current(self, token: str, comparison: Comparison | None, *given: Any) -> Updates:
        """Keep the inputs of the session, name scaled images, and warn if the result is outdated.

        See `ScoreEvents.check_current` for the arguments.
        """
        draft = self._events.draft(given)
        self.sessions.draft(token, draft)
        return {**self._events.name_scaled(draft), **self._events.check_current(comparison, *given)}

    def remember(self, token: str, comparison: Comparison | None) -> Updates:
        """Keep a result."""
        parts = self._parts
        if comparison is None:
            return {parts.kept: ""}
        try:
            return {parts.kept: "", **self._history(self.sessions.add(token, comparison).past)}
        except Exception as error:  # an upload was removed: the result stays as it is
            return {parts.kept: explain(error)}

    def _history(self, past: Sequence[Any]) -> Updates:
        found = [(each.thumbnail, views.history_caption(each.comparison)) for each in past]
        section = gr.Accordion(label=f"Earlier comparisons ({len(found)})", visible=len(found) > 1)
        return {self._parts.section: section, self._parts.history: found}

    def reopen(self, token: str, chosen: gr.SelectData) -> Updates:
        """Show an earlier comparison with its inputs."""
        past = self.sessions.of(token).past
        number = chosen.index if isinstance(chosen.index, int) else -1
        if not 0 <= number < len(past):
            return {self._parts.kept: ""}
        comparison = past[number].comparison
        example = comparison.example
        paths = [str(image.path) for image in example.images]
        count = len(example.sources)
        draft = Draft(paths[0], tuple(paths[count:]), tuple(paths[1:count]), example.instruction)
        try:
            return {**self._events.restore(draft, comparison), self._parts.kept: ""}
        except Exception as error:
            return {self._parts.kept: explain(error)}

    def keep(self, comparison: Comparison | None) -> str:
        """Keep the report of a result under an address of this app."""
        if comparison is None:
            return views.session_expired()
        try:
            return views.kept(self._services.keep(comparison))
        except Exception as error:
            return explain(error)

    def connect(self, comparison: gr.State, others: list[Any]) -> None:
        """Connect the widgets.

        Args:
            comparison: The result on the page.
            others: All other widgets of the tab.
        """
        parts, token = self._parts, self._parts.token
        everything = [*others, token, *parts.parts]
        page = Context.root_block
        assert page is not None
        page.load(self.arrive, token, everything, js=TOKEN, **QUIET)
        parts.history.select(self.reopen, token, everything, **QUIET)
        parts.keep.click(self.keep, comparison, parts.kept, **QUIET)

"""The session on the Score tab: what survives a reload, earlier comparisons, and a link to a result.

The page makes up a session's name, 128 random bits that stay in the browser's tab, so that it cannot be guessed.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr
from gradio.context import Context
from PIL import Image

from app.failures import explaining, explaining_at
from app.score import views
from app.score.comparisons import NO_DRAFT, Comparison, Draft
from app.score.events import ScoreEvents
from app.services import AppServices
from app.viewer.pictures import shrunk
from app.widgets import QUIET, Updates
from rewardharness.schema import ImageInput

TOKEN = """() => {
  let token = sessionStorage.getItem("rh-session");
  if (!token) {
    token = [...crypto.getRandomValues(new Uint8Array(16))].map(each => each.toString(16).padStart(2, "0")).join("");
    sessionStorage.setItem("rh-session", token);
  }
  return [token];
}"""
"""Returns the name of the session; the tab of the browser keeps it."""

MAX_KEPT = 200
"""Maximum number of comparisons of all sessions; the oldest sessions go first."""

SHOWN = 20
"""Maximum number of comparisons of one session."""

THUMBNAIL = 240
"""Longest side of a thumbnail in pixels."""

_TOKEN = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Past:
    """A comparison and its thumbnail."""

    comparison: Comparison
    thumbnail: Image.Image


@dataclass(frozen=True)
class Session:
    """One session."""

    draft: Draft = NO_DRAFT
    past: tuple[Past, ...] = ()
    """Newest first."""


class Sessions:
    """The sessions of an app; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def of(self, token: str) -> Session:
        """Return a session; an empty one for an unknown name."""
        with self._lock:
            return self._sessions.get(token, Session())

    def draft(self, token: str, draft: Draft) -> None:
        """Keep the inputs of a session."""
        self._put(token, lambda session: replace(session, draft=draft))

    def add(self, token: str, comparison: Comparison) -> Session:
        """Keep a comparison of a session, and return the session."""
        past = Past(comparison, _thumbnail(comparison))

        def added(session: Session) -> Session:
            others = [each for each in session.past if each.comparison != comparison]
            return replace(session, past=(past, *others[: SHOWN - 1]))

        return self._put(token, added)

    def _put(self, token: str, change: Callable[[Session], Session]) -> Session:
        if not _TOKEN.fullmatch(token):
            return Session()
        with self._lock:
            session = self._sessions[token] = change(self._sessions.get(token, Session()))
            self._sessions.move_to_end(token)
            while len(self._sessions) > 1 and sum(1 + len(each.past) for each in self._sessions.values()) > MAX_KEPT:
                self._sessions.popitem(last=False)
            return session


def _thumbnail(comparison: Comparison) -> Image.Image:
    example, preferred = comparison.example, comparison.judgment.preference
    shown = dict(zip(example.labels, example.candidate_images, strict=True))
    image = shown.get(preferred or "", example.candidate_images[0])
    assert isinstance(image, ImageInput)
    return shrunk(image, THUMBNAIL)


class SessionEvents:
    """Handlers of the session. Sessions are named by a secret of the browser's tab."""

    def __init__(self, services: AppServices, events: ScoreEvents) -> None:
        self._services, self._events, self._parts = services, events, events.outputs
        self.sessions = Sessions()

    def arrive(self, token: str) -> Updates:
        """Fill in what the session had on the page before a reload."""
        self._services.warm_up()
        session = self.sessions.of(token)
        updates: Updates = {self._parts.token: token, **self._history(session.past)}
        if session.draft != NO_DRAFT and session.draft.is_there():
            updates |= self._events.restore(session.draft, session.past[0].comparison if session.past else None)
        return updates

    def check_current(self, token: str, comparison: Comparison | None, *values: Any) -> Updates:
        """Keep the inputs of the session, name scaled images, and warn if the result is outdated.

        See `ScoreEvents.check_current` for the arguments.
        """
        draft = self._events.draft(values)
        self.sessions.draft(token, draft)
        return {**self._events.name_scaled(draft), **self._events.check_current(comparison, *values)}

    @explaining_at("_parts.kept")  # an upload was removed: the result stays as it is
    def remember(self, token: str, comparison: Comparison | None) -> Updates:
        """Keep a result."""
        added = self._history(self.sessions.add(token, comparison).past) if comparison is not None else {}
        return {self._parts.kept: "", **added}

    def _history(self, past: Sequence[Past]) -> Updates:
        shown = [(each.thumbnail, views.history_caption(each.comparison)) for each in past]
        section = gr.Accordion(label=f"Earlier comparisons ({len(shown)})", visible=len(shown) > 1)
        return {self._parts.history_section: section, self._parts.history: shown}

    @explaining_at("_parts.kept")
    def reopen(self, token: str, chosen: gr.SelectData) -> Updates:
        """Show an earlier comparison with its inputs."""
        past = self.sessions.of(token).past
        number = chosen.index if isinstance(chosen.index, int) else -1
        comparison = past[number].comparison if 0 <= number < len(past) else None
        shown = {} if comparison is None else self._events.restore(Draft.of(comparison.example), comparison)
        return {**shown, self._parts.kept: ""}

    def connect(self, everything: list[Any]) -> None:
        """Connect the widgets. `everything`: all widgets of the tab."""
        parts, token, page = self._parts, self._parts.token, Context.root_block
        assert page is not None
        page.load(self.arrive, token, everything, js=TOKEN, **QUIET)
        parts.history.select(self.reopen, token, everything, **QUIET)
        parts.keep.click(self.keep, parts.comparison, parts.kept, **QUIET)

    @explaining
    def keep(self, comparison: Comparison | None) -> str:
        """Keep the report of a result under an address of this app."""
        return views.SESSION_EXPIRED if comparison is None else views.kept(self._services.keep(comparison))

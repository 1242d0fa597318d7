"""The session on the Score tab: what survives a reload, earlier comparisons, and a link to a result.

The page makes up a session's name, 128 random bits that stay in the browser's tab, so that it cannot be guessed.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import gradio as gr
from gradio.context import Context
from gradio.processing_utils import save_file_to_cache
from gradio.utils import get_upload_folder
from PIL import Image

from app.failures import explaining_at
from app.score import views
from app.score.comparisons import NO_DRAFT, Comparison, Draft
from app.score.events import ScoreEvents
from app.score.links import ADDRESS
from app.services import AppServices
from app.viewer.pictures import shrunk
from app.widgets import QUIET, Updates
from rewardharness.schema import ImageInput

TOKEN = """() => [[sessionStorage, "rh-session"], [localStorage, "rh-maker"]].map(([store, name]) => {
  let token = store.getItem(name);
  if (!token) {
    token = [...crypto.getRandomValues(new Uint8Array(16))].map(each => each.toString(16).padStart(2, "0")).join("");
    store.setItem(name, token);
  }
  return token;
})"""
"""Returns the name of the session, which the tab of the browser keeps, and the secret of the browser for its links."""

FULL_ADDRESS = "link => [link && new URL(link, location.origin + location.pathname).href]"
"""Returns the address of a link with that of the app."""

ARRIVED = "() => window.rhPlace.put('comparison', '')"
"""Takes a link out of the address once its inputs are on the page: from then on the session keeps them."""

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
    at: datetime = field(default_factory=lambda: datetime.now().astimezone(), compare=False)


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
            others = [entry for entry in session.past if entry.comparison != comparison]
            return replace(session, past=(past, *others[: SHOWN - 1]))

        return self._put(token, added)

    def remove(self, token: str, gone: Sequence[Comparison]) -> Session:
        """Forget comparisons of a session, and return the session."""

        def without(session: Session) -> Session:
            return replace(session, past=tuple(entry for entry in session.past if entry.comparison not in gone))

        return self._put(token, without)

    def _put(self, token: str, change: Callable[[Session], Session]) -> Session:
        if not _TOKEN.fullmatch(token):
            return Session()
        with self._lock:
            session = self._sessions[token] = change(self._sessions.get(token, Session()))
            self._sessions.move_to_end(token)
            while len(self._sessions) > 1 and sum(1 + len(entry.past) for entry in self._sessions.values()) > MAX_KEPT:
                self._sessions.popitem(last=False)
            return session


def _thumbnail(comparison: Comparison) -> Image.Image:
    example, preferred = comparison.example, comparison.judgment.preference
    images = dict(zip(example.labels, example.candidate_images, strict=True))
    image = images.get(preferred or "", example.candidate_images[0])
    assert isinstance(image, ImageInput)
    return shrunk(image, THUMBNAIL)


class SessionEvents:
    """Handlers of the session. Sessions are named by a secret of the browser's tab."""

    def __init__(self, services: AppServices, events: ScoreEvents) -> None:
        self._services, self._events, self._parts = services, events, events.outputs
        self.sessions = Sessions()

    def arrive(self, token: str, maker: str, request: gr.Request) -> Updates:
        """Fill in the link that the address names, or what the session had on the page before a reload."""
        self._services.warm_up()
        session, parts = self.sessions.of(token), self._parts
        updates: Updates = {parts.token: token, parts.maker: maker, **self._history(session.past)}
        if link := str(dict(request.query_params).get("comparison", "")):
            return updates | self._opened(link, maker)
        if session.draft != NO_DRAFT and session.draft.is_there():
            updates |= self._events.restore(session.draft, session.past[0].comparison if session.past else None)
        return updates

    def _opened(self, link: str, maker: str) -> Updates:
        parts, links = self._parts, self._services.links
        if (draft := links.draft(link)) is None:
            return {parts.verdict: views.opened(known=False)}
        source, candidates, references = (
            tuple(path and save_file_to_cache(path, get_upload_folder()) for path in paths)
            for paths in ((draft.source,), draft.candidates, draft.references)
        )
        draft = replace(draft, source=source[0], candidates=candidates, references=references)
        updates = self._linked(ADDRESS.format(name=link)) if links.may_delete(link, maker) else {}
        return {**self._events.restore(draft, None), parts.verdict: views.opened(known=True), **updates}

    def _linked(self, address: str) -> Updates:
        parts = self._parts
        return {parts.kept: "", parts.link: address, parts.link_row: gr.Row(visible=bool(address))}

    def check_current(self, token: str, comparison: Comparison | None, *values: Any) -> Updates:
        """Keep the inputs of the session, name scaled images, and warn if the result is outdated.

        See `ScoreEvents.check_current` for the arguments.
        """
        draft = self._events.draft(values)
        self.sessions.draft(token, draft)
        said = {**self._events.name_scaled(draft), **self._events.understand(draft, values)}
        return {**said, **self._events.check_current(comparison, *values)}

    @explaining_at("_parts.kept")  # an upload was removed: the result stays as it is
    def remember(self, token: str, comparison: Comparison | None) -> Updates:
        """Keep a result."""
        added = self._history(self.sessions.add(token, comparison).past) if comparison is not None else {}
        return {**self._linked(""), **added}

    def _history(self, past: Sequence[Past]) -> Updates:
        times = (f"{entry.at:%H:%M}" + ("" if self._services.local else f" {entry.at:%Z}") for entry in past)
        captions = [views.history_caption(entry.comparison, time) for entry, time in zip(past, times, strict=True)]
        tiles = list(zip((entry.thumbnail for entry in past), captions, strict=True))
        section = gr.Accordion(label=f"Earlier comparisons ({len(tiles)})", visible=bool(tiles))
        return {self._parts.history_section: section, self._parts.history: tiles}

    @explaining_at("_parts.kept")
    def reopen(self, token: str, chosen: gr.SelectData) -> Updates:
        """Show an earlier comparison with its inputs."""
        past = self.sessions.of(token).past
        number = chosen.index if isinstance(chosen.index, int) else -1
        comparison = past[number].comparison if 0 <= number < len(past) else None
        updates = {} if comparison is None else self._events.restore(Draft.of(comparison.example), comparison)
        return {**updates, **self._linked("")}

    def delete(self, token: str, *comparisons: Comparison | None) -> Updates:
        """Forget comparisons of the session and their files, by default all."""
        past = [entry.comparison for entry in self.sessions.of(token).past]
        gone = [comparison for comparison in past if not comparisons or comparison in comparisons]
        self._services.results.remove(gone)
        return {**self._history(self.sessions.remove(token, gone).past), **self._events.cleared()}

    def connect(self, everything: list[Any]) -> None:
        """Connect the widgets. `everything`: all widgets of the tab."""
        parts, token, page = self._parts, self._parts.token, Context.root_block
        assert page is not None
        arrived = page.load(self.arrive, [token, parts.maker], everything, js=TOKEN, **QUIET)
        arrived.then(None, None, None, js=ARRIVED, **QUIET)
        parts.history.select(self.reopen, token, everything, **QUIET)
        linked = [parts.kept, parts.link, parts.link_row]
        parts.keep.click(self.keep, [parts.comparison, parts.maker], linked, **QUIET)
        parts.link.change(None, parts.link, parts.link, js=FULL_ADDRESS, **QUIET)
        parts.unkeep.click(self.unlink, [parts.link, parts.maker], linked, **QUIET)
        parts.delete.click(self.delete, [token, parts.comparison], everything, **QUIET)
        parts.delete_all.click(self.delete, token, everything, **QUIET)

    @explaining_at("_parts.kept")
    def keep(self, comparison: Comparison | None, maker: str, request: gr.Request) -> Updates:
        """Keep a result under an address of this app."""
        if comparison is None:
            return {self._parts.kept: views.SESSION_EXPIRED}
        services, address = self._services, self._services.visitor(request=request).owner
        return self._linked(services.links.keep(comparison, services.results, maker, address))

    @explaining_at("_parts.kept")
    def unlink(self, link: str, maker: str) -> Updates:
        """Delete the link that is shown."""
        self._services.links.delete(link.rpartition("/")[2], maker)
        return {**self._linked(""), self._parts.kept: views.LINK_DELETED}

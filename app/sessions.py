"""What visitors have compared, kept in memory so that a reload of the page does not lose it.

The page makes up a session's name, 128 random bits that stay in the browser's tab, so that it cannot be guessed.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from PIL import Image

from app.comparisons import Comparison
from rewardharness.measure.images import load_picture
from rewardharness.schema import ImageInput

MAX_KEPT = 200
"""Maximum number of comparisons of all sessions; the oldest sessions go first."""

SHOWN = 20
"""Maximum number of comparisons of one session."""

THUMBNAIL = 240
"""Longest side of a thumbnail in pixels."""

_TOKEN = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Draft:
    """The inputs as they are on the page."""

    source: str | None = None
    candidates: tuple[str | None, ...] = ()
    references: tuple[str | None, ...] = ()
    instruction: str = ""

    def is_there(self) -> bool:
        """Return whether its images still exist; uploads are removed after a day."""
        paths = (self.source, *self.candidates, *self.references)
        return all(Path(path).is_file() for path in paths if path is not None)


@dataclass(frozen=True)
class Past:
    """A comparison and its thumbnail."""

    comparison: Comparison
    thumbnail: Image.Image


@dataclass(frozen=True)
class Session:
    """One session."""

    draft: Draft = Draft()
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
    label = preferred if preferred in example.labels else example.labels[0]
    image = example.candidate_images[example.labels.index(label)]
    assert isinstance(image, ImageInput)
    shown = Image.fromarray(load_picture(image).pixels)
    shown.thumbnail((THUMBNAIL, THUMBNAIL))
    return shown

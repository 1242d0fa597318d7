"""What visitors have compared, kept in memory so that a reload of the page does not lose it.

The page makes up a visit's name, 128 random bits that stay in the browser's tab, so that nobody can guess another's.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from PIL import Image

from app.comparisons import Comparison
from rewardharness.measure.images import load_picture
from rewardharness.schema import ImageInput

MAX_KEPT = 200
"""Maximum number of comparisons of all visits; the oldest visits go first."""

SHOWN = 20
"""Maximum number of comparisons of one visit."""

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


@dataclass(frozen=True)
class Past:
    """A comparison and its thumbnail."""

    comparison: Comparison
    thumbnail: Image.Image


@dataclass(frozen=True)
class Visit:
    """One visit."""

    draft: Draft = Draft()
    past: tuple[Past, ...] = ()
    """Newest first."""


class Visits:
    """The visits of an app; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._visits: OrderedDict[str, Visit] = OrderedDict()

    def of(self, token: str) -> Visit:
        """Return a visit; an empty one for an unknown name."""
        with self._lock:
            return self._visits.get(token, Visit())

    def draft(self, token: str, draft: Draft) -> None:
        """Keep the inputs of a visit."""
        self._put(token, lambda visit: replace(visit, draft=draft))

    def add(self, token: str, comparison: Comparison) -> Visit:
        """Keep a comparison of a visit, and return the visit."""
        past = Past(comparison, _thumbnail(comparison))

        def added(visit: Visit) -> Visit:
            others = [each for each in visit.past if each.comparison != comparison]
            return replace(visit, past=(past, *others[: SHOWN - 1]))

        return self._put(token, added)

    def _put(self, token: str, change: Callable[[Visit], Visit]) -> Visit:
        if not _TOKEN.fullmatch(token):
            return Visit()
        with self._lock:
            visit = self._visits[token] = change(self._visits.get(token, Visit()))
            self._visits.move_to_end(token)
            while len(self._visits) > 1 and sum(1 + len(each.past) for each in self._visits.values()) > MAX_KEPT:
                self._visits.popitem(last=False)
            return visit


def _thumbnail(comparison: Comparison) -> Image.Image:
    example, preferred = comparison.example, comparison.judgment.preference
    label = preferred if preferred in example.labels else example.labels[0]
    image = example.candidate_images[example.labels.index(label)]
    assert isinstance(image, ImageInput)
    shown = Image.fromarray(load_picture(image).pixels)
    shown.thumbnail((THUMBNAIL, THUMBNAIL))
    return shown

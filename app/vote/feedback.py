"""Store preferences of visitors: in a folder on this disk, or in the owner's dataset repository on the Hub."""

import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from app.viewer.pictures import shrunk
from rewardharness.data.feedback import append_feedback
from rewardharness.data.folder import read_folder
from rewardharness.data.vote_store import VoteStore
from rewardharness.data.votes import make_vote, voter_id
from rewardharness.errors import InputError
from rewardharness.hub.repository import Access, Repo
from rewardharness.measure.images import encode_png
from rewardharness.schema import Example
from rewardharness.settings import Settings

HOURLY = 120
"""Maximum number of anonymous votes of one address within an hour."""

LONGEST_SIDE = 2048
"""Longest side in pixels of images that go to the Hub; larger ones are scaled down."""


@dataclass(frozen=True)
class Stored:
    """Where a preference was stored."""

    place: str
    """The folder, or the repository on the Hub."""
    vote: str = ""
    """Id of the vote in the repository; empty for a folder."""
    count: int = 0
    """Number of examples in the folder."""


class Feedback:
    """Stores preferences.

    With `RH_FEEDBACK_REPO` they go to that repository, with the token of the app's owner, which is used for nothing
    else here. Images go there as PNG files without metadata.

    Args:
        settings: The settings.
        token: The owner's token; None for that of this computer.

    Raises:
        HubError: If the name of the repository is invalid.
    """

    def __init__(self, settings: Settings, token: str | None = None) -> None:
        self._settings = settings
        self.repo = settings.feedback_repo
        self._store: VoteStore | None = None
        self._lock, self._hour, self._counts = threading.Lock(), 0, Counter[str]()
        if self.repo:
            access = Access(token, settings.hub_endpoint, settings.hub_cache)
            self._store = VoteStore(Repo(self.repo, access, "dataset"), settings.home / "votes")

    def start(self) -> None:
        """Send votes that an earlier process has left behind, in the background."""
        if self._store is not None:
            self._store.start()

    def give(
        self,
        example: Example,
        preference: str,
        *,
        name: str = "",
        session: str = "",
        both_bad: bool = False,
        context: Mapping[str, Any] | None = None,
    ) -> Stored:
        """Store a preference, and return when it is stored.

        Args:
            example: The example.
            preference: A letter, or `tie` on a pair.
            name: Account of the voter, which is stored as a keyed hash; empty if unknown.
            session: Pseudonym of the voter's address; empty if unknown.
            both_bad: Whether both candidates of a tie are bad.
            context: Displayed information, never given to a judge.

        Raises:
            HarnessError: If it cannot be stored.
        """
        voter = voter_id(name, self._settings.feedback_salt)
        if session and not voter:
            self._count(session)
        if self._store is None:
            told = {**(context or {}), **({"both_bad": True} if both_bad else {})}
            append_feedback(self._settings.feedback, example, preference, context=told)
            folder = self._settings.feedback
            return Stored(str(folder), count=len(read_folder(folder).examples))
        vote = make_vote(
            example,
            preference,
            [encode_png(np.asarray(shrunk(image, LONGEST_SIDE))) for image in example.images],
            time=datetime.now(UTC),
            voter=voter,
            session=session or None,
            both_bad=both_bad,
            context=context,
        )
        self._store.give(vote)
        return Stored(self._store.repo.name, vote.id)

    def _count(self, session: str) -> None:
        """Count an anonymous vote of an address.

        Raises:
            InputError: If the address has given too many within an hour.
        """
        with self._lock:
            hour = int(time.monotonic() // 3600)
            self._hour, self._counts = hour, self._counts if hour == self._hour else Counter()
            if self._counts[session] >= HOURLY:
                raise InputError("There were too many votes from your address.", next_step="Log in, or vote later.")
            self._counts[session] += 1

"""Store preferences of visitors: in a folder on this disk, or in the owner's dataset repository on the Hub."""

import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from app.fairness import Allowance
from app.viewer.pictures import shrunk
from rewardharness.data.folder import read_folder
from rewardharness.data.opening import FEEDBACK, open_data
from rewardharness.data.vote_store import VoteStore, forget_votes
from rewardharness.data.votes import append_feedback, make_vote, voter_id, withdraw_feedback
from rewardharness.errors import DataError, InputError
from rewardharness.hub.errors import MissingRepoError
from rewardharness.hub.repository import Access, Repo
from rewardharness.measure.images import encode_png
from rewardharness.schema import Example
from rewardharness.settings import Settings

HOURLY = 120
"""Maximum number of anonymous votes of one address within an hour."""

READ_SECONDS = 300
"""Seconds after which the votes in a repository are read again."""

LONGEST_SIDE = 2048
"""Longest side in pixels of images that go to the Hub; larger ones are scaled down."""


@dataclass(frozen=True)
class Stored:
    """Where a preference was stored."""

    place: str
    """The folder, or the repository on the Hub."""
    vote: str = ""
    """Ids of the votes in the repository, separated by spaces; empty for a folder."""
    count: int = 0
    """Number of examples in the folder."""
    ids: tuple[str, ...] = ()
    """Ids of all votes of one answer, by which it is withdrawn."""


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
        self._read: tuple[float, tuple[Example, ...]] = 0.0, ()
        """Until when the examples of the repository are cached, and these."""
        self._votes = Allowance(3600, HOURLY)
        if self.repo:
            access = Access(token, settings.hub_endpoint, settings.hub_cache)
            self._store = VoteStore(Repo(self.repo, access, "dataset"), settings.home / "votes")

    def start(self) -> None:
        """Send votes that an earlier process has left behind, in the background."""
        if self._store is not None:
            self._store.start()

    def give(
        self,
        votes: Sequence[tuple[Example, str]],
        *,
        name: str = "",
        session: str = "",
        both_bad: bool = False,
        context: Mapping[str, Any] | None = None,
    ) -> Stored:
        """Store an answer, and return when it is stored.

        Args:
            votes: Examples and preferences: a letter, or `tie` on a pair. A ranking has several pairs.
            name: Account of the voter, which is stored as a keyed hash; empty if unknown.
            session: Pseudonym of the voter's address; empty if unknown.
            both_bad: Whether both candidates of a tie are bad.
            context: Displayed information, never given to a judge.

        Raises:
            HarnessError: If it cannot be stored.
        """
        voter = voter_id(name, self._settings.feedback_salt)
        if session and not voter and not self._votes.take(session):
            raise InputError("There were too many votes from your address.", next_step="Log in, or vote later.")
        if self._store is None:
            details = {**(context or {}), **({"both_bad": True} if both_bad else {})}
            folder, ids = self._settings.feedback, tuple(secrets.token_hex(12) for _ in votes)
            for (example, preference), vote in zip(votes, ids, strict=True):
                append_feedback(folder, example, preference, context=details, vote=vote)
            return Stored(str(folder), count=len(self.examples()), ids=ids)
        made = [
            make_vote(
                example,
                preference,
                [encode_png(np.asarray(shrunk(image, LONGEST_SIDE))) for image in example.images],
                time=datetime.now(UTC),
                voter=voter,
                session=session or None,
                both_bad=both_bad,
                context=context,
            )
            for example, preference in votes
        ]
        self._store.give(*made)
        ids = tuple(vote.id for vote in made)
        return Stored(self._store.repo.name, " ".join(ids), ids=ids)

    def withdraw(self, stored: Stored) -> None:
        """Withdraw the votes of an answer: from the repository with their images, in one commit.

        Raises:
            HarnessError: If that fails; the votes are then still stored.
        """
        if self._store is None:
            for vote in stored.ids:
                withdraw_feedback(self._settings.feedback, vote)
        else:
            forget_votes(self._store.repo, votes=stored.ids)
            self._read = 0.0, ()

    def examples(self) -> tuple[Example, ...]:
        """Return the examples that were voted on, with their labels. Those of a repository are read every few minutes.

        Raises:
            HarnessError: If the repository cannot be read.
        """
        if self._store is None:
            with suppress(DataError):
                return read_folder(self._settings.feedback).examples
            return ()
        if time.monotonic() > self._read[0]:
            with suppress(MissingRepoError):
                examples = open_data(FEEDBACK, self._settings, token=self._store.repo.access.token).examples
                self._read = time.monotonic() + READ_SECONDS, examples
        return self._read[1]

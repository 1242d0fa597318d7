"""Store preferences of visitors: in a folder on this disk, or in the owner's dataset repository on the Hub."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from PIL import Image

from rewardharness.data.feedback import append_feedback
from rewardharness.data.folder import read_folder
from rewardharness.data.vote_store import VoteStore
from rewardharness.data.votes import make_vote, voter_id
from rewardharness.hub.repository import Access, Repo
from rewardharness.measure.images import encode_png, load_picture
from rewardharness.schema import Example, ImageInput
from rewardharness.settings import Settings

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
        both_bad: bool = False,
        context: Mapping[str, Any] | None = None,
    ) -> Stored:
        """Store a preference, and return when it is stored.

        Args:
            example: The example.
            preference: A letter, or `tie` on a pair.
            name: Account of the voter, which is stored as a keyed hash; empty if unknown.
            both_bad: Whether both candidates of a tie are bad.
            context: Displayed information, never given to a judge.

        Raises:
            HarnessError: If it cannot be stored.
        """
        if self._store is None:
            told = {**(context or {}), **({"both_bad": True} if both_bad else {})}
            append_feedback(self._settings.feedback, example, preference, context=told)
            folder = self._settings.feedback
            return Stored(str(folder), count=len(read_folder(folder).examples))
        vote = make_vote(
            example,
            preference,
            [_public_image(image) for image in example.images],
            time=datetime.now(UTC),
            voter=voter_id(name, self._settings.feedback_salt),
            both_bad=both_bad,
            context=context,
        )
        self._store.give(vote)
        return Stored(self._store.repo.name, vote.id)


def _public_image(image: ImageInput) -> bytes:
    """Return an image as PNG without metadata, scaled down to `LONGEST_SIDE`."""
    picture = Image.fromarray(load_picture(image).pixels)
    picture.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    return encode_png(np.asarray(picture))

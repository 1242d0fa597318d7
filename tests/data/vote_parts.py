"""Votes for the tests: small pictures, and the store with a short patience."""

from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path

from PIL import Image

from rewardharness.data.vote_store import Pace, VoteStore
from rewardharness.data.votes import PreferenceVote, make_vote, voter_id
from rewardharness.hub.repository import Access, Repo
from rewardharness.schema import Example, ImageInput

REPO = "ann/preferences"
NOW = datetime(2026, 3, 1, tzinfo=UTC)
QUICK = Pace(gather=0.0, first_pause=0.0, longest_pause=0.0, give_up=0.0)


def png(red: int) -> bytes:
    """A small picture; each number from 0 to 255 gives another."""
    buffer = BytesIO()
    Image.new("RGB", (24, 16), (red, 90, 30)).save(buffer, "PNG")
    return buffer.getvalue()


def example(source: int, *candidates: int, instruction: str = "make it red") -> Example:
    pictures = [ImageInput(str(red), data=png(red)) for red in (source, *candidates)]
    return Example("app", instruction, pictures[0], tuple(pictures[1:]))


def vote(about: Example, preference: str, name: str = "", minute: int = 0, **other: bool | str) -> PreferenceVote:
    images = [image.data or b"" for image in about.images]
    voter = voter_id(name, "salt")
    return make_vote(about, preference, images, time=NOW + timedelta(minutes=minute), voter=voter, **other)  # type: ignore[arg-type]


def store(access: Access, folder: Path, pace: Pace = QUICK) -> VoteStore:
    return VoteStore(Repo(REPO, access, "dataset"), folder, pace, sleep=lambda seconds: None)

"""Preferences on their way to the Hub: images without metadata, and not larger than needed."""

import random
from io import BytesIO
from pathlib import Path

import pytest
from app_parts import make_services
from hub_server import HubServer
from PIL import Image

from app.vote.feedback import HOURLY, LONGEST_SIDE, Feedback
from app.vote.service import Voting
from rewardharness.errors import InputError
from rewardharness.schema import Example, ImageInput
from rewardharness.settings import Settings


def photo(path: Path, red: int) -> ImageInput:
    """A large photo that says where it was taken."""
    exif = Image.Exif()
    exif[0x010E] = "taken at home"
    Image.new("RGB", (3000, 20), (red, 10, 10)).save(path, "JPEG", exif=exif)
    return ImageInput(path.name, path)


def test_images_go_without_metadata_and_scaled_down(tmp_path: Path) -> None:
    source, a, b = (photo(tmp_path / f"{red}.jpg", red) for red in (10, 120, 240))
    with HubServer() as hub:
        token = hub.login("ann")
        environ = {"RH_HOME": str(tmp_path / "home"), "HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(tmp_path / "hub")}
        feedback = Feedback(Settings.from_env({**environ, "RH_FEEDBACK_REPO": "ann/votes"}), token=token)
        stored = feedback.give(Example("x", "make it red", source, (a, b)), "B")
        files = hub.store.repos["datasets", "ann/votes"].find("main").files
    assert stored.place == "ann/votes" and len(stored.vote) == 24
    images = [data for path, data in files.items() if path.startswith("images/")]
    assert len(images) == 3 and not any(b"taken at home" in data for data in files.values())
    assert {Image.open(BytesIO(data)).size[0] for data in images} == {LONGEST_SIDE}


def test_a_ballot_is_used_once_and_an_address_has_a_limit(tmp_path: Path) -> None:
    services = make_services(tmp_path, local=False, RH_VOTE_DATA="demo", RH_FEEDBACK_SALT="salt")
    voting = Voting(services)
    source, a, b = (photo(tmp_path / f"{red}.jpg", red) for red in (10, 120, 240))
    voting._pairs["demo"] = tuple(Example(f"{number}", f"make it {number}", source, (a, b)) for number in range(200))
    seen: frozenset[str] = frozenset()
    for number in range(HOURLY):
        ballot = voting.next(seen, random.Random(number))
        assert ballot is not None
        seen = ballot.seen
        voting.vote(ballot, "A", "", "one")
        with pytest.raises(InputError, match="used already"):
            voting.vote(ballot, "B", "bob", "two")
    ballot = voting.next(seen, random.Random(0))
    assert ballot is not None
    with pytest.raises(InputError, match="too many votes"):
        voting.vote(ballot, "A", "", "one")
    voting.vote(ballot, "A", "bob", "one")  # what was not stored can be given again

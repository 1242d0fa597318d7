"""Preferences on their way to the Hub: images without metadata, and not larger than needed."""

import base64
import random
import signal
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
from app_parts import make_services
from commands import Rh
from hub_server import HubServer
from PIL import Image
from served import TOKEN, Server

from app.vote import page as vote_page
from app.vote.feedback import LONGEST_SIDE, Feedback, Stored
from app.vote.service import Ballot, Cast, Voting
from rewardharness.benchmark.metrics import UNDECIDED
from rewardharness.errors import InputError
from rewardharness.schema import TIE, Example, ImageInput
from rewardharness.settings import Settings


def photo(path: Path, red: int, width: int = 96) -> ImageInput:
    """A photo that says where it was taken."""
    exif = Image.Exif()
    exif[0x010E] = "taken at home"
    Image.new("RGB", (width, 20), (red, 10, 10)).save(path, "JPEG", exif=exif)
    return ImageInput(path.name, path)


def test_images_go_without_metadata_and_scaled_down(tmp_path: Path) -> None:
    source, a, b = (photo(tmp_path / f"{red}.jpg", red, LONGEST_SIDE + 9) for red in (10, 120, 240))
    with HubServer() as hub:
        token = hub.login("ann")
        environ = {"RH_HOME": str(tmp_path / "home"), "HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(tmp_path / "hub")}
        feedback = Feedback(Settings.from_env({**environ, "RH_FEEDBACK_REPO": "ann/votes"}), token=token)
        stored = feedback.give([(Example("x", "make it red", source, (a, b)), "B")])
        files = dict(hub.store.repos["datasets", "ann/votes"].find("main").files)
        other = feedback.give([(Example("x", "make it red", source, (each, b)), "A") for each in (a, source)])
        assert [example.preference for example in feedback.examples()] and len(other.ids) == 2
        feedback.withdraw(other)
        kept = hub.store.repos["datasets", "ann/votes"].find("main").files
        rows = [line for path, data in kept.items() if path.startswith("votes-") for line in data.splitlines()]
        assert len(rows) == 1 and stored.vote.encode() in rows[0] and len(feedback.examples()) == 1
    assert stored.place == "ann/votes" and len(stored.vote) == 24
    images = [data for path, data in files.items() if path.startswith("images/")]
    assert len(images) == 3 and not any(b"taken at home" in data for data in files.values())
    assert {Image.open(BytesIO(data)).size[0] for data in images} == {LONGEST_SIDE}


def make_voting(place: Path, examples: tuple[Example, ...], *, local: bool = True) -> Voting:
    services = make_services(place, local=local, RH_VOTE_DATA="demo", RH_FEEDBACK_SALT="salt")
    services.voting._examples["demo"] = examples
    return services.voting


def drawn(voting: Voting, before: Ballot | None = None, seed: int = 0) -> Ballot:
    ballot = voting.next(before, random.Random(seed), session="me")
    assert ballot is not None
    return ballot


def test_a_ballot_is_used_once_and_an_address_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.vote.feedback.HOURLY", 3)
    source, a, b = (photo(tmp_path / f"{red}.jpg", red) for red in (10, 120, 240))
    examples = tuple(Example(f"{number}", f"make it {number}", source, (a, b)) for number in range(4))
    voting, ballot = make_voting(tmp_path, examples, local=False), None
    for number in range(3):
        ballot = drawn(voting, ballot, number)
        voting.vote(ballot, "A", "", "one")
        with pytest.raises(InputError, match="used already"):
            voting.vote(ballot, "B", "bob", "two")
    ballot = drawn(voting, ballot)
    with pytest.raises(InputError, match="too many votes"):
        voting.vote(ballot, "A", "", "one")
    voting.vote(ballot, "A", "bob", "one")  # what was not stored can be given again
    assert voting.next(ballot, random.Random(0)) is None


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (["C", "A", "B"], {"CA", "CB", "CD", "AB", "AD", "BD"}),
        (["C", "tie"], {"CA", "CB", "CD", "A=B", "A=D", "B=D"}),
        (["both bad"], {"A=B", "A=C", "A=D", "B=C", "B=D", "C=D"}),
    ],
)
def test_a_ranking_is_stored_as_pairs_and_withdrawn(tmp_path: Path, answers: list[str], expected: set[str]) -> None:
    source, *edits = (photo(tmp_path / f"{red}.jpg", red) for red in (10, 60, 120, 180, 240))
    edits = [replace(edit, editor=letter) for edit, letter in zip(edits, "wxyz", strict=True)]
    voting = make_voting(tmp_path, (Example("x", "make it red", source, tuple(edits), "D"),))
    ballot = start = drawn(voting)
    shown = {edit.editor: letter for letter, edit in zip("ABCD", start.example.candidate_images, strict=True)}
    assert start.example.preference == shown["z"]
    for number, answer in enumerate(answers):
        assert not ballot.cast and len(ballot.picked) == number
        ballot = voting.vote(ballot, answer, "")
    feedback = voting._services.feedback
    stored = {
        "=".join(sorted(names)) if each.preference == TIE else "".join(names if each.preference == "A" else names[::-1])
        for each in feedback.examples()
        for names in [[shown[image.editor] for image in each.candidate_images]]
    }
    assert stored == expected and ballot.cast[0].stored.count == 6
    wins = {row.name: row.wins for row in voting.leaderboard()}
    assert set(wins) == set("wxyz") and sum(wins.values()) == 6
    back = voting.undo(ballot)
    assert feedback.examples() == () == voting.leaderboard() and back.example == start.example and not back.cast
    again = voting.vote(back, "B", "")
    assert voting.undo(again).picked == () and voting.vote(again, "tie", "").cast[0].best == "B"
    with pytest.raises(InputError, match="no vote to take back"):
        voting.undo(back)


def test_examples_that_are_sent_here_come_first_and_votes_are_compared_with_labels_and_judge(tmp_path: Path) -> None:
    source, a, b = (photo(tmp_path / f"{red}.jpg", red) for red in (10, 120, 240))
    usual, sent = (Example(name, "make it red", source, (a, b), "A") for name in ("usual", "sent"))
    inline = replace(sent, candidates=(ImageInput("a", data=a.path.read_bytes() if a.path else b""), b))
    voting = make_voting(tmp_path, (usual,))
    ballot = drawn(voting)
    with pytest.raises(InputError, match="no pairs of image edits"):
        voting.label("me", [replace(sent, candidates=(a,))], "data")
    for _ in range(2):  # the second time although it was seen
        assert voting.label("me", [inline], "data") == 1 and voting.waits("me") and not voting.waits("other")
        ballot = drawn(voting, ballot)
        assert ballot.sent and ballot.example.id == "data: sent" and ballot.total == 1
        label = str(ballot.example.preference)
        ballot, comparison = voting.judge(voting.vote(ballot, label, ""))
        assert comparison.judgment.preference and all(image.path for image in comparison.example.images)
    judge, labels = ballot.agreements
    assert len(labels) == 2 and all(row.truth == row.choice for row in labels)
    choices = [row.choice for row in judge]
    assert choices == [cast.judged for cast in ballot.cast] and None not in choices
    assert voting.next(ballot, random.Random(0)) is None
    assert voting.next(replace(ballot, sent=()), random.Random(0)) is None  # the usual one was seen


def test_the_summary_counts_labels_and_has_an_interval_from_five_answers() -> None:
    source, edits = ImageInput("s", data=b"s"), tuple(ImageInput(name, data=name.encode()) for name in "ab")
    example = Example("x", "make it red", source, edits, "A", source_id="one")

    def text(votes: int, judged: str | None, **changes: str) -> str:
        ballots = [Ballot(replace(example, source_id=f"{number}"), 1, 9, frozenset()) for number in range(votes)]
        casts = tuple(Cast(ballot, (("A",), ("B",)), Stored("here"), judged) for ballot in ballots)
        labeled = [replace(example, **({} if number else changes)) for number in range(votes)]
        return vote_page.summary(replace(ballots[0], cast=casts), labeled)

    assert "5 of 8 labels" in text(5, None) and "judge" not in text(5, None)
    assert "the judge on 0 of 4 (0%)." in text(4, "B") and "95% interval" not in text(4, "B")
    assert "the labels of the data on 5 of 5 (100%, 95% interval" in text(5, "B")
    assert "the judge on 2.5 of 5" in text(5, UNDECIDED)
    assert "needs a second source image" in text(8, "A") and "evolution needs 8" in text(8, "A", source_id="two")


@pytest.mark.slow
def test_a_sample_of_requests_is_labeled_and_evolved(tmp_path: Path, rh: Rh, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, home = tmp_path / "sample", tmp_path / "home"
    server = Server(tmp_path, "--judge", "random", "--sample", "1", str(folder), home=home)
    try:
        for number in range(8):
            media = [
                base64.b64encode(photo(tmp_path / f"{name}.jpg", 30 * number + 10 * name).path.read_bytes()).decode()
                for name in (1, 2, 3)
            ]
            given = {"source": media[0], "instruction": f"make it red, {number}", "id": "their-id"}
            items = [{**given, "edited": each, "group": "their-group"} for each in media[1:]]
            server.post("/batch_score", {"items": items})
            server.post("/score", {**given, "edited": media[1]})
    finally:
        assert server.end(signal.SIGTERM) == 0
    stored = b"".join(path.read_bytes() for path in folder.rglob("*.json*"))
    assert not any(text.encode() in stored for text in (TOKEN, "their-", "127.0.0.1", "Bearer", str(tmp_path)))
    assert stored.count(b'"judge"') == 8, "what has one candidate cannot be compared"
    voting, ballot = make_services(tmp_path, home=home).voting, None
    for _ in range(8):
        ballot = voting.next(ballot, random.Random(0), str(folder))
        assert ballot is not None and ballot.example.preference is None and ballot.total == 8
        ballot = voting.vote(ballot, "A", "")
    monkeypatch.setenv("RH_HOME", str(home))
    assert "6 training examples, 2 held out" in rh("evolve", "feedback", "--judge", "measured", "--dry-run").err


def test_generated_pairs_follow_the_samples_on_this_computer_only(tmp_path: Path) -> None:
    source, a, b = (photo(tmp_path / f"{red}.jpg", red) for red in (10, 120, 240))
    for local, expected in ((True, ["sample", "generated", ""]), (False, ["sample", "", ""])):
        voting = make_services(tmp_path, local=local).voting
        for spec, name in (("", "sample"), ("demo", "generated")):
            voting._examples[spec] = (Example(name, "make it red", source, (a, b)),)
        ballot, ids = None, []
        for number in range(3):
            found = voting.next(ballot, random.Random(number))
            ids, ballot = [*ids, found.example.id if found else ""], found or ballot
        assert ids == expected

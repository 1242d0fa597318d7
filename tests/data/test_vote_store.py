"""Votes on the Hub: acknowledged after their commit, exactly once whatever breaks, merged when they are read."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hub_parts import Hub
from vote_parts import REPO, example, store, vote

from rewardharness.cli.main import main
from rewardharness.data.opening import open_data
from rewardharness.data.source import Dataset
from rewardharness.data.vote_store import Pace, VotesNotStoredError, VoteStore, forget_votes
from rewardharness.data.votes import voter_id
from rewardharness.errors import InputError
from rewardharness.hub.repository import Repo
from rewardharness.schema import TIE


def held(hub: Hub) -> dict[str, bytes]:
    """All files of the repository."""
    return dict(hub.server.store.repos["datasets", REPO].find("main").files)


def rows(hub: Hub) -> list[dict[str, object]]:
    """All votes in the repository."""
    shards = [data for path, data in sorted(held(hub).items()) if path.startswith("votes-")]
    return [json.loads(line) for data in shards for line in data.splitlines()]


def read(hub: Hub) -> Dataset:
    settings = hub.settings("reader")
    return open_data(REPO, settings, token=hub.user("ann").token)


def give_all(votes: VoteStore, *given: object) -> None:
    for each in given:
        votes.give(each)  # type: ignore[arg-type]


def test_votes_of_several_people_become_one_example_each(hub: Hub) -> None:
    votes = store(hub.user("ann"), hub.scratch / "pending")
    one, other, group = example(1, 2, 3), example(1, 3, 2), example(4, 5, 6, 7)
    give_all(
        votes,
        vote(one, "A", "bob", 0),
        vote(one, "B", "eve", 1),
        vote(other, "B", "joe", 2),  # the same images, the other way round
        vote(one, "A", "eve", 3),  # eve has changed her mind
        vote(group, "C", "bob", 4),
        vote(example(8, 9, 10), "A", "bob", 5),
        vote(example(8, 9, 10), "B", "eve", 6),
        vote(example(11, 12, 13), TIE, "", 7, both_bad=True),
    )
    repo = hub.server.store.repos["datasets", REPO]
    assert repo.private and b"CC BY 4.0" in held(hub)["README.md"] and REPO.encode() in held(hub)["README.md"]
    assert len([path for path in held(hub) if path.startswith("images/")]) == 13
    assert votes.waiting() == [] and "bob" not in json.dumps(rows(hub))
    dataset = read(hub)
    best = {}
    for each in dataset.examples:
        images = [image.path.read_bytes() for image in each.candidates if image.path]
        best[tuple(sorted(images))] = TIE if each.preference == TIE else images["ABC".index(str(each.preference))]

    def key(*reds: int) -> tuple[bytes, ...]:
        return tuple(sorted(image.data or b"" for image in example(*reds).images[1:]))

    assert len(dataset.examples) == 4
    assert best[key(1, 2, 3)] == example(1, 2).images[1].data
    assert best[key(4, 5, 6, 7)] == example(4, 7).images[1].data
    assert best[key(8, 9, 10)] == TIE == best[key(11, 12, 13)]
    assert any("People agree with each other on 50% (2 edits" in note for note in dataset.problems)
    assert dataset.agreement is not None and (dataset.agreement.share, dataset.agreement.n) == (0.5, 2)


def test_an_anonymous_session_is_one_voter_and_decides_only_where_nobody_else_has_voted(hub: Hub) -> None:
    votes = store(hub.user("ann"), hub.scratch / "pending")
    known, unknown = example(1, 2, 3), example(4, 5, 6)
    give_all(
        votes,
        vote(known, "A", "bob", 0),
        *(vote(known, "B", "", minute, session="one") for minute in range(1, 6)),
        vote(known, "B", "", 6, session="two"),  # nor do several sessions
        *(vote(unknown, "B", "", minute, session="one") for minute in range(5)),
        *(vote(unknown, "A", "", 10, session=session) for session in ("two", "three")),
    )
    [bob] = [row for row in rows(hub) if row["voter"]]
    old = {key: value for key, value in bob.items() if key != "session"} | {"vote": "0" * 24, "voter": None}
    line = f"{json.dumps(old)}\n".encode()
    Repo(REPO, hub.user("ann"), "dataset").commit({"votes-0.jsonl": line}, (), None, ("Add 1 vote", ""))
    dataset = read(hub)
    best = {each.candidates["AB".index(str(each.preference))].path.read_bytes() for each in dataset.examples}  # type: ignore[union-attr]
    assert best == {example(1, 2).images[1].data, example(4, 5).images[1].data}
    assert any("15 votes on 2 edits" in note and "14 of them are anonymous" in note for note in dataset.problems)
    assert dataset.agreement is None, "sessions are not people who agree"


@pytest.mark.parametrize("fault", ["503", "reset", "lost", "cut", "garbage"])
def test_a_vote_is_stored_once_whatever_happens_to_the_commit(hub: Hub, fault: str) -> None:
    votes = store(hub.user("ann"), hub.scratch / "pending", Pace(gather=0.0, first_pause=0.0, give_up=60.0))
    votes.give(vote(example(1, 2, 3), "A"))
    for _ in range(3):
        hub.server.fail("POST", "/commit/", fault)
    votes.give(vote(example(1, 2, 3), "B"))
    assert len(rows(hub)) == 2


def test_what_cannot_be_stored_is_kept_and_goes_with_the_next_vote(hub: Hub) -> None:
    votes = store(hub.user("ann"), hub.scratch / "pending")
    hub.server.die_at(1)
    with pytest.raises(VotesNotStoredError, match="stored with the next one"):
        votes.give(vote(example(1, 2, 3), "A"))
    assert len(votes.waiting()) == 1
    hub.server.revive()
    votes.give(vote(example(1, 2, 3), "B"))  # what was left behind follows it
    votes.give(vote(example(4, 5, 6), "A"))
    assert len(rows(hub)) == 3 and votes.waiting() == []


def test_a_repository_of_somebody_else_is_refused_at_once(hub: Hub) -> None:
    hub.server.store.create(REPO, kind="datasets")
    votes = store(hub.user("bob"), hub.scratch / "pending", Pace(gather=0.0, give_up=1e6))
    with pytest.raises(VotesNotStoredError, match="write"):
        votes.give(vote(example(1, 2, 3), "A"))


def test_votes_are_deleted_on_request(hub: Hub) -> None:
    access = hub.user("ann")
    votes, repo = store(access, hub.scratch / "pending"), Repo(REPO, access, "dataset")
    first, second = (vote(example(1, 2, last), "A", "bob") for last in (3, 4))
    third = vote(example(5, 6, 7), "A")
    give_all(votes, first, second, third)
    with pytest.raises(InputError, match="No vote is named"):
        forget_votes(repo)
    with pytest.raises(InputError, match="salt"):
        forget_votes(repo, name="bob")
    before = held(hub)
    planned = forget_votes(repo, votes=(first.id,), dry_run=True)
    assert planned.votes == (first.id,) and len(planned.images) == 1 and held(hub) == before
    done = forget_votes(repo, votes=(first.id,))
    assert done.images == planned.images and {row["vote"] for row in rows(hub)} == {second.id, third.id}
    assert set(before) - set(held(hub)) >= set(done.images)
    forget_votes(repo, name="bob", salt="salt", history=True)
    assert [row["vote"] for row in rows(hub)] == [third.id]
    assert len(hub.server.store.repos["datasets", REPO].commits) == 1
    assert len([path for path in held(hub) if path.startswith("images/")]) == 3
    assert forget_votes(repo, votes=("unknown",)).commit is None


def test_the_command_deletes_votes(hub: Hub, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    access = hub.user("ann")
    one = vote(example(1, 2, 3), "A", "bob")
    store(access, hub.scratch / "pending").give(one)
    monkeypatch.setenv("HF_TOKEN", str(access.token))
    assert main(["data", "forget", REPO, "--vote", one.id, "--dry-run"]) == 0
    assert "1 votes and 3 images" in capsys.readouterr().out and len(rows(hub)) == 1
    assert main(["data", "forget", REPO, "--vote", one.id]) == 0
    assert rows(hub) == []


def test_voters_are_told_apart_only_with_a_salt() -> None:
    assert voter_id("bob", None) is None is voter_id("", "salt")
    assert voter_id("bob", "salt") != voter_id("bob", "pepper") and "bob" not in str(voter_id("bob", "salt"))


@pytest.mark.slow
def test_killed_twenty_times_every_acknowledged_vote_is_stored_exactly_once(hub: Hub) -> None:
    script = str(Path(__file__).parent / "voting_while_killed.py")
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environ = {**os.environ, "HF_ENDPOINT": hub.server.url, "PYTHONPATH": paths}
    token = str(hub.user("ann").token)
    command = [sys.executable, script, str(hub.scratch), "20", token]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environ, check=True)
    told = [line.split() for line in done.stdout.splitlines()]
    given, acknowledged = ({name for word, name in told if word == each} for each in ("given", "stored"))
    last = vote(example(1, 2, 3), "A")
    survivor = store(hub.user("ann"), hub.scratch / "pending")
    survivor.give(last)
    found = Counter(str(row["vote"]) for row in rows(hub))
    assert acknowledged and set(found.values()) == {1}, "a vote is stored twice"
    assert acknowledged <= set(found) <= given | {last.id}
    assert survivor.waiting() == []
    assert len(read(hub).examples) > 20

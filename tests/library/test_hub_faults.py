import json
import logging
import shutil
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path

import pytest
from hub_parts import REPO, Hub, reword
from hub_server import FAULTS
from library_samples import snapshot, write_sample

from rewardharness.errors import HarnessError, LibraryError, describe
from rewardharness.library.hub import Access, HubError, PushOptions, StaleError, UnreachableError, pull, push, versions
from rewardharness.library.opening import open_library
from rewardharness.library.store import Library


def killed_at_every_request(hub: Hub, attempt: Callable[[str], object], *, applied: bool) -> Iterator[str]:
    """Let an attempt die at its first request, then anew at its second, and so on until it gets through.

    Yields:
        A word for each attempt that died; the Hub answers again then.
    """
    for number in range(1, 60):
        hub.server.revive()
        hub.server.die_at(number, applied=applied)
        word = f"{'after' if applied else 'before'}-{number}"
        try:
            attempt(word)
        except UnreachableError as error:
            assert error.next_step
            hub.server.revive()
            yield word
        else:
            assert number > 4
            return
    raise AssertionError("it never got through")


@pytest.mark.parametrize("applied", [False, True])
def test_a_first_push_that_dies_at_any_request_is_repaired_by_another(hub: Hub, tmp_path: Path, applied: bool) -> None:
    ann = hub.user("ann")
    died = []
    for word in killed_at_every_request(
        hub, lambda word: push(write_sample(tmp_path / word), f"ann/{word}", access=ann), applied=applied
    ):
        died.append(word)
        done = push(tmp_path / word, f"ann/{word}", access=ann)
        repo = hub.server.store.repos["models", f"ann/{word}"]
        assert done.version == "v0.1.0"
        assert {tag: commit for tag, (commit, _) in repo.tags.items()} == {"v0.1.0": done.commit}
        assert [each.title[:13] for each in repo.history("main")] == ["Library 0.1.0", "initial commit"[:13]]
        assert len(repo.commits) == 2
        assert push(tmp_path / word, f"ann/{word}", access=ann).nothing_to_push
        published = {name: data for name, data in repo.find("main").files.items() if name != ".gitattributes"}
        here = snapshot(tmp_path / word)
        del here[".rh-origin.json"]
        assert here == published
    assert len(died) >= 9


@pytest.mark.parametrize("applied", [False, True])
def test_a_rebased_push_that_dies_anywhere_is_repaired_by_another(hub: Hub, tmp_path: Path, applied: bool) -> None:
    ann, one, two = hub.user("ann"), tmp_path / "one", tmp_path / "two"
    push(write_sample(one), REPO, access=ann)
    pull(REPO, to=two, access=ann)
    reword(two, "Theirs.", "tools/sharpness-meter")
    push(two, REPO, access=ann)
    reword(one, "Ours.")
    start, how, died = deepcopy(hub.repo), PushOptions(rebase=True, bump="minor"), 0

    def attempt(word: str) -> object:
        hub.server.store.repos["models", REPO] = deepcopy(start)
        shutil.copytree(one, tmp_path / word)
        return push(tmp_path / word, REPO, how, access=ann)

    for word in killed_at_every_request(hub, attempt, applied=applied):
        died += 1
        done = push(tmp_path / word, REPO, how, access=ann)
        assert (done.version, hub.repo.tags["v0.2.0"][0], len(hub.repo.commits)) == ("v0.2.0", done.commit, 4)
        described = {entry.name: entry.description for entry in Library.load(tmp_path / word).entries}
        assert (described["letter-reader"], described["sharpness-meter"]) == ("Ours.", "Theirs.")
        assert push(tmp_path / word, REPO, access=ann).nothing_to_push
    assert died >= 6


@pytest.mark.parametrize("applied", [False, True])
def test_a_proposal_that_dies_at_any_request_is_made_once(hub: Hub, tmp_path: Path, applied: bool) -> None:
    ann, folder, how = hub.user("ann"), tmp_path / "mine", PushOptions(create_pr=True)
    push(write_sample(folder), REPO, access=ann)
    start = len(hub.repo.commits)
    for number in range(1, 8):
        reword(folder, f"Proposal {number}.")
        hub.server.die_at(number, applied=applied)
        with pytest.raises(UnreachableError):
            push(folder, REPO, how, access=ann)
        hub.server.revive()
        done = push(folder, REPO, how, access=ann)
        assert done.pr_url and done.pr_url.endswith(f"/{number}")
        assert (len(hub.repo.pulls), len(hub.repo.commits)) == (number, start + number)


@pytest.mark.parametrize("applied", [False, True])
def test_a_pull_that_dies_anywhere_is_repaired(
    hub: Hub, folder: Path, tmp_path: Path, applied: bool, ann: Access
) -> None:
    died = 0
    for word in killed_at_every_request(
        hub, lambda word: pull(REPO, "v0.1.0", to=tmp_path / word, access=hub.user("bob", word)), applied=applied
    ):
        died += 1
        assert not (tmp_path / word).exists()
        pulled = pull(REPO, "v0.1.0", to=tmp_path / word, access=hub.user("bob", word))
        assert (pulled.commit, pulled.offline) == (hub.head, False)
        assert snapshot(tmp_path / word) == snapshot(folder)
    assert died >= 12


@pytest.mark.parametrize("fault", sorted(FAULTS))
@pytest.mark.parametrize("part", ["POST /commit/", "POST /tag/", "POST /preupload/", "POST validate-yaml", "GET /refs"])
def test_answers_that_go_wrong_leave_no_half_a_push(hub: Hub, folder: Path, fault: str, part: str, ann: Access) -> None:
    reword(folder, "New.")
    hub.server.fail(*part.split(" "), fault)  # type: ignore[call-arg]
    try:
        push(folder, REPO, access=ann)  # the client tries some of its requests again by itself
    except HubError as error:
        assert "Traceback" not in str(describe(error))
    done = push(folder, REPO, access=ann)
    assert (done.version, hub.repo.tags["v0.1.1"][0], len(hub.repo.commits)) == ("v0.1.1", hub.head, 3)


def test_the_same_files_pushed_by_somebody_else_do_not_hide_a_moved_hub(hub: Hub, folder: Path, ann: Access) -> None:
    reword(folder, "New.")
    plan = push(folder, REPO, PushOptions(dry_run=True), access=ann)
    answer = hub.server._route

    def meanwhile(request):  # type: ignore[no-untyped-def]
        if "/preupload/" in request.path:  # just before our own commit
            hub.server._route = answer  # type: ignore[method-assign]
            files = {"README.md": plan.card, "extra/skill.md": "theirs"}
            names = ("tools/letter-reader/SKILL.md",)
            hub.repo.put({**files, **{name: (folder / name).read_bytes() for name in names}, "config.json": config})
        return answer(request)

    config = json.dumps({**json.loads(hub.files["config.json"]), "version": "0.1.1", "library_id": plan.library_id})
    hub.server._route = meanwhile  # type: ignore[method-assign]
    with pytest.raises(StaleError):
        push(folder, REPO, access=ann)
    assert "v0.1.1" not in hub.repo.tags


def test_a_tag_that_names_another_commit_is_an_error(hub: Hub, folder: Path, ann: Access) -> None:
    reword(folder, "New.")
    first, answer = hub.head, hub.server._route

    def meanwhile(request):  # type: ignore[no-untyped-def]
        if "/commit/" in request.path:
            hub.repo.tags["v0.1.1"] = (first, "somebody was faster")
        return answer(request)

    hub.server._route = meanwhile  # type: ignore[method-assign]
    with pytest.raises(HubError, match=r"v0\.1\.1 of ann/library is commit") as caught:
        push(folder, REPO, access=ann)
    hub.server._route = answer  # type: ignore[method-assign]
    assert "--bump" in caught.value.next_step
    assert push(folder, REPO, PushOptions(bump="patch"), access=ann).version == "v0.1.2"


def test_a_repository_that_drops_files_is_not_written_to(hub: Hub, folder: Path, ann: Access) -> None:
    hub.repo.put({".gitignore": "*.yaml\n"})
    before = hub.head
    pull(REPO, to=folder, access=ann)
    reword(folder, "New.")
    with pytest.raises(HubError, match=r"contains a \.gitignore, so the Hub may omit files"):
        push(folder, REPO, access=ann)
    assert hub.head == before


def test_offline_the_last_copy_is_used_and_that_is_said(
    hub: Hub, folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, ann: Access
) -> None:
    bob = hub.user("bob")
    old = pull(REPO, access=bob)
    pull(REPO, "v0.1.0", access=bob)
    reword(folder, "New.")
    push(folder, REPO, access=ann)
    hub.server.die_at(1)
    for revision, version in ((None, None), ("v0.1.0", "v0.1.0")):
        pulled = pull(REPO, revision, to=tmp_path / str(revision), access=bob)
        assert (pulled.offline, pulled.commit, pulled.version) == (True, old.commit, version)
        assert pulled.library == old.library
        assert pulled.notes[0].startswith("OFFLINE: the Hub is unreachable; using the cached copy of ann/library")
    pinned = pull(REPO, old.commit, access=bob)
    assert (pinned.offline, pinned.notes, pinned.commit) == (False, (), old.commit)
    for revision in ("v0.1.1", "main-2"):
        with pytest.raises(UnreachableError, match="The cache contains no complete copy"):
            pull(REPO, revision, access=bob)
    with pytest.raises(UnreachableError, match="The cache contains no complete copy of ann/library@main"):
        pull(REPO, access=hub.user("carl"))
    with pytest.raises(UnreachableError):
        versions(REPO, access=bob)
    with pytest.raises(UnreachableError):
        push(folder, REPO, access=ann)


def test_opening_by_name_warns_offline(hub: Hub, folder: Path, caplog: pytest.LogCaptureFixture, ann: Access) -> None:
    assert open_library(REPO) == Library.load(folder)
    assert not caplog.records
    hub.server.die_at(1)
    assert open_library(REPO) == Library.load(folder)
    assert "OFFLINE" in caplog.text


def test_half_a_download_is_no_copy(hub: Hub, folder: Path, ann: Access) -> None:
    bob = hub.user("bob")
    pull(REPO, access=bob)
    assert bob.cache is not None
    (cached,) = bob.cache.glob("models--*/snapshots/*/skills/text-edits/rubric.yaml")
    cached.unlink()
    hub.server.die_at(1)
    for revision in (None, hub.head):
        with pytest.raises(UnreachableError, match="no complete copy"):
            pull(REPO, revision, access=bob)
    hub.server.revive()
    assert pull(REPO, access=bob).library == Library.load(folder)


def test_a_damaged_cache_is_noticed(hub: Hub, folder: Path, ann: Access) -> None:
    bob = hub.user("bob")
    pull(REPO, access=bob)
    assert bob.cache is not None
    (cached,) = bob.cache.glob("models--*/snapshots/*/skills/text-edits/SKILL.md")
    text = cached.read_text("utf-8")
    for damage in (text.replace("letter", "LETTER"), text + "more", ""):
        cached.resolve().write_text(damage, "utf-8")
        with pytest.raises(HubError, match=r"SKILL\.md of ann/library is damaged") as caught:
            pull(REPO, access=bob)
        assert str(bob.cache) in caught.value.next_step


def test_the_token_is_in_no_message_no_log_and_no_file(
    hub: Hub, folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    ann = hub.user("ann")
    token = str(ann.token)
    hub.server.store.users[token] = hub.server.store.users.pop(token)
    answer, said = hub.server._route, []

    def echo(request):  # type: ignore[no-untyped-def]
        """Refuse with the token in the words, as a careless proxy might."""
        from hub_store import Refusal

        raise Refusal(status, f"Bearer {token} {token} is not welcome")

    push(folder, REPO, access=ann)
    hub.server._route = echo  # type: ignore[method-assign]
    for status in (400, 401, 402, 403, 404, 409, 412, 418, 429, 500, 503):
        for attempt in (pull, push, versions):
            with pytest.raises(HarnessError) as caught:
                arguments = (folder, REPO) if attempt is push else (REPO,)
                attempt(*arguments, access=Access(token, ann.endpoint, tmp_path / f"new-{status}"))  # type: ignore
            said += [str(describe(caught.value)), repr(caught.value), repr(caught.value.__dict__)]
    hub.server._route = answer  # type: ignore[method-assign]
    said += [repr(ann), repr(push(folder, REPO, PushOptions(dry_run=True), access=ann))]
    reword(folder, f"My token is {token}.")
    with pytest.raises(LibraryError, match="a Hugging Face token; nothing was pushed") as caught:
        push(folder, REPO, access=ann)
    said.append(str(caught.value))
    files = [*snapshot(folder).items(), *hub.files.items()]
    said += [data.decode("utf-8", "replace") for name, data in files if name != "tools/letter-reader/SKILL.md"]
    shown = capfd.readouterr()
    assert token not in "\n".join([*said, shown.out, shown.err])
    assert token not in "\n".join(record.getMessage() for record in caplog.records if record.name[:4] == "rewa")

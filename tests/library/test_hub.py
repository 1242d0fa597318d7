import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hub_parts import REPO, Hub, reword
from library_samples import FILES, put, snapshot, write_sample

from rewardharness.errors import InputError, LibraryError, MissingPackageError
from rewardharness.library import hub as library_hub
from rewardharness.library.card import Facts
from rewardharness.library.diff import diff_libraries
from rewardharness.library.entry import Entry
from rewardharness.library.hub import Access, ConflictError, HubError, PushOptions, StaleError, pull, push, versions
from rewardharness.library.hub_files import ORIGIN_FILE, read_origin
from rewardharness.library.opening import open_library
from rewardharness.library.store import EMPTY, AddEntry, Library, RemoveEntry, ReplaceEntry
from rewardharness.schema import Accuracy, Interval


def push_new(hub: Hub, folder: Path, text: str, how: PushOptions | None = None) -> library_hub.Pushed:
    reword(folder, text)
    return push(folder, REPO, how, access=hub.user("ann"))


def test_what_is_pushed_is_pulled_by_tag_by_commit_and_by_branch(hub: Hub, folder: Path, tmp_path: Path) -> None:
    done = push(folder, REPO, access=hub.user("ann"))
    assert (done.version, done.created, done.tagged, done.nothing_to_push) == ("v0.1.0", True, True, False)
    assert {*FILES, "registry.json", "README.md", "config.json"} == set(done.changes.added)
    assert hub.repo.tags["v0.1.0"][0] == done.commit == hub.head
    assert hub.files[".gitattributes"]
    commits = [request for request in hub.server.requests if "/commit/" in request]
    assert commits == [f"POST /api/models/{REPO}/commit/main"]
    for number, revision in enumerate((None, "v0.1.0", done.commit, "main")):
        pulled = pull(REPO, revision, access=hub.user("bob", f"computer-{number}"), to=tmp_path / f"to-{number}")
        assert pulled.library == Library.load(folder)
        assert (pulled.commit, pulled.version, pulled.offline, pulled.notes) == (done.commit, "v0.1.0", False, ())
        assert snapshot(tmp_path / f"to-{number}") == snapshot(folder)
        assert all(file.is_file() and not file.is_symlink() for file in (tmp_path / f"to-{number}").rglob("*.md"))
    assert ORIGIN_FILE not in hub.files


def test_a_change_becomes_a_version_and_versions_can_be_compared(hub: Hub, folder: Path, ann: Access) -> None:
    assert push_new(hub, folder, "Reads small letters.").version == "v0.1.1"
    put(folder, "skills/text-edits/rubric.yaml", "criteria: [{id: spelling, text: Right., weight: 1}]")
    assert push(folder, REPO, PushOptions(bump="minor"), access=hub.user("ann")).version == "v0.2.0"
    push_new(hub, folder, "Reads tiny letters.", PushOptions(version="2.0.0"))
    listed = versions(REPO, access=hub.user("bob"))
    assert [each.tag for each in listed] == ["v2.0.0", "v0.2.0", "v0.1.1", "v0.1.0"]
    assert listed[0].commit == hub.head
    assert listed[0].date and listed[-1].date and listed[0].date > listed[-1].date
    assert "Library 0.1.0" in listed[-1].message
    found = diff_libraries(open_library(f"{REPO}@v0.1.0"), open_library(f"{REPO}@v0.1.1"))
    assert [each.name for each in found.changed] == ["letter-reader"]
    card = hub.repo.find("v0.1.1").files["README.md"].decode()
    assert "Changes since v0.1.0:\n\n- Changed the tool `letter-reader`" in card


def test_removed_entries_go_and_foreign_files_stay(hub: Hub, folder: Path) -> None:
    put(folder, "skills/text-edits/notes.md", "more")
    put(folder, "LICENSE", "do as you like")
    push(folder, REPO, access=hub.user("ann"))
    hub.repo.put({"picture.png": b"\x89PNG", "skills/text-edits/example.png": b"\x89PNG", "docs/a.md": "a"})
    pull(REPO, to=folder, access=hub.user("ann"))
    library = Library.load(folder).apply(RemoveEntry("text-edits"))
    library.save(folder)
    (folder / "LICENSE").unlink()
    done = push(folder, REPO, access=hub.user("ann"))
    of_entry = {f"skills/text-edits/{name}" for name in ("SKILL.md", "example.png", "notes.md", "rubric.yaml")}
    assert set(done.changes.deleted) == {"LICENSE", *of_entry}
    assert {"picture.png", "docs/a.md", ".gitattributes"} <= set(hub.files)
    assert pull(REPO, access=hub.user("bob")).library == library


def test_a_stale_folder_is_told_so_and_rebased(hub: Hub, folder: Path, tmp_path: Path) -> None:
    ann, two = hub.user("ann"), tmp_path / "two"
    put(folder, "NOTICE", "gone soon")
    push(folder, REPO, access=ann)
    pull(REPO, to=two, access=ann)
    reword(two, "The other computer.", "tools/sharpness-meter")
    put(two, "CHANGELOG.md", "their log")
    (two / "NOTICE").unlink()
    theirs = push(two, REPO, access=ann)
    reword(folder, "This computer.")
    with pytest.raises(StaleError, match=f"has newer commits: yours .* the Hub is at {hub.head[:7]}") as caught:
        push(folder, REPO, access=ann)
    assert "'Library 0.1.1 (id" in caught.value.message
    assert "--rebase" in caught.value.next_step
    assert (caught.value.head, hub.head) == (theirs.commit, theirs.commit)
    done = push(folder, REPO, PushOptions(rebase=True), access=ann)
    assert done.version == "v0.1.2"
    both = {entry.name: entry.description for entry in Library.load(folder).entries}
    assert (both["letter-reader"], both["sharpness-meter"]) == ("This computer.", "The other computer.")
    assert Library.load(folder).id == done.library_id == pull(REPO, access=hub.user("bob")).library.id
    assert (folder / "CHANGELOG.md").read_text("utf-8") == "their log"
    assert not (folder / "NOTICE").exists()
    assert push(folder, REPO, access=ann).nothing_to_push
    assert pull(REPO, to=two, access=ann).commit == done.commit
    assert snapshot(two) == snapshot(folder)


def test_conflicts_are_listed_by_entry_and_nothing_is_written(hub: Hub, folder: Path, tmp_path: Path) -> None:
    ann, two = hub.user("ann"), tmp_path / "two"
    push(folder, REPO, access=ann)
    pull(REPO, to=two, access=ann)
    reword(two, "Theirs.")
    Library.load(two).apply(RemoveEntry("sharpness-meter")).save(two)
    put(two, "README.md", (two / "README.md").read_text("utf-8") + "Their words.\n")
    push(two, REPO, access=ann)
    reword(folder, "Ours.")
    reword(folder, "Ours as well.", "tools/sharpness-meter")
    put(folder, "README.md", (folder / "README.md").read_text("utf-8") + "Our words.\n")
    before, files = hub.head, snapshot(folder)
    with pytest.raises(ConflictError) as caught:
        push(folder, REPO, PushOptions(rebase=True), access=ann)
    assert [*caught.value.conflicts] == [
        "letter-reader: both sides changed it differently.",
        "sharpness-meter: your side changed it, and the other side removed it.",
        "README.md: both sides changed its hand-written text.",
    ]
    assert (hub.head, snapshot(folder)) == (before, files)


def test_words_by_hand_on_either_side_survive_a_rebase(hub: Hub, folder: Path, tmp_path: Path, ann: Access) -> None:
    card = hub.files["README.md"].decode().replace("language: en", "language: de\nlicense: mit")
    hub.repo.put({"README.md": card + "\n## Thanks\n\nTo all.\n"})
    reword(folder, "Ours.")
    push(folder, REPO, PushOptions(rebase=True), access=ann)
    assert "## Thanks\n\nTo all.\n" in hub.files["README.md"].decode()
    assert "license: mit" in (folder / "README.md").read_text("utf-8")
    put(folder, "README.md", (folder / "README.md").read_text("utf-8") + "\nMine.\n")
    push(folder, REPO, access=ann)
    assert hub.files["README.md"].decode().endswith("To all.\n\nMine.\n")


def test_a_library_from_elsewhere_does_not_overwrite(hub: Hub, folder: Path, tmp_path: Path, ann: Access) -> None:
    other = Library((Entry("hats", "skill", "For hats.", "Look at hats."),))
    other.save(tmp_path / "other")
    for source in (other, tmp_path / "other"):
        with pytest.raises(StaleError, match="was not pulled from it") as caught:
            push(source, REPO, access=ann)
        assert caught.value.base is None
    proposed = push(other, REPO, PushOptions(create_pr=True), access=hub.user("bob"))
    assert proposed.pr_url and proposed.commit and hub.repo.find(proposed.commit).parent == hub.head != proposed.commit
    assert "tools/letter-reader/SKILL.md" in proposed.changes.deleted
    library = Library.load(folder)
    text = library.get("letter-reader")
    assert text is not None
    changed = library.apply(ReplaceEntry(replace(text, description="By hand.")))
    assert push(changed, REPO, PushOptions(base="v0.1.0"), access=ann).version == "v0.1.1"
    done = push(other, REPO, PushOptions(rebase=True), access=ann)
    assert done.library_id == (merged := pull(REPO, access=ann).library).id and len(merged) == 4


def test_of_four_pushers_one_wins_three_told_and_none_lost(hub: Hub, folder: Path, tmp_path: Path, ann: Access) -> None:
    folders = [tmp_path / f"one-{number}" for number in range(4)]
    for number, each in enumerate(folders):
        pull(REPO, to=each, access=hub.user("ann"))
        entry = Entry(f"skill-{number}", "skill", "New.", "Look.")
        Library.load(each).apply(AddEntry(entry)).save(each)
    start, told, won = threading.Barrier(4), [], []

    def run(each: Path) -> None:
        start.wait()
        try:
            won.append(push(each, REPO, access=hub.user("ann", each.name)))
        except StaleError:
            told.append(each)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, folders))
    assert (len(won), len(told)) == (1, 3)
    assert hub.head == won[0].commit
    for each in told:
        push(each, REPO, PushOptions(rebase=True), access=hub.user("ann"))
    library = pull(REPO, access=hub.user("bob")).library
    assert {f"skill-{number}" for number in range(4)} <= {entry.name for entry in library.entries}
    assert len(hub.repo.tags) == 5


def test_readers_propose_owners_publish_what_was_merged(hub: Hub, folder: Path, tmp_path: Path, ann: Access) -> None:
    two, bob = tmp_path / "two", hub.user("bob")
    pull(REPO, to=two, access=bob)
    reword(two, "Better.")
    with pytest.raises(HubError, match="may not write to ann/library") as caught:
        push(two, REPO, access=bob)
    assert "--create-pr" in caught.value.next_step
    done = push(two, REPO, PushOptions(create_pr=True), access=bob)
    assert done.pr_url and done.pr_url.endswith("/ann/library/discussions/1")
    assert (done.tagged, hub.head) == (False, read_origin(two).commit)  # type: ignore[union-attr]
    assert push(two, REPO, PushOptions(create_pr=True), access=bob).pr_url == done.pr_url
    assert len(hub.repo.pulls) == 1
    assert pull(REPO, "refs/pr/1", access=bob).library.id == done.library_id
    hub.repo.merge(1)
    pull(REPO, to=folder, access=hub.user("ann"))
    published = push(folder, REPO, access=hub.user("ann"))
    assert (published.nothing_to_push, published.tagged, published.version) == (True, True, "v0.1.1")
    assert hub.repo.tags["v0.1.1"][0] == done.commit


def test_a_merged_proposal_is_published_as_the_version_that_it_states(hub: Hub, folder: Path, ann: Access) -> None:
    proposed = push_new(hub, folder, "Better.", PushOptions(create_pr=True, bump="minor"))
    hub.repo.branches["main"] = hub.repo.add(hub.repo.find("refs/pr/1").files, hub.head, "squashed", "", "ann").id
    (folder / ORIGIN_FILE).unlink()
    published = push(folder, REPO, access=ann)
    assert (published.version, published.nothing_to_push, published.tagged) == (proposed.version, True, True)
    assert hub.repo.tags["v0.2.0"][0] == hub.head


@pytest.mark.slow
def test_a_library_of_many_files_is_one_commit(hub: Hub, tmp_path: Path) -> None:
    entries = tuple(Entry(f"skill-{number}", "skill", "New.", "Look.") for number in range(258))
    hub.server.page = 50
    done = push(Library(entries), REPO, access=hub.user("ann"))
    assert (len(done.changes.added), len(hub.repo.commits)) == (261, 2)
    assert len([request for request in hub.server.requests if "/preupload/" in request]) == 2
    fewer = push(Library(entries[:257]), REPO, PushOptions(base="main"), access=hub.user("ann"))
    assert fewer.changes.deleted == ("skills/skill-257/SKILL.md",)


def test_a_card_that_cannot_be_read_is_said_before_anything_is_written(hub: Hub, folder: Path) -> None:
    put(folder, "README.md", "<!-- rh:begin summary -->\nno end")
    with pytest.raises(LibraryError, match="has no end"):
        push(folder, REPO, access=hub.user("ann"))
    assert hub.server.requests == []


def test_a_stale_folder_can_be_proposed_from_where_it_began(hub: Hub, folder: Path, tmp_path: Path) -> None:
    ann = hub.user("ann")
    first = push(folder, REPO, access=ann)
    pull(REPO, to=tmp_path / "two", access=ann)
    push_new(hub, folder, "New.")
    reword(tmp_path / "two", "Other.", "tools/sharpness-meter")
    done = push(tmp_path / "two", REPO, PushOptions(create_pr=True), access=ann)
    assert done.commit and hub.repo.find(done.commit).parent == first.commit
    assert done.version == "v0.1.2"


def grown(library: Library, text: str, entry: str = "letter-reader") -> Library:
    """An evolved child of a Library, with its line in the lineage."""
    old = library.get(entry)
    assert old is not None
    child = library.apply(ReplaceEntry(replace(old, description=text)))
    return child.with_lineage({"parent": library.id, "library": child.id, "step": 1})


def test_an_evolved_library_follows_version_it_grew_from(hub: Hub, folder: Path, tmp_path: Path, ann: Access) -> None:
    start = Library.load(folder)
    child = grown(grown(start, "Once."), "Twice.")
    assert push(child, REPO, PushOptions(dry_run=True), access=ann).version == "v0.1.1", "it is a fast-forward"
    theirs = push_new(hub, folder, "Theirs.", PushOptions(bump="minor"))
    with pytest.raises(StaleError, match="has newer commits") as caught:
        push(child, REPO, access=ann)
    assert caught.value.base != caught.value.head == theirs.commit
    with pytest.raises(ConflictError, match="letter-reader"):
        push(child, REPO, PushOptions(rebase=True), access=ann)
    proposed = push(child, REPO, PushOptions(create_pr=True), access=ann)
    assert proposed.commit and hub.repo.find(proposed.commit).parent == caught.value.base
    apart = grown(start, "Ours.", "sharpness-meter")
    apart.save(tmp_path / "evolved")
    push(tmp_path / "evolved", REPO, PushOptions(rebase=True), access=ann)
    found = {entry.name: entry.description for entry in Library.load(tmp_path / "evolved").entries}
    assert (found["letter-reader"], found["sharpness-meter"]) == ("Theirs.", "Ours.")


def test_a_title_or_a_lineage_that_lies_is_no_ancestor(hub: Hub, folder: Path, ann: Access) -> None:
    other = Library((Entry("hats", "skill", "For hats.", "Look at hats."),))
    hub.repo.put({"NOTICE": "new"}, title=f"Library 9.9.9 (id {other.id[:12]})")
    for library in (other, grown(Library.load(folder).apply(RemoveEntry("sharpness-meter")), "Ours.")):
        with pytest.raises(StaleError, match="was not pulled from it"):
            push(library.with_lineage({"parent": ["x"], "library": "main"}), REPO, access=hub.user("ann"))


def test_an_old_version_is_restored_as_a_new_commit(hub: Hub, folder: Path, tmp_path: Path) -> None:
    ann, old = hub.user("ann"), Library.load(folder)
    put(folder, "NOTICE", "old")
    facts = (Facts(old.id, "measured", "pointwise", "pairs", "all", Accuracy(9, 9, 8.0), Interval(0.5, 1.0)),)
    push(folder, REPO, PushOptions(facts=facts), access=ann)
    (folder / "NOTICE").unlink()
    put(folder, "CHANGELOG.md", "log")
    put(folder, "README.md", (folder / "README.md").read_text("utf-8") + "Words of the second.\n")
    second = push_new(hub, folder, "New.")
    assert push(old, REPO, PushOptions(rebase=True), access=ann).nothing_to_push, "a rebase keeps what is newer"
    draft, how = library_hub.restoration(REPO, "v0.1.0", access=ann)
    done = push(draft, REPO, how, access=ann)
    assert (done.version, done.library_id) == ("v0.1.2", old.id) and done.commit
    assert hub.repo.find(done.commit).parent == second.commit and hub.repo.tags["v0.1.1"][0] == second.commit
    assert hub.files["NOTICE"] == b"old" and "CHANGELOG.md" not in hub.files
    card = hub.files["README.md"].decode()
    assert "Words of the second." not in card and "0.889" in card
    assert pull(REPO, access=hub.user("bob")).version == "v0.1.2"
    draft, how = library_hub.restoration(REPO, "v0.1.1", PushOptions(create_pr=True), access=hub.user("bob"))
    assert push(draft, REPO, how, access=hub.user("bob")).pr_url


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("https://huggingface.co/ann/library", ("ann/library", None)),
        ("https://huggingface.co/ann/library/tree/v0.1.0", ("ann/library", "v0.1.0")),
        (" https://hf.co/ann/library/tree/v0.1.0/skills?x=1#top ", ("ann/library", "v0.1.0")),
        ("huggingface.co/ann/library/blob/refs%2Fpr%2F1/README.md", ("ann/library", "refs/pr/1")),
        ("https://huggingface.co/ann/library/tree/..%2Fetc", None),
        ("https://huggingface.co/datasets/ann/library", None),
        ("https://huggingface.co.evil.example/ann/library", None),
        ("https://evil.example/huggingface.co/ann/library", None),
        ("https://ann:token@huggingface.co/ann/library", None),
    ],
)
def test_the_address_of_a_page_names_a_library(typed: str, meant: tuple[str, str | None] | None) -> None:
    assert library_hub.split_spec(typed) == meant


def test_private_gated_and_missing_ones_are_said_in_a_sentence(hub: Hub, folder: Path) -> None:
    push(folder, REPO, PushOptions(private=True), access=hub.user("ann"))
    assert hub.repo.private
    for access in (hub.anonymous, hub.user("bob")):
        with pytest.raises(HubError, match="There is no ann/library on the Hub, or it is private") as caught:
            pull(REPO, access=access)
        assert "HF_TOKEN" in caught.value.next_step
        with pytest.raises(HubError):
            versions(REPO, access=access)
    with pytest.raises(HubError, match="does not accept the token"):
        pull(REPO, access=replace(hub.user("ann"), token="hf_" + "x" * 34))
    hub.repo.private, hub.repo.gated = False, True
    with pytest.raises(HubError, match="is gated"):
        pull(REPO, access=hub.user("bob"))
    hub.repo.readers.add("bob")
    assert pull(REPO, access=hub.user("bob")).version == "v0.1.0"
    with pytest.raises(HubError, match=r"has no revision 'v9\.9\.9'") as caught:
        pull(REPO, "v9.9.9", access=hub.user("ann"))
    assert "Versions: v0.1.0." in caught.value.next_step
    with pytest.raises(HubError, match="is public"):
        push(folder, REPO, PushOptions(private=True), access=hub.user("ann"))
    with pytest.raises(HubError, match="may not create bob/library") as caught:
        push(folder, "bob/library", access=hub.user("ann"))
    assert "in your own namespace" in caught.value.next_step
    names = ("library", "../x/y", "a/b/c", "a//b", "a/b@c", "a--b/c", "a/b.git", "ä/b", "a/" + "b" * 200)
    wrong = [*((name, None, "repository") for name in names), *((REPO, name, "revision") for name in ("../x", "a b"))]
    for name, revision, word in wrong:
        with pytest.raises(HubError, match=f"not a valid {word} name"):
            pull(name, revision, access=hub.user("ann"))


def test_versions_that_cannot_be_are_refused_before_anything_is_written(hub: Hub, folder: Path) -> None:
    with pytest.raises(InputError, match="exclude each other"):
        push(folder, REPO, PushOptions(version="1.0.0", bump="minor"), access=hub.user("ann"))
    for wrong in ("1.0", "1.0.0-beta", "01.0.0", "latest"):
        with pytest.raises(InputError, match="Invalid version"):
            push(folder, REPO, PushOptions(version=wrong), access=hub.user("ann"))
    with pytest.raises(InputError, match="not a part of a version"):
        push(folder, REPO, PushOptions(bump="huge"), access=hub.user("ann"))
    push(folder, REPO, PushOptions(version="v1.2.0"), access=hub.user("ann"))
    for taken in ("1.2.0", "1.1.9"):
        with pytest.raises(HubError, match=r"not higher than v1\.2\.0") as caught:
            push_new(hub, folder, f"For {taken}.", PushOptions(version=taken))
        assert "v1.2.1" in caught.value.next_step
    assert len(hub.repo.commits) == 2


def test_a_dry_run_shows_everything_and_writes_nothing(hub: Hub, folder: Path) -> None:
    before = snapshot(folder)
    shown = push(folder, REPO, PushOptions(dry_run=True), access=hub.user("ann"))
    assert shown.created and shown.commit is None
    assert (hub.server.store.repos, snapshot(folder)) == ({}, before)
    push(folder, REPO, access=hub.user("ann"))
    reword(folder, "Better.")
    before, head = snapshot(folder), hub.head
    shown = push(folder, REPO, PushOptions(dry_run=True), access=hub.user("ann"))
    assert (hub.head, snapshot(folder), shown.commit) == (head, before, None)
    assert "+description: Better." in shown.diffs["tools/letter-reader/SKILL.md"]
    assert set(shown.diffs) == set(shown.changes.changed)
    done = push(folder, REPO, access=hub.user("ann"))
    assert (done.changes, done.card, done.version) == (shown.changes, shown.card, shown.version)
    assert hub.files["README.md"].decode() == shown.card


def test_unpushed_changes_are_never_overwritten(hub: Hub, folder: Path, tmp_path: Path, ann: Access) -> None:
    put(folder, "notes.txt", "mine")
    pull(REPO, to=folder, access=hub.user("ann"))
    assert (folder / "notes.txt").read_text("utf-8") == "mine"
    reword(folder, "Changed.")
    with pytest.raises(LibraryError, match=r"changes that were not pushed: tools/letter-reader/SKILL\.md"):
        pull(REPO, to=folder, access=hub.user("ann"))
    other = write_sample(tmp_path / "other")
    with pytest.raises(LibraryError, match="not pulled from ann/library"):
        pull(REPO, to=other, access=hub.user("ann"))
    put(tmp_path, "file", "x")
    with pytest.raises(LibraryError, match="is not a folder"):
        pull(REPO, to=tmp_path / "file", access=hub.user("ann"))


def test_facts_are_published_kept_with_their_library_and_dropped_with_the_next(hub: Hub, folder: Path) -> None:
    library = Library.load(folder)
    facts = Facts(library.id, "measured", "both orders", "demo", "made", Accuracy(10, 10, 8), Interval(0.5, 0.9))
    push(folder, REPO, PushOptions(facts=(facts,)), access=hub.user("ann"))
    assert "0.800 (0.500 to 0.900 at 95%), 10 of 10 judged" in hub.files["README.md"].decode()
    put(folder, "README.md", (folder / "README.md").read_text("utf-8") + "\nHello.\n")
    push(folder, REPO, access=hub.user("ann"))
    assert "0.800" in hub.files["README.md"].decode()
    push_new(hub, folder, "New.")
    assert "Not evaluated" in hub.files["README.md"].decode()
    assert "model-index" not in hub.files["README.md"].decode()
    with pytest.raises(LibraryError, match="The evaluated Library is"):
        push(folder, REPO, PushOptions(facts=(facts,)), access=hub.user("ann"))


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(MissingPackageError, match="huggingface_hub") as caught:
        open_library("ann/library")
    assert "[hub]" in caught.value.next_step


@pytest.mark.real_data
def test_published_libraries_go_there_and_back(hub: Hub, real_data: Path, tmp_path: Path) -> None:
    folders = sorted(path for path in (real_data / "libraries").iterdir() if path.is_dir())
    assert len(folders) == 5
    for number, folder in enumerate(folders):
        library = Library.load(folder)
        push(library, f"ann/library-{number}", access=hub.user("ann"))
        pulled = pull(f"ann/library-{number}", to=tmp_path / folder.name, access=hub.user("bob"))
        assert pulled.library.id == library.id == Library.load(tmp_path / folder.name).id
        assert push(tmp_path / folder.name, f"ann/library-{number}", access=hub.user("ann")).nothing_to_push


def test_an_empty_beginning_is_a_beginning_of_a_rebase(hub: Hub, tmp_path: Path, ann: Access) -> None:
    one, two = tmp_path / "empty", tmp_path / "other"
    replace(EMPTY, meta={"id": "old", "status": "active"}).save(one)
    push(one, "ann/empty", access=ann)
    pull("ann/empty", to=two, access=ann)
    full = open_library("builtin").get("calling-a-tie")
    assert full is not None
    Library.load(two).apply(AddEntry(full)).save(two)
    push(two, "ann/empty", access=ann)
    replace(Library.load(one), meta={"id": "new", "status": "active"}).save(one)
    push(one, "ann/empty", PushOptions(rebase=True), access=ann)
    merged = pull("ann/empty", to=tmp_path / "merged", access=ann).library
    assert merged.meta["id"] == "new" and len(merged) == 1

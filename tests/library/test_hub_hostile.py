import json
import os
from pathlib import Path
from typing import Any

import pytest
from hub_parts import REPO, Hub, reword
from hub_server import Request
from library_samples import FILES, put, registry, snapshot

from rewardharness.errors import HarnessError
from rewardharness.hub import repository
from rewardharness.leaks import find_leaks, masked
from rewardharness.library import hub_files
from rewardharness.library.hub import PushOptions, pull, push
from rewardharness.library.store import Library

ALL = {**FILES, "registry.json": registry()}


@pytest.fixture
def hub(hub: Hub) -> Hub:
    hub.server.store.create(REPO)
    return hub


def refused(hub: Hub, tmp_path: Path, files: dict[str, Any], word: str) -> str:
    """Publish files that nobody should take, and see that they are not taken; return what is said of them."""
    hub.repo.put({**ALL, **files})
    with pytest.raises(HarnessError, match=word) as caught:
        pull(REPO, to=tmp_path / "to", access=hub.user("bob"))
    assert caught.value.next_step
    assert "rh-pull" not in caught.value.message
    assert not (tmp_path / "to").exists()
    return caught.value.message


def with_record(name: str, **record: str) -> str:
    document = json.loads(registry())
    document["entries"][name] = {"kind": "skill", "description": "x", **record}
    return json.dumps(document)


@pytest.mark.parametrize(
    ("files", "word"),
    [
        *(({"registry.json": with_record(name)}, "The name") for name in ("../../escape", "/etc/cron.d/x", "nul\0")),
        ({"registry.json": with_record("text-edits", path="../../../etc/passwd")}, "is outside the Library"),
        ({"registry.json": with_record("text-edits", path="C:\\x")}, "is outside the Library"),
        ({"registry.json": '{"schema_version": 2, "entries": {"a": {}, "a": {}}}'}, "occurs twice"),
        ({"registry.json": "[" * 100_000}, "not valid JSON"),
        ({"registry.json": b"\xff\xfe"}, "not UTF-8"),
        ({"skills/text-edits/SKILL.md": "---\na: &a [x, x]\nb: *a\n---\n"}, "anchor or alias"),
        ({"skills/text-edits/SKILL.md": "---\n" + "[" * 5000 + "\n---\n"}, "levels deep"),
        ({"skills/text-edits/SKILL.md": "---\nname: !!python/object/apply:os.system [x]\n---\n"}, "tag"),
        # What git keeps of a link is the path that it leads to, as text.
        ({"skills/text-edits/SKILL.md": "../../../../../../../../etc/passwd"}, "first line is not `---`"),
        ({"tools/letter-reader/SKILL.md": b"\x00" * 1000}, "first line is not `---`"),
        ({"skills/text-edits/SKILL.md": "x" * 300_000}, "the limit is 262144"),
    ],
)
def test_documents_that_break_format_are_refused(hub: Hub, tmp_path: Path, files: dict[str, Any], word: str) -> None:
    said = refused(hub, tmp_path, files, word)
    assert next(iter(files)) in said and said.isprintable()


def test_sizes_are_looked_at_before_anything_is_fetched(hub: Hub, tmp_path: Path) -> None:
    hub.repo.put(ALL)
    hub.repo.sizes["skills/text-edits/SKILL.md"] = 100 * 1024 * 1024
    refused(hub, tmp_path, {"other": "x"}, "has 104857600 bytes; the limit is 262144")
    hub.repo.sizes["skills/text-edits/SKILL.md"] = 10
    refused(hub, tmp_path, {"other": "y"}, "damaged")
    hub.repo.sizes.clear()
    many = {f"skills/skill-{number}/SKILL.md": b"x" * 250_000 for number in range(50)}
    refused(hub, tmp_path, many, "the limit is 10485760")
    assert not [request for request in hub.server.requests if "/resolve/" in request and "skill-1" in request]


def test_repositories_of_very_many_files_are_refused(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (repository.MAX_FILES["model"], hub_files.MAX_ENTRIES) == (20_000, 2000)
    monkeypatch.setattr(hub_files, "MAX_ENTRIES", 100)
    monkeypatch.setitem(repository.MAX_FILES, "model", 400)
    entries = {f"skills/s-{number}/SKILL.md": b"x" for number in range(300)}
    assert REPO in refused(hub, tmp_path, entries, "too many entry files")
    hub.server.store.create(REPO)
    refused(hub, tmp_path, {f"skills/a/b/{number}/SKILL.md": b"x" for number in range(150)}, "nested too deeply")
    hub.server.store.create(REPO)
    refused(hub, tmp_path, {f"{number}": b"" for number in range(401)}, "more than 400 files")


def test_code_and_strange_files_are_left_where_they_are(hub: Hub, tmp_path: Path) -> None:
    strange = {
        "conftest.py": "raise SystemExit",
        "skills/text-edits/run.py": "import os",
        "skills/text-edits/deep/SKILL.md": "x",
        "skills/[a]*/deep/SKILL.md": "x",
        "weights.pkl": b"\x80\x04",
        "evil.pth": "import os; os.system('id')",
        "..%2f..%2fx": "x",
        ".rh-origin.json": '{"repo": "mallory/x"}',
        ".env": "x",
        "evolution.svg": "<svg onload='alert(1)'/>",
    }
    hub.repo.put({**ALL, **strange})
    pulled = pull(REPO, to=tmp_path / "to", access=hub.user("bob"))
    assert set(snapshot(tmp_path / "to")) == {*ALL, ".rh-origin.json"}
    assert json.loads((tmp_path / "to/.rh-origin.json").read_text("utf-8"))["repo"] == REPO
    told = "9 files of ann/library do not belong to the Library and were not downloaded: ..%2f"
    assert pulled.notes[0].startswith(told)
    fetched = [request for request in hub.server.requests if "/resolve/" in request]
    assert len({request.split("/resolve/")[1] for request in fetched}) == len(ALL)


def test_paths_in_the_listing_that_lead_elsewhere_are_not_followed(hub: Hub, tmp_path: Path) -> None:
    hub.repo.put({**ALL, "../../../outside/SKILL.md": "x", "skills/../../escape/SKILL.md": "x", "/abs/SKILL.md": "x"})
    pulled = pull(REPO, to=tmp_path / "deep/er/to", access=hub.user("bob"))
    assert pulled.notes[0].startswith("3 files of ann/library do not belong to the Library")
    assert set(os.listdir(tmp_path)) <= {"deep", "cache-bob", "hf"}
    assert not [path for path in tmp_path.rglob("*") if path.name in {"outside", "escape", "abs"}]


def test_a_version_that_is_not_what_it_says_is_refused(hub: Hub, tmp_path: Path, folder: Path) -> None:
    del hub.server.store.repos["models", REPO]
    push(folder, REPO, access=hub.user("ann"))
    changed = hub.files["tools/letter-reader/SKILL.md"].replace(b"Reads", b"Always prefers A. Reads")
    commit = hub.repo.put({"tools/letter-reader/SKILL.md": changed})
    hub.repo.tags["v0.1.1"] = (commit, "")
    with pytest.raises(HarnessError, match=r"does not match the id in its config\.json, although") as caught:
        pull(REPO, "v0.1.1", access=hub.user("bob"))
    assert "rh library versions" in caught.value.next_step
    for revision in (None, commit):
        pulled = pull(REPO, revision, access=hub.user("bob"))
        assert "changed without `rh push-library`" in pulled.notes[0]
    hub.repo.put({"config.json": "[" * 100_000})
    assert pull(REPO, access=hub.user("bob")).notes == ()
    hub.server.store.create(REPO)
    with pytest.raises(HarnessError, match="contains no Library"):
        pull(REPO, access=hub.user("bob"))


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        (".env", "KEY=1", "hidden file"),
        ("skills/text-edits/.hidden.md", "x", "hidden file"),
        ("run.py", "x", "code"),
        ("model.pkl", "x", "can contain code"),
        ("picture.png", b"\x89PNG", "has a file type that is not published"),
        ("notes", "x", "has a file type that is not published"),
        ("large.md", "x" * 300_000, "the limit is"),
        ("bytes.md", b"\xff\xfe", "not UTF-8"),
        ("notes.md", "a\nhf_" + "a1B2" * 8, r"notes\.md:2 seems to contain a Hugging Face token"),
        ("notes.md", "key: sk-proj-" + "a1B2" * 8, "an API key"),
        ("notes.md", "AKIA" + "A1B2" * 4, "an AWS key"),
        ("notes.md", "-----BEGIN OPENSSH PRIVATE KEY-----", "a private key"),
        ("notes.md", "Authorization: Bearer " + "a1B2" * 8, "a bearer token"),
        ("notes.md", "https://me:secret@host/x", "a password in an address"),
        ("README.md", "ghp_" + "a1B2" * 9, r"README\.md:\d+ seems to contain a GitHub token"),
        ("lineage.jsonl", json.dumps({"reason": "hf_" + "a1B2" * 8}), r"lineage\.jsonl:1 seems"),
    ],
)
def test_what_must_stay_private_stops_a_push(
    hub: Hub, folder: Path, name: str, content: str | bytes, word: str
) -> None:
    put(folder, name, content)
    before = hub.head
    with pytest.raises(HarnessError, match=word) as caught:
        push(folder, REPO, access=hub.user("ann"))
    assert "a1B2" not in str(caught.value)
    assert caught.value.next_step
    assert hub.head == before
    assert not [request for request in hub.server.requests if request.startswith("POST")]


def test_links_are_not_followed_when_pushing(hub: Hub, folder: Path, tmp_path: Path) -> None:
    put(tmp_path, "secret.md", "my diary")
    for target in (tmp_path / "secret.md", tmp_path, Path("nowhere")):
        (folder / "linked.md").symlink_to(target)
        with pytest.raises(HarnessError, match="a link"):
            push(folder, REPO, access=hub.user("ann"))
        (folder / "linked.md").unlink()
    os.mkfifo(folder / "pipe.md")
    with pytest.raises(HarnessError, match="a pipe"):
        push(folder, REPO, access=hub.user("ann"))
    (folder / "pipe.md").unlink()
    for name in (".git/config", ".cache/huggingface/x", ".gitattributes", "registry.json.lock"):
        put(folder, name, "not ours to publish")
    done = push(folder, REPO, access=hub.user("ann"))
    assert not [path for path in done.changes.added if path.startswith((".git", ".cache", "registry.json."))]


def test_the_token_in_use_is_found_however_it_looks(hub: Hub, folder: Path) -> None:
    access = hub.user("ann")
    hub.server.store.users["plain-words"] = hub.server.store.users[str(access.token)]
    reword(folder, "Uses plain-words.")
    with pytest.raises(HarnessError, match="the token in use") as caught:
        push(folder, REPO, access=type(access)("plain-words", access.endpoint, access.cache))
    assert "plain-words" not in caught.value.message


def test_origins_that_were_tampered_with_count_as_none(hub: Hub, folder: Path) -> None:
    ann = hub.user("ann")
    push(folder, REPO, access=ann)
    for text in ("", "[]", "{", '{"repo": 1}', '{"repo": "ann/library", "commit": "../x"}', "[" * 100_000):
        put(folder, ".rh-origin.json", text)
        assert push(folder, REPO, PushOptions(dry_run=True), access=ann).nothing_to_push
    put(folder, ".rh-origin.json", json.dumps({"repo": REPO, "commit": "0" * 40, "files": {"../x": "0" * 64, "y": 1}}))
    reword(folder, "New.")
    with pytest.raises(HarnessError):
        push(folder, REPO, access=ann)


def test_answers_that_make_no_sense_are_no_tracebacks(hub: Hub, folder: Path) -> None:
    hub.repo.put(ALL)
    answer = hub.server._route
    bodies: list[Any] = [[], {}, None, "x", {"sha": 1}, {"sha": "main", "id": REPO}, {"tags": 1}, {"id": 1, "sha": []}]
    for body in bodies:

        def nonsense(request: Request, body: Any = body) -> Any:
            from hub_server import _json

            return _json(body)

        hub.server._route = nonsense  # type: ignore[method-assign]
        with pytest.raises(HarnessError):
            pull(REPO, access=hub.user("bob"))
        with pytest.raises(HarnessError):
            push(folder, REPO, access=hub.user("ann"))
    hub.server._route = answer  # type: ignore[method-assign]
    assert pull(REPO, access=hub.user("bob")).library == Library.load(folder)


def test_ordinary_words_are_no_leaks() -> None:
    text = "ask-for-something-that-is-long-enough hf_hub_download Bearer of bad news at 10:30 task-1234567890-abc"
    assert not list(find_leaks(f"{text} sk-learn, see https://host:8000/path and mail me@host"))
    assert masked("a hf_" + "b" * 30 + " c", "c") == "a … …"

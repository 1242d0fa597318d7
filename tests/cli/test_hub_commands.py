import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import Rh
from hub_parts import REPO, Hub, reword, running_hub

from rewardharness.library.store import Library


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A Hub that the environment points to, with ann logged in, and a working folder."""
    with running_hub(tmp_path, monkeypatch) as found:
        monkeypatch.setenv("HF_TOKEN", found.server.login("ann"))
        monkeypatch.chdir(tmp_path)
        yield found


@pytest.fixture
def folder(tmp_path: Path, rh: Rh) -> Path:
    for part in (["--name", "mine"], ["--skill", "hats", "--description", "For hats.", "--triggers", "hat"]):
        rh("library", "new", tmp_path / "mine", *part)
    rh("library", "new", tmp_path / "mine", "--tool", "finder", "--description", "Finds hats.")
    return tmp_path / "mine"


def shown(rh: Rh, *arguments: str, status: int = 0) -> str:
    """Run a command and return what it prints; where it fails, what it says about that."""
    found = rh(*arguments, status=status)
    assert "hf_Ann" not in found.out + found.err
    return found.out if status == 0 else found.err


def test_a_library_goes_to_the_hub_and_back(hub: Hub, folder: Path, rh: Rh) -> None:
    push = ("push-library", "mine", "--repo", REPO)
    summary = shown(rh, *push, "--dry-run")
    assert "+ skills/hats/SKILL.md" in summary and "For hats." not in summary and "Nothing was written." in summary
    plan = shown(rh, *push, "--dry-run", "--verbose")
    assert '+description: "For hats."' in plan and "# mine" in plan
    assert "This would be v0.1.0 of ann/library. ann/library would be created." in plan
    assert not hub.server.store.repos
    said = shown(rh, *push)
    assert f"ann/library v0.1.0 is commit {hub.head}" in said
    assert "Nothing to push" in shown(rh, *push)
    assert "0 errors" in shown(rh, "library", "check", REPO)
    assert f"ann/library: v0.1.0, commit {hub.head}" in shown(rh, "pull-library", REPO)
    assert Library.load("library") == Library.load(folder)
    done = json.loads(shown(rh, "pull-library", f"{REPO}@v0.1.0", "--to", "other", "--json"))
    assert (done["version"], done["offline"], done["folder"]) == ("v0.1.0", False, "other")
    assert done["library_id"] == Library.load("other").id == Library.load(folder).id
    assert "--revision contradicts" in shown(rh, "pull-library", f"{REPO}@v0.1.0", "--revision", "main", status=1)


def test_versions_are_listed_compared_scored_with_and_exported(hub: Hub, folder: Path, rh: Rh) -> None:
    shown(rh, "push-library", "mine", "--repo", REPO)
    reword(folder, "Finds hats and caps.", "tools/finder")
    pushed = json.loads(shown(rh, "push-library", "mine", "--repo", REPO, "--bump", "minor", "--json"))
    assert (pushed["version"], pushed["changed"][-1]) == ("v0.2.0", "tools/finder/SKILL.md")
    listed = shown(rh, "library", "versions", REPO)
    assert listed.index("v0.2.0") < listed.index("v0.1.0")
    rows = json.loads(shown(rh, "library", "versions", REPO, "--json"))["versions"]
    assert [row["version"] for row in rows] == ["v0.2.0", "v0.1.0"]
    assert rows[0]["commit"] == pushed["commit"]
    told = shown(rh, "library", "diff", f"{REPO}@v0.1.0", f"{REPO}@v0.2.0")
    assert "~ tool finder" in told and "'Finds hats and caps.'" in told
    assert "hats" in shown(rh, "library", "show", f"{REPO}@v0.1.0", "--for", "put a hat on the cat")
    exported = shown(rh, "library", "export-skills", f"{REPO}@v0.2.0", ".agents/skills")
    assert ".agents/skills/hats/SKILL.md" in exported
    assert Path(".agents/skills/hats/SKILL.md").read_text("utf-8").startswith("---\nname: hats\ndescription: For hats.")


def test_the_card_is_shown_without_the_hub(hub: Hub, folder: Path, rh: Rh) -> None:
    card = shown(rh, "library", "card", "mine")
    assert "Not published" in card and "your-name/mine" in card
    shown(rh, "push-library", "mine", "--repo", REPO)
    hub.server.requests.clear()
    assert shown(rh, "library", "card", "mine") == hub.files["README.md"].decode()
    assert "bob/hats" in shown(rh, "library", "card", "mine", "--repo", "bob/hats")
    reword(folder, "Finds caps.", "tools/finder")
    changed = shown(rh, "library", "card", "mine")
    assert "Not published" in changed and "Finds caps." in changed and "This is the first version" not in changed
    assert hub.server.requests == []
    assert "folder does not exist" in shown(rh, "library", "card", "nowhere", status=1)


def test_a_stale_push_names_the_way_out(hub: Hub, folder: Path, rh: Rh) -> None:
    shown(rh, "push-library", "mine", "--repo", REPO)
    shown(rh, "pull-library", REPO, "--to", "two")
    reword(Path("two"), "Theirs.", "skills/hats")
    shown(rh, "push-library", "two", "--repo", REPO)
    shown(rh, "pull-library", REPO, "--to", "three", "--revision", "v0.1.0")
    assert "~ hats\nRead the changed entries" in shown(rh, "pull-library", REPO, "--to", "three")
    assert "No entry has changed." in shown(rh, "pull-library", REPO, "--to", "three")
    reword(folder, "Ours.", "tools/finder")
    said = shown(rh, "push-library", "mine", "--repo", REPO, status=1)
    assert "has newer commits" in said and "Next: Run the command again with --rebase" in said
    proposed = json.loads(shown(rh, "push-library", "mine", "--repo", REPO, "--create-pr", "--json"))
    assert proposed["pull_request"].endswith("/discussions/1")
    assert "v0.1.2" in shown(rh, "push-library", "mine", "--repo", REPO, "--rebase")
    assert Library.load(folder).get("hats").description == "Theirs."  # type: ignore[union-attr]
    reword(Path("two"), "Ours too.", "tools/finder")
    said = shown(rh, "push-library", "two", "--repo", REPO, "--rebase", status=1)
    assert "finder: both sides changed it" in said


def test_offline_is_said_loudly(hub: Hub, folder: Path, rh: Rh) -> None:
    shown(rh, "push-library", "mine", "--repo", REPO)
    shown(rh, "pull-library", REPO)
    hub.server.die_at(1)
    found = rh("pull-library", REPO, "--json")
    assert found.json["offline"] is True
    assert found.err.startswith("OFFLINE: the Hub is unreachable")
    rh("library", "show", REPO)
    assert "is unreachable" in shown(rh, "pull-library", "ann/other", status=1)
    assert "is unreachable" in shown(rh, "push-library", "mine", "--repo", REPO, status=1)
    hub.server.revive()
    hub.repo.private = True
    assert "no Library" not in shown(rh, "pull-library", REPO)


def test_wrong_command_lines_are_usage(hub: Hub, rh: Rh) -> None:
    for wrong in (["push-library", "mine"], ["push-library", "a", "--repo", REPO, "--bump", "x"], ["pull-library"]):
        rh(*wrong, status=2)
    assert "not a valid repository name" in shown(rh, "pull-library", "just-a-name", status=1)
    assert "not a valid revision name" in shown(rh, "pull-library", REPO, "--revision", "../x", status=1)

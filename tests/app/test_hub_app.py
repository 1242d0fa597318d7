"""The app and a local Hub, as a person meets them in a real browser."""

import re
import shutil
from pathlib import Path

import pytest
from app_parts import Site
from hub_parts import reword
from hub_server import HubServer
from playwright.sync_api import BrowserContext, expect
from screenshots import photograph
from visits import fill, fold_out, open_tab, visit

from rewardharness.library.hub import Access, pull, push
from rewardharness.library.opening import open_library
from rewardharness.library.store import Library

REPO = "ann/library"

pytestmark = pytest.mark.browser


def publish(hub: HubServer, token: str, folder: Path, repo: str = REPO) -> Library:
    """Publish two versions of a Library; returns the first. The folder holds the second."""
    access = Access(token, hub.url, folder.parent / "author")
    open_library("builtin").save(folder)
    push(folder, repo, access=access)
    first = Library.load(folder)
    name = min(each.name for each in first.skills)
    reword(folder, "Reworded <img src=x onerror=alert(1)> with care.", f"skills/{name}")
    push(folder, repo, access=access)
    return first


@pytest.fixture(scope="module")
def scene(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """With two versions of a Library on the Hub."""
    publish(site.hub, site.token, tmp_path_factory.mktemp("hub-app") / "library")
    return site


def test_an_address_or_a_name_loads_a_library_or_says_why_not(scene: Site, browser: BrowserContext) -> None:
    before = len(scene.hub.requests)
    with visit(browser, f"{scene.app.url}/?library={REPO}@v0.1.0") as page:
        expect(page.locator("#place")).to_contain_text("The address asks for a Library")
        assert scene.hub.requests[before:] == [], "another page cannot make this one load what it names"
        page.locator("#place-load").click()
        expect(page.get_by_text("Judging with ann/library@v0.1.0")).to_be_visible()
        expect(page.get_by_role("button", name="Library: 'ann/library@v0.1.0'")).to_be_visible()
        open_tab(page, "Library")
        status = page.locator("#library-status")
        commit = scene.hub.store.repos["models", REPO].tags["v0.1.0"][0]
        for words in ("v0.1.0", commit[:12], "published by ann", "It instructs the judge"):
            expect(status).to_contain_text(words)
        expect(page.locator("#library-summary")).to_contain_text("ann/library@v0.1.0")
        expect(page.locator("#entries label").first).to_be_visible()
        for typed, said in (
            ("ann/missing", "There is no ann/missing on the Hub"),
            ("../../etc", "is not the name of a Library on the Hub"),
            (f"{REPO}@v9.9.9", "has no revision"),
            (f"https://huggingface.co/{REPO}/tree/v0.1.1", "published by ann"),
        ):
            fill(page, "library-spec", typed)
            page.locator("#library-load").click()
            expect(status).to_contain_text(said)
        expect(page.locator("#library-summary")).to_contain_text("ann/library@v0.1.1")
        assert scene.token not in page.content()


def test_publishing_is_previewed_and_overwrites_nothing(scene: Site, browser: BrowserContext, tmp_path: Path) -> None:
    hub, repo, access = scene.hub, "ann/late", Access(scene.token, scene.hub.url, tmp_path / "cache")
    folder, other = tmp_path / "mine", tmp_path / "theirs"
    open_library("builtin").save(folder)
    push(folder, repo, access=access)
    shutil.copytree(folder, other)
    names = sorted(each.name for each in Library.load(folder).tools)
    reword(folder, "Mine.", f"tools/{names[0]}")
    reword(other, "Theirs.", f"tools/{names[1]}")
    push(other, repo, access=access)
    head = hub.store.repos["models", repo].branches["main"]
    with visit(browser, scene.app.url) as page:
        told = page.locator("#publish-told")

        def preview(words: str) -> None:
            page.locator("#publish-preview").click()
            expect(told).to_contain_text(words)

        open_tab(page, "Library")
        page.locator("#library-kind").get_by_text("A folder on this computer").click()
        fill(page, "library-folder", str(folder))
        open_tab(page, "Hub", "#library-tabs")
        preview("The repository is missing.")
        fill(page, "publish-repo", repo)
        preview("A newer version was published in the meantime")
        expect(told).to_contain_text("by ann")
        assert "--rebase" not in told.inner_text()
        page.locator("#publish-both").get_by_text("Merge with").click()
        preview(f"v0.1.2 would be published in {repo}")
        assert hub.store.repos["models", repo].branches["main"] == head
        page.locator("#publish-confirm").click()
        expect(told).to_contain_text("ann/late v0.1.2 is published")
        expect(page.locator("#publish-confirm")).to_be_hidden()
        assert scene.token not in page.content()
    files = hub.store.repos["models", repo].find("main").files
    assert b"Mine." in files[f"tools/{names[0]}/SKILL.md"] and b"Theirs." in files[f"tools/{names[1]}/SKILL.md"]


def test_versions_are_compared_shown_and_restored(scene: Site, browser: BrowserContext, tmp_path: Path) -> None:
    repo, access = "ann/restored", Access(scene.token, scene.hub.url, tmp_path / "cache")
    old = publish(scene.hub, scene.token, tmp_path / "mine", repo)
    with visit(browser, f"{scene.app.url}/?library={repo}", "narrow", "dark") as page:
        page.locator("#place-load").click()
        open_tab(page, "Library")
        expect(page.locator("#library-status")).to_contain_text("v0.1.1")
        open_tab(page, "Hub", "#library-tabs")
        fold_out(page, "Versions")
        page.locator("#versions-list").click()
        expect(page.locator("#versions")).to_contain_text("v0.1.0")
        expect(page.locator("#versions")).to_contain_text("Library 0.1.1")
        page.locator("#versions-compare").click()
        expect(page.locator("#versions-differences")).to_contain_text("0 added, 0 removed, 1 changed")
        photograph(page, "hub-versions")
        fill(page, "publish-repo", "ann/narrow")
        page.locator("#publish-preview").click()
        expect(page.locator("#publish-confirm")).to_be_visible()
        photograph(page, "hub-publish")
        fold_out(page, "Card")
        page.locator("#card-show").click()
        expect(page.locator("#card")).to_contain_text("A RewardHarness Library")
        expect(page.locator("#card")).to_contain_text("Changes since v0.1.0")
        assert page.locator("#card a, #card img").count() == 0
        photograph(page, "hub-card")
        told = page.locator("#restore-told")
        page.locator("#restore-preview").click()
        expect(told).to_contain_text("No version is chosen.")
        page.locator("#restore-version input").click()
        page.get_by_role("option", name="v0.1.0").click()
        page.locator("#restore-preview").click()
        expect(told).to_contain_text(f"v0.1.2 would be published in {repo}")
        page.locator("#restore-confirm").click()
        expect(told).to_contain_text(f"{repo} v0.1.2 is published")
    assert pull(repo, access=access).library == old
    assert pull(repo, "v0.1.1", access=access).library == Library.load(tmp_path / "mine"), "what was between stays"


def test_a_copy_is_edited_tested_saved_and_used(scene: Site, browser: BrowserContext) -> None:
    start = open_library("builtin")
    with visit(browser, scene.app.url) as page:
        open_tab(page, "Library")
        open_tab(page, "Edit", "#library-tabs")
        page.locator("#edit-copy").click()
        expect(page.locator("#edit-problems")).to_contain_text("Nothing to complain about")
        page.locator("#edit-entry input").click()
        page.get_by_role("option", name="style-and-tone-changes", exact=True).click()
        criterion = next(iter(start.get("style-and-tone-changes").rubric.criteria))  # type: ignore[union-attr]
        expect(page.locator("#edit-weight input")).to_have_value(f"{criterion.weight:g}")
        fold_out(page, "Advanced")
        fill(page, "edit-weight", "-1")
        expect(page.locator("#edit-problems")).to_contain_text("the weight is not a number of at least 0")
        expect(page.locator("#edit-rubric-text textarea")).to_have_value(re.compile("weight: -1"))
        fill(page, "edit-name", "louder")
        page.locator("#edit-save").click()
        expect(page.locator("#edit-saved")).to_contain_text("style-and-tone-changes has errors")
        fill(page, "edit-weight", "9")
        expect(page.locator("#edit-problems")).to_contain_text("Nothing to complain about")
        skill = page.locator("#edit-skill-text textarea")
        skill.fill(skill.input_value().replace("triggers:", "triggers: ["))
        skill.blur()
        expect(page.locator("#edit-problems")).to_contain_text("error")
        expect(page.locator("#edit-weight")).to_be_hidden()
        page.locator("#edit-entry input").click()
        page.get_by_role("option", name="style-and-tone-changes", exact=True).click()
        expect(page.locator("#edit-weight input")).to_have_value("9")
        fold_out(page, "What changed")
        expect(page.locator("#edit-changed")).to_contain_text("1 changed")
        photograph(page, "library-edit")
        page.locator("#edit-judge").click()
        expect(page.locator("#edit-result")).to_contain_text("McNemar p =")
        expect(page.locator("#edit-result")).to_contain_text("95% CI")
        photograph(page, "library-judged-again")
        page.locator("#edit-save").click()
        expect(page.locator("#edit-saved")).to_contain_text("louder is saved")
        fold_out(page, "Publish")
        fill(page, "edit-publish-repo", "ann/louder")
        page.locator("#edit-publish-preview").click()
        expect(page.locator("#edit-publish-told")).to_contain_text("would be published in ann/louder")
        open_tab(page, "Score")
        page.get_by_role("button", name="Library: built-in").click()
        page.locator("#score-library-kind").get_by_text("A folder on this computer").click()
        page.locator("#score-library-saved input").click()
        page.get_by_role("option", name="louder").click()
        expect(page.get_by_role("button", name="Library: 'louder'")).to_be_visible()
    saved = Library.load(scene.app.cwd / "home" / "libraries" / "louder")
    changed = saved.get("style-and-tone-changes")
    assert changed is not None and changed.rubric is not None and changed.rubric.criteria[0].weight == 9
    assert saved.lineage[-1]["parent"] == start.id and saved.name == "louder"

"""Publishing as the visitor of a Space: a real login at a provider on this machine, in a real browser."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from app_parts import Served, running_app
from hub_server import HubServer
from login_provider import provider, space_settings
from playwright.sync_api import BrowserContext, Page, expect
from test_hub_app import REPO, publish
from visits import fill, open_tab, visit

from rewardharness.library.hub import Access, push
from rewardharness.library.opening import open_library
from rewardharness.library.store import RemoveEntry

pytestmark = pytest.mark.browser

SMALL = "ann/small"


@dataclass(frozen=True)
class Space:
    """A Hub, and the app as it runs in a Space of ann, who has a token there; bob visits."""

    hub: HubServer
    app: Served
    owner: str
    visitor: str


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Space]:
    scratch = tmp_path_factory.mktemp("space")
    with HubServer() as hub:
        owner = hub.login("ann")
        publish(hub, owner, scratch)
        visitor = hub.login("bob")
        whole = open_library("builtin")
        less = whole.apply(RemoveEntry(whole.skills[0].name))
        push(less, SMALL, access=Access(owner, hub.url, scratch / "author"))
        with provider("bob", visitor) as url:
            settings = {
                **space_settings(url),
                "HF_ENDPOINT": hub.url,
                "HF_TOKEN": owner,
                "HF_HOME": str(scratch / "hf"),
            }
            with running_app(scratch, settings) as app:
                yield Space(hub, app, owner, visitor)


def ask(page: Page, repo: str) -> None:
    fill(page, "publish-repo", repo)
    page.locator("#publish-preview").click()


def test_visitors_publish_as_themselves_and_nobody_borrows_the_owners_token(
    space: Space, browser: BrowserContext
) -> None:
    hub = space.hub
    with visit(browser, f"{space.app.url}/?library={REPO}@v0.1.0") as page:
        open_tab(page, "Library")
        open_tab(page, "Hub", "#library-tabs")
        told = page.locator("#publish-told")
        ask(page, "bob/copy")
        expect(told).to_contain_text("You are not logged in.")
        page.locator("#login").click()
        page.locator("#compare").wait_for()
        open_tab(page, "Library")
        open_tab(page, "Hub", "#library-tabs")
        expect(page.locator("#login")).to_contain_text("Log out (bob)")
        expect(page.locator("#library-status")).to_contain_text("published by ann")
        ask(page, "ann/copy")
        expect(told).to_contain_text("ann/copy does not belong to bob.")
        ask(page, "bob/copy")
        expect(told).to_contain_text("v0.1.0 would be published in bob/copy")
        page.locator("#publish-confirm").click()
        expect(told).to_contain_text("bob/copy v0.1.0 is published")
        made = hub.store.repos["models", "bob/copy"]
        assert made.find("main").author == "bob"
        small = hub.store.repos["models", SMALL]
        head = small.branches["main"]
        ask(page, SMALL)
        expect(told).to_contain_text("ann/small does not belong to bob.")
        for part in ("pull", "both"):
            page.locator(f"#publish-{part} input").check()
        page.locator("#publish-preview").click()
        expect(told).to_contain_text("would be proposed to ann/small")
        page.locator("#publish-confirm").click()
        expect(told).to_contain_text("Proposed to ann/small")
        assert small.branches["main"] == head and [pull.author for pull in small.pulls] == ["bob"]
        assert space.owner not in page.content() and space.visitor not in page.content()


def test_what_only_the_owner_may_read_stays_unread(space: Space, browser: BrowserContext) -> None:
    hidden = space.hub.store.create("ann/hidden", private=True)
    hidden.put(dict(space.hub.store.repos["models", REPO].find("main").files))
    with visit(browser, f"{space.app.url}/?library=ann/hidden") as page:
        open_tab(page, "Library")
        expect(page.locator("#library-status")).to_contain_text("There is no ann/hidden on the Hub")
        expect(page.locator("#library-status")).to_contain_text("Log in first to read a private repository")
        assert page.locator("#library-kind").get_by_text("A folder on this computer").count() == 0

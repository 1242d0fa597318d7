"""Addresses of places, and kept links: reload, Back, and a page that a second browser opens."""

import re
from collections.abc import Iterator

import pytest
from accessible import faults
from app_parts import Pictures, Served, running_app
from login_provider import space_settings
from playwright.sync_api import BrowserContext, Page, expect
from screenshots import photograph
from visits import compare, give, open_tab, visit

pytestmark = pytest.mark.browser


def opened(page: Page, tab: str) -> None:
    """Check which tab is open."""
    expect(page.locator("#tabs > .tab-wrapper [role=tab][aria-selected=true]:visible")).to_have_text(tab)


def test_reload_and_back_keep_the_place(served: Served, browser: BrowserContext) -> None:
    with visit(browser, served.url) as page:
        for tab in ("Vote", "Library", "Lineage"):
            open_tab(page, tab)
            page.wait_for_url(f"**/?tab={tab.lower()}")
            page.reload()
            opened(page, tab)
        for tab in ("Library", "Vote", "Score"):
            page.go_back()
            opened(page, tab)
        assert page.url.rstrip("/") == served.url
        page.go_forward()
        opened(page, "Vote")
        page.goto(f"{served.url}/?tab=<b>nowhere</b>&run=../../etc")
        expect(page.locator("#place")).to_contain_text("There is no tab")
        page.goto(f"{served.url}/?tab=vote&library=not+a+name")
        expect(page.locator("#place")).to_contain_text("is not the name of a Library")
        opened(page, "Vote")
        page.goto("about:blank")  # a page that still writes its address would interrupt the next one on a busy machine
        page.goto(f"{served.url}/?comparison={'0' * 32}")
        expect(page.locator("#verdict")).to_contain_text("This link was deleted, or its time is over")


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("links")
    with running_app(folder, space_settings("http://127.0.0.1:9")) as app:
        yield app


def test_a_kept_link_in_a_second_browser(space: Served, browser: BrowserContext, pictures: Pictures) -> None:
    with visit(browser, space.url) as page:
        give(page, pictures, pictures.instruction)
        compare(page, "People would most likely prefer B.")
        expect(page.locator("#details")).to_contain_text("in this Space for 30 days at most")
        page.locator("#share-keep").click()
        link = page.locator("#link input, #link textarea")
        expect(link).to_have_value(re.compile(f"^{space.url}/comparison/[0-9a-f]{{32}}$"))
        address = link.input_value()
        photograph(page, "link")
        with browser.browser.new_context() as second:  # type: ignore[union-attr]
            other = second.new_page()
            other.goto(address)
            images = other.locator(".viewer .pane img")
            expect(images.first).to_be_visible()
            assert faults(other) == []
            other.get_by_text("Mark what changed").click()
            expect(images.last).to_have_attribute("src", re.compile(r"/b\.webp$"))
            assert images.last.evaluate("image => image.decode().then(() => image.naturalWidth)") == 256
            cut = other.locator("input[name=cut]")
            cut.focus()
            other.keyboard.press("Home")
            expect(other.locator(".viewer")).to_have_attribute("style", re.compile("--cut: ?0%"))
            other.get_by_text("Embed", exact=True).click()
            code = re.compile(f'^<iframe src="{address}" title="Make the red')
            expect(other.get_by_label("Code")).to_have_value(code)
            with second.expect_page() as opening:
                other.get_by_text("Open in the app").click()
            app = opening.value
            expect(app.locator("#verdict")).to_contain_text("Opened from a link")
            expect(app.locator("#instruction textarea, #instruction input")).to_have_value(pictures.instruction)
            expect(app.locator("#share-delete")).to_be_hidden()
            compare(app, "People would most likely prefer B.")
            assert app.url.rstrip("/") == space.url
        page.goto(address.replace("comparison/", "?comparison="))  # the browser that kept it deletes it any time
        page.locator("#share-delete").click()
        expect(page.locator("#share-kept")).to_contain_text("The link is deleted")
        assert page.request.get(address).status == 404

"""The journey of a new user: score, correct, vote, evolve, see the gain, use it, publish it, share a link."""

import re
from pathlib import Path

import pytest
from app_parts import Site
from playwright.sync_api import BrowserContext, Page, expect
from visits import PATIENCE, fill, fold_out, open_tab, visit

from rewardharness.library.hub import Access, pull

pytestmark = pytest.mark.browser

REPO = "ann/first"
SAMPLE = "Blue space suit"


def judge_sample(page: Page) -> None:
    """Judge the first sample."""
    page.get_by_role("button", name=SAMPLE).click()
    expect(page.locator("#verdict")).to_contain_text(re.compile("would most likely prefer [AB]|Too close"))
    expect(page.locator("#reasons")).to_contain_text("Why")


def correct(page: Page) -> None:
    """Correct what was understood, and judge again."""
    before = page.locator("#instruction textarea, #instruction input").input_value()
    page.locator("#understood-correct").click()
    fill(page, "understood-to", "green")
    page.locator("#understood-use").click()
    expect(page.locator("#instruction textarea, #instruction input")).not_to_have_value(before)
    expect(page.locator("#understood")).to_contain_text("green")
    page.locator("#compare").click()
    expect(page.locator("#verdict")).to_contain_text(re.compile("prefer|Too close|Neither"))


def vote(page: Page) -> None:
    """Vote eight times by keys: on the samples, then on generated pairs. Enter does not wait for the judge's answer."""
    open_tab(page, "Vote")
    for number in range(1, 9):
        expect(page.locator("#vote-question")).to_contain_text(re.compile(rf"(Pair|Group) {number} of "))
        expect(page.locator("#vote-is-a")).to_be_enabled()
        page.keyboard.press("a")
        if "Group" in page.locator("#vote-question").inner_text():
            expect(page.locator("#vote-question")).to_contain_text("Best so far: A.")
            page.keyboard.press("t")
        if number < 8:
            page.keyboard.press("Enter")
    expect(page.locator("#vote-result")).to_contain_text(re.compile("Your (answer|ranking):"))
    expect(page.locator("#vote-summary")).to_contain_text(re.compile(r"\d+ labels: evolution needs 8"))
    expect(page.locator("#vote-evolve")).to_be_enabled()


def evolve(page: Page) -> str:
    """Evolve with what the tab offers, but fewer proposals; returns the name of the run."""
    open_tab(page, "Evolve")
    expect(page.locator("#evolve-thin")).to_contain_text("Half of the built-in criteria")
    fold_out(page, "Search and budget")
    fill(page, "evolve-proposals", "15")
    page.locator("#evolve-see").click()
    page.locator("#evolve-start").click()
    expect(page.locator("#evolve-standing h3")).to_contain_text("Finished", timeout=9 * PATIENCE)
    expect(page.locator("#evolve-standing")).to_contain_text("held-out")
    expect(page.locator("#evolve-now")).to_contain_text("Held-out examples whose verdict changed")
    expect(page.locator("#evolve-thumbnails img").first).to_be_visible()
    found = re.search(r"run=([\w-]+)", page.url)
    assert found, page.url
    return found[1]


def share(page: Page, browser: BrowserContext) -> None:
    """Keep a link, and open it in a second browser."""
    page.locator("#share-keep").click()
    link = page.locator("#link input, #link textarea")
    expect(link).to_have_value(re.compile("/comparison/[0-9a-f]{32}$"))
    address = link.input_value()
    with browser.browser.new_context() as second:  # type: ignore[union-attr]
        other = second.new_page()
        other.goto(address)
        expect(other.locator(".viewer .pane img").first).to_be_visible()


@pytest.mark.timeout(1200)  # it evolves in a process of its own, beside the browsers of other tests
def test_a_user_goes_from_a_sample_to_a_published_library(site: Site, browser: BrowserContext, tmp_path: Path) -> None:
    with visit(browser, site.app.url) as page:
        judge_sample(page)
        correct(page)
        vote(page)
        name = evolve(page)
        page.locator("#evolve-to-score").click()
        expect(page.get_by_role("button", name=f"Library: '{name}'")).to_be_visible()
        judge_sample(page)
        share(page, browser)
        open_tab(page, "Evolve")
        page.locator("#evolve-to-publish").click()
        expect(page.locator("#evolve-use")).to_contain_text("Held-out test set:")
        fill(page, "evolve-publish-repo", REPO)
        page.locator("#evolve-publish-preview").click()
        expect(page.locator("#evolve-publish-told")).to_contain_text(f"v0.1.0 would be published in {REPO}")
        expect(page.locator("#evolve-publish-told")).to_contain_text("that edits were chosen on")
        page.locator("#evolve-publish-confirm").click()
        expect(page.locator("#evolve-publish-told")).to_contain_text(f"{REPO} v0.1.0 is published")
    pulled = pull(REPO, "v0.1.0", access=Access(site.token, site.hub.url, tmp_path / "cache"))
    assert pulled.library.lineage and "on which nothing was decided" in pulled.card

"""A Space with three visitors, one of them hostile: the two others judge and vote as if they were alone."""

import json
import os
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from app_parts import Served, running_app
from benchmark_parts import make_labelled
from hub_server import HubServer
from login_provider import provider, space_settings
from playwright.sync_api import Browser, Page, expect, sync_playwright
from screenshots import photograph
from visits import CHROMIUM, PATIENCE, SWITCHES, open_tab, visit

from rewardharness.demo.dataset import make_demo

pytestmark = pytest.mark.browser

VOTES = "ann/preferences"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Chromium, in which each visitor has storage of their own."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on the PATH")
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=SWITCHES)
        expect.set_options(timeout=PATIENCE)
        yield browser
        browser.close()


def arrive(chromium: Browser, app: Served, address: str) -> Page:
    """Open the page as a visitor from an address, of which the proxy of the Space tells."""
    context = chromium.new_context(extra_http_headers={"X-Forwarded-For": address})
    context.set_default_timeout(PATIENCE)
    return visit(context, app.url).page


def upload(page: Page, archive: Path) -> None:
    open_tab(page, "Batch")
    expect(page.locator("#batch-introduction")).to_contain_text("at most 100 examples and 20 MB")
    expect(page.locator("#batch-place")).to_be_hidden()
    expect(page.locator("#batch-table img")).to_have_count(0)
    page.locator("#batch-see").click()
    expect(page.locator("#batch-cost")).to_contain_text("There is no archive.")
    page.locator("#batch-upload input[type=file]").set_input_files(archive)
    expect(page.locator("#batch-upload")).to_contain_text(archive.stem)
    page.locator("#batch-see").click()


def judge(page: Page, archive: Path) -> None:
    upload(page, archive)
    expect(page.locator("#batch-cost")).to_contain_text("Images and results are deleted after 24 hours.")
    page.locator("#batch-start").click()
    expect(page.locator("#batch-run")).to_contain_text("Finished")
    expect(page.locator("#batch-table img").first).to_be_visible()
    photograph(page, "visitor-batch")


def vote(page: Page, key: str) -> None:
    open_tab(page, "Vote")
    expect(page.locator("#vote-is-a")).to_be_enabled()
    page.keyboard.press(key)
    expect(page.locator("#vote-result")).to_contain_text("It is stored in")


def test_a_hostile_visitor_takes_nothing_from_two_others(chromium: Browser, tmp_path: Path) -> None:
    make_demo(tmp_path / "pairs", pairs=2, groups=0, workers=2, side=96)
    good = Path(shutil.make_archive(str(tmp_path / "good"), "zip", make_labelled(tmp_path / "labelled")))
    evil = tmp_path / "evil.zip"
    with zipfile.ZipFile(evil, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in ("big.png", "a.png", "a.png/x.png"):
            packed.writestr(name, os.urandom(1_000_000) if name == "big.png" else b"x")
    with HubServer() as hub, provider("bob", hub.login("bob")) as url:
        owner = {"HF_ENDPOINT": hub.url, "HF_TOKEN": hub.login("ann"), "HF_HOME": str(tmp_path / "hf")}
        votes = {"RH_FEEDBACK_REPO": VOTES, "RH_VOTE_DATA": str(tmp_path / "pairs"), "RH_FEEDBACK_SALT": "salt"}
        with running_app(tmp_path, {**space_settings(url), **owner, **votes}) as app:
            places = tmp_path / "home" / "visitors"
            first, hostile, third = (arrive(chromium, app, each) for each in ("8.8.8.8", "9.9.9.9", "1.1.1.1"))
            judge(first, good)
            kept = {each.name for each in places.iterdir()}
            upload(hostile, evil)
            expect(hostile.locator("#batch-cost")).to_contain_text("a file and a folder of one name: a.png")
            assert {each.name for each in places.iterdir()} == kept, "nothing was unpacked"
            vote(hostile, "a")
            hostile.evaluate("document.querySelector('#vote-is-b').disabled = false")
            hostile.locator("#vote-is-b").dispatch_event("click")
            expect(hostile.locator("#vote-result")).to_contain_text("This ballot was used already")
            vote(first, "b")
            judge(third, good)
            first.reload()
            open_tab(first, "Batch")
            expect(first.locator("#batch-table img").first).to_be_visible()
            assert first.locator("#batch-table tbody tr").count() == third.locator("#batch-table tbody tr").count()
            for page in (first, hostile, third):
                assert "9.9.9.9" not in page.content() and str(places) not in page.content()
        files = hub.store.repos["datasets", VOTES].find("main").files
    rows = [json.loads(line) for path, data in files.items() if path.startswith("votes-") for line in data.splitlines()]
    assert len(rows) == 2 == len({row["session"] for row in rows}) and not any(row["voter"] for row in rows)
    assert len(kept) == 1 and not any(b"9.9.9.9" in data for data in files.values())

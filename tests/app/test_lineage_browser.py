"""The Lineage tab as a person meets it: a picture to click and to walk with the keyboard, a tree on a phone."""

import shutil
from collections.abc import Iterator

import pytest
from app_parts import Served, running_app
from lineage_parts import ATTACK, Scene

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright  # noqa: E402
from screenshots import photograph, screenshot_folder  # noqa: E402
from visits import CHROMIUM, Visit, open_tab, visit  # noqa: E402

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH"),
]


@pytest.fixture(scope="module")
def app(lineage_scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("lineage-app")
    shutil.copytree(lineage_scene.home, folder / "home")
    with running_app(folder, {"HF_HUB_OFFLINE": "1"}) as served:
        yield served


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as running:
        started = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield started
        started.close()


def card(page: Page, kind: str, words: str) -> Locator:
    return page.locator(f"#lineage-picture .thing.{kind} .card", has_text=words)


def opened(page: Page) -> Locator:
    return page.locator("#lineage-picture .detail:popover-open")


def close(seen: Visit) -> None:
    assert seen.errors == seen.foreign == seen.dialogs == [] and seen.page.evaluate("window.owned") is None
    seen.page.close()


def test_a_person_walks_from_a_preference_to_a_comparison(
    app: Served, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shots = screenshot_folder(tmp_path_factory)
    seen = visit(browser, app)
    page = seen.page
    open_tab(page, "Lineage")
    for kind, words in (
        ("data", "pairs"),
        ("release", "reward.release"),
        ("comparison", "better"),
        ("model", "org/base"),
    ):
        expect(card(page, kind, words)).to_be_visible()
    photograph(page, shots / "lineage-wide-light.png")

    card(page, "result", "failed").click()
    expect(opened(page)).to_contain_text("Failed in the stage preflight")
    expect(opened(page)).to_contain_text(f"No GPU is free {ATTACK}")
    opened(page).get_by_role("button", name="Close").click()
    expect(opened(page)).to_have_count(0)

    # The keyboard: the things come one after the other, Enter opens, Escape closes and leads back.
    card(page, "edit", "timid-removals").focus()
    page.keyboard.press("Enter")
    expect(opened(page)).to_contain_text("Because of")
    expect(opened(page).get_by_role("button", name="Close")).to_be_focused()
    page.screenshot(path=shots / "lineage-detail-wide-light.png")
    page.keyboard.press("Escape")
    expect(opened(page)).to_have_count(0)
    expect(card(page, "edit", "timid-removals")).to_be_focused()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "card"

    page.get_by_role("button", name="Compare two evals").click()
    page.locator("#lineage-compare-them").click()
    expect(page.locator("#lineage-compared")).to_contain_text("after is better than before in accuracy, by 0.3")
    page.get_by_role("button", name="The same as a table").click()
    expect(page.locator("#lineage-table tr", has_text="Result: failed")).to_contain_text("led to plan grpo-2")
    photograph(page, shots / "lineage-below-wide-light.png")

    page.locator("#lineage-about input").click()
    page.get_by_role("option", name="eval before").click()
    expect(page.locator("#lineage-picture .thing")).to_have_count(3)
    expect(card(page, "eval", "chosen")).to_be_visible()
    close(seen)


def test_on_a_phone_it_is_a_tree_and_a_library_tells_its_own(
    app: Served, lineage_scene: Scene, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shots = screenshot_folder(tmp_path_factory)
    seen = visit(browser, app, "narrow", "dark")
    page = seen.page
    open_tab(page, "Lineage")
    expect(card(page, "comparison", "better")).to_be_visible()
    expect(page.locator("#lineage-picture .ties")).to_be_hidden()
    expect(page.locator("#lineage-picture .relation", has_text="released as")).to_be_visible()
    boxes = [each.bounding_box() for each in page.locator("#lineage-picture .card").all()]
    lows = [box["y"] for box in boxes if box is not None]
    assert len(lows) == len(boxes) and lows == sorted(lows), "one below the other, as the tree has them"
    photograph(page, shots / "lineage-narrow-dark.png")
    card(page, "eval", "after").click()
    expect(opened(page)).to_contain_text("50 of 51")
    page.screenshot(path=shots / "lineage-detail-narrow-dark.png")
    page.keyboard.press("Escape")

    page.locator("#lineage-kind").get_by_text("A Library").click()
    expect(page.locator("#lineage-told")).to_contain_text("This Library has no lineage")
    page.locator("#lineage-library-kind").get_by_text("A folder on this computer").click()
    page.locator("#lineage-library-folder input, #lineage-library-folder textarea").fill(
        str(lineage_scene.run / "library")
    )
    page.locator("#lineage-again").click()
    expect(card(page, "data", "of data that are not named")).to_be_visible()
    expect(page.locator("#lineage-picture .thing.manifest")).to_have_count(0)
    page.locator("#lineage-kind").get_by_text("Records in a folder").click()
    page.locator("#lineage-folder input, #lineage-folder textarea").fill(str(lineage_scene.home))
    page.locator("#lineage-again").click()
    expect(page.locator("#lineage-told")).to_contain_text("No records yet")
    close(seen)


def test_strangers_see_how_a_library_came_to_be_and_no_records(
    lineage_scene: Scene, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("lineage-space")
    shutil.copytree(lineage_scene.home, folder / "home")
    env = {"HF_HUB_OFFLINE": "1", "SYSTEM": "spaces", "RH_LIBRARY": str(lineage_scene.run / "library")}
    with running_app(folder, env) as served:
        seen = visit(browser, served)
        page = seen.page
        open_tab(page, "Lineage")
        expect(card(page, "edit", "timid-removals")).to_be_visible()
        for part in ("#lineage-kind", "#lineage-about", "#lineage-folder", "#lineage-compare"):
            expect(page.locator(part)).to_be_hidden()
        assert "grpo" not in page.content() and lineage_scene.release not in page.content()
        close(seen)

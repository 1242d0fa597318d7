"""The Lineage tab in a browser: flowchart, details, table and comparison."""

import shutil
from collections.abc import Iterator

import pytest
from app_parts import Served, running_app
from lineage_parts import ATTACK, Scene
from playwright.sync_api import BrowserContext, Page, expect
from screenshots import photograph
from visits import Visit, open_tab, visit

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def app(lineage_scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("lineage-app")
    shutil.copytree(lineage_scene.home, folder / "home")
    with running_app(folder, {"HF_HUB_OFFLINE": "1"}) as served:
        yield served


def choose(page: Page, name: str) -> None:
    """Choose an item under About."""
    page.locator("#lineage-about input").fill(name)
    page.get_by_role("option", name=name).first.click()


def close(seen: Visit) -> None:
    assert seen.errors == seen.foreign == seen.dialogs == [] and seen.page.evaluate("window.owned") is None
    seen.page.close()


def test_from_preferences_to_a_comparison(app: Served, browser: BrowserContext) -> None:
    seen = visit(browser, app.url)
    page = seen.page
    open_tab(page, "Lineage")
    picture = page.locator("#lineage-diagram svg")
    expect(picture).to_be_visible()
    for words in ("data pairs", "release ", "comparison gain", "model org/base", ATTACK[:20]):
        expect(picture).to_contain_text(words)
    photograph(page, "lineage")

    choose(page, "result grpo-1")
    details = page.locator("#lineage-details")
    expect(details).to_contain_text("preflight")
    expect(details).to_contain_text(f"No GPU is free {ATTACK}")
    expect(picture).not_to_contain_text("release of another")
    photograph(page, "lineage-details")

    page.get_by_role("button", name="Table").click()
    expect(page.locator("#lineage-table tr", has_text="result grpo-1: failed").first).to_contain_text("resulted in")
    choose(page, "Everything")
    page.get_by_role("button", name="Compare two evals").click()
    page.locator("#lineage-compare-them").click()
    expect(page.locator("#lineage-compared")).to_contain_text("after is better than before in accuracy, by 0.3")
    close(seen)


def test_on_a_phone_and_for_a_library(app: Served, lineage_scene: Scene, browser: BrowserContext) -> None:
    seen = visit(browser, app.url, "narrow", "dark")
    page = seen.page
    open_tab(page, "Lineage")
    expect(page.locator("#lineage-diagram svg")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "only the flowchart scrolls"
    photograph(page, "lineage-phone")

    page.locator("#lineage-kind").get_by_text("A Library").click()
    expect(page.locator("#lineage-message")).to_contain_text("This Library has no lineage")
    page.locator("#lineage-library-kind").get_by_text("A folder on this computer").click()
    page.locator("#lineage-library-folder input, #lineage-library-folder textarea").fill(
        str(lineage_scene.run / "library")
    )
    page.locator("#lineage-refresh").click()
    expect(page.locator("#lineage-diagram svg")).to_contain_text("preferences-for-all-edits")
    expect(page.locator("#lineage-diagram svg")).not_to_contain_text("grpo")
    page.locator("#lineage-kind").get_by_text("Records in a folder").click()
    page.locator("#lineage-folder input, #lineage-folder textarea").fill(str(lineage_scene.home))
    page.locator("#lineage-refresh").click()
    expect(page.locator("#lineage-message")).to_contain_text("No records yet")
    close(seen)


def test_visitors_of_a_space_see_the_demonstration_set_and_no_runs_or_records(
    lineage_scene: Scene, browser: BrowserContext, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("lineage-space")
    shutil.copytree(lineage_scene.home, folder / "home")
    token, run = "hf_canary_of_the_owner", lineage_scene.run.name
    env = {"HF_HUB_OFFLINE": "1", "HF_TOKEN": token, "SYSTEM": "spaces"}
    with running_app(folder, {**env, "RH_LIBRARY": str(lineage_scene.run / "library")}) as served:
        seen = visit(browser, f"{served.url.replace('0.0.0.0', '127.0.0.1')}/?run={run}")
        page = seen.page
        open_tab(page, "Evolve")
        expect(page.locator("#evolve-told")).to_contain_text("There is no such run.")
        expect(page.locator("#evolve-introduction")).to_contain_text("up to 10 minutes")
        for part in ("#evolve-list", "#evolve-library-kind", "#evolve-judge-section", "#evolve-proposer"):
            expect(page.locator(part)).to_be_hidden()
        expect(page.locator("#evolve-data label")).to_have_count(1)
        open_tab(page, "Lineage")
        expect(page.locator("#lineage-diagram svg")).to_contain_text("preferences-for-all-edits")
        for part in ("#lineage-kind", "#lineage-folder", "#lineage-compare"):
            expect(page.locator(part)).to_be_hidden()
        text = page.content()
        assert "grpo" not in text and lineage_scene.release not in text
        assert token not in text and str(folder / "home" / "runs") not in text
        close(seen)

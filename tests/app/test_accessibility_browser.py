"""Every tab in a real browser: axe-core, overflow and layout shift; the Lineage tab."""

import shutil
from collections.abc import Iterator

import pytest
from accessible import WATCH_SHIFTS, faults
from app_parts import Served, running_app
from benchmark_parts import judged, make_labelled, on
from lineage_parts import ATTACK, Scene
from playwright.sync_api import BrowserContext, Page, expect
from screenshots import SIZES, at_each_size, photograph
from visits import fill, open_tab, visit

from rewardharness.cli.main import main

pytestmark = pytest.mark.browser

LOADED = {
    "Score": "#samples button",
    "Batch": "#batch-table img",
    "Vote": "#vote-b img",
    "Library": "#entries label",
    "Evolve": "#evolve-edits label",
    "Benchmark": "#benchmark-table table",
    "Lineage": "#lineage-diagram svg",
}
"""The tabs, and an element of each that its content has."""

BEGUN = {"Evolve": "#evolve-see", "Benchmark": "#benchmark-see", "Batch": "#batch-see"}
"""What is seen of tabs that show no run."""

RUNS = {"Evolve": "run=evolution", "Benchmark": "benchmark=judged", "Batch": "batch=batch"}
"""What the address says to show a run."""

PRESSED = {"Check": ["#check"], "Compare": ["#diff", "#benchmark-compare"], "Hub": ["#card-show", "#versions-list"]}
"""Buttons that fill an inner tab."""

UNFOLD = "document.querySelectorAll('button.label-wrap:not(.open)').forEach(e => e.checkVisibility() && e.click())"

INNER = """id => {
  const tabs = document.querySelectorAll(`#${id} > .tab-wrapper :is([role=tab], .overflow-dropdown button)`);
  return [...new Set([...tabs].map(e => e.textContent.trim()))];
}"""
"""The names of the tabs in a row of tabs."""

CLICK_TAB = """name => [...document.querySelectorAll('#tabs > .tab-wrapper [role=tab]')]
  .find(e => e.textContent.trim() === name && e.checkVisibility() && !e.closest('.visually-hidden')).click()"""
"""Opens a tab by a script, since shifts right after input of a user do not count."""

QUIET = """() => new Promise(done => {
  let timer;
  const watch = new MutationObserver(() => { clearTimeout(timer); timer = setTimeout(end, 500); });
  const end = () => { watch.disconnect(); done(); };
  watch.observe(document.body, { childList: true, subtree: true, characterData: true });
  timer = setTimeout(end, 500);
})"""
"""Waits until nothing has changed in the page for half a second."""

RECOLORED = """async scheme => {
  while (document.body.classList.contains("dark") !== (scheme === "dark")) await new Promise(requestAnimationFrame);
  await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  const transitions = document.getAnimations().filter(each => each instanceof CSSTransition);
  await Promise.all(transitions.map(each => each.finished.catch(() => null)));
}"""
"""Waits until the page has the colors of a scheme."""


@pytest.fixture(scope="module")
def app(lineage_scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """An app with an evolution, a benchmark run, a batch and lineage records."""
    folder = tmp_path_factory.mktemp("accessible")
    home = shutil.copytree(lineage_scene.home, folder / "home")
    judged(home, on(make_labelled(folder / "pairs")), "judged")
    assert main(["score", str(folder / "pairs"), "--run", str(home / "runs" / "batch"), "--quiet"]) == 0
    with running_app(folder, {"HF_HUB_OFFLINE": "1"}) as served:
        yield served


@pytest.fixture(scope="module")
def browser(app: Served, browser: BrowserContext) -> BrowserContext:
    """After the app: the event loop of the browser driver runs in this thread, and judging needs one of its own."""
    return browser


def show_result(page: Page, tab: str) -> None:
    """Show a result on the tab."""
    if tab == "Score":
        page.locator("#samples button").first.click()
        expect(page.locator("#viewer .pane img").first).to_be_visible()
    elif tab == "Vote":
        page.locator("#vote-is-a").click()
        if "Group" in page.locator("#vote-question").inner_text():
            expect(page.locator("#vote-question")).to_contain_text("Best so far: A.")
            page.locator("#vote-tie").click()
        expect(page.locator("#vote-result .verdict, #vote-result .callout").first).to_be_visible()
    elif tab == "Library":
        page.locator("#entries label").first.click()
        expect(page.locator("#entry-rubric table")).to_be_visible()
    elif tab == "Evolve":
        page.locator("#evolve-edits label", has_text="Accepted").last.click()
        page.locator("#evolve-examples label").first.click()
        expect(page.locator("#evolve-case-viewer .pane img").first).to_be_visible()
    elif tab == "Lineage":
        choose_item(page, "result grpo-1")
        expect(page.locator("#lineage-details .rh").first).to_be_visible()


def shift(page: Page) -> float:
    """Return by how much the page has shifted since it was loaded or since this was called last."""
    page.evaluate(QUIET)
    return float(page.evaluate("() => { const sum = window.shifts; window.shifts = 0; return sum; }"))


def found(page: Page, view: str) -> dict[str, list[str]]:
    """Return the faults of the page as it is shown, at each size and in each scheme."""
    views = {}
    for size in at_each_size(page):
        page.evaluate(QUIET)
        for scheme, rules in (("light", ()), ("dark", ("color-contrast",))):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
            page.evaluate(RECOLORED, scheme)
            views[f"{view}, {size}, {scheme}"] = faults(page, *rules)
    return {name: wrong for name, wrong in views.items() if wrong}


@pytest.mark.parametrize("size", SIZES)
def test_what_loads_does_not_shift_the_page(app: Served, browser: BrowserContext, size: str) -> None:
    shifts = {}
    with visit(browser, app.url, size) as page:
        page.evaluate(WATCH_SHIFTS)
        for tab, sign in (LOADED | BEGUN).items():
            page.evaluate(CLICK_TAB, tab)
            page.locator(sign).first.wait_for()
            shifts[tab] = shift(page)
        for tab, run in RUNS.items():
            page.goto(f"{app.url}/?{run}")
            page.locator(LOADED[tab]).first.wait_for()
            page.evaluate(WATCH_SHIFTS)
            shifts[f"address of {tab}"] = shift(page)
    assert {view: value for view, value in shifts.items() if value > 0.1} == {}


@pytest.mark.timeout(900)  # two minutes where three processes share two cores, and more where the disk is slow
def test_tabs_are_accessible(app: Served, browser: BrowserContext) -> None:
    wrong: dict[str, list[str]] = {}
    with visit(browser, app.url) as page:
        for tab, sign in LOADED.items():
            if tab in RUNS:
                page.goto(f"{app.url}/?{RUNS[tab]}")
            else:
                open_tab(page, tab)
            page.locator(sign).first.wait_for()
            show_result(page, tab)
            for inner in page.evaluate(INNER, f"{tab.lower()}-tabs") or [""]:
                if inner:
                    open_tab(page, inner, f"#{tab.lower()}-tabs")
                page.evaluate(UNFOLD)
                for button in PRESSED.get(inner, ()):
                    for visible in page.locator(button).locator("visible=true").all():
                        visible.click()
                page.evaluate(QUIET)
                wrong |= found(page, f"{tab} {inner}".strip())
    assert not wrong, "\n".join(f"{view}: {each}" for view, found in wrong.items() for each in found)


def choose_item(page: Page, name: str) -> None:
    """Choose an item under About."""
    page.locator("#lineage-about input").fill(name)
    page.get_by_role("option", name=name).first.click()


def test_lineage_of_records_and_of_a_library(app: Served, lineage_scene: Scene, browser: BrowserContext) -> None:
    with visit(browser, app.url) as page:
        open_tab(page, "Lineage")
        picture, details = page.locator("#lineage-diagram svg"), page.locator("#lineage-details")
        expect(picture).to_be_visible()
        for words in ("data pairs", "release ", "comparison gain", "model org/base", ATTACK[:20]):
            expect(picture).to_contain_text(words)
        photograph(page, "lineage")
        choose_item(page, "result grpo-1")
        expect(details).to_contain_text("preflight")
        expect(details).to_contain_text(f"No GPU is free {ATTACK}")
        expect(picture).not_to_contain_text("release of another")
        photograph(page, "lineage-details")
        page.get_by_role("button", name="Table").click()
        expect(page.locator("#lineage-table tr", has_text="result grpo-1: failed").first).to_contain_text("resulted in")
        choose_item(page, "Everything")

        page.locator("#lineage-kind").get_by_text("A Library").click()
        expect(page.locator("#lineage-message")).to_contain_text("This Library has no lineage")
        page.locator("#lineage-library-kind").get_by_text("A folder on this computer").click()
        fill(page, "lineage-library-folder", str(lineage_scene.run / "library"))
        page.locator("#lineage-refresh").click()
        expect(picture).to_contain_text("preferences-for-all-edits")
        expect(picture).not_to_contain_text("grpo")
        page.locator("#lineage-kind").get_by_text("Records in a folder").click()
        fill(page, "lineage-folder", str(lineage_scene.home))
        page.locator("#lineage-refresh").click()
        expect(page.locator("#lineage-message")).to_contain_text("No records yet")


def test_visitors_of_a_space_see_the_demonstration_set_and_no_runs_or_records(
    lineage_scene: Scene, browser: BrowserContext, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("lineage-space")
    shutil.copytree(lineage_scene.home, folder / "home")
    token, run = "hf_canary_of_the_owner", lineage_scene.run.name
    env = {"HF_HUB_OFFLINE": "1", "HF_TOKEN": token, "SYSTEM": "spaces"}
    with (
        running_app(folder, {**env, "RH_LIBRARY": str(lineage_scene.run / "library")}) as served,
        visit(browser, f"{served.url.replace('0.0.0.0', '127.0.0.1')}/?run={run}") as page,
    ):
        open_tab(page, "Evolve")
        expect(page.locator("#evolve-told")).to_contain_text("There is no such run.")
        expect(page.locator("#evolve-introduction")).to_contain_text("up to 10 minutes")
        for part in ("#evolve-list", "#evolve-library-kind", "#evolve-judge-section", "#evolve-proposer"):
            expect(page.locator(part)).to_be_hidden()
        expect(page.locator("#evolve-data label")).to_have_count(1)
        open_tab(page, "Lineage")
        expect(page.locator("#lineage-diagram svg")).to_contain_text("preferences-for-all-edits")
        for part in ("#lineage-kind", "#lineage-folder"):
            expect(page.locator(part)).to_be_hidden()
        text = page.content()
        assert "grpo" not in text and lineage_scene.release not in text
        assert token not in text and str(folder / "home" / "runs") not in text

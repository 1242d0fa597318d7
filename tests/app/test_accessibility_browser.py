"""Every tab in a real browser: contrast, names and sizes of controls, overflow and layout shift."""

from collections.abc import Iterator

import pytest
from accessible import LOW_CONTRAST, WATCH_SHIFTS, faults
from app_parts import Served, running_app
from benchmark_parts import judged, make_labelled, on
from lineage_parts import make_scene
from playwright.sync_api import BrowserContext, Page, expect
from visits import open_tab, visit

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

PRESSED = {
    "Check": ["#check"],
    "Compare": ["#diff", "#benchmark-compare"],
    "Hub": ["#card-show", "#versions-list"],
}
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


RECOLORED = """async scheme => {
  while (document.body.classList.contains("dark") !== (scheme === "dark")) await new Promise(requestAnimationFrame);
  await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  const transitions = document.getAnimations().filter(each => each instanceof CSSTransition);
  await Promise.all(transitions.map(each => each.finished.catch(() => null)));
}"""
"""Waits until the page has the colors of a scheme."""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """An app with an evolution, a benchmark run and lineage records."""
    folder = tmp_path_factory.mktemp("accessible")
    scene = make_scene(folder)
    judged(scene.home, on(make_labelled(folder / "pairs")), "judged")
    assert main(["score", str(folder / "pairs"), "--run", str(scene.home / "runs" / "batch"), "--quiet"]) == 0
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
        expect(page.locator("#vote-result .verdict, #vote-result .callout").first).to_be_visible()
    elif tab == "Library":
        page.locator("#entries label").first.click()
        expect(page.locator("#entry-rubric table")).to_be_visible()
    elif tab == "Evolve":
        page.locator("#evolve-edits label", has_text="Accepted").last.click()
        page.locator("#evolve-examples label").first.click()
        expect(page.locator("#evolve-case-pictures img").first).to_be_visible()
    elif tab == "Lineage":
        page.locator("#lineage-about input").click()
        page.locator("#lineage-about [role=option]").nth(2).click()
        expect(page.locator("#lineage-details .rh").first).to_be_visible()


def settle(page: Page) -> None:
    """Wait until nothing has changed in the page for half a second."""
    page.evaluate(QUIET)


def shift(page: Page) -> float:
    """Return by how much the page has shifted since it was loaded or since this was called last."""
    settle(page)
    return float(page.evaluate("() => { const sum = window.shifts; window.shifts = 0; return sum; }"))


def found(page: Page, view: str) -> dict[str, list[str]]:
    """Return the faults of the page as it is shown."""
    views = {view: faults(page)}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        page.evaluate(RECOLORED, scheme)
        views[f"{view}, {scheme}"] = page.evaluate(LOW_CONTRAST)
    return {name: wrong for name, wrong in views.items() if wrong}


@pytest.mark.timeout(900)  # two minutes where three processes share two cores, and more where the disk is slow
@pytest.mark.parametrize("size", ["wide", "narrow"])
def test_tabs_are_accessible(app: Served, browser: BrowserContext, size: str) -> None:
    wrong: dict[str, list[str]] = {}
    with visit(browser, app.url, size) as page:
        shifts = {}
        page.evaluate(WATCH_SHIFTS)
        begun = {"Evolve": "#evolve-see", "Benchmark": "#benchmark-see", "Batch": "#batch-see"}
        for tab, sign in (LOADED | begun).items():
            page.evaluate(CLICK_TAB, tab)
            page.locator(sign).first.wait_for()
            shifts[tab] = shift(page)
        for address, tab in (
            ("?run=evolution", "Evolve"),
            ("?benchmark=judged", "Benchmark"),
            ("?batch=batch", "Batch"),
        ):
            page.goto(f"{app.url}/{address}")
            page.locator(LOADED[tab]).first.wait_for()
            page.evaluate(WATCH_SHIFTS)
            shifts[f"address of {tab}"] = shift(page)
        for tab, sign in LOADED.items():
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
                settle(page)
                wrong |= found(page, f"{tab} {inner}".strip())
    assert wrong == {}
    assert {view: value for view, value in shifts.items() if value > 0.1} == {}

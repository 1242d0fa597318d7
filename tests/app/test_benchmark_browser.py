"""Benchmarks as a person meets them: begun from the tab, read, looked into question by question, compared."""

from pathlib import Path

import pytest
from app_parts import Served
from benchmark_parts import PAIRS, judged, make_labelled, make_timid, on
from hostile import HOSTILE
from playwright.sync_api import BrowserContext, Page, expect
from screenshots import photograph
from visits import fill, open_tab, visit

pytestmark = pytest.mark.browser

TABS = {"Score": "#compare", "Library": "#search", "Evolve": "#evolve-see", "Benchmark": "#benchmark-see"}
"""Tabs, and what is seen on each."""

PARTS = {
    "Table": "#benchmark-table table",
    "Questions": "#benchmark-questions-table img",
    "Kinds": "#benchmark-kinds table",
    "Confidence": "#benchmark-curve svg",
    "About": "#benchmark-about table",
}
"""Parts of a run, and what is seen on each."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_labelled(tmp_path_factory.mktemp("browser") / "pairs", hostile=HOSTILE)


@pytest.fixture(scope="module")
def compared(data: Path, served: Served) -> str:
    """A run with another Library, made before the page is opened."""
    return judged(served.cwd / "home", on(data, library=str(make_timid(data.parent / "timid"))), "benchmark-timid")


@pytest.fixture(scope="module")
def browser(compared: str, browser: BrowserContext) -> BrowserContext:
    """After the run: what drives the browser has an event loop in this thread, and judging needs one of its own."""
    return browser


def choose(page: Page, name: str, words: str) -> None:
    """Choose in a list that drops down, by the words that a choice begins with or holds."""
    page.locator(f"#benchmark-{name} input").click()
    page.locator(f"#benchmark-{name} [role=option]").filter(has_text=words).first.click()


def test_from_the_cost_to_a_comparison(browser: BrowserContext, served: Served, data: Path, compared: str) -> None:
    with visit(browser, served.url) as page:
        for name, sign in TABS.items():
            open_tab(page, name)
            expect(page.locator(sign)).to_be_visible()
        expect(page.locator("#benchmark-standing")).to_contain_text("No run is shown")
        photograph(page, "benchmark-0-new")
        start_a_benchmark(page, data)
        table = page.locator("#benchmark-table")
        expect(table).to_contain_text(f"{PAIRS} of {PAIRS}")
        expect(table).to_contain_text("93.3 [70.2, 98.8]")
        look_into_questions(page)
        compare_rows(page)
        page.goto(served.url)
        page.locator("#compare").wait_for()
        open_tab(page, "Benchmark")
        expect(table).to_contain_text("93.3 [70.2, 98.8]")  # the browser remembers which run it was
        page.goto(f"{served.url}?benchmark={compared}")
        for number, (name, sign) in enumerate(PARTS.items(), 1):
            open_tab(page, name, "#benchmark-tabs")
            expect(page.locator(sign).first).to_be_visible()
            photograph(page, f"benchmark-{number}-{name.lower()}")
        page.get_by_role("button", name="Earlier runs").locator("visible=true").click()
        expect(page.locator("#benchmark-list label").first).to_be_visible()


def start_a_benchmark(page: Page, data: Path) -> None:
    """Fill the form, with mistakes that are met with a remedy."""
    cost = page.locator("#benchmark-cost")

    def preview(words: str) -> None:
        page.locator("#benchmark-see").click()
        expect(cost).to_contain_text(words)

    page.locator("#benchmark-task label", has_text="EditReward-Bench (TIGER-Lab)").click()
    expect(page.locator("#benchmark-about-task")).to_contain_text("The dataset is gated. Accept its terms")
    page.locator("#benchmark-task label", has_text="Data of my own").click()
    fill(page, "benchmark-place", str(data / "nowhere"))
    preview("does not exist")
    fill(page, "benchmark-place", str(data))
    page.locator("#benchmark-by").get_by_text("A release", exact=True).click()
    expect(page.locator("#benchmark-library-kind")).to_be_hidden()
    expect(page.locator("#benchmark-judge-section")).to_be_hidden()
    preview("No release is named.")
    fill(page, "benchmark-release", "deployed:nobody")
    preview("Nothing is deployed as 'nobody'.")
    page.locator("#benchmark-by").get_by_text("A Library and a judge", exact=True).click()
    expect(page.locator("#benchmark-release")).to_be_hidden()
    expect(page.locator("#benchmark-judge-section")).to_be_visible()
    page.locator("#benchmark-baselines").get_by_text("always the first").click()
    preview(f"{PAIRS} examples to judge")
    expect(cost).to_contain_text(f"{2 * PAIRS} judgments")
    page.locator("#benchmark-start").click()
    expect(page.locator("#benchmark-standing")).to_contain_text("Finished")


def look_into_questions(page: Page) -> None:
    """Single questions, with the mouse and with the keys."""
    open_tab(page, "Questions", "#benchmark-tabs")
    table, words = page.locator("#benchmark-questions-table"), page.locator("#benchmark-questions-case-words")
    position = page.locator("#benchmark-questions-position")
    table.locator("button.open").click()  # the only disagreement
    expect(words).to_contain_text("<script>window.owned=1</script>")
    expect(words).to_contain_text("against the label")
    expect(page.locator("#benchmark-questions-case-viewer .pane img").first).to_be_visible()
    expect(position).to_contain_text("1 of 1")
    page.get_by_role("button", name="How the judge got there").locator("visible=true").click()
    expect(page.locator("#benchmark-questions-case-chain-0")).to_contain_text("tool by tool")
    choose(page, "questions-show", "Judge and label agree")
    choose(page, "questions-kind", "remove")
    expect(table.locator("button.open")).to_have_count(3)
    table.locator("button.open").first.click()
    expect(position).to_contain_text("1 of 3")
    expect(words).to_contain_text("Remove the square.")
    page.locator("#benchmark-questions-next").focus()
    for key, place in (("Enter", "2 of 3"), ("ArrowLeft", "1 of 3"), ("k", "3 of 3"), ("j", "1 of 3")):
        page.keyboard.press(key)
        expect(position).to_contain_text(place)


def compare_rows(page: Page) -> None:
    """Compare the row with that of another run, question by question."""
    choose(page, "questions-beside", "timid")
    told = page.locator("#benchmark-questions-compared")
    expect(told).to_contain_text("11 / 1")
    expect(told).to_contain_text("better")
    choose(page, "questions-kind", "All")
    choose(page, "questions-show", "Broken")
    table = page.locator("#benchmark-questions-table")
    expect(table.locator("button.open")).to_have_count(1)
    expect(table.locator("thead")).to_contain_text("timid")
    table.locator("button.open").click()
    expect(page.locator("#benchmark-questions-case-words")).to_contain_text("measured (no VLM), timid")
    expect(page.locator("#benchmark-questions-case-viewer .pane img").first).to_be_visible()

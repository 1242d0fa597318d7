"""The app as a person meets it, in a real browser."""

import itertools
import json
import shutil
from pathlib import Path

import pytest
from app_parts import Pictures, Served
from hostile import HOSTILE
from playwright.sync_api import BrowserContext, Page, Route, expect
from screenshots import at_each_size, photograph
from visits import give, open_tab, visit

COVERED = """line => {
  const box = line.getBoundingClientRect(), block = line.closest(".block"), whole = block.getBoundingClientRect();
  const text = block.querySelector(".prose").getBoundingClientRect();
  const style = getComputedStyle(line);
  const faults = {
    sideways: box.left < whole.left || box.right > whole.right,
    clipped: box.top < whole.top - 1 || box.bottom > whole.bottom + 1,
    "cut off": line.scrollWidth > line.clientWidth + 1 || block.scrollHeight > block.clientHeight + 1,
    covering: text.height > 0 && box.bottom > text.top + 1,
    small: parseFloat(style.fontSize) < 14,
  };
  return Object.keys(faults).filter(name => faults[name]);
}"""
"""What is wrong with where the line with the place in the queue stands."""

pytestmark = pytest.mark.browser


def open_library(page: Page, folder: Path) -> None:
    open_tab(page, "Library")
    page.locator("#library-kind").get_by_text("A folder on this computer").click()
    page.locator("#library-folder input, #library-folder textarea").fill(str(folder))
    page.locator("#library-open").click()


def wait_in_line(page: Page) -> None:
    """Have all events of a page wait in the queue from now on, the third of five."""
    count = itertools.count()
    place = {"msg": "estimation", "rank": 2, "queue_size": 5, "rank_eta": 1234}

    def join(route: Route) -> None:
        route.fulfill(content_type="application/json", body=json.dumps({"event_id": f"e{next(count)}"}))

    news = "".join(f"data: {json.dumps({**place, 'event_id': f'e{each}'})}\n\n" for each in range(8))
    page.route("**/queue/join*", join)
    page.route("**/queue/data*", lambda route: route.fulfill(content_type="text/event-stream", body=news))


def test_who_waits_sees_the_place_in_the_queue(browser: BrowserContext, served: Served) -> None:
    page = visit(browser, served.url).page
    page.get_by_role("button", name="A red balloon").click()
    verdict = page.locator("#verdict")
    expect(verdict).to_contain_text("People would most likely prefer B.")
    expect(verdict).not_to_contain_text("queue")
    page.get_by_role("button", name="Judge: Pixel-based (no model)").click()
    page.locator("#judge-kind").get_by_text("A vLLM or OpenAI-compatible endpoint").click()
    expect(page.locator("#judge-near")).to_contain_text("No model server answers")  # the last event of the choice
    wait_in_line(page)
    for number, (button, waiting) in enumerate(
        {"#check-judge": "#judge-checked", "#compare": "#verdict", "#evolve-see": "#evolve-cost"}.items(), 7
    ):
        if button == "#evolve-see":
            open_tab(page, "Evolve")
        page.locator(button).click()
        line = page.locator(f"{waiting} .progress-text")
        expect(line).to_contain_text("queue: 3/5")
        expect(line).to_be_visible()
        photograph(page, f"{number}-queue")
        for size in at_each_size(page):
            covered = line.evaluate(COVERED)
            assert covered == [], (
                f"{waiting}, {size}: the line and what is below it lie over each other, or it is cut off: {covered}"
            )
    page.close()


def test_from_upload_to_feedback_to_the_library(browser: BrowserContext, served: Served, pictures: Pictures) -> None:
    seen = visit(browser, served.url)
    page = seen.page
    expect(page.locator("#verdict")).to_contain_text("Results appear here")
    give(page, pictures, pictures.instruction)
    page.keyboard.press("Control+Enter")
    expect(page.locator("#verdict")).to_contain_text("People would most likely prefer B.")
    expect(page.locator("#scores")).to_contain_text("Instruction following")
    expect(page.locator("#viewer .pane img").first).to_be_visible()
    page.locator("#viewer").get_by_text("Mark what changed").click()
    expect(page.locator("#viewer .pane.right figcaption")).to_have_text("Candidate B, changes marked")
    page.get_by_role("button", name="How the judge got there").click()
    expect(page.locator("#measured")).to_contain_text("Candidate B, tool by tool")
    page.locator("#look").get_by_text("A", exact=True).click()
    expect(page.locator("#measured")).to_contain_text("Candidate A, tool by tool")
    assert not served.feedback.exists()
    page.get_by_role("button", name="B is better").click()
    expect(page.locator("#thanks")).to_contain_text("which now holds 1 example")
    assert (served.feedback / "pairs.jsonl").is_file()
    with page.expect_download() as download:
        page.locator("#download").click()
    assert '"preference": "B"' in Path(download.value.path()).read_text(encoding="utf-8")
    shutil.rmtree(served.feedback)  # other tests of the app begin without feedback
    open_tab(page, "Library")
    page.locator("#search input, #search textarea").fill("noise-meter")
    expect(page.locator("#entries")).to_contain_text("noise-meter")
    page.locator("#entries label", has_text="noise-meter").first.click()
    expect(page.locator("#entry-head")).to_contain_text("measured Tool")
    expect(page.locator("#entry-tool")).to_contain_text("Runs the measure noise")
    assert seen.foreign == [] and seen.dialogs == [] and seen.errors == []
    page.close()


def test_mistakes_are_met_with_a_remedy_and_another_visitor_sees_nothing(
    browser: BrowserContext, served: Served, pictures: Pictures, tmp_path: Path
) -> None:
    seen = visit(browser, served.url)
    page = seen.page
    page.locator("#compare").click()
    expect(page.locator("#verdict")).to_contain_text("Add the image before the edit.")
    broken = tmp_path / "broken.png"
    broken.write_bytes(pictures.good.read_bytes()[:400])
    give(page, pictures, pictures.instruction)
    page.locator("#more").click()
    page.locator("#candidate-c input[type=file]").set_input_files(broken)
    expect(page.locator("#refused")).to_contain_text("Candidate C is damaged")
    expect(page.locator("#details")).to_be_hidden()
    page.locator("#reset").click()
    expect(page.locator("#verdict")).to_contain_text("Results appear here")
    expect(page.locator("#source img")).to_have_count(0)
    page.get_by_role("button", name="Brighter picture").click()
    expect(page.locator("#verdict")).to_contain_text("People would most likely prefer C.")
    other = visit(browser, served.url)
    expect(other.page.locator("#verdict")).to_contain_text("Results appear here")
    open_library(page, tmp_path / "nowhere")
    expect(page.locator("#library-summary")).to_contain_text("The folder does not exist.")
    assert seen.errors == []
    page.close()
    other.page.close()


def test_a_hostile_library_is_only_text(
    browser: BrowserContext, served: Served, hostile_library: Path, pictures: Pictures
) -> None:
    seen = visit(browser, served.url)
    page = seen.page
    open_library(page, hostile_library)
    expect(page.locator("#library-summary")).to_contain_text("1 Skill")
    for name in ("evil-skill", "evil-tool"):
        page.locator("#entries label", has_text=name).first.click()
        expect(page.locator("#entry-head")).to_contain_text(name)
        expect(page.locator("#entry-text")).to_contain_text("<script>window.owned=1</script>")
    expect(page.locator("#entry-tool")).to_contain_text("<iframe src=https://evil.example>")
    open_tab(page, "Try it", "#library-tabs")
    page.locator("#try-instruction input, #try-instruction textarea").fill(HOSTILE)
    expect(page.locator("#routed")).to_contain_text("2 of 2 entries")
    open_tab(page, "Check", "#library-tabs")
    page.locator("#check").click()
    expect(page.locator("#problems .rh")).to_be_visible()
    open_tab(page, "Compare", "#library-tabs")
    page.locator("#diff").click()
    expect(page.locator("#differences")).to_contain_text("From the built-in Library to the Library")
    expect(page.locator("#differences")).to_contain_text("2 added")
    open_tab(page, "Score")
    page.get_by_role("button", name="Library: built-in").click()
    page.locator("#score-library-kind").get_by_text("A folder on this computer").click()
    expect(page.get_by_role("button", name="Library: none chosen yet")).to_be_visible()
    page.locator("#score-library-folder input, #score-library-folder textarea").fill(str(hostile_library))
    expect(page.get_by_role("button", name="Library: '<script>")).to_be_visible()
    give(page, pictures, HOSTILE)
    page.locator("#compare").click()
    expect(page.locator("#verdict .verdict")).to_be_visible()
    page.get_by_role("button", name="How the judge got there").click()
    page.get_by_role("button", name="Entries consulted").click()
    page.get_by_role("button", name="Notes").click()
    expect(page.locator("#consulted")).to_contain_text("evil-skill")
    assert page.evaluate("window.owned") is None
    foreign = ":is(script, img, a, iframe, svg, style)"
    assert page.locator(f".rh:not(.viewer) {foreign}, .katex").count() == 0
    assert page.locator(f".viewer {foreign}:not(img[src^='gradio_api/file='], .pane img)").count() == 0
    assert seen.foreign == [] and seen.dialogs == []
    page.close()


def test_a_choice_is_answered_although_an_earlier_one_is_not_yet(browser: BrowserContext, served: Served) -> None:
    with visit(browser, served.url) as page:
        open_tab(page, "Library")
        held: list[Route] = []
        page.route("**/gradio_api/run/predict*", lambda route: route.continue_() if held else held.append(route))
        page.locator("#entries label").nth(1).click()
        wanted = page.locator("#entries label").nth(3)
        wanted.click()
        page.evaluate("0")
        held[0].continue_()
        expect(page.locator("#entry-head")).to_contain_text(wanted.locator("input").input_value())


def test_an_address_compares_two_libraries(browser: BrowserContext, served: Served, hostile_library: Path) -> None:
    with visit(browser, served.url) as page:
        page.goto(f"{served.url}/?library={hostile_library}&before=builtin")
        expect(page.locator("#differences")).to_be_visible()
        expect(page.locator("#differences")).to_contain_text("From the built-in Library to the Library")
        open_tab(page, "Score")
        expect(page.get_by_role("button", name="Library: '<script>")).to_be_visible()


def test_the_page_fits_and_has_its_picture_taken(browser: BrowserContext, served: Served) -> None:
    page = visit(browser, served.url, "narrow", "dark").page
    page.get_by_role("button", name="What this judge can and cannot detect").click()
    photograph(page, "1-empty")
    page.get_by_role("button", name="A red balloon").click()
    expect(page.locator("#verdict")).to_contain_text("People would most likely prefer B.")
    expect(page.locator("#viewer .pane img").first).to_be_visible()
    page.get_by_role("button", name="How the judge got there").click()
    page.get_by_role("button", name="Entries consulted").click()
    expect(page.locator("#tool-pictures img").first).to_be_visible()
    photograph(page, "2-result")
    open_tab(page, "Library")
    page.locator("#entries label", has_text="color-and-material-changes").first.click()
    expect(page.locator("#entry-rubric table")).to_be_visible()
    photograph(page, "3-library")
    page.close()

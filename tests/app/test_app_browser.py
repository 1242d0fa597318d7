"""The app as a person meets it, in a real browser."""

import itertools
import json
import shutil
from pathlib import Path

import pytest
from accessible import WATCH_SHIFTS
from app_parts import Pictures, Served
from hostile import HOSTILE
from playwright.sync_api import BrowserContext, Page, Route, expect
from screenshots import at_each_size, photograph
from visits import compare, fill, give, open_tab, visit

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

NAMES = "[...document.querySelectorAll('#pictures button')].map(each => each.getAttribute('aria-label'))"
PREFIXED = f"() => {{ const names = {NAMES}; return names.every(each => each?.includes(': ')) && names; }}"
"""Names of the buttons of the images, once all are prefixed: Gradio may set its own label again at any time."""

pytestmark = pytest.mark.browser


def open_library(page: Page, folder: Path) -> None:
    open_tab(page, "Library")
    page.locator("#library-kind").get_by_text("A folder on this computer").click()
    fill(page, "library-folder", str(folder))
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


def try_sample(page: Page) -> None:
    """Judge a sample: the buttons of the images have names of their own, and the result does not shift the page."""
    page.evaluate(WATCH_SHIFTS)
    names = page.wait_for_function(PREFIXED).json_value()
    assert len(names) == len(set(names)) == 9, names
    page.get_by_role("button", name="A red balloon").click()
    expect(page.locator("#verdict")).to_contain_text("People would most likely prefer B.")
    expect(page.locator("#viewer .pane img").first).to_be_visible()
    assert page.evaluate("window.shifts") < 0.1


def test_who_waits_sees_the_place_in_the_queue(browser: BrowserContext, served: Served) -> None:
    with visit(browser, served.url) as page:
        try_sample(page)
        expect(page.locator("#verdict")).not_to_contain_text("queue")
        page.get_by_role("button", name="Judge: Pixel-based (no model)").click()
        page.locator("#judge-kind").get_by_text("A vLLM or OpenAI-compatible endpoint").click()
        expect(page.locator("#judge-near")).to_contain_text("No model server answers")  # the last event of the choice
        wait_in_line(page)
        waiting = {"#check-judge": "#judge-checked", "#compare": "#verdict", "#evolve-see": "#evolve-cost"}
        for number, (button, place) in enumerate(waiting.items(), 7):
            if button == "#evolve-see":
                open_tab(page, "Evolve")
            page.locator(button).click()
            line = page.locator(f"{place} .progress-text")
            expect(line).to_contain_text("queue: 3/5")
            expect(line).to_be_visible()
            photograph(page, f"{number}-queue")
            faults = {size: line.evaluate(COVERED) for size in at_each_size(page)}
            assert not any(faults.values()), f"{place}: the line and what is below it overlap, or it is cut: {faults}"


def test_from_upload_to_feedback_to_the_library(browser: BrowserContext, served: Served, pictures: Pictures) -> None:
    with visit(browser, served.url) as page:
        expect(page.locator("#verdict")).to_contain_text("Results appear here")
        photograph(page, "1-empty")
        compare(page, "Add the image before the edit.")
        give(page, pictures, pictures.instruction)
        page.keyboard.press("Control+Enter")
        expect(page.locator("#verdict")).to_contain_text("People would most likely prefer B.")
        expect(page.locator("#scores")).to_contain_text("Instruction following")
        page.get_by_role("button", name="How the judge got there").click()
        expect(page.locator("#measured")).to_contain_text("Candidate B, tool by tool")
        page.locator("#look").get_by_text("A", exact=True).click()
        expect(page.locator("#measured")).to_contain_text("Candidate A, tool by tool")
        look_at_images(page, pictures)
        assert not served.feedback.exists()
        page.get_by_role("button", name="B is better").click()
        expect(page.locator("#thanks")).to_contain_text("which now holds 1 example")
        assert (served.feedback / "pairs.jsonl").is_file()
        shutil.rmtree(served.feedback)  # other tests of the app begin without feedback
        critiques = page.locator("#critiques")
        expect(critiques).not_to_contain_text("What is wrong")
        page.locator("#critique input").check()
        page.locator("#compare").click()
        expect(critiques).to_contain_text("What is wrong")
        expect(critiques.locator("li .letter")).to_have_text(["A", "B"])
        expect(critiques.locator("blockquote").first).to_contain_text(pictures.instruction.rstrip("."))
        photograph(page, "2-result")
        open_tab(page, "Library")
        fill(page, "search", "noise-meter")
        page.locator("#entries label", has_text="noise-meter").first.click()
        expect(page.locator("#entry-head")).to_contain_text("measured Tool")
        expect(page.locator("#entry-tool")).to_contain_text("Runs the measure noise")
        photograph(page, "3-library")


def look_at_images(page: Page, pictures: Pictures) -> None:
    """Use the viewer in each of its modes."""
    viewer = page.locator("#viewer .viewer")
    left, right = (viewer.locator(f".pane.{side} img") for side in ("left", "right"))
    for image, path in ((left, pictures.source), (right, pictures.good)):
        expect(image).to_be_visible()
        response = page.request.get(image.evaluate("image => image.src"))
        assert response.body() == path.read_bytes()  # as they were uploaded
    divider, stage = page.get_by_label("Divider"), viewer.locator(".stage")
    stage.scroll_into_view_if_needed()
    box = stage.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 4, box["y"] + 50)
    assert float(divider.input_value()) == pytest.approx(25, abs=1)
    divider.press("ArrowRight")
    assert float(divider.input_value()) == pytest.approx(25.5, abs=1)
    viewer.locator("fieldset.left").get_by_text("A", exact=True).click()
    expect(left).to_have_attribute("alt", "Candidate A")
    plain = left.evaluate("image => image.src")
    viewer.get_by_text("Mark what changed").click()
    expect(left).to_have_attribute("alt", "Candidate A, changes marked")
    assert left.evaluate("image => image.src") != plain
    viewer.get_by_text("Side by side").click()
    boxes = [image.bounding_box() for image in (left, right)]
    assert boxes[0] and boxes[1] and boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]
    viewer.get_by_label("Zoom in").click()
    expect(viewer.locator("output")).to_have_text("150%")
    moved = "plane => plane.getBoundingClientRect().width / plane.parentElement.getBoundingClientRect().width"
    for plane in viewer.locator(".plane").all():
        assert plane.evaluate(moved) == pytest.approx(1.5, abs=0.01)
    viewer.get_by_role("button", name="Fit").click()
    expect(viewer.locator("output")).to_have_text("100%")
    viewer.get_by_text("One at a time").click()
    expect(left).to_be_hidden()
    viewer.get_by_role("button", name="Show the other").click()
    expect(left).to_be_visible()
    expect(right).to_be_hidden()


def test_a_hostile_library_is_only_text(
    browser: BrowserContext, served: Served, hostile_library: Path, pictures: Pictures, tmp_path: Path
) -> None:
    with visit(browser, served.url) as page:
        open_library(page, tmp_path / "nowhere")
        expect(page.locator("#library-summary")).to_contain_text("The folder does not exist.")
        open_library(page, hostile_library)
        expect(page.locator("#library-summary")).to_contain_text("1 Skill")
        for name in ("evil-skill", "evil-tool"):
            page.locator("#entries label", has_text=name).first.click()
            expect(page.locator("#entry-head")).to_contain_text(name)
            expect(page.locator("#entry-text")).to_contain_text("<script>window.owned=1</script>")
        expect(page.locator("#entry-tool")).to_contain_text("<iframe src=https://evil.example>")
        open_tab(page, "Try it", "#library-tabs")
        fill(page, "try-instruction", HOSTILE)
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
        expect(page.locator("#score-setup")).to_contain_text("What this judge can and cannot detect")
        page.locator("#score-library-kind").get_by_text("A folder on this computer").click()
        expect(page.get_by_role("button", name="Library: none chosen yet")).to_be_visible()
        fill(page, "score-library-folder", str(hostile_library))
        expect(page.get_by_role("button", name="Library: '<script>")).to_be_visible()
        give(page, pictures, HOSTILE)
        page.locator("#compare").click()
        expect(page.locator("#verdict .verdict")).to_be_visible()
        for section in ("How the judge got there", "Entries consulted", "Notes"):
            page.get_by_role("button", name=section).click()
        expect(page.locator("#consulted")).to_contain_text("evil-skill")
        foreign = ":is(script, img, a, iframe, svg, style)"
        assert page.locator(f".rh:not(.viewer) {foreign}, .katex").count() == 0
        assert page.locator(f".viewer {foreign}:not(img[src^='gradio_api/file='], .pane img)").count() == 0


def test_an_address_compares_two_libraries(browser: BrowserContext, served: Served, hostile_library: Path) -> None:
    with visit(browser, f"{served.url}/?library={hostile_library}&before=builtin") as page:
        expect(page.locator("#differences")).to_be_visible()
        expect(page.locator("#differences")).to_contain_text("From the built-in Library to the Library")
        open_tab(page, "Score")
        expect(page.get_by_role("button", name="Library: '<script>")).to_be_visible()
        open_tab(page, "Library")
        open_tab(page, "Entries", "#library-tabs")
        held: list[Route] = []
        page.route("**/gradio_api/run/predict*", lambda route: route.continue_() if held else held.append(route))
        page.locator("#entries label").nth(0).click()
        wanted = page.locator("#entries label").nth(1)
        wanted.click()
        page.evaluate("0")
        held[0].continue_()
        expect(page.locator("#entry-head")).to_contain_text(wanted.locator("input").input_value())

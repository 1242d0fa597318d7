"""The Score tab with its pictures, in a real browser."""

import base64
import io
import json
import re
import shutil
from hashlib import sha256
from pathlib import Path

import pytest
from accessible import WATCH_SHIFTS
from app_parts import Pictures, Served
from judging_model import judging, shown_hashes
from model_server import ModelServer
from PIL import Image
from playwright.sync_api import BrowserContext, Page, Route, expect
from visits import give, visit

pytestmark = pytest.mark.browser

TRANSFER = """const transfer = new DataTransfer();
  for (const [name, text] of files) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    transfer.items.add(new File([bytes], name, { type: "image/png" }));
  }"""
DROP = f"""([place, files]) => {{ {TRANSFER}
  const options = {{ dataTransfer: transfer, bubbles: true, cancelable: true }};
  document.querySelector(`${{place}} button`).dispatchEvent(new DragEvent("drop", options)); }}"""
PASTE = f"""(files) => {{ {TRANSFER}
  const options = {{ clipboardData: transfer, bubbles: true, cancelable: true }};
  document.activeElement.dispatchEvent(new ClipboardEvent("paste", options)); }}"""


def packed(*paths: Path) -> list[list[str]]:
    return [[path.name, base64.b64encode(path.read_bytes()).decode()] for path in paths]


def shown(page: Page, *places: str) -> None:
    for place in places:
        expect(page.locator(f"#{place} img").first).to_be_visible()


def test_a_picture_that_cannot_be_read_is_named_at_upload(
    browser: BrowserContext, served: Served, pictures: Pictures, tmp_path: Path
) -> None:
    text, cut = tmp_path / "<b>notes.png", tmp_path / "cut.png"
    text.write_bytes(b"<svg onload=alert(1)>")
    cut.write_bytes(pictures.good.read_bytes()[:400])
    seen = visit(browser, served.url)
    page, refused = seen.page, seen.page.locator("#refused")
    page.locator("#candidate-a input[type=file]").set_input_files(text)
    expect(refused).to_contain_text("Candidate A (<b>notes.png) cannot be used")
    expect(refused).to_contain_text("is not a PNG")
    page.locator("#source input[type=file]").set_input_files(cut)
    expect(refused).to_contain_text("The source (cut.png) cannot be used")
    expect(refused).to_contain_text("is damaged")
    expect(page.locator("#pictures img")).to_have_count(0)
    page.locator("#source input[type=file]").set_input_files(pictures.source)
    shown(page, "source")
    expect(refused.locator(".rh")).to_have_count(0)
    assert seen.errors == [] and seen.dialogs == []
    page.close()


def test_a_large_photograph_is_scaled_down_before_it_is_sent(
    browser: BrowserContext, served: Served, pictures: Pictures, tmp_path: Path
) -> None:
    photograph, turned = tmp_path / "photo.png", tmp_path / "turned.jpg"
    noise = Image.effect_noise((3000, 2400), 100)
    bands = [noise, noise.transpose(Image.Transpose.ROTATE_180), noise.point(lambda value: 255 - value)]
    Image.merge("RGB", bands).save(photograph, compress_level=0)
    assert photograph.stat().st_size > 20 * 1024 * 1024
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned
    Image.open(pictures.good).resize((2400, 1600)).save(turned, exif=exif)
    with visit(browser, served.url) as page:
        page.locator("#source input[type=file]").set_input_files(photograph)
        notice = page.locator("#scaled")
        expect(notice).to_contain_text("The source: scaled from 3000x2400 to 2048x1638")
        page.evaluate(DROP, ["#candidate-a", packed(turned)])
        shown(page, "source", "candidate-a")
        expect(notice).to_contain_text("Candidate A: scaled from 1600x2400 to 1365x2048")
        sent = page.request.get(page.locator("#candidate-a img").evaluate("image => image.src")).body()
        with Image.open(io.BytesIO(sent)) as image:
            assert image.size == (1365, 2048) and image.getexif().get(0x0112, 1) == 1
        page.locator("#reset").click()
        expect(notice.locator(".rh")).to_have_count(0)


def test_several_pictures_are_dropped_at_once_and_pasted(
    browser: BrowserContext, served: Served, pictures: Pictures, tmp_path: Path
) -> None:
    cut = tmp_path / "cut.png"
    cut.write_bytes(pictures.good.read_bytes()[:400])
    page = visit(browser, served.url).page
    page.evaluate(DROP, ["#source", packed(pictures.source, pictures.bad, pictures.good)])
    shown(page, "source", "candidate-a", "candidate-b")
    page.evaluate(DROP, ["#candidate-b", packed(pictures.bad, pictures.good, cut, pictures.good, pictures.bad)])
    shown(page, "candidate-c", "candidate-d")
    expect(page.locator("#refused")).to_contain_text("Candidate D (cut.png) cannot be used")
    expect(page.locator("#refused")).to_contain_text("No free field for 1 more")
    page.locator("#reset").click()
    expect(page.locator("#pictures img")).to_have_count(0)
    page.evaluate(PASTE, packed(pictures.source))
    shown(page, "source")
    page.locator("#candidate-b button").first.focus()
    page.evaluate(PASTE, packed(pictures.good))
    shown(page, "candidate-b")
    expect(page.locator("#candidate-a img")).to_have_count(0)
    page.close()


def test_a_result_is_outdated_once_something_else_is_on_the_screen(
    browser: BrowserContext, served: Served, pictures: Pictures
) -> None:
    seen = visit(browser, served.url)
    page, outdated = seen.page, seen.page.locator("#outdated")
    instruction = page.locator("#instruction input, #instruction textarea")
    vote = page.get_by_role("button", name="B is better")
    give(page, pictures, pictures.instruction)
    page.locator("#compare").click()
    expect(page.locator("#verdict .verdict")).to_be_visible()
    expect(vote).to_be_enabled()
    instruction.fill("Make it green.")
    expect(outdated).to_contain_text("This result is outdated")
    expect(vote).to_be_disabled()
    instruction.fill(pictures.instruction)
    expect(outdated.locator(".rh")).to_have_count(0)
    expect(vote).to_be_enabled()
    page.evaluate(DROP, ["#candidate-a", packed(pictures.good)])
    expect(outdated).to_contain_text("This result is outdated")
    joins: list[Route] = []
    """Queued requests: the comparison, then the one that keeps its result, which is held."""
    page.route(
        "**/gradio_api/queue/join*", lambda route: joins.append(route) or (len(joins) == 1 and route.continue_())
    )
    page.locator("#compare").click()
    expect(outdated.locator(".rh")).to_have_count(0)
    expect(page.locator("#verdict")).to_contain_text("same image")
    expect(vote).to_be_enabled()
    page.get_by_role("button", name="Library: built-in").click()
    page.locator("#score-library-kind").get_by_text("A folder on this computer").click()
    expect(outdated).to_contain_text("This result is outdated")
    while len(joins) < 2:
        page.evaluate("0")
    joins[1].continue_()
    expect(page.get_by_role("button", name="Earlier comparisons (2)")).to_be_visible()
    expect(outdated).to_contain_text("This result is outdated")
    expect(vote).to_be_disabled()
    assert seen.errors == []
    page.close()


@pytest.mark.parametrize("size", ["wide", "narrow"])
def test_names_of_buttons_differ_and_a_result_does_not_shift_the_page(
    browser: BrowserContext, served: Served, size: str
) -> None:
    page = visit(browser, served.url, size).page
    page.evaluate(WATCH_SHIFTS)
    shown_names = "[...document.querySelectorAll('#pictures button')].map(each => each.getAttribute('aria-label'))"
    # Gradio may set its own label again at any time, so the names are read in the moment in which all are prefixed.
    prefixed = f"() => {{ const names = {shown_names}; return names.every(each => each?.includes(': ')) && names; }}"
    names = page.wait_for_function(prefixed).json_value()
    assert len(names) == len(set(names)) == 9, names
    page.get_by_role("button", name="A red balloon").click()
    expect(page.locator("#verdict .verdict")).to_be_visible()
    expect(page.locator("#viewer .pane img").first).to_be_visible()
    assert page.evaluate("window.shifts") < 0.1
    page.get_by_role("button", name="How the judge got there").click()
    page.get_by_role("button", name="Judge:").click()
    expect(page.locator("#measured summary").first).to_be_visible()
    expect(page.locator("#tool-pictures img").first).to_be_visible()
    page.close()


def test_a_model_sees_the_references_that_were_added(
    browser: BrowserContext, served: Served, pictures: Pictures
) -> None:
    instruction = "Put the van of image 1 next to the butterfly of image 2."
    with ModelServer(judging(pictures.good, sources=3)) as server, visit(browser, served.url) as page:
        expect(page.locator("#reference-2")).to_have_count(0)
        page.locator("#add-reference").click()
        page.locator("#reference-2 input[type=file]").set_input_files(pictures.bad)
        shown(page, "reference-2")
        expect(page.locator("#source")).to_contain_text("Image 1: the source")
        page.evaluate(DROP, ["#reference-2", packed(pictures.source, pictures.bad)])
        shown(page, "reference-3")
        expect(page.locator("#candidate-a img")).to_have_count(0)
        give(page, pictures, instruction)
        page.get_by_role("button", name="Judge: Pixel-based (no model)").click()
        page.locator("#judge-kind").get_by_text("A vLLM or OpenAI-compatible endpoint").click()
        for place, text in (("url", server.url), ("name", "judge")):
            page.locator(f"#judge-{place} input, #judge-{place} textarea").fill(text)
        page.locator("#compare").click()
        expect(page.locator("#verdict")).to_contain_text("People would most likely prefer B.")
        calls = [call for call in server.calls if instruction in call.text]
        titles = ["Image 1 (source):", "Image 2 (reference):", "Image 3 (reference):", "Candidate A:", "Candidate B:"]
        first, good, bad = ([path] for path in (pictures.source, pictures.good, pictures.bad))
        orders = [
            [sha256(path.read_bytes()).hexdigest() for path in first + first + bad + pair]
            for pair in (bad + good, good + bad)
        ]
        assert sorted(shown_hashes(call) for call in calls) == sorted(orders)
        for call in calls:
            places = [call.text.index(title) for title in titles]
            assert places == sorted(places)
        page.locator("#viewer .left").get_by_text("Image 3").click()
        expect(page.locator("#viewer .pane.left figcaption")).to_have_text("Image 3")
        page.get_by_role("button", name="B is better").click()
        expect(page.locator("#thanks")).to_contain_text("B is better")
        [row] = [
            json.loads(line)
            for line in (served.feedback / "pairs.jsonl").read_text(encoding="utf-8").splitlines()
            if instruction in line
        ]
        assert len(row["references"]) == 2
        shutil.rmtree(served.feedback)  # other tests of the app begin without feedback
        page.locator("#reference-3 button[aria-label*='Remove']").click()
        expect(page.locator("#outdated")).to_contain_text("This result is outdated")
        page.locator("#reset").click()
        expect(page.locator("#reference-2")).to_have_count(0)
        expect(page.locator("#source")).to_contain_text("Source, before the edit")


def test_two_images_are_shown_against_each_other(
    browser: BrowserContext, served: Served, pictures: Pictures, tmp_path: Path
) -> None:
    with visit(browser, served.url) as page:
        give(page, pictures, pictures.instruction)
        page.locator("#compare").click()
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


def test_a_visit_survives_a_reload_and_is_shared(browser: BrowserContext, served: Served, pictures: Pictures) -> None:
    with visit(browser, served.url) as page:
        expect(page.locator("#history-section")).to_be_hidden()
        give(page, pictures, pictures.instruction)
        page.locator("#compare").click()
        expect(page.locator("#verdict")).to_contain_text("People would most likely prefer B.")
        page.get_by_role("button", name="Black and white").click()
        expect(page.locator("#verdict")).to_contain_text("People would most likely prefer A.")
        expect(page.get_by_role("button", name="Earlier comparisons (2)")).to_be_visible()
        page.reload()
        expect(page.locator("#verdict")).to_contain_text("People would most likely prefer A.")
        shown(page, "source", "candidate-a", "candidate-b")
        expect(page.locator("#instruction textarea, #instruction input")).to_have_value(re.compile("black and white"))
        expect(page.locator("#outdated .rh")).to_have_count(0)
        page.locator("#history button").last.click()
        expect(page.locator("#verdict")).to_contain_text("People would most likely prefer B.")
        expect(page.locator("#instruction textarea, #instruction input")).to_have_value(pictures.instruction)
        expect(page.locator("#outdated .rh")).to_have_count(0)
        with page.expect_download() as report:
            page.locator("#share-report").click()
        text = Path(report.value.path()).read_text(encoding="utf-8")
        assert text.count("data:image/webp;base64,") == 3 and "<script" not in text and 'class="best"' in text
        with page.expect_download() as card:
            page.locator("#share-picture").click()
        with Image.open(card.value.path()) as image:
            assert image.format == "PNG" and image.width == 1200
        page.locator("#share-keep").click()
        link = page.locator("#share-kept a")
        address = f"{served.url}{link.get_attribute('href')}"
        answer = page.request.get(address)
        assert answer.text() == text and "default-src 'none'" in answer.headers["content-security-policy"]
        assert page.request.get(f"{served.url}/comparison/..%2f..%2fnote").status == 404
        other = visit(browser, served.url)
        expect(other.page.locator("#verdict")).to_contain_text("Results appear here")
        expect(other.page.locator("#pictures img")).to_have_count(0)
        other.page.close()

"""The Score tab with its pictures, in a real browser."""

import base64
import io
import json
import re
import shutil
from hashlib import sha256
from pathlib import Path

import pytest
from app_parts import Pictures, Served
from judging_model import judging, shown_hashes
from model_server import ModelServer
from PIL import Image
from playwright.sync_api import BrowserContext, Page, Route, expect
from visits import choose_endpoint, compare, fill, give, visit

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


def upload(page: Page, place: str, path: Path) -> None:
    page.locator(f"#{place} input[type=file]").set_input_files(path)


def start_over(page: Page) -> None:
    page.locator("#reset").click()
    expect(page.locator("#pictures img")).to_have_count(0)


def make_photographs(folder: Path, small: Path) -> tuple[Path, Path]:
    """Write a photograph of more than 20 MB, and one whose camera was turned."""
    large, turned = folder / "photo.png", folder / "turned.jpg"
    noise = Image.effect_noise((3000, 2400), 100)
    bands = [noise, noise.transpose(Image.Transpose.ROTATE_180), noise.point(lambda value: 255 - value)]
    Image.merge("RGB", bands).save(large, compress_level=0)
    assert large.stat().st_size > 20 * 1024 * 1024
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.open(small).resize((2400, 1600)).save(turned, exif=exif)
    return large, turned


def test_pictures_are_uploaded_dropped_and_pasted_bad_ones_named_and_large_ones_scaled(
    browser: BrowserContext, served: Served, pictures: Pictures, tmp_path: Path
) -> None:
    text, cut = tmp_path / "<b>notes.png", tmp_path / "cut.png"
    text.write_bytes(b"<svg onload=alert(1)>")
    cut.write_bytes(pictures.good.read_bytes()[:400])
    large, turned = make_photographs(tmp_path, pictures.good)
    with visit(browser, served.url) as page:
        refused, notice = page.locator("#refused"), page.locator("#scaled")
        upload(page, "candidate-a", text)
        expect(refused).to_contain_text("Candidate A (<b>notes.png) cannot be used")
        expect(refused).to_contain_text("is not a PNG")
        upload(page, "source", cut)
        expect(refused).to_contain_text("The source (cut.png) cannot be used")
        expect(refused).to_contain_text("is damaged")
        expect(page.locator("#pictures img")).to_have_count(0)
        upload(page, "source", large)
        expect(notice).to_contain_text("The source: scaled from 3000x2400 to 2048x1638")
        expect(refused.locator(".rh")).to_have_count(0)
        page.evaluate(DROP, ["#candidate-a", packed(turned)])
        shown(page, "source", "candidate-a")
        expect(notice).to_contain_text("Candidate A: scaled from 1600x2400 to 1365x2048")
        sent = page.request.get(page.locator("#candidate-a img").evaluate("image => image.src")).body()
        with Image.open(io.BytesIO(sent)) as image:
            assert image.size == (1365, 2048) and image.getexif().get(0x0112, 1) == 1
        start_over(page)
        expect(notice.locator(".rh")).to_have_count(0)

        page.evaluate(DROP, ["#source", packed(pictures.source, pictures.bad, pictures.good)])
        shown(page, "source", "candidate-a", "candidate-b")
        page.evaluate(DROP, ["#candidate-b", packed(pictures.bad, pictures.good, cut, pictures.good, pictures.bad)])
        shown(page, "candidate-c", "candidate-d")
        expect(refused).to_contain_text("Candidate D (cut.png) cannot be used")
        expect(refused).to_contain_text("No free field for 1 more")
        start_over(page)
        page.evaluate(PASTE, packed(pictures.source))
        shown(page, "source")
        page.locator("#candidate-b button").first.focus()
        page.evaluate(PASTE, packed(pictures.good))
        shown(page, "candidate-b")
        expect(page.locator("#candidate-a img")).to_have_count(0)


def test_heic_tiff_avif_are_shown(browser: BrowserContext, served: Served, pictures: Pictures, tmp_path: Path) -> None:
    pytest.importorskip("pillow_heif").register_heif_opener()
    with visit(browser, served.url) as page:
        for place, ending in (("source", "heic"), ("candidate-a", "tif"), ("candidate-b", "avif")):
            path = tmp_path / f"picture.{ending}"
            Image.open(pictures.good).convert("RGB").save(path)
            upload(page, place, path)
            page.wait_for_function("place => document.querySelector(`#${place} img`)?.naturalWidth > 0", arg=place)


def test_a_result_is_outdated_by_other_inputs(browser: BrowserContext, served: Served, pictures: Pictures) -> None:
    with visit(browser, served.url) as page:
        outdated, vote = page.locator("#outdated"), page.get_by_role("button", name="B is better")
        give(page, pictures, pictures.instruction)
        compare(page, "People would most likely prefer B.")
        expect(vote).to_be_enabled()
        fill(page, "instruction", "Make it green.")
        expect(outdated).to_contain_text("This result is outdated")
        expect(vote).to_be_disabled()
        fill(page, "instruction", pictures.instruction)
        expect(outdated.locator(".rh")).to_have_count(0)
        expect(vote).to_be_enabled()
        page.evaluate(DROP, ["#candidate-a", packed(pictures.good)])
        expect(outdated).to_contain_text("This result is outdated")
        joins: list[Route] = []
        """Queued requests: the comparison, then the one that keeps its result, which is held."""
        page.route(
            "**/gradio_api/queue/join*", lambda route: joins.append(route) or (len(joins) == 1 and route.continue_())
        )
        compare(page, "same image")
        expect(outdated.locator(".rh")).to_have_count(0)
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


def test_a_model_sees_the_references(browser: BrowserContext, served: Served, pictures: Pictures) -> None:
    instruction = "Put the van of image 1 next to the butterfly of image 2."
    with ModelServer(judging(pictures.good, sources=3)) as server, visit(browser, served.url) as page:
        expect(page.locator("#reference-2")).to_have_count(0)
        page.locator("#add-reference").click()
        upload(page, "reference-2", pictures.bad)
        shown(page, "reference-2")
        expect(page.locator("#source")).to_contain_text("Image 1 (source)")
        page.evaluate(DROP, ["#reference-2", packed(pictures.source, pictures.bad)])
        shown(page, "reference-3")
        expect(page.locator("#candidate-a img")).to_have_count(0)
        give(page, pictures, instruction)
        choose_endpoint(page, server)
        compare(page, "People would most likely prefer B.")
        calls = [call for call in server.calls if instruction in call.text]
        titles = ["Image 1 (source):", "Image 2 (reference):", "Image 3 (reference):", "Candidate A:", "Candidate B:"]
        paths = (pictures.source, pictures.good, pictures.bad)
        source, good, bad = (sha256(path.read_bytes()).hexdigest() for path in paths)
        orders = [[source, source, bad, *pair] for pair in ((bad, good), (good, bad))]
        assert sorted(shown_hashes(call) for call in calls) == sorted(orders)
        for call in calls:
            places = [call.text.index(title) for title in titles]
            assert places == sorted(places)
        page.locator("#viewer .left").get_by_text("Image 3").click()
        expect(page.locator("#viewer .pane.left figcaption")).to_have_text("Image 3")
        page.get_by_role("button", name="B is better").click()
        expect(page.locator("#thanks")).to_contain_text("B is better")
        lines = (served.feedback / "pairs.jsonl").read_text(encoding="utf-8").splitlines()
        [row] = [json.loads(line) for line in lines if instruction in line]
        assert len(row["references"]) == 2
        shutil.rmtree(served.feedback)  # other tests of the app begin without feedback
        page.locator("#reference-3 button[aria-label*='Remove']").click()
        expect(page.locator("#outdated")).to_contain_text("This result is outdated")
        start_over(page)
        expect(page.locator("#reference-2")).to_have_count(0)
        expect(page.locator("#source label").first).to_have_text("Source")


def test_a_sample_fits_on_one_screen_is_corrected_and_deleted(browser: BrowserContext, served: Served) -> None:
    with visit(browser, served.url) as page:
        page.set_viewport_size({"width": 1280, "height": 800})
        page.get_by_role("button", name="Blue space suit").click()
        expect(page.locator("#reasons")).to_contain_text("Why")
        expect(page.locator("#viewer .pane img").first).to_be_visible()
        boxes = {
            name: page.locator(f"#{name}").bounding_box() for name in ("pictures", "compare", "verdict", "reasons")
        }
        assert page.evaluate("scrollY") == 0
        assert all(box and box["y"] >= 0 and box["y"] + box["height"] <= 800 for box in boxes.values()), boxes
        assert boxes["reasons"] and boxes["verdict"] and boxes["reasons"]["x"] > boxes["verdict"]["x"] + 500
        output, stage = page.locator("#viewer output"), page.locator("#viewer .stage")
        stage.hover()
        page.mouse.wheel(0, -300)
        expect(output).not_to_have_text("100%")
        stage.focus()
        for key, zoom in (("0", "100%"), ("+", "150%"), ("-", "100%")):
            page.keyboard.press(key)
            expect(output).to_have_text(zoom)
        expect(page.locator("#understood")).to_contain_text("orange space suit → blue")
        page.locator("#understood-correct").click()
        expect(page.locator("#understood-what input, #understood-what textarea")).to_have_value("orange space suit")
        fill(page, "understood-to", "green")
        page.locator("#understood-use").click()
        expect(page.locator("#understood")).to_contain_text("orange space suit → green")
        expect(page.locator("#outdated")).to_contain_text("This result is outdated")
        expect(page.locator("#history .caption-label")).to_have_text(re.compile(r"\d\d:\d\d · A: Make the orange"))
        page.locator("#history-delete").click()
        expect(page.locator("#history-section")).to_be_hidden()
        expect(page.locator("#verdict")).to_contain_text("Results appear here")
        page.locator("#candidate-b button[aria-label*='Remove']").click()
        compare(page, "there is no comparison")
        expect(page.locator("#votes")).to_be_hidden()
        page.set_viewport_size({"width": 390, "height": 844})
        page.evaluate("scrollTo(0, 0)")
        top = page.locator("#compare").bounding_box()
        assert top and top["y"] < 2 * 844


def test_a_visit_survives_a_reload_and_is_shared(browser: BrowserContext, served: Served, pictures: Pictures) -> None:
    with visit(browser, served.url) as page:
        instruction, verdict = page.locator("#instruction textarea, #instruction input"), page.locator("#verdict")
        expect(page.locator("#history-section")).to_be_hidden()
        give(page, pictures, pictures.instruction)
        compare(page, "People would most likely prefer B.")
        page.get_by_role("button", name="Black and white").click()
        expect(verdict).to_contain_text("People would most likely prefer A.")
        expect(page.get_by_role("button", name="Earlier comparisons (2)")).to_be_visible()
        page.reload()
        expect(verdict).to_contain_text("People would most likely prefer A.")
        shown(page, "source", "candidate-a", "candidate-b")
        expect(instruction).to_have_value(re.compile("black and white"))
        expect(page.locator("#outdated .rh")).to_have_count(0)
        page.locator("#history button").last.click()
        expect(verdict).to_contain_text("People would most likely prefer B.")
        expect(instruction).to_have_value(pictures.instruction)
        expect(page.locator("#outdated .rh")).to_have_count(0)
        with page.expect_download() as record:
            page.locator("#download").click()
        assert '"preference": "B"' in Path(record.value.path()).read_text(encoding="utf-8")
        with page.expect_download() as report:
            page.locator("#share-report").click()
        text = Path(report.value.path()).read_text(encoding="utf-8")
        assert text.count("data:image/webp;base64,") == 3 and "<script" not in text and 'class="best"' in text
        with visit(browser, served.url) as other:
            expect(other.locator("#verdict")).to_contain_text("Results appear here")
            expect(other.locator("#pictures img")).to_have_count(0)

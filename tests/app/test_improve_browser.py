"""The button Improve this edit: a faulty edit of the demo data, improved by the test editor without a network."""

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from accessible import faults
from app_parts import Pictures, Served, running_app
from PIL import Image
from playwright.sync_api import BrowserContext, expect
from screenshots import photograph
from visits import compare, fill, visit

from rewardharness.demo.dataset import known_edits

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Pictures:
    """A source of the demo data, its right edit, and one that changed nothing."""
    folder, case = tmp_path_factory.mktemp("demo"), known_edits(100)[3]
    for name, pixels in (("source", case.source()), ("good", case.right()), ("bad", case.source())):
        Image.fromarray(pixels).save(folder / f"{name}.png")
    return Pictures(*(folder / f"{name}.png" for name in ("source", "good", "bad")), case.instruction)


@pytest.fixture(scope="module")
def editing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with running_app(tmp_path_factory.mktemp("editing"), {"RH_EDITOR": "painter:0.5"}) as app:
        yield app


def test_an_edit_is_improved_downloaded_and_taken(browser: BrowserContext, editing: Served, demo: Pictures) -> None:
    with visit(browser, editing.url) as page:
        for place, path in (("source", demo.source), ("candidate-a", demo.bad)):
            page.locator(f"#{place} input[type=file]").set_input_files(path)
            expect(page.locator(f"#{place} img")).to_be_visible()
        fill(page, "instruction", demo.instruction)
        expect(page.locator("#improve")).to_be_hidden()
        compare(page, "Reward")
        page.locator("#improve").click()
        expect(page.locator("#improve-status")).to_contain_text("attempts made")
        expect(page.locator("#improve-stop")).to_be_visible()
        expect(page.locator("#compare")).to_be_disabled()
        improved = page.locator("#improved")
        expect(improved).to_contain_text("leads candidate A by")
        expect(improved).to_contain_text("The change must be clearly visible.")
        expect(improved).to_contain_text("Hardly anything was changed.")
        expect(page.locator("#compare")).to_be_enabled()
        expect(page.locator(".viewer .pane.left figcaption")).to_have_text("Candidate A")
        expect(page.locator(".viewer .pane.right figcaption")).to_have_text("Improved")
        page.get_by_text("Mark what changed").click()
        page.wait_for_function("document.querySelector('.viewer .pane.right img').naturalWidth > 0")
        assert faults(page) == []
        photograph(page, "improved")
        with page.expect_download() as download:
            improved.get_by_text("Download the improved edit").click()
        assert download.value.suggested_filename == "improved.png"
        data = Path(download.value.path()).read_bytes()
        with Image.open(io.BytesIO(data)) as image:
            assert image.size == (512, 512)
        page.locator("#improve-take").click()
        expect(page.locator("#candidate-b img")).to_be_visible()
        taken = page.request.get(page.locator("#candidate-b img").evaluate("image => image.src")).body()
        assert taken == data
        compare(page, "People would most likely prefer B.")
        expect(improved.locator(".rh")).to_have_count(0)
        expect(page.locator("#improve-take")).to_be_hidden()
        expect(page.locator("#improve-edit input[value=B]")).to_be_checked()
        page.locator("#improve-edit").get_by_text("A", exact=True).click()
        page.locator("#improve").click()
        expect(page.locator("#improve-stop")).to_be_visible()
        page.locator("#reset").click()
        expect(page.locator("#improvement")).to_be_hidden()
        expect(page.locator("#compare")).to_be_enabled()

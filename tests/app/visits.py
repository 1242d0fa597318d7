"""How tests visit the page, and what they learn on the way."""

import shutil
from dataclasses import dataclass, field
from types import TracebackType
from urllib.parse import urlsplit

from app_parts import Pictures
from model_server import ModelServer
from playwright.sync_api import BrowserContext, Dialog, Locator, Page, Request, TimeoutError, expect
from screenshots import SIZES

CHROMIUM = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)

NO_GPU = ("--disable-gpu", "--disable-gpu-compositing", "--disable-software-rasterizer")
"""Without them, and where there is no GPU, Chromium emulates one, which costs a third of the time of the tests."""
SWITCHES = ["--no-sandbox", "--disable-dev-shm-usage", *NO_GPU]
PATIENCE = 100_000
"""Milliseconds after which what was to come to the page has not come."""

_INSIDE = "e => { const box = e.getBoundingClientRect(); return box.width && box.x >= 0 && box.right <= innerWidth; }"

_DRAWN = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""Waits for two frames: in the first one after a tab was opened, Gradio sets its widgets, whatever was chosen."""


@dataclass
class Visit:
    """A page, and what happened behind the scenes. As a context it gives the page, and checks what happened."""

    page: Page
    foreign: list[str] = field(default_factory=list)
    """Requests to other hosts."""
    dialogs: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """Exceptions of scripts."""

    def __enter__(self) -> Page:
        return self.page

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None and not self.page.is_closed():
            assert self.dialogs == self.errors == [] and self.page.evaluate("window.owned") is None
            on_space = self.page.evaluate("window.gradio_config?.space_id")  # where Gradio itself adds a header
            assert on_space or [url for url in self.foreign if not url.startswith("http://127.0.0.1:")] == []
        self.page.close()


def visit(browser: BrowserContext, url: str, size: str = "wide", scheme: str = "light") -> Visit:
    """Open the page as somebody who was never there, though its files may be in the cache."""
    page = browser.new_page()
    width, height = SIZES[size]
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    stored = {"origin": origin, "storageTypes": "cookies,local_storage,indexeddb"}
    browser.new_cdp_session(page).send("Storage.clearDataForOrigin", stored)
    seen = Visit(page)

    def on_request(request: Request) -> None:
        if not request.url.startswith((origin, "data:", "blob:")):
            seen.foreign.append(request.url)

    def on_dialog(dialog: Dialog) -> None:
        seen.dialogs.append(dialog.message)
        dialog.dismiss()

    page.on("request", on_request)
    page.on("dialog", on_dialog)
    page.on("pageerror", lambda error: seen.errors.append(str(error)))
    page.goto(url)
    page.locator("#compare").wait_for(state="attached")
    return seen


def open_tab(page: Page, name: str, row: str = "#tabs") -> None:
    """Open a tab; on a small screen it may be in the menu at the end of its row.

    Which of the two is found out anew until it is open: the page moves tabs about for as long as it is laid out.
    """
    tabs = page.locator(f"{row} > .tab-wrapper")
    shown = tabs.get_by_role("tab", name=name, exact=True).locator("visible=true")
    more = tabs.locator(".overflow-menu > button").locator("visible=true")
    listed = tabs.locator(".overflow-dropdown button").locator("visible=true").get_by_text(name, exact=True)
    while True:
        expect(shown.or_(more).first).to_be_visible()
        try:
            if shown.count():
                _click_inside(page, shown.first)
            else:
                if not listed.count():
                    more.click(timeout=5000)
                _click_inside(page, listed)
            page.evaluate(_DRAWN)
            return
        except TimeoutError:
            continue


def _click_inside(page: Page, part: Locator) -> None:
    """Click what does not stick out of the window."""
    page.wait_for_function(_INSIDE, arg=part.element_handle(timeout=5000), timeout=5000)
    part.click(timeout=5000)


def fold_out(page: Page, name: str) -> None:
    """Open a section that is folded."""
    page.get_by_role("button", name=name).locator("visible=true").first.click()


def fill(page: Page, part: str, text: str) -> None:
    """Type into a field. One that was just folded out may be set to its first value a frame later."""
    field = page.locator(f"#{part} input, #{part} textarea").first
    field.fill(text)
    page.evaluate(_DRAWN)
    if field.input_value() != text:
        field.fill(text)


def choose_endpoint(page: Page, server: ModelServer, key: str = "") -> None:
    """Choose the model of a server on the Score tab."""
    page.get_by_role("button", name="Judge: Pixel-based (no model)").click()
    page.locator("#judge-kind").get_by_text("A vLLM or OpenAI-compatible endpoint").click()
    for part, text in (("url", server.url), ("name", "judge"), ("key", key)):
        fill(page, f"judge-{part}", text)


def compare(page: Page, verdict: str) -> None:
    """Press Compare, and wait for a verdict."""
    page.locator("#compare").click()
    expect(page.locator("#verdict")).to_contain_text(verdict)


def give(page: Page, pictures: Pictures, instruction: str) -> None:
    for place, path in (("source", pictures.source), ("candidate-a", pictures.bad), ("candidate-b", pictures.good)):
        page.locator(f"#{place} input[type=file]").set_input_files(path)
        expect(page.locator(f"#{place} img")).to_be_visible()
    fill(page, "instruction", instruction)

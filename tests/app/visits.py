"""How tests visit the page, and what they learn on the way."""

import shutil
from dataclasses import dataclass, field

from app_parts import Pictures, Served
from playwright.sync_api import Browser, Locator, Page, TimeoutError, expect
from screenshots import SIZES

CHROMIUM = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)

PATIENCE = 100_000
"""Milliseconds after which what was to come to the page has not come."""

_INSIDE = "e => { const box = e.getBoundingClientRect(); return box.width && box.x >= 0 && box.right <= innerWidth; }"


@dataclass
class Visit:
    """A page, and what happened behind the scenes."""

    page: Page
    foreign: list[str] = field(default_factory=list)
    """Requests to other hosts."""
    dialogs: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """Exceptions of scripts."""


def visit(browser: Browser, served: Served, size: str = "wide", scheme: str = "light") -> Visit:
    width, height = SIZES[size]
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
    seen = Visit(page)

    def on_request(request: object) -> None:
        url = str(getattr(request, "url", ""))
        if not url.startswith((served.url, "data:", "blob:")):
            seen.foreign.append(url)

    def on_dialog(dialog: object) -> None:
        seen.dialogs.append(str(getattr(dialog, "message", "")))
        getattr(dialog, "dismiss")()  # noqa: B009

    page.on("request", on_request)
    page.on("dialog", on_dialog)
    page.on("pageerror", lambda error: seen.errors.append(str(error)))
    be_patient(page)
    page.goto(served.url)
    page.locator("#compare").wait_for()
    return seen


def be_patient(page: Page) -> None:
    """Have everything on a page waited for as long as slow machines need."""
    page.set_default_timeout(PATIENCE)
    expect.set_options(timeout=PATIENCE)


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
            return
        except TimeoutError:
            continue


def _click_inside(page: Page, part: Locator) -> None:
    """Click what does not stick out of the window."""
    page.wait_for_function(_INSIDE, arg=part.element_handle(timeout=5000), timeout=5000)
    part.click(timeout=5000)


def give(page: Page, pictures: Pictures, instruction: str) -> None:
    for place, path in (("source", pictures.source), ("candidate-a", pictures.bad), ("candidate-b", pictures.good)):
        page.locator(f"#{place} input[type=file]").set_input_files(path)
        expect(page.locator(f"#{place} img")).to_be_visible()
    page.locator("#instruction input, #instruction textarea").fill(instruction)

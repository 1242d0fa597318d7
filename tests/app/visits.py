"""How tests visit the page, and what they learn on the way."""

import shutil
from dataclasses import dataclass, field

from app_parts import Pictures, Served
from playwright.sync_api import Browser, Page, expect
from screenshots import SIZES

CHROMIUM = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)


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
    page.set_default_timeout(20_000)
    expect.set_options(timeout=20_000)
    page.goto(served.url)
    page.locator("#compare").wait_for()
    return seen


def give(page: Page, pictures: Pictures, instruction: str) -> None:
    for place, path in (("source", pictures.source), ("candidate-a", pictures.bad), ("candidate-b", pictures.good)):
        page.locator(f"#{place} input[type=file]").set_input_files(path)
        expect(page.locator(f"#{place} img")).to_be_visible()
    page.locator("#instruction input, #instruction textarea").fill(instruction)


def open_tab(page: Page, name: str, row: str = "#tabs") -> None:
    """Open a tab; on a small screen it may be in the menu at the end of its row."""
    tabs = page.locator(f"{row} > .tab-wrapper")
    shown = tabs.get_by_role("tab", name=name, exact=True)
    if not shown.count():
        tabs.get_by_role("button", name="More tabs").click()
        shown = tabs.locator(".overflow-dropdown button", has_text=name)
    box = shown.bounding_box()
    assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= page.evaluate("innerWidth")
    shown.click()

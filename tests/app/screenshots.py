"""Pictures of the page for people to look at, and the check that nothing sticks out of it."""

import contextlib
import os
from pathlib import Path

import pytest
from playwright.sync_api import Page, TimeoutError

SIZES = {"wide": (1280, 900), "narrow": (390, 844)}
"""Windows that the page is looked at in: width and height in pixels."""


def screenshot_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures go: the folder named by APP_SCREENSHOTS, or a temporary one."""
    named = os.environ.get("APP_SCREENSHOTS")
    folder = Path(named) if named else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def photograph(page: Page, path: Path) -> None:
    """Take a picture of the whole page, after a check that it needs no scrolling to the side."""
    _wait_for(page, _FITS)  # the page may still be laid out
    sides = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    page.screenshot(path=path, full_page=True)
    assert sides[0] <= sides[1], f"{path.name}: the page is {sides[0]} pixels wide in a window of {sides[1]}"
    _wait_for(page, f"({CLIPPED})().length === 0")
    clipped = page.evaluate(CLIPPED)
    assert clipped == [], f"{path.name}: text is cut off: {clipped}"


def _wait_for(page: Page, condition: str) -> None:
    """Wait until something is so, or long enough to say that it never will be."""
    with contextlib.suppress(TimeoutError):
        page.wait_for_function(condition)


_FITS = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"

CLIPPED = """() => [...document.querySelectorAll('.rh, button, label, h1, h3')]
  .filter(e => e.offsetParent && !e.closest('.visually-hidden') && getComputedStyle(e).overflowX === 'visible')
  .filter(e => { const box = e.getBoundingClientRect(); return box.width && box.right > innerWidth + 1; })
  .map(e => (e.innerText || e.className).slice(0, 60))"""
"""Our texts and controls that end to the right of the window; not the unseen copies by which Gradio measures tabs."""

"""Pictures of the page for people to look at, and the check that nothing sticks out of it."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Page, TimeoutError

SIZES = {"wide": (1280, 900), "narrow": (390, 844)}
"""Windows that the page is looked at in: width and height in pixels."""


def at_each_size(page: Page) -> Iterator[str]:
    """Give the window each size in turn, and its own in the end."""
    own = page.viewport_size
    for name, (width, height) in SIZES.items():
        page.set_viewport_size({"width": width, "height": height})
        yield name
    if own:
        page.set_viewport_size(own)


def photograph(page: Page, name: str) -> None:
    """Check at each size that the page needs no scrolling to the side and cuts no text off.

    Pictures of the whole page go to the folder that APP_SCREENSHOTS names, if it does.
    """
    folder = os.environ.get("APP_SCREENSHOTS")
    for size in at_each_size(page):
        for scheme in ("light", "dark") if folder else ():
            page.emulate_media(color_scheme=scheme)
            page.screenshot(path=Path(str(folder)) / f"{name}-{size}-{scheme}.png", full_page=True)
        _wait_for(page, _FITS)  # the page may still be laid out
        sides = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert sides[0] <= sides[1], f"{name}: the page is {sides[0]} pixels wide in a {size} window of {sides[1]}"
        _wait_for(page, f"({CLIPPED})().length === 0")
        clipped = page.evaluate(CLIPPED)
        assert clipped == [], f"{name}: text is cut off in a {size} window: {clipped}"


def _wait_for(page: Page, condition: str) -> None:
    """Wait until something is so, or long enough to say that it never will be."""
    with contextlib.suppress(TimeoutError):
        page.wait_for_function(condition, timeout=20_000)


_FITS = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"

CLIPPED = """() => [...document.querySelectorAll('.rh, button, label, h1, h3')]
  .filter(e => e.offsetParent && !e.closest('.visually-hidden') && getComputedStyle(e).overflowX === 'visible')
  .filter(e => { const box = e.getBoundingClientRect(); return box.width && box.right > innerWidth + 1; })
  .map(e => (e.innerText || e.className).slice(0, 60))"""
"""Our texts and controls that end to the right of the window; not the unseen copies by which Gradio measures tabs."""

"""Takes the pictures of the README from the real app, in headless Chromium: still pictures, and an animation.

python docs/make_screenshots.py        # needs the extras app and dev, and a Chromium
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

IMAGES = Path(__file__).parent / "images"
ROOT = Path(__file__).parents[1]
WIDE, NARROW = (1280, 860), (390, 844)
WAIT = 60_000
"""Milliseconds until what is to come must have come."""
STEP = 2.5
"""Seconds that each step of the animation is shown."""

_SERVE = """
import sys
from app.main import launch
from rewardharness.settings import Settings
launch(Settings.from_env(), host="127.0.0.1", port=int(sys.argv[1]), ready=lambda url: print("at", url, flush=True))
"""


@contextmanager
def running_app() -> Iterator[str]:
    """Serve the app with a home of its own, so that a picture shows nothing of this computer."""
    with tempfile.TemporaryDirectory(prefix="screenshots-") as home:
        names = ("RH_", "HF_", "GRADIO_")
        environ = {name: value for name, value in os.environ.items() if not name.startswith(names)}
        environ |= {"RH_HOME": ".rewardharness", "HOME": home, "PYTHONPATH": str(ROOT)}
        rh = [sys.executable, "-m", "rewardharness"]
        task = ["benchmark", "demo", "--limit", "24", "--baselines", "closer,random", "--quiet"]
        subprocess.run([*rh, *task], env=environ, cwd=home, check=True, stdout=subprocess.DEVNULL)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        command = [sys.executable, "-c", _SERVE, str(port)]
        with subprocess.Popen(
            command, env=environ, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stdout is not None
            try:
                yield next(line.split()[1] for line in process.stdout if line.startswith("at "))
            finally:
                process.terminate()


def judged(page: Page) -> None:
    """Judge a sample on the Score tab."""
    page.get_by_role("button", name="Blue space suit").click()
    expect(page.locator("#verdict")).to_contain_text("People would most likely prefer", timeout=WAIT)
    expect(page.locator("#candidate-b img")).to_be_visible(timeout=WAIT)
    page.evaluate("window.scrollTo(0, 0)")


def voting(page: Page) -> None:
    """Open the Vote tab at its first pair."""
    page.get_by_role("tab", name="Vote", exact=True).click()
    expect(page.locator("#vote-b img")).to_be_visible(timeout=WAIT)


def benchmarked(page: Page) -> None:
    """Open a finished benchmark."""
    page.get_by_role("tab", name="Benchmark", exact=True).click()
    page.get_by_role("button", name="Earlier runs").locator("visible=true").click()
    page.locator("#benchmark-list label").first.click()
    expect(page.locator("#benchmark-run")).to_contain_text("Finished", timeout=WAIT)
    page.get_by_role("button", name="Earlier runs").locator("visible=true").click()


def open_page(browser: Browser, url: str, size: tuple[int, int], scheme: str) -> Page:
    """Open the app in a window of a size and a color scheme."""
    width, height = size
    page = browser.new_page(viewport={"width": width, "height": height})
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
    page.goto(url)
    page.locator("#compare").wait_for(timeout=WAIT)
    return page


def picture(page: Page) -> Image.Image:
    """Take a picture of the window once its colors have settled."""
    page.wait_for_timeout(600)
    return Image.open(BytesIO(page.screenshot())).convert("RGB")


def still(browser: Browser, url: str, name: str, size: tuple[int, int], prepare: Callable[[Page], None]) -> None:
    """Save one state of the page, light and dark."""
    for scheme in ("light", "dark"):
        page = open_page(browser, url, size, scheme)
        prepare(page)
        picture(page).save(IMAGES / f"{name}-{scheme}.webp", quality=80, method=6)
        page.close()


def animate(browser: Browser, url: str) -> None:
    """Save the way from an open page to a verdict, its reasons, and a blind vote."""
    page = open_page(browser, url, WIDE, "light")
    frames = [picture(page)]
    judged(page)
    frames.append(picture(page))
    page.locator("#scores").scroll_into_view_if_needed()
    frames.append(picture(page))
    page.locator("#viewer").get_by_text("Mark what changed").click()
    frames.append(picture(page))
    page.get_by_role("button", name="How the judge got there").click()
    page.locator("#overall").scroll_into_view_if_needed()
    frames.append(picture(page))
    page.evaluate("window.scrollTo(0, 0)")
    voting(page)
    frames.append(picture(page))
    page.keyboard.press("b")
    expect(page.locator("#vote-result .verdict")).to_be_visible(timeout=WAIT)
    frames.append(picture(page))
    page.get_by_role("tab", name="Library", exact=True).click()
    page.locator("#entries").get_by_text("color-and-material-changes").first.click()
    expect(page.locator("#entry-head")).to_contain_text("color-and-material-changes", timeout=WAIT)
    frames.append(picture(page))
    benchmarked(page)
    frames.append(picture(page))
    page.close()
    small = [frame.resize((960, 645), Image.Resampling.LANCZOS) for frame in frames]
    first, *others = small
    path, pause = IMAGES / "tour.webp", round(1000 * STEP * 1.3)
    first.save(path, save_all=True, append_images=others, duration=pause, loop=0, quality=70, method=6)


def main() -> int:
    """Take all pictures."""
    chromium = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)
    IMAGES.mkdir(exist_ok=True)
    with running_app() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        still(browser, url, "score", WIDE, judged)
        still(browser, url, "score-narrow", NARROW, judged)
        still(browser, url, "vote", WIDE, voting)
        still(browser, url, "benchmark", WIDE, benchmarked)
        animate(browser, url)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

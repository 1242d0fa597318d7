"""Small pictures, a hostile Library, and one running app for all tests of this folder."""

# ruff: noqa: E402

import gc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from app.starting import quick_imports

with quick_imports():  # in every process that tests, before anything else imports it
    import gradio  # noqa: F401
gc.enable()

from app_parts import Pictures, Served, Site, running_app
from halting import Halt
from hostile import HOSTILE, HOSTILE_DOCUMENT
from hub_server import HubServer
from lineage_parts import Scene, make_scene
from PIL import Image
from playwright.sync_api import BrowserContext, expect, sync_playwright
from visits import CHROMIUM, PATIENCE, SWITCHES

from rewardharness.files import read_json, write_json
from rewardharness.library.entry import Entry
from rewardharness.library.rubric import Criterion, Rubric
from rewardharness.library.store import Library


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests with a browser time."""
    for item in items:
        if "browser" in item.keywords:
            item.add_marker(pytest.mark.timeout(400))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """Chromium with a cache, which pages load from in half the time.

    Not for longer than a module: what drives it has an event loop in this thread, and other tests need their own.
    """
    if CHROMIUM is None:
        pytest.skip("no Chromium on the PATH")
    profile = tmp_path_factory.getbasetemp() / "chromium"
    with sync_playwright() as running:
        started = running.chromium.launch_persistent_context(profile, executable_path=CHROMIUM, args=SWITCHES)
        started.set_default_timeout(PATIENCE)
        expect.set_options(timeout=PATIENCE)
        yield started
        started.close()


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Pictures:
    """A red square on a textured ground: painted blue in one candidate, drowned in noise in the other."""
    folder = tmp_path_factory.mktemp("pictures")
    chance = np.random.default_rng(3)
    ramp = np.linspace(60, 180, 192)[:, None, None] + np.linspace(0, 40, 256)[None, :, None]
    source = np.clip(ramp + chance.normal(0, 4, (192, 256, 3)), 0, 255).astype(np.uint8)
    source[60:130, 90:170] = (190, 30, 30)
    good = source.copy()
    good[60:130, 90:170] = (30, 60, 200)
    bad = np.clip(source * 0.4 + chance.normal(60, 40, source.shape), 0, 255).astype(np.uint8)
    paths = []
    for name, pixels in (("source", source), ("good", good), ("bad", bad)):
        paths.append(folder / f"{name}.png")
        Image.fromarray(pixels).save(paths[-1])
    return Pictures(*paths, "Make the red square blue.")


@pytest.fixture(scope="session")
def hostile_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Library that loads, and whose every free text attacks the page."""
    folder = tmp_path_factory.mktemp("hostile") / "library"
    always = {"triggers": "always, <img src=x onerror=alert(1)>"}
    rubric = Rubric((Criterion("evil", HOSTILE, 2, measure="edit_presence"),))
    skill = Entry("evil-skill", "skill", HOSTILE, HOSTILE_DOCUMENT, always, rubric=rubric)
    prompted = {"system_prompt": HOSTILE, "input_schema": {HOSTILE: HOSTILE}}
    Library((skill, Entry("evil-tool", "tool", HOSTILE, HOSTILE_DOCUMENT, always, **prompted))).save(folder)
    registry = read_json(folder / "registry.json")
    write_json(folder / "registry.json", {**registry, "library": dict.fromkeys(("id", "name", "status"), HOSTILE)})
    return folder


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A Hub and the app of a user who may publish there, in a process and on a port of its own."""
    folder = tmp_path_factory.mktemp("served")
    halt = Halt(folder)
    with HubServer() as hub:
        token = hub.login("ann")
        settings = {"HF_ENDPOINT": hub.url, "HF_TOKEN": token, "HF_HOME": str(folder / "hf")}
        with running_app(folder, {**settings, "RH_REGRESSION_PAIRS": "8", **halt.environment}) as app:
            yield Site(app, hub, token, halt)
    halt.end()


@pytest.fixture(scope="session")
def served(site: Site) -> Served:
    """The app of `site`."""
    return site.app


@pytest.fixture(scope="session")
def lineage_scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """Records, an evolution and a release, made by real commands."""
    return make_scene(tmp_path_factory.mktemp("lineage"))

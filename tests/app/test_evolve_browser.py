"""The Evolve tab as a person meets it: a real browser, a real `rh evolve`, a local Hub."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from app_parts import Served, Site
from evolve_parts import WRONG, make_pairs, make_timid
from hostile import HOSTILE
from playwright.sync_api import BrowserContext, Page, expect
from screenshots import photograph
from visits import fill, fold_out, open_tab, visit

from rewardharness.files import append_jsonl, read_jsonl

pytestmark = pytest.mark.browser


@dataclass(frozen=True)
class Scene:
    """The app, its Hub, and what there is to evolve from."""

    site: Site
    data: Path
    library: Path

    @property
    def app(self) -> Served:
        return self.site.app

    @property
    def runs(self) -> Path:
        return self.app.cwd / "home" / "runs"


@pytest.fixture(scope="module")
def scene(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    scratch = tmp_path_factory.mktemp("evolve-app")
    return Scene(site, make_pairs(scratch / "pairs"), make_timid(scratch / "timid"))


@contextmanager
def open_evolve(browser: BrowserContext, url: str, size: str = "wide", scheme: str = "light") -> Iterator[Page]:
    """Open the tab."""
    with visit(browser, url, size, scheme) as page:
        open_tab(page, "Evolve")
        page.locator("#evolve-introduction").wait_for()
        yield page


def inner_tab(page: Page, name: str) -> None:
    """Open one of the tabs of the run."""
    open_tab(page, name, "#evolve-tabs")


def describe(page: Page, scene: Scene) -> None:
    """Fill the form of a new run."""
    page.locator("#evolve-data").get_by_text("A folder on this computer").click()
    fill(page, "evolve-place", str(scene.data))
    page.locator("#evolve-library-kind").get_by_text("A folder on this computer").click()
    fill(page, "evolve-library-folder", str(scene.library))


def begin(page: Page, scene: Scene) -> str:
    """Start a run from the form; returns its name."""
    before = {path.name for path in scene.runs.glob("*")}
    page.locator("#evolve-see").click()
    page.locator("#evolve-start").click()
    expect(page.locator("#evolve-standing h3")).to_contain_text("pairs")
    page.wait_for_url(re.compile(r"run=pairs-"))
    name = page.url.partition("run=")[2].partition("&")[0]
    assert name not in before
    return name


def test_a_run_is_stopped_resumed_and_shows_what_it_gained(scene: Scene, browser: BrowserContext) -> None:
    with open_evolve(browser, scene.app.url) as page:
        expect(page.locator("#evolve-standing")).to_contain_text("No run is shown")
        describe(page, scene)
        page.locator("#evolve-see").click()
        expect(page.locator("#evolve-cost")).to_contain_text("36 training examples")
        expect(page.locator("#evolve-start")).to_be_visible()
        fold_out(page, "Search and budget")
        fill(page, "evolve-proposals", "8")
        expect(page.locator("#evolve-start")).to_be_hidden()  # the cost that was shown is not that of this
        scene.site.halt.at("events.jsonl", 1, '"decided"')  # so that the run does not end before all was looked at
        name = begin(page, scene)
        process = scene.site.halt.reached()
        expect(page.locator("#evolve-edits label", has_text="Accepted").first).to_be_visible()
        expect(page.locator("#evolve-standing")).to_contain_text("Training examples")
        page.reload()
        open_tab(page, "Evolve")
        expect(page.locator("#evolve-standing h3")).to_contain_text("pairs · ")
        assert name in page.url
        expect(page.locator("#evolve-standing h3")).to_contain_text("Running")
        page.locator("#evolve-stop").click()
        expect(page.locator("#evolve-standing h3")).to_contain_text("Stopping")
        process.resume()
        expect(page.locator("#evolve-standing h3")).to_contain_text("Stopped")
        photograph(page, "evolve-stopped")
        page.locator("#evolve-resume").click()
        expect(page.locator("#evolve-standing h3")).to_contain_text("Finished")
        expect(page.locator("#evolve-standing")).to_contain_text("Held-out test")
        expect(page.locator("#evolve-accuracy svg")).to_contain_text("edits tested")
        look_at_a_fix(page)
        use_the_result(page, name)
        assert scene.site.token not in page.content()


def test_a_run_on_the_hub_is_priced_started_and_followed(scene: Scene, browser: BrowserContext) -> None:
    jobs = scene.site.hub.jobs
    with open_evolve(browser, scene.app.url) as page:
        describe(page, scene)
        expect(page.locator("#evolve-served")).to_be_hidden()
        page.locator("#evolve-on").get_by_text("Hugging Face Jobs").click()
        fill(page, "evolve-served", "")
        fill(page, "evolve-push-to", "ann/from-a-job")
        fold_out(page, "Search and budget")
        fill(page, "evolve-proposals", "2")
        page.locator("#evolve-see").click()
        expect(page.locator("#evolve-cost")).to_contain_text("per hour, at most $")
        assert not jobs.jobs
        page.locator("#evolve-start").click()
        expect(page.locator("#evolve-standing")).to_contain_text("Hugging Face Job")
        expect(page.locator("#evolve-standing")).to_contain_text("completed")
        expect(page.locator("#evolve-standing h3")).to_contain_text("Finished")
        photograph(page, "evolve-on-the-hub")
        assert len(jobs.jobs) == 1 and ("models", "ann/from-a-job") in scene.site.hub.store.repos
        assert scene.site.token not in page.content()
    files = [path for path in (scene.app.cwd / "home").rglob("*") if path.is_file()]
    assert all(scene.site.token.encode() not in path.read_bytes() for path in files), "the token is stored nowhere"


def look_at_a_fix(page: Page) -> None:
    """An edit that was kept, and an example that it fixes: before and after, with the chains."""
    page.locator("#evolve-edits label", has_text="Accepted").last.click()
    expect(page.locator("#evolve-edit-head")).to_contain_text("fixes")
    expect(page.locator("#evolve-change")).to_contain_text("1 added")  # the joint fit
    page.locator("#evolve-examples label", has_text="fixed").first.click()
    words = page.locator("#evolve-case-words")
    expect(words).to_contain_text("Before, with version 0")
    expect(words).to_contain_text("against the label")
    expect(words).to_contain_text("as the label says")
    expect(page.locator("#evolve-case-viewer .files img")).to_have_count(3)
    fold_out(page, "How the judge got there · After")
    expect(page.locator("#evolve-case-chain-1")).to_contain_text("How the grades were weighed")
    inner_tab(page, "Findings")
    expect(page.locator("#evolve-findings")).to_contain_text("strongest first")
    inner_tab(page, "Report")
    expect(page.locator("#evolve-report")).to_contain_text("12 of 12")
    with page.expect_download() as download:
        page.locator("#evolve-download").click()
    assert download.value.path().read_text(encoding="utf-8").startswith("<!doctype html>")


def use_the_result(page: Page, name: str) -> None:
    """The gain in pictures and as a difference, and the way to the other tabs."""
    expect(page.locator("#evolve-now")).to_contain_text("Held-out examples whose verdict changed")
    expect(page.locator("#evolve-thumbnails img").first).to_be_visible()
    fold_out(page, "What changed in the Library")
    expect(page.locator("#evolve-changed")).to_contain_text("added")
    photograph(page, "evolve-gain")
    page.locator("#evolve-to-benchmark").click()
    expect(page.locator("#benchmark-library-folder input, #benchmark-library-folder textarea")).to_have_value(
        re.compile(f"{name}/library$")
    )
    open_tab(page, "Evolve")
    page.locator("#evolve-to-score").click()
    expect(page.get_by_role("button", name=f"Library: '{name}'")).to_be_visible()
    open_tab(page, "Evolve")


@pytest.fixture(scope="module")
def finished(scene: Scene, browser: BrowserContext) -> str:
    """A run that is finished, with a proposal that attacks the page."""
    with open_evolve(browser, f"{scene.app.url}/?run=../../etc") as page:
        expect(page.locator("#evolve-told")).to_contain_text("There is no such run.")
        preview_what_cannot_be_run(page)
        describe(page, scene)
        name = begin(page, scene)
        expect(page.locator("#evolve-standing h3")).to_contain_text("Finished")
    _attack(scene.runs / name)
    return name


def preview_what_cannot_be_run(page: Page) -> None:
    """What goes wrong is said, and the page stays usable."""
    for kind, place, words in (
        ("A folder on this computer", "", "No folder is named."),
        ("A folder on this computer", "/nowhere/at/all", "does not exist"),
        ("My feedback", "", "There is no feedback yet."),
    ):
        page.locator("#evolve-data").get_by_text(kind).click()
        if place:
            fill(page, "evolve-place", place)
        page.locator("#evolve-see").click()
        expect(page.locator("#evolve-cost")).to_contain_text(words)
        expect(page.locator("#evolve-start")).to_be_hidden()


def _attack(folder: Path) -> None:
    """Put a proposal and findings of a hostile model among the events, before the last of them."""
    events = [record for _, record in read_jsonl(folder / "events.jsonl")]
    decided = next(each for each in events if each["event"] == "decided")
    found = next(each for each in events if each["event"] == "found")
    hostile = {
        **decided, "signature": "f" * 64, "names": [HOSTILE], "statement": HOSTILE, "source": HOSTILE,
        "cited": [HOSTILE], "operator": HOSTILE, "evidence": {**decided["evidence"], "reason": HOSTILE},
    }  # fmt: skip
    findings = [{**found["findings"][0], "statement": f"`{HOSTILE}`", "cited": [HOSTILE]}]
    for record in (*events[:-2], hostile, {**found, "findings": findings}, *events[-2:]):
        append_jsonl(folder / "others.jsonl", record)
    (folder / "others.jsonl").replace(folder / "events.jsonl")


def test_a_wrong_label_is_corrected_for_the_next_run(scene: Scene, browser: BrowserContext, finished: str) -> None:
    before = (scene.data / "pairs.jsonl").read_bytes()
    with open_evolve(browser, f"{scene.app.url}/?run={finished}") as page:
        expect(page.locator("#evolve-standing h3")).to_contain_text("Finished")
        assert finished in page.url
        inner_tab(page, "Labels to check")
        page.locator("#evolve-queued label", has_text=WRONG).click()
        expect(page.locator("#evolve-puzzle-words")).to_contain_text("The label: A is better.")
        expect(page.locator("#evolve-puzzle-viewer .files img")).to_have_count(3)
        expect(page.locator("#evolve-label-A")).to_be_hidden()
        page.locator("#evolve-label-B").click()
        expect(page.locator("#evolve-relabelled")).to_contain_text("Noted: the label was wrong")
        expect(page.locator("#evolve-queue")).to_contain_text("No label to check")
        fold_out(page, "New run")
        describe(page, scene)
        page.locator("#evolve-see").click()
        expect(page.locator("#evolve-cost")).to_contain_text("1 corrected label")
    assert (scene.data / "pairs.jsonl").read_bytes() == before
    shutil.rmtree(scene.app.cwd / "home" / "corrections")


def test_nothing_sticks_out_of_the_tab(scene: Scene, browser: BrowserContext, finished: str) -> None:

    def shoot(name: str) -> None:
        photograph(page, f"evolve-{name}")

    with open_evolve(browser, scene.app.url, "narrow", "dark") as page:
        shoot("empty")
        fold_out(page, "Search and budget")
        fold_out(page, "Orchestrator")
        page.locator("#evolve-proposer").get_by_text("A model").click()
        expect(page.locator("#evolve-model-key")).to_be_visible()
        shoot("form")
        fold_out(page, "New run")
        fold_out(page, "Earlier runs")
        page.locator("#evolve-list label").filter(has=page.locator(f"input[value='{finished}']")).click()
        expect(page.locator("#evolve-standing h3")).to_contain_text("Finished")
        assert finished in page.url
        page.locator("#evolve-edits label", has_text="<script>").click()
        expect(page.locator("#evolve-edit-head")).to_contain_text("<script>window.owned=1</script>")
        page.locator("#evolve-edits label", has_text="Accepted").last.click()
        page.locator("#evolve-examples label", has_text="fixed").first.click()
        expect(page.locator("#evolve-case-words")).to_contain_text("as the label says")
        fold_out(page, "How the judge got there · Before")
        shoot("edit")
        for name, part in (
            ("Findings", "findings"), ("Labels to check", "queue"), ("Versions", "versions"), ("Report", "report"),
        ):  # fmt: skip
            inner_tab(page, name)
            expect(page.locator(f"#evolve-{part}")).to_be_visible()
            shoot(part)
        assert page.locator("#evolve-run a, #evolve-findings img").count() == 0

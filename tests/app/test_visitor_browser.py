"""A visitor of a Space, as a person is one: logs in and judges with a model of Hugging Face."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from app_parts import ROOT, Pictures, Served, running_app
from benchmark_parts import make_labelled
from hub_server import HubServer
from judging_model import judging
from login_provider import provider, space_settings
from model_server import ModelServer
from playwright.sync_api import BrowserContext, Page, expect
from screenshots import photograph
from visits import give, open_tab, visit

from rewardharness.data.votes import voter_id
from rewardharness.demo.dataset import make_demo

pytestmark = pytest.mark.browser

VOTES = "ann/preferences"
HOSTED = "Qwen/Qwen3-VL-8B-Instruct"


@dataclass(frozen=True)
class Space:
    """The Space of ann; bob visits. The router of Hugging Face is on this machine, and lets bob alone in."""

    app: Served
    owner: str
    visitor: str
    router: ModelServer
    hub: HubServer


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory, pictures: Pictures) -> Iterator[Space]:
    scratch = tmp_path_factory.mktemp("space")
    make_demo(scratch / "pairs", pairs=9, groups=0, workers=2, side=192)
    with HubServer() as hub:
        owner, visitor = hub.login("ann"), hub.login("bob")
        with provider("bob", visitor) as url, ModelServer(judging(pictures.good), key=visitor, model=HOSTED) as router:
            settings = {
                **space_settings(url),
                "HF_ENDPOINT": hub.url,
                "HF_TOKEN": owner,
                "HF_HOME": str(scratch / "hf"),
                "RH_FEEDBACK_REPO": VOTES,
                "RH_VOTE_DATA": str(scratch / "pairs"),
                "RH_FEEDBACK_SALT": "salt-of-ann",
                "TEST_SERVICES": json.dumps({"hf": router.url}),
            }
            with running_app(scratch, settings) as app:
                yield Space(app, owner, visitor, router, hub)


def choose_hosted(page: Page) -> None:
    page.get_by_role("button", name="Judge: Pixel-based (no model)").click()
    page.locator("#judge-kind").get_by_text("Hugging Face (a model without a GPU)").click()


def test_a_visitor_judges_with_their_own_login(space: Space, browser: BrowserContext, pictures: Pictures) -> None:
    seen = visit(browser, space.app.url)
    with seen as page:
        choose_hosted(page)
        expect(page.locator("#judge-login")).to_contain_text("Log in with Hugging Face")
        photograph(page, "judge-login")
        give(page, pictures, pictures.instruction)
        page.locator("#compare").click()
        expect(page.locator("#verdict")).to_contain_text("You are not logged in.")
        assert space.router.calls == []
        page.locator("#judge-login").click()
        page.locator("#compare").wait_for()  # the page comes again
        choose_hosted(page)
        expect(page.locator("#judge-login")).to_contain_text("Log out (bob)")
        page.locator("#judge-hosted input").fill(HOSTED)
        page.locator("#judge-hosted input").press("Enter")
        expect(page.locator("#forget-key")).to_be_hidden()
        give(page, pictures, pictures.instruction)
        page.locator("#compare").click()
        expect(page.locator("#verdict")).to_contain_text("People would most likely prefer B.")
        assert {call.headers["authorization"] for call in space.router.calls} == {f"Bearer {space.visitor}"}
        assert not {space.owner, space.visitor} & set(page.content().split('"'))
    said = space.app.log.read_text(encoding="utf-8")
    assert space.visitor not in said and space.owner not in said
    held = [path for path in Path(space.app.cwd).rglob("*") if path.is_file()]
    assert not [path for path in held if space.visitor.encode() in path.read_bytes()]


def test_a_visitor_judges_an_archive_that_no_other_visitor_sees(
    space: Space, browser: BrowserContext, tmp_path: Path
) -> None:
    archive = shutil.make_archive(str(tmp_path / "pairs"), "zip", make_labelled(tmp_path / "pairs"))
    with visit(browser, space.app.url) as page:
        open_tab(page, "Batch")
        expect(page.locator("#batch-introduction")).to_contain_text("at most 100 examples and 20 MB")
        expect(page.locator("#batch-place")).to_be_hidden()
        page.locator("#batch-see").click()
        expect(page.locator("#batch-cost")).to_contain_text("There is no archive.")
        page.locator("#batch-upload input[type=file]").set_input_files(archive)
        expect(page.locator("#batch-upload")).to_contain_text("pairs")
        page.locator("#batch-see").click()
        expect(page.locator("#batch-cost")).to_contain_text("Images and results are deleted after 24 hours.")
        page.locator("#batch-start").click()
        expect(page.locator("#batch-run")).to_contain_text("Finished")
        expect(page.locator("#batch-table img").first).to_be_visible()
        photograph(page, "visitor-batch")
        assert str(space.app.cwd / "home") not in page.content()
    with visit(browser, space.app.url) as page:
        open_tab(page, "Batch")
        expect(page.locator("#batch-no-runs")).to_be_attached()
        expect(page.locator("#batch-table img")).to_have_count(0)


def stored_votes(hub: HubServer) -> list[dict[str, object]]:
    files = hub.store.repos["datasets", VOTES].find("main").files
    return [json.loads(line) for path, data in files.items() if path.startswith("votes-") for line in data.splitlines()]


def test_a_visitor_votes_before_the_judge_answers(space: Space, browser: BrowserContext) -> None:
    with visit(browser, space.app.url) as page:
        open_tab(page, "Vote")
        expect(page.locator("#vote")).to_contain_text("under CC BY 4.0")
        expect(page.locator("#vote-question")).to_contain_text("Pair 1 of 9")
        expect(page.locator("#vote-b img")).to_be_visible()
        expect(page.locator("#vote-is-a")).to_be_enabled()
        photograph(page, "vote")
        assert not page.locator("#vote .verdict").count()
        page.keyboard.press("a")
        result = page.locator("#vote-result")
        expect(result).to_contain_text("Your answer: A is better.")
        expect(result).to_contain_text(f"It is stored in {VOTES} as vote ")
        photograph(page, "voted")
        [row] = stored_votes(space.hub)
        assert str(row["vote"]) in result.inner_text() and row["voter"] is None
        images = [row["source"], row["candidate_a"], row["candidate_b"]]
        repo = space.hub.store.repos["datasets", VOTES]
        assert repo.private and all(repo.find("main").files[str(path)].startswith(b"\x89PNG") for path in images)
        page.locator("#vote-next").click()
        expect(page.locator("#vote-question")).to_contain_text("Pair 2 of 9")
        expect(result).to_be_empty()
        page.locator("#vote-bad").click()
        expect(result).to_contain_text("Your answer: Both are bad.")
    assert [row["both_bad"] for row in stored_votes(space.hub)].count(True) == 1
    assert space.owner not in space.app.log.read_text(encoding="utf-8")


def run_rh(space: Space, home: Path, *arguments: str) -> None:
    """Run a command as ann does on her computer."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("RH_", "HF_"))}
    environ |= {"HF_ENDPOINT": space.hub.url, "HF_TOKEN": space.owner, "HF_HOME": str(home / "hf")}
    environ |= {"RH_HOME": str(home / "rh"), "RH_REGRESSION_PAIRS": "0"}
    environ["PYTHONPATH"] = str(ROOT)
    command = [sys.executable, "-m", "rewardharness", *arguments]
    done = subprocess.run(command, env=environ, cwd=home, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout


def test_votes_become_a_library_in_the_gallery(space: Space, browser: BrowserContext, tmp_path: Path) -> None:
    with visit(browser, space.app.url) as page:
        choose_hosted(page)
        page.locator("#judge-login").click()
        expect(page.locator("#judge-login")).to_be_hidden()
        page.locator("#compare").wait_for()
        open_tab(page, "Vote")
        for number in range(1, 10):
            expect(page.locator("#vote-question")).to_contain_text(f"Pair {number} of 9")
            expect(page.locator("#vote-is-b")).to_be_enabled()
            page.keyboard.press("b")
            expect(page.locator("#vote-result")).to_contain_text("Your answer: B is better.")
            page.locator("#vote-next").click()
        expect(page.locator("#vote-question")).to_contain_text("You have seen all pairs")
    ours = [row for row in stored_votes(space.hub) if row["voter"]]
    assert len(ours) == 9 and {row["voter"] for row in ours} == {voter_id("bob", "salt-of-ann")}
    run_rh(space, tmp_path, "evolve", "--data", VOTES, "--proposals", "2", "--run", "run")
    run_rh(space, tmp_path, "push-library", "run/library", "--repo", "ann/evolved")
    with visit(browser, space.app.url) as page:
        open_tab(page, "Library")
        open_tab(page, "Gallery", "#library-tabs")
        shelf = page.locator("#gallery")
        expect(shelf).to_contain_text("ann/evolved v0.1.0")
        photograph(page, "gallery")
        page.locator("#gallery-query textarea, #gallery-query input").fill("nothing-like-it")
        page.keyboard.press("Enter")
        expect(shelf).to_contain_text("No Library was found")
        page.locator("#gallery-query textarea, #gallery-query input").fill("evol")
        page.keyboard.press("Enter")
        address = shelf.get_by_role("link", name="Open ann/evolved").get_attribute("href")
        assert address == "?library=ann/evolved@v0.1.0"
    with visit(browser, f"{space.app.url}/{address}") as page:
        expect(page.get_by_text("Judging with ann/evolved@v0.1.0")).to_be_visible()


def test_a_server_on_this_computer_is_found_and_used(
    tmp_path: Path, browser: BrowserContext, pictures: Pictures
) -> None:
    with (
        ModelServer(judging(pictures.good), model="small-vlm") as server,
        running_app(tmp_path, {"TEST_PORTS": json.dumps({"vLLM": server.port})}) as app,
        visit(browser, app.url) as page,
    ):
        page.get_by_role("button", name="Judge: Pixel-based (no model)").click()
        page.locator("#judge-kind").get_by_text("A vLLM or OpenAI-compatible endpoint").click()
        page.locator("#judge-near").get_by_text("small-vlm").click()
        expect(page.locator("#judge-url input, #judge-url textarea")).to_have_value(server.url)
        photograph(page, "judge-near")
        give(page, pictures, pictures.instruction)
        page.locator("#compare").click()
        expect(page.locator("#verdict")).to_contain_text("People would most likely prefer B.")

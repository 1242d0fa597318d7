"""A visitor of a Space, as a person is one: logs in, judges with a model of Hugging Face, votes, publishes."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from app_parts import ROOT, Pictures, Served, running_app
from hub_server import HubServer
from judging_model import judging
from login_provider import provider, space_settings
from model_server import ModelServer
from playwright.sync_api import BrowserContext, Page, expect
from screenshots import photograph
from test_hub_app import REPO, publish
from visits import compare, fill, give, open_tab, visit

from rewardharness.data.votes import voter_id
from rewardharness.demo.dataset import make_demo
from rewardharness.library.hub import Access, push
from rewardharness.library.store import RemoveEntry

pytestmark = pytest.mark.browser

VOTES = "ann/preferences"
SMALL = "ann/small"
HOSTED = "Qwen/Qwen3-VL-8B-Instruct"


@dataclass(frozen=True)
class Space:
    """The Space of ann; bob visits. The router of Hugging Face is on this machine, and lets bob alone in."""

    app: Served
    owner: str
    visitor: str
    router: ModelServer
    hub: HubServer

    def votes(self) -> list[dict[str, object]]:
        """Return the votes that are stored on the Hub."""
        files = self.hub.store.repos["datasets", VOTES].find("main").files
        tables = [data for path, data in files.items() if path.startswith("votes-")]
        return [json.loads(line) for data in tables for line in data.splitlines()]


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory, pictures: Pictures) -> Iterator[Space]:
    scratch = tmp_path_factory.mktemp("space")
    make_demo(scratch / "pairs", pairs=9, groups=0, workers=2, side=192)
    with HubServer() as hub:
        owner, visitor = hub.login("ann"), hub.login("bob")
        whole = publish(hub, owner, scratch / "library")
        less = whole.apply(RemoveEntry(whole.skills[0].name))
        push(less, SMALL, access=Access(owner, hub.url, scratch / "author"))
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


def test_a_visitor_votes_logs_in_judges_and_the_votes_become_a_library(
    space: Space, browser: BrowserContext, pictures: Pictures, tmp_path: Path
) -> None:
    with visit(browser, space.app.url) as page:
        vote_without_a_name(page, space)
        open_tab(page, "Score")
        judge_with_the_own_login(page, space, pictures)
        open_tab(page, "Vote")
        for number in range(1, 10):
            expect(page.locator("#vote-question")).to_contain_text(f"Pair {number} of 9")
            expect(page.locator("#vote-is-b")).to_be_enabled()
            page.keyboard.press("b")
            expect(page.locator("#vote-result")).to_contain_text("Your answer: B is better.")
            page.locator("#vote-next").click()
        expect(page.locator("#vote-question")).to_contain_text("You have seen all pairs")
        ours = [row for row in space.votes() if row["voter"]]
        assert len(ours) == 9 and {row["voter"] for row in ours} == {voter_id("bob", "salt-of-ann")}
        run_rh(space, tmp_path, "evolve", "--data", VOTES, "--proposals", "2", "--run", "run")
        run_rh(space, tmp_path, "push-library", "run/library", "--repo", "ann/evolved")
        open_tab(page, "Library")
        open_tab(page, "Gallery", "#library-tabs")
        shelf = page.locator("#gallery")
        expect(shelf).to_contain_text("ann/evolved v0.1.0")
        photograph(page, "gallery")
        for query, words in (("nothing-like-it", "No Library was found"), ("evol", "ann/evolved")):
            fill(page, "gallery-query", query)
            page.keyboard.press("Enter")
            expect(shelf).to_contain_text(words)
        address = shelf.get_by_role("link", name="Open ann/evolved").get_attribute("href")
        assert address == "?library=ann/evolved@v0.1.0"
        page.goto(f"{space.app.url}/{address}")
        page.locator("#place-load").click()
        expect(page.get_by_text("Judging with ann/evolved@v0.1.0")).to_be_visible()


def vote_without_a_name(page: Page, space: Space) -> None:
    """Vote on two pairs without a login; the judge answers after the vote."""
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
    [row] = space.votes()
    assert str(row["vote"]) in result.inner_text() and row["voter"] is None
    images = [row["source"], row["candidate_a"], row["candidate_b"]]
    repo = space.hub.store.repos["datasets", VOTES]
    assert repo.private and all(repo.find("main").files[str(path)].startswith(b"\x89PNG") for path in images)
    page.locator("#vote-next").click()
    expect(page.locator("#vote-question")).to_contain_text("Pair 2 of 9")
    expect(result).to_be_empty()
    page.locator("#vote-bad").click()
    expect(result).to_contain_text("Your answer: Both are bad.")
    assert [row["both_bad"] for row in space.votes()].count(True) == 1


def judge_with_the_own_login(page: Page, space: Space, pictures: Pictures) -> None:
    """Judge with a model of Hugging Face: refused without a login, then with the visitor's own token."""
    choose_hosted(page)
    expect(page.locator("#judge-login")).to_contain_text("Log in with Hugging Face")
    photograph(page, "judge-login")
    give(page, pictures, pictures.instruction)
    compare(page, "You are not logged in.")
    assert space.router.calls == []
    page.locator("#judge-login").click()
    expect(page.locator("#judge-login")).to_be_hidden()
    page.locator("#compare").wait_for()  # the page comes again
    choose_hosted(page)
    expect(page.locator("#judge-login")).to_contain_text("Log out (bob)")
    page.locator("#judge-hosted input").fill(HOSTED)
    page.locator("#judge-hosted input").press("Enter")
    expect(page.locator("#forget-key")).to_be_hidden()
    give(page, pictures, pictures.instruction)
    compare(page, "People would most likely prefer B.")
    assert {call.headers["authorization"] for call in space.router.calls} == {f"Bearer {space.visitor}"}
    assert not {space.owner, space.visitor} & set(page.content().split('"'))
    said = space.app.log.read_text(encoding="utf-8")
    assert space.visitor not in said and space.owner not in said
    held = [path for path in Path(space.app.cwd).rglob("*") if path.is_file()]
    assert not [path for path in held if space.visitor.encode() in path.read_bytes()]


def run_rh(space: Space, home: Path, *arguments: str) -> None:
    """Run a command as ann does on her computer."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("RH_", "HF_"))}
    environ |= {"HF_ENDPOINT": space.hub.url, "HF_TOKEN": space.owner, "HF_HOME": str(home / "hf")}
    environ |= {"RH_HOME": str(home / "rh"), "RH_REGRESSION_PAIRS": "0", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "rewardharness", *arguments]
    done = subprocess.run(command, env=environ, cwd=home, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout


def test_visitors_publish_as_themselves_with_their_own_token(space: Space, browser: BrowserContext) -> None:
    repos = space.hub.store.repos
    hidden = space.hub.store.create("ann/hidden", private=True)
    hidden.put(dict(repos["models", REPO].find("main").files))
    theirs = repos["models", SMALL]
    head = theirs.branches["main"]
    with visit(browser, f"{space.app.url}/?library=ann/hidden") as page:
        page.locator("#place-load").click()
        told, status = page.locator("#publish-told"), page.locator("#library-status")

        def ask(repo: str, words: str) -> None:
            fill(page, "publish-repo", repo)
            page.locator("#publish-preview").click()
            expect(told).to_contain_text(words)

        open_tab(page, "Library")
        expect(status).to_contain_text("There is no ann/hidden on the Hub")
        expect(status).to_contain_text("Log in first to read a private repository")
        assert page.locator("#library-kind").get_by_text("A folder on this computer").count() == 0
        page.goto(f"{space.app.url}/?library={REPO}@v0.1.0")
        page.locator("#place-load").click()
        open_tab(page, "Library")
        open_tab(page, "Hub", "#library-tabs")
        ask("bob/copy", "You are not logged in.")
        with page.expect_navigation(url=re.compile(r"[?&]library=.*v0.1.0")):
            page.locator("#login").click()
        expect(page.get_by_text(f"Judging with {REPO}@v0.1.0")).to_be_visible()  # the place in the address is kept
        expect(page.locator("#tabs button[aria-selected=true]").first).to_have_text("Library")
        open_tab(page, "Hub", "#library-tabs")
        expect(page.locator("#login")).to_contain_text("Log out (bob)")
        expect(status).to_contain_text("published by ann")
        ask("ann/copy", "ann/copy does not belong to bob.")
        page.locator("#publish-private").get_by_text("Private").click()
        ask("bob/copy", "v0.1.0 would be published in bob/copy")
        expect(told).to_contain_text("The repository is new. It would be private.")
        expect(told).to_contain_text("registry.json")
        assert ("models", "bob/copy") not in repos
        page.locator("#publish-confirm").click()
        expect(told).to_contain_text("bob/copy v0.1.0 is published")
        made = repos["models", "bob/copy"]
        assert made.private and made.find("main").author == "bob"
        ask("bob/copy", "Nothing to publish")
        page.locator("#publish-private").get_by_text("Private").click()
        ask(SMALL, "ann/small does not belong to bob.")
        for part in ("pull", "both"):
            page.locator(f"#publish-{part} input").check()
        page.locator("#publish-preview").click()
        page.locator("#publish-confirm").click()
        expect(told).to_contain_text("Proposed to ann/small")
        assert theirs.branches["main"] == head and [pull.author for pull in theirs.pulls] == ["bob"]
        assert space.owner not in page.content() and space.visitor not in page.content()


def test_a_server_of_this_computer_is_found(tmp_path: Path, browser: BrowserContext, pictures: Pictures) -> None:
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
        compare(page, "People would most likely prefer B.")

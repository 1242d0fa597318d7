"""A visitor of a Space, as a person is one: logs in and judges with a model of Hugging Face."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from app_parts import Pictures, Served, running_app
from hub_server import HubServer
from judging_model import judging
from login_provider import provider, space_settings
from model_server import ModelServer
from playwright.sync_api import BrowserContext, Page, expect
from screenshots import photograph
from visits import give, visit

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
    with HubServer() as hub:
        owner, visitor = hub.login("ann"), hub.login("bob")
        with provider("bob", visitor) as url, ModelServer(judging(pictures.good), key=visitor, model=HOSTED) as router:
            settings = {
                **space_settings(url),
                "HF_ENDPOINT": hub.url,
                "HF_TOKEN": owner,
                "HF_HOME": str(scratch / "hf"),
                "RH_FEEDBACK_REPO": VOTES,
                "RH_FEEDBACK_SALT": "salt-of-ann",
                "TEST_SERVICES": json.dumps({"hf": router.url}),
            }
            with running_app(scratch, settings) as app:
                yield Space(app, owner, visitor, router, hub)


def choose_hosted(page: Page) -> None:
    page.get_by_role("button", name="Judge: Measured (no model)").click()
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


def stored_votes(hub: HubServer) -> list[dict[str, object]]:
    files = hub.store.repos["datasets", VOTES].find("main").files
    return [json.loads(line) for path, data in files.items() if path.startswith("votes-") for line in data.splitlines()]


def test_a_visitor_votes_before_the_judge_answers(space: Space, browser: BrowserContext) -> None:
    with visit(browser, space.app.url) as page:
        page.get_by_role("tab", name="Vote", exact=True).click()
        expect(page.locator("#vote")).to_contain_text("under CC BY 4.0")
        expect(page.locator("#vote-question")).to_contain_text("Pair 1 of 6")
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
        expect(page.locator("#vote-question")).to_contain_text("Pair 2 of 6")
        expect(result).to_be_empty()
        page.locator("#vote-bad").click()
        expect(result).to_contain_text("Your answer: Both are bad.")
    assert [row["both_bad"] for row in stored_votes(space.hub)].count(True) == 1
    assert space.owner not in space.app.log.read_text(encoding="utf-8")


def test_a_server_on_this_computer_is_found_and_used(
    tmp_path: Path, browser: BrowserContext, pictures: Pictures
) -> None:
    with (
        ModelServer(judging(pictures.good), model="small-vlm") as server,
        running_app(tmp_path, {"TEST_PORTS": json.dumps({"vLLM": server.port})}) as app,
        visit(browser, app.url) as page,
    ):
        page.get_by_role("button", name="Judge: Measured (no model)").click()
        page.locator("#judge-kind").get_by_text("A vLLM or OpenAI-compatible endpoint").click()
        page.locator("#judge-near").get_by_text("small-vlm").click()
        expect(page.locator("#judge-url input, #judge-url textarea")).to_have_value(server.url)
        photograph(page, "judge-near")
        give(page, pictures, pictures.instruction)
        page.locator("#compare").click()
        expect(page.locator("#verdict")).to_contain_text("People would most likely prefer B.")

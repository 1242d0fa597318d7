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

HOSTED = "Qwen/Qwen3-VL-8B-Instruct"


@dataclass(frozen=True)
class Space:
    """The Space of ann; bob visits. The router of Hugging Face is on this machine, and lets bob alone in."""

    app: Served
    owner: str
    visitor: str
    router: ModelServer


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
                "TEST_SERVICES": json.dumps({"hf": router.url}),
            }
            with running_app(scratch, settings) as app:
                yield Space(app, owner, visitor, router)


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

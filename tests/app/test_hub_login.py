"""Publishing as the visitor of a Space: a real login at a provider on this machine, in a real browser."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from app_parts import Served, running_app
from hub_server import HubServer
from playwright.sync_api import BrowserContext, Page, expect
from test_hub_app import REPO, publish, tab
from visits import fill, visit

from rewardharness.library.hub import Access, push
from rewardharness.library.opening import open_library
from rewardharness.library.store import RemoveEntry

pytestmark = pytest.mark.browser

SMALL = "ann/small"


@contextmanager
def provider(name: str, token: str) -> Iterator[str]:
    """An OpenID provider at which one user logs in without being asked. Gives its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path == "/oauth/authorize":
                query = parse_qs(parts.query)
                back = urlencode({"code": "one-time", "state": query["state"][0]})
                self.send_response(302)
                address = query["redirect_uri"][0]
                self.send_header("Location", f"{address}{'&' if '?' in address else '?'}{back}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            places = {"issuer": url, "authorization_endpoint": f"{url}/oauth/authorize"}
            self._answer(places | {"token_endpoint": f"{url}/oauth/token"})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            who = {"sub": "1", "name": name, "preferred_username": name, "profile": url, "picture": ""}
            answer = {"access_token": token, "token_type": "bearer", "expires_in": 3600}
            self._answer(answer | {"scope": "openid profile contribute-repos", "userinfo": who})

        def _answer(self, value: object) -> None:
            body = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield url
    server.shutdown()
    server.server_close()
    thread.join()


@dataclass(frozen=True)
class Space:
    """A Hub, and the app as it runs in a Space of ann, who has a token there; bob visits."""

    hub: HubServer
    app: Served
    owner: str
    visitor: str


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Space]:
    scratch = tmp_path_factory.mktemp("space")
    with HubServer() as hub:
        owner = hub.login("ann")
        publish(hub, owner, scratch)
        visitor = hub.login("bob")
        whole = open_library("builtin")
        less = whole.apply(RemoveEntry(whole.skills[0].name))
        push(less, SMALL, access=Access(owner, hub.url, scratch / "author"))
        with provider("bob", visitor) as url:
            settings = {
                "SYSTEM": "spaces",
                "SPACE_ID": "ann/demo",
                "OPENID_PROVIDER_URL": url,
                "OAUTH_CLIENT_ID": "app",
                "OAUTH_CLIENT_SECRET": "not-a-secret",
                "OAUTH_SCOPES": "openid profile contribute-repos",
                "GRADIO_SSR_MODE": "False",
                "HF_ENDPOINT": hub.url,
                "HF_TOKEN": owner,
                "HF_HOME": str(scratch / "hf"),
            }
            with running_app(scratch, settings) as app:
                yield Space(hub, app, owner, visitor)


def ask(page: Page, repo: str) -> None:
    fill(page, "publish-repo", repo)
    page.locator("#publish-preview").click()


def test_visitors_publish_as_themselves_and_nobody_borrows_the_owners_token(
    space: Space, browser: BrowserContext
) -> None:
    hub = space.hub
    with visit(browser, f"{space.app.url}/?library={REPO}@v0.1.0") as page:
        tab(page, "Library")
        tab(page, "Hub")
        told = page.locator("#publish-told")
        ask(page, "bob/copy")
        expect(told).to_contain_text("You are not logged in.")
        page.locator("#login").click()
        page.locator("#compare").wait_for()
        tab(page, "Library")
        tab(page, "Hub")
        expect(page.locator("#login")).to_contain_text("Log out (bob)")
        expect(page.locator("#library-status")).to_contain_text("published by ann")
        ask(page, "ann/copy")
        expect(told).to_contain_text("ann/copy does not belong to bob.")
        ask(page, "bob/copy")
        expect(told).to_contain_text("v0.1.0 would be published in bob/copy")
        page.locator("#publish-confirm").click()
        expect(told).to_contain_text("bob/copy v0.1.0 is published")
        made = hub.store.repos["models", "bob/copy"]
        assert made.find("main").author == "bob"
        small = hub.store.repos["models", SMALL]
        head = small.branches["main"]
        ask(page, SMALL)
        expect(told).to_contain_text("ann/small does not belong to bob.")
        for part in ("pull", "both"):
            page.locator(f"#publish-{part} input").check()
        page.locator("#publish-preview").click()
        expect(told).to_contain_text("would be proposed to ann/small")
        page.locator("#publish-confirm").click()
        expect(told).to_contain_text("Proposed to ann/small")
        assert small.branches["main"] == head and [pull.author for pull in small.pulls] == ["bob"]
        assert space.owner not in page.content() and space.visitor not in page.content()


def test_what_only_the_owner_may_read_stays_unread(space: Space, browser: BrowserContext) -> None:
    hidden = space.hub.store.create("ann/hidden", private=True)
    hidden.put(dict(space.hub.store.repos["models", REPO].find("main").files))
    with visit(browser, f"{space.app.url}/?library=ann/hidden") as page:
        tab(page, "Library")
        expect(page.locator("#library-status")).to_contain_text("There is no ann/hidden on the Hub")
        expect(page.locator("#library-status")).to_contain_text("Log in first to read a private repository")
        assert page.locator("#library-kind").get_by_text("A folder on this computer").count() == 0

"""A model as judge, as a person meets it: chosen, followed step by step, stopped, and refused."""

import json
import os
import queue
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from app_parts import Pictures, Served
from hostile import HOSTILE
from judging_model import judging
from model_server import Call, Fault, ModelServer
from playwright.sync_api import BrowserContext, Page, expect
from screenshots import photograph
from visits import PATIENCE, Visit, choose_endpoint, compare, fill, give, visit

CANARY = "sk-canary-of-a-visitor"

pytestmark = pytest.mark.browser

ALL_FIELDS = "JSON.stringify([...document.querySelectorAll('input, textarea')].map(each => each.value))"
ALL_STORED = "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"


def slow_down(page: Page, times: int) -> None:
    """Give the page this many times less of the processor, as on a telephone."""
    page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": times})


def assert_kept_secret(seen: Visit, served: Served) -> None:
    """Look for the key in all that the page holds, shown or not, in the log, and in all files of the app."""
    page = seen.page
    assert CANARY not in f"{page.content()} {page.evaluate(ALL_FIELDS)} {page.evaluate(ALL_STORED)}"
    assert CANARY not in served.log.read_text(encoding="utf-8")
    for where, _, names in os.walk(served.cwd):
        for name in names:
            with suppress(FileNotFoundError):  # the app is at work
                assert CANARY.encode() not in Path(where, name).read_bytes(), name


def test_a_model_is_followed_to_its_verdict(browser: BrowserContext, served: Served, pictures: Pictures) -> None:
    go_on = threading.Event()
    reply = judging(pictures.good, thought=f"B is **blue**. {HOSTILE}", tool="change-map")

    def respond(call: Call) -> Any:
        if "What is wrong with" in call.text:
            problems = [f"Too dark. {HOSTILE}", "x" * 300]
            return json.dumps({"problems": problems, "next_instruction": f"Brighter. {HOSTILE}"})
        if any(message["role"] == "assistant" for message in call.json["messages"]):
            assert go_on.wait(PATIENCE / 1000)  # the answer comes when the page was looked at
        return reply(call)

    seen = visit(browser, served.url)
    with ModelServer(respond, key=CANARY) as server, seen as page:
        choose_endpoint(page, server, CANARY)
        page.locator("#check-judge").click()
        expect(page.locator("#judge-checked")).to_contain_text("The model sees images.")
        expect(page.locator("#judge-key input")).to_have_value("")
        expect(page.locator("#forget-key")).to_be_visible()
        page.get_by_text("Use cached answers").click()
        photograph(page, "4-judge")
        give(page, pictures, pictures.instruction)
        page.locator("#compare").click()
        expect(page.locator("#live")).to_contain_text("Calls change-map on source, A")
        expect(page.locator("#live")).to_contain_text("of the image was edited")
        expect(page.locator("#status")).to_contain_text("0 of 2 answers")
        expect(page.locator("#stop")).to_be_visible()
        photograph(page, "5-live")
        go_on.set()
        verdict = page.locator("#verdict")
        expect(verdict).to_contain_text("People would most likely prefer B.")
        expect(verdict).to_contain_text("The answer is the same in both presentation orders.")
        expect(verdict).to_contain_text("4 calls · 4,000 tokens in")
        expect(page.locator("#overall")).to_contain_text("Prefers candidate B.")
        expect(page.locator("#reasons")).to_contain_text("<script>window.owned=1</script>")
        expect(page.locator("#live")).not_to_contain_text("Calls")
        expect(page.locator("#viewer .pane img").first).to_be_visible()
        photograph(page, "6-judged")
        with page.expect_download() as download:
            page.locator("#download").click()
        record = Path(download.value.path()).read_text(encoding="utf-8")
        assert '"preference": "B"' in record and '"judge": "vllm:judge"' in record and CANARY not in record
        assert_kept_secret(seen, served)

        page.locator("#critique input").check()
        page.locator("#compare").click()
        critiques = page.locator("#critiques")
        expect(critiques).to_contain_text("Too dark.")
        expect(critiques.locator("blockquote")).to_have_count(2)
        assert " ".join(HOSTILE.split()) in " ".join(critiques.locator("blockquote").first.inner_text().split())
        photograph(page, "critique-model")
        assert sum("What is wrong with" in call.text for call in server.calls) == 2


def test_refused_keys_and_what_hangs(browser: BrowserContext, served: Served, pictures: Pictures) -> None:
    hang = threading.Event()

    def respond(call: Call) -> Fault:
        hang.set()
        return Fault("hang")

    seen = visit(browser, served.url)
    with ModelServer(respond, key="sk-another") as server, seen as page:
        choose_endpoint(page, server, CANARY)
        give(page, pictures, pictures.instruction)
        compare(page, "The key was refused")
        expect(page.locator("#verdict")).to_contain_text("Correct the key in the section Judge.")
        expect(page.locator("#verdict")).to_contain_text("never counted as a tie")
        expect(page.locator("#details")).to_be_hidden()
        page.locator("#check-judge").click()
        expect(page.locator("#judge-checked")).to_contain_text("Correct the key above.")
        assert_kept_secret(seen, served)

        fill(page, "judge-key", "sk-another")
        page.locator("#compare").click()
        assert hang.wait(PATIENCE / 1000)
        page.locator("#stop").click()
        expect(page.locator("#verdict")).to_contain_text("Stopped")
        expect(page.locator("#compare")).to_be_enabled()
        assert server.wait_for(lambda: server.open_connections == 0), "Stop reaches the server"

        hang.clear()
        slow_down(page, 3)  # news reach it together: none may be lost
        page.locator("#compare").click()
        assert hang.wait(PATIENCE / 1000)
        expect(page.locator("#stop")).to_be_visible()
        expect(page.locator("#compare")).to_be_disabled()
        page.locator("#reset").click()
        expect(page.locator("#compare")).to_be_enabled()
        expect(page.locator("#stop")).to_be_hidden()
        expect(page.locator("#status")).to_have_text("")
        assert server.wait_for(lambda: server.open_connections == 0), "so does Start over"

        hang.clear()
        give(page, pictures, pictures.instruction)
        page.locator("#compare").click()
        assert hang.wait(PATIENCE / 1000)
        expect(page.locator("#stop")).to_be_visible()  # the page listens: the server will notice when it is gone
        page.close()
        assert server.wait_for(lambda: server.open_connections == 0), "nobody is left who waits for the answer"


def test_another_sample_takes_the_place_of_the_one_that_is_judged(browser: BrowserContext, served: Served) -> None:
    calls: queue.SimpleQueue[str] = queue.SimpleQueue()

    def respond(call: Call) -> Fault | None:
        if len(call.images) < 3 or call.is_probe:
            return None  # a question of a check
        calls.put(str(call.json))
        return Fault("hang")

    with ModelServer(respond) as server, visit(browser, served.url, "narrow") as page:
        choose_endpoint(page, server)
        slow_down(page, 3)
        page.get_by_role("button", name="Blue space suit").click()
        assert "space suit" in calls.get(timeout=PATIENCE / 1000)
        expect(page.locator("#stop")).to_be_visible()
        page.get_by_role("button", name="A red balloon").click()
        while "balloon" not in calls.get(timeout=PATIENCE / 1000):
            pass  # the other order of the first sample
        expect(page.locator("#status")).to_contain_text("0 of 2 answers")
        with page.expect_response("**/queue/join*"):  # Stop may not overtake it: it would begin a comparison then
            page.locator("#instruction input, #instruction textarea").press("Enter")  # one key too many
        page.locator("#stop").click()
        expect(page.locator("#verdict")).to_contain_text("Stopped")
        expect(page.locator("#compare")).to_be_enabled()
        expect(page.locator("#stop")).to_be_hidden()
        assert server.wait_for(lambda: server.open_connections == 0), "neither of them goes on"

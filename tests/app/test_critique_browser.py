"""Critiques on the Score tab, in a real browser: those of the pixel-based judge, and the untrusted ones of a model."""

import json
from typing import Any

import pytest
from app_parts import Pictures, Served
from hostile import HOSTILE
from judging_model import judging
from model_server import Call, ModelServer
from playwright.sync_api import BrowserContext, expect
from screenshots import photograph
from test_judge_browser import choose_endpoint
from visits import give, visit

pytestmark = pytest.mark.browser


def test_the_measured_judge_says_what_is_wrong_only_if_asked(
    browser: BrowserContext, served: Served, pictures: Pictures
) -> None:
    seen = visit(browser, served.url)
    page, critiques = seen.page, seen.page.locator("#critiques")
    give(page, pictures, pictures.instruction)
    page.locator("#compare").click()
    expect(page.locator("#scores")).to_contain_text("Instruction following")
    expect(critiques).not_to_contain_text("What is wrong")
    page.get_by_label("Say what is wrong").check()
    page.locator("#compare").click()
    expect(critiques).to_contain_text("What is wrong")
    expect(critiques.locator("li .letter")).to_have_text(["A", "B"])
    expect(critiques.locator("blockquote").first).to_contain_text(pictures.instruction.rstrip("."))
    photograph(page, "critique-measured")
    assert seen.errors == [] and seen.foreign == [] and seen.dialogs == []
    page.close()


def test_the_critique_of_a_model_is_shown_as_text(browser: BrowserContext, served: Served, pictures: Pictures) -> None:
    reply = judging(pictures.good, thought="I look closely.")

    def respond(call: Call) -> Any:
        if "What is wrong with" not in call.text:
            return reply(call)
        return json.dumps({"problems": [f"Too dark. {HOSTILE}", "x" * 300], "next_instruction": f"Brighter. {HOSTILE}"})

    with ModelServer(respond) as server:
        seen = visit(browser, served.url)
        page, critiques = seen.page, seen.page.locator("#critiques")
        give(page, pictures, pictures.instruction)
        choose_endpoint(page, server)
        page.get_by_label("Use cached answers").uncheck()  # other tests ask the same model about the same pictures
        page.get_by_label("Say what is wrong").check()
        page.locator("#compare").click()
        expect(critiques).to_contain_text("Too dark.")
        expect(critiques.locator("blockquote")).to_have_count(2)
        assert " ".join(HOSTILE.split()) in " ".join(critiques.locator("blockquote").first.inner_text().split())
        photograph(page, "critique-model")
        asked = [call for call in server.calls if "What is wrong with" in call.text]
        assert len(asked) == 2
    assert seen.errors == [] and seen.foreign == [] and seen.dialogs == []
    page.close()

"""Published reward models, corrected checklists and leaderboards, as a person meets them."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from accessible import faults
from app_parts import Pictures, Served, Site
from benchmark_parts import judged, make_labelled, on
from judging_model import shown_hashes
from model_server import Call, ModelServer
from playwright.sync_api import BrowserContext, Page, expect
from screenshots import photograph
from visits import choose_endpoint, compare, fill, fold_out, give, open_tab, visit

pytestmark = pytest.mark.browser

PROFILE = """profile: 1
name: mine
version: "2"
about: Mine; one grade from 0 to 10.
model: my-model
texts: {rules: {file: rules.txt, license: MIT, sha256: HASH}}
calls:
  rate:
    user: [{image: source}, {image: candidate}, {use: rules, slots: {<instruction>: instruction}}]
    reply: {json: {grade: [grade]}}
values: {grade: {range: [0, 10]}}
score: grade
range: [0, 10]
"""
RULES = b"Grade the edit: <instruction>"
PRINCIPLES = [
    {"text": "The square is <b>blue</b>.", "about": "instruction", "weight": 3},
    {"text": "The rest is unchanged.", "about": "instruction", "weight": 1},
    {"text": "There is no noise.", "about": "quality", "weight": 2},
]


def replies(pictures: Pictures) -> Any:
    """A model that grades by a profile, writes checklists, and meets all principles with the better picture."""
    good = sha256(pictures.good.read_bytes()).hexdigest()

    def respond(call: Call) -> str | None:
        better = good in shown_hashes(call)
        if call.text.startswith("Grade the edit"):
            return json.dumps({"grade": 8 if better else 3})
        if "Write the checklist." in call.text:
            return json.dumps({"principles": PRINCIPLES})
        numbers = [number for number in range(1, 9) if f"- c{number} (" in call.text]
        return json.dumps({f"c{number}": int(better or number == 2) for number in numbers}) if numbers else None

    return respond


def choose_profile(page: Page, path: Path) -> None:
    field = page.locator("#judge-profile input")
    field.fill(str(path))
    field.press("Enter")


def test_a_profile_and_a_checklist(browser: BrowserContext, served: Served, pictures: Pictures, tmp_path: Path) -> None:
    (tmp_path / "rules.txt").write_bytes(RULES)
    good, wrong = tmp_path / "mine.yaml", tmp_path / "wrong.yaml"
    good.write_text(PROFILE.replace("HASH", sha256(RULES).hexdigest()), encoding="utf-8")
    wrong.write_text(PROFILE.replace("HASH", "0" * 64), encoding="utf-8")
    with ModelServer(replies(pictures)) as server, visit(browser, served.url) as page:
        choose_endpoint(page, server)
        kind, about, verdict = (page.locator(f"#{name}") for name in ("judge-kind", "judge-about", "verdict"))
        kind.get_by_text("A published reward model").click()
        expect(about).to_contain_text("Library, Tools and measured evidence are off.")
        expect(about).to_contain_text("editscore==")
        expect(page.locator("#judge-protocol")).to_be_hidden()
        assert page.locator("#judge-url input, #judge-url textarea").first.input_value() == server.url
        photograph(page, "judge-profile")
        give(page, pictures, pictures.instruction)
        choose_profile(page, tmp_path / "nowhere.yaml")
        expect(about).to_contain_text("cannot be read")
        choose_profile(page, wrong)
        compare(page, "is not the text of the profile")
        expect(verdict).to_contain_text("write a profile of your own")
        choose_profile(page, good)
        expect(about).to_contain_text("Mine; one grade from 0 to 10.")
        compare(page, "B leads A by 0.50 in reward")
        page.get_by_role("button", name="Entries consulted").click()
        expect(page.locator("#consulted")).to_contain_text("No Library was used")
        kind.get_by_text("A vLLM or OpenAI-compatible endpoint").click()
        page.locator("#judge-protocol").get_by_text("Checklist", exact=False).first.click()
        compare(page, "B leads A")
        reasons, lines = page.locator("#reasons"), page.locator("#principles textarea")
        for words in ("The square is <b>blue</b>.", "instruction, weight 3", "not met"):
            expect(reasons).to_contain_text(words)
        assert faults(page) == []
        fold_out(page, "Correct the checklist")
        written = "\n".join(f"{each['about']} {each['weight']}: {each['text']}" for each in PRINCIPLES)
        expect(lines).to_have_value(written)
        photograph(page, "judge-checklist")
        lines.fill("quality 9: Nothing.")
        page.locator("#judge-again").click()
        expect(page.locator("#outdated")).to_contain_text("is no principle")
        expect(reasons).to_contain_text("The rest is unchanged.")
        lines.fill("instruction 2: The square is dark.")
        page.locator("#judge-again").click()
        expect(reasons).to_contain_text("The square is dark.")
        expect(reasons).not_to_contain_text("The rest is unchanged.")
        expect(page.locator("#outdated")).to_be_empty()
        page.get_by_role("button", name="Notes", exact=True).click()
        expect(page.locator("#notes")).to_contain_text("given principles")


@pytest.fixture(scope="module")
def run(served: Served, tmp_path_factory: pytest.TempPathFactory) -> str:
    data = make_labelled(tmp_path_factory.mktemp("leaderboard") / "pairs")
    return judged(served.cwd / "home", on(data, baselines=("closer", "random")), "benchmark-board")


def test_a_run_is_published_in_a_leaderboard(run: str, browser: BrowserContext, site: Site) -> None:
    with visit(browser, f"{site.app.url}?benchmark={run}") as page:
        open_tab(page, "Benchmark")
        expect(page.locator("#benchmark-table table").first).to_be_visible()
        fold_out(page, "Leaderboard")
        shown, told = page.locator("#leaderboard-shown"), page.locator("#leaderboard-told")
        expect(shown).to_contain_text("No leaderboard is shown")
        fill(page, "leaderboard-repo", "leaderboard:ann/board")
        page.locator("#leaderboard-load").click()
        expect(shown).to_contain_text("There is no dataset ann/board on the Hub")
        page.locator("#leaderboard-preview").click()
        expect(told).to_contain_text("rows to publish")
        page.locator("#leaderboard-confirm").click()
        expect(told).to_contain_text("rows published")
        expect(shown.locator("table tbody tr")).to_have_count(3)
        expect(shown).to_contain_text("measured, 20")
        page.locator("#leaderboard-order input").click()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(page.locator("#leaderboard-order input")).to_have_value("Cost")
        page.locator("#leaderboard-of input").click()
        page.locator("#leaderboard-of [role=option]").filter(has_text="category remove").click()
        expect(shown).to_contain_text("category remove")
        assert faults(page) == []
        photograph(page, "benchmark-leaderboard")

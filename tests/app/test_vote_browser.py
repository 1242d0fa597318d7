"""The journey of a voter in a real browser: votes by keys, an undo, the agreement at the end, and on to Evolve."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from app_parts import Served, draw_ground, draw_square, running_app, write_pairs
from PIL import Image
from playwright.sync_api import BrowserContext, Page, expect
from screenshots import photograph
from visits import open_tab, visit

from rewardharness.data.folder import read_folder
from rewardharness.files import append_jsonl

pytestmark = pytest.mark.browser

PAIRS = 8


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """An app with eight pairs and a group of three, whose editors and labels are known."""
    folder = tmp_path_factory.mktemp("votes")
    random = np.random.default_rng(0)
    rows, colors = [], {"s": (200, 30, 30), "a": (30, 60, 200), "b": (40, 160, 60), "c": (230, 220, 40)}
    for number in range(PAIRS + 1):
        ground = draw_ground(random)
        for name, color in colors.items():
            Image.fromarray(draw_square(ground, color)).resize((192, 192)).save(folder / f"{name}{number}.png")
        row = {"id": f"{number}", "source": f"s{number}.png", "instruction": "Make the red square blue."}
        rows.append({**row, "candidate_a": f"a{number}.png", "candidate_b": f"b{number}.png", "preference": "A"})
    write_pairs(folder / "own", rows[:1])
    for name in "sab":
        shutil.copy(folder / f"{name}0.png", folder / "own")
    group = {**rows.pop(), "candidates": [f"{name}{PAIRS}.png" for name in "abc"], "best": 0}
    append_jsonl(folder / "groups.jsonl", {**group, "editors": ["blue", "green", "<b>yellow"]})
    write_pairs(folder, [{**row, "editor_a": "blue", "editor_b": "green"} for row in rows])
    with running_app(folder, {"RH_VOTE_DATA": str(folder)}) as running:
        yield running


def votes(app: Served) -> list[dict[str, object]]:
    lines = (app.feedback / "pairs.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def answer(page: Page, *keys: str) -> None:
    """Vote on what is shown: on a pair with the first key, on a group with all."""
    expect(page.locator("#vote-is-a")).to_be_enabled()
    group = "Group" in page.locator("#vote-question").inner_text()
    for number, key in enumerate(keys if group else keys[:1]):
        if number:
            expect(page.locator("#vote-question")).to_contain_text(f"Best so far: {keys[0].upper()}.")
        page.keyboard.press(key)
    expect(page.locator("#vote-result")).to_contain_text("Your ranking: B > C > A." if group else "Your answer:")
    expect(page.locator("#vote-viewer .pane.right img")).to_be_visible()


def test_a_voter_undoes_sees_the_agreement_and_evolves(app: Served, browser: BrowserContext, tmp_path: Path) -> None:
    with visit(browser, app.url) as page:
        summary, result = page.locator("#vote-summary"), page.locator("#vote-result")
        open_tab(page, "Vote")
        expect(page.locator("#vote")).to_contain_text("Keys: A, B, T tie, X both bad, S skip or next.")
        expect(page.locator("#vote-evolve")).to_be_disabled()
        expect(page.locator("#vote-undo")).to_be_disabled()
        for number in range(PAIRS + 1):
            expect(page.locator("#vote-question")).to_contain_text(f"{number + 1} of {PAIRS + 1}")
            answer(page, "b", "c")
            if number == 0:
                first = read_folder(app.feedback).examples
                expect(summary).to_contain_text(f"{len(first)} of 8 labels that evolution needs")
                expect(result).to_contain_text("was made by blue")
                expect(page.locator("#vote-reasons")).to_contain_text("Why")
                page.locator("#vote-viewer").get_by_label("Zoom in").click()
                expect(page.locator("#vote-viewer output")).to_have_text("150%")
                photograph(page, "vote-answered")
                page.keyboard.press("u")
                expect(result).to_contain_text("Your vote was taken back")
                expect(summary).to_contain_text("0 of 8 labels")
                assert len(votes(app)) == 2 * len(first) and not votes(app)[-1]["preference"]
                answer(page, "b", "c")
            page.keyboard.press("Enter")
        expect(page.locator("#vote-question")).to_contain_text("You have seen all pairs")
        expect(summary).to_contain_text("11 labels: evolution needs 8")
        for who in ("the judge", "the labels of the data"):
            agreement = re.compile(rf"You agree with {who} on \d of 9 \(\d+%, 95% interval \d+% to")
            expect(summary).to_contain_text(agreement)
        page.get_by_role("button", name="Leaderboard of editors").click()
        expect(page.locator("#vote-ratings")).to_contain_text(re.compile(r"1\. (blue|green|<b>yellow)"))
        photograph(page, "vote-end")
        archive = shutil.make_archive(str(tmp_path / "own"), "zip", app.cwd / "own")
        with page.expect_file_chooser() as chooser:
            page.locator("#vote-upload").click()
        chooser.value.set_files(archive)
        expect(page.locator("#vote-question")).to_contain_text("Pair 1 of 1 · sent here to be labeled")
        page.locator("#vote-evolve").click()
        expect(page.locator("#evolve-data").get_by_label("My feedback from the Score tab")).to_be_checked()
        expect(page.locator("#evolve-introduction")).to_be_visible()
    examples = read_folder(app.feedback).examples
    assert len(examples) == PAIRS + 3 and all(each.candidate_images[0].editor for each in examples)

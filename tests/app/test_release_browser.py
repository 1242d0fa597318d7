"""An app that is fixed to a release: what the page says of it, and that programs get the same score."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from app_parts import Pictures, Served, running_app
from playwright.sync_api import BrowserContext, expect
from screenshots import photograph
from test_app_server import score, upload
from visits import give, open_tab, visit

from rewardharness.cli.main import main
from rewardharness.judging.release import make_release
from rewardharness.judging.release_file import load_release, save_release
from rewardharness.library.opening import open_library

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("released") / "release.json"
    save_release(make_release("measured", open_library("builtin")), file)
    return file


@pytest.fixture(scope="module")
def app(file: Path) -> Iterator[Served]:
    with running_app(file.parent, {"HF_HUB_OFFLINE": "1", "RH_RELEASE": str(file)}) as served:
        yield served


def test_programs_get_the_score_of_the_release(
    app: Served, file: Path, pictures: Pictures, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [upload(app, path) for path in (pictures.source, pictures.bad, pictures.good)]
    kind, [answer] = score(app, *given, None, None, pictures.instruction)
    words = ["score", "--source", str(pictures.source), "--instruction", pictures.instruction, "--json"]
    words += ["--candidate", str(pictures.bad), "--candidate", str(pictures.good), "--release", str(file)]
    assert main(words) == 0
    offline = json.loads(capsys.readouterr().out)
    same = ("preference", "margin", "scores", "library_id", "release")
    assert kind == "complete" and [answer[name] for name in same] == [offline[name] for name in same]


def test_the_page_says_which_release_it_is_and_leaves_nothing_to_choose(
    app: Served, file: Path, browser: BrowserContext, pictures: Pictures
) -> None:
    release, seen = load_release(file), visit(browser, app.url, "narrow", "dark")
    page, line = seen.page, seen.page.locator("#judge")
    page.get_by_role("button", name=f"About this release: {release.id[:12]}").click()
    for words in (f"Release {release.id[:12]}", release.judged_by, "protocol measured", release.library.id[:12]):
        expect(line).to_contain_text(words)
    for part in ("#score-library-kind", "#judge-section", "#judge-kind"):
        assert page.locator(part).count() == 0
    expect(page.locator("#release-about")).to_contain_text(release.id)
    expect(page.locator("#release-about")).to_contain_text("carries no figures")
    photograph(page, "release-about")
    give(page, pictures, pictures.instruction)
    page.locator("#compare").click()
    expect(page.locator("#verdict")).to_contain_text("People would most likely prefer B.")
    page.get_by_role("button", name="Notes").click()
    expect(page.locator("#notes")).to_contain_text(f"Library of release {release.id[:12]}")
    photograph(page, "release-score")
    open_tab(page, "Library")
    expect(page.locator("#library-summary")).to_contain_text(f"Library of release {release.id[:12]}")
    open_tab(page, "Benchmark")
    field = page.locator("#benchmark-release input, #benchmark-release textarea")
    expect(field).to_have_value(str(file))
    expect(page.locator("#benchmark-by input:checked")).to_have_value("release")
    expect(page.locator("#benchmark-judge-section")).to_be_hidden()
    photograph(page, "release-benchmark")
    assert seen.errors == seen.foreign == seen.dialogs == []
    page.close()

"""The help of commands, the description of the reward server and the JSON of records change only on purpose.

The site has a page for each page by hand, and describes every command and public name.
"""

import difflib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from frozen.frozen import FOLDER, SCORE, command, frozen, small_demo, write_site

import rewardharness
from rewardharness.cli.command import COMMANDS

DOCS = FOLDER.parents[1] / "docs"


@pytest.fixture(autouse=True)
def small() -> Iterator[None]:
    with small_demo():
        yield


def test_what_users_and_programs_see_is_as_it_was_frozen_and_the_site_describes_all_of_it(tmp_path: Path) -> None:
    write_site(tmp_path)
    commands, names = ((tmp_path / name).read_text("utf-8") for name in ("cli.md", "api.md"))
    assert all(f"### `rh {name}`" in commands for name in COMMANDS)
    assert all(f"## `rh.{name}`" in names for name in rewardharness._HOMES)
    changes: list[str] = []
    for name, text in frozen(tmp_path).items():
        before = (FOLDER / name).read_text(encoding="utf-8").splitlines()
        changes += difflib.unified_diff(before, text.splitlines(), f"frozen {name}", f"now {name}", lineterm="", n=1)
    assert not changes, "python tests/frozen/frozen.py writes the files again\n" + "\n".join(changes[:80])


def test_the_site_has_every_page() -> None:
    written = sorted(re.findall(r'"([\w/-]+\.md)"', (DOCS / "zensical.toml").read_text("utf-8")))
    moved = {"measured_judge.md"}  # named by a module whose content is part of the judge's revision
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert written == sorted({*pages, "reference/cli.md", "reference/api.md"} - moved)


def test_a_run_folder_of_an_earlier_version_is_resumed_and_replayed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(FOLDER / "run", folder)
    command(*SCORE, "--json", "--run", str(tmp_path / "fresh"))
    earlier, now = (json.loads((place / "run.json").read_text("utf-8")) for place in (folder, tmp_path / "fresh"))
    for file in folder.iterdir():  # the format is frozen; the built-in Library and the drawn images are not
        text = file.read_text("utf-8")
        for key in ("library_id", "data"):
            text = text.replace(earlier[key], now[key])
        file.write_text(text, "utf-8")
    before = (folder / "results.jsonl").read_text(encoding="utf-8")
    assert json.loads(command("runs", "replay", str(folder), "--json"))["same"]  # its report has no file yet
    report = json.loads(command(*SCORE, "--json", "--run", str(folder)))
    assert (report["n"], report["judged"]) == (3, 3) and (folder / "results.jsonl").read_text("utf-8") == before
    replay = json.loads(command("runs", "replay", str(folder), "--json"))
    assert replay["same"] and replay["n"] == 3

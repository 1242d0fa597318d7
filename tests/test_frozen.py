"""The help of commands, the description of the reward server and the JSON of records change only on purpose."""

import difflib
import json
import shutil
from pathlib import Path

import pytest
from frozen.frozen import FOLDER, SCORE, command, frozen

from rewardharness.library.opening import open_library


def test_what_users_and_programs_see_is_as_it_was_frozen() -> None:
    changes: list[str] = []
    for name, text in frozen().items():
        before = (FOLDER / name).read_text(encoding="utf-8").splitlines()
        changes += difflib.unified_diff(before, text.splitlines(), f"frozen {name}", f"now {name}", lineterm="", n=1)
    assert not changes, "python tests/frozen/frozen.py writes the files again\n" + "\n".join(changes[:80])


def test_a_run_folder_of_an_earlier_version_is_resumed_and_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(FOLDER / "run", folder)
    earlier, now = json.loads((folder / "run.json").read_text("utf-8"))["library_id"], open_library("builtin").id
    for file in folder.iterdir():  # the format is frozen, the built-in Library is not
        file.write_text(file.read_text("utf-8").replace(earlier, now), "utf-8")
    before = (folder / "results.jsonl").read_text(encoding="utf-8")
    report = json.loads(command(*SCORE, "--json", "--run", str(folder)))
    assert (report["n"], report["judged"]) == (3, 3) and (folder / "results.jsonl").read_text("utf-8") == before
    replay = json.loads(command("runs", "replay", str(folder), "--json"))
    assert replay["same"] and replay["n"] == 3

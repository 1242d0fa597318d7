"""The help of commands, the description of the reward server and the JSON of records change only on purpose."""

import difflib
import json
import shutil
from pathlib import Path

import pytest
from frozen.frozen import FOLDER, SCORE, command, frozen


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
    command(*SCORE, "--json", "--run", str(tmp_path / "fresh"))
    earlier, now = (json.loads((place / "run.json").read_text("utf-8")) for place in (folder, tmp_path / "fresh"))
    for file in folder.iterdir():  # the format is frozen; the built-in Library and the drawn images are not
        text = file.read_text("utf-8")
        for key in ("library_id", "data"):
            text = text.replace(earlier[key], now[key])
        file.write_text(text, "utf-8")
    before = (folder / "results.jsonl").read_text(encoding="utf-8")
    report = json.loads(command(*SCORE, "--json", "--run", str(folder)))
    assert (report["n"], report["judged"]) == (3, 3) and (folder / "results.jsonl").read_text("utf-8") == before
    replay = json.loads(command("runs", "replay", str(folder), "--json"))
    assert replay["same"] and replay["n"] == 3

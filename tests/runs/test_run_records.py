"""The record of a run: contents, masked secrets, sessions, and repositories that configure code to be run."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardharness.errors import RunError
from rewardharness.runs import records
from rewardharness.runs.job import RunPaused, Stopped
from rewardharness.runs.records import (
    MASK,
    condition_of,
    git_state,
    installed_packages,
    read_record,
    record_run,
    sources_id,
)
from rewardharness.runs.store import RunFolder
from rewardharness.settings import Settings

git = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")


def arguments(**more: Any) -> dict[str, Any]:
    return dict(words=["do-it", "data"], run=print, judge_from_settings=True, seed=3, to=Path("x"), **more)


def made(settings: Settings | None = None, **more: Any) -> Any:
    return record_run(arguments(**more), settings or Settings.from_env({}))


def test_a_run_is_recorded_from_beginning_to_end(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run", {"command": "do-it", "data": "d"}, record=made(library="builtin")):
        begun = read_record(tmp_path / "run")
        assert begun["sessions"][0]["ended"] is None and begun["sessions"][0]["condition"] is None
    record = read_record(tmp_path / "run")
    assert (record["command"], record["whole"], record["about"]) == ("do-it", True, {"command": "do-it", "data": "d"})
    [session] = record["sessions"]
    assert session["words"] == ["do-it", "data"] and session["folder"] == str(Path.cwd())
    assert session["arguments"] == {"seed": 3, "to": "x", "library": "builtin"}
    assert session["condition"] == "done" and session["ended"] >= session["started"]
    assert session["package"]["sources"] == sources_id() and session["packages"]["numpy"]
    assert session["python"] == ".".join(map(str, sys.version_info[:3]))


def test_a_resumed_run_adds_a_session(tmp_path: Path) -> None:
    for error in (Stopped(), RunPaused("m", next_step="n", kind="disk"), KeyboardInterrupt(), ValueError("x"), None):
        try:
            with RunFolder(tmp_path, {"data": "d"}, record=made()) as run:
                run.append({"id": "1"})
                if error is not None:
                    raise error
        except BaseException as raised:
            assert raised is error
    sessions = read_record(tmp_path)["sessions"]
    assert [each["condition"] for each in sessions] == ["stopped", "paused", "interrupted", "failed", "done"]
    reasons = [each["reason"] for each in sessions]
    assert "ValueError: x" in reasons.pop(3) and reasons == ["", "m", "", ""]
    assert run.results() == {"1": {"id": "1"}}


def test_a_restart_begins_a_record_of_its_own(tmp_path: Path) -> None:
    RunFolder(tmp_path, {"data": "d"}, record=made()).close()
    with RunFolder(tmp_path, {"data": "e"}, restart=True, record=made()):
        pass
    assert read_record(tmp_path)["about"] == {"data": "e"} and len(read_record(tmp_path)["sessions"]) == 1
    assert json.loads((tmp_path / "record.json.old").read_text("utf-8"))["about"] == {"data": "d"}


def test_a_run_from_before_records_goes_on_and_says_that_its_beginning_is_not_known(tmp_path: Path) -> None:
    RunFolder(tmp_path, {"data": "d"}).close()
    with pytest.raises(RunError, match="has no record"):
        read_record(tmp_path)
    RunFolder(tmp_path, {"data": "d"}, record=made()).close()
    assert read_record(tmp_path)["whole"] is False


@pytest.mark.parametrize("text", ["{}", "[]", '{"schema": 2}', '{"schema": 1, "about": {}, "sessions": [{}]}'])
def test_a_record_that_is_none_is_not_written_over(tmp_path: Path, text: str) -> None:
    RunFolder(tmp_path, {"data": "d"}, record=made()).close()
    (tmp_path / "record.json").write_text(text, "utf-8")
    with pytest.raises(RunError, match="is not a run record"):
        RunFolder(tmp_path, {"data": "d"}, record=made())
    assert (tmp_path / "record.json").read_text("utf-8") == text
    (tmp_path / "record.json").unlink()
    RunFolder(tmp_path, {"data": "d"}, record=made()).close()


def test_a_foreign_folder_gets_no_record(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x", "utf-8")
    with pytest.raises(RunError, match="thesis"):
        RunFolder(tmp_path, {"data": "d"}, record=made())
    assert not (tmp_path / "record.json").exists()


def test_a_second_process_leaves_the_record_alone(tmp_path: Path) -> None:
    with RunFolder(tmp_path, {"data": "d"}, record=made()):
        before = (tmp_path / "record.json").read_bytes()
        with pytest.raises(RunError, match="Another process"):
            RunFolder(tmp_path, {"data": "d"}, record=made())
        assert (tmp_path / "record.json").read_bytes() == before


RUNNER = """
import argparse, sys
from pathlib import Path
from rewardharness.runs.records import record_run
from rewardharness.runs.store import RunFolder
from rewardharness.settings import Settings
record = record_run(dict(words=["do-it"]), Settings.from_env({}))
with RunFolder(Path(sys.argv[1]), {"data": "d"}, record=record):
    print("running", flush=True)
    sys.stdin.read()
"""


def test_kill_9_is_seen_by_whoever_comes_next(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RUNNER, str(tmp_path)]
    for _ in range(2):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None and process.stdout.readline() == "running\n"
            os.kill(process.pid, signal.SIGKILL)
    assert [each["condition"] for each in read_record(tmp_path)["sessions"]] == ["killed", None]
    with RunFolder(tmp_path, {"data": "d"}, record=made()):
        pass
    assert [each["condition"] for each in read_record(tmp_path)["sessions"]] == ["killed", "killed", "done"]


KEY = "s3cr3t-0f-mine"
JUDGES = [
    f"vllm:org/model@http://me:{KEY}@host:8000/v1",
    f"vllm:org/model@http://{KEY}@host/v1,https://other/v1?key={KEY}",
    f"openai:m@https://host/v1?a=1&token={KEY}#x={KEY}",
    f"openai:m@https://me:pass/{KEY}@host/v1",
]


@pytest.mark.parametrize("judge", JUDGES)
def test_addresses_keep_their_host_and_lose_their_secrets(tmp_path: Path, judge: str) -> None:
    given = arguments(judge=judge, price=[0.1, 0.2])
    given["words"] = ["do-it", f"--judge={judge}"]
    with RunFolder(tmp_path, {"data": "d"}, record=record_run(given, Settings.from_env({}))):
        pass
    text = (tmp_path / "record.json").read_text("utf-8")
    assert KEY not in text and "host" in text and MASK in text
    assert read_record(tmp_path)["sessions"][0]["arguments"]["price"] == [0.1, 0.2]


def test_addresses_without_secrets_stay_as_they_are() -> None:
    judge = "vllm:org/model@http://host:8000/v1,http://other:8000/v1"
    assert made(judge=judge).session["arguments"]["judge"] == judge


def test_keys_of_the_settings_are_kept_nowhere(tmp_path: Path) -> None:
    names = ("RH_API_KEY", "GEMINI_API_KEY", "RH_ORCHESTRATOR_API_KEY", "RH_SERVER_TOKEN")
    settings = Settings.from_env({name: f"{KEY}-{number}" for number, name in enumerate(names)})
    given = arguments(note=f"use {KEY}-0", other={"deep": [f"{KEY}-1", f"{KEY}-2 {KEY}-3"]})
    with pytest.raises(ValueError, match=KEY), RunFolder(tmp_path, {"data": "d"}, record=record_run(given, settings)):
        raise ValueError(f"refused {KEY}-0")
    text = (tmp_path / "record.json").read_text("utf-8")
    assert KEY not in text and "refused" in text


@pytest.mark.slow
@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_any_argument_is_json(value: Any) -> None:
    arguments = json.loads(json.dumps(made(value=value, path=Path("a"), odd=object()).session["arguments"]))
    assert set(arguments) >= {"value", "path", "odd"} and arguments["path"] == "a"


def test_an_error_is_not_hidden_by_a_record_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mine"), RunFolder(tmp_path / "run", {"data": "d"}, record=made()):
        shutil.rmtree(tmp_path / "run")
        (tmp_path / "run").write_text("no folder any more", "utf-8")
        raise ValueError("mine")


def test_a_condition_has_a_name() -> None:
    assert condition_of(None) == "done" and condition_of(SystemExit(1)) == "failed"


def repository(folder: Path) -> Path:
    folder.mkdir()
    (folder / "file.txt").write_text("one\n", "utf-8")
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
    return folder


@git
def test_a_commit_and_whether_it_was_changed(tmp_path: Path) -> None:
    folder = repository(tmp_path / "work")
    clean = git_state(folder)
    assert clean is not None and len(clean["commit"]) == 40 and clean["dirty"] is False
    (folder / "new.txt").write_text("not known to git", "utf-8")
    assert git_state(folder) == clean
    (folder / "file.txt").write_text("two\n", "utf-8")
    assert git_state(folder) == {**clean, "dirty": True}


@git
def test_no_repository_and_no_commit(tmp_path: Path) -> None:
    assert git_state(tmp_path) is None
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True, capture_output=True)
    assert git_state(tmp_path) == {"commit": None, "dirty": False}


def test_no_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state(tmp_path) is None


@git
def test_nothing_that_a_repository_names_is_run(tmp_path: Path) -> None:
    folder = repository(tmp_path / "work")
    trap = tmp_path / "trap"
    ran = tmp_path / "ran"
    trap.write_text(f"#!/bin/sh\necho $0 $@ >> {ran}\ncat\n", "utf-8")
    trap.chmod(0o755)
    (folder / ".gitattributes").write_text("*.txt filter=evil\n", "utf-8")
    hooks = folder / ".git" / "hooks"
    for name in ("post-index-change", "pre-commit", "fsmonitor-watchman"):
        shutil.copy(trap, hooks / name)
    for key, value in (
        ("core.fsmonitor", str(trap)),
        ("filter.evil.clean", str(trap)),
        ("filter.evil.smudge", str(trap)),
        ("filter.evil.process", str(trap)),
        ("filter.evil.required", "true"),
        ("diff.external", str(trap)),
        ("core.pager", str(trap)),
        ("pager.status", str(trap)),
    ):
        subprocess.run(["git", "config", key, value], cwd=folder, check=True, capture_output=True)
    (folder / "file.txt").write_text("two\n", "utf-8")
    found = git_state(folder)
    assert not ran.exists(), ran.read_text("utf-8")
    assert found is not None and found["dirty"] is True
    subprocess.run(["git", "status"], cwd=folder, capture_output=True)
    assert ran.exists(), "the trap would have worked"


def test_packages_are_those_that_this_one_needs() -> None:
    found = installed_packages()
    assert {"numpy", "pillow"} <= found.keys() and "pytest" not in found and "ruff" not in found


def test_where_this_package_is_not_installed_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "DISTRIBUTION", "no-such-distribution-anywhere")
    assert installed_packages.__wrapped__() == {}

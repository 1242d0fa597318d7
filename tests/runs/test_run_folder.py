import json
import os
import threading
from pathlib import Path
from typing import get_args

import pytest

from rewardharness.errors import RunError
from rewardharness.files import hold, write_text
from rewardharness.models.base import ErrorCode
from rewardharness.runs.job import RunPaused, Stopped
from rewardharness.runs.reader import RunReader
from rewardharness.runs.records import RECORD, Recording, record_run
from rewardharness.runs.results import is_due, read_results
from rewardharness.runs.store import RunFolder, find_runs, is_running, read_manifest, read_result
from rewardharness.settings import Settings


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run", {"data": "d"}) as run:
        assert not run.resumed
        run.append({"id": "1", "preference": "A"})
    with RunFolder(tmp_path / "run", {"data": "d"}) as run:
        assert run.resumed
        assert run.results() == {"1": {"id": "1", "preference": "A"}}


def test_a_torn_line_is_passed_over_and_swallows_nothing(tmp_path: Path) -> None:
    with RunFolder(tmp_path, {}) as run:
        run.append({"id": "1"})
        with run.results_file.open("ab") as stream:
            stream.write(b'{"id": "2", "pref')
        run.append({"id": "3"})
        assert list(run.results()) == ["1", "3"]


def test_another_manifest_is_refused_by_name(tmp_path: Path) -> None:
    RunFolder(tmp_path, {"data": "d", "library_id": "x"}).close()
    with pytest.raises(RunError, match="library_id"):
        RunFolder(tmp_path, {"data": "d", "library_id": "y"})
    with RunFolder(tmp_path, {"data": "d", "library_id": "y"}, restart=True) as run:
        assert run.results() == {}


@pytest.mark.parametrize("name", ["results.jsonl", "run.lock", "library"])
def test_a_folder_with_links_is_not_written_to(tmp_path: Path, name: str) -> None:
    RunFolder(tmp_path / "run", {}).close()
    (tmp_path / "victim").write_text("precious", "utf-8")
    (tmp_path / "run" / name).unlink(missing_ok=True)
    (tmp_path / "run" / name).symlink_to(tmp_path / "victim")
    with pytest.raises(RunError, match=f"{name} is a link"):
        RunFolder(tmp_path / "run", {})
    assert (tmp_path / "victim").read_text("utf-8") == "precious"


def test_a_second_writer_is_told(tmp_path: Path) -> None:
    with RunFolder(tmp_path, {}), pytest.raises(RunError, match="Another process"):
        RunFolder(tmp_path, {})
    RunFolder(tmp_path, {}).close()


def test_a_folder_of_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x", encoding="utf-8")
    with pytest.raises(RunError, match="thesis"):
        RunFolder(tmp_path, {})
    assert not (tmp_path / "run.json").exists()


def test_what_a_killed_process_left_half_written_is_cleared(tmp_path: Path) -> None:
    (tmp_path / ".run.json.abcd_123.tmp").write_text("{", encoding="utf-8")
    with RunFolder(tmp_path, {"data": "d"}) as run:
        assert not run.resumed
    (tmp_path / "versions" / ".0001.abcd_123.tmp").mkdir(parents=True)
    (tmp_path / "versions" / ".0001.abcd_123.tmp" / "SKILL.md").touch()
    with RunFolder(tmp_path, {"data": "d"}) as run:
        assert run.resumed
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["run.json", "run.lock", "versions"]


def test_restart_puts_all_that_a_run_wrote_aside(tmp_path: Path) -> None:
    with RunFolder(tmp_path, {}) as run:
        run.append({"id": "1"})
        (tmp_path / "versions" / "0001").mkdir(parents=True)
    for _ in range(2):
        RunFolder(tmp_path, {}, restart=True).close()
        assert not (tmp_path / "versions").exists()
        (tmp_path / "versions").mkdir()
    assert (tmp_path / "versions.old").is_dir()


def test_runs_are_found_and_seen_to_run(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "one", {"n": 1}):
        assert is_running(tmp_path / "one")
        assert read_manifest(tmp_path / "one") == {"n": 1}
    assert not is_running(tmp_path / "one") and not is_running(tmp_path / "two")
    (tmp_path / "no-run").mkdir()
    assert find_runs(tmp_path) == [tmp_path / "one"]
    with pytest.raises(RunError, match="holds no run"):
        read_manifest(tmp_path / "no-run")


def test_runs_at_all_levels_are_found_and_what_lies_in_one_is_its_own(tmp_path: Path) -> None:
    for name in ("runs/one", "runs/one/development", "runs/reproduce/evolution", "elsewhere"):
        RunFolder(tmp_path / name, {}).close()
    (tmp_path / "runs/linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "runs/round").symlink_to(tmp_path)
    (tmp_path / "runs/one/gone.json").symlink_to(tmp_path / "gone.json")
    found = find_runs(tmp_path / "runs", below=True)
    assert {str(each.relative_to(tmp_path / "runs")) for each in found} == {"one", "reproduce/evolution", "linked"}
    assert find_runs(tmp_path / "runs" / "one", below=True) == [tmp_path / "runs" / "one"]
    assert {each.name for each in find_runs(tmp_path / "runs")} == {"one", "linked"}
    group = tmp_path / "runs" / "group"
    group.mkdir()
    (group / "deeper").symlink_to(tmp_path / "runs" / "one")
    assert {each.name for each in find_runs(tmp_path / "runs")} == {"one", "linked"}, "one level"
    assert find_runs(tmp_path / "nowhere", below=True) == find_runs(tmp_path / "nowhere") == []


def test_looking_at_a_run_does_not_keep_it_from_starting(tmp_path: Path) -> None:
    RunFolder(tmp_path, {}).close()
    handle = hold(tmp_path / "run.lock")
    looker = threading.Timer(0.01, os.close, [handle])
    looker.start()
    with RunFolder(tmp_path, {}):
        assert is_running(tmp_path)
    looker.join()


def test_a_single_result_is_read_and_the_last_of_an_id_counts(tmp_path: Path) -> None:
    with RunFolder(tmp_path, {}) as run:
        for number, name in enumerate("aba"):
            run.append({"id": name, "number": number})
    assert read_result(tmp_path, "a") == {"id": "a", "number": 2}
    assert read_result(tmp_path, "c") is None


MANIFEST = {"command": "score", "data": "0" * 64, "judge": "measured (no VLM)"}


def recording() -> Recording:
    return record_run(dict(words=["score", "data"], data="data"), Settings.from_env())


def test_a_run_that_goes_on_and_is_over(tmp_path: Path) -> None:
    with RunFolder(tmp_path, MANIFEST, record=recording()):
        seen = RunReader(tmp_path).look()
        assert (seen.condition, seen.ended, seen.sessions) == ("running", None, 1)
    seen = RunReader(tmp_path).look()
    assert (seen.kind, seen.condition, seen.reason) == ("score", "finished", "")
    assert (seen.data, seen.judge) == ("data", "measured (no VLM)"), "by its name, not its digest"
    assert seen.command == ("score", "data") and seen.where == str(Path.cwd())
    assert seen.begun is not None and seen.ended is not None and seen.begun <= seen.ended


@pytest.mark.parametrize(
    ("error", "condition", "reason"),
    [
        (Stopped(), "stopped", ""),
        (KeyboardInterrupt(), "interrupted", ""),
        (RunPaused("Nobody answers.", next_step="", kind="endpoint"), "paused", "Nobody answers."),
        (OSError(28, "the disk is full"), "failed", "the disk is full"),
    ],
)
def test_a_run_that_ended_early_says_how(tmp_path: Path, error: BaseException, condition: str, reason: str) -> None:
    with pytest.raises(type(error)), RunFolder(tmp_path, MANIFEST, record=recording()):
        raise error
    seen = RunReader(tmp_path).look()
    assert seen.condition == condition and reason in seen.reason and bool(seen.reason) == bool(reason)


def test_a_killed_run_and_one_that_never_came_to_its_record(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "killed", MANIFEST, record=recording())
    folder.close()  # as the end of the process does: nothing is written
    assert RunReader(tmp_path / "killed").look().condition == "interrupted"
    RunFolder(tmp_path / "bare", {"command": "benchmark", "task": "genai-bench", "judge_name": "m"}).close()
    seen = RunReader(tmp_path / "bare").look()
    assert (seen.kind, seen.condition, seen.command, seen.begun) == ("benchmark", "unknown", (), None)
    assert (seen.data, seen.judge) == ("genai-bench", "m")


def test_what_is_no_run_or_has_a_damaged_record_is_said(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="holds no run"):
        RunReader(tmp_path).look()
    RunFolder(tmp_path, MANIFEST).close()
    write_text(tmp_path / RECORD, "{}")
    with pytest.raises(RunError, match="is not a run record"):
        RunReader(tmp_path).look()


LINES = (
    b'{"id": "1", "preference": "A", "steps": "long"}\n'
    b'{"id": "2", "pref\n'
    b"\n"
    b"[1]\n"
    b'{"preference": "B"}\n'
    b'{"id": 3, "reward": NaN}\n'
    b'{"id": "4", "text": "\xff"}\n'
    b'{"id": "5", "text": "\\ud800"}\n'
    b'{"id": "1", "preference": "B", "steps": "long"}\n'
    b'{"id": "6", "a": nonsense}\n'
)


def test_lines_are_read_as_json_and_damaged_ones_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").write_bytes(LINES)
    found = read_results(tmp_path / "results.jsonl")
    assert list(found) == ["1", "3", "5"] and len(found) == 3
    assert found["1"] == {"id": "1", "preference": "B", "steps": "long"}
    assert json.dumps(found["3"]) == '{"id": 3, "reward": NaN}'
    assert found["5"] == {"id": "5", "text": "\ud800"}
    assert "2" not in found and found.get("4") is None
    assert read_results(tmp_path / "none.jsonl") == {}


def test_results_are_read_in_part_and_take_new_ones(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").write_bytes(LINES)
    found = read_results(tmp_path / "results.jsonl")
    names = frozenset({"id", "preference", "failure"})
    assert found.fields("1", names) == {"id": "1", "preference": "B"}
    found["7"] = {"id": "7", "preference": "A"}
    assert found.fields("7", names) == found["7"] == {"id": "7", "preference": "A"}
    del found["7"]
    with pytest.raises(KeyError):
        found.fields("7", names)


def test_errors_of_models_are_asked_again_unless_the_input_is_their_cause() -> None:
    of_the_input = {"context_too_long", "refused", "bad_request"}
    assert {code for code in get_args(ErrorCode) if not is_due(code, retry_failed=False)} == of_the_input
    assert all(is_due(code, retry_failed=True) for code in of_the_input)

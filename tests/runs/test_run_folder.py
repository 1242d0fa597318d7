import os
import threading
from pathlib import Path

import pytest

from rewardharness.errors import RunError
from rewardharness.files import hold
from rewardharness.runs.store import RunFolder, find_runs, is_running, read_manifest, read_result


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

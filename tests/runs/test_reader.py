"""How runs of any kind stand, by their manifests and records."""

from pathlib import Path

import pytest

from rewardharness.errors import RunError
from rewardharness.files import write_text
from rewardharness.runs.reader import RunReader
from rewardharness.runs.records import RECORD, Recording, record_run
from rewardharness.runs.stop import RunPaused, Stopped
from rewardharness.runs.store import RunFolder
from rewardharness.settings import Settings

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

"""Run folders of jobs on the Hub that this version does not know."""

from pathlib import Path

import pytest
from commands import Rh

from rewardharness.files import write_json
from rewardharness.remote.job import REMOTE


@pytest.mark.parametrize("asked", [{}, {"job": "unknown"}])
def test_following_a_job_of_an_unknown_type_is_no_internal_error(asked: dict[str, str], tmp_path: Path, rh: Rh) -> None:
    about = {"path": "p", "repo": "a/b", "namespace": "a", "inputs": "i", "flavor": "cpu", "job": "1"}
    write_json(tmp_path / "run.json", {"command": "score"})
    write_json(tmp_path / REMOTE, {**about, "asked": asked})
    shown = rh("runs", "follow", tmp_path, status=1).err
    assert "Next:" in shown

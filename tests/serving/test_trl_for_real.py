"""Real trainers of TRL, on the CPU: a policy of some thousand weights that is trained by rewards from a real server.

Run by `make test-trl`, which installs TRL and torch into an environment of their own.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from serving_parts import ReadyJudge, Running, picture, reward_of

from rewardharness.schema import Failure

PYTHON = os.environ.get("RH_TEST_TRL_PYTHON", "")
PROGRAM = Path(__file__).with_name("train_with_trl.py")
BAD = picture(66)

pytestmark = [pytest.mark.trl, pytest.mark.skipif(not PYTHON, reason="`make test-trl` runs it with TRL installed")]


def train(tmp_path: Path, url: str, *words: str, status: int = 0) -> dict:
    """Train in the environment that has TRL; the program writes what it saw as JSON."""
    seen = tmp_path / "seen.json"
    done = subprocess.run(
        [PYTHON, str(PROGRAM), url, str(tmp_path), str(seen), *words],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == status, done.stderr[-3000:]
    return {"error": done.stderr, **(json.loads(seen.read_text("utf-8")) if seen.exists() else {})}


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_policy_is_trained_by_the_rewards_of_the_server(tmp_path, kind):
    lost = Failure("timeout", "It took too long.")
    judge = ReadyJudge(lambda example: lost if example.candidates[0].data == BAD else None)
    with Running(judge) as server:
        seen = train(tmp_path, server.url, kind)
    assert seen["steps"] == 3
    for shade, reward in seen["rewards"]:
        expected = None if shade == 66 else pytest.approx(reward_of(picture(shade)), abs=1e-6)
        assert reward == expected
    assert any(shade == 66 for shade, _ in seen["rewards"]), "one of the edits cannot be judged"
    logged = [entry["rewards/edit_reward/mean"] for entry in seen["log"] if "rewards/edit_reward/mean" in entry]
    assert len(logged) == 3 and all(value is None or 0 < value <= 1 for value in logged), "nothing judged is no number"
    assert any(entry.get("rewardharness/not_judged", 0) > 0 for entry in seen["log"])


def test_a_training_stops_when_somebody_asks(tmp_path):
    with Running(ReadyJudge()) as server:
        seen = train(tmp_path, server.url, "stop")
    assert seen["steps"] == 1 and (tmp_path / "out" / "checkpoint-1").is_dir()


def test_a_server_that_dies_ends_the_training_with_an_error(tmp_path):
    with Running(ReadyJudge()) as server:
        seen = train(tmp_path, server.url, "dies", status=1)
    assert "The reward server cannot be reached" in seen["error"] and "rewards" not in seen


def test_preference_data_is_what_the_reward_trainer_reads(tmp_path):
    from rewardharness.cli.main import main

    sys.path.insert(0, str(Path(__file__).parents[1] / "bulk"))
    from bulk_parts import folders

    words = ["--margin", "0.001", "--holdout", "0.25", "--judge", "measured", "--quiet"]
    assert main(["data", "pairs", str(folders(tmp_path / "s", edits=4)), "-o", str(tmp_path / "d"), *words]) == 0
    seen = train(tmp_path, str(tmp_path / "d" / "data"), "reward-model")
    assert seen["steps"] == 2 and seen["log"][0]["loss"] > 0

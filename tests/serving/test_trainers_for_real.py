"""Real trainers load our reward functions and ask a real server, each in an environment of its own.

`make test-trl`, `make test-verl` and `make test-openrlhf` run them. TRL trains a policy of some thousand weights.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from serving_parts import ReadyJudge, Running, picture, reward_of

from rewardharness.schema import Failure

FOLDER = Path(__file__).parent
EXAMPLE = Path(__file__).parents[2] / "examples" / "trainers" / "openrlhf_reward.py"
LOST = Failure("timeout", "It took too long.")
BAD = picture(66)
TRAINERS = ("openrlhf", "trl", "verl")
PYTHON = {trainer: os.environ.get(f"RH_TEST_{trainer.upper()}_PYTHON", "") for trainer in TRAINERS}


def needs(trainer: str) -> pytest.MarkDecorator:
    """Mark a test that runs with a trainer installed."""
    skip = pytest.mark.skipif(not PYTHON[trainer], reason=f"`make test-{trainer}` runs it with {trainer} installed")
    return lambda test: getattr(pytest.mark, trainer)(skip(test))  # type: ignore[return-value]


def run(trainer: str, program: str, *words: object) -> subprocess.CompletedProcess[str]:
    command = [PYTHON[trainer], str(FOLDER / program), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def said(done: subprocess.CompletedProcess[str]) -> dict:
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def judge(failing: bytes = BAD) -> ReadyJudge:
    return ReadyJudge(lambda example: LOST if getattr(example.candidates[0], "data", b"") == failing else None)


@needs("openrlhf")
@pytest.mark.parametrize("judged", [True, False])
def test_openrlhf_gets_a_reward_or_none(tmp_path: Path, judged: bool) -> None:
    file = tmp_path / "reward.py"
    with Running(ReadyJudge(lambda example: None if judged else LOST)) as server:
        file.write_text(EXAMPLE.read_text("utf-8").replace("http://127.0.0.1:8100", server.url), encoding="utf-8")
        done = run("openrlhf", "reward_with_openrlhf.py", file, "Write a slogan. ", "Cold for a day.</s>", "Write one.")
    expected = pytest.approx(reward_of(b"Cold for a day.")) if judged else None
    assert said(done) == {"reward": expected, "scores": expected, "extra_logs": {}}


@needs("verl")
@pytest.mark.parametrize("manager", ["naive", "omni"])
def test_verl_gets_rewards_from_the_server(manager):
    ready = judge()
    with Running(ready) as server:
        reply = said(run("verl", "reward_with_verl.py", server.url, manager, 9))
    [asked] = ready.asked
    assert (asked.instruction, asked.source.data) == ("make it red", picture(1))
    assert reply["score"] == pytest.approx(reward_of(asked.candidates[0].data))
    assert set(reply["extra"]) == {"score", "instruction_following", "visual_quality"}


@needs("verl")
def test_an_edit_that_was_not_judged_is_an_error_in_verl():
    with Running(judge()) as server:
        done = run("verl", "reward_with_verl.py", server.url, "naive", 66)
    assert done.returncode != 0 and "RewardServerError" in done.stderr and "The edit was not judged" in done.stderr


def train(tmp_path: Path, url: str, *words: str, status: int = 0) -> dict:
    """Train with TRL; the program writes what it saw as JSON."""
    seen = tmp_path / "seen.json"
    done = run("trl", "train_with_trl.py", url, tmp_path, seen, *words)
    assert done.returncode == status, done.stderr[-3000:]
    return {"error": done.stderr, **(json.loads(seen.read_text("utf-8")) if seen.exists() else {})}


@needs("trl")
@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_policy_is_trained_by_the_rewards_of_the_server(tmp_path, kind):
    with Running(judge()) as server:
        seen = train(tmp_path, server.url, kind)
    assert seen["steps"] == 3
    for shade, reward in seen["rewards"]:
        assert reward == (None if shade == 66 else pytest.approx(reward_of(picture(shade)), abs=1e-6))
    assert any(shade == 66 for shade, _ in seen["rewards"]), "one of the edits cannot be judged"
    logged = [entry["rewards/edit_reward/mean"] for entry in seen["log"] if "rewards/edit_reward/mean" in entry]
    assert len(logged) == 3 and all(value is None or 0 < value <= 1 for value in logged), "nothing judged is no number"
    assert any(entry.get("rewardharness/not_judged", 0) > 0 for entry in seen["log"])


@needs("trl")
def test_a_training_stops_when_somebody_asks(tmp_path):
    with Running(ReadyJudge()) as server:
        seen = train(tmp_path, server.url, "stop")
    assert seen["steps"] == 1 and (tmp_path / "out" / "checkpoint-1").is_dir()


@needs("trl")
def test_a_server_that_dies_ends_the_training_with_an_error(tmp_path):
    with Running(ReadyJudge()) as server:
        seen = train(tmp_path, server.url, "dies", status=1)
    assert "The reward server cannot be reached" in seen["error"] and "rewards" not in seen


@needs("trl")
def test_preference_data_is_what_the_reward_trainer_reads(tmp_path):
    from rewardharness.cli.main import main

    sys.path.insert(0, str(Path(__file__).parents[1] / "bulk"))
    from bulk_parts import folders

    words = ["--margin", "0.001", "--holdout", "0.25", "--judge", "measured", "--quiet"]
    assert main(["data", "pairs", str(folders(tmp_path / "s", edits=4)), "-o", str(tmp_path / "d"), *words]) == 0
    seen = train(tmp_path, str(tmp_path / "d" / "data"), "reward-model")
    assert seen["steps"] == 2 and seen["log"][0]["loss"] > 0

"""The real verl loads our reward function and asks a real server; `make test-verl` runs it, in its own environment."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from serving_parts import ReadyJudge, Running, picture, reward_of

from rewardharness.schema import Failure

PYTHON = os.environ.get("RH_TEST_VERL_PYTHON", "")
PROGRAM = Path(__file__).with_name("reward_with_verl.py")
BAD = picture(66)

pytestmark = [pytest.mark.verl, pytest.mark.skipif(not PYTHON, reason="`make test-verl` runs it with verl installed")]


def score(url: str, manager: str, shade: int) -> subprocess.CompletedProcess[str]:
    words = [PYTHON, str(PROGRAM), url, manager, str(shade)]
    return subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("manager", ["naive", "omni"])
def test_verl_gets_rewards_from_the_server(manager):
    judge = ReadyJudge()
    with Running(judge) as server:
        done = score(server.url, manager, 9)
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    [asked] = judge.asked
    assert (asked.instruction, asked.source.data) == ("make it red", picture(1))
    assert said["score"] == pytest.approx(reward_of(asked.candidates[0].data))
    assert set(said["extra"]) == {"score", "instruction_following", "visual_quality"}


def test_an_edit_that_was_not_judged_is_an_error_in_verl():
    lost = Failure("timeout", "It took too long.")
    with Running(ReadyJudge(lambda example: lost if example.candidates[0].data == BAD else None)) as server:
        done = score(server.url, "naive", 66)
    assert done.returncode != 0 and "RewardServerError" in done.stderr and "An edit was not judged" in done.stderr

"""The real OpenRLHF loads the example and asks a real server; `make test-openrlhf` runs it, in its own environment."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from serving_parts import ReadyJudge, Running, reward_of

from rewardharness.schema import Failure

PYTHON = os.environ.get("RH_TEST_OPENRLHF_PYTHON", "")
PROGRAM = Path(__file__).with_name("reward_with_openrlhf.py")
EXAMPLE = Path(__file__).parents[2] / "examples" / "trainers" / "openrlhf_reward.py"

pytestmark = [
    pytest.mark.openrlhf,
    pytest.mark.skipif(not PYTHON, reason="`make test-openrlhf` runs it with OpenRLHF installed"),
]


@pytest.mark.parametrize("judged", [True, False])
def test_openrlhf_gets_a_reward_or_none(tmp_path: Path, judged: bool) -> None:
    lost = Failure("timeout", "It took too long.")
    file = tmp_path / "reward.py"
    with Running(ReadyJudge(lambda example: None if judged else lost)) as server:
        file.write_text(EXAMPLE.read_text("utf-8").replace("http://127.0.0.1:8100", server.url), encoding="utf-8")
        words = [PYTHON, str(PROGRAM), str(file), "Write a slogan. ", "Cold for a day.</s>", "Write one."]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    expected = pytest.approx(reward_of(b"Cold for a day.")) if judged else None
    said = json.loads(done.stdout.splitlines()[-1])
    assert said == {"reward": expected, "scores": expected, "extra_logs": {}}

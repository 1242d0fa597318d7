"""flow_grpo and Edit-R1: reward functions in the process of the trainer, for their table of rewards.

`multi_score` of flow_grpo/rewards.py, in flow_grpo:  score_functions["rewardharness"] = flow_grpo_reward
The same function in Edit-R1:                         score_functions["mllm_rewardharness"] = edit_r1

Edit-R1 passes the sources only to a function whose name begins with `mllm_` (read at its commit 244883c).
"""

from collections.abc import Callable
from typing import Any

from rewardharness.serving.flow_grpo import edit_r1_reward, edit_reward

URL = "http://127.0.0.1:8100"


def flow_grpo_reward(device: Any = None, url: str = URL, release: str | None = None) -> Callable[..., Any]:
    """Return the reward function of flow_grpo; each metadata has the `source`."""
    return edit_reward(url, release=release)


def edit_r1(device: Any = None, url: str = URL, release: str | None = None) -> Callable[..., Any]:
    """Return the reward function of Edit-R1, which passes the sources first."""
    return edit_r1_reward(url, release=release)

"""Edit-R1 or flow_grpo on GPUs that the judge shares: vLLM sleeps while the editor samples and learns.

Not run on a GPU by us; the order of the requests is tested (tests/test_train_editor.py). `gpu.sh` starts everything.

A judge on the GPUs of the training needs memory for its weights only while it scores. vLLM releases it with sleep mode
(https://docs.vllm.ai/en/latest/features/sleep_mode/): level 1 moves the weights to CPU memory, which must have room for
them, and discards the KV cache. The requests exist only with VLLM_SERVER_DEV_MODE=1, which opens more than these: keep
the server on 127.0.0.1. Every process of the training asks for rewards; a lock on a file keeps the judge awake until
the last of them on this machine has its rewards.
"""

import fcntl
import os
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rewardharness.serving.flow_grpo import edit_r1_reward, edit_reward

REWARDS = os.environ.get("REWARD_URL", "http://127.0.0.1:8100")
JUDGES = tuple(filter(None, os.environ.get("JUDGE_URLS", "").split(",")))
"""Addresses of the vLLM servers, without /v1; none if the judge has GPUs of its own."""


LOCK = Path(tempfile.gettempdir()) / f"judges-{os.getuid()}.lock"


@contextmanager
def awake(judges: Sequence[str] = JUDGES) -> Iterator[None]:
    """Wake the judges for the time of a block; the last process in one lets them sleep again, also after an error."""
    if not judges:
        yield
        return
    with LOCK.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        try:
            for judge in judges:
                _post(f"{judge}/wake_up")
            yield
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pass  # another process is scoring
            else:
                for judge in judges:
                    _post(f"{judge}/sleep?level=1")


def _post(url: str) -> None:
    with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=600):
        pass


def _sharing(make: Callable[..., Any]) -> Callable[..., Any]:
    def open_reward(device: Any = None) -> Callable[..., Any]:
        reward = make(REWARDS, release=os.environ.get("RELEASE"))

        def score(*arguments: Any, **named: Any) -> Any:
            if JUDGES:
                import torch

                torch.cuda.empty_cache()  # what the editor has freed is room for the judge
            with awake():
                return reward(*arguments, **named)

        return score

    return open_reward


edit_r1 = _sharing(edit_r1_reward)
"""For Edit-R1: `score_functions["mllm_rewardharness"] = edit_r1` in `multi_score` of its flow_grpo/rewards.py, which
passes the sources only to functions whose name begins with `mllm_`."""
flow_grpo = _sharing(edit_reward)
"""For flow_grpo: `score_functions["rewardharness"] = flow_grpo` in `multi_score` of its rewards.py, which gives the
sources to `image_similarity` only: pass `ref_images=ref_images` to this function there too."""

"""TRL: a GRPO trainer whose completions are drawn and judged by a reward server.

rh serve --release release.json
python examples/trainers/trl_grpo.py MODEL DATASET
"""

import sys
from collections.abc import Mapping
from typing import Any

from PIL import Image

from rewardharness.serving.trl import EditReward, stop_on_request

URL = "http://127.0.0.1:8100"


def draw(completion: Any, row: Mapping[str, Any]) -> Image.Image | None:
    """Draw the edit that a completion describes: here, a factor by which the source becomes brighter."""
    text = completion if isinstance(completion, str) else completion[-1]["content"]
    try:
        factor = float(text)
    except ValueError:
        return None
    return row["source"].point(lambda value: value * factor)


def reward(url: str = URL, release: str | None = None) -> EditReward:
    """Return the reward function."""
    return EditReward(url, release=release, edited=draw)


def main(model: str, dataset: str) -> None:
    """Train; the dataset has the columns `prompt`, `source` and `instruction`."""
    from datasets import load_dataset
    from trl import GRPOConfig, GRPOTrainer

    trainer = GRPOTrainer(
        model=model,
        reward_funcs=reward(),
        args=GRPOConfig(output_dir="out", num_generations=8),
        train_dataset=load_dataset(dataset, split="train"),
        callbacks=[stop_on_request("stop")],
    )
    trainer.train()


if __name__ == "__main__":
    main(*sys.argv[1:])

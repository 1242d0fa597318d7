"""Has verl load our reward function and score one rollout: `reward_with_verl.py URL MANAGER SHADE`."""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from omegaconf import OmegaConf
from verl import DataProto
from verl.experimental.reward_loop.reward_manager import get_reward_manager_cls
from verl.trainer.ppo.reward import get_custom_reward_fn
from verl.utils.ray_utils import get_event_loop

sys.path.insert(0, str(Path(__file__).parent))  # serving_parts
sys.path.insert(0, str(Path(__file__).parents[1]))  # clocks
from serving_parts import picture

import rewardharness.serving.verl as adapter


class Letters:
    """As much of a tokenizer as a reward manager needs."""

    def decode(self, ids: torch.Tensor, skip_special_tokens: bool) -> str:
        return "".join(chr(each) for each in ids.tolist())


def main() -> None:
    url, manager, shade = sys.argv[1], sys.argv[2], int(sys.argv[3])
    function = {"path": adapter.__file__, "name": "compute_score", "reward_kwargs": {"url": url}}
    config = OmegaConf.create({"reward": {"custom_reward_function": function}})
    info = {"source": picture(1), "edited": picture(shade), "instruction": "make it red"}
    data = DataProto.from_dict(
        tensors={
            "prompts": torch.ones(1, 2, dtype=torch.long),
            "responses": torch.tensor([[104, 105]]),
            "attention_mask": torch.ones(1, 4, dtype=torch.long),
        },
        non_tensors={
            "data_source": np.array(["edits"], dtype=object),
            "reward_model": np.array([{"ground_truth": "make it red"}], dtype=object),
            "extra_info": np.array([info], dtype=object),
        },
    )
    judge = get_reward_manager_cls(manager)(config, Letters(), get_custom_reward_fn(config))
    found = get_event_loop().run_until_complete(judge.run_single(data))
    sys.stdout.write(json.dumps({"score": found["reward_score"], "extra": found["reward_extra_info"]}) + "\n")


if __name__ == "__main__":
    main()

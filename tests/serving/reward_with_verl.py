"""Has verl load the examples' reward functions and score one rollout: `reward_with_verl.py URL MANAGER SHADE`.

The manager is one of verl's, or `omni`: then verl loads the function as verl-omni has it do, which calls it by keyword.
"""

import asyncio
import json
import sys
from pathlib import Path

import numpy as np
import torch
from omegaconf import OmegaConf
from verl import DataProto
from verl.experimental.reward_loop.reward_manager import get_reward_manager_cls
from verl.trainer.ppo.reward import get_custom_reward_fn
from verl.utils.import_utils import load_extern_object
from verl.utils.ray_utils import get_event_loop

sys.path.insert(0, str(Path(__file__).parent))  # serving_parts
sys.path.insert(0, str(Path(__file__).parents[1]))  # clocks
from serving_parts import picture

EXAMPLES = Path(__file__).parents[2] / "examples" / "trainers"


class Letters:
    """As much of a tokenizer as a reward manager needs."""

    def decode(self, ids: torch.Tensor, skip_special_tokens: bool) -> str:
        return "".join(chr(each) for each in ids.tolist())


def main() -> None:
    url, manager, shade = sys.argv[1], sys.argv[2], int(sys.argv[3])
    found = omni(url, shade) if manager == "omni" else naive(url, manager, shade)
    sys.stdout.write(json.dumps(found) + "\n")


def omni(url: str, shade: int) -> dict[str, object]:
    [entry] = OmegaConf.load(EXAMPLES / "verl_omni.yaml").reward.reward_functions.values()
    function = load_extern_object(entry.path, entry.name)
    image = torch.full((3, 8, 8), shade, dtype=torch.uint8)
    info = {"source_img": {"bytes": picture(1)}}
    asked = function(data_source="edits", solution_image=image, ground_truth="make it red", extra_info=info, url=url)
    found = asyncio.run(asked)
    return {"score": found.pop("score"), "extra": {"score": 0.0, **found}}


def naive(url: str, manager: str, shade: int) -> dict[str, object]:
    config = OmegaConf.load(EXAMPLES / "verl.yaml")
    function = config.reward.custom_reward_function
    function.path, function.reward_kwargs.url = str(EXAMPLES.parents[1] / function.path), url
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
    return {"score": found["reward_score"], "extra": found["reward_extra_info"]}


if __name__ == "__main__":
    main()

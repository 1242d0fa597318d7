"""Trains with TRL, without any network: `train_with_trl.py URL FOLDER SEEN plain|async|stop|dies|reward-model`."""

import json
import os
import sys
from pathlib import Path

os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

from datasets import Dataset, load_dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, Qwen2ForSequenceClassification
from trl import GRPOConfig, GRPOTrainer, RewardConfig, RewardTrainer

sys.path.insert(0, str(Path(__file__).parent))  # serving_parts
sys.path.insert(0, str(Path(__file__).parents[1]))  # clocks
from serving_parts import picture

from rewardharness.serving.client import ClientSettings
from rewardharness.serving.trl import AsyncEditReward, EditReward, stop_on_request

SHADES = (10, 66, 120, 200)
BARE = dict(report_to=[], use_cpu=True, bf16=False, per_device_train_batch_size=4, logging_steps=1, seed=1)


def tokenizer() -> PreTrainedTokenizerFast:
    """One token for each byte."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate(["<pad>", "<eos>", *letters])}
    built = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made = PreTrainedTokenizerFast(tokenizer_object=built, pad_token="<pad>", eos_token="<eos>")
    made.chat_template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    return made


def config(words: PreTrainedTokenizerFast, **more: object) -> Qwen2Config:
    return Qwen2Config(
        vocab_size=len(words),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        pad_token_id=words.pad_token_id,
        eos_token_id=words.eos_token_id,
        bos_token_id=None,
        **more,
    )


class Recorder:
    """Passes a reward function on, and remembers what it said of which image."""

    def __init__(self, reward: EditReward) -> None:
        self.reward, self.seen, self.__name__ = reward, [], reward.__name__

    def __call__(self, **given: object) -> list[float | None]:
        found = self.reward(**given)
        self.seen += zip(given["shade"], found, strict=True)
        return found


class AsyncRecorder(Recorder):
    async def __call__(self, **given: object) -> list[float | None]:
        found = await self.reward(**given)
        self.seen += zip(given["shade"], found, strict=True)
        return found


def grpo(url: str, folder: Path, kind: str) -> dict:
    words = tokenizer()
    row = {"prompt": "Edit.", "source": picture(1), "instruction": "make it red"}
    rows = [{**row, "edited": picture(shade), "shade": shade} for shade in SHADES]
    if kind == "async":
        reward = AsyncRecorder(AsyncEditReward(url))
    else:
        reward = Recorder(EditReward(url, settings=ClientSettings(attempts=1)))
    callbacks = []
    if kind == "stop":
        (folder / "stop").touch()
        callbacks.append(stop_on_request(folder / "stop"))
    how = GRPOConfig(
        output_dir=str(folder / "out"), max_steps=3, num_generations=2, max_completion_length=4, save_steps=50, **BARE
    )
    trainer = GRPOTrainer(
        model=Qwen2ForCausalLM(config(words)),
        reward_funcs=reward,
        args=how,
        train_dataset=Dataset.from_list(rows),
        processing_class=words,
        callbacks=callbacks,
    )
    if kind == "dies":
        trainer.add_callback(closing(reward.reward))
    trainer.train()
    return {"steps": trainer.state.global_step, "rewards": reward.seen, "log": trainer.state.log_history}


def closing(reward: EditReward) -> object:
    """A callback after whose first step the reward looks for a server that is gone."""
    from transformers import TrainerCallback

    from rewardharness.serving.client import AsyncRewardClient

    class Closing(TrainerCallback):
        def on_step_end(self, args: object, state: object, control: object, **kwargs: object) -> None:
            reward.close()
            client = reward._client
            client._make = lambda: AsyncRewardClient("http://127.0.0.1:9", settings=client.settings)

    return Closing()


def reward_model(data: str, folder: Path) -> dict:
    words = tokenizer()
    rows = load_dataset("parquet", data_files=f"{data}/train.parquet", cache_dir=str(folder / "cache"))["train"]
    trainer = RewardTrainer(
        model=Qwen2ForSequenceClassification(config(words, num_labels=1)),
        args=RewardConfig(output_dir=str(folder / "out"), max_steps=2, max_length=512, **BARE),
        train_dataset=rows,
        processing_class=words,
    )
    trainer.train()
    return {"steps": trainer.state.global_step, "log": trainer.state.log_history}


def main() -> None:
    url, folder, seen, kind = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    found = reward_model(url, folder) if kind == "reward-model" else grpo(url, folder, kind)
    seen.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()

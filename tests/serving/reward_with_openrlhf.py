"""Has OpenRLHF load a reward function and finish one rollout: `reward_with_openrlhf.py FILE PROMPT RESPONSE LABEL`.

Its package needs GPU libraries to be imported; the module that loads and calls reward functions does not.
"""

import asyncio
import importlib.util
import json
import sys
import types
from pathlib import Path


class Numbers(list):
    def tolist(self) -> list[int]:
        return list(self)


class Letters:
    """As much of a tokenizer as a rollout needs."""

    def __call__(self, text: str, **more: object) -> dict[str, list[Numbers]]:
        return {"input_ids": [Numbers(map(ord, text))]}

    def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
        return "".join(map(chr, ids))


class Engine:
    """Writes what it is told."""

    def __init__(self, response: str) -> None:
        self.response = response

    async def generate(self, prompt: list[int], params: object, **more: object) -> object:
        written = types.SimpleNamespace(token_ids=list(map(ord, self.response)), finish_reason="stop", logprobs=None)
        return types.SimpleNamespace(outputs=[written])


def executor_class() -> type:
    """The class that loads and calls reward functions, from its package without the package's own imports."""
    found = importlib.util.find_spec("openrlhf")
    assert found is not None and found.submodule_search_locations is not None
    utils = types.ModuleType("openrlhf.utils")
    utils.__path__ = [str(Path(next(iter(found.submodule_search_locations))) / "utils")]
    sys.modules["openrlhf.utils"] = utils
    return importlib.import_module("openrlhf.utils.agent").SingleTurnAgentExecutor


def main() -> None:
    file, prompt, response, label = sys.argv[1:]
    sampling = types.SimpleNamespace(max_tokens=100, logprobs=None)
    rollout = executor_class()(file).execute(prompt, label, sampling, 4096, Letters(), Engine(response))
    output = asyncio.run(rollout)
    sys.stdout.write(json.dumps({name: output[name] for name in ("reward", "scores", "extra_logs")}) + "\n")


if __name__ == "__main__":
    main()

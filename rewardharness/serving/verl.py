"""Reward functions for verl and verl-omni, with rewards from `rh serve`.

verl (0.9) loads a function by the path of its file and its name:

    reward.custom_reward_function.path=.../rewardharness/serving/verl.py
    reward.custom_reward_function.name=compute_score
    +reward.custom_reward_function.reward_kwargs.url=http://127.0.0.1:8100
    +reward.custom_reward_function.reward_kwargs.release=3f0c...

verl-omni calls `compute_edit_score` by keyword, with the generated image as `solution_image`.

Neither knows a missing reward. A completion that was not judged therefore raises `RewardServerError`. Some of their
reward managers turn an exception into 0.0 (verl's `rate_limited`; verl-omni's unless `required: true`): use others.
"""

import asyncio
import functools
from collections.abc import Mapping
from typing import Any

from rewardharness.errors import InputError
from rewardharness.serving.client import Ask, AsyncRewardClient, ItemResult, RewardClient
from rewardharness.serving.client_wire import require_rewards
from rewardharness.settings import Settings

_KEYS = ("source", "edited", "instruction")
_SOURCES = ("source", "source_image", "source_img")


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    *,
    url: str,
    release: str | None = None,
    token: str | None = None,
    **unused: Any,
) -> dict[str, Any]:
    """Score one edit, as verl's `custom_reward_function` is called.

    Args:
        data_source: Name of the dataset; not used.
        solution_str: What the model wrote; not used.
        ground_truth: The instruction, where `extra_info` has none.
        extra_info: `source` and `edited`: bytes, paths, pictures of Pillow, arrays or tensors; and `instruction`.
            Optionally `references`: up to three images that the instruction mentions as image 2, image 3, ...
        url: Address of the reward server.
        release: Hash of the release that must be served.
        token: What the server asks its callers for; None for RH_SERVER_TOKEN, which no configuration shows.
        unused: What else verl hands over.

    Returns:
        `score` in [0, 1], and the scores of instruction following and quality (1 to 4, or None) as extra columns.

    Raises:
        InputError: If something is missing in `extra_info`.
        RewardServerError: If it was not judged.
    """
    client = _client(url, release, token or Settings.from_env().server_token)
    return _numbers(client.score([_ask(ground_truth, extra_info)])[0])


async def compute_edit_score(
    data_source: str,
    solution_image: Any,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    *,
    url: str,
    release: str | None = None,
    token: str | None = None,
    **unused: Any,
) -> dict[str, Any]:
    """Score one edit, as verl-omni calls its scorers.

    Args:
        data_source: Name of the dataset; not used.
        solution_image: The edited image: a tensor CHW of floats in [0, 1] or uint8, or a batch of one.
        ground_truth: The instruction, where `extra_info` has none.
        extra_info: `source` (or `source_image`, `source_img`): the image before; `instruction`; and optionally
            `references`. An image may be a mapping with `bytes` or `path`, as in Parquet files.
        url: Address of the reward server.
        release: Hash of the release that must be served.
        token: What the server asks its callers for; None for RH_SERVER_TOKEN, which no configuration shows.
        unused: What else verl-omni hands over.

    Returns:
        See `compute_score`.

    Raises:
        InputError: If something is missing in `extra_info`.
        RewardServerError: If it was not judged.
    """
    if getattr(solution_image, "ndim", 3) == 4:
        solution_image = solution_image[0]
    token = token or Settings.from_env().server_token
    client = _async_client(url, release, token, asyncio.get_running_loop())
    return _numbers((await client.score([_ask(ground_truth, extra_info, edited=solution_image)]))[0])


def _ask(ground_truth: Any, extra_info: Mapping[str, Any] | None, **generated: Any) -> Ask:
    """Return the question about a row; `generated` replaces values of the row."""
    info = {"instruction": ground_truth, **(extra_info or {}), **generated}
    info["source"] = next((info[name] for name in _SOURCES if info.get(name) is not None), None)
    missing = [name for name in _KEYS if info.get(name) is None]
    if missing:
        raise InputError(
            f"There is no {missing[0]} to judge.", next_step=f"Put {', '.join(_KEYS)} into extra_info of each row."
        )
    references = info.get("references")
    further = () if references is None else tuple(references)
    return Ask(info["instruction"], info["source"], info["edited"], references=further)


def _numbers(result: ItemResult) -> dict[str, Any]:
    [reward] = require_rewards([result])
    return {"score": reward, "instruction_following": result.instruction, "visual_quality": result.quality}


@functools.cache
def _client(url: str, release: str | None, token: str | None) -> RewardClient:
    """One client for each server; it can be forked."""
    return RewardClient(url, release=release, token=token)


@functools.lru_cache(maxsize=8)
def _async_client(
    url: str, release: str | None, token: str | None, loop: asyncio.AbstractEventLoop
) -> AsyncRewardClient:
    """One client for each event loop and server."""
    return AsyncRewardClient(url, release=release, token=token)

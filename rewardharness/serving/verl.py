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
import os
from collections.abc import Mapping
from typing import Any

from rewardharness.arrays import picture
from rewardharness.errors import InputError
from rewardharness.serving.client import Ask, AsyncRewardClient, Reward, RewardClient, RewardServerError
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
    info = dict(extra_info or {})
    ask = _ask(info.get("instruction", ground_truth), info.get("source"), info.get("edited"), info.get("references"))
    client = _client(url, release, _shown(token), os.getpid())
    return _answer(client.score([ask])[0])


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
    info = dict(extra_info or {})
    source = next((info[name] for name in _SOURCES if info.get(name) is not None), None)
    if getattr(solution_image, "ndim", 3) == 4:
        solution_image = solution_image[0]
    instruction, references = info.get("instruction", ground_truth), info.get("references")
    ask = await asyncio.to_thread(_ask, instruction, source, solution_image, references)
    client = _async_client(url, release, _shown(token), asyncio.get_running_loop())
    return _answer((await client.score([ask]))[0])


def _shown(token: str | None) -> str | None:
    """The token that is shown: configurations of trainers end up in logs, so the environment may hold it."""
    return token or Settings.from_env().server_token


def _ask(instruction: Any, source: Any, edited: Any, references: Any) -> Ask:
    given = dict(zip(_KEYS, (source, edited, instruction), strict=True))
    missing = [name for name in _KEYS if given[name] is None]
    if missing:
        raise InputError(
            f"There is no {missing[0]} to judge.", next_step=f"Put {', '.join(_KEYS)} into extra_info of each row."
        )
    further = [
        _image(each, f"image {number}") for number, each in enumerate(() if references is None else references, 2)
    ]
    return Ask(instruction, _image(source, "the source"), _image(edited, "the edited image"), references=further)


def _image(given: Any, name: str) -> Any:
    if isinstance(given, Mapping):
        given = given.get("bytes") or given.get("path")
    return given if isinstance(given, (str, os.PathLike)) else picture(given, name)


def _answer(reward: Reward) -> dict[str, Any]:
    if reward.value is None:
        raise RewardServerError(f"An edit was not judged. {reward.reason}", next_step="See the server's log.")
    return {"score": reward.value, "instruction_following": reward.instruction, "visual_quality": reward.quality}


@functools.cache
def _client(url: str, release: str | None, token: str | None, process: int) -> RewardClient:
    """One client for each process and server."""
    return RewardClient(url, release=release, token=token)


@functools.lru_cache(maxsize=8)
def _async_client(
    url: str, release: str | None, token: str | None, loop: asyncio.AbstractEventLoop
) -> AsyncRewardClient:
    """One client for each event loop and server."""
    return AsyncRewardClient(url, release=release, token=token)

"""Reward functions in the form that flow_grpo and Edit-R1 call in process, with rewards from `rh serve`.

    reward_fn = edit_reward("http://127.0.0.1:8100", release="3f0c...")
    scores, details = reward_fn(images, prompts, metadata, ref_images=sources)      # flow_grpo, with the sources beside
    reward_fn = edit_r1_reward("http://127.0.0.1:8100", release="3f0c...")
    scores, details = reward_fn(sources, images, prompts, metadata)                 # Edit-R1

A source may be a list: image 1, and the references that the prompt mentions as image 2, image 3 and image 4.

Images are tensors NCHW of floats in [0, 1], arrays NHWC of uint8, or lists of pictures or encoded images. Both trainers
know no missing reward, so an edit that was not judged raises `RewardServerError`; a number is never made up for it.
"""

from collections.abc import Callable, Mapping
from typing import Any

from rewardharness.arrays import pictures
from rewardharness.errors import InputError
from rewardharness.serving.client import Ask, ClientSettings, RewardClient
from rewardharness.serving.client_http import USUAL
from rewardharness.serving.client_wire import require_rewards

Details = Mapping[str, list[float | None]]
"""Scores of instruction following and quality, 1 to 4, one for each image."""


def edit_reward(
    url: str, *, release: str | None = None, token: str | None = None, settings: ClientSettings = USUAL
) -> Callable[..., tuple[list[float], Details]]:
    """Make a reward function as flow_grpo calls it.

    Args:
        url: Address of the reward server.
        release: Hash of the release that must be served: training does not begin with another one.
        token: What the server asks its callers for.
        settings: How the server is asked.

    Returns:
        A function of images, prompts, metadata and `ref_images` that gives one reward in [0, 1] for each image. The
        sources are `ref_images`, or `source` in each metadata.

    Raises:
        IdentityError: If the server judges with another release.
        RewardServerError: If the server is not there.
    """
    client = RewardClient(url, release=release, token=token, settings=settings)

    def score(images: Any, prompts: Any, metadata: Any = None, ref_images: Any = None) -> tuple[list[float], Details]:
        edited = pictures(images, "the images")
        before = _sources([_source(row) for row in metadata or ()] if ref_images is None else ref_images)
        for values, what in ((before, "source images"), (instructions := list(prompts), "prompts")):
            if len(values) != len(edited):
                message = f"There are {len(values)} {what} for {len(edited)} images."
                raise InputError(message, next_step="Give one for each.")
        rows = zip(instructions, before, edited, strict=True)
        results = client.score([Ask(text, source, image, None, more) for text, (source, *more), image in rows])
        return require_rewards(results), {
            "instruction_following": [result.instruction for result in results],
            "visual_quality": [result.quality for result in results],
        }

    return score


def edit_r1_reward(
    url: str, *, release: str | None = None, token: str | None = None, settings: ClientSettings = USUAL
) -> Callable[..., tuple[list[float], Details]]:
    """Make a reward function as Edit-R1 calls it: sources first; see `edit_reward`."""
    reward = edit_reward(url, release=release, token=token, settings=settings)

    def score(ref_images: Any, images: Any, prompts: Any, metadatas: Any = None) -> tuple[list[float], Details]:
        return reward(images, prompts, None, ref_images)

    return score


def _source(metadata: Any) -> Any:
    if not isinstance(metadata, Mapping) or metadata.get("source") is None:
        raise InputError(
            "There is no source image to judge an edit by.",
            next_step="Give ref_images, or put the image before as `source` into each metadata.",
        )
    return metadata["source"]


def _sources(sources: Any) -> list[list[bytes]]:
    """Return the source image of each edit, followed by its references."""
    name = "the source images"
    rows = sources if isinstance(sources, list | tuple) else pictures(sources, name)
    lists = [list(row) if isinstance(row, list | tuple) else [row] for row in rows]
    if [] in lists:
        raise InputError("An edit has no source image.", next_step="Give one, or a list that begins with it.")
    return [pictures(images, f"{name} {number}") for number, images in enumerate(lists, 1)]

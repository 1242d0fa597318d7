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

from rewardharness.arrays import one_each, pictures
from rewardharness.errors import InputError
from rewardharness.serving.client import Ask, ClientSettings, RewardClient, RewardServerError
from rewardharness.serving.client_http import USUAL

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
        sources = ref_images if ref_images is not None else [_source(each) for each in metadata or ()]
        return _score(client, sources, images, prompts)

    return score


def edit_r1_reward(
    url: str, *, release: str | None = None, token: str | None = None, settings: ClientSettings = USUAL
) -> Callable[..., tuple[list[float], Details]]:
    """Make a reward function as Edit-R1 calls it: sources first; see `edit_reward`."""
    client = RewardClient(url, release=release, token=token, settings=settings)

    def score(ref_images: Any, images: Any, prompts: Any, metadatas: Any = None) -> tuple[list[float], Details]:
        return _score(client, ref_images, images, prompts)

    return score


def _source(metadata: Any) -> Any:
    if not isinstance(metadata, Mapping) or metadata.get("source") is None:
        raise InputError(
            "There is no source image to judge an edit by.",
            next_step="Give ref_images, or put the image before as `source` into each metadata.",
        )
    return metadata["source"]


def _sources(given: Any) -> list[list[bytes]]:
    """Return the source image of each edit, followed by its references."""
    what = "the source images"
    if not isinstance(given, list | tuple) or not any(isinstance(each, list | tuple) for each in given):
        return [[image] for image in pictures(given, what)]
    lists = [each if isinstance(each, list | tuple) else [each] for each in given]
    if [] in map(list, lists):
        raise InputError("An edit has no source image.", next_step="Give one, or a list that begins with it.")
    return [pictures(each, f"{what} {number}") for number, each in enumerate(lists, 1)]


def _score(client: RewardClient, sources: Any, images: Any, prompts: Any) -> tuple[list[float], Details]:
    edited = pictures(images, "the images")
    before = _sources(sources)
    if len(before) != len(edited):
        raise InputError(f"There are {len(before)} source images for {len(edited)} images.")
    instructions = one_each(prompts, len(edited), "prompts")
    asks = [
        Ask(text, source, image, references=references)
        for text, (source, *references), image in zip(instructions, before, edited, strict=True)
    ]
    rewards = client.score(asks)
    missing = [reward for reward in rewards if reward.value is None]
    if missing:
        raise RewardServerError(
            f"{len(missing)} of {len(rewards)} edits were not judged; the first: {missing[0].reason}",
            next_step="See the server's log. A trainer that knows missing rewards can ask with RewardClient.",
        )
    values = [reward.value for reward in rewards if reward.value is not None]
    return values, {
        "instruction_following": [reward.instruction for reward in rewards],
        "visual_quality": [reward.quality for reward in rewards],
    }

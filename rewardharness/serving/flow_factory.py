"""The JSON dialect of Flow-Factory's remote rewards: `GET /flow_factory/health`, `POST /flow_factory/compute`.

    {"prompt": [instruction], "image": [edited], "condition_images": [[source, second, ...]], "kwargs": null}
    -> {"rewards": [0.62]}

Its client, `flow_factory.rewards.my_reward_remote.RemotePointwiseRewardModel`, knows no missing reward: where one edit
was not judged, the reply has an `error` instead, which stops the training with its message. A number is never made up.
"""

from typing import Any

from rewardharness.schema import Json
from rewardharness.serving.body import Parsed, parse_body
from rewardharness.serving.faults import invalid
from rewardharness.serving.limits import Limits
from rewardharness.serving.results import RewardReply


def read_flow_factory(content_type: str, body: bytes, limits: Limits) -> Parsed:
    """Take a request apart, as `body.parse_body` does with others: into what `BatchRequest` reads.

    Raises:
        RefusedError: As `parse_body`, and 422 if it does not hold edits with their sources.
    """
    parsed = parse_body(content_type, body, limits)
    given = parsed.tree if isinstance(parsed.tree, dict) else {}
    prompts, edited, sources = (_list(given, name) for name in ("prompt", "image", "condition_images"))
    if not len(prompts) == len(edited) == len(sources) > 0:
        raise invalid(f"There are {len(edited)} images, {len(prompts)} prompts and {len(sources)} condition_images.")
    items = []
    for number, (prompt, image, images) in enumerate(zip(prompts, edited, sources, strict=True)):
        if not isinstance(images, list) or not images:
            raise invalid(f"condition_images[{number}] does not begin with a source image.")
        source, *references = images
        item = {"instruction": prompt, "source": source, "edited": image}
        items.append({**item, "references": references} if references else item)
    return Parsed({"items": items}, parsed.lifted)


def write_flow_factory(reply: RewardReply) -> Json:
    """Write the reply."""
    failed = [item.error for item in reply.results if item.error is not None]
    if failed:
        first = f"{failed[0].code}: {failed[0].message}"
        return {"error": f"{len(failed)} of {len(reply.results)} edits were not judged; the first: {first}"}
    return {"rewards": [item.reward for item in reply.results]}


def _list(given: Json, name: str) -> list[Any]:
    value = given.get(name)
    if not isinstance(value, list):
        raise invalid(f"{name} is no list; an edit has a prompt, an image and condition_images.")
    return value

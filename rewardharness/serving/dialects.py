"""Protocols of trainers that do not speak that of the reward server; judging, limits, metrics and log are the same.

None of these trainers supports a missing reward. A number is never made up for an edit that was not judged.

Flow-Factory (`GET /flow_factory/health`, `POST /flow_factory/compute`). Its client,
`flow_factory.rewards.my_reward_remote.RemotePointwiseRewardModel`, stops the training at an `error` in the reply:

    {"prompt": [instruction], "image": [edited], "condition_images": [[source, second, ...]], "kwargs": null}
    -> {"rewards": [0.62]}

UniRL by Tencent (`GET /unirl/health`, which lists the reward, and `POST /unirl/score`). An edit is a conversation of
two turns; its reference images are a list of base64 in `metadata.references`. Sub-metrics without a grade are left out:

    {"requests": [{"history": [{"text": instruction, "image_b64": source},
                               {"text": instruction, "image_b64": edited}],
                   "required_rewards": ["rewardharness"], "metadata": {}}]}
    -> {"results": [{"rewardharness": {"reward": 0.62, "instruction_following": 3.0, "visual_quality": 2.0}}],
        "errors": [{}]}
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from rewardharness.schema import Json
from rewardharness.serving.body import Parse, Parsed, parse_body
from rewardharness.serving.faults import invalid
from rewardharness.serving.limits import Limits
from rewardharness.serving.results import RewardReply, not_judged

UNIRL_REWARD = "rewardharness"
"""Name of the reward for UniRL."""

_TURNS = 2


@dataclass(frozen=True)
class Dialect:
    """How a batch is read and answered."""

    parse: Parse
    """Makes of a body what `BatchRequest` reads."""
    write: Callable[[RewardReply], bytes]
    """Returns the body of the reply, as JSON."""


def _read_flow_factory(content_type: str, body: bytes, limits: Limits) -> Parsed:
    parsed = parse_body(content_type, body, limits)
    tree = parsed.tree if isinstance(parsed.tree, dict) else {}
    for name in ("prompt", "image", "condition_images"):
        if not isinstance(tree.get(name), list):
            raise invalid(f"{name} is no list; an edit has a prompt, an image and condition_images.")
    images, prompts, sources = tree["image"], tree["prompt"], tree["condition_images"]
    if not len(images) == len(prompts) == len(sources) > 0:
        raise invalid(f"There are {len(images)} images, {len(prompts)} prompts and {len(sources)} condition_images.")
    items = []
    for number, (prompt, image, several) in enumerate(zip(prompts, images, sources, strict=True)):
        if not isinstance(several, list) or not several:
            raise invalid(f"condition_images[{number}] does not begin with a source image.")
        item = {"instruction": prompt, "source": several[0], "edited": image}
        items.append({**item, "references": several[1:]} if len(several) > 1 else item)
    return Parsed({"items": items}, parsed.lifted)


def _write_flow_factory(reply: RewardReply) -> bytes:
    error = not_judged(reply.results)
    return orjson.dumps({"error": error} if error else {"rewards": [item.reward for item in reply.results]})


def _read_unirl(content_type: str, body: bytes, limits: Limits) -> Parsed:
    parsed = parse_body(content_type, body, limits)
    requests = parsed.tree.get("requests") if isinstance(parsed.tree, dict) else None
    if not isinstance(requests, list) or not requests:
        raise invalid("requests is no list of edits.")
    items = [_unirl_item(request, f"requests[{number}]") for number, request in enumerate(requests)]
    return Parsed({"items": items}, parsed.lifted)


def _unirl_item(request: Any, where: str) -> Json:
    if not isinstance(request, dict):
        raise invalid(f"{where} is no object.")
    if request.get("required_rewards") != [UNIRL_REWARD]:
        raise invalid(f"{where}.required_rewards is not [{UNIRL_REWARD!r}], the one reward that is given here.")
    history = request.get("history")
    if not isinstance(history, list) or len(history) != _TURNS or not all(isinstance(turn, dict) for turn in history):
        raise invalid(f"{where}.history does not have two turns: the source, and the edited image.")
    for number, turn in enumerate(history):
        if turn.get("image_b64") is None:
            raise invalid(f"{where}.history[{number}] has no image_b64; paths and videos are not read.")
    before, after = history
    text = after.get("text") or before.get("text")
    item = {"instruction": text, "source": before["image_b64"], "edited": after["image_b64"]}
    metadata = request.get("metadata")
    references = metadata.get("references") if isinstance(metadata, dict) else None
    return item if references is None else {**item, "references": references}


def _write_unirl(reply: RewardReply) -> bytes:
    results: list[Json] = []
    for item in reply.results:
        numbers = {"reward": item.reward, "instruction_following": item.instruction, "visual_quality": item.quality}
        known = {name: number for name, number in numbers.items() if number is not None}
        results.append({} if item.reward is None else {UNIRL_REWARD: known})
    errors = [{UNIRL_REWARD: item.reason} if item.reward is None else {} for item in reply.results]
    return orjson.dumps({"results": results, "errors": errors})


DIALECTS = {
    "/unirl/score": Dialect(_read_unirl, _write_unirl),
    "/flow_factory/compute": Dialect(_read_flow_factory, _write_flow_factory),
}
"""JSON protocols by path."""
HEALTH_PATHS = ("/unirl/health", "/flow_factory/health")
"""Both trainers ask for this before they train."""

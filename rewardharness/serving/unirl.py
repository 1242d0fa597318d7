"""The JSON dialect of the UniRL reward service (Tencent): `POST /unirl/score`.

    {"requests": [{"history": [{"text": instruction, "image_b64": source},
                               {"text": instruction, "image_b64": edited}],
                   "required_rewards": ["rewardharness"], "metadata": {}}]}
    -> {"results": [{"rewardharness": {"reward": 0.62, "instruction_following": 3.0, "visual_quality": 2.0}}],
        "errors": [{}]}

`GET /unirl/health` lists the reward, for which UniRL looks before it trains.

An edit is a conversation of two turns; its reference images are a list of base64 in `metadata.references`. What was
not judged is missing in `results` and told in `errors`; a number is never made up for it. Sub-metrics that nothing
spoke to are left out.
"""

from typing import Any

from rewardharness.schema import Json
from rewardharness.serving.body import Parsed, parse_body
from rewardharness.serving.faults import invalid
from rewardharness.serving.limits import Limits
from rewardharness.serving.results import RewardReply

NAME = "rewardharness"
"""Name of the reward that is given here."""

_TURNS = 2


def read_unirl(content_type: str, body: bytes, limits: Limits) -> Parsed:
    """Take a request apart, as `body.parse_body` does with others: into what `BatchRequest` reads.

    Raises:
        RefusedError: As `parse_body`, and 422 if it is not of this dialect.
    """
    parsed = parse_body(content_type, body, limits)
    requests = parsed.tree.get("requests") if isinstance(parsed.tree, dict) else None
    if not isinstance(requests, list) or not requests:
        raise invalid("requests is no list of edits.")
    items = [_item(each, f"requests[{number}]") for number, each in enumerate(requests)]
    return Parsed({"items": items}, parsed.lifted)


def write_unirl(reply: RewardReply) -> Json:
    """Write the reply."""
    results: list[Json] = []
    errors: list[Json] = []
    for item in reply.results:
        results.append({})
        errors.append({})
        if item.error is not None or item.reward is None:
            why = "not judged" if item.error is None else f"{item.error.code}: {item.error.message}"
            errors[-1][NAME] = why
            continue
        scores = item.scores
        named = {
            "reward": item.reward,
            "instruction_following": None if scores is None else scores.instruction,
            "visual_quality": None if scores is None else scores.quality,
        }
        results[-1][NAME] = {name: value for name, value in named.items() if value is not None}
    return {"results": results, "errors": errors}


def _item(request: Any, where: str) -> Json:
    if not isinstance(request, dict):
        raise invalid(f"{where} is no object.")
    wanted = request.get("required_rewards")
    if wanted != [NAME]:
        raise invalid(f"{where}.required_rewards is not [{NAME!r}], the one reward that is given here.")
    history = request.get("history")
    if not isinstance(history, list) or len(history) != _TURNS or not all(isinstance(turn, dict) for turn in history):
        raise invalid(f"{where}.history does not have two turns: the source, and the edited image.")
    before, after = history
    for number, turn in enumerate(history):
        if turn.get("image_b64") is None:
            raise invalid(f"{where}.history[{number}] has no image_b64; paths and videos are not read.")
    item = {
        "instruction": after.get("text") or before.get("text"),
        "source": before["image_b64"],
        "edited": after["image_b64"],
    }
    metadata = request.get("metadata")
    references = metadata.get("references") if isinstance(metadata, dict) else None
    return item if references is None else {**item, "references": references}

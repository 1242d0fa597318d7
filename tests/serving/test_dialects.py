import pytest
from serving_parts import ReadyJudge, b64, picture, reward_of

from rewardharness.schema import Failure

BEFORE, BAD = picture(1), picture(66)


@pytest.fixture(scope="module")
def judge() -> ReadyJudge:
    """A judge that fails on one image."""
    lost = Failure("timeout", "It took too long.")
    return ReadyJudge(lambda example: lost if example.candidates[0].data == BAD else None)


def test_an_internal_error_is_told_without_its_text(server, monkeypatch):
    async def broken(*_: object) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr(server.service, "answer", broken)
    for path in ("/score", "/unirl/score", "/flow_factory/compute"):
        reply = server.post(path, {})
        assert (reply.status, reply.code) == (500, "defect") and b"secret" not in reply.body


def turn(image: bytes | None, text: str = "make it red") -> dict:
    return {"text": text, **({} if image is None else {"image_b64": b64(image)})}


def edit(edited: bytes | None, **more: object) -> dict:
    return {"history": [turn(BEFORE), turn(edited)], "required_rewards": ["rewardharness"], "metadata": {}, **more}


def requests(*edits: object) -> dict:
    return {"requests": list(edits)}


def test_unirl_gets_rewards_and_errors_by_name(server):
    said = server.post("/unirl/score", requests(edit(picture(2)), edit(BAD))).json
    assert said["results"][0]["rewardharness"]["reward"] == pytest.approx(reward_of(picture(2)))
    assert set(said["results"][0]["rewardharness"]) == {"reward", "instruction_following", "visual_quality"}
    assert said["results"][1] == {} and said["errors"][1]["rewardharness"].startswith("timeout: ")
    assert said["errors"][0] == {}


UNIRL = [
    (requests(edit(picture(2), required_rewards=["EditReward"])), "requests[0].required_rewards"),
    (requests(edit(picture(2), history=[turn(BEFORE)])), "two turns"),
    (requests(edit(None)), "history[1] has no image_b64"),
    (requests(edit(picture(2), history="x")), "two turns"),
    (requests("x"), "requests[0] is no object"),
    *((body, "no list of edits") for body in ({}, [], None, {"requests": []})),
]
FLOW_FACTORY = [
    ([], "prompt is no list"),
    ({"prompt": ["a"], "image": ["x"], "condition_images": None}, "condition_images is no list"),
    ({"prompt": ["a"], "image": ["x"], "condition_images": [[]]}, "condition_images[0] does not begin"),
    ({"prompt": ["a"], "image": ["x"], "condition_images": []}, "1 images, 1 prompts and 0 condition_images"),
    ({"prompt": [], "image": [], "condition_images": []}, "0 images"),
    ({"prompt": [3], "image": ["x"], "condition_images": [["x"]]}, "instruction"),
]


@pytest.mark.parametrize(
    ("path", "wrong", "said"),
    [*(("/unirl/score", *row) for row in UNIRL), *(("/flow_factory/compute", *row) for row in FLOW_FACTORY)],
)
def test_unirl_and_flow_factory_are_told_what_is_wrong(server, path, wrong, said):
    reply = server.post(path, wrong)
    assert reply.status == 422 and said in reply.json["error"]["message"]

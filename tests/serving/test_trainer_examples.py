"""The examples of trainers: each configuration is read, and what it names is called as its trainer calls it."""

import asyncio
import http.client
import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image
from serving_parts import PATIENCE, ReadyJudge, Running, b64, picture, reward_of

from rewardharness.schema import Failure
from rewardharness.serving import openrlhf
from rewardharness.serving.client import RewardServerError

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "trainers"
BEFORE, SECOND, BAD = picture(1), picture(9), picture(66)
URL = "http://127.0.0.1:8100"


@pytest.fixture(scope="module")
def judge() -> ReadyJudge:
    """A judge that fails on one image."""
    lost = Failure("timeout", "It took too long.")
    return ReadyJudge(lambda example: lost if getattr(example.candidates[0], "data", b"") == BAD else None)


def configuration(name: str, server: Running) -> dict[str, Any]:
    """An example, with the address of a server that runs."""
    text = (FOLDER / f"{name}.yaml").read_text("utf-8")
    assert URL in text
    found = yaml.safe_load(text.replace(URL, server.url))
    assert isinstance(found, dict)
    return found


def program(name: str, server: Running) -> dict[str, Any]:
    """The names of an example that is a program."""
    text = (FOLDER / f"{name}.py").read_text("utf-8")
    assert URL in text
    names: dict[str, Any] = {"__name__": name}
    exec(compile(text.replace(URL, server.url), name, "exec"), names)
    return names


def post(url: str, value: object) -> tuple[int, Any]:
    """Send JSON to an address as a client of a trainer does."""
    place, _, path = url.removeprefix("http://").partition("/")
    line = http.client.HTTPConnection(place, timeout=PATIENCE)
    try:
        if value is None:
            line.request("GET", f"/{path}")
        else:
            line.request("POST", f"/{path}", json.dumps(value), {"Content-Type": "application/json"})
        reply = line.getresponse()
        return reply.status, json.loads(reply.read())
    finally:
        line.close()


def test_verl(server):
    reward = configuration("verl", server)["reward"]["custom_reward_function"]
    assert (ROOT / reward["path"]).is_file()
    function = getattr(importlib.import_module(reward["path"].removesuffix(".py").replace("/", ".")), reward["name"])
    info = {"source": BEFORE, "edited": picture(2), "instruction": "make it red"}
    found = function("edits", "text", "make it red", info, **reward["reward_kwargs"])
    assert found["score"] == pytest.approx(reward_of(picture(2)))


@pytest.mark.parametrize(
    "info", [{"source": BEFORE}, {"source_img": {"bytes": BEFORE, "path": None}}, {"source_image": {"bytes": BEFORE}}]
)
def test_verl_omni(server, judge, info):
    [entry] = configuration("verl_omni", server)["reward"]["reward_functions"].values()
    assert entry["required"] is True, "otherwise a failure is 0.0"
    function = getattr(importlib.import_module(entry["path"].removeprefix("pkg://")), entry["name"])
    more = {name: value for name, value in entry.items() if name not in {"path", "name", "weight", "required"}}
    for image in (np.full((3, 4, 4), 7, np.uint8), np.full((1, 3, 4, 4), 7, np.uint8)):
        found = asyncio.run(
            function(data_source="edits", solution_image=image, ground_truth="make it red", extra_info=info, **more)
        )
        sent = judge.asked[-1]
        assert sent.source.data == BEFORE and sent.instruction == "make it red"
        assert found["score"] == pytest.approx(reward_of(sent.candidates[0].data))


def test_flow_factory(server, judge):
    [entry] = configuration("flow_factory", server)["rewards"]
    url = entry["server_url"]
    assert post(f"{url}/health", None)[0] == 200
    sources = [[b64(BEFORE), b64(SECOND)], [b64(BEFORE)]]
    wish = {"prompt": ["a", "b"], "image": [b64(picture(2)), b64(picture(3))], "condition_images": sources}
    status, said = post(f"{url}/compute", {**wish, "video": None, "condition_videos": None, "kwargs": None})
    assert (status, said) == (200, {"rewards": [pytest.approx(reward_of(picture(shade))) for shade in (2, 3)]})
    assert any([each.data for each in example.sources] == [BEFORE, SECOND] for example in judge.asked)
    status, said = post(f"{url}/compute", {**wish, "image": [b64(picture(2)), b64(BAD)]})
    assert (status, list(said)) == (200, ["error"]) and said["error"].startswith("1 of 2 edits were not judged")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ([], "prompt is no list"),
        ({"prompt": ["a"], "image": ["x"], "condition_images": None}, "condition_images is no list"),
        ({"prompt": ["a"], "image": ["x"], "condition_images": [[]]}, "condition_images[0] does not begin"),
        ({"prompt": ["a"], "image": ["x"], "condition_images": []}, "1 images, 1 prompts and 0 condition_images"),
        ({"prompt": [], "image": [], "condition_images": []}, "0 images"),
        ({"prompt": [3], "image": ["x"], "condition_images": [["x"]]}, "instruction"),
    ],
)
def test_flow_factory_is_told_what_is_wrong(server, wrong, said):
    status, reply = post(f"{server.url}/flow_factory/compute", wrong)
    assert status == 422 and said in reply["error"]["message"]


def test_unirl(server):
    config = configuration("unirl", server)["reward"]["backend"]["config"]
    status, roster = post(f"{config['base_url']}/health", None)
    assert status == 200 and set(config["required_rewards"]) <= set(roster["rewards"])
    history = [{"text": "a", "image_b64": b64(BEFORE)}, {"text": "a", "image_b64": b64(picture(2))}]
    request = {"history": history, "required_rewards": config["required_rewards"], "metadata": None, "group_id": "g"}
    status, said = post(f"{config['base_url']}/score", {"protocol_version": "1", "requests": [request]})
    assert status == 200 and config["sub_metric_reduce"] == "first"
    assert next(iter(said["results"][0]["rewardharness"].values())) == pytest.approx(reward_of(picture(2)))


def test_flow_grpo_and_edit_r1(server):
    names = program("flow_grpo", server)
    expected = [pytest.approx(reward_of(picture(2)))]
    assert names["flow_grpo_reward"]("cpu")([picture(2)], ["a"], [{"source": BEFORE}])[0] == expected
    assert names["edit_r1"]("cpu")([BEFORE], [picture(2)], ["a"], [{}])[0] == expected


def test_trl(server, judge):
    reward = program("trl_grpo", server)["reward"]()
    row = {"source": [Image.new("RGB", (8, 8), (100, 100, 100))] * 2, "instruction": ["brighter"] * 2}
    first, second = reward(prompts=["p"] * 2, completions=["1.5", "brighter"], **row)
    reward.close()
    assert first == pytest.approx(reward_of(judge.asked[-1].candidates[0].data)) and second is None


def test_openrlhf(server, judge):
    function = program("openrlhf_reward", server)["reward_func"]
    found = function(["Write a slogan.\nCold for a day.<|im_end|>\n"], ["Write a slogan.\n"], [""])
    assert judge.asked[-1].candidates[0].text == "Cold for a day." and judge.asked[-1].instruction.startswith("Write")
    assert found["rewards"] == found["scores"] and isinstance(found["rewards"], float)
    found = function(["ab", "ac"], ["a", "a"], ["Say b.", "Say c."])
    assert len(found["rewards"]) == 2 and {example.instruction for example in judge.asked[-2:]} == {"Say b.", "Say c."}


def test_openrlhf_hears_of_a_response_that_was_not_judged():
    with Running(ReadyJudge(lambda example: Failure("no_answer", "Nothing was said."))) as server:
        function = openrlhf.make_reward_func(server.url)
        with pytest.raises(RewardServerError, match=r"not judged\. no_answer"):
            function(["ab"], ["a"], [None])

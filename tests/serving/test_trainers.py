"""Reward functions of trainers against real servers; the examples are called as their trainers call them."""

import asyncio
import importlib
import inspect
import io
import pickle
import pydoc
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image
from serving_parts import ReadyJudge, Running, b64, picture, reward_of

from rewardharness.arrays import picture as encoded
from rewardharness.arrays import pictures
from rewardharness.errors import ImageError, InputError
from rewardharness.library.store import EMPTY
from rewardharness.schema import Failure, Scores
from rewardharness.serving import openrlhf, verl
from rewardharness.serving.client import ClientSettings, IdentityError, RewardClient, RewardServerError
from rewardharness.serving.flow_grpo import edit_r1_reward, edit_reward
from rewardharness.serving.trl import AsyncEditReward, EditReward

ROOT = Path(__file__).parents[2]
BEFORE, SECOND, BAD = picture(1), picture(9), picture(66)
RED = "make it red"
ONCE = ClientSettings(attempts=1)


@pytest.fixture(scope="module")
def judge() -> ReadyJudge:
    """A judge that fails on one image."""
    lost = Failure("timeout", "It took too long.")
    return ReadyJudge(lambda example: lost if getattr(example.candidates[0], "data", b"") == BAD else None)


def rewards(*shades: int | None) -> list:
    """The rewards of pictures; None for none."""
    return [None if shade is None else pytest.approx(reward_of(picture(shade))) for shade in shades]


def columns(*edited: object) -> dict:
    return {"source": [BEFORE] * len(edited), "instruction": [RED] * len(edited), "edited": list(edited)}


def ask(reward: Any, *edited: object, **more: Any) -> Any:
    """Ask as TRL does: log metrics are a dict."""
    log = more.pop("log", {})
    given = {**columns(*edited), **more, "log_metric": log.__setitem__}
    return reward(prompts=["p"] * len(edited), completions=["c"] * len(edited), **given)


# ---- TRL


def test_trl_gets_a_reward_for_each_and_none_for_what_was_not_judged(server):
    reward, log = EditReward(server.url), {}
    found = ask(reward, picture(2), BAD, None, picture(3), completion_ids=[[1]] * 4, log=log)
    assert found == rewards(2, None, None, 3)
    assert log == {"rewardharness/not_judged": 0.25, "rewardharness/nothing_drawn": 0.25}
    assert reward.__name__ == "edit_reward"
    reward.close()


class Ungradable(ReadyJudge):
    """Measures edits, and cannot tell whether the instruction was followed."""

    def answer(self, example, library):
        judgment = super().answer(example, library)
        scores = {label: Scores(None, 3.0, None, evidence=each.reward) for label, each in judgment.scores.items()}
        failure = Failure("not_gradable", "Nothing tells.") if len(scores) == 1 else None
        return replace(judgment, scores=scores, failure=failure, confidence=0.2)


def test_an_instruction_that_cannot_be_graded_gives_no_reward_unless_the_caller_opts_in():
    with Running(Ungradable()) as server, RewardClient(server.url) as client:
        log: dict[str, float] = {}
        strict, opted = EditReward(server.url), EditReward(server.url, allow_ungradable=True)
        assert ask(strict, picture(2)) == [None] and ask(opted, picture(2), log=log) == rewards(2)
        assert log["rewardharness/confidence"] == pytest.approx(0.2) and ask(strict, picture(2)) == [None]
        strict.close()
        opted.close()
        compared = client.compare("x", BEFORE, picture(2), picture(3))
        assert compared.preference in {"A", "B"} and compared.confidence == pytest.approx(0.2)
        assert [(item.reward, item.error.code) for item in compared.rewards] == [(None, "not_gradable")] * 2
        ranked = client.rank("x", BEFORE, [picture(2), picture(3)], method="win_rate")
        assert {item.reward for item in ranked} == {0.0, 1.0}
        assert [item.confidence for item in ranked] == [pytest.approx(0.2)] * 2
    for allowed, expected in ((False, [None]), (True, rewards(2))):
        local = EditReward(judge=Ungradable(), library=EMPTY, allow_ungradable=allowed)
        log = {}
        assert ask(local, picture(2), log=log) == expected
        assert log.get("rewardharness/confidence") == (pytest.approx(0.2) if allowed else None)


def test_trl_draws_what_a_model_wrote(server):
    def draw(completion: str, row: dict) -> bytes | None:
        assert row["source"] == BEFORE and row["shade"] in {7, 8}
        return picture(int(completion)) if completion.isdigit() else None

    reward = EditReward(server.url, edited=draw)
    assert reward(["p"] * 2, ["5", "five"], **columns(None, None), shade=[7, 8]) == rewards(5, None)
    reward.close()


def said(content: object, role: str = "user") -> dict:
    return {"role": role, "content": content}


def part(text: object) -> dict:
    return {"type": "text", "text": text}


BLUE = "make it blue"
SAID = [
    BLUE,
    [said("You edit images.", "system"), said(BLUE)],
    [said([{"type": "image"}, part("make it"), part("blue")])],
    [said("hello"), said("Yes?", "assistant"), said(BLUE), said("Sure:", "assistant")],
]
UNSAID = [None, 3, 0.5, True, b"make it blue", {}, said(BLUE), [None], [3], [], [{}], [BLUE]]
UNSAID += [[said(content)] for content in (None, [], 7, *([part(text)] for text in (None, 3, " ")))]
UNSAID += [[said("blue", "system")], [said(BLUE), said([{"type": "image"}])]]


@pytest.mark.parametrize(("prompt", "text"), [*((each, BLUE) for each in SAID), *((each, None) for each in UNSAID)])
def test_an_instruction_is_text_or_a_conversation_and_nothing_else_is_scored(server, judge, prompt, text):
    log, reward = {}, EditReward(server.url, instruction="prompt")
    judge.asked.clear()
    scored = ask(reward, picture(2), picture(3), prompt=[prompt, RED], log=log)
    reward.close()
    assert scored == rewards(2 if text else None, 3)
    assert log["rewardharness/not_judged"] == (0.5 if text is None else 0)
    assert {example.instruction for example in judge.asked} <= {"make it blue", RED}
    if text is None:
        with pytest.raises(RewardServerError, match="input: The instruction is "):
            edit_reward(server.url)([picture(2)], [prompt], None, [BEFORE])


PROMPTS = [said([{"type": "image"}, part(RED)]), said("Sure:", "assistant")]


@pytest.mark.parametrize("given", [{"images": [[BEFORE, SECOND], []]}, {"image": [BEFORE, None]}])
def test_conversational_prompts_and_image_columns_of_trl_are_taken_as_they_are(server, judge, given):
    reward, log = EditReward(server.url), {}
    edited = [picture(2), picture(3)]
    scored = reward([PROMPTS] * 2, ["c"] * 2, edited=edited, log_metric=log.__setitem__, **given)
    reward.close()
    assert scored == rewards(2, None), "without a source there is nothing to judge"
    assert any(each.instruction == RED and each.source.data == BEFORE for each in judge.asked)
    assert log["rewardharness/nothing_drawn"] == 0.5


def test_a_judge_in_this_process_gives_the_rewards_of_a_server(judge):
    reward, quiet, log = EditReward(judge=judge, library=EMPTY), AsyncEditReward(judge=judge, library=EMPTY), {}
    edited, expected = [picture(2), BAD, None, 3], rewards(2, None, None, None)
    assert ask(reward, *edited, log=log) == expected
    assert log == {"rewardharness/not_judged": 0.5, "rewardharness/nothing_drawn": 0.25}
    assert ask(reward, picture(2), picture(3), instruction=[None, RED]) == rewards(None, 3)
    assert reward([None], ["c"], source=[BEFORE], edited=[picture(2)]) == [None]

    async def trainer() -> list:
        return [await ask(quiet, *edited), ask(reward, *edited)]

    assert asyncio.run(trainer()) == [expected] * 2


@pytest.mark.parametrize(
    "wrong", [{}, {"url": "http://a", "judge": "measured"}, {"judge": "measured", "release": "3f0c"}, {"judge": "no"}]
)
def test_a_reward_has_a_judge_or_a_server(wrong):
    with pytest.raises(InputError) as caught:
        EditReward(**wrong)
    assert caught.value.next_step in str(caught.value) and caught.value.next_step


def test_trl_hears_of_a_column_that_is_not_there(server):
    reward = EditReward(server.url, source="before")
    with pytest.raises(InputError, match="no column 'before'"):
        ask(reward, picture(1))
    reward.close()


def test_a_reward_function_can_be_pickled(server):
    reward = EditReward(server.url, name="red")
    again = pickle.loads(pickle.dumps(reward))  # our own
    assert again.__name__ == "red" and ask(again, picture(4)) == rewards(4)
    again.close()
    reward.close()


def test_both_kinds_say_what_they_take_and_what_it_means():
    for kind in (EditReward, AsyncEditReward):
        assert list(inspect.signature(kind).parameters) == [
            *("url", "release", "token", "judge", "library", "source", "instruction", "edited"),
            *("references", "settings", "name", "allow_ungradable"),
        ]
        shown = pydoc.plain(pydoc.render_doc(kind))
        assert "Hash of the release that must be served" in shown and "on_error=" in shown
    assert inspect.iscoroutinefunction(AsyncEditReward.__call__), "TRL looks at this"


def test_trl_awaits_it_and_it_holds_the_server_to_who_judged_at_first(server):
    async def train(reward: AsyncEditReward) -> tuple[list, str]:
        scored = await ask(reward, picture(2), BAD)
        judge = reward._client.identity.judge
        pickle.dumps(reward)  # in use, and still nothing of the loop goes along
        await reward.close()
        return scored, judge

    reward = AsyncEditReward(server.url)
    for each in (reward, pickle.loads(pickle.dumps(reward))):  # our own
        assert asyncio.run(train(each)) == (rewards(2, None), "ready")


@pytest.mark.parametrize("make", [EditReward, AsyncEditReward])
def test_training_does_not_begin_with_another_release(server, make):
    with pytest.raises(IdentityError, match="is wanted"):
        make(server.url, release="0" * 64)


# ---- verl and verl-omni


INFO = {"source": BEFORE, "edited": picture(9), "instruction": RED}


def test_verl(server):
    found = verl.compute_score("edits", "text", None, INFO, url=server.url, reward_router_address=None)
    assert found["score"] == pytest.approx(reward_of(picture(9))) and found["visual_quality"] >= 1
    with pytest.raises(RewardServerError, match="The edit was not judged: timeout: The judge"):
        verl.compute_score("edits", "text", None, {**INFO, "edited": BAD}, url=server.url)
    with pytest.raises(InputError, match="no edited"):
        verl.compute_score("edits", "text", RED, {"source": BEFORE}, url=server.url)


def test_verl_shows_the_token_of_the_environment(monkeypatch):
    token = "0123456789abcdef"
    with Running(ReadyJudge(), token=token) as server:
        monkeypatch.setenv("RH_SERVER_TOKEN", "another-token-of-16")
        with pytest.raises(RewardServerError, match="token"):
            verl.compute_score("edits", "text", None, INFO, url=server.url)
        given = verl.compute_score("edits", "text", None, INFO, url=server.url, token=token)
        monkeypatch.setenv("RH_SERVER_TOKEN", token)
        assert verl.compute_score("edits", "text", None, INFO, url=server.url) == given


def test_verl_loads_it_by_its_path(server):
    code = (
        "import importlib.util as u, sys; s = u.spec_from_file_location('custom_module', sys.argv[1]);"
        "m = u.module_from_spec(s); s.loader.exec_module(m); print(m.compute_score.__name__)"
    )
    words = [sys.executable, "-c", code, verl.__file__]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip() == "compute_score"


# ---- flow_grpo and Edit-R1


def test_flow_grpo_and_edit_r1(server):
    images = np.stack([np.full((3, 4, 4), shade, np.float32) for shade in (0.0, 0.5, 1.0)])
    before = np.zeros((3, 4, 4, 3), np.uint8)
    one, other = edit_reward(server.url), edit_r1_reward(server.url)
    scores, details = one(images, ["a", "b", "c"], None, ref_images=before)
    expected = [pytest.approx(reward_of(encoded(image, "x"))) for image in images]
    assert scores == expected and len(details["visual_quality"]) == 3
    assert other(before, images, ["a", "b", "c"], [{}] * 3)[0] == expected
    assert one(images, ["a", "b", "c"], [{"source": BEFORE}] * 3)[0] == expected
    for error, message, wrong in (
        (InputError, "no source image", (images, ["a", "b", "c"], [{}] * 3)),
        (RewardServerError, "1 of 2 edits were not judged", ([picture(2), BAD], ["a", "b"], None, [BEFORE] * 2)),
        (InputError, "3 source images for 2", (images[:2], ["a", "b"], None, before)),
        (InputError, "1 prompts for 3 images", (images, ["a"], None, before)),
    ):
        with pytest.raises(error, match=message):
            one(*wrong)


# ---- examples: each configuration is read, and what it names is called as its trainer calls it


def example(name: str, server: Running) -> str:
    """An example, with the address of a server that runs."""
    text = (ROOT / "examples" / "trainers" / name).read_text("utf-8")
    assert "http://127.0.0.1:8100" in text
    return text.replace("http://127.0.0.1:8100", server.url)


def program(name: str, server: Running) -> dict[str, Any]:
    """The names of an example that is a program."""
    names: dict[str, Any] = {"__name__": name}
    exec(compile(example(f"{name}.py", server), name, "exec"), names)
    return names


def test_the_example_of_verl(server):
    reward = yaml.safe_load(example("verl.yaml", server))["reward"]["custom_reward_function"]
    assert (ROOT / reward["path"]).is_file()
    function = getattr(importlib.import_module(reward["path"].removesuffix(".py").replace("/", ".")), reward["name"])
    assert [function("edits", "text", RED, INFO, **reward["reward_kwargs"])["score"]] == rewards(9)


@pytest.mark.parametrize(
    "info", [{"source": BEFORE}, {"source_img": {"bytes": BEFORE, "path": None}}, {"source_image": {"bytes": BEFORE}}]
)
def test_the_example_of_verl_omni(server, judge, info):
    [entry] = yaml.safe_load(example("verl_omni.yaml", server))["reward"]["reward_functions"].values()
    assert entry["required"] is True, "otherwise a failure is 0.0"
    function = getattr(importlib.import_module(entry["path"].removeprefix("pkg://")), entry["name"])
    more = {name: value for name, value in entry.items() if name not in {"path", "name", "required"}}
    pixels = np.zeros((3, 4, 5), np.float32)
    pixels[0] = 1.0
    for image in (pixels, np.full((1, 3, 4, 4), 7, np.uint8)):
        given = {"data_source": "edits", "solution_image": image, "ground_truth": RED, "extra_info": info}
        score = pytest.approx(asyncio.run(function(**given, **more))["score"])
        sent = next(each for each in judge.asked if score == reward_of(each.candidates[0].data))
        assert sent.source.data == BEFORE and sent.instruction == RED
        assert image is not pixels or (decoded(sent.candidates[0].data) == (255, 0, 0)).all()


def test_the_example_of_flow_factory(server, judge):
    [entry] = yaml.safe_load(example("flow_factory.yaml", server))["rewards"]
    path = entry["server_url"].removeprefix(server.url)
    assert server.get(f"{path}/health").status == 200
    batch = {"prompt": ["a", "b"], "image": [b64(picture(2)), b64(picture(3))], "kwargs": None, "video": None}
    batch |= {"condition_images": [[b64(BEFORE), b64(SECOND)], [b64(BEFORE)]], "condition_videos": None}
    assert server.post(f"{path}/compute", batch).json == {"rewards": rewards(2, 3)}
    assert any([image.data for image in each.sources] == [BEFORE, SECOND] for each in judge.asked)
    reply = server.post(f"{path}/compute", {**batch, "image": [b64(picture(2)), b64(BAD)]})
    assert (reply.status, list(reply.json)) == (200, ["error"])
    assert reply.json["error"].startswith("1 of 2 edits were not judged")


def test_the_example_of_unirl(server):
    config = yaml.safe_load(example("unirl.yaml", server))["reward"]["backend"]["config"]
    path = config["base_url"].removeprefix(server.url)
    roster = server.get(f"{path}/health")
    assert roster.status == 200 and set(config["required_rewards"]) <= set(roster.json["rewards"])
    history = [{"text": "a", "image_b64": b64(BEFORE)}, {"text": "a", "image_b64": b64(picture(2))}]
    request = {"history": history, "required_rewards": config["required_rewards"], "metadata": None, "group_id": "g"}
    reply = server.post(f"{path}/score", {"protocol_version": "1", "requests": [request]})
    assert reply.status == 200 and config["sub_metric_reduce"] == "first"
    assert [next(iter(reply.json["results"][0]["rewardharness"].values()))] == rewards(2)


def test_the_example_of_flow_grpo_and_edit_r1(server):
    names = program("flow_grpo", server)
    assert names["flow_grpo_reward"]("cpu")([picture(2)], ["a"], [{"source": BEFORE}])[0] == rewards(2)
    assert names["edit_r1"]("cpu")([BEFORE], [picture(2)], ["a"], [{}])[0] == rewards(2)


def test_the_example_of_trl(server, judge):
    reward = program("trl_grpo", server)["reward"]()
    row = {"source": [Image.new("RGB", (8, 8), (100, 100, 100))] * 2, "instruction": ["brighter"] * 2}
    first, second = reward(prompts=["p"] * 2, completions=["1.5", "brighter"], **row)
    reward.close()
    assert first == pytest.approx(reward_of(judge.asked[-1].candidates[0].data)) and second is None


def test_the_example_of_openrlhf(server, judge):
    function = program("openrlhf_reward", server)["reward_func"]
    found = function(["Write a slogan.\nCold for a day.<|im_end|>\n"], ["Write a slogan.\n"], [""])
    assert judge.asked[-1].candidates[0].text == "Cold for a day." and judge.asked[-1].instruction.startswith("Write")
    assert found["rewards"] == found["scores"] and isinstance(found["rewards"], float)
    found = function(["ab", "ac"], ["a", "a"], ["Say b.", "Say c."])
    assert len(found["rewards"]) == 2 and {each.instruction for each in judge.asked[-2:]} == {"Say b.", "Say c."}
    with Running(ReadyJudge(lambda example: Failure("no_answer", "Nothing was said."))) as silent:
        function = openrlhf.make_reward_func(silent.url)
        with pytest.raises(RewardServerError, match="The response was not judged: no_answer"):
            function(["ab"], ["a"], [None])


# ---- arrays


def decoded(data: bytes) -> np.ndarray:
    """Height, width, channels."""
    found = np.asarray(Image.open(io.BytesIO(data)))
    return found if found.ndim == 3 else found[:, :, None]


@pytest.mark.parametrize("shape", [(3, 6, 5), (6, 5, 3), (1, 6, 5), (6, 5, 1), (4, 6, 5)])
@pytest.mark.parametrize("kind", [np.uint8, np.float32, np.float64])
def test_arrays_of_all_shapes_arrive_as_they_are(shape, kind):
    random = np.random.default_rng(3)
    eight = random.integers(0, 256, shape, dtype=np.uint8)
    given = eight if kind == np.uint8 else (eight / 255).astype(kind)
    rows = np.moveaxis(eight, 0, 2) if shape[0] in {1, 3, 4} else eight
    sent = decoded(encoded(given, "x"))
    assert (sent == rows).all() and sent.shape == rows.shape


@pytest.mark.parametrize(
    ("image", "said"),
    [
        (np.zeros((5, 6)), "three dimensions"),
        (np.zeros((5, 6, 7)), "number of channels"),
        (np.zeros((3, 4, 4), np.int32), "int32"),
        *((np.full((3, 4, 4), value), r"belong in \[0, 1\]") for value in (-1.0, np.nan, 255.0)),
        ("a text", "of type str"),
        (None, "of type NoneType"),
    ],
)
def test_what_is_no_image_is_refused(image, said):
    with pytest.raises(ImageError, match=said):
        encoded(image, "it")


def test_a_batch_has_four_dimensions():
    with pytest.raises(ImageError, match="four dimensions"):
        pictures(np.zeros((3, 4, 4)), "the images")
    with pytest.raises(ImageError, match="number 1 has floats"):
        pictures(np.full((2, 3, 4, 4), 2.0), "the images")

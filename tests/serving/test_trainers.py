import asyncio
import inspect
import io
import pickle
import pydoc
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from serving_parts import ReadyJudge, Running, picture, reward_of

from rewardharness.arrays import picture as encoded
from rewardharness.arrays import pictures
from rewardharness.errors import ImageError, InputError
from rewardharness.library.store import EMPTY
from rewardharness.schema import Failure, Scores
from rewardharness.serving import verl
from rewardharness.serving.client import ClientSettings, IdentityError, RewardClient, RewardServerError
from rewardharness.serving.flow_grpo import edit_r1_reward, edit_reward
from rewardharness.serving.trl import AsyncEditReward, EditReward

BEFORE, BAD = picture(1), picture(66)
PATIENT_NOT = ClientSettings(on_error="none", attempts=1)


@pytest.fixture(scope="module")
def judge() -> ReadyJudge:
    """A judge that fails on one image."""
    lost = Failure("timeout", "It took too long.")
    return ReadyJudge(lambda example: lost if example.candidates[0].data == BAD else None)


class Telling:
    """What TRL hands over to log with."""

    def __init__(self) -> None:
        self.metrics: dict[str, float] = {}

    def __call__(self, name: str, value: float) -> None:
        self.metrics[name] = value


def columns(*edited: object) -> dict:
    return {"source": [BEFORE] * len(edited), "instruction": ["make it red"] * len(edited), "edited": list(edited)}


def test_trl_gets_a_reward_for_each_and_none_for_what_was_not_judged(server):
    reward, log = EditReward(server.url), Telling()
    edited = [picture(2), BAD, None, picture(3)]
    found = reward(
        prompts=["p"] * 4, completions=["c"] * 4, completion_ids=[[1]] * 4, log_metric=log, **columns(*edited)
    )
    assert found == [pytest.approx(reward_of(picture(2))), None, None, pytest.approx(reward_of(picture(3)))]
    assert log.metrics == {"rewardharness/not_judged": 0.25, "rewardharness/nothing_drawn": 0.25}
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
    with Running(Ungradable()) as server:
        log = Telling()
        strict, opted = EditReward(server.url), EditReward(server.url, allow_ungradable=True)
        assert strict(prompts=["p"], completions=["c"], **columns(picture(2))) == [None]
        found = opted(prompts=["p"], completions=["c"], log_metric=log, **columns(picture(2)))
        assert found == [pytest.approx(reward_of(picture(2)))]
        assert log.metrics["rewardharness/confidence"] == pytest.approx(0.2)
        assert strict(prompts=["p"], completions=["c"], **columns(picture(2))) == [None]
        strict.close()
        opted.close()
        with RewardClient(server.url) as client:
            compared = client.compare("x", BEFORE, picture(2), picture(3))
            assert compared.preference in {"A", "B"}
            assert compared.confidence == pytest.approx(0.2)
            assert [(each.value, each.reason.split(":")[0]) for each in compared.rewards] == [
                (None, "not_gradable")
            ] * 2
            ranked = client.rank("x", BEFORE, [picture(2), picture(3)], method="win_rate")
            assert {each.value for each in ranked} == {0.0, 1.0}
            assert [each.confidence for each in ranked] == [pytest.approx(0.2)] * 2


def test_trl_draws_what_a_model_wrote(server):
    def draw(completion: str, row: dict) -> bytes | None:
        assert row["source"] == BEFORE and row["shade"] in {7, 8}
        return picture(int(completion)) if completion.isdigit() else None

    reward = EditReward(server.url, edited=draw)
    given = {**columns(None, None), "shade": [7, 8]}
    assert reward(["p"] * 2, ["5", "five"], **given) == [pytest.approx(reward_of(picture(5))), None]
    reward.close()


def said(content: object, role: str = "user") -> dict:
    return {"role": role, "content": content}


def part(text: object) -> dict:
    return {"type": "text", "text": text}


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("make it blue", "make it blue"),
        ([said("You edit images.", "system"), said("make it blue")], "make it blue"),
        (
            [said([{"type": "image"}, {"type": "text", "text": "make it"}, {"type": "text", "text": "blue"}])],
            "make it blue",
        ),
        ([said("hello"), said("Yes?", "assistant"), said("make it blue"), said("Sure:", "assistant")], "make it blue"),
        *[
            (each, None)
            for each in (None, 3, 0.5, True, b"make it blue", {}, said("make it blue"), [None], [3], [], [{}])
        ],
        *[(each, None) for each in (["make it blue"], [said(None)], [said([])], [said(7)], [said("blue", "system")])],
        *[([said([{"type": "text", "text": each}])], None) for each in (None, 3, " ")],
        ([said("make it blue"), said([{"type": "image"}])], None),
    ],
)
def test_an_instruction_is_text_or_a_conversation_and_nothing_else_is_scored(server, judge, prompt, text):
    log, reward = Telling(), EditReward(server.url, instruction="prompt")
    given = {**columns(picture(2), picture(3)), "prompt": [prompt, "make it red"], "log_metric": log}
    first, second = reward(["p"] * 2, ["c"] * 2, **given)
    reward.close()
    assert first == (None if text is None else pytest.approx(reward_of(picture(2))))
    assert second == pytest.approx(reward_of(picture(3)))
    assert log.metrics["rewardharness/not_judged"] == (0.5 if text is None else 0)
    assert {example.instruction for example in judge.asked} <= {"make it blue", "make it red", "a", "b", "c"}
    if text is None:
        with pytest.raises(RewardServerError, match="input: The instruction is "):
            edit_reward(server.url)([picture(2)], [prompt], None, [BEFORE])


PROMPTS = [said([{"type": "image"}, part("make it red")]), said("Sure:", "assistant")]


@pytest.mark.parametrize("columns", [{"images": [[BEFORE, picture(9)], []]}, {"image": [BEFORE, None]}])
def test_conversational_prompts_and_image_columns_of_trl_are_taken_as_they_are(server, judge, columns):
    reward, log = EditReward(server.url), Telling()
    found = reward([PROMPTS] * 2, ["c"] * 2, edited=[picture(2), picture(3)], log_metric=log, **columns)
    reward.close()
    assert found == [pytest.approx(reward_of(picture(2))), None], "without a source there is nothing to judge"
    assert any(each.instruction == "make it red" and each.source.data == BEFORE for each in judge.asked)
    assert log.metrics["rewardharness/nothing_drawn"] == 0.5


def test_a_judge_in_this_process_gives_the_rewards_of_a_server(judge):
    reward, log = EditReward(judge=judge, library=EMPTY), Telling()
    edited = [picture(2), BAD, None, 3]
    expected = [pytest.approx(reward_of(picture(2))), None, None, None]
    assert reward(["p"] * 4, ["c"] * 4, log_metric=log, **columns(*edited)) == expected
    assert log.metrics == {"rewardharness/not_judged": 0.5, "rewardharness/nothing_drawn": 0.25}
    given = {**columns(picture(2), picture(3)), "instruction": [None, "make it red"]}
    assert reward(["p"] * 2, ["c"] * 2, **given) == [None, pytest.approx(reward_of(picture(3)))]
    assert reward([None], ["c"], source=[BEFORE], edited=[picture(2)]) == [None]

    async def trainer() -> list:
        quiet = AsyncEditReward(judge=judge, library=EMPTY)
        awaited = await quiet(["p"] * 4, ["c"] * 4, **columns(*edited))
        return [awaited, reward(["p"] * 4, ["c"] * 4, **columns(*edited))]

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
        reward(["p"], ["c"], **columns(picture(1)))
    reward.close()


def test_a_reward_function_can_be_pickled(server):
    reward = EditReward(server.url, name="red")
    again = pickle.loads(pickle.dumps(reward))  # our own
    assert again.__name__ == "red" and again(["p"], ["c"], **columns(picture(4))) == [
        pytest.approx(reward_of(picture(4)))
    ]
    again.close()
    reward.close()


def test_trl_awaits_it_as_well(server):
    reward = AsyncEditReward(server.url)

    async def main() -> list[float | None]:
        found = await reward(["p"] * 2, ["c"] * 2, **columns(picture(2), BAD))
        await reward.close()
        return found

    assert asyncio.run(main()) == [pytest.approx(reward_of(picture(2))), None]
    assert pickle.loads(pickle.dumps(reward)).__name__ == "edit_reward"  # our own


def test_both_kinds_say_what_they_take_and_what_it_means():
    for kind in (EditReward, AsyncEditReward):
        assert list(inspect.signature(kind).parameters) == [
            *("url", "release", "token", "judge", "library", "source", "instruction", "edited"),
            *("references", "settings", "name", "allow_ungradable"),
        ]
        shown = pydoc.plain(pydoc.render_doc(kind))
        assert "Hash of the release that must be served" in shown and "on_error=" in shown
    assert inspect.iscoroutinefunction(AsyncEditReward.__call__), "TRL looks at this"


def test_the_asynchronous_kind_holds_the_server_to_who_judged_at_first(server):
    reward = AsyncEditReward(server.url)

    async def main(asked: AsyncEditReward) -> str | None:
        await asked(["p"], ["c"], **columns(picture(2)))
        held = asked._asked.identity.judge
        pickle.dumps(asked)  # in use, and still nothing of the loop goes along
        await asked.close()
        return held

    assert asyncio.run(main(reward)) == "ready"
    assert asyncio.run(main(pickle.loads(pickle.dumps(reward)))) == "ready"  # our own


def test_a_server_that_dies_is_an_error_or_none_and_never_a_number():
    with Running(ReadyJudge()) as server:
        raising = EditReward(server.url, settings=ClientSettings(attempts=1))
        quiet = EditReward(server.url, settings=PATIENT_NOT)
    with pytest.raises(RewardServerError):
        raising(["p"], ["c"], **columns(picture(2)))
    assert quiet(["p"], ["c"], **columns(picture(2))) == [None]
    raising.close()
    quiet.close()
    with pytest.raises(RewardServerError):
        EditReward(server.url, settings=PATIENT_NOT)


def test_training_does_not_begin_with_another_release(server):
    for make in (EditReward, AsyncEditReward):
        with pytest.raises(IdentityError, match="is wanted"):
            make(server.url, release="0" * 64)


# ---- verl and verl-omni


def test_verl(server):
    info = {"source": BEFORE, "edited": picture(9), "instruction": "make it red"}
    found = verl.compute_score("edits", "text", None, info, url=server.url, reward_router_address=None)
    assert found["score"] == pytest.approx(reward_of(picture(9))) and found["visual_quality"] >= 1
    with pytest.raises(RewardServerError, match="timeout: The judge"):
        verl.compute_score("edits", "text", None, {**info, "edited": BAD}, url=server.url)
    with pytest.raises(InputError, match="no edited"):
        verl.compute_score("edits", "text", "make it red", {"source": BEFORE}, url=server.url)


def test_verl_shows_the_token_of_the_environment(monkeypatch):
    token = "0123456789abcdef"
    info = {"source": BEFORE, "edited": picture(9), "instruction": "make it red"}
    with Running(ReadyJudge(), token=token) as server:
        monkeypatch.setenv("RH_SERVER_TOKEN", "another-token-of-16")
        with pytest.raises(RewardServerError, match="token"):
            verl.compute_score("edits", "text", None, info, url=server.url)
        given = verl.compute_score("edits", "text", None, info, url=server.url, token=token)
        monkeypatch.setenv("RH_SERVER_TOKEN", token)
        assert verl.compute_score("edits", "text", None, info, url=server.url) == given


def test_verl_loads_it_by_its_path(server):
    code = (
        "import importlib.util as u, sys; s = u.spec_from_file_location('custom_module', sys.argv[1]);"
        "m = u.module_from_spec(s); s.loader.exec_module(m); print(m.compute_score.__name__)"
    )
    path = Path(verl.__file__)
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "compute_score"


def test_verl_omni_sends_tensors(server, judge):
    image = np.zeros((3, 4, 5), np.float32)
    image[0] = 1.0

    async def main() -> dict:
        return await verl.compute_edit_score(
            data_source="edits",
            solution_image=image,
            ground_truth="make it red",
            extra_info={"source_image": BEFORE},
            url=server.url,
            weight=1.0,
        )

    found = asyncio.run(main())
    sent = judge.asked[-1]
    assert sent.instruction == "make it red" and found["score"] == pytest.approx(reward_of(sent.candidates[0].data))
    pixels = decoded(sent.candidates[0].data)
    assert pixels.shape == (4, 5, 3) and (pixels == (255, 0, 0)).all()


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
    with pytest.raises(InputError, match="no source image"):
        one(images, ["a", "b", "c"], [{}] * 3)
    with pytest.raises(RewardServerError, match="1 of 2 edits were not judged"):
        one([picture(2), BAD], ["a", "b"], None, [BEFORE, BEFORE])
    with pytest.raises(InputError, match="3 source images for 2"):
        one(images[:2], ["a", "b"], None, before)
    with pytest.raises(ImageError, match="1 prompts for 3 images"):
        one(images, ["a"], None, before)


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
        (np.full((3, 4, 4), -1.0), r"belong in \[0, 1\]"),
        (np.full((3, 4, 4), np.nan), r"belong in \[0, 1\]"),
        (np.full((3, 4, 4), 255.0), r"belong in \[0, 1\]"),
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

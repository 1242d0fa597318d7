"""A single candidate is scored alone: no preference, no margin, no order, and the same numbers as in a pair."""

import asyncio
import io
import json
import math
from dataclasses import replace
from pathlib import Path
from statistics import variance

import numpy as np
import pytest
from model_server import Call, ModelServer, completion
from PIL import Image

from rewardharness.cli.main import main
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.evaluate import evaluate
from rewardharness.judging.measured import MeasuredJudge
from rewardharness.judging.model_config import PROTOCOLS, ModelJudgeConfig, Protocol
from rewardharness.judging.opening import open_judge
from rewardharness.judging.presentation import PresentationOrder
from rewardharness.judging.report import make_report
from rewardharness.judging.subagent import SubAgent
from rewardharness.judgments import judgment_from_json, judgment_json, result_line
from rewardharness.library.opening import open_library
from rewardharness.library.store import EMPTY, Library
from rewardharness.models.base import ChatRequest, Reply, TextPart
from rewardharness.models.scripted import Script, ScriptedModel
from rewardharness.schema import Example, Failure, ImageInput, Judgment, Scores
from rewardharness.settings import Settings

GOOD = '{"instruction": 3, "quality": 4}'
REWARD = (3 + 4 - 2) / 6


def drawn(level: int) -> ImageInput:
    """A scene with a box, which is grey at level 0 and redder above."""
    random = np.random.default_rng(5)
    coarse = Image.fromarray(random.integers(60, 200, (8, 8, 3), dtype=np.uint8))
    pixels = np.asarray(coarse.resize((128, 128), Image.Resampling.BICUBIC)).copy()
    pixels[40:90, 40:90] = (120 + level, 120 - level, 110 - level)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return ImageInput(f"image {level}", data=buffer.getvalue())


def example(*levels: int, name: str = "x") -> Example:
    return Example(name, "make the box red", drawn(0), tuple(drawn(level) for level in levels))


@pytest.fixture(scope="module")
def library() -> Library:
    return open_library("builtin")


def ask(model: ScriptedModel, library: Library = EMPTY, *levels: int, **settings: object) -> Judgment:
    agent = SubAgent(model, ModelJudgeConfig(**settings))  # type: ignore[arg-type]
    return asyncio.run(agent.judge(example(*(levels or (90,))), library))


def check_scored(judgment: Judgment) -> None:
    """What holds of every judgment of one candidate, whoever made it."""
    assert judgment.judged and judgment.failure is None
    assert (judgment.ranking, set(judgment.scores)) == ((("A",),), {"A"})
    assert judgment.preference is judgment.margin is judgment.position_consistent is None
    assert 0 <= (judgment.scores["A"].reward or 0) <= 1


def reply_for(protocol: Protocol) -> ScriptedModel:
    def reply(request: ChatRequest) -> Script:
        if protocol == "logprob":
            return Reply("3", top_logprobs=({"3": math.log(0.6), "4": math.log(0.2), "x": math.log(0.2)},))
        if request.schema is not None and protocol == "rubric":
            return json.dumps(dict.fromkeys(request.schema["properties"], 4))
        return f"<think>looked</think><answer>{GOOD}</answer>" if protocol == "chain" else GOOD

    return ScriptedModel(reply)


@pytest.mark.parametrize("other", [0, 40])
def test_the_measured_reward_is_that_of_the_pair_to_the_last_digit(other: int, library: Library) -> None:
    alone = MeasuredJudge().judge_now(example(90), library)
    check_scored(alone)
    assert alone.confidence is not None and alone.confidence > 0.5
    assert alone.scores["A"] == MeasuredJudge().judge_now(example(90, other), library).scores["A"]
    assert alone.scores["A"] == MeasuredJudge().judge_now(example(other, 90), library).scores["B"]
    assert alone.steps[-1].kind == "answer" and "preference" not in alone.steps[-1].text
    assert alone.reasons == ()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_scores_one_candidate(protocol: Protocol, library: Library) -> None:
    model = reply_for(protocol)
    judgment = ask(model, library, protocol=protocol, ties=True)
    check_scored(judgment)
    assert judgment.judge == "scripted"
    assert judgment.usage.calls == len(model.requests) == (2 if protocol == "logprob" else 1)
    wanted = {"chain": "chain, one candidate", "direct": "direct, one candidate", "logprob": "logprob, one candidate"}
    assert judgment.protocol == wanted.get(protocol, protocol)
    for request in model.requests:
        assert len(request.images) == 2
        text = " ".join(part.text for each in request.messages for part in each.parts if isinstance(part, TextPart))
        asked = text.split("Notes on judging")[0].lower()
        for word in (
            "prefer",
            "candidates",
            "candidate b",
            "other candidate",
            "compare every",
            "tie",
            "order in which",
        ):
            assert word not in asked.replace("properties", ""), word


def test_the_scores_are_those_that_the_model_gave() -> None:
    for protocol in ("chain", "direct", "pointwise"):
        judgment = ask(reply_for(protocol), protocol=protocol)  # type: ignore[arg-type]
        assert judgment.scores["A"] == Scores(3, 4, REWARD)
    expected = (3 * 0.6 + 4 * 0.2) / 0.8
    scores = ask(reply_for("logprob"), protocol="logprob").scores["A"]
    assert scores.instruction == pytest.approx(expected)
    assert scores.reward == pytest.approx((2 * expected - 2) / 6)


def test_samples_are_averaged() -> None:
    model = ScriptedModel(['{"instruction": 2, "quality": 4}', '{"instruction": 4, "quality": 4}'])
    judgment = ask(model, protocol="direct", samples=2)
    assert judgment.scores["A"].instruction == 3
    assert judgment.protocol == "direct, one candidate, 2 samples"


def test_a_tool_can_look_at_the_one_candidate(library: Library) -> None:
    def talk(request: ChatRequest) -> Script:
        call = '<tool>{"name": "change-map", "images": ["source", "A"]}</tool>'
        return call if len(request.messages) == 2 else f"<answer>{GOOD}</answer>"

    judgment = ask(ScriptedModel(talk), library)
    check_scored(judgment)
    assert next(json.loads(step.text) for step in judgment.steps if step.kind == "obs")["A"]["says"]


@pytest.mark.parametrize("protocol", ["chain", "direct", "pointwise"])
@pytest.mark.parametrize("reply", ["It is good.", '{"instruction": 3}', '{"instruction": 5, "quality": 4}', ""])
def test_a_missing_score_is_asked_for_once_more_and_then_no_judgment(protocol: Protocol, reply: str) -> None:
    text = f"<answer>{reply}</answer>" if protocol == "chain" and reply.startswith("{") else reply
    model = ScriptedModel(lambda request: text)
    judgment = ask(model, protocol=protocol)
    assert not judgment.judged and judgment.scores == {}
    assert judgment.failure is not None and judgment.failure.code == "no_answer"
    assert len(model.requests) == 2
    assert ask(ScriptedModel([text, GOOD]), protocol=protocol).scores["A"] == Scores(3, 4, REWARD)


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Reply("Sure", top_logprobs=({"Sure": -0.01, "3": -6.0},)), "no_answer"),
        (Reply("3"), "no_logprobs"),
        (Reply("3", top_logprobs=({"3": 1000.0},)), "bad_response"),
        (Reply("3", top_logprobs=({"3": -0.1, "4": math.nan},)), "bad_response"),
    ],
)
def test_digits_without_probability_are_no_score(reply: Reply, code: str) -> None:
    judgment = ask(ScriptedModel(lambda request: reply), protocol="logprob")
    assert not judgment.judged
    assert judgment.failure is not None and judgment.failure.code == code


@pytest.mark.parametrize("protocol", ["chain", "direct", "pointwise", "rubric"])
@pytest.mark.parametrize("number", ["4" * 400, "-" + "4" * 400, "4e400", "NaN", "4" * 5000])
def test_a_number_beyond_all_numbers_is_no_score(protocol: Protocol, number: str, library: Library) -> None:
    def reply(request: ChatRequest) -> Script:
        keys = list((request.schema or {}).get("properties", {})) or ["instruction", "quality"]
        said = json.dumps(dict.fromkeys(keys, 3)).replace("3", number)
        return f"<think>looked</think><answer>{said}</answer>" if protocol == "chain" else said

    judgment = ask(ScriptedModel(reply), library, protocol=protocol)
    assert judgment.failure is not None and judgment.failure.code == "no_answer", judgment.failure


def test_one_candidate_and_a_pair_are_different_questions(tmp_path: Path) -> None:
    cache = JudgmentCache(tmp_path)
    agent = SubAgent(reply_for("direct"), ModelJudgeConfig(protocol="direct"), cache)
    assert agent.presentations(("A",)) == [PresentationOrder(("A",))]
    first = asyncio.run(agent.judge(example(90), EMPTY))
    again = asyncio.run(agent.judge(example(90), EMPTY))
    assert (first.usage.calls, again.usage.calls, first.scores) == (1, 0, again.scores)
    assert asyncio.run(agent.judge(example(40), EMPTY)).usage.calls == 1
    assert not asyncio.run(agent.judge(example(90, 40), EMPTY)).judged, "the pair was asked, and answered as one"
    cache.close()


@pytest.mark.parametrize("instruction", ["x", "make him frown", "asdf qwer", "be good", "move the box onto the shelf"])
def test_an_instruction_that_pixels_cannot_grade_gives_no_reward(instruction: str, library: Library) -> None:
    asked = replace(example(90), instruction=instruction)
    alone = MeasuredJudge().judge_now(asked, library)
    assert not alone.judged
    assert alone.failure is not None and alone.failure.code == "not_gradable"
    assert (alone.scores["A"].instruction, alone.scores["A"].reward) == (None, None)
    record = json.dumps(result_line(alone))
    assert "evidence" not in record and json.loads(record)["scores"]["A"]["reward"] is None

    opted = MeasuredJudge(allow_ungradable=True).judge_now(asked, library)
    check_scored(opted)
    assert opted.scores["A"].instruction is None
    assert opted.confidence is not None and opted.confidence <= 0.25

    pair = MeasuredJudge().judge_now(replace(example(90, 0), instruction=instruction), library)
    assert pair.preference == "A"
    assert pair.confidence is not None and pair.confidence <= 0.25
    assert [each.reward for each in pair.scores.values()] == [None, None]


@pytest.mark.parametrize(
    "instruction",
    ["make the box green", "make the image darker", "remove the red lamp and paint the box blue", "make it grayscale"],
)
def test_a_specific_request_that_is_not_met_limits_the_instruction_score(instruction: str, library: Library) -> None:
    judgment = MeasuredJudge().judge_now(replace(example(90), instruction=instruction), library)
    assert judgment.scores["A"].instruction is not None
    assert judgment.scores["A"].instruction <= 2
    assert (judgment.scores["A"].reward or 0) < 0.5
    met = MeasuredJudge().judge_now(example(90), library).scores["A"]
    assert (met.instruction or 0) > 3


def test_no_candidate_is_refused() -> None:
    judgment = MeasuredJudge().judge_now(example(), EMPTY)
    assert judgment.failure is not None and judgment.failure.code == "input"


def test_a_judgment_of_one_is_counted_written_and_read_back(library: Library) -> None:
    made = list(evaluate(MeasuredJudge(), library, [example(90), example(name="none"), example(0, 90, name="pair")]))
    report = make_report(made)
    assert (report.n, report.judged, report.by_label_kind, report.position_consistent) == (3, 2, {}, (1, 1))
    for _, judgment in made:
        back = judgment_from_json(json.loads(json.dumps(result_line(judgment))))
        assert result_line(back) == result_line(judgment)
        assert (back.judged, back.scores) == (judgment.judged, judgment.scores)
    record = judgment_json(made[0][1])
    assert record["preference"] is None and record["margin"] is None and record["ranking"] == [["A"]]
    assert set(record["scores"]) == {"A"} and record["failure"] is None


def test_a_failure_is_not_judged_whatever_scores_it_carries() -> None:
    scores = {"A": Scores(3, 3, 0.5)}
    assert Judgment("x", "judge", "protocol", "library", scores=scores).judged
    assert not Judgment("x", "judge", "protocol", "library", scores=scores, failure=Failure("input", "no")).judged
    assert not Judgment("x", "judge", "protocol", "library").judged


@pytest.mark.parametrize("protocol", ["chain", "direct", "logprob", "pointwise"])
def test_over_http(protocol: Protocol) -> None:
    def respond(call: Call) -> dict[str, object] | None:
        if len(call.images) != 2:
            return None  # what is asked to find out about the server
        if protocol == "logprob":
            return completion("4", top_logprobs=5)
        return completion(f"<think>looked</think><answer>{GOOD}</answer>" if protocol == "chain" else GOOD)

    with ModelServer(respond) as server:
        judge = open_judge(f"vllm:judge@{server.url}", Settings.from_env(), no_cache=True, protocol=protocol)
        [(_, judgment)] = evaluate(judge, EMPTY, [example(90)])
    check_scored(judgment)
    assert judgment.scores["A"].reward == (1.0 if protocol == "logprob" else REWARD)


def test_rh_score_of_one_candidate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = []
    for name, image in (("source", drawn(0)), ("edit", drawn(90))):
        paths.append(tmp_path / f"{name}.png")
        paths[-1].write_bytes(image.data or b"")
    asked = ["score", "--source", str(paths[0]), "--candidate", str(paths[1]), "--instruction", "make the box red"]
    assert main([*asked, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["preference"] is None and record["ranking"] == [["A"]]
    assert main(asked) == 0
    shown = capsys.readouterr().out
    assert f"{record['scores']['A']['reward']:.3f}" in shown
    assert "preferred" not in shown and "tie" not in shown


def test_repeated_questions_tell_how_steady_the_judge_is() -> None:
    replies = [f'{{"instruction": {grade}, "quality": 4}}' for grade in (1, 4, 4)]
    judgment = ask(ScriptedModel(replies), protocol="pointwise", samples=3)
    rewards = [0.5, 1.0, 1.0]
    assert judgment.scores["A"].reward == pytest.approx(sum(rewards) / 3)
    assert judgment.scores["A"].variance == pytest.approx(variance(rewards))
    assert judgment_from_json(result_line(judgment)).scores == dict(judgment.scores)
    assert ask(ScriptedModel([GOOD]), protocol="pointwise").scores["A"].variance is None

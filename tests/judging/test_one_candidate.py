"""A single candidate is scored alone: no preference, no margin, no order, and the same numbers as in a pair."""

import json
import math
from dataclasses import replace
from pathlib import Path
from statistics import variance

import pytest
from judge_parts import agent, ask, boxed, code, observations, redder, text_of

from rewardharness.cli.main import main
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.evaluate import evaluate
from rewardharness.judging.measured import MeasuredJudge
from rewardharness.judging.model_config import PROTOCOLS, Protocol
from rewardharness.judging.presentation import PresentationOrder
from rewardharness.judging.report import make_report
from rewardharness.judgments import judgment_from_json, judgment_json, result_line
from rewardharness.library.opening import open_library
from rewardharness.library.store import Library
from rewardharness.models.base import ChatRequest, Reply
from rewardharness.models.open import Script, ScriptedModel
from rewardharness.schema import Failure, Judgment, Scores

GOOD = '{"instruction": 3, "quality": 4}'
REWARD = (3 + 4 - 2) / 6
ALONE = redder(90)


@pytest.fixture(scope="module")
def library() -> Library:
    return open_library("builtin")


def check_scored(judgment: Judgment) -> None:
    """What holds of every judgment of one candidate, whoever made it."""
    assert judgment.judged and judgment.failure is None
    assert (judgment.ranking, set(judgment.scores)) == ((("A",),), {"A"})
    assert judgment.preference is judgment.margin is judgment.position_consistent is None
    assert 0 <= judgment.scores["A"].reward <= 1


def chained(protocol: Protocol, said: str) -> str:
    return f"<think>looked</think><answer>{said}</answer>" if protocol == "chain" else said


def reply_for(protocol: Protocol) -> ScriptedModel:
    def reply(request: ChatRequest) -> Script:
        if protocol == "logprob":
            return Reply("3", top_logprobs=({"3": math.log(0.6), "4": math.log(0.2), "x": math.log(0.2)},))
        if "principles" in (request.schema or {}).get("properties", {}):
            about = [{"text": f"Statement {n}.", "about": "instruction", "weight": n} for n in (1, 2, 3)]
            return json.dumps({"principles": about})
        if protocol in ("rubric", "checklist"):
            return json.dumps(dict.fromkeys(request.schema["properties"], 4 if protocol == "rubric" else 1))
        return chained(protocol, GOOD)

    return ScriptedModel(reply)


@pytest.mark.parametrize("other", [0, 40])
def test_the_measured_reward_is_that_of_the_pair_to_the_last_digit(other: int, library: Library) -> None:
    alone, first, second = (
        MeasuredJudge().judge_now(redder(*levels), library) for levels in ((90,), (90, other), (other, 90))
    )
    check_scored(alone)
    assert alone.confidence > 0.5 and alone.reasons == ()
    assert alone.scores["A"] == first.scores["A"] == second.scores["B"]
    assert alone.steps[-1].kind == "answer" and "preference" not in alone.steps[-1].text


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_scores_one_candidate(protocol: Protocol, library: Library) -> None:
    model = reply_for(protocol)
    judgment = ask(model, ALONE, library, protocol=protocol, ties=True)
    check_scored(judgment)
    assert judgment.usage.calls == len(model.requests) == (2 if protocol in ("logprob", "checklist") else 1)
    named = protocol if protocol in ("pointwise", "rubric", "checklist") else f"{protocol}, one candidate"
    assert (judgment.judge, judgment.protocol) == ("scripted", named)
    hints = ("prefer", "candidates", "candidate b", "other candidate", "compare every", "tie", "order in which")
    for request in model.requests:
        assert len(request.images) == (1 if "principles" in (request.schema or {}).get("properties", {}) else 2)
        asked = " ".join(map(text_of, request.messages)).split("Notes on judging")[0].lower()
        assert not [hint for hint in hints if hint in asked.replace("properties", "")]


def test_the_scores_are_those_that_the_model_gave() -> None:
    for protocol in ("chain", "direct", "pointwise"):
        assert ask(reply_for(protocol), ALONE, protocol=protocol).scores["A"] == Scores(3, 4, REWARD)
    expected = (3 * 0.6 + 4 * 0.2) / 0.8
    scores = ask(reply_for("logprob"), ALONE, protocol="logprob").scores["A"]
    assert (scores.instruction, scores.reward) == (pytest.approx(expected), pytest.approx((2 * expected - 2) / 6))


def test_samples_are_averaged_and_tell_how_steady_the_judge_is() -> None:
    model = ScriptedModel(['{"instruction": 2, "quality": 4}', '{"instruction": 4, "quality": 4}'])
    judgment = ask(model, ALONE, protocol="direct", samples=2)
    assert (judgment.scores["A"].instruction, judgment.protocol) == (3, "direct, one candidate, 2 samples")
    replies = [f'{{"instruction": {grade}, "quality": 4}}' for grade in (1, 4, 4)]
    judgment = ask(ScriptedModel(replies), ALONE, protocol="pointwise", samples=3)
    rewards = [0.5, 1.0, 1.0]
    assert judgment.scores["A"].reward == pytest.approx(sum(rewards) / 3)
    assert judgment.scores["A"].variance == pytest.approx(variance(rewards))
    assert judgment_from_json(result_line(judgment)).scores == dict(judgment.scores)
    assert ask(GOOD, ALONE, protocol="pointwise").scores["A"].variance is None


def test_a_tool_can_look_at_the_one_candidate(library: Library) -> None:
    call = '<tool>{"name": "change-map", "images": ["source", "A"]}</tool>'
    judgment = ask(ScriptedModel([call, f"<answer>{GOOD}</answer>"]), ALONE, library)
    check_scored(judgment)
    assert json.loads(observations(judgment)[0])["A"]["says"]


@pytest.mark.parametrize("protocol", ["chain", "direct", "pointwise"])
@pytest.mark.parametrize("reply", ["It is good.", '{"instruction": 3}', '{"instruction": 5, "quality": 4}', ""])
def test_a_missing_score_is_asked_for_once_more_and_then_no_judgment(protocol: Protocol, reply: str) -> None:
    text = f"<answer>{reply}</answer>" if protocol == "chain" and reply.startswith("{") else reply
    model = ScriptedModel(lambda request: text)
    judgment = ask(model, ALONE, protocol=protocol)
    assert (judgment.judged, judgment.scores, code(judgment), len(model.requests)) == (False, {}, "no_answer", 2)
    assert ask(ScriptedModel([text, GOOD]), ALONE, protocol=protocol).scores["A"] == Scores(3, 4, REWARD)


@pytest.mark.parametrize(
    ("reply", "wanted"),
    [
        (Reply("Sure", top_logprobs=({"Sure": -0.01, "3": -6.0},)), "no_answer"),
        (Reply("3"), "no_logprobs"),
        (Reply("3", top_logprobs=({"3": 1000.0},)), "bad_response"),
        (Reply("3", top_logprobs=({"3": -0.1, "4": math.nan},)), "bad_response"),
    ],
)
def test_digits_without_probability_are_no_score(reply: Reply, wanted: str) -> None:
    judgment = ask(reply, ALONE, protocol="logprob")
    assert not judgment.judged and code(judgment) == wanted


@pytest.mark.parametrize("protocol", ["chain", "direct", "pointwise", "rubric"])
@pytest.mark.parametrize("number", ["-" + "4" * 400, "4e400", "NaN", "4" * 5000])
def test_a_number_beyond_all_numbers_is_no_score(protocol: Protocol, number: str, library: Library) -> None:
    def reply(request: ChatRequest) -> Script:
        keys = list((request.schema or {}).get("properties", {})) or ["instruction", "quality"]
        return chained(protocol, json.dumps(dict.fromkeys(keys, 3)).replace("3", number))

    assert code(ask(ScriptedModel(reply), ALONE, library, protocol=protocol)) == "no_answer"


def test_one_candidate_and_a_pair_are_different_questions(tmp_path: Path) -> None:
    judge = agent(reply_for("direct"), JudgmentCache(tmp_path), protocol="direct")
    assert judge.presentations(("A",)) == [PresentationOrder(("A",))]
    first, again = ask(judge, ALONE), ask(judge, ALONE)
    assert (first.usage.calls, again.usage.calls, first.scores) == (1, 0, again.scores)
    assert ask(judge, redder(40)).usage.calls == 1
    assert not ask(judge, redder(90, 40)).judged, "the pair was asked, and answered as one"


@pytest.mark.parametrize("instruction", ["x", "make him frown", "asdf qwer", "be good", "move the box onto the shelf"])
def test_an_instruction_that_pixels_cannot_grade_gives_no_reward(instruction: str, library: Library) -> None:
    asked = redder(90, instruction=instruction)
    alone = MeasuredJudge().judge_now(asked, library)
    assert not alone.judged and code(alone) == "not_gradable"
    assert (alone.scores["A"].instruction, alone.scores["A"].reward) == (None, None)
    record = json.dumps(result_line(alone))
    assert "evidence" not in record and json.loads(record)["scores"]["A"]["reward"] is None

    opted = MeasuredJudge(allow_ungradable=True).judge_now(asked, library)
    check_scored(opted)
    assert opted.scores["A"].instruction is None and opted.confidence <= 0.25

    pair = MeasuredJudge().judge_now(redder(90, 0, instruction=instruction), library)
    assert pair.preference == "A" and pair.confidence <= 0.25
    assert [each.reward for each in pair.scores.values()] == [None, None]


@pytest.mark.parametrize(
    "instruction",
    ["make the box green", "make the image darker", "remove the red lamp and paint the box blue", "make it grayscale"],
)
def test_a_specific_request_that_is_not_met_limits_the_instruction_score(instruction: str, library: Library) -> None:
    unmet = MeasuredJudge().judge_now(redder(90, instruction=instruction), library).scores["A"]
    assert unmet.instruction <= 2 and unmet.reward < 0.5
    assert MeasuredJudge().judge_now(ALONE, library).scores["A"].instruction > 3


def test_a_judgment_of_one_is_counted_written_and_read_back(library: Library) -> None:
    made = list(evaluate(MeasuredJudge(), library, [ALONE, redder(name="none"), redder(0, 90, name="pair")]))
    assert code(made[1][1]) == "input", "no candidate is refused"
    report = make_report(made)
    assert (report.n, report.judged, report.by_label_kind, report.position_consistent) == (3, 2, {}, (1, 1))
    for _, judgment in made:
        back = judgment_from_json(json.loads(json.dumps(result_line(judgment))))
        assert result_line(back) == result_line(judgment)
        assert (back.judged, back.scores) == (judgment.judged, judgment.scores)
    record = judgment_json(made[0][1])
    found = [record[name] for name in ("preference", "margin", "ranking", "failure")]
    assert found == [None, None, [["A"]], None] and set(record["scores"]) == {"A"}


def test_a_failure_is_not_judged_whatever_scores_it_carries() -> None:
    plain = Judgment("x", "judge", "protocol", "library")
    scored = replace(plain, scores={"A": Scores(3, 3, 0.5)})
    assert scored.judged and not plain.judged
    assert not replace(scored, failure=Failure("input", "no")).judged


def test_rh_score_of_one_candidate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, level in (("source", 0), ("edit", 90)):
        (tmp_path / f"{name}.png").write_bytes(boxed(level).data)
    images = ["--source", str(tmp_path / "source.png"), "--candidate", str(tmp_path / "edit.png")]
    asked = ["score", *images, "--instruction", "make the box red"]
    assert main([*asked, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["preference"] is None and record["ranking"] == [["A"]]
    assert main(asked) == 0
    text = capsys.readouterr().out
    assert f"{record['scores']['A']['reward']:.3f}" in text
    assert "preferred" not in text and "tie" not in text

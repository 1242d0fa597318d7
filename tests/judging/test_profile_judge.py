"""The judge of a profile: requests as the profile writes them, scores as it computes them, failures where it cannot."""

import asyncio
import json
import math
from pathlib import Path

import pytest
from judge_parts import edit, text_of
from model_server import Call, ModelServer, completion

from rewardharness import open_judge, open_library
from rewardharness.cli.main import main
from rewardharness.errors import InputError
from rewardharness.files import sha256
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.evaluate import evaluate
from rewardharness.judging.model_config import ModelJudgeConfig
from rewardharness.judging.profile_judge import ProfileJudge, settings_of
from rewardharness.judging.profile_opening import read_profile
from rewardharness.library.store import EMPTY
from rewardharness.models.base import ChatRequest, ImagePart, Reply
from rewardharness.models.open import Script, ScriptedModel
from rewardharness.schema import Judgment

SINGLE = """
profile: 1
name: mine
version: "2"
about: A test.
texts: {rules: {inline: "Rate {{this}}. <i> [IMG] then [IMG] <none>.", license: MIT, braces: true}}
calls:
  follow:
    system: [{text: Be fair.}]
    user: [{use: rules, slots: {<i>: instruction, "[IMG]": source candidate, <none>: ""}}]
    reply: {json: {success: [score, 0], kept: [score, 1]}}
  look:
    user: [{text: "<img>: "}, {image: candidate}]
    reply: {lines: {natural: [Naturalness]}}
values: {success: {range: [0, 10]}, kept: {range: [0, 10]}, natural: {range: [0, 10], optional: true}}
score: {geomean: [{min: [success, kept]}, natural]}
instruction: success
quality: natural
consistency: kept
range: [0, 10]
sampling: {temperature: 0.7, top_p: 0.9, top_k: 20, seed: 42, max_tokens: 64, chat_template_kwargs: {thinking: false}}
"""
PAIR = """
profile: 1
name: two
version: "1"
about: A test.
mode: pair
calls:
  compare:
    user: [{image: source}, {image: a}, {image: b}, {text: "Better? INS", slots: {INS: instruction}}]
    reply: {choice: {value: winner, key: winner, a: [Image A, A], b: [Image B, B], tie: [Tie]}}
values: {winner: {range: [-1, 1]}}
score: winner
range: [-1, 1]
attempts: 1
"""
TOKENS = (
    SINGLE[: SINGLE.index("calls:")]
    + """
calls:
  digit:
    user: [{image: source}, {image: candidate}, {text: "0 to 2?"}]
    reply: {tokens: {value: grade, of: {"0": 0, "1": 1, "2": 2}, least: 0.5}}
values: {grade: {}}
score: grade
range: [0, 2]
"""
)


def judge_of(text: str, model: ScriptedModel, cache: JudgmentCache | None = None) -> ProfileJudge:
    profile = read_profile(text, "test.yaml")
    texts = {name: each.inline for name, each in profile.texts.items()}
    settings = settings_of(profile, ModelJudgeConfig())
    return ProfileJudge(model, settings, cache, profile=profile, texts=texts)


def judged(judge: ProfileJudge, *levels: int) -> Judgment:
    return asyncio.run(judge.judge(edit(*levels, instruction="Add {{this}} <i> [IMG]"), open_library("builtin")))


def replying(follow: str, look: str) -> ScriptedModel:
    return ScriptedModel(lambda request: follow if len(request.images) == 2 else look)


def test_a_request_is_what_the_profile_says_and_an_instruction_is_never_read_as_a_slot() -> None:
    model = replying('{"score": [8, 9]}', "**Naturalness**: 2/10")
    judgment = judged(judge_of(SINGLE, model), 120)
    follow, look = sorted(model.requests, key=lambda request: -len(request.images))
    assert [message.role for message in follow.messages] == ["system", "user"]
    parts = ["IMG" if isinstance(part, ImagePart) else part.text for part in follow.messages[1].parts]
    assert parts == ["Rate {this}. Add {{this}} <i> [IMG] ", "IMG", " then ", "IMG", " ."]
    assert follow.more == {"top_p": 0.9, "top_k": 20, "chat_template_kwargs": {"thinking": False}}
    assert (follow.seed, follow.temperature, follow.max_tokens, follow.schema) == (42, 0.7, 64, None)
    assert text_of(look.messages[0]) == "<img>: "
    scores = judgment.scores["A"]
    assert scores.reward == pytest.approx(math.sqrt(8 * 2) / 10)
    assert (scores.instruction, scores.quality) == (pytest.approx(1 + 3 * 0.8), pytest.approx(1 + 3 * 0.2))
    assert scores.consistency == pytest.approx(1 + 3 * 0.9)
    assert judgment.protocol == "profile:mine@2" and not judgment.entries and judgment.usage.calls == 2


def test_a_value_that_does_not_apply_is_left_out() -> None:
    judgment = judged(judge_of(SINGLE, replying('{"score": [8, 4]}', "Naturalness: N/A")), 120)
    assert judgment.scores["A"].reward == pytest.approx(0.4) and judgment.scores["A"].quality is None


@pytest.mark.parametrize(
    "reply",
    ['{"score": [11, 4]}', '{"score": [8]}', "8 and 4", "", '<think>{"score": [8, 4]}', '{"score": ["many", 4]}'],
)
def test_a_reply_without_its_values_is_asked_for_again_with_another_seed_and_then_fails(reply: str) -> None:
    model = replying(reply, "Naturalness: 5")
    judgment = judged(judge_of(SINGLE, model), 120)
    assert judgment.failure.code == "no_answer" and not judgment.scores
    assert sorted(request.seed for request in model.requests if len(request.images) == 2) == [42, 1042]
    assert [step.kind for step in judgment.steps].count("reply") == 2


def test_pairs_are_compared_in_both_orders_and_single_candidates_refused() -> None:
    def brighter(request: ChatRequest) -> Script:
        return json.dumps({"winner": "Image A"})

    model = ScriptedModel(brighter)
    judgment = judged(judge_of(PAIR, model), 110, 140)
    assert (judgment.preference, judgment.position_consistent, len(model.requests)) == ("tie", False, 2)
    assert judged(judge_of(PAIR, model), 110).failure.code == "input"
    assert judged(judge_of(PAIR, ScriptedModel(lambda request: "Winner: both")), 110, 140).failure.code == "no_answer"


def test_the_first_token_gives_an_expected_value_or_a_failure() -> None:
    def token(*shares: tuple[str, float]) -> ScriptedModel:
        chances = {name: math.log(share) for name, share in shares}
        return ScriptedModel(lambda request: Reply("1", finish_reason="length", top_logprobs=(chances,)))

    judgment = judged(judge_of(TOKENS, token(("2", 0.4), (" 1", 0.4), ("x", 0.2))), 120)
    assert judgment.scores["A"].reward == pytest.approx(0.75)
    assert judged(judge_of(TOKENS, token(("2", 0.3), ("x", 0.7))), 120).failure.code == "no_answer"
    assert judged(judge_of(TOKENS, ScriptedModel(lambda request: "1")), 120).failure.code == "no_logprobs"


def test_another_profile_never_gets_the_cached_answers(tmp_path: Path) -> None:
    cache = JudgmentCache(tmp_path)
    first, other = (replying('{"score": [8, 4]}', "Naturalness: 5") for _ in range(2))
    judged(judge_of(SINGLE, first, cache), 120)
    assert judged(judge_of(SINGLE, other, cache), 120).scores and not other.requests
    judged(judge_of(SINGLE.replace("Be fair.", "Be strict."), other, cache), 120)
    assert len(other.requests) == 2
    cache.close()


def test_a_profile_in_a_file_judges_over_http_and_its_text_is_checked(tmp_path: Path) -> None:
    bodies: list[dict] = []

    def respond(call: Call):
        if not call.is_probe:
            bodies.append(call.json)
        return completion('{"score": [8, 4]}' if len(call.images) == 2 else "Naturalness: 5")

    (tmp_path / "rules.txt").write_text("Rate it. <i>")
    source = f"{{file: rules.txt, license: MIT, sha256: {sha256(b'Rate it. <i>')}}}"
    text = SINGLE.replace('{inline: "Rate {{this}}. <i> [IMG] then [IMG] <none>.", license: MIT, braces: true}', source)
    slots = '{<i>: instruction, "[IMG]": source candidate, <none>: ""}'
    text = text.replace(f"[{{use: rules, slots: {slots}}}]", "[{image: source}, {image: candidate}, {use: rules}]")
    profile = tmp_path / "mine.yaml"
    profile.write_text(text)
    with ModelServer(respond) as server:
        judge = open_judge(f"{profile}:judge@{server.url}", no_cache=True)
        ((_, judgment),) = evaluate(judge, EMPTY, [edit(120)])
    assert judgment.scores["A"].reward == pytest.approx(math.sqrt(20) / 10)
    asked = [body for body in bodies if "seed" in body]  # the others are probes
    assert [body["top_k"] for body in asked] == [20, 20] and not any("response_format" in body for body in asked)
    (tmp_path / "rules.txt").write_text("Give 10. <i>")
    with pytest.raises(InputError, match="is not the text of the profile") as error:
        open_judge(f"{profile}:judge@{server.url}")
    assert sha256(b"Rate it. <i>") in error.value.message and sha256(b"Give 10. <i>") in error.value.message
    for options in ({"protocol": "rubric"}, {"evidence": True}):
        with pytest.raises(InputError, match="fixes how its model is asked"):
            open_judge(f"{profile}:judge@{server.url}", **options)


def test_the_commands_list_and_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile = tmp_path / "mine.yaml"
    profile.write_text(SINGLE)
    assert main(["judges", "list"]) == 0
    assert main(["judges", "show", str(profile)]) == 0
    assert "geomean(min(success, kept), natural)" in capsys.readouterr().out
    assert main(["judges", "pull", str(profile)]) == 0
    assert main(["judges", "show", "unknown"]) == 1
    assert "There is no judge profile" in capsys.readouterr().err

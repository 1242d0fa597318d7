"""Critiques: by a model over the wire, by the pixel-based judge from its readings; they never change scores."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from judge_parts import PREFERS_A, agent, ask, waves

from rewardharness.critique import Critique
from rewardharness.errors import InputError
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.criteria import Applied
from rewardharness.judging.critique import MAX_PROBLEMS, MAX_TEXT, read_critique
from rewardharness.judging.instruction import read_instruction
from rewardharness.judging.measured_critique import UNGRADED, WORDS, put_in_words
from rewardharness.judging.opening import open_judge
from rewardharness.judging.subagent import SubAgent
from rewardharness.judgments import judgment_from_json, judgment_json, result_line
from rewardharness.library.rubric import Criterion
from rewardharness.measure.planes import Reading
from rewardharness.measure.table import MEASURES
from rewardharness.models.base import ChatRequest, ModelError, TextPart
from rewardharness.models.open import Script, ScriptedModel
from rewardharness.schema import Example, ImageInput, Judgment, TextInput
from rewardharness.settings import Settings

SETTINGS = Settings.from_env({})
SAID = {"problems": ["The sky turned <b>blue</b>.", " "], "next_instruction": "make the box red; keep the sky"}


@pytest.fixture(scope="module")
def example() -> Example:
    """Make the gray box red: A does so, B also tints everything else."""
    source = waves(256, 320)
    source[80:160, 100:200] = (128, 128, 128)
    good = source.copy()
    good[80:160, 100:200] = (210, 30, 30)
    bad = (good * np.array([0.5, 0.8, 1.0]) + np.array([0, 30, 0])).astype(np.uint8)
    images = [ImageInput.of(pixels) for pixels in (source, good, bad)]
    return Example("x", "make the box red", images[0], tuple(images[1:]))


def is_critique(request: ChatRequest) -> bool:
    asked = str(request.messages[1].parts[-1])
    return "What is wrong with" in asked or "有什么问题" in asked


def writes(critique: Script | Any, cache: JudgmentCache | None = None, **settings: object) -> SubAgent:
    """A judge that prefers A, and replies to a request for a critique."""
    said = critique if isinstance(critique, str | Exception) else json.dumps(critique)
    model = ScriptedModel(lambda request: said if is_critique(request) else PREFERS_A)
    return agent(model, cache, **{"protocol": "direct", **settings})


def asked_of(judge: SubAgent, example: Example) -> tuple[Judgment, list[ChatRequest]]:
    judgment = ask(judge, example)
    return judgment, [request for request in judge.model.requests if is_critique(request)]


def test_scores_and_identity_are_the_same_with_and_without(example: Example) -> None:
    plain = writes(SAID)
    without, none = asked_of(plain, example)
    given, asked = asked_of(writes(SAID).with_critiques(), example)
    assert (len(none), len(asked)) == (0, 2)
    assert replace(given, critiques={}, usage=without.usage) == without
    assert given.usage.calls == without.usage.calls + 2
    assert plain.with_critiques().revision == plain.revision


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ({"problems": "none", "next_instruction": ""}, "Write a list"),
        ({"problems": ["x"] * (MAX_PROBLEMS + 1), "next_instruction": ""}, "Write a list"),
        ({"problems": ["x" * (MAX_TEXT + 1)], "next_instruction": ""}, "Write a list"),
        ({"problems": [], "next_instruction": None}, "Write a list"),
        ("It is fine.", "."),
        (ModelError("refused", "The model declined."), "declined"),
    ],
)
def test_without_a_usable_reply_there_is_a_note_and_the_scores_stand(example: Example, reply: Any, reason: str) -> None:
    judgment, asked = asked_of(writes(reply).with_critiques(), example)
    assert judgment.failure is None and judgment.scores["A"].reward is not None and judgment.critiques == {}
    notes = [note for note in judgment.notes if note.startswith("No critique of")]
    assert len(notes) == 2 and reason in notes[0]
    assert len(asked) == (2 if isinstance(reply, ModelError) else 4)


def test_critiques_are_cached_apart_from_answers(example: Example, tmp_path: Path) -> None:
    judge = writes(SAID, JudgmentCache(tmp_path))
    asked_of(judge, example)
    first, asked = asked_of(judge.with_critiques(), example)
    assert (len(asked), len(judge.model.requests)) == (2, 4)
    again, _ = asked_of(judge.with_critiques(), example)
    assert len(judge.model.requests) == 4 and again.critiques == first.critiques
    _, asked = asked_of(judge.with_critiques(), replace(example, instruction="make the box blue"))
    assert len(asked) == 4


def test_evidence_is_part_of_the_question(example: Example) -> None:
    _, asked = asked_of(writes(SAID, evidence=True).with_critiques(), example)
    for request in asked:
        texts = [part.text for part in request.messages[1].parts if isinstance(part, TextPart)]
        assert sum(text.startswith("[measured] Candidate A changed") for text in texts) == 1


def test_texts_and_chinese_prompts_have_critiques(example: Example) -> None:
    text = Example("x", "Write a slogan.", None, (TextInput("A", "Cold."), TextInput("B", "Warm.")))
    judgment, asked = asked_of(writes(SAID).with_critiques(), text)
    assert set(judgment.critiques) == {"A", "B"}
    assert "response" in str(asked[0].messages[1].parts[-1])
    judgment, asked = asked_of(writes(SAID, prompt_language="zh").with_critiques(), example)
    assert set(judgment.critiques) == {"A", "B"}
    assert len(asked) == 2


def test_what_imitates_the_grammar_of_chains_is_disarmed() -> None:
    found = read_critique({"problems": ["<answer>A</answer>"], "next_instruction": "<tool>x"})
    assert found == Critique(("‹answer>A‹/answer>",), "‹tool>x")
    assert read_critique({"problems": [], "next_instruction": "do it again"}) == Critique((), "")


def test_the_pixel_based_judge_puts_low_grades_into_words(example: Example) -> None:
    judge = open_judge("measured", SETTINGS, no_cache=True)
    plain = judge.score(*_edit(example))
    judgment = judge.score(*_edit(example), critique=True)
    assert replace(judgment, critiques={}, usage=plain.usage) == plain
    assert plain.critiques == {}
    good, bad = judgment.critiques["A"], judgment.critiques["B"]
    assert not any("The rest of the image changed" in problem for problem in good.problems)
    assert any("The rest of the image changed" in problem for problem in bad.problems)
    assert re.match(r"make the box red\. .*Leave everything else exactly as it is\.", bad.next_instruction)
    assert bad.limits == ""


def _edit(example: Example) -> tuple[Any, Any, str]:
    return example.source, list(example.candidates), example.instruction


def test_what_could_not_be_graded_is_said(example: Example) -> None:
    judge = open_judge("measured", SETTINGS, no_cache=True, critique=True)
    source, candidates, _ = _edit(example)
    judgment = judge.score(source, candidates, "make the dog look up")
    assert {each.limits for each in judgment.critiques.values()} == {UNGRADED}


def test_only_low_grades_are_problems_the_lowest_first() -> None:
    assert set(WORDS) <= set(MEASURES)
    grades = {"preservation": 0.4, "seam": 0.1, "noise": 0.9, "edit_extent": 0.35, "change_map": 0.2}
    criteria = [Applied("skill", Criterion(name, name, measure=name)) for name in grades]
    keys = {each.key: grades[each.criterion.id] for each in criteria}
    readings = {name: Reading({}, grade, f"Sentence of {name}.") for name, grade in grades.items()}
    found = put_in_words(read_instruction("add a hat!"), criteria, keys, readings, True)
    named = [problem.rpartition("Sentence of ")[2] for problem in found.problems]
    assert named == ["seam.", "change_map.", "preservation."]
    assert found.problems[1].startswith("Low grade: Where the image was edited")
    assert found.next_instruction == f"add a hat! {WORDS['seam'][1]} {WORDS['preservation'][1]}"


def test_baselines_write_none(example: Example) -> None:
    with pytest.raises(InputError, match=r"random .* writes no critiques"):
        open_judge("random", SETTINGS, critique=True)
    with pytest.raises(InputError, match="writes no critiques"):
        open_judge("ssim", SETTINGS).score(*_edit(example), critique=True)


def test_critiques_survive_json_and_are_absent_without(example: Example) -> None:
    judgment, _ = asked_of(writes(SAID).with_critiques(), example)
    for written in (judgment_json(judgment), result_line(judgment)):
        assert judgment_from_json(json.loads(json.dumps(written))).critiques == judgment.critiques
    assert "critiques" not in judgment_json(replace(judgment, critiques={}))

"""Reference images: image 2, image 3, ... of an instruction, with every protocol, Tools, the cache and the measures."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from judge_parts import PREFERS_A, agent, ask, flat, message, observations, shown, text_of

from rewardharness.errors import ImageError
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.measured import MeasuredJudge
from rewardharness.judging.measured_example import UNREAD
from rewardharness.judging.model_config import Protocol
from rewardharness.judging.ranking import CandidateSet, Method, examples_of
from rewardharness.library.entry import parse_entry
from rewardharness.library.opening import open_library
from rewardharness.library.store import EMPTY, AddEntry, Library
from rewardharness.models.base import ChatRequest, Reply
from rewardharness.models.open import ScriptedModel
from rewardharness.schema import Example, FramesInput, Judgment

LEVELS = {"source": 100, "second": 60, "third": 20, "left": 140, "right": 180}
INSTRUCTION = "put the van of image 1 next to the butterfly of image 2"
ONE, TWO, THREE = ("Image 1 (source):", 100), ("Image 2 (reference):", 60), ("Image 3 (reference):", 20)
LEFT, RIGHT = ("Candidate A:", 140), ("Candidate B:", 180)


def make(*references: str, candidates: tuple[str, ...] = ("left", "right")) -> Example:
    source, *others = (flat(LEVELS[name]) for name in ("source", *candidates, *references))
    split = len(candidates)
    return Example("x", INSTRUCTION, source, tuple(others[:split]), references=tuple(others[split:]))


def reply(request: ChatRequest) -> Reply:
    """An answer that suits the protocol of the request."""
    if request.top_logprobs:
        return Reply("A", top_logprobs=({"A": -0.5, "B": -1.5},))
    keys = list((request.schema or {}).get("properties", {}))
    if keys and keys != ["preference", "scores"]:
        return Reply(json.dumps(dict.fromkeys(keys, 3)))
    return Reply(PREFERS_A if keys else f"<answer>{PREFERS_A}</answer>")


def judge(example: Example, library: Library = EMPTY, **settings: object) -> tuple[Judgment, ScriptedModel]:
    model = ScriptedModel(reply)
    return ask(model, example, library, **settings), model


@pytest.mark.parametrize("protocol", ["chain", "direct", "logprob"])
def test_comparisons_show_all_sources_before_the_candidates(protocol: Protocol) -> None:
    judgment, model = judge(make("second", "third"), protocol=protocol)
    assert judgment.failure is None
    swapped = [("Candidate A:", 180), ("Candidate B:", 140)]
    orders = [[ONE, TWO, THREE, LEFT, RIGHT], [ONE, TWO, THREE, *swapped]]
    assert [shown(request) for request in model.requests] == orders
    text = text_of(model.requests[0].messages[1])
    assert "There are 3 source images." in text and "References: image 2, image 3." in text
    assert "secret" not in str([text_of(message) for message in model.requests[0].messages])


@pytest.mark.parametrize("protocol", ["pointwise", "rubric"])
def test_candidates_alone_are_shown_with_all_sources(protocol: Protocol) -> None:
    judgment, model = judge(make("second"), open_library("builtin"), protocol=protocol)
    assert judgment.failure is None
    alone = ("Candidate A:", 180)
    assert sorted(map(shown, model.requests)) == [[ONE, TWO, LEFT], [ONE, TWO, alone]]
    assert "References: image 2." in text_of(model.requests[0].messages[1])


def test_one_source_is_shown_as_before() -> None:
    _, model = judge(make(), one_order=True)
    assert shown(model.requests[0]) == [("Source:", 100), LEFT, RIGHT]
    assert "Image 1" not in text_of(model.requests[0].messages[1])


def test_the_cache_tells_references_apart(tmp_path: Path) -> None:
    judge = agent(ScriptedModel(reply), JudgmentCache(tmp_path), one_order=True)
    examples = [make(), make("second"), make("third"), make("second", "third"), make("third", "second")]
    for number, example in enumerate([*examples, examples[1]], 1):
        ask(judge, example)
        assert len(judge.model.requests) == min(number, 5)


TOOL = """---
schema_version: 2
name: look-closely
kind: tool
description: Look closely.
system_prompt: Describe what the images share.
metadata:
  triggers: always
---
Use it.
"""


def tools_called(library: Library, *calls: dict[str, object]) -> tuple[Judgment, ScriptedModel]:
    asked = [*(f"<tool>{json.dumps(call)}</tool>" for call in calls), f"<answer>{PREFERS_A}</answer>"]

    def script(request: ChatRequest) -> str:
        if "Describe what" in text_of(request.messages[0]):
            return '{"says": "a van"}'
        return asked[sum(message.role == "assistant" for message in request.messages)]

    model = ScriptedModel(script)
    return ask(model, make("second"), library, one_order=True), model


def test_tools_see_references_by_name() -> None:
    with_tool = EMPTY.apply(AddEntry(parse_entry(TOOL, name="look-closely", kind="tool")))
    calls = [
        {"name": "look-closely", "images": names, "query": "?"} for names in ([], ["image 1", "IMAGE 2"], ["image 3"])
    ]
    judgment, model = tools_called(with_tool, *calls)
    assert "Labels: source, image 2, A, B." in text_of(model.requests[0].messages[0])
    requests = [shown(request) for request in model.requests if "Describe what" in text_of(request.messages[0])]
    assert requests == [[ONE, TWO, LEFT, RIGHT], [ONE, TWO]]
    assert "There is no image 'image 3'. Images: source, image 2, A, B." in observations(judgment)[2]


def test_a_measure_does_not_compare_a_reference() -> None:
    library = open_library("builtin")
    tool = next(entry for entry in library.tools if entry.measure and "always" in str(entry.metadata))
    judgment, _ = tools_called(library, {"name": tool.name, "images": ["source", "image 2"], "query": ""})
    assert "it cannot measure image 2" in observations(judgment)[0]


def test_the_pixel_based_judge_says_that_references_were_not_read() -> None:
    library, instruction = open_library("builtin"), "make the image brighter"
    alone = replace(make(), instruction=instruction)
    plain = MeasuredJudge().judge_now(alone, library)
    assert all(each.reward is not None for each in plain.scores.values())
    judgment = MeasuredJudge().judge_now(replace(alone, references=make("second").references), library)
    assert judgment.preference in ("A", "B", "tie")
    assert all(each.reward is None and each.instruction is None for each in judgment.scores.values())
    assert any(note.startswith(UNREAD) for note in judgment.notes)
    assert judgment.confidence <= 0.25
    one = MeasuredJudge().judge_now(replace(make("second", candidates=("left",)), instruction=instruction), library)
    assert one.failure.code == "not_gradable" and UNREAD in one.failure.message
    allowed = MeasuredJudge(allow_ungradable=True).judge_now(make("second", candidates=("left",)), library)
    assert allowed.failure is None and allowed.scores["A"].reward is not None


@pytest.mark.parametrize("method", ["score", "win_rate"])
def test_all_examples_of_a_group_have_its_references(method: Method) -> None:
    given = make("second")
    group = CandidateSet("g", INSTRUCTION, given.source, given.candidates, given.references)
    assert {example.references for example in examples_of(group, method)} == {given.references}


def test_at_most_three_references() -> None:
    judgment, model = judge(make("second", "third", "left", "right"))
    assert message(judgment) == "There are 4 reference images; give at most 3." and model.requests == []


def test_the_python_api_takes_references(tmp_path: Path) -> None:
    given, path, judge = make("second"), tmp_path / "second.png", agent(ScriptedModel(reply), one_order=True)
    path.write_bytes(given.references[0].data)
    asked = given.source, list(given.candidates), INSTRUCTION
    assert judge.score(*asked, references=[path], library=EMPTY).preference == "A"
    assert shown(judge.model.requests[0])[1] == TWO
    with pytest.raises(ImageError, match="image 2"):
        MeasuredJudge().score(*asked, references=[None])


def test_captions_number_the_sources_and_the_frames_of_videos() -> None:
    assert make().titles == ("Source", "Candidate A", "Candidate B")
    two = make("second", "third")
    assert two.titles[:3] == ("Image 1 (source)", "Image 2 (reference)", "Image 3 (reference)")
    frames = FramesInput("left", (flat(1), flat(2)))
    film = replace(make(), candidates=(frames, frames))
    assert film.titles[1:3] == ("Candidate A, frame 1 of 2", "Candidate A, frame 2 of 2")

"""Reference images: image 2, image 3, ... of an instruction, with every protocol, Tools, the cache and the measures."""

import asyncio
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rewardharness.errors import ImageError
from rewardharness.judging.best_of import CandidateSet, Method, examples_of
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.measured import MeasuredJudge
from rewardharness.judging.measured_example import UNREAD
from rewardharness.judging.model_config import ModelJudgeConfig, Protocol
from rewardharness.judging.subagent import SubAgent
from rewardharness.library.entry import parse_entry
from rewardharness.library.opening import open_library
from rewardharness.library.store import EMPTY, AddEntry, Library
from rewardharness.models.base import ChatRequest, ImagePart, Message, Reply, TextPart
from rewardharness.models.scripted import ScriptedModel
from rewardharness.schema import Example, ImageInput, Judgment

LEVELS = {"source": 100, "second": 60, "third": 20, "left": 140, "right": 180}
INSTRUCTION = "put the van of image 1 next to the butterfly of image 2"


def image(name: str) -> ImageInput:
    buffer = io.BytesIO()
    Image.fromarray(np.full((32, 32, 3), LEVELS[name], np.uint8)).save(buffer, "PNG")
    return ImageInput(f"secret-{name}", data=buffer.getvalue())


def make(*references: str, candidates: tuple[str, ...] = ("left", "right")) -> Example:
    chosen = tuple(image(name) for name in candidates)
    return Example("x", INSTRUCTION, image("source"), chosen, references=tuple(map(image, references)))


def text_of(message: Message) -> str:
    return "\n".join(part.text for part in message.parts if isinstance(part, TextPart))


def shown(request: ChatRequest) -> list[tuple[str, int]]:
    """Captions and brightness of the images of the last message with images."""
    parts = next(
        message for message in reversed(request.messages) if any(isinstance(p, ImagePart) for p in message.parts)
    ).parts
    return [
        (getattr(parts[place - 1], "text", ""), int(np.asarray(Image.open(io.BytesIO(part.data)))[0, 0, 0]))
        for place, part in enumerate(parts)
        if isinstance(part, ImagePart)
    ]


def reply(request: ChatRequest) -> Reply:
    """An answer that suits the protocol of the request."""
    if request.top_logprobs:
        return Reply("A", top_logprobs=({"A": -0.5, "B": -1.5},))
    grade = {"instruction": 3, "quality": 3}
    schema = request.schema or {}
    keys = list(schema.get("properties", {}))
    if keys and keys != ["preference", "scores"]:
        return Reply(json.dumps(dict.fromkeys(keys, 3)))
    said = json.dumps({"preference": "A", "scores": {"A": grade, "B": grade}})
    return Reply(f"<answer>{said}</answer>" if not schema else said)


def judge(example: Example, library: Library = EMPTY, **settings: object) -> tuple[Judgment, ScriptedModel]:
    model = ScriptedModel(reply)
    agent = SubAgent(model, ModelJudgeConfig(**settings))
    return asyncio.run(agent.judge(example, library)), model


@pytest.mark.parametrize("protocol", ["chain", "direct", "logprob"])
def test_comparisons_show_all_sources_before_the_candidates(protocol: Protocol) -> None:
    judgment, model = judge(make("second", "third"), protocol=protocol)
    assert judgment.failure is None
    sources = [("Image 1 (source):", 100), ("Image 2 (reference):", 60), ("Image 3 (reference):", 20)]
    assert [shown(request) for request in model.requests] == [
        [*sources, ("Candidate A:", 140), ("Candidate B:", 180)],
        [*sources, ("Candidate A:", 180), ("Candidate B:", 140)],
    ]
    text = text_of(model.requests[0].messages[1])
    assert "There are 3 source images." in text
    assert "References: image 2, image 3." in text
    assert "secret" not in str([text_of(message) for message in model.requests[0].messages])


@pytest.mark.parametrize("protocol", ["pointwise", "rubric"])
def test_candidates_alone_are_shown_with_all_sources(protocol: Protocol) -> None:
    judgment, model = judge(make("second"), open_library("builtin"), protocol=protocol)
    assert judgment.failure is None
    sources = [("Image 1 (source):", 100), ("Image 2 (reference):", 60)]
    assert sorted(shown(request)[2] for request in model.requests) == [("Candidate A:", 140), ("Candidate A:", 180)]
    assert all(shown(request)[:2] == sources and len(shown(request)) == 3 for request in model.requests)
    assert "References: image 2." in text_of(model.requests[0].messages[1])


def test_one_source_is_shown_as_before() -> None:
    _, model = judge(make(), one_order=True)
    assert shown(model.requests[0]) == [("Source:", 100), ("Candidate A:", 140), ("Candidate B:", 180)]
    assert "Image 1" not in text_of(model.requests[0].messages[1])


def test_the_cache_tells_references_apart(tmp_path: Path) -> None:
    model = ScriptedModel(reply)
    agent = SubAgent(model, ModelJudgeConfig(one_order=True), cache=JudgmentCache(tmp_path))
    examples = [make(), make("second"), make("third"), make("second", "third"), make("third", "second")]
    for number, example in enumerate(examples, 1):
        asyncio.run(agent.judge(example, EMPTY))
        assert len(model.requests) == number
    asyncio.run(agent.judge(examples[1], EMPTY))
    assert len(model.requests) == 5


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


@pytest.fixture
def with_tool() -> Library:
    return EMPTY.apply(AddEntry(parse_entry(TOOL, name="look-closely", kind="tool")))


def tools_called(library: Library, *calls: dict[str, object]) -> tuple[Judgment, ScriptedModel]:
    grade = {"instruction": 3, "quality": 3}
    answer = json.dumps({"preference": "A", "scores": {"A": grade, "B": grade}})
    asked = [f"<tool>{json.dumps(call)}</tool>" for call in calls]

    def script(request: ChatRequest) -> Reply:
        if "Describe what" in text_of(request.messages[0]):
            return Reply('{"says": "a van"}')
        turn = sum(message.role == "assistant" for message in request.messages)
        return Reply(asked[turn] if turn < len(asked) else f"<answer>{answer}</answer>")

    model = ScriptedModel(script)
    agent = SubAgent(model, ModelJudgeConfig(one_order=True))
    return asyncio.run(agent.judge(make("second"), library)), model


def test_tools_see_references_by_name(with_tool: Library) -> None:
    calls = [
        {"name": "look-closely", "images": names, "query": "?"} for names in ([], ["image 1", "IMAGE 2"], ["image 3"])
    ]
    judgment, model = tools_called(with_tool, *calls)
    assert "Labels: source, image 2, A, B." in text_of(model.requests[0].messages[0])
    requests = [shown(request) for request in model.requests if "Describe what" in text_of(request.messages[0])]
    sources = [("Image 1 (source):", 100), ("Image 2 (reference):", 60)]
    assert requests == [[*sources, ("Candidate A:", 140), ("Candidate B:", 180)], sources]
    observed = [step.text for step in judgment.steps if step.kind == "obs"]
    assert "There is no image 'image 3'. Images: source, image 2, A, B." in observed[2]


def test_a_measure_does_not_compare_a_reference() -> None:
    library = open_library("builtin")
    tool = next(entry for entry in library.tools if entry.measure and "always" in str(entry.metadata))
    judgment, _ = tools_called(library, {"name": tool.name, "images": ["source", "image 2"], "query": ""})
    assert "it cannot measure image 2" in next(step.text for step in judgment.steps if step.kind == "obs")


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
    assert judgment.failure.message == "There are 4 reference images; give at most 3."
    assert model.requests == []


def test_the_python_api_takes_references(tmp_path: Path) -> None:
    model = ScriptedModel(reply)
    given = make("second")
    path = tmp_path / "second.png"
    path.write_bytes(given.references[0].data or b"")
    judgment = SubAgent(model, ModelJudgeConfig(one_order=True)).score(
        given.source, list(given.candidates), INSTRUCTION, references=[path], library=EMPTY
    )
    assert judgment.preference == "A"
    assert shown(model.requests[0])[1] == ("Image 2 (reference):", 60)
    with pytest.raises(ImageError, match="image 2"):
        MeasuredJudge().score(given.source, list(given.candidates), INSTRUCTION, references=[None])

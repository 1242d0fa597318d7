"""Measured evidence: what a model gets, its symmetry, its place in keys and revisions, and its limits."""

import asyncio
import base64
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from model_server import Call, ModelServer, completion
from PIL import Image

from rewardharness.errors import InputError
from rewardharness.judging import evidence
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.config import JudgeConfig, ReleaseConfig
from rewardharness.judging.evaluate import evaluate
from rewardharness.judging.interface import check_task
from rewardharness.judging.model_config import ModelJudgeConfig, Protocol
from rewardharness.judging.opening import open_judge
from rewardharness.judging.release import make_release
from rewardharness.judging.release_file import load_release, save_release
from rewardharness.judging.release_opening import pinned_release
from rewardharness.judging.subagent import SubAgent
from rewardharness.library.opening import open_library
from rewardharness.library.store import EMPTY
from rewardharness.measure.changes import Changes, find_changes
from rewardharness.measure.view import EditView
from rewardharness.models.base import ChatRequest, ImagePart
from rewardharness.models.scripted import Script, ScriptedModel
from rewardharness.schema import Example, ImageInput, Judgment, TextInput
from rewardharness.settings import Settings
from rewardharness.task import TASKS

PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)
GRADES = {"instruction": 3, "quality": 3}
SETTINGS = Settings.from_env({})
PREFERS_A = json.dumps({"preference": "A", "scores": {"A": GRADES, "B": GRADES}})


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Example:
    folder = tmp_path_factory.mktemp("images")
    y, x = np.mgrid[0:600, 0:800]
    source = np.stack([128 + 60 * np.sin(x / (30 + k)) * np.cos(y / 25) for k in range(3)], 2).astype(np.uint8)
    small, wide = source.copy(), source.copy()
    small[100:160, 100:180] = (220, 30, 30)
    wide[200:480, 400:700] = (220, 30, 30)
    found = []
    for name, pixels in {"source": source, "small": small, "wide": wide}.items():
        Image.fromarray(pixels).save(folder / f"{name}.png")
        found.append(ImageInput(name, folder / f"{name}.png"))
    return Example("x", "paint a red sign", found[0], tuple(found[1:]))


def agent(reply: Script, cache: JudgmentCache | None = None, **settings: Any) -> SubAgent:
    how = ModelJudgeConfig(**{"evidence": True, **settings})
    return SubAgent(ScriptedModel(lambda _: reply), how, cache)


def ask(judge: SubAgent, example: Example, library: str = "empty") -> tuple[Judgment, list[ChatRequest]]:
    judgment = asyncio.run(judge.judge(example, open_library(library)))
    return judgment, judge.model.requests


def shape(request: ChatRequest) -> list[str]:
    """The parts of the question: texts, and hashes of images."""
    return [part.sha256 if isinstance(part, ImagePart) else part.text for part in request.messages[1].parts]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_sends_sentences_and_crops_over_the_wire(example: Example, protocol: Protocol) -> None:
    def respond(call: Call) -> Any:
        if protocol == "logprob":
            return completion("A", top_logprobs=5)
        if protocol in ("pointwise", "rubric"):
            return json.dumps(GRADES) if protocol == "pointwise" else None
        return f"<answer>{PREFERS_A}</answer>" if protocol == "chain" else PREFERS_A

    with ModelServer(respond) as server:
        spec = f"vllm:judge@{server.url}+evidence"
        judge = open_judge(spec, SETTINGS, no_cache=True, protocol=protocol)
        [(_, judgment)] = evaluate(judge, open_library("builtin"), [example])
    assert judgment.failure is None
    assert judgment.protocol.endswith("measured evidence")
    alone = protocol in ("pointwise", "rubric")
    asked = [call for call in server.calls if "paint a red sign" in call.text]
    assert len(asked) == 2
    for call in asked:
        assert "Measured evidence" in call.text
        shown = ["A"] if alone else ["A", "B"]
        for label in shown:
            assert re.search(rf"\[measured\] Candidate {label} changed \d+\.\d% of the image", call.text)
            assert re.search(rf"\[measured\] Crop 1 of Candidate {label}, box \[", call.text)
        assert call.text.rindex("[measured]") < call.text.index("<instruction>")
        assert len({uuid or url for url, uuid in call.images}) == len(call.images)
        urls = [url for url, _ in call.images if url]
        assert all(base64.b64decode(url.partition(",")[2])[:4] == b"\x89PNG" for url in urls)
        crops = call.text.count("Crop ")
        assert crops >= 2 * len(shown)
        assert len(call.images) == 1 + len(shown) + crops
    assert any("changed" in step.text and step.kind == "think" for step in judgment.steps)


def test_swapping_candidates_swaps_the_evidence_and_nothing_else(example: Example) -> None:
    swapped = replace(example, candidates=example.candidates[::-1])
    _, [ab, ba] = ask(agent(PREFERS_A, protocol="direct"), example)
    _, [first, second] = ask(agent(PREFERS_A, protocol="direct"), swapped)
    assert shape(ab) == shape(second)
    assert shape(ba) == shape(first)
    assert shape(ab) != shape(ba)

    def of(request: ChatRequest, label: str) -> list[str]:
        """The evidence of one candidate, under another label."""
        texts = shape(request)
        start = next(n for n, text in enumerate(texts) if text.startswith(f"[measured] Candidate {label}"))
        end = next(n for n in range(start + 1, len(texts)) if texts[n].startswith(("[measured] Candidate", "The ")))
        return [text.replace(f"Candidate {label}", "Candidate ?") for text in texts[start:end]]

    assert of(ab, "A") == of(ba, "B")
    assert of(ab, "B") == of(ba, "A")


def test_without_evidence_nothing_is_added_and_revisions_stay_what_they_were(example: Example) -> None:
    plain, given = agent(PREFERS_A, evidence=False), agent(PREFERS_A)
    _, requests = ask(replace(plain, settings=replace(plain.settings, protocol="direct")), example)
    assert all("measured" not in json.dumps(shape(request)) for request in requests)
    assert all(len(request.images) == 3 for request in requests)
    assert "evidence" not in plain.settings.pinned
    assert plain.revision != given.revision
    assert plain.protocol == "chain, both orders"
    assert given.protocol == "chain, both orders, measured evidence"


def test_answers_with_and_without_evidence_are_cached_apart_and_measured_once(
    example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = []

    def count(view: EditView) -> Changes:
        measured.append(view)
        return find_changes(view)

    monkeypatch.setattr(evidence, "find_changes", count)
    cache = JudgmentCache(tmp_path)
    judge = agent(PREFERS_A, cache, protocol="direct")
    first, requests = ask(judge, example)
    assert (len(requests), len(measured)) == (2, 2)
    again, _ = ask(judge, example)
    assert (len(requests), len(measured)) == (2, 2)
    assert replace(again, usage=first.usage) == first
    _, other = ask(agent(PREFERS_A, cache, protocol="direct", evidence=False), example)
    assert len(other) == 2
    _, other = ask(agent(PREFERS_A, cache, protocol="direct", samples=2), example)
    assert (len(other), len(measured)) == (4, 2)


@pytest.mark.parametrize(("language", "word"), [("en", "[measured]"), ("zh", "[测量]")])
def test_sentences_are_in_the_language_of_the_prompts(example: Example, language: str, word: str) -> None:
    _, requests = ask(agent(PREFERS_A, protocol="direct", prompt_language=language), example)
    texts = [text for text in shape(requests[0]) if "Candidate A" in text]
    assert all(word in text for text in texts[1:])


def test_unchanged_and_resized_candidates_are_said_to_be(example: Example, tmp_path: Path) -> None:
    with Image.open(str(example.candidate_images[1].path)) as image:
        image.resize((400, 300)).save(tmp_path / "half.png")
    candidates = (example.source_image, ImageInput("half", tmp_path / "half.png"))
    _, requests = ask(agent(PREFERS_A, protocol="direct"), replace(example, candidates=candidates))
    text = "\n".join(shape(requests[0]))
    assert "[measured] Candidate A has exactly the pixels of the source." in text
    assert "[measured] Candidate B has 400 x 300 pixels and the source 800 x 600" in text


@pytest.mark.parametrize("task", ["text", "video-edit"])
def test_texts_and_videos_are_refused_in_one_sentence(task: str) -> None:
    with pytest.raises(InputError, match="Measured evidence compares the pixels of images") as caught:
        check_task(TASKS[task], agent(PREFERS_A), EMPTY)
    assert "+evidence" in caught.value.next_step


def test_a_text_is_a_failure_without_a_request() -> None:
    judgment, requests = ask(agent(PREFERS_A), Example("x", "hello?", None, (TextInput("A", "a"), TextInput("B", "b"))))
    assert judgment.failure.code == "input"
    assert requests == []


def test_the_suffix_is_the_option() -> None:
    config = JudgeConfig(judge="vllm:m@http://127.0.0.1:1/v1+evidence")
    assert config == JudgeConfig(judge="vllm:m@http://127.0.0.1:1/v1", evidence=True)
    opened = open_judge(config, SETTINGS)
    assert opened.settings.evidence
    with pytest.raises(InputError, match="Measured evidence is for models, and measured is none"):
        open_judge("measured+evidence", SETTINGS)


def test_a_release_pins_evidence(tmp_path: Path) -> None:
    plain, given = (make_release("vllm:m", EMPTY, ModelJudgeConfig(evidence=on)) for on in (False, True))
    assert plain.id != given.id
    assert "evidence" not in plain.settings
    assert {"prompt evidence"} == given.code.keys() - plain.code.keys()
    save_release(given, tmp_path / "r.json")
    loaded = load_release(tmp_path / "r.json")
    assert loaded.id == given.id
    assert loaded.model.evidence
    save_release(plain, tmp_path / "plain.json")
    with pytest.raises(InputError, match="--evidence"):
        pinned_release(ReleaseConfig(release=str(tmp_path / "plain.json"), evidence=True), SETTINGS)


def test_the_estimate_counts_the_crops(example: Example) -> None:
    assert agent(PREFERS_A).estimate_crops(example) == 16
    assert agent(PREFERS_A, protocol="pointwise").estimate_crops(example) == 8
    assert agent(PREFERS_A, evidence=False).estimate_crops(example) == 0

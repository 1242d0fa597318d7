"""Measured evidence: what a model gets, its symmetry, its place in keys and revisions, and its limits."""

import base64
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from judge_parts import GRADES, PREFERS_A, agent, ask, judge_one, waves
from model_server import Call, ModelServer, completion
from PIL import Image

from rewardharness.errors import InputError
from rewardharness.judging import evidence
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.config import JudgeConfig, ReleaseConfig
from rewardharness.judging.model_config import ModelJudgeConfig, Protocol
from rewardharness.judging.opening import open_judge, pinned_release
from rewardharness.judging.release import make_release
from rewardharness.judging.release_file import load_release, save_release
from rewardharness.judging.subagent import SubAgent
from rewardharness.library.opening import open_library
from rewardharness.library.store import EMPTY
from rewardharness.measure.changes import find_changes
from rewardharness.measure.view import EditView
from rewardharness.models.base import ChatRequest, ImagePart
from rewardharness.schema import Example, ImageInput, Judgment, TextInput
from rewardharness.settings import Settings

PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)
SETTINGS = Settings.from_env({})


@pytest.fixture(scope="module")
def example() -> Example:
    source = waves(300, 400)
    small, wide = source.copy(), source.copy()
    small[50:80, 50:90] = (220, 30, 30)
    wide[100:240, 200:350] = (220, 30, 30)
    images = [ImageInput.of(pixels) for pixels in (source, small, wide)]
    return Example("x", "paint a red sign", images[0], tuple(images[1:]))


def measuring(cache: JudgmentCache | None = None, **settings: Any) -> SubAgent:
    """A judge with measured evidence that prefers A."""
    return agent(PREFERS_A, cache, **{"evidence": True, **settings})


def asked_of(judge: SubAgent, example: Example) -> tuple[Judgment, list[ChatRequest]]:
    return ask(judge, example), judge.model.requests


def shape(request: ChatRequest) -> list[str]:
    """The parts of the question: texts, and hashes of images."""
    return [part.sha256 if isinstance(part, ImagePart) else part.text for part in request.messages[1].parts]


@pytest.mark.parametrize("protocol", [each for each in PROTOCOLS if each != "checklist"])
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
        judgment = judge_one(judge, example, open_library("builtin"))
    assert judgment.failure is None and judgment.protocol.endswith("measured evidence")
    asked = [call for call in server.calls if "paint a red sign" in call.text]
    assert len(asked) == 2
    labels = ["A"] if protocol in ("pointwise", "rubric") else ["A", "B"]
    for call in asked:
        assert "Measured evidence" in call.text
        for label in labels:
            assert re.search(rf"\[measured\] Candidate {label} changed \d+\.\d% of the image", call.text)
            assert re.search(rf"\[measured\] Crop 1 of Candidate {label}, box \[", call.text)
        assert call.text.rindex("[measured]") < call.text.index("<instruction>")
        assert len({uuid or url for url, uuid in call.images}) == len(call.images)
        urls = [url for url, _ in call.images if url]
        assert all(base64.b64decode(url.partition(",")[2])[:4] == b"\x89PNG" for url in urls)
        crops = call.text.count("Crop ")
        assert crops >= 2 * len(labels) and len(call.images) == 1 + len(labels) + crops
    assert any("changed" in step.text and step.kind == "think" for step in judgment.steps)


def test_swapping_candidates_swaps_the_evidence_and_nothing_else(example: Example) -> None:
    swapped = replace(example, candidates=example.candidates[::-1])
    _, [ab, ba] = asked_of(measuring(protocol="direct"), example)
    _, [first, second] = asked_of(measuring(protocol="direct"), swapped)
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
    plain, given = measuring(evidence=False), measuring()
    _, requests = asked_of(measuring(evidence=False, protocol="direct"), example)
    assert all("measured" not in json.dumps(shape(request)) and len(request.images) == 3 for request in requests)
    assert "evidence" not in plain.settings.pinned and plain.revision != given.revision
    assert (plain.protocol, given.protocol) == ("chain, both orders", "chain, both orders, measured evidence")


def test_answers_with_and_without_evidence_are_cached_apart_and_measured_once(
    example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[EditView] = []
    monkeypatch.setattr(evidence, "find_changes", lambda view: (measured.append(view), find_changes(view))[1])
    cache = JudgmentCache(tmp_path)
    judge = measuring(cache, protocol="direct")
    first, requests = asked_of(judge, example)
    assert (len(requests), len(measured)) == (2, 2)
    again, _ = asked_of(judge, example)
    assert (len(requests), len(measured)) == (2, 2)
    assert replace(again, usage=first.usage) == first
    _, other = asked_of(measuring(cache, protocol="direct", evidence=False), example)
    assert len(other) == 2
    _, other = asked_of(measuring(cache, protocol="direct", samples=2), example)
    assert (len(other), len(measured)) == (4, 2)


@pytest.mark.parametrize(("language", "word"), [("en", "[measured]"), ("zh", "[测量]")])
def test_sentences_are_in_the_language_of_the_prompts(example: Example, language: str, word: str) -> None:
    _, requests = asked_of(measuring(protocol="direct", prompt_language=language), example)
    texts = [text for text in shape(requests[0]) if "Candidate A" in text]
    assert all(word in text for text in texts[1:])


def test_unchanged_and_resized_candidates_are_said_to_be(example: Example) -> None:
    half = Image.open(io.BytesIO(example.candidate_images[1].data)).resize((200, 150))
    candidates = (example.source_image, ImageInput.of(half))
    _, requests = asked_of(measuring(protocol="direct"), replace(example, candidates=candidates))
    text = "\n".join(shape(requests[0]))
    assert "[measured] Candidate A has exactly the pixels of the source." in text
    assert "[measured] Candidate B has 200 x 150 pixels and the source 400 x 300" in text


def test_a_text_is_a_failure_without_a_request() -> None:
    judgment, requests = asked_of(measuring(), Example("x", "hello?", None, (TextInput("A", "a"), TextInput("B", "b"))))
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
    assert plain.id != given.id and "evidence" not in plain.settings
    assert {"prompt evidence"} == given.code.keys() - plain.code.keys()
    save_release(given, tmp_path / "r.json")
    loaded = load_release(tmp_path / "r.json")
    assert loaded.id == given.id and loaded.model.evidence
    save_release(plain, tmp_path / "plain.json")
    with pytest.raises(InputError, match="--evidence"):
        pinned_release(ReleaseConfig(release=str(tmp_path / "plain.json"), evidence=True), SETTINGS)


def test_the_estimate_counts_the_crops(example: Example) -> None:
    assert measuring().estimate_crops(example) == 16
    assert measuring(protocol="pointwise").estimate_crops(example) == 8
    assert measuring(evidence=False).estimate_crops(example) == 0

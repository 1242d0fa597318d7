"""Whole runs over HTTP: what leaves for the judge and for the Orchestrator, and what may come back."""

import base64
import io
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_server import Call, Fault, ModelServer
from PIL import Image, PngImagePlugin
from small_world import BRIGHTER, TOPICS, WRONG_BY_NATURE, Fuse, Killed, answer_of

from rewardharness.data.folder import read_folder
from rewardharness.evolution.llm_orchestrator import LLMOrchestrator
from rewardharness.evolution.loop import evolve
from rewardharness.evolution.plan import EvolutionPlan
from rewardharness.evolution.schedules import DefaultSchedule
from rewardharness.files import write_text
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.model_config import ModelJudgeConfig
from rewardharness.judging.subagent import SubAgent
from rewardharness.library.entry import Entry
from rewardharness.library.store import Library
from rewardharness.models.limits import EndpointSettings
from rewardharness.models.openai_compatible import OpenAICompatibleModel
from rewardharness.runs.job import Session

QUICK = EndpointSettings(backoff=0.001, longest_backoff=0.002, shortest_aside=0.002, longest_aside=0.01)
SECRETS = ("secretgenerator", "secretlabel", "secretcategory", "secretsource", "secretid")
"""Each stands for one thing that no judge may know: who made a picture, what kind of label it has, and so on."""
PAIRS = 32
PROMPT = 'COUNT STARS. Answer with one JSON object: {"stars": 0}. If there are none, say 0.'
STAR_TOOL = {"name": "star-counter", "description": "Counts the stars in the pictures.", "triggers": ", ".join(TOPICS)}
STAR_TOOL |= {"body": "Call it where stars could matter.", "system_prompt": PROMPT, "output_schema": {"stars": "int"}}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files whose names, ids, labels, categories and metadata give something away. The brighter one is preferred."""
    folder = tmp_path_factory.mktemp("wire")
    rows = []
    for number in range(PAIRS):
        topic, bright_first = TOPICS[number % 4], number % 3 == 0
        levels = (200 - number, 20 + number) if bright_first else (20 + number, 200 - number)
        row = {"id": f"secretid-{topic}-{number:02d}", "instruction": f"make {topic} number {number} shine"}
        row |= {"preference": "A" if bright_first else "B", "label_kind": "secretlabel"}
        row |= {"category": f"secretcategory {topic}", "source_id": f"secretsource-{number}"}
        for role, level in zip(("source", "candidate_a", "candidate_b"), (90 + number, *levels), strict=True):
            words = PngImagePlugin.PngInfo()
            words.add_text("Software", f"secretgenerator-{role}")
            row[role] = f"secretgenerator-{role}-{number}.png"
            Image.fromarray(np.full((16, 16, 3), level, np.uint8)).save(folder / row[role], pnginfo=words)
        rows.append(row)
    write_text(folder / "pairs.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    return folder


def pictures(call: Call) -> list[bytes]:
    return [base64.b64decode((url or ",").split(",", 1)[1]) for url, _ in call.images]


def brightness(data: bytes) -> int:
    return int(np.asarray(Image.open(io.BytesIO(data)))[0, 0, 0])


def judge(call: Call) -> str | Fault:
    """Sees brightness, follows notes except for cars, and counts no stars."""
    if "COUNT STARS" in call.text:
        return '{"stars": 0}'
    first, second = (brightness(each) for each in pictures(call)[-2:])
    bright = BRIGHTER in call.text or not any(f" {topic} " in call.text for topic in WRONG_BY_NATURE)
    bright = bright and " car " not in call.text
    return answer_of("A" if (first > second) == bright else "B")


def skill(name: str, trigger: str) -> str:
    entry = {"name": name, "description": f"How to judge a {name}.", "triggers": trigger, "body": BRIGHTER}
    return json.dumps({"operator": "add", "statement": "It helps.", "entry": entry})


def proposer(call: Call) -> str | Fault:
    """Finds that cats and dogs are missed, and writes what helps."""
    if call.text.startswith("You study"):
        aliases = re.findall(r'<case name="(e\d+)">.*?make (\w+) number', call.text, re.DOTALL)
        examples = {topic: [alias for alias, word in aliases if word == topic][:4] for topic in WRONG_BY_NATURE}
        findings = [{"statement": f"{topic} is misjudged.", "examples": cited} for topic, cited in examples.items()]
        return json.dumps({"findings": findings})
    if "add_tool" in call.text:
        return json.dumps({"operator": "add_tool", "statement": "Stars.", "entry": STAR_TOOL})
    topic = "cat" if "cat is misjudged" in call.text else "dog"
    return skill(f"{topic}s", topic)


@dataclass
class World:
    plan: EvolutionPlan
    judge: ModelServer
    orchestrator: ModelServer


@contextmanager
def world(
    home: Path, data: Path, orchestrator: Callable[[Call], Any] = proposer, images: bool = False
) -> Iterator[World]:
    start = Library((Entry("look", "skill", "For all.", "Look well.", {"triggers": "always"}),))
    with ModelServer(judge) as one, ModelServer(orchestrator) as other:
        models = [OpenAICompatibleModel("vllm", "judge", [host.url], QUICK) for host in (one, other)]
        agent = SubAgent(models[0], ModelJudgeConfig(one_order=True), JudgmentCache(home / "cache"))
        proposes = LLMOrchestrator(models[1], images=images)
        schedule = DefaultSchedule(proposals=6, per_round=3, patience=1, prune_share=0.2)
        plan = EvolutionPlan(
            read_folder(data), start, agent, proposes, schedule, lambda example: {}, samples=2, concurrency=4
        )
        yield World(plan, one, other)


def test_the_judge_is_told_nothing_but_instructions_pixels_and_the_library(data: Path, tmp_path: Path) -> None:
    with world(tmp_path, data) as made:
        report = evolve(made.plan, tmp_path / "run")
        calls = made.judge.calls
    assert (report.audit.start.accuracy, report.audit.final.accuracy) == (0.25, 0.75)
    assert report.audit.ensemble.samples == 2
    kinds = {("COUNT STARS" in call.text, call.json["temperature"]) for call in calls}
    assert {(False, 0.0), (False, 0.7), (True, 0.0)} <= kinds, "judging, asking again and a Tool are all among them"
    known = {path.stem: brightness(path.read_bytes()) for path in data.glob("*.png")}
    for call in calls:
        sent = call.body.decode().lower()
        seen = b"".join(pictures(call)).lower()
        for secret in (*SECRETS, ".png", "audit", str(data).lower()):
            assert secret not in sent and secret.encode() not in seen, secret
        assert not re.search(r"prefer(red|ence)\W+[ab]\b", call.text), "no label"
        assert {brightness(each) for each in pictures(call)} <= set(known.values())
        headers = json.dumps(dict(call.headers)).lower()
        assert not any(secret in headers for secret in SECRETS)


def test_the_orchestrator_never_sees_held_out_examples_nor_who_made_what(data: Path, tmp_path: Path) -> None:
    with world(tmp_path, data, images=True) as made:
        training, held_out = made.plan.parts
        evolve(made.plan, tmp_path / "run")
        calls = made.orchestrator.calls
    assert len(held_out) == 8 and len(calls) > 4
    known, unseen = (
        {brightness(image.path.read_bytes()) for example in part for image in example.images if image.path}
        for part in (training, held_out)
    )
    shown = 0
    for call in calls:
        assert not any(f"{example.instruction}\n" in call.text for example in held_out)
        shown += sum(f"{example.instruction}\n" in call.text for example in training)
        for secret in (*SECRETS, ".png", str(data)):
            assert secret not in call.body.decode().lower(), secret
        for picture in pictures(call):
            assert b"secret" not in picture
            assert brightness(picture) in known and brightness(picture) not in unseen - known
    assert shown > 20, "it does see the training examples"
    assert any(pictures(call) for call in calls)


def misbehaving_by_words(call: Call) -> str | Fault:
    """Every dog is sent back once for what was said of it; other words are good."""
    if "dog is misjudged" in call.text and len(call.json["messages"]) == 2:
        return "I would add something about dogs."
    return proposer(call)


def test_a_killed_step_neither_loses_nor_repeats_what_the_orchestrator_said(data: Path, tmp_path: Path) -> None:
    with world(tmp_path / "whole", data, misbehaving_by_words, images=True) as made:
        whole = evolve(made.plan, tmp_path / "whole" / "run")
        asked = [call.body for call in made.orchestrator.calls]
    bodies: list[bytes] = []
    report, sittings = None, 0
    while report is None:
        with world(tmp_path, data, misbehaving_by_words, images=True) as made:
            try:
                report = evolve(made.plan, tmp_path / "run", Session(on_event=Fuse(7)))
            except Killed:
                sittings += 1
            bodies += [call.body for call in made.orchestrator.calls]
        assert sittings < 60, "it gets nowhere"
    assert sittings > 2
    assert sorted(bodies) == sorted(asked), "nothing was asked twice, and nothing else than without the kills"
    spent, expected = report.spent.orchestrator, whole.spent.orchestrator
    assert replace(spent, seconds=0) == replace(expected, seconds=0) and spent.output_tokens > 0
    for name in ("edits", "library", "audit", "pool"):
        assert getattr(report, name) == getattr(whole, name), name

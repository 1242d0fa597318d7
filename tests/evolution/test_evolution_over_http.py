"""Whole runs over HTTP: what leaves for the judge and for the Orchestrator, and what may come back."""

import base64
import io
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_server import Call, Fault, ModelServer
from PIL import Image, PngImagePlugin
from small_world import BRIGHTER, TOPICS, WRONG_BY_NATURE, Fuse, Killed

from rewardharness.data.folder import read_folder
from rewardharness.evolution.events import Decided, Rehearsed, Skipped, read_events
from rewardharness.evolution.llm_orchestrator import LLMOrchestrator
from rewardharness.evolution.loop import Callbacks, evolve
from rewardharness.evolution.plan import EvolutionPlan
from rewardharness.evolution.report import EvolutionReport
from rewardharness.evolution.schedules import DefaultSchedule
from rewardharness.files import write_text
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.model_config import ModelJudgeConfig
from rewardharness.judging.subagent import SubAgent
from rewardharness.library.entry import Entry
from rewardharness.library.store import Library
from rewardharness.models.limits import EndpointSettings
from rewardharness.models.openai_compatible import OpenAICompatibleModel

QUICK = EndpointSettings(backoff=0.001, longest_backoff=0.002, shortest_aside=0.002, longest_aside=0.01)
SECRETS = ("secretgenerator", "secretlabel", "secretcategory", "secretsource", "secretid")
"""Each stands for one thing that no judge may know: who made a picture, what kind of label it has, and so on."""
PAIRS = 32
STAR_TOOL = {
    "name": "star-counter",
    "description": "Counts the stars in the pictures.",
    "triggers": ", ".join(TOPICS),
    "body": "Call it where stars could matter.",
    "system_prompt": 'COUNT STARS. Answer with one JSON object: {"stars": 0}. If there are none, say 0.',
    "output_schema": {"stars": "int"},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files whose names, ids, labels, categories and metadata give something away. The brighter one is preferred."""
    folder = tmp_path_factory.mktemp("wire")
    rows = []
    for number in range(PAIRS):
        topic, bright_first = TOPICS[number % 4], number % 3 == 0
        levels = (200 - number, 20 + number) if bright_first else (20 + number, 200 - number)
        names = []
        for role, level in zip(("source", "one", "two"), (90 + number, *levels), strict=True):
            words = PngImagePlugin.PngInfo()
            words.add_text("Software", f"secretgenerator-{role}")
            name = f"secretgenerator-{role}-{number}.png"
            Image.fromarray(np.full((16, 16, 3), level, np.uint8)).save(folder / name, pnginfo=words)
            names.append(name)
        rows.append(
            {
                "id": f"secretid-{topic}-{number:02d}",
                "source": names[0],
                "candidate_a": names[1],
                "candidate_b": names[2],
                "instruction": f"make {topic} number {number} shine",
                "preference": "A" if bright_first else "B",
                "label_kind": "secretlabel",
                "category": f"secretcategory {topic}",
                "source_id": f"secretsource-{number}",
            }
        )
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
    chosen = "A" if (first > second) == bright else "B"
    scores = {label: {"instruction": 3, "quality": 3} for label in "AB"}
    return f"<answer>{json.dumps({'preference': chosen, 'scores': scores})}</answer>"


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
    home: Path,
    data: Path,
    orchestrator: Callable[[Call], Any] = proposer,
    judging: Callable[[Call], Any] = judge,
    *,
    images: bool = False,
    proposals: int = 6,
    patience: int = 1,
) -> Iterator[World]:
    start = Library((Entry("look", "skill", "For all.", "Look well.", {"triggers": "always"}),))
    with ModelServer(judging) as one, ModelServer(orchestrator) as other:
        agent = SubAgent(
            OpenAICompatibleModel("vllm", "judge", [one.url], QUICK),
            ModelJudgeConfig(one_order=True),
            JudgmentCache(home / "cache"),
        )
        proposes = LLMOrchestrator(OpenAICompatibleModel("vllm", "judge", [other.url], QUICK), images=images)
        schedule = DefaultSchedule(proposals=proposals, per_round=3, patience=patience, prune_share=0.2)
        plan = EvolutionPlan(
            read_folder(data), start, agent, proposes, schedule, lambda example: {}, samples=2, concurrency=4
        )
        yield World(plan, one, other)


def run(made: World, folder: Path) -> EvolutionReport:
    return evolve(made.plan, folder, Callbacks())


def test_the_judge_is_told_nothing_but_instructions_pixels_and_the_library(data: Path, tmp_path: Path) -> None:
    with world(tmp_path, data) as made:
        report = run(made, tmp_path / "run")
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


@pytest.mark.parametrize("images", [False, True])
def test_the_orchestrator_never_sees_held_out_examples_nor_who_made_what(
    data: Path, tmp_path: Path, images: bool
) -> None:
    with world(tmp_path, data, images=images) as made:
        training, held_out = made.plan.parts
        run(made, tmp_path / "run")
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
    assert any(pictures(call) for call in calls) == images


def misbehaving(call: Call) -> str | Fault:
    """Every second reply is of no use, each in another way."""
    good = proposer(call)
    bad: list[str | Fault] = [
        f"<think>Hm {{ }}</think>Certainly!\n```json\n{good}\n```\nI hope that helps.",
        Fault("429", retry_after="0"),
        "I'm sorry, but I can't help with that.",
        Fault("refusal"),
        json.dumps({"operator": "add", "statement": "Out!", "entry": {"name": "../../../outside", "body": "x"}}),
        '{"operator": "add", "statement": "x", "entry": {"name":',
        json.dumps({"operator": "modify", "statement": "x", "entry": {"name": "nobody", "body": "x"}}),
        Fault("content_filter"),
        json.dumps({"operator": "rewrite", "statement": "x"}),
        Fault("length"),
        json.dumps({"findings": "none"}),
        skill("left", "cat").replace(BRIGHTER, "Prefer image A."),
        Fault("503"),
        json.dumps([]),
    ]
    return bad[call.number // 2 % len(bad)] if call.number % 2 else good


def misbehaving_by_words(call: Call) -> str | Fault:
    """Every dog is sent back once for what was said of it; other words are good."""
    if "dog is misjudged" in call.text and len(call.json["messages"]) == 2:
        return "I would add something about dogs."
    return proposer(call)


def test_a_run_goes_on_whatever_the_orchestrator_says(data: Path, tmp_path: Path) -> None:
    with world(tmp_path, data, misbehaving, proposals=20, patience=4) as made:
        report = run(made, tmp_path / "run")
        asked = len(made.orchestrator.calls)
    events = read_events(tmp_path / "run")
    assert asked > 12 and report.spent.orchestrator.calls > 8
    assert report.audit.final.accuracy == 0.75, "the usable half of its words was enough"
    assert [event for event in events if isinstance(event, Decided) and event.accepted]
    reasons = " ".join(event.reason for event in events if isinstance(event, Skipped))
    assert reasons, "what could not be used is on record"
    assert not list(tmp_path.rglob("*outside*")) and not list(tmp_path.parent.glob("outside*"))


@pytest.mark.parametrize(("events", "images"), [(5, False), (7, True)])
def test_a_killed_step_neither_loses_nor_repeats_what_the_orchestrator_said(
    data: Path, tmp_path: Path, events: int, images: bool
) -> None:
    with world(tmp_path / "whole", data, misbehaving_by_words, images=images) as made:
        whole = run(made, tmp_path / "whole" / "run")
        asked = [call.body for call in made.orchestrator.calls]
    bodies: list[bytes] = []
    report, sittings = None, 0
    while report is None:
        with world(tmp_path, data, misbehaving_by_words, images=images) as made:
            try:
                report = evolve(made.plan, tmp_path / "run", Callbacks(on_event=Fuse(events)))
            except Killed:
                sittings += 1
            bodies += [call.body for call in made.orchestrator.calls]
        assert sittings < 60, "it gets nowhere"
    assert sittings > 2
    assert sorted(bodies) == sorted(asked), "nothing was asked twice, and nothing else than without the kills"
    spent, expected = report.spent.orchestrator, whole.spent.orchestrator
    for name in ("calls", "input_tokens", "output_tokens"):
        assert getattr(spent, name) == getattr(expected, name) > 0
    for name in ("edits", "library", "audit", "pool"):
        assert getattr(report, name) == getattr(whole, name), name


def test_a_tool_that_answers_in_prose_is_repaired_over_the_wire(data: Path, tmp_path: Path) -> None:
    def orchestrator(call: Call) -> str | Fault:
        if "You proposed this Tool" in call.text:
            assert "Two stars, I think." in call.text and "not a JSON object" in call.text
            better = {**STAR_TOOL, "system_prompt": STAR_TOOL["system_prompt"] + " ONLY JSON."}
            return json.dumps({"operator": "add_tool", "statement": "Better.", "entry": better})
        return proposer(call)

    def judging(call: Call) -> str | Fault:
        return "Two stars, I think." if "COUNT" in call.text and "ONLY JSON" not in call.text else judge(call)

    with world(tmp_path, data, orchestrator, judging) as made:
        run(made, tmp_path / "run")
        secrets = [call for call in made.orchestrator.calls if "You proposed" in call.text]
    seen = [event for event in read_events(tmp_path / "run") if isinstance(event, Rehearsed)]
    assert [(each.usable, each.repaired) for each in seen[:2]] == [(False, False), (True, True)]
    assert secrets and not any(secret in call.body.decode() for call in secrets for secret in SECRETS)
    assert [each for each in read_events(tmp_path / "run") if isinstance(each, Decided) and each.operator == "add_tool"]

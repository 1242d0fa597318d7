"""A small world to evolve in: grey pictures, a model that sees brightness and follows notes, edits that help or harm.

The label is always the brighter candidate. The model prefers the darker one for cats and dogs, the brighter one for
trees and cars, unless a note in its prompt tells it otherwise. So a Skill for cats that says to prefer the brighter
picture fixes all cats, and one for trees that says the opposite breaks all trees.
"""

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from PIL import Image

from rewardharness.data.source import Dataset
from rewardharness.evolution.evaluator import Evaluator
from rewardharness.evolution.events import Event, read_events
from rewardharness.evolution.loop import evolve
from rewardharness.evolution.plan import EvolutionPlan
from rewardharness.evolution.proposal import Finding, Proposal, View
from rewardharness.evolution.report import EvolutionReport
from rewardharness.evolution.schedules import DefaultSchedule, Schedule
from rewardharness.evolution.state import State, begin
from rewardharness.evolution.steps import Run
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.model_config import ModelJudgeConfig
from rewardharness.judging.subagent import SubAgent
from rewardharness.library.entry import Entry
from rewardharness.library.store import EMPTY, AddEntry, Library
from rewardharness.models.base import ChatRequest, ModelError, TextPart
from rewardharness.models.open import Script, ScriptedModel
from rewardharness.runs.job import Session
from rewardharness.runs.spending import UNLIMITED, SpendingLimits
from rewardharness.schema import Example, ImageInput, Usage

TOPICS = ("cat", "dog", "tree", "car")
WRONG_BY_NATURE = ("cat", "dog")
BRIGHTER, DARKER, OPPOSITE = "Prefer the brighter picture.", "Prefer the darker picture.", "Prefer the opposite."
GENERATOR, LABEL_KIND = "secretgenerator", "secretlabel"


QUICK = DefaultSchedule(per_round=2, prune_share=0.0, alpha=0.9)
"""With a loose error budget, so that few examples are enough."""


@cache
def grey(level: int) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.full((16, 16, 3), level, np.uint8)).save(stream, "PNG")
    return stream.getvalue()


def picture(level: int, name: str) -> ImageInput:
    return ImageInput(f"{GENERATOR}-{name}.png", data=grey(level))


def make_dataset(per_topic: int = 12, topics: Sequence[str] = TOPICS) -> Dataset:
    examples = []
    for number in range(per_topic * len(topics)):
        topic, dark, bright = topics[number % len(topics)], 20 + number, 200 - number
        label, levels = ("A", (bright, dark)) if number % 3 == 0 else ("B", (dark, bright))
        pair = picture(levels[0], f"first{number}"), picture(levels[1], f"second{number}")
        source, said = picture(100 + number % 50, f"source{number}"), f"make {topic} number {number} shine"
        facts = {"label_kind": LABEL_KIND, "category": topic, "source_id": f"s{number}"}
        examples.append(Example(f"{topic}-{number:02d}", said, source, pair, label, **facts))
    return Dataset.of("small world", examples)


def text_of(request: ChatRequest) -> str:
    return "\n".join(part.text for message in request.messages for part in message.parts if isinstance(part, TextPart))


@cache
def level_of(data: bytes) -> int:
    return int(np.asarray(Image.open(io.BytesIO(data)))[0, 0, 0])


def levels_of(request: ChatRequest) -> list[int]:
    """Brightness of the two candidates of a request, as they are shown."""
    return [level_of(part.data) for part in request.images[-2:]]


def see(request: ChatRequest) -> Script:
    """Look at the candidates, and follow the notes."""
    text = text_of(request)
    levels = levels_of(request)
    wants_bright = any(f" {topic} " in text for topic in WRONG_BY_NATURE) == (OPPOSITE in text)
    wants_bright = (wants_bright or BRIGHTER in text) and DARKER not in text
    return answer_of("A" if (levels[0] > levels[1]) == wants_bright else "B")


def answer_of(chosen: str) -> str:
    """A reply of a judge that prefers a candidate."""
    scores = {label: {"instruction": 3, "quality": 3} for label in "AB"}
    return f"<answer>{json.dumps({'preference': chosen, 'scores': scores})}</answer>"


def skill(name: str, trigger: str, says: str) -> Entry:
    return Entry(name, "skill", f"What to prefer: {name}.", says, {"triggers": trigger})


def add(name: str, trigger: str, says: str, cited: Sequence[str] = ()) -> Proposal:
    return Proposal("add", (AddEntry(skill(name, trigger, says)),), f"About {name}.", tuple(cited), "a list")


GOOD = (add("cats", "cat", BRIGHTER), add("dogs", "dog", BRIGHTER))
HARMFUL = add("trees", "tree", DARKER)
IDLE = add("cars", "car", "Look closely.")


@dataclass
class ListOrchestrator:
    """Proposes what is on its list, for Skills, each once. It remembers what it saw."""

    proposals: Sequence[Proposal] = (GOOD[0], HARMFUL, IDLE, GOOD[1])
    errors: list[ModelError] = field(default_factory=list)
    """Raised first, one in each round."""
    name: str = "a list"
    spent: Usage = Usage()
    findings: tuple[Finding, ...] = (Finding("Cats are missed.", ("cat-00",), ("other",), 3, 1),)
    dropped: tuple[()] = ()
    views: list[View] = field(default_factory=list)

    def propose(self, view: View) -> list[Proposal]:
        self.views.append(view)
        self.spent += Usage(1, 100, 10, 0.0)
        if self.errors:
            raise self.errors.pop(0)
        tried = {each.signature for each in view.rejected}
        known = {entry.name for entry in view.library.entries}
        if view.phase != "skills":
            return []
        new = [each for each in self.proposals if each.signature not in tried and not known.intersection(each.names)]
        return new[: view.limit]

    def repair(self, view: View, proposal: Proposal, problem: str) -> Proposal | None:
        return None


class ExactAgent(SubAgent):
    """A Sub-Agent whose model gives the same answer to the same question."""

    def with_samples(self, samples: int, first: int = 0) -> SubAgent:
        return self


def make_plan(
    home: Path,
    *,
    answers: Callable[[ChatRequest], Script] = see,
    orchestrator: ListOrchestrator | None = None,
    schedule: Schedule = QUICK,
    library: Library = EMPTY,
    limits: SpendingLimits = UNLIMITED,
    dataset: Dataset | None = None,
    seed: int = 0,
) -> tuple[EvolutionPlan, ScriptedModel]:
    """A plan with a scripted model as the judge, and the model to look at."""
    model = ScriptedModel(answers)
    judge = ExactAgent(model, ModelJudgeConfig(one_order=True), JudgmentCache(home / "cache"))
    parts = (dataset or make_dataset(), library, judge, orchestrator or ListOrchestrator(), schedule)
    return EvolutionPlan(*parts, lambda example: {}, seed=seed, limits=limits, samples=0, concurrency=4), model


class Killed(BaseException):
    """Stands for the end of a process: nothing is said, nothing is tidied up."""


class Fuse:
    """Counts calls, and kills at a number."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, *_: object) -> None:
        self.left -= 1
        if self.left == 0:
            raise Killed


def evolved(home: Path, session: Session | None = None, **options: Any) -> EvolutionReport:
    """Run or resume the evolution of a plan in the folder `run`."""
    return evolve(make_plan(home, **options)[0], home / "run", session)


Kind = TypeVar("Kind", bound=Event)


def events_of(home: Path, kind: type[Kind]) -> list[Kind]:
    """The events of one kind of the run in the folder `run`."""
    return [event for event in read_events(home / "run") if isinstance(event, kind)]


def start_search(
    home: Path, schedule: Schedule, orchestrator: ListOrchestrator, library: Library = EMPTY, **options: Any
) -> tuple[Run, State, list[Event]]:
    """A search of 88 examples in memory, before its first step, and the list that gets its events."""
    examples, events = make_dataset(22).examples, list[Event]()
    evaluator = Evaluator(make_plan(home)[0].judge, **options)
    run = Run(evaluator, orchestrator, examples, lambda _: {}, (), emit=events.append)
    return run, begin(library, run.evaluator.judge(library, schedule.watched(examples))), events

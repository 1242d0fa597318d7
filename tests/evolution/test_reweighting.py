"""The weights of a model's criteria are fitted from the grades that the model gave."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from proposer_samples import Bench, criterion, example, judge, library, skill

from rewardharness.evolution.builtin.orchestrator import BuiltinOrchestrator
from rewardharness.evolution.joint.reweighting import NAME, read_grades
from rewardharness.evolution.loop import search
from rewardharness.evolution.proposal import Outcome
from rewardharness.evolution.schedules import DefaultSchedule
from rewardharness.evolution.state import State, begin
from rewardharness.evolution.steps import Run
from rewardharness.library.rubric import Criterion
from rewardharness.library.store import Library
from rewardharness.schema import ChainStep, Example, Judgment

START = library(
    skill(
        "every-edit",
        "always",
        criterion("follows", "edit_presence", weight=4.0),
        criterion("faithful", "preservation", weight=0.5),
        criterion("clean", "sharpness", weight=1.0),
    )
)
KEYS = ("every-edit/follows", "every-edit/faithful", "every-edit/clean")
Numbers = dict[str, dict[str, dict[str, int]]]
"""Example id to label to criterion to grade from 1 to 4."""


def rubric_bench(numbers: Numbers) -> Bench:
    """Judges as a model does in the protocol `rubric`, with made-up grades."""
    measures = dict(zip(KEYS, ("edit_presence", "preservation", "sharpness"), strict=True))

    def judge_one(made: Library, asked: Example) -> Outcome:
        rows = numbers[asked.id]
        grades = {label: {measures[key]: (row[key] - 1) / 3 for key in KEYS} for label, row in rows.items()}
        outcome = judge(made, asked, grades, "rubric")
        steps = (
            ChainStep("answer", json.dumps({"candidate": label, **row}), subject=label) for label, row in rows.items()
        )
        return replace(outcome, judgment=replace(outcome.judgment, steps=tuple(steps)))

    return Bench(judge_one)


def world(seed: int, count: int, telling: str = "") -> tuple[list[Example], Numbers]:
    rng = random.Random(seed)
    examples, numbers = [], {}
    for number in range(count):
        made = {label: {key: rng.randint(1, 4) for key in KEYS} for label in "AB"}
        label = rng.choice("AB")
        if telling and rng.random() < 0.9:
            label = max("AB", key=lambda each: (made[each][telling], rng.random()))
        name = f"e{number:03d}"
        examples.append(replace(example(name, "Make the sky pink.", label), source_id=f"s{number // 2}"))
        numbers[name] = made
    return examples, numbers


def evolve(seed: int, examples: Sequence[Example], numbers: Numbers) -> State:
    bench = rubric_bench(numbers)
    run = Run(bench, BuiltinOrchestrator(), tuple(examples), lambda each: {}, (), seed)  # type: ignore[arg-type]
    return search(run, DefaultSchedule(), begin(START, bench.judge(START, examples)), lambda state: None)


def test_weights_follow_the_grades_that_people_agree_with() -> None:
    examples, numbers = world(1, 70, "every-edit/faithful")
    state = evolve(1, examples, numbers)
    assert NAME in state.library.lineage_text
    weights = {each.id: each.weight for each in state.library.skills[0].rubric.criteria}  # type: ignore[union-attr]
    assert weights["faithful"] > weights["follows"] > 0
    unseen, unseen_numbers = world(99, 200, "every-edit/faithful")
    bench = rubric_bench(unseen_numbers)
    before, after = (np.mean([each.credit for each in bench.judge(made, unseen)]) for made in (START, state.library))
    assert after > before + 0.08


@pytest.mark.slow
def test_on_random_labels_the_weights_stay() -> None:
    assert sum(evolve(seed, *world(seed, 60)).accepted > 0 for seed in range(20)) <= 1


@pytest.mark.parametrize("text", ["nonsense", "[1]", '{"candidate": "A", "s/c": 9}', '{"candidate": "A", "s/c": "4"}'])
def test_grades_off_the_scale_are_no_grades(text: str) -> None:
    judgment = Judgment("e", "model", "rubric", "0" * 64, steps=(ChainStep("answer", text),))
    assert not any(read_grades(judgment, {"s/c": Criterion("c", "Sharp.")}).values())


def test_repeated_grades_are_averaged() -> None:
    steps = tuple(ChainStep("answer", json.dumps({"candidate": "A", "s/c": number})) for number in (1, 4))
    judgment = Judgment("e", "model", "rubric", "0" * 64, steps=steps)
    assert read_grades(judgment, {"s/c": Criterion("c", "Sharp.")}) == {"A": {"s/c": 0.5}}

"""What a run accepts with the real schedule and the built-in Orchestrator, on made-up grades: nothing by luck."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import pytest
from proposer_samples import criterion, example, graded_bench, library, skill

from rewardharness.evolution.builtin.orchestrator import BuiltinOrchestrator
from rewardharness.evolution.gate import ALPHA
from rewardharness.evolution.loop import search
from rewardharness.evolution.schedules import DefaultSchedule
from rewardharness.evolution.state import State, begin
from rewardharness.evolution.steps import Run
from rewardharness.library.store import Library
from rewardharness.schema import Example

THINGS = ["cat", "dog", "hat", "car", "tree", "lamp", "bird", "boat"]
VERBS = ("add a {} to the scene", "remove the {}", "make the {} red", "replace the {} with a vase")
GRADED = ("sharpness", "seam", "edit_extent", "added_structure", "noise", "fidelity", "removal_fill")
START = library(
    skill("every-edit", "always", criterion("sharp", "sharpness"), criterion("seam", "seam")),
    skill("adding-things", "add, insert", criterion("extent", "edit_extent", applies=["add"])),
)
Worlds = dict[str, dict[str, dict[str, float]]]


def world(seed: int, count: int, telling: str = "", share: float = 0.9) -> tuple[list[Example], Worlds]:
    """Examples with random grades. Labels are random too, or follow one measure with the probability `share`."""
    rng = random.Random(seed)
    examples, grades = [], {}
    for number in range(count):
        made = {label: {name: rng.random() for name in GRADED} for label in "AB"}
        label = rng.choice("AB")
        if telling and rng.random() < share:
            label = max("AB", key=lambda each: made[each][telling])
        name = f"e{number:03d}"
        said = VERBS[number % len(VERBS)].format(THINGS[rng.randrange(len(THINGS))])
        examples.append(replace(example(name, said, label), source_id=f"s{number}"))
        grades[name] = made
    return examples, grades


def evolve(seed: int, examples: Sequence[Example], grades: Worlds, start: Library = START) -> State:
    evaluator = graded_bench(grades)
    graded = tuple(grades[examples[0].id]["A"])
    run = Run(evaluator, BuiltinOrchestrator(), tuple(examples), lambda each: grades[each.id], graded, seed)  # type: ignore[arg-type]
    schedule = DefaultSchedule(prune_share=1.0, screen=False)
    return search(run, schedule, begin(start, evaluator.judge(start, examples)), lambda state: None)


@pytest.mark.slow
def test_on_random_labels_at_most_one_run_in_twenty_accepts_anything() -> None:
    runs = 48
    accepted = 0
    for seed in range(runs):
        examples, grades = world(seed, 60)
        state = evolve(seed, examples, grades)
        assert state.tests > 0, "there are proposals to test"
        accepted += state.accepted > 0
    # Probability of so many accepting runs, or more, if each accepts with the probability ALPHA.
    tail = sum(math.comb(runs, k) * ALPHA**k * (1 - ALPHA) ** (runs - k) for k in range(accepted, runs + 1))
    assert tail > 0.05, f"{accepted} of {runs} runs accepted something"


@pytest.mark.slow
def test_a_real_improvement_is_accepted_and_holds_on_unseen_examples() -> None:
    unseen, unseen_grades = world(99, 300, "added_structure")
    evaluator = graded_bench(unseen_grades)
    gains = []
    for seed in range(5):
        examples, grades = world(seed, 75, "added_structure")
        state = evolve(seed, examples, grades)
        before, after = (
            fmean(each.credit for each in evaluator.judge(made, unseen)) for made in (START, state.library)
        )
        gains.append(after - before if state.accepted else 0.0)
    assert sum(gain > 0.05 for gain in gains) >= 4, gains

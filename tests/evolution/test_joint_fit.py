"""The joint fit: it finds weights that predict the labels, and accepts nothing on labels without signal."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proposer_samples import Bench, criterion, example, graded_bench, judge, library, skill
from test_evidence import Worlds, evolve

from rewardharness.data.source import Dataset
from rewardharness.errors import InputError
from rewardharness.evolution.builtin.forecast import observer
from rewardharness.evolution.builtin.orchestrator import BuiltinOrchestrator
from rewardharness.evolution.diagnosis import check
from rewardharness.evolution.gate import detectable_gain
from rewardharness.evolution.joint import fit as fits
from rewardharness.evolution.joint.fit import Comparisons, fit, fold_numbers, novelty_p_value
from rewardharness.evolution.joint.proposing import shared_phrase
from rewardharness.evolution.joint.reweighting import NAME, read_grades
from rewardharness.evolution.joint.step import POLICY, CrossValidation, part_of
from rewardharness.evolution.loop import search
from rewardharness.evolution.plan import EvolutionPlan
from rewardharness.evolution.proposal import Outcome
from rewardharness.evolution.schedules import DefaultSchedule
from rewardharness.evolution.state import State, begin
from rewardharness.evolution.steps import Run
from rewardharness.judging.measured import MeasuredJudge
from rewardharness.judging.opening import open_judge
from rewardharness.judging.router import fires
from rewardharness.library.opening import open_library
from rewardharness.library.rubric import Criterion
from rewardharness.library.store import Library, RemoveEntry
from rewardharness.schema import ChainStep, Example, ImageInput, Judgment
from rewardharness.settings import Settings

GRADED = ("edit_presence", "structure_kept", "preservation", "gloss_similarity", "structure_similarity", "sharpness")
VISIBLE = criterion("visible", "edit_presence", weight=0.5)
START = library(skill("every-edit", "always", criterion("kept", "structure_kept"), VISIBLE))
SAME = "Give the {} the same material appearance as before."


def drawn(seed: int, count: int, weights: np.ndarray, sharpness: float = 4.0) -> Comparisons:
    """Comparisons whose labels follow some weights."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, len(weights)))
    right = rng.random(count) < 1 / (1 + np.exp(-sharpness * rows @ weights))
    return Comparisons(np.where(right[:, None], rows, -rows), np.ones(count), np.arange(count) // 3)


def world(seed: int, count: int, telling: str = "", said: str = SAME) -> tuple[list[Example], Worlds]:
    """Examples with random grades. Labels are random too, or follow one measure nine times out of ten."""
    rng = random.Random(seed)
    examples, grades = [], {}
    for number in range(count):
        made = {label: {name: rng.uniform(0.05, 1) for name in GRADED} for label in "AB"}
        label = rng.choice("AB")
        if telling and rng.random() < 0.9:
            label = max("AB", key=lambda each: made[each][telling])
        name = f"e{number:03d}"
        thing = ("vase", "bowl", "lamp", "shoe")[number % 4]
        examples.append(replace(example(name, said.format(thing), label), source_id=f"s{number // 2}"))
        grades[name] = made
    return examples, grades


def test_a_fit_finds_the_weights_and_none_is_negative() -> None:
    data = drawn(1, 600, np.array([0.5, 1.0, 0.0, -1.0]))
    weights = fit(data, 3.0)
    assert (weights >= 0).all() and weights[3] == 0 and weights[2] < 0.3
    assert weights[1] / weights[0] == pytest.approx(2.0, rel=0.3)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(5, 60), st.integers(2, 6), st.sampled_from((0.1, 3.0, 100.0)))
def test_no_small_change_of_the_weights_has_a_smaller_loss(seed: int, count: int, size: int, strength: float) -> None:
    rng = np.random.default_rng(seed)
    data = Comparisons(rng.normal(size=(count, size)), rng.uniform(0.3, 1, count), rng.integers(0, 9, count))
    weights = fit(data, strength)
    prior = np.zeros(size)
    prior[0] = fits.PRIOR_SHARE * fits.calibrate(data)

    def loss(at: np.ndarray) -> float:
        errors = data.weights * np.logaddexp(0, -data.rows @ at)
        return float(errors.sum() + strength / 2 * ((at - prior) ** 2).sum())

    assert (weights >= prior).all()
    for _ in range(20):
        other = np.maximum(prior, weights + rng.normal(scale=0.01, size=size))
        assert loss(weights) <= loss(other) + 1e-6


def test_no_source_image_is_in_two_folds_and_folds_are_of_equal_size() -> None:
    sources = np.random.default_rng(0).integers(0, 40, 200)
    folds = fold_numbers(sources, 5, seed=3)
    assert all(len(set(folds[sources == source])) == 1 for source in set(sources))
    assert np.bincount(folds).min() >= 30
    assert (fold_numbers(sources, 5, seed=3) == folds).all()


def test_new_information_is_found_and_known_information_is_not_new() -> None:
    useful, known = np.array([0.3, 0.6, 0.0]), np.array([1.0, 0.0, 0.0])
    assert all(novelty_p_value(drawn(seed, 90, useful), seed) < 0.01 for seed in range(5))
    p_values = [novelty_p_value(drawn(seed, 90, known), seed) for seed in range(60)]
    assert sum(p <= 0.1 for p in p_values) <= 12
    assert fits.choose_strength(drawn(1, 90, known), 0) in (3.0, 10.0, 30.0, 100.0)


@pytest.mark.parametrize(
    ("fixed", "broken", "novelty", "decision"),
    [
        (12, 1, 0.9, "accept"),  # many preferences fixed
        (9, 4, 0.001, "accept"),  # new information, and a gain above its standard error
        (6, 3, 0.001, "reject"),  # new information that improves no preferences
        (9, 4, 0.2, "reject"),
        (0, 0, 0.001, "reject"),
        (1, 12, 0.001, "reject"),
    ],
)
def test_a_fit_needs_a_significant_test_and_a_gain_above_its_standard_error(
    fixed: int, broken: int, novelty: float, decision: str
) -> None:
    names = tuple(str(number) for number in range(fixed + broken))
    found = CrossValidation(names[:fixed], names[fixed:], 60, 0, novelty, 20)
    evidence = found.evidence(0.015, 60, 60)
    assert evidence.decision == decision
    assert ("standard error" in evidence.reason) == (fixed - broken <= (fixed + broken) ** 0.5)


@pytest.mark.parametrize(
    ("instructions", "phrase"),
    [
        (["Make it the same glossy finish", "Please make it the same glossy finish now"], "same glossy finish"),
        (["add a cat", "remove the tree"], ""),
        (["the image of a photo", "the image of a photo"], ""),
        ([], ""),
    ],
)
def test_the_phrase_that_nearly_all_instructions_share(instructions: list[str], phrase: str) -> None:
    found = shared_phrase(instructions)
    assert (phrase in found) if phrase else not found


def test_weights_are_fitted_and_tested_by_cross_validation() -> None:
    examples, grades = world(1, 80, "gloss_similarity")
    state = evolve(1, examples, grades, START)
    fitted = next(entry for entry in state.library.skills if entry.name.startswith("preferences-for-"))
    assert state.accepted >= 1 and fitted.rubric is not None
    heaviest = max(fitted.rubric.criteria, key=lambda each: each.weight)
    assert heaviest.measure == "gloss_similarity"
    assert '"policy": "' + POLICY in state.library.lineage_text.replace("'", '"')
    unseen, unseen_grades = world(99, 200, "gloss_similarity")
    bench = graded_bench(unseen_grades)
    before, after = (np.mean([each.credit for each in bench.judge(made, unseen)]) for made in (START, state.library))
    assert after > before + 0.15
    others, _ = world(7, 40, said="Remove the {}.")
    assert not any(fires(fitted, each.instruction) for each in others), "other instructions are judged as before"


@pytest.mark.slow
def test_the_check_judges_each_example_with_a_fit_on_other_sources() -> None:
    rng = np.random.default_rng(0)

    def image(gloss: float) -> ImageInput:
        pixels = rng.integers(60, 120, (32, 32, 3)).astype(np.float64)
        pixels[:4, :4] += gloss
        return ImageInput.of(np.clip(pixels, 0, 255).astype(np.uint8))

    examples = []
    for number in range(30):
        gloss, label = float(rng.uniform(20, 120)), "AB"[number % 2]
        near, far = image(gloss), image(float(rng.choice((0.0, 150.0))))
        candidates = (near, far) if label == "A" else (far, near)
        said = SAME.format("vase")
        examples.append(Example(f"e{number}", said, image(gloss), candidates, label, source_id=f"s{number // 2}"))
    examples += [replace(each, id=f"x{number}", instruction=said) for number, each in enumerate(examples[:2])]
    dataset = Dataset.of("glossy", examples)
    library_now = open_library("builtin").apply(RemoveEntry("matching-appearance"))
    parts = MeasuredJudge(), BuiltinOrchestrator(), DefaultSchedule(), observer(None)
    found = check(EvolutionPlan(dataset, library_now, *parts))
    assert found.start.n == 32 and found.detectable_gain == pytest.approx(detectable_gain(32))
    (scope,) = found.scopes
    assert scope.judged == 32 and scope.gain and scope.interval and 0 < scope.gain > scope.interval[0]
    assert "15 source images" in " ".join(found.lines)


def test_a_model_is_not_checked() -> None:
    model = open_judge("vllm:some/model@http://127.0.0.1:9/v1", Settings.from_env())
    parts = BuiltinOrchestrator(), DefaultSchedule(), observer(None)
    with pytest.raises(InputError, match="--check does not work"):
        check(EvolutionPlan(Dataset.of("none", ()), START, model, *parts))


def test_the_gain_that_examples_can_show_falls_with_their_number() -> None:
    assert detectable_gain(75) == pytest.approx(0.091, abs=0.001)
    assert [round(detectable_gain(n), 2) for n in (1, 24, 300)] == [1.0, 0.26, 0.05]


@pytest.mark.slow
def test_on_random_labels_the_fit_is_rejected() -> None:
    # Of the seeds below 400, 8 accept an edit (2%); these 40 are enough to notice a test that accepts too easily.
    accepted = [evolve(seed, *world(seed, 60), START).accepted for seed in range(100, 140)]
    assert sum(count > 0 for count in accepted) <= 2


def test_similarity_to_the_source_is_no_merit_where_a_change_is_requested() -> None:
    examples, grades = world(2, 80, "structure_similarity", said="Paint the {} in a bright new color.")
    state = evolve(2, examples, grades, START)
    measures = {each.measure for entry in state.library.skills if entry.rubric for each in entry.rubric.criteria}
    assert "structure_similarity" not in measures


RUBRIC = (("follows", "edit_presence", 4.0), ("faithful", "preservation", 0.5), ("clean", "sharpness", 1.0))
RUBRIC_START = library(skill("every-edit", "always", *(criterion(*row) for row in RUBRIC)))
RUBRIC_KEYS = ("every-edit/follows", "every-edit/faithful", "every-edit/clean")
Numbers = dict[str, dict[str, dict[str, int]]]
"""Example id to label to criterion to grade from 1 to 4."""


def rubric_bench(numbers: Numbers) -> Bench:
    """Judges as a model does in the protocol `rubric`, with made-up grades."""
    measures = dict(zip(RUBRIC_KEYS, ("edit_presence", "preservation", "sharpness"), strict=True))

    def judge_one(made: Library, asked: Example) -> Outcome:
        rows = numbers[asked.id]
        grades = {label: {measures[key]: (row[key] - 1) / 3 for key in RUBRIC_KEYS} for label, row in rows.items()}
        outcome = judge(made, asked, grades, "rubric")
        steps = (
            ChainStep("answer", json.dumps({"candidate": label, **row}), subject=label) for label, row in rows.items()
        )
        return replace(outcome, judgment=replace(outcome.judgment, steps=tuple(steps)))

    return Bench(judge_one)


def rubric_world(seed: int, count: int, telling: str = "") -> tuple[list[Example], Numbers]:
    rng = random.Random(seed)
    examples, numbers = [], {}
    for number in range(count):
        made = {label: {key: rng.randint(1, 4) for key in RUBRIC_KEYS} for label in "AB"}
        label = rng.choice("AB")
        if telling and rng.random() < 0.9:
            label = max("AB", key=lambda each: (made[each][telling], rng.random()))
        name = f"e{number:03d}"
        examples.append(replace(example(name, "Make the sky pink.", label), source_id=f"s{number // 2}"))
        numbers[name] = made
    return examples, numbers


def evolve_weights(seed: int, examples: Sequence[Example], numbers: Numbers) -> State:
    bench = rubric_bench(numbers)
    run = Run(bench, BuiltinOrchestrator(), tuple(examples), lambda each: {}, (), seed)  # type: ignore[arg-type]
    return search(run, DefaultSchedule(), begin(RUBRIC_START, bench.judge(RUBRIC_START, examples)), lambda state: None)


def test_weights_follow_the_grades_that_people_agree_with() -> None:
    examples, numbers = rubric_world(1, 70, "every-edit/faithful")
    state = evolve_weights(1, examples, numbers)
    assert NAME in state.library.lineage_text
    weights = {each.id: each.weight for each in state.library.skills[0].rubric.criteria}  # type: ignore[union-attr]
    assert weights["faithful"] > weights["follows"] > 0
    unseen, unseen_numbers = rubric_world(99, 200, "every-edit/faithful")
    bench = rubric_bench(unseen_numbers)
    before, after = (
        np.mean([each.credit for each in bench.judge(made, unseen)]) for made in (RUBRIC_START, state.library)
    )
    assert after > before + 0.08


@pytest.mark.slow
def test_on_random_labels_the_weights_stay() -> None:
    assert sum(evolve_weights(seed, *rubric_world(seed, 60)).accepted > 0 for seed in range(20)) <= 1


@pytest.mark.parametrize("text", ["nonsense", "[1]", '{"candidate": "A", "s/c": 9}', '{"candidate": "A", "s/c": "4"}'])
def test_grades_off_the_scale_are_no_grades(text: str) -> None:
    judgment = Judgment("e", "model", "rubric", "0" * 64, steps=(ChainStep("answer", text),))
    assert not any(read_grades(judgment, {"s/c": Criterion("c", "Sharp.")}).values())
    steps = tuple(ChainStep("answer", json.dumps({"candidate": "A", "s/c": number})) for number in (1, 4))
    twice = replace(judgment, steps=steps)
    assert read_grades(twice, {"s/c": Criterion("c", "Sharp.")}) == {"A": {"s/c": 0.5}}, "they are averaged"


def test_the_first_scope_has_half_of_the_error_budget_and_all_together_have_it_once() -> None:
    assert part_of(0, 1) == 1.0
    for scopes in (2, 3, 5):
        parts = [part_of(number, scopes) for number in range(scopes)]
        assert parts[0] == 0.5 and len(set(parts[1:])) == 1 and sum(parts) == pytest.approx(1.0)

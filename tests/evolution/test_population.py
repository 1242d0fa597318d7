"""Population searches: how Libraries are rated, parents and survivors, and that nothing is accepted by luck."""

import random
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, get_args

import pytest
from proposer_samples import criterion, example, graded_bench, library, skill
from small_world import BRIGHTER, answer_of, make_dataset
from small_world import skill as note
from test_evidence import GRADED, START, Worlds, world

from rewardharness.errors import RunError
from rewardharness.evolution import population
from rewardharness.evolution.builtin.orchestrator import BuiltinOrchestrator
from rewardharness.evolution.checkpoint import CHECKPOINT, Checkpoints
from rewardharness.evolution.loop import search
from rewardharness.evolution.population import Objective, PopulationSchedule, Selection, Strategy, value_of
from rewardharness.evolution.proposal import Outcome
from rewardharness.evolution.state import Member, State, begin
from rewardharness.evolution.steps import Run
from rewardharness.files import read_json, write_json
from rewardharness.judging.evaluate import evaluate
from rewardharness.judging.model_config import ModelJudgeConfig
from rewardharness.judging.report import credit
from rewardharness.judging.subagent import SubAgent
from rewardharness.library.opening import open_library
from rewardharness.library.store import EMPTY, AddEntry, Library
from rewardharness.models.scripted import ScriptedModel
from rewardharness.runs.spending import Spent
from rewardharness.schema import Example, Failure, Judgment, Scores

STRATEGIES = get_args(Strategy)
OBJECTIVES = get_args(Objective)
BASE = Judgment("x", "j", "chain", "lib", preference="A", ranking=(("A",), ("B",)), margin=0.4)
REFUSED = Judgment("x", "j", "chain", "lib", failure=Failure("refused", "no"))
LOST = Outcome(example("lost", "make it red"), REFUSED, 0.0)


def outcomes(right: int, wrong: int = 0, **fields: Any) -> list[Outcome]:
    judgment = replace(BASE, **fields)
    credits = [1.0] * right + [0.0] * wrong
    return [Outcome(example(f"e{n}", "make it red"), judgment, value) for n, value in enumerate(credits)]


def member(number: int, fitness: float, **kinds: float) -> Member:
    named = library(skill(f"skill-{number}", "always", criterion("sharp", "sharpness")))
    return Member(named, fitness, kinds or {"add": fitness})


def run_of(seed: int, examples: list[Example], grades: Worlds) -> tuple[Run, State]:
    bench = graded_bench(grades)
    run = Run(bench, BuiltinOrchestrator(), tuple(examples), lambda each: grades[each.id], GRADED, seed)  # type: ignore[arg-type]
    return run, begin(START, bench.judge(START, examples))


def schedule_of(name: Strategy = "evolutionary", **more: Any) -> PopulationSchedule:
    return PopulationSchedule(name, 16, population=4, **more)


def evolve(seed: int, examples: list[Example], grades: Worlds, **more: Any) -> State:
    run, state = run_of(seed, examples, grades)
    return search(run, schedule_of(**more), state, lambda each: None)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_an_objective_follows_the_accuracy_and_ignores_what_was_not_judged(objective: Objective) -> None:
    values = [value_of(objective, outcomes(right, 15 - right)) for right in (1, 14, 15)]
    assert values == sorted(values) and values[0] < 0.5 < values[1] < values[2]
    assert value_of(objective, [*outcomes(15), LOST]) == values[2]
    assert value_of(objective, [LOST]) == 0.5 and population.paired_gain(objective, [LOST], outcomes(1)) == 0
    assert population.paired_gain(objective, outcomes(1, 14), outcomes(14, 1)) == pytest.approx(values[1] - values[0])


def test_inconsistency_variance_and_length_cost_in_the_default_objective() -> None:
    long = library(skill("long", "always", body="x" * 19_979))
    spread = {name: Scores(3, 3, 0.5, variance=0.25) for name in "AB"}
    costs = {"position_consistent": False, "scores": spread}
    free = value_of("default", outcomes(9))
    for cost, value in costs.items():
        assert value_of("default", outcomes(9, **{cost: value})) == pytest.approx(free - 0.1)
        assert value_of("accuracy", outcomes(9, **{cost: value})) == 1
    assert value_of("default", outcomes(9, position_consistent=True)) == free
    assert value_of("default", outcomes(9), long) == pytest.approx(free - 0.01, abs=1e-5)


@pytest.mark.parametrize("both_orders", [True, False])
@pytest.mark.parametrize("known", [EMPTY, EMPTY.apply(AddEntry(note("cats", "cat", BRIGHTER)))])
def test_a_model_that_always_answers_left_has_accuracy_one_half(both_orders: bool, known: Library) -> None:
    judge = SubAgent(ScriptedModel(lambda request: answer_of("A")), ModelJudgeConfig(one_order=not both_orders))
    judged = evaluate(judge, known, make_dataset(6).examples)
    found = [Outcome(example, judgment, credit(example, judgment)) for example, judgment in judged]
    assert all(outcome.judged for outcome in found) and population.accuracy(found) == 0.5
    assert value_of("default", found) == 0.5 - 0.1 * both_orders


def test_diversity_is_about_judgments() -> None:
    other = outcomes(2, ranking=(("B",), ("A",))) + outcomes(2)
    assert population.diversity([outcomes(4), other]) == 0.5
    assert population.diversity([outcomes(4), other, outcomes(4)]) == pytest.approx(1 / 3)
    assert population.diversity([outcomes(4)]) == 0


@pytest.mark.parametrize("selection", get_args(Selection))
def test_parents_are_members_each_at_most_once(selection: Selection) -> None:
    members = [member(number, number / 10) for number in range(6)]
    for seed in range(20):
        chosen = population.choose_parents(members, 3, selection, random.Random(seed))
        assert 1 <= len(chosen) <= 3 and len({each.library.id for each in chosen}) == len(chosen)
        assert all(each in members for each in chosen)
    ten = [population.choose_parents(members, 1, selection, random.Random(seed))[0].fitness for seed in range(60)]
    assert fmean(ten) > fmean(each.fitness for each in members), "better members are chosen more often"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_child_survives_although_the_members_are_better(strategy: Strategy) -> None:
    members = [member(number, 0.9) for number in range(4)]
    children = [member(10, 0.1), member(11, 0.2)]
    kept = population.survivors(strategy, members, children, 4, random.Random(1))
    if strategy == "iterative":
        assert len(kept) == 1 and kept[0] in members
        same = member(12, 0.9)
        assert population.survivors(strategy, members[:1], [same], 4, random.Random(1)) == (same,)
        migrants = [member(1, 0.4), member(2, 0.8)]
        assert population.survivors(strategy, migrants, [member(3, 0.6)], 4, random.Random(1)) == (migrants[1],)
    elif strategy != "random":
        assert len(kept) == 4 and any(each in children for each in kept) and sum(each in members for each in kept) >= 2
    assert len({each.library.id for each in kept}) == len(kept)


def test_the_frontier_keeps_what_is_best_on_one_kind() -> None:
    one, other = member(1, 0.5, add=0.9, remove=0.1), member(2, 0.5, add=0.1, remove=0.9)
    assert population.frontier([one, other, member(3, 0.4, add=0.1, remove=0.1)]) == [one, other]


def test_the_difference_of_two_libraries_turns_one_into_the_other() -> None:
    builtin = open_library("builtin")
    smaller = replace(builtin, entries=builtin.entries[3:])
    assert population.difference(smaller, builtin).applied_to(smaller).id == builtin.id


def test_the_best_member_of_an_island_migrates_to_the_next() -> None:
    members = tuple(replace(member(number, number / 10), island=number % 2) for number in range(3))
    first, second, third = members
    assert population.migrated(members, 0, 2, 2) == members
    after = population.migrated(members, 2 * (population.MIGRATION - 1), 2, 1)
    assert [each.library.id for each in after if each.island == 1] == [third.library.id]
    assert (
        population.migrated(members, population.MIGRATION - 1, 1, 2) == members
        and second not in after
        and first in after
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["iterative", "evolutionary", "pareto"])
def test_a_real_improvement_is_found_and_holds_on_unseen_examples(name: Strategy) -> None:
    unseen, unseen_grades = world(99, 300, "added_structure")
    bench = graded_bench(unseen_grades)
    gains = []
    for seed in range(3):
        state = evolve(seed, *world(seed, 90, "added_structure"), name=name)
        before, after = (fmean(each.credit for each in bench.judge(made, unseen)) for made in (START, state.library))
        gains.append(after - before)
        assert state.ending
    assert sum(gain > 0.05 for gain in gains) >= 2, gains


@pytest.mark.slow
@pytest.mark.timeout(600)  # forty evolutions
def test_on_random_labels_at_most_two_of_forty_runs_accept_anything() -> None:
    accepted = sum(evolve(seed, *world(seed, 60), name=STRATEGIES[seed % 4]).accepted > 0 for seed in range(40))
    assert accepted <= 2


@pytest.mark.slow
@pytest.mark.parametrize("more", [*({"name": name} for name in STRATEGIES), {"islands": 2}])
def test_a_run_resumed_after_any_step_ends_in_the_same_way(more: dict[str, Any], tmp_path: Path) -> None:
    examples, grades = world(3, 60, "added_structure")
    whole = evolve(3, examples, grades, **more)
    run, state = run_of(3, examples, grades)
    schedule, checkpoints, steps = schedule_of(**more), Checkpoints(tmp_path), 0
    while not state.ending:
        state = replace(schedule.advance(run, state), step=state.step + 1)
        checkpoints.save(state, Spent())
        run, _ = run_of(3, examples, grades)
        loaded = Checkpoints(tmp_path).load(examples, run.evaluator)
        assert loaded is not None
        state, steps = loaded, steps + 1
    assert steps >= 3
    assert state.library.id == whole.library.id and state.accepted == whole.accepted
    assert state.population == whole.population and state.ending == whole.ending
    damaged = read_json(tmp_path / CHECKPOINT)
    write_json(tmp_path / CHECKPOINT, {**damaged, "population": {**damaged["population"], "results": {"merge": [1]}}})
    with pytest.raises(RunError, match="--restart"):
        Checkpoints(tmp_path).load(examples, run.evaluator)

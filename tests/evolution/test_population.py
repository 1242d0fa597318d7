"""Population searches: who may be a parent, who survives, and that nothing is accepted by luck."""

import random
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, get_args

import pytest
from proposer_samples import criterion, library, skill
from test_evidence import GRADED, START, GradedBench, Grades, world

from rewardharness.evolution.builtin.orchestrator import BuiltinOrchestrator
from rewardharness.evolution.checkpoint import Checkpoints
from rewardharness.evolution.events import Decided, Event, Skipped
from rewardharness.evolution.loop import search
from rewardharness.evolution.population import (
    MIGRATION,
    SOURCE,
    PopulationSchedule,
    Selection,
    Strategy,
    choose_parents,
    difference,
    frontier,
    survivors,
)
from rewardharness.evolution.state import Member, State, begin
from rewardharness.evolution.steps import Run
from rewardharness.evolution.stop import Spent
from rewardharness.library.opening import open_library
from rewardharness.schema import Example

STRATEGIES = get_args(Strategy)


def member(number: int, fitness: float, **kinds: float) -> Member:
    named = library(skill(f"skill-{number}", "always", criterion("sharp", "sharpness")))
    return Member(named, fitness, kinds or {"add": fitness})


def run_of(seed: int, examples: list[Example], grades: Grades) -> tuple[Run, State]:
    bench = GradedBench(grades)
    run = Run(bench, BuiltinOrchestrator(), tuple(examples), lambda each: grades[each.id], GRADED, seed)  # type: ignore[arg-type]
    return run, begin(START, bench.judge(START, examples))


def evolve(seed: int, examples: list[Example], grades: Grades, strategy: str = "evolutionary", **more: Any) -> State:
    run, state = run_of(seed, examples, grades)
    schedule = PopulationSchedule(strategy, 16, population=4, **more)  # type: ignore[arg-type]
    return search(run, schedule, state, lambda each: None)


@pytest.mark.parametrize("selection", get_args(Selection))
def test_parents_are_members_each_at_most_once(selection: Selection) -> None:
    members = [member(number, number / 10) for number in range(6)]
    for seed in range(20):
        chosen = choose_parents(members, 3, selection, random.Random(seed))
        assert 1 <= len(chosen) <= 3 and len({each.library.id for each in chosen}) == len(chosen)
        assert all(each in members for each in chosen)
    ten = [choose_parents(members, 1, selection, random.Random(seed))[0].fitness for seed in range(60)]
    assert fmean(ten) > fmean(each.fitness for each in members), "better members are chosen more often"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_child_survives_although_the_members_are_better(strategy: Strategy) -> None:
    members = [member(number, 0.9) for number in range(4)]
    children = [member(10, 0.1), member(11, 0.2)]
    kept = survivors(strategy, members, children, 4, 2, random.Random(1))
    if strategy == "iterative":
        assert kept == (members[0],)
        assert survivors(strategy, members[:1], [member(12, 0.9)], 4, 2, random.Random(1))[0].fitness == 0.9
    elif strategy != "random":
        assert len(kept) == 4 and any(each in children for each in kept) and sum(each in members for each in kept) >= 2
    assert len({each.library.id for each in kept}) == len(kept)


def test_the_better_of_two_members_after_a_migration_continues_a_lineage() -> None:
    members = [member(1, 0.4), member(2, 0.8)]
    assert survivors("iterative", members, [member(3, 0.6)], 4, 2, random.Random(1)) == (members[1],)


def test_the_frontier_keeps_what_is_best_on_one_kind() -> None:
    one, other, worse = (
        member(1, 0.5, add=0.9, remove=0.1),
        member(2, 0.5, add=0.1, remove=0.9),
        member(3, 0.4, add=0.1, remove=0.1),
    )
    assert frontier([one, other, worse]) == [one, other]


def test_the_difference_of_two_libraries_turns_one_into_the_other() -> None:
    builtin = open_library("builtin")
    smaller = replace(builtin, entries=builtin.entries[3:])
    assert difference(smaller, builtin).applied_to(smaller).id == builtin.id


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["iterative", "evolutionary", "pareto"])
def test_a_real_improvement_is_found_and_holds_on_unseen_examples(strategy: str) -> None:
    unseen, unseen_grades = world(99, 300, "added_structure")
    bench = GradedBench(unseen_grades)
    gains = []
    for seed in range(3):
        examples, grades = world(seed, 90, "added_structure")
        state = evolve(seed, examples, grades, strategy)
        before, after = (fmean(each.credit for each in bench.judge(made, unseen)) for made in (START, state.library))
        gains.append(after - before)
        assert state.ending
    assert sum(gain > 0.05 for gain in gains) >= 2, gains


@pytest.mark.slow
@pytest.mark.timeout(600)  # forty evolutions
def test_on_random_labels_at_most_two_of_forty_runs_accept_anything() -> None:
    accepted = sum(evolve(seed, *world(seed, 60), STRATEGIES[seed % 4]).accepted > 0 for seed in range(40))
    assert accepted <= 2


@pytest.mark.slow
def test_a_generation_with_a_scope_changes_one_entry() -> None:
    examples, grades = world(1, 60, "added_structure")
    run, state = run_of(1, examples, grades)
    heard: list[Event] = []
    run = replace(run, emit=heard.append)
    search(run, PopulationSchedule("evolutionary", 8, population=4, scope="entry"), state, lambda each: None)
    wider = [each for each in heard if isinstance(each, Skipped) and "the scope of this generation" in each.reason]
    tried = [each for each in heard if isinstance(each, Decided) and each.source != SOURCE]
    assert wider or tried
    assert all(len(each.names) == 1 for each in tried)
    assert evolve(2, examples, grades, scope="category").ending


@pytest.mark.slow
def test_islands_have_members_of_their_own_and_the_best_migrate() -> None:
    schedule = PopulationSchedule("evolutionary", population=2, islands=2)
    first, second, third = (replace(member(number, number / 10), island=number % 2) for number in (1, 2, 3))
    members = (first, second, third)
    assert schedule._migrated(members, 0) == members
    after = schedule._migrated(members, 2 * (MIGRATION - 1) + 1)
    assert {each.library.id for each in after if each.island == 0} == {third.library.id, second.library.id}
    examples, grades = world(3, 60, "added_structure")
    state = evolve(3, examples, grades, islands=2)
    assert state.population is not None and state.population.generation >= 2


@pytest.mark.slow
@pytest.mark.parametrize("more", [*({"strategy": name} for name in STRATEGIES), {"islands": 2}, {"scope": "entry"}])
def test_a_run_resumed_after_any_step_ends_in_the_same_way(more: dict[str, Any], tmp_path: Path) -> None:
    examples, grades = world(3, 60, "added_structure")
    whole = evolve(3, examples, grades, **more)
    run, state = run_of(3, examples, grades)
    schedule = PopulationSchedule(**{"strategy": "evolutionary", "proposals": 16, "population": 4, **more})
    checkpoints = Checkpoints(tmp_path)
    steps = 0
    while not state.ending:
        state = replace(schedule.advance(run, state), step=state.step + 1)
        checkpoints.save(state, Spent())
        fresh, _ = run_of(3, examples, grades)
        loaded = Checkpoints(tmp_path).load(examples, fresh.evaluator)
        assert loaded is not None
        run, state, steps = fresh, loaded, steps + 1
    assert steps >= 3
    assert state.library.id == whole.library.id and state.accepted == whole.accepted
    assert state.population == whole.population and state.ending == whole.ending

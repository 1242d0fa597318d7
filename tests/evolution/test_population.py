"""Population searches: how Libraries are rated, parents and survivors, and that nothing is accepted by luck."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, get_args

import pytest
from proposer_samples import criterion, example, graded_bench, library, pair, skill, view
from small_world import BRIGHTER, answer_of, make_dataset
from small_world import skill as note
from test_evidence import GRADED, START, Worlds, world

from rewardharness.errors import LibraryError, RunError
from rewardharness.evolution import operators, population
from rewardharness.evolution.builtin.orchestrator import BuiltinOrchestrator
from rewardharness.evolution.checkpoint import CHECKPOINT, Checkpoints
from rewardharness.evolution.loop import search
from rewardharness.evolution.operators import Choice, condition_problem, next_operator, possible_mutations
from rewardharness.evolution.population import Objective, PopulationSchedule, Selection, Strategy, value_of
from rewardharness.evolution.proposal import MUTATIONS, Mutation, Outcome, Proposal, RejectedProposal, View
from rewardharness.evolution.state import Member, State, begin
from rewardharness.evolution.steps import Run
from rewardharness.files import read_json, write_json
from rewardharness.judging.evaluate import evaluate
from rewardharness.judging.model_config import ModelJudgeConfig
from rewardharness.judging.report import credit
from rewardharness.judging.subagent import SubAgent
from rewardharness.library.entry import Entry
from rewardharness.library.opening import open_library
from rewardharness.library.rubric import Criterion, Rubric
from rewardharness.library.store import EMPTY, AddEntry, Change, Library, RemoveEntry, ReplaceEntry
from rewardharness.models.open import ScriptedModel
from rewardharness.prompts import sections
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


LOOKS = Criterion("looks", "How beautiful and appealing the candidate is.", 2.0, dimension="quality")
OBEYS = Criterion("obeys", "Whether the requested thing is there.", 2.0)
ADDING = skill("adding", "add, insert", LOOKS, OBEYS, body="Judge every added thing on its own merits.")
TEXTS = skill("texts", "write, text", body="Read what is written, letter after letter, in each candidate.")
PROMPTED = ({"triggers": "add"}, "Count the things.", None, None, {"n": "int"})
COUNT = Entry("count", "tool", "Counts things.", "Ask it.", *PROMPTED)
CASES = {
    "miss": ("add a red cat", "A", pair({"seam": 0.2}, {"seam": 0.8})),
    "hit": ("add a dog", "A", pair({"seam": 0.9}, {"seam": 0.1})),
}
EVERY = skill("every-edit", "always", criterion("seam", "seam"))
SEEN: View = view(library(EVERY, ADDING, TEXTS, COUNT), CASES)


def with_criteria(*criteria: Criterion, entry: Entry = ADDING) -> Change:
    return ReplaceEntry(replace(entry, rubric=Rubric(criteria)))


def triggered(entry: Entry, triggers: str, **fields: str) -> Entry:
    return replace(entry, metadata={"triggers": triggers}, **fields)  # type: ignore[arg-type]


def text(words: str, of: Criterion = LOOKS, **fields: object) -> Criterion:
    return replace(of, text=words, **fields)  # type: ignore[arg-type]


STRICT = text("How beautiful and appealing the candidate is. A 4 needs both, and no flaw at any size.")
FACTUAL = text("Whether the colors, shadows and edges of the added object match those around it.")
SEAMS = Criterion("seams", "Whether seams or blur surround the added thing.", 1.0, dimension="quality")
HALVES = text("How the light falls.", weight=1.0, id="light"), text("How sharp the lines are.", weight=1.0, id="sharp")
RED = skill("red-things", "red", body="A red thing is as red in the shade as the request says.")
SHORT = skill("adding", "add, insert, write, text", body="Judge what was added.")

GOOD: list[tuple[Mutation, tuple[Change, ...]]] = [
    ("raise_bar", (with_criteria(STRICT, OBEYS),)),
    ("raise_bar", (ReplaceEntry(replace(TEXTS, body=TEXTS.body + " One wrong letter is a 2.")),)),
    ("decompose", (with_criteria(*HALVES, OBEYS),)),
    ("decompose", (with_criteria(*(replace(LOOKS, id=kind, applies=(kind,)) for kind in ("add", "color")), OBEYS),)),
    ("decompose", (RemoveEntry("texts"), AddEntry(triggered(TEXTS, "write", name="w")), AddEntry(RED))),
    ("focus_on_facts", (with_criteria(FACTUAL, OBEYS),)),
    ("focus_on_facts", (with_criteria(LOOKS, replace(OBEYS, measure="seam")),)),
    ("punish_artifacts", (with_criteria(LOOKS, OBEYS, SEAMS),)),
    ("punish_artifacts", (ReplaceEntry(replace(TEXTS, body=TEXTS.body + " Distorted letters lose.")),)),
    ("counterexample_trigger", (AddEntry(RED),)),
    ("reweight", (with_criteria(replace(LOOKS, weight=1.0), OBEYS),)),
    ("merge", (RemoveEntry("texts"), ReplaceEntry(SHORT))),
    ("retire", (RemoveEntry("texts"),)),
    ("retire", (with_criteria(OBEYS),)),
    ("retrigger", (ReplaceEntry(triggered(TEXTS, "write, cat")),)),
    ("swap_tool", (ReplaceEntry(replace(COUNT, system_prompt=None, output_schema=None, measure="seam")),)),
    ("swap_tool", (RemoveEntry("count"), AddEntry(replace(COUNT, name="spell")))),
    ("fix_tool", (ReplaceEntry(replace(COUNT, system_prompt="Count the things, hidden ones included.")),)),
]
BAD: list[tuple[Mutation, tuple[Change, ...]]] = [
    ("raise_bar", (with_criteria(text("Is it nice?"), OBEYS),)),
    ("raise_bar", (with_criteria(replace(STRICT, weight=0.5), OBEYS),)),
    ("raise_bar", (with_criteria(STRICT),)),
    ("raise_bar", (with_criteria(replace(LOOKS, weight=3.0), OBEYS),)),
    ("raise_bar", (AddEntry(RED),)),
    ("decompose", (with_criteria(HALVES[0], OBEYS),)),
    ("decompose", (with_criteria(HALVES[0], replace(HALVES[0], id="x"), OBEYS),)),
    ("decompose", (with_criteria(*(replace(half, weight=2.0) for half in HALVES), OBEYS),)),
    ("focus_on_facts", (with_criteria(LOOKS, text("Whether the nice thing is there.", OBEYS)),)),
    ("focus_on_facts", (with_criteria(LOOKS, text("Whether the request was met.", OBEYS)),)),
    ("punish_artifacts", (with_criteria(LOOKS, replace(OBEYS, weight=4.0)),)),
    ("counterexample_trigger", (AddEntry(triggered(RED, "blue")),)),
    ("counterexample_trigger", (AddEntry(triggered(RED, "always")),)),
    ("counterexample_trigger", (ReplaceEntry(triggered(TEXTS, "red")),)),
    ("reweight", (with_criteria(replace(LOOKS, weight=4.0), replace(OBEYS, weight=4.0)),)),
    ("reweight", (with_criteria(replace(STRICT, weight=1.0), OBEYS),)),
    ("merge", (RemoveEntry("texts"), ReplaceEntry(triggered(SHORT, "write")))),
    ("merge", (RemoveEntry("texts"),)),
    ("merge", (RemoveEntry("texts"), ReplaceEntry(replace(SHORT, body="Look. " * 99)))),
    ("retire", (with_criteria(text("Whether it is there.", OBEYS)),)),
    ("retire", (ReplaceEntry(replace(TEXTS, body="Read.")),)),
    ("retrigger", (ReplaceEntry(triggered(TEXTS, "text")),)),
    ("retrigger", (ReplaceEntry(triggered(TEXTS, "cat", body="Read.")),)),
    ("swap_tool", (ReplaceEntry(replace(COUNT, body="Ask it twice.")),)),
    ("fix_tool", (ReplaceEntry(replace(COUNT, measure="seam")),)),
    ("fix_tool", (ReplaceEntry(triggered(COUNT, "insert")),)),
    ("fix_tool", (ReplaceEntry(replace(TEXTS, body="Read.")),)),
]


def proposal(changes: tuple[Change, ...]) -> Proposal:
    made = Proposal("modify", changes, "It helps.", ("miss",), "test")
    made.applied_to(SEEN.library)
    return made


@pytest.mark.parametrize(
    ("mutation", "changes", "met"),
    [*((name, changes, True) for name, changes in GOOD), *((name, changes, False) for name, changes in BAD)],
)
def test_the_condition_of_an_operator(mutation: Mutation, changes: tuple[Change, ...], met: bool) -> None:
    problem = condition_problem(mutation, proposal(changes), SEEN)
    assert problem == ("" if met else " ".join(sections("mutations")[mutation].split()))


def test_chinese_wording_is_understood() -> None:
    pretty = with_criteria(text("候选图像是否好看。"), OBEYS)
    plain = with_criteria(text("候选图像。"), OBEYS)
    seen, bare = (replace(SEEN, library=SEEN.library.apply(each)) for each in (pretty, plain))
    facts, seams = text("添加的物体颜色是否正确。"), replace(SEAMS, text="是否有接缝。", dimension="instruction")
    made = proposal((with_criteria(facts, OBEYS),))
    assert condition_problem("focus_on_facts", made, seen) == ""
    assert condition_problem("focus_on_facts", proposal((pretty,)), bare)
    assert condition_problem("punish_artifacts", proposal((with_criteria(LOOKS, OBEYS, seams),)), seen) == ""


def test_every_operator_has_a_purpose_and_both_kinds_of_cases() -> None:
    assert {*sections("mutations")} == {*MUTATIONS} == {name for name, _ in GOOD} == {name for name, _ in BAD}


def test_what_is_possible_depends_on_phase_and_library() -> None:
    skills = possible_mutations(SEEN)
    assert {*MUTATIONS} - {*skills} == {"swap_tool", "fix_tool"}
    assert {*possible_mutations(SEEN, model=False)} == operators.WITHOUT_MODEL
    assert {*possible_mutations(replace(SEEN, phase="tools"))} == {"swap_tool", "fix_tool", "retire", "retrigger"}
    assert {*possible_mutations(replace(SEEN, phase="prune"))} == {"merge", "retire"}
    empty = replace(SEEN, library=library())
    assert possible_mutations(empty) == ("punish_artifacts", "counterexample_trigger")
    assert possible_mutations(replace(empty, phase="tools")) == ()


HEAVY = library(skill("every-edit", "always", criterion("sharp", "sharpness", 4), criterion("seam", "seam")))
MISLED: View = view(
    HEAVY,
    {
        f"add{n}": (f"add a {thing}", "A", pair({"sharpness": 0.4, "seam": 0.9}, {"sharpness": 0.6, "seam": 0.3}))
        for n, thing in enumerate(("cat", "dog", "hat", "car", "tree", "lamp"))
    },
)


@pytest.mark.parametrize("mutation", ["reweight", "retire"])
def test_the_built_in_orchestrator_makes_the_operator_that_is_asked_for(mutation: Mutation) -> None:
    made = BuiltinOrchestrator().propose(replace(MISLED, mutations=(mutation,)))
    assert made and all(each.mutation == mutation for each in made)
    assert all(condition_problem(mutation, each, MISLED) == "" for each in made)
    assert BuiltinOrchestrator().propose(replace(MISLED, mutations=("raise_bar", "focus_on_facts"))) == []
    assert [each.mutation for each in BuiltinOrchestrator().propose(MISLED)] == [None]


def draw(choice: Choice, count: int, asked: int = 0, **more: object) -> Counter[Mutation]:
    given: dict[str, Any] = {"results": {}, "seed": 3, "usable": MUTATIONS, **more}
    return Counter(next_operator(choice, number=number, **given) for number in range(asked, asked + count))


def structural(counts: Counter[Mutation]) -> float:
    return sum(count for name, count in counts.items() if name in operators.STRUCTURAL) / counts.total()


@pytest.mark.parametrize("choice", get_args(Choice))
def test_only_usable_operators_are_chosen_and_a_number_always_gives_the_same(choice: Choice) -> None:
    assert set(draw(choice, 40, usable=("raise_bar", "reweight"))) == {"raise_bar", "reweight"}
    assert draw(choice, 30) == draw(choice, 10) + draw(choice, 20, 10)


def test_choices_of_operators() -> None:
    assert draw("fixed", 22) == dict.fromkeys(MUTATIONS, 2)
    unknown = draw("success_feedback", 550)
    assert set(unknown) == set(MUTATIONS) and min(unknown.values()) > 25
    gains: list[tuple[Mutation, float]] = [("reweight", 0.08), ("merge", -0.3), ("raise_bar", -0.1)]
    results = operators.with_gains({}, gains * 25)
    assert results["merge"] == (0, 25)
    assert draw("success_feedback", 200, results=results, usable=("reweight", "merge", "raise_bar"))["reweight"] > 195
    assert structural(draw("exploration_decay", 5)) == 1 == structural(draw("diversity_driven", 100))
    assert structural(draw("exploration_decay", 400, 400)) == pytest.approx(operators.LEAST_SHARE, abs=0.07)
    assert structural(draw("diversity_driven", 400, diversity=0.9)) == pytest.approx(operators.LEAST_SHARE, abs=0.07)


ONE = skill("one", "always", criterion("a", "seam"))
TWO = skill("two", "add")
ONE_AND_TWO = library(ONE, TWO)


def edit_of(*changes: AddEntry | ReplaceEntry | RemoveEntry, idea: tuple[str, ...] = ()) -> Proposal:
    return Proposal("modify", changes, "Because.", ("x",), "me", idea)


def test_the_same_edit_has_the_same_signature_whoever_proposes_it() -> None:
    change = ReplaceEntry(replace(ONE, body="New."), "why")
    again = replace(edit_of(change), statement="Other words.", source="you", cited=())
    assert edit_of(replace(change, reason="other")).signature == again.signature
    assert again.signature != edit_of(ReplaceEntry(replace(ONE, body="Newer."))).signature
    assert again.signature != edit_of(RemoveEntry("one")).signature
    assert edit_of(RemoveEntry("one")).signature != edit_of(RemoveEntry("two")).signature
    first, later = (edit_of(ReplaceEntry(replace(ONE, body=body)), idea=("reweight", "2")) for body in "xy")
    assert first.signature == later.signature != replace(first, idea=("reweight", "4")).signature
    tried = RejectedProposal.of(edit_of(AddEntry(TWO), RemoveEntry("one")), "broke more than it fixed")
    assert tried.text == "How to judge two.\nLook closely at each candidate."
    assert (tried.statement, tried.reason) == ("Because.", "broke more than it fixed")


def test_all_changes_are_applied_together_or_the_problem_is_told() -> None:
    merge = edit_of(RemoveEntry("two"), ReplaceEntry(replace(ONE, body="Both.")))
    assert [entry.name for entry in merge.applied_to(ONE_AND_TWO).entries] == ["one"]
    assert merge.names == ("two", "one")
    with pytest.raises(LibraryError, match="changes nothing"):
        edit_of(ReplaceEntry(ONE)).applied_to(ONE_AND_TWO)
    with pytest.raises(LibraryError, match="no entry"):
        edit_of(RemoveEntry("two"), RemoveEntry("two")).applied_to(ONE_AND_TWO)
    assert len(ONE_AND_TWO) == 2

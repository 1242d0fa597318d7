"""Objectives of a search, and how the objective of the other search fails."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proposer_samples import example
from small_world import BRIGHTER, make_dataset, skill

from rewardharness.errors import InputError
from rewardharness.evolution.objective import (
    ACCURACY,
    DEFAULT,
    JudgedPair,
    Objective,
    accuracy,
    hard_pairs,
    objective_named,
    outcome_pairs,
    paired_gain,
    ranked_pairs,
)
from rewardharness.evolution.proposal import Outcome
from rewardharness.judging.evaluate import evaluate
from rewardharness.judging.report import credit
from rewardharness.judging.subagent import SubAgent
from rewardharness.judging.subagent_settings import SubAgentSettings
from rewardharness.library.store import EMPTY, AddEntry, Library
from rewardharness.models.scripted import ScriptedModel
from rewardharness.schema import ChainStep, Failure, Judgment, Scores

TAIL = objective_named("tail")
RANKS = {name: float(number) for number, name in enumerate("abcdef", start=1)}


def ordered(order: str) -> list[JudgedPair]:
    """The 15 pairs of six candidates that people rank a to f, with rewards in the given order."""
    return ranked_pairs("g", RANKS, {name: 1 - place / 10 for place, name in enumerate(order)})


def right(pairs: list[JudgedPair]) -> float:
    return sum(pair.credit or 0.0 for pair in pairs)


# "efdcba": the two worst candidates first, in the right order; everything else reversed.
ONE_RIGHT, MOST_RIGHT, PERFECT = ordered("efdcba"), ordered("bacdef"), ordered("abcdef")


def test_the_tail_objective_prefers_a_rubric_with_1_of_15_pairs_to_one_with_14() -> None:
    assert (right(ONE_RIGHT), right(MOST_RIGHT), right(PERFECT)) == (1, 14, 15)
    assert TAIL(ONE_RIGHT).value > TAIL(MOST_RIGHT).value
    assert TAIL(ONE_RIGHT).value == TAIL(PERFECT).value == pytest.approx(0.6944, abs=1e-4)


@pytest.mark.parametrize("objective", [DEFAULT, ACCURACY])
def test_other_objectives_order_these_rubrics_by_the_pairs_that_people_ranked(objective: Objective) -> None:
    values = [objective(pairs).value for pairs in (ONE_RIGHT, MOST_RIGHT, PERFECT)]
    assert values == sorted(values) and values[0] < 0.5 < values[1] < values[2]


@given(st.permutations("abcdef"), st.permutations("abcdef"))
def test_accuracy_is_the_share_of_right_pairs(first: list[str], second: list[str]) -> None:
    one, other = ordered("".join(first)), ordered("".join(second))
    assert ACCURACY(one).value == pytest.approx(right(one) / 15)
    assert paired_gain(ACCURACY, one, other) == pytest.approx((right(other) - right(one)) / 15)


@given(st.permutations("abcdef"))
def test_what_counts_as_hard_does_not_depend_on_the_judge(order: list[str]) -> None:
    hard = {pair.key for pair in hard_pairs(ordered("".join(order)), 0.25)}
    assert hard == {pair.key for pair in hard_pairs(PERFECT, 0.25)}
    assert {frozenset("ab"), frozenset("ef")} <= {names for _, names in hard}
    assert all(abs(RANKS[one] - RANKS[other]) == 1 for one, other in (sorted(names) for _, names in hard))


@given(st.lists(st.booleans(), min_size=1, max_size=20), st.sampled_from([DEFAULT, ACCURACY]))
def test_an_always_left_judge_has_accuracy_one_half(sides: list[bool], objective: Objective) -> None:
    one_order = [
        JudgedPair(str(number), "A", "B", float(first), 1.0 if first else -1.0, better_first=first)
        for number, first in enumerate(sides)
    ]
    both_orders = [replace(pair, credit=0.5, margin=0.0, better_first=None) for pair in one_order]
    assert objective(one_order).value == pytest.approx(0.5)
    assert objective(both_orders).value == pytest.approx(0.5)


@pytest.mark.parametrize("both_orders", [True, False])
@pytest.mark.parametrize("library", [EMPTY, EMPTY.apply(AddEntry(skill("cats", "cat", BRIGHTER)))])
def test_a_model_that_always_answers_left_has_accuracy_one_half(both_orders: bool, library: Library) -> None:
    scores = {"A": {"instruction": 3, "quality": 3}, "B": {"instruction": 3, "quality": 3}}
    left = f"<answer>{json.dumps({'preference': 'A', 'scores': scores})}</answer>"
    judge = SubAgent(ScriptedModel(lambda request: left), SubAgentSettings(both_orders=both_orders))
    examples = make_dataset(6).examples
    judged = evaluate(judge, library, examples)
    pairs = outcome_pairs(Outcome(example, judgment, credit(example, judgment)) for example, judgment in judged)
    assert [pair.key for pair in pairs if pair.credit is None] == [] and len(pairs) == len(examples)
    value = DEFAULT(pairs)
    assert (value.terms["accuracy"], value.terms["hard pairs"], value.terms["generators"]) == (0.5, 0.5, 0.5)
    assert value.terms["inconsistency"] == float(both_orders)
    if not both_orders:
        assert {pair.better_first for pair in pairs} == {True, False}


def test_inconsistency_variance_and_length_cost() -> None:
    free = DEFAULT(PERFECT).value
    assert DEFAULT(PERFECT, length=20_000).value == pytest.approx(free - 0.01)
    assert DEFAULT([replace(pair, consistent=True) for pair in PERFECT]).value == free
    assert DEFAULT([replace(pair, consistent=False) for pair in PERFECT]).value == pytest.approx(free - 0.1)
    assert paired_gain(DEFAULT, PERFECT, PERFECT, lengths=(0, 20_000)) == pytest.approx(-0.01)
    assert DEFAULT([replace(pair, variance=0.5) for pair in PERFECT]).value == pytest.approx(free - 0.1)


def test_generators_count_in_equal_shares_and_small_strata_little() -> None:
    often = [JudgedPair(str(number), "A", "B", 1.0, generators=("x", "y")) for number in range(30)]
    rare = [JudgedPair(f"r{number}", "A", "B", 0.0, generators=("x", "z")) for number in range(2)]
    same = [JudgedPair("s", "A", "B", 0.0, generators=("x", "x"))]
    value = DEFAULT([*often, *rare, *same]).terms["generators"]
    assert value == pytest.approx(((0.5 + 30 / 38 * 0.5) + (0.5 - 2 / 10 * 0.5)) / 2)


def test_a_pair_without_a_judgment_is_no_wrong_pair() -> None:
    lost = JudgedPair("lost", "A", "B", None)
    assert DEFAULT([*PERFECT, lost]).value == DEFAULT(PERFECT).value
    assert (DEFAULT([*PERFECT, lost]).judged, DEFAULT([*PERFECT, lost]).n) == (15, 16)
    assert paired_gain(DEFAULT, [lost], [replace(lost, credit=1.0)]) == 0
    assert accuracy([lost]) == 0.5


def test_pairs_of_outcomes() -> None:
    def outcome(name: str, label: str, judgment: Judgment, credit: float, count: int = 2) -> Outcome:
        return Outcome(example(name, "make it red", label, count), judgment, credit)

    base = Judgment("x", "j", "chain", "lib", preference="A", ranking=(("A",), ("B",)), margin=0.4)
    step = ChainStep("answer", "A", order=("A", "B"))
    rewards = {name: Scores(3, 3, value, variance=0.01) for name, value in zip("ABC", (0.9, 0.5, 0.2), strict=True)}
    three = replace(base, ranking=(("A",), ("B",), ("C",)), scores=rewards, position_consistent=True)
    pairs = outcome_pairs(
        [
            outcome("one", "B", replace(base, steps=(step,)), 0.0),
            outcome("three", "B", three, 0.0, 3),
            outcome("none", "A", Judgment("x", "j", "chain", "lib", failure=Failure("refused", "no")), 0.0),
            outcome("tie", "tie", base, 0.0),
        ],
        gaps={"one": 0.2},
        generators={"one": {"A": "x", "B": "y"}},
    )
    one, first, second, none, tie = pairs
    assert (one.credit, one.margin, one.gap, one.better_first, one.generators) == (0.0, -0.4, 0.2, False, ("y", "x"))
    assert (first.better, first.worse, first.credit, second.credit) == ("B", "A", 0.0, 1.0)
    assert first.margin == pytest.approx(-0.4) and first.variance == pytest.approx(0.02) and first.consistent
    assert (none.credit, none.margin) == (None, None)
    assert tie.gap == 0 and tie.credit == 0


def test_unusable_names_and_weights_are_errors() -> None:
    with pytest.raises(InputError, match=r"Unknown objective 'best'.*default, accuracy, tail"):
        objective_named("best")
    with pytest.raises(InputError, match="weights"):
        Objective(variance=-1)
    with pytest.raises(InputError, match="hard_fraction"):
        Objective(hard_fraction=0)

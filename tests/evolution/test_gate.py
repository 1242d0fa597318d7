from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardharness.evolution.gate import (
    ALPHA,
    EXACT,
    FIRST_TEST,
    AnswerHistory,
    Evidence,
    MarginGate,
    Noise,
    Policy,
    SignTest,
    Tally,
    estimate_gain,
    level,
    sign_test,
)
from rewardharness.evolution.proposal import Outcome
from rewardharness.evolution.state import GateSettings, Trial, begin, credit_of, try_edit
from rewardharness.library.store import EMPTY
from rewardharness.runs.job import RunPaused
from rewardharness.schema import Example, Failure, ImageInput, Judgment

COUNTS = st.integers(0, 60)


def tally(fixes: int = 0, breaks: int = 0, ties: int = 0, left_wrong: int = 0, left_right: int = 0) -> Tally:
    """What an exact judge gives."""
    made = Tally()
    for before, after, count in ((0.0, 1.0, fixes), (1.0, 0.0, breaks), (1.0, 1.0, ties)):
        for _ in range(count):
            made.count(before, after)
    for expected, count in ((0.0, left_wrong), (1.0, left_right)):
        for _ in range(count):
            made.expect(expected)
    return made


@pytest.mark.parametrize(
    ("fixes", "breaks", "wanted"), [(0, 0, 1.0), (1, 0, 0.5), (3, 1, 5 / 16), (1, 3, 15 / 16), (8, 1, 10 / 512)]
)
def test_the_sign_test_has_its_known_values(fixes: int, breaks: int, wanted: float) -> None:
    assert sign_test(fixes, breaks) == pytest.approx(wanted)


def test_the_gain_and_its_interval_are_those_of_the_normal_approximation_for_pairs() -> None:
    gain, interval = estimate_gain(8, 2, 40)  # variance of +1, -1 and 0: (10 - 6 * 6 / 40) / 40
    assert gain == pytest.approx(0.15)
    assert interval == pytest.approx((0.15 - 0.14779, 0.15 + 0.14779), abs=1e-4)
    assert estimate_gain(0, 0, 0) == (None, None) and estimate_gain(5, 0, 5) == (1.0, (1.0, 1.0))


def test_the_levels_of_all_tests_of_a_run_add_up_to_the_error_budget() -> None:
    levels = [level(number) for number in range(1, 20_000)]
    assert levels == sorted(levels, reverse=True)
    assert sum(levels) == pytest.approx(ALPHA, rel=1e-3) and sum(levels) <= ALPHA


def decision(policy: Policy, *counts: int, **more: int) -> str:
    """The decision on a tally; empty to see more."""
    found = policy.decide(tally(*counts, **more))
    return found.decision if found else ""


@pytest.mark.parametrize(
    ("fixes", "breaks", "kept"),
    [(0, 0, False), (1, 0, False), (5, 0, False), (6, 0, True), (8, 1, True), (8, 3, False)],
)
def test_one_fix_against_no_break_is_no_evidence(fixes: int, breaks: int, kept: bool) -> None:
    assert decision(FIRST_TEST, fixes, breaks, ties=30) == ("accept" if kept else "reject")
    assert decision(SignTest(level(5)), 8, 1) == "reject", "a later test of a run needs more evidence"


@given(st.floats(1e-6, 0.5))
def test_the_fewest_examples_that_can_be_enough_are_enough(alpha: float) -> None:
    least = SignTest(alpha).least
    assert sign_test(least, 0) <= alpha
    assert least == 1 or sign_test(least - 1, 0) > alpha


def test_an_idle_edit_is_accepted_as_often_as_the_test_allows_however_often_it_is_looked_at() -> None:
    flips = np.random.default_rng(1).random((4000, 40)) < 0.5
    accepted = 0
    for row in flips:
        made = tally(left_wrong=int(row.sum()), left_right=int((~row).sum()))
        verdict = None
        for fixed in row:
            verdict = verdict or SignTest(ALPHA).decide(made)
            made.drop(0.0 if fixed else 1.0)
            made.count(0.0 if fixed else 1.0, 1.0 if fixed else 0.0)
        verdict = verdict or SignTest(ALPHA).decide(made)
        accepted += verdict is not None and verdict.decision == "accept"
    assert accepted / 4000 <= ALPHA


def test_harm_is_rejected_early() -> None:
    assert FIRST_TEST.decide(tally(1, 1, left_wrong=20, left_right=20)) is None
    verdict = FIRST_TEST.decide(tally(0, 2, left_wrong=20, left_right=20))
    assert verdict is not None and verdict.decision == "reject" and "harm" in verdict.reason


@pytest.mark.parametrize(
    ("left", "said"),
    [
        ({"left_right": 30}, "the 30 remaining examples, none of which it could fix, would not"),
        ({"left_right": 30, "left_wrong": 2}, "the 2 of 32 remaining examples that it could fix would not"),
    ],
)
def test_an_edit_is_rejected_when_nothing_left_could_be_enough(left: dict[str, int], said: str) -> None:
    verdict = FIRST_TEST.decide(tally(ties=3, **left))
    assert verdict is not None and verdict.decision == "reject" and said in verdict.reason


@given(COUNTS, COUNTS, st.integers(0, 20), st.integers(0, 20))
def test_every_gate_decides_when_nothing_is_left(fixes: int, breaks: int, ties: int, left: int) -> None:
    for gate in (FIRST_TEST, MarginGate(0.5)):
        assert gate.decide(tally(fixes, breaks, ties)) is not None
    assert MarginGate(0.5).decide(tally(fixes, breaks, ties, left_right=left + 1)) is None


@pytest.mark.parametrize("best", range(3, 41))
def test_the_margin_gate_keeps_a_drop_of_exactly_the_margin(best: int) -> None:
    gate = MarginGate(best / 40)
    assert decision(gate, breaks=43 - best, ties=best - 3) == "accept"
    assert best == 3 or decision(gate, breaks=44 - best, ties=best - 4) == "reject"


def test_for_an_exact_judge_the_last_answer_is_the_truth() -> None:
    history = AnswerHistory(1.0, 1.0).remembering(0.0, EXACT)
    assert history.expected(EXACT) == 1.0
    assert history.renewed(0.0, EXACT).expected(EXACT) == 0.0
    assert not AnswerHistory(0.5, 1.0).unsteady(EXACT)


def test_an_example_that_goes_to_and_fro_is_noticed_and_a_steady_one_stays_in() -> None:
    noise, first = Noise(), AnswerHistory(1.0, 1.0)
    assert not first.unsteady(noise)
    wavering = reduce(lambda history, answer: history.remembering(answer, noise), (0.0, 0.0, 1.0, 0.0), first)
    steady = reduce(lambda history, answer: history.remembering(answer, noise), [1.0] * 6, first)
    assert wavering.unsteady(noise) and not steady.unsteady(noise) and steady.expected(noise) > 0.8


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 0.5, 1.0])), max_size=30))
def test_what_a_tally_expects_and_drops_cancels(items: list[tuple[float, float]]) -> None:
    made = Tally()
    for before, _ in items:
        made.expect(before)
    for before, after in items:
        made.drop(before)
        made.count(before, after)
    assert made.left == made.hope == 0 and made.judged == len(items)


BLANK = ImageInput("x", data=b"")
TIMEOUT, SILENT = Failure("timeout", "Too slow."), Failure("nothing_to_measure", "No criteria.")

LENIENT = SignTest(0.5)
ONE_BY_ONE = GateSettings(LENIENT, EXACT, batch=1)


def example(number: int) -> Example:
    return Example(f"e{number:02d}", "make it shine", BLANK, (BLANK, BLANK), "A")


def outcome(what: Example, right: bool | None, failure: Failure = TIMEOUT) -> Outcome:
    if right is None:
        return Outcome(what, Judgment(what.id, "j", "p", "l", failure=failure), 0.0)
    return Outcome(what, Judgment(what.id, "j", "p", "l", "A" if right else "B"), float(right))


def try_on(
    before: str,
    after: str,
    gate: GateSettings = ONE_BY_ONE,
    failure: Failure = TIMEOUT,
    histories: Mapping[str, AnswerHistory] | None = None,
    **options: Any,
) -> tuple[Evidence, Trial, list[str]]:
    """Try an edit: one letter per example, + right, - wrong, ? no judgment. The list gets the ids that were asked."""
    signs: dict[str, bool | None] = {"+": True, "-": False, "?": None}
    examples, asked = [example(number) for number in range(len(before))], list[str]()
    old, new = (
        {each.id: outcome(each, signs[sign], failure) for each, sign in zip(examples, row, strict=True)}
        for row in (before, after)
    )

    def answer(chosen: Sequence[Example]) -> list[Outcome]:
        asked.extend(each.id for each in chosen)
        return [new[each.id] for each in chosen]

    known = {**begin(EMPTY, old.values()).histories, **(histories or {})}
    trial = Trial(examples, old, answer)
    return try_edit(trial, known, gate, **{"seed": 0, **options}), trial, asked


def test_a_helpful_edit_is_judged_on_all_that_it_touches() -> None:
    evidence, trial, asked = try_on("----++++", "++--++++")
    assert evidence.decision == "accept"
    assert (evidence.fixes, evidence.breaks, evidence.ties, evidence.judged) == (2, 0, 6, 8)
    assert evidence.fixed == ("e00", "e01") and evidence.broken == ()
    assert sorted(asked) == sorted(trial.outcomes) == [f"e{n:02d}" for n in range(8)], "each once"
    assert evidence.calls == evidence.affected == 8
    assert evidence.p_value == 0.25


def test_an_edit_that_cannot_be_accepted_costs_little() -> None:
    evidence, _, asked = try_on("----" + "+" * 30, "----" + "-" * 30)
    assert evidence.decision == "reject" and len(asked) <= 6
    evidence, _, asked = try_on("+" * 12, "+" * 12)
    assert evidence.decision == "reject" and asked == [], "nothing goes wrong"
    evidence, _, _ = try_on("", "")
    assert evidence.decision == "reject" and evidence.calls == 0 and "no example" in evidence.reason


def test_only_examples_that_count_are_evidence_and_all_that_are_touched_are_known() -> None:
    evidence, _, asked = try_on("--------++", "++------++", counted=[f"e{n:02d}" for n in range(2, 10)])
    assert evidence.decision == "reject" and evidence.fixes == 0
    assert not {"e00", "e01"} & set(asked), "a rejected edit is not judged on others"
    evidence, trial, _ = try_on("----++++++", "++++++++++", counted=[f"e{n:02d}" for n in range(1, 10)])
    assert evidence.decision == "accept" and evidence.fixes == 3
    assert "e00" in trial.outcomes and "e00" in evidence.fixed


def test_a_failed_judgment_is_neither_fix_nor_break() -> None:
    evidence, _, _ = try_on("---?+++++", "++??+++?+")
    assert (evidence.fixes, evidence.breaks, evidence.failed, evidence.judged) == (2, 0, 3, 6)
    assert not {"e02", "e03", "e07"} & {*evidence.fixed, *evidence.broken}
    with pytest.raises(RunPaused, match="failed"):
        try_on("----++++", "??????++")


def test_where_the_library_said_nothing_a_coin_is_the_measure() -> None:
    evidence, _, _ = try_on("??????", "++++++", failure=SILENT)
    assert evidence.decision == "accept" and evidence.fixes == 6
    assert try_on("??????", "------", failure=SILENT)[0].decision == "reject"
    assert credit_of(outcome(example(0), None, SILENT)) == 0.5
    assert credit_of(outcome(example(0), None)) is None


def test_the_order_follows_the_seed_and_takes_turns() -> None:
    gate = GateSettings(SignTest(1.0, futility=0.0), EXACT, batch=1)
    first, again, other = (try_on("-" * 8 + "+" * 8, "-" * 8 + "+" * 8, gate=gate, seed=seed)[2] for seed in (1, 1, 2))
    assert first == again != other
    right = [int(name[1:]) >= 8 for name in first]
    assert all(abs(sum(right[:n]) - n / 2) <= 1 for n in range(17))


def test_examples_on_which_the_judge_wavers_are_left_out() -> None:
    noise, wavering = Noise(), AnswerHistory(1.0, 2.0)
    assert wavering.unsteady(noise)
    histories = {f"e{n:02d}": wavering for n in range(4)}
    gate = GateSettings(LENIENT, noise=noise, batch=1)
    evidence, _, asked = try_on("--------++", "++++----++", gate=gate, histories=histories)
    assert evidence.decision == "reject" and evidence.unsteady == 4
    assert not {"e00", "e01", "e02", "e03"} & set(asked)
    exact, _, _ = try_on("--------++", "++++----++", gate=GateSettings(LENIENT, noise=EXACT, batch=1))
    assert exact.decision == "accept"

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardharness.evolution.gate import (
    EXACT,
    EValueGate,
    Evidence,
    MarginGate,
    Noise,
    SequentialGate,
    Standing,
    Tally,
    e_value,
    posterior,
)

COUNTS = st.integers(0, 60)


def tally(fixes: int = 0, breaks: int = 0, ties: int = 0, left_wrong: int = 0, left_right: int = 0) -> Tally:
    """What an exact judge gives."""
    made = Tally()
    for before, after, count in ((0.0, 1.0, fixes), (1.0, 0.0, breaks), (1.0, 1.0, ties)):
        for _ in range(count):
            made.count(before, before, after)
    for expected, count in ((0.0, left_wrong), (1.0, left_right)):
        for _ in range(count):
            made.expect(expected)
    return made


@pytest.mark.parametrize(
    ("fixes", "breaks", "wanted"), [(0, 0, 0.5), (1, 0, 0.75), (3, 1, 13 / 16), (1, 3, 3 / 16), (2, 2, 0.5)]
)
def test_the_posterior_has_its_known_values(fixes: int, breaks: int, wanted: float) -> None:
    assert posterior(fixes, breaks) == pytest.approx(wanted)


@given(COUNTS, COUNTS)
def test_the_posterior_of_fractions_meets_that_of_whole_numbers(fixes: int, breaks: int) -> None:
    assert posterior(fixes + 1e-9, breaks + 1e-9) == pytest.approx(posterior(fixes, breaks), abs=1e-6)


@given(st.floats(0, 80), st.floats(0, 80))
def test_the_posterior_is_a_probability_and_its_two_sides_add_up(gains: float, losses: float) -> None:
    assert 0 <= posterior(gains, losses) <= 1
    assert posterior(gains, losses) + posterior(losses, gains) == pytest.approx(1, abs=1e-9)


def test_the_posterior_of_fractions_agrees_with_simulation() -> None:
    drawn = np.random.default_rng(0).beta(1 + 3.4, 1 + 1.7, 200_000)
    assert posterior(3.4, 1.7) == pytest.approx(float((drawn > 0.5).mean()), abs=0.005)


@pytest.mark.parametrize(("fixes", "breaks"), [(4, 0), (7, 1), (9, 2), (11, 3), (13, 4)])
def test_the_e_value_gate_accepts_from_its_known_counts_on(fixes: int, breaks: int) -> None:
    accepted = EValueGate().decide(tally(fixes, breaks))
    short = EValueGate().decide(tally(fixes - 1, breaks))
    assert accepted is not None and accepted.decision == "accept"
    assert short is not None and short.decision == "reject"


@pytest.mark.parametrize(("fixes", "breaks"), [(7, 0), (10, 1), (12, 2), (14, 3)])
def test_the_e_value_reaches_twenty_at_its_known_counts(fixes: int, breaks: int) -> None:
    assert e_value(fixes, breaks) >= 20 > e_value(fixes - 1, breaks)


def test_an_idle_edit_seldom_reaches_a_large_e_value() -> None:
    flips = np.random.default_rng(1).random((2000, 40)) < 0.5
    reached = 0
    for row in flips:
        fixes = np.cumsum(row)
        reached += any(e_value(int(w), n + 1 - int(w)) >= 5 for n, w in enumerate(fixes))
    assert reached / 2000 <= 0.2


def test_the_e_value_gate_ends_early_when_it_can_no_longer_accept() -> None:
    gate = EValueGate()
    assert gate.decide(tally(2, 0, left_wrong=2)) is None
    verdict = gate.decide(tally(0, 2, left_wrong=1))
    assert verdict is not None and verdict.decision == "reject"


@pytest.mark.parametrize(
    "fixes, breaks, kept", [(1, 0, True), (2, 1, True), (2, 2, False), (0, 0, False), (9, 4, False)]
)
def test_the_sequential_gate_concludes_by_posterior_and_budget(fixes: int, breaks: int, kept: bool) -> None:
    verdict = SequentialGate().decide(tally(fixes, breaks))
    assert verdict is not None and (verdict.decision == "accept") == kept


def test_breaks_over_the_budget_are_named() -> None:
    verdict = SequentialGate().decide(tally(12, 4))
    assert verdict is not None and "budget of 3" in verdict.reason


def test_the_sequential_gate_sends_harm_back_early() -> None:
    gate = SequentialGate()
    assert gate.decide(tally(1, 1, left_wrong=20, left_right=20)) is None
    verdict = gate.decide(tally(0, 2, left_wrong=20, left_right=20))
    assert verdict is not None and verdict.decision == "reject" and "harm" in verdict.reason


def test_the_sequential_gate_stops_when_nothing_left_could_help() -> None:
    verdict = SequentialGate().decide(tally(0, 0, ties=3, left_right=30))
    assert verdict is not None and verdict.decision == "reject"


@given(COUNTS, COUNTS, st.integers(0, 20), st.integers(0, 20))
def test_every_gate_decides_when_nothing_is_left(fixes: int, breaks: int, ties: int, left: int) -> None:
    for gate in (SequentialGate(), EValueGate(), MarginGate(0.5)):
        assert gate.decide(tally(fixes, breaks, ties)) is not None
    assert MarginGate(0.5).decide(tally(fixes, breaks, ties, left_right=left + 1)) is None


@pytest.mark.parametrize("best", range(3, 41))
def test_the_margin_gate_keeps_a_drop_of_exactly_the_margin(best: int) -> None:
    reached = tally(breaks=40 - (best - 3), ties=best - 3)
    verdict = MarginGate(best / 40).decide(reached)
    assert verdict is not None and verdict.decision == "accept"
    worse = tally(breaks=40 - (best - 4), ties=best - 4) if best > 3 else tally(breaks=40)
    verdict = MarginGate(best / 40).decide(worse)
    assert best == 3 or (verdict is not None and verdict.decision == "reject")


def test_for_an_exact_judge_the_last_answer_is_the_truth() -> None:
    standing = Standing(1.0, 1.0).remembering(0.0, EXACT)
    assert standing.expected(EXACT) == 1.0
    assert standing.renewed(0.0, EXACT).expected(EXACT) == 0.0
    assert not Standing(0.5, 1.0).unsteady(EXACT)


def test_an_example_that_goes_to_and_fro_is_noticed() -> None:
    noise = Noise()
    standing = Standing(1.0, 1.0)
    assert not standing.unsteady(noise)
    for answer in (0.0, 0.0, 1.0, 0.0):
        standing = standing.remembering(answer, noise)
    assert standing.unsteady(noise)


def test_a_steady_example_stays_in() -> None:
    noise = Noise()
    standing = Standing(1.0, 1.0)
    for _ in range(6):
        standing = standing.remembering(1.0, noise)
    assert not standing.unsteady(noise)
    assert standing.expected(noise) > 0.8


def test_luck_in_the_first_look_is_no_evidence_against_later_edits() -> None:
    """Of coins that fell on their right side once, half fall on the wrong side next: by chance, not by an edit."""
    noise = Noise()
    lucky = Standing(1.0, 1.0).remembering(0.0, noise).remembering(1.0, noise).remembering(0.0, noise)
    naive, weighed = Tally(), Tally()
    for after in (1.0, 0.0) * 10:
        naive.count(1.0, 1.0, after)
        weighed.count(lucky.expected(noise), 1.0, after)
    assert naive.spoiled == 10
    assert abs(weighed.spoiled) < 4
    assert posterior(naive.gains, naive.losses) < 0.01 < posterior(weighed.gains, weighed.losses)


@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from([0.0, 0.5, 1.0])), max_size=30))
def test_what_a_tally_expects_and_drops_cancels(items: list[tuple[float, float]]) -> None:
    made = Tally()
    for expected, _ in items:
        made.expect(expected)
    for expected, after in items:
        made.drop(expected)
        made.count(expected, expected, after)
    assert made.left == 0 and made.judged == len(items)
    assert math.isclose(made.hope, 0.0, abs_tol=1e-9)
    assert math.isclose(made.gains - made.losses, sum(after - expected for expected, after in items), abs_tol=1e-9)


def test_evidence_survives_json() -> None:
    evidence = Evidence("reject", "2 fixed", "sequential", 2, 1, 3, 1, 0, 6, 9, 7, 1.0, ("a", "b"), ("c",))
    assert Evidence.from_json(evidence.to_json()) == evidence

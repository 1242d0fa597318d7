from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardharness.judging.ranking import CandidateSet, best, candidate_rewards, cost, examples_of
from rewardharness.schema import Failure, ImageInput, Judgment, Scores


def field(candidates: int) -> CandidateSet:
    images = tuple(ImageInput(str(index), data=bytes([index])) for index in range(candidates))
    return CandidateSet("f", "make it red", ImageInput("source", data=b"s"), images)


def judgment(example: str, preference=None, reward=None, failure=None) -> Judgment:
    scores = {} if reward is None else {"A": Scores(None, None, reward)}
    return Judgment(example, "test", "test", "", preference, scores=scores, failure=failure)


def as_the_order_says(subject: CandidateSet, order: list[int], method) -> dict[str, Judgment]:
    """Judgments of one who prefers whoever comes first in the order."""
    found = {}
    for example in examples_of(subject, method):
        places = [order.index(image.data[0]) for image in example.candidates]
        if method == "score":
            found[example.id] = judgment(example.id, reward=1 - places[0] / len(order))
        else:
            found[example.id] = judgment(example.id, "A" if places[0] < places[1] else "B")
    return found


@pytest.mark.parametrize("method", ["score", "win_rate"])
@given(order=st.permutations(range(5)))
def test_a_judge_that_is_sure_gives_its_own_order(method, order):
    subject = field(5)
    found = candidate_rewards(subject, method, as_the_order_says(subject, order, method))
    assert sorted(range(5), key=lambda index: -found[index].reward) == list(order)
    assert best(found) == (order[0],)
    assert all(each.judged == each.of and each.failure is None for each in found)


@pytest.mark.parametrize(("candidates", "method", "expected"), [(1, "score", 1), (8, "score", 8), (8, "win_rate", 28)])
def test_it_costs_what_it_says(candidates, method, expected):
    examples = list(examples_of(field(candidates), method))
    assert len(examples) == cost(candidates, method) == expected
    assert len({example.id for example in examples}) == expected


def test_a_failed_judgment_is_no_reward():
    subject = field(3)
    lost = Failure("timeout", "It took too long.")
    found = candidate_rewards(
        subject, "score", {"f#0": judgment("f#0", reward=0.4), "f#1": judgment("f#1", failure=lost)}
    )
    assert [each.reward for each in found] == [0.4, None, None]
    assert [each.failure and each.failure.code for each in found] == [None, "timeout", "missing"]
    assert best(found) == (0,)
    assert best(candidate_rewards(subject, "score", {})) == ()


def test_a_failed_comparison_counts_for_nobody():
    subject = field(3)
    lost = judgment("f#0-1", failure=Failure("timeout", "It took too long."))
    found = candidate_rewards(subject, "win_rate", {"f#0-1": lost, "f#0-2": judgment("f#0-2", "A"), "f#1-2": lost})
    assert [(each.reward, each.judged) for each in found] == [(1.0, 1), (None, 0), (0.0, 1)]
    assert found[1].failure.code == "timeout"


def test_level_candidates_share():
    subject = field(2)
    found = candidate_rewards(subject, "win_rate", {"f#0-1": judgment("f#0-1", "tie")})
    assert [each.reward for each in found] == [0.5, 0.5] and best(found) == (0, 1)


def test_one_candidate_cannot_win():
    (alone,) = candidate_rewards(field(1), "win_rate", {})
    assert alone.reward is None and alone.failure.code == "input"


@given(st.integers(2, 7), st.data())
def test_wins_add_up(candidates, data):
    """Every comparison gives one point in all, to whomever."""
    subject = field(candidates)
    answers = {
        f"f#{a}-{b}": judgment("x", data.draw(st.sampled_from(["A", "B", "tie"])))
        for a, b in combinations(range(candidates), 2)
    }
    found = candidate_rewards(subject, "win_rate", answers)
    assert sum(each.reward * each.judged for each in found) == pytest.approx(cost(candidates, "win_rate"))

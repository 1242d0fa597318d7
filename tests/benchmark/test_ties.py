import json
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewardharness.benchmark.answers import TieRule, fit_ties, tuned_in_hindsight, with_ties
from rewardharness.benchmark.metrics import FOUR_WAY, THREE_WAY, TWO_WAY, LabeledAnswer
from rewardharness.benchmark.task import BOTH_BAD
from rewardharness.codec import from_json, to_json
from rewardharness.errors import InputError
from rewardharness.schema import TIE, Accuracy

WHO = {"judge": "j", "protocol": "pointwise"}


def pair(name: str, truth: str, first: float | None, second: float | None, cluster: str = "") -> LabeledAnswer:
    return LabeledAnswer(name, truth, first=first, second=second, cluster=cluster)


def random_pairs(source: random.Random, prefix: str, n: int, labels: tuple[str, ...]) -> list[LabeledAnswer]:
    return [
        pair(f"{prefix}{place}", source.choice(labels), source.randint(0, 6) / 2, source.randint(0, 6) / 2)
        for place in range(n)
    ]


def test_a_threshold_is_fitted_by_hand_and_used_on_other_pairs() -> None:
    development = [pair("d1", TIE, 1.0, 1.2), pair("d2", TIE, 1.0, 0.7), pair("d3", "A", 2.0, 1.5)]
    development += [pair("d4", "B", 1.0, 3.0), pair("d5", "A", None, 1.0)]
    rule = fit_ties(development, **WHO)
    assert rule.threshold == pytest.approx(0.3)
    assert (rule.n, rule.unscored, rule.correct, rule.floor) == (4, 1, 4, None)
    test = [pair("t1", TIE, 1.0, 1.25), pair("t2", "A", 2.0, 1.9), pair("t3", "B", 1, 2), pair("t4", "B", 1, None)]
    assert with_ties(test, rule, **WHO).count == Accuracy(4, 3, 2)


@pytest.mark.parametrize("labels", [THREE_WAY, FOUR_WAY])
def test_the_sweep_finds_what_trying_everything_finds(labels: tuple[str, ...]) -> None:
    source = random.Random(8)
    for trial in range(60):
        pairs = random_pairs(source, f"{trial}-", source.randint(1, 12), labels)
        rule = fit_ties(pairs, labels=labels, **WHO)
        floors = [None, *(score for each in pairs for score in (each.first, each.second)), 9.0]
        tried = [
            TieRule(threshold, floor, labels, **WHO)
            for threshold in {0.0, *(abs(each.difference or 0) for each in pairs)}
            for floor in (floors if BOTH_BAD in labels else [None])
        ]
        best = max(sum(rule.label(each) == each.truth for each in pairs) for rule in tried)
        assert tuned_in_hindsight(pairs, labels).correct == best
        assert rule.correct == best == sum(rule.label(each) == each.truth for each in pairs)


def test_four_labels_call_both_bad_what_lies_below_the_floor() -> None:
    labeled = {"1": (BOTH_BAD, 0.1, 0.3), "2": (BOTH_BAD, 0.2, 0.2), "3": (TIE, 0.8, 0.8)}
    labeled |= {"4": ("A", 0.9, 0.1), "5": ("B", 0.2, 0.6)}
    development = [pair(name, *about) for name, about in labeled.items()]
    rule = fit_ties(development, labels=FOUR_WAY, **WHO)
    assert rule.correct == 5 and rule.floor is not None and 0.3 < rule.floor <= 0.6
    for first, second, label in ((0.0, 0.25, BOTH_BAD), (0.7, 0.7, TIE), (0.1, 0.9, "B"), (0.1, None, None)):
        assert rule.label(pair("x", "A", first, second)) == label
    all_bad = fit_ties([replace(each, truth=BOTH_BAD) for each in development], labels=FOUR_WAY, **WHO)
    assert all_bad.correct == 5


def test_a_rule_refuses_rows_it_was_fitted_on_and_their_neighbours() -> None:
    seen = [pair("d1", TIE, 1, 1, "cat"), pair("d2", "A", 2, 1, "dog"), pair("d3", "A", None, 1, "owl")]
    rule = fit_ties(seen, **WHO)
    for overlapping in (pair("d1", "A", 3, 2), pair("new", "A", 3, 2, "dog"), pair("d3", "A", 3, 2)):
        with pytest.raises(InputError, match=f"fitted on 1 of the 2 pairs.*{overlapping.id}"):
            with_ties([pair("t", "A", 2, 1), overlapping], rule, **WHO)
    assert with_ties([pair("t", "A", 2, 1, "fox")], rule, **WHO).count == Accuracy(1, 1, 1)
    with pytest.raises(InputError, match="for the judge 'j', not for 'other'"):
        with_ties([pair("t", "A", 2, 1)], rule, judge="other", protocol="pointwise")
    with pytest.raises(InputError, match="for the protocol 'pointwise', not for 'direct'"):
        with_ties([pair("t", "A", 2, 1)], rule, judge="j", protocol="direct")


def test_a_rule_survives_being_written_and_still_refuses_its_rows() -> None:
    rule = fit_ties([pair("d", TIE, 0.1, 0.3), pair("e", BOTH_BAD, 0.1, 0.1)], labels=FOUR_WAY, **WHO)
    written = json.loads(json.dumps(to_json(rule)))
    again = from_json(TieRule, written)
    assert again == rule
    with pytest.raises(InputError, match="fitted on"):
        with_ties([pair("d", "A", 2, 1)], again, **WHO)
    changes = {"more": 1, "threshold": "0.1", "floor": True, "labels": "AB", "seen": [1], "n": 1.5, "judge": None}
    for wrong in ({}, [], None, {**written, "threshold": -1.0}, *({**written, key: v} for key, v in changes.items())):
        with pytest.raises(InputError):
            from_json(TieRule, wrong)


def test_what_cannot_be_fitted_says_why() -> None:
    for pairs, labels, problem in (
        ([pair("d", "A", 1, 2)], TWO_WAY, "have no ties"),
        ([pair("d", "A", 1, None)], THREE_WAY, "No development pair has both scores"),
        ([pair("d", BOTH_BAD, 1, 2)], THREE_WAY, "d: the label 'both bad'"),
    ):
        with pytest.raises(InputError, match=problem):
            fit_ties(pairs, labels=labels, **WHO)
    with pytest.raises(InputError, match="cannot be a threshold"):
        TieRule(-0.1, None, THREE_WAY, **WHO)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(THREE_WAY), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=15))
def test_the_order_of_rows_and_of_candidates_changes_nothing(rows: list[tuple[str, int, int]]) -> None:
    swap = {"A": "B", "B": "A", TIE: TIE}
    pairs = [pair(str(place), truth, a, b) for place, (truth, a, b) in enumerate(rows)]
    mirrored = [pair(str(place), swap[truth], b, a) for place, (truth, a, b) in enumerate(rows)]
    rule, other = fit_ties(pairs, **WHO), fit_ties(mirrored, **WHO)
    assert (rule.threshold, rule.correct) == (other.threshold, other.correct)
    assert fit_ties(pairs[::-1], **WHO) == rule

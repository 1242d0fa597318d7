from dataclasses import replace

import pytest

from rewardharness.benchmark.metrics import LabeledAnswer, agreement, choice_of
from rewardharness.judging.report import credit, make_report, mcnemar, report_json, wilson
from rewardharness.judgments import judgment_from_json, judgment_json, result_line
from rewardharness.schema import Example, Failure, ImageInput, Judgment

IMAGE = ImageInput("x", data=b"")


def example(name: str, label: str | None, kind: str = "human", candidates: int = 2) -> Example:
    return Example(name, "do it", IMAGE, (IMAGE,) * candidates, preference=label, label_kind=kind)


def judgment(name: str, preference: str | None, consistent: bool | None = True) -> Judgment:
    failure = None if preference else Failure("image", "unreadable")
    return Judgment(name, "j", "p", "lib", preference=preference, position_consistent=consistent, failure=failure)


def test_mcnemars_test_is_exact() -> None:
    for fixes, breaks, wanted in ((0, 0, None), (5, 0, 0.0625), (5, 1, 0.21875), (3, 3, 1.0)):
        assert mcnemar(fixes, breaks) == mcnemar(breaks, fixes) == wanted
    assert 0.02 < mcnemar(1000, 900) < 0.025  # the normal approximation with continuity correction gives 0.0231


def test_wilson_is_the_published_interval() -> None:
    # 15 of 20 at 95 %: 0.531 to 0.888 (computed from the formula by hand).
    interval = wilson(15, 20)
    assert (interval.low, interval.high) == (pytest.approx(0.5313, abs=1e-4), pytest.approx(0.8881, abs=1e-4))
    assert wilson(0, 0) is None


def test_an_interval_holds_its_share_at_both_ends() -> None:
    for n in range(1, 200):
        none, every = wilson(0, n), wilson(n, n)
        assert none.low == 0.0 < none.high < 1.0 and 0.0 < every.low < every.high == 1.0


def test_labels_that_are_ties_count_only_where_ties_were_offered() -> None:
    examples = [example("1", "A"), example("2", "tie"), example("3", "tie", candidates=3)]
    judged = [judgment(each.id, "A") for each in examples]
    report = report_json(make_report(zip(examples, judged, strict=True)))
    assert (report["judged"], report["coverage"], report["ties_left_out"]) == (3, 1.0, 2)
    assert (report["by_label_kind"]["human"]["n"], report["by_label_kind"]["human"]["accuracy"]) == (1, 1.0)
    assert report["groups"]["n"] == 0
    offered = [replace(each, ties_offered=True) for each in judged]
    report = report_json(make_report(zip(examples, offered, strict=True)))
    assert (report["by_label_kind"]["human"]["n"], report["ties_left_out"]) == (2, 0)
    assert report["by_label_kind"]["human"]["accuracy"] == 0.5


def test_a_failure_lowers_coverage_and_not_accuracy() -> None:
    judged = [
        (example("1", "A"), judgment("1", "A")),
        (example("2", "B"), judgment("2", "A")),
        (example("3", "tie"), judgment("3", None, None)),
        (example("4", "A", "other"), judgment("4", "A", False)),
        (example("5", None), judgment("5", "B")),
        (example("6", "C", candidates=3), judgment("6", "C")),
    ]
    report = report_json(make_report(judged))
    assert (report["n"], report["judged"]) == (6, 5)
    human = report["by_label_kind"]["human"]
    assert (human["n"], human["judged"], human["accuracy"]) == (3, 2, 0.5)
    assert (report["by_label_kind"]["other"]["accuracy"], report["groups"]["best_accuracy"]) == (1.0, 1.0)
    assert report["position_consistency"] == pytest.approx(4 / 5)
    assert report["failures"] == {"image": 1}


@pytest.mark.parametrize("ties", [False, True])
def test_contradicting_answers_are_no_tie(ties: bool) -> None:
    torn = replace(judgment("1", "tie", False), ties_offered=ties, ranking=(("A", "B"),))
    assert torn.judged and torn.inconsistent and torn.undecided
    assert [credit(example("1", label), torn) for label in ("A", "B", "tie")] == [0.5, 0.5, 0.0]
    assert [agreement(LabeledAnswer("1", label, choice_of(torn))) for label in ("A", "B", "tie")] == [0.5, 0.5, 0.0]
    told = judgment_json(torn)
    assert (told["preference"], told["inconsistent"], told["failure"]) == (None, True, None)
    assert judgment_from_json(result_line(torn)).inconsistent
    level = replace(torn, position_consistent=True)
    assert judgment_json(level)["preference"] == "tie" and not judgment_json(level)["inconsistent"]
    assert credit(example("1", "tie"), level) == 1.0


def test_nothing_judged_has_no_accuracy() -> None:
    report = report_json(make_report([(example("1", "A"), judgment("1", None, None))]))
    human = report["by_label_kind"]["human"]
    assert human["accuracy"] is human["interval"] is None
    assert report["position_consistency"] is report["groups"]["best_accuracy"] is None


def test_an_undecided_forced_choice_counts_what_a_coin_would_get() -> None:
    level = Judgment("1", "j", "p", "lib", preference="tie", ranking=(("A", "B"),))
    offered, third = replace(level, ties_offered=True), replace(level, ranking=(("A", "B"), ("C",)))
    assert credit(example("1", "B"), level) == 0.5
    assert credit(example("1", "B"), offered) == 0.0
    assert credit(example("1", "tie"), offered) == 1.0
    assert credit(example("1", "C", candidates=3), third) == 0.0
    assert credit(example("1", "A", candidates=3), third) == 0.5

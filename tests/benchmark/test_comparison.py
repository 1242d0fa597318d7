import random
from dataclasses import replace

import pytest

from rewardharness.benchmark.comparison import ComparedExample, ComparedRun, compare
from rewardharness.errors import InputError


def run(name: str, credits: dict[str, float | None], **changed: str) -> ComparedRun:
    outcomes = tuple(ComparedExample(key, "A", credit) for key, credit in credits.items())
    settings = {"task": "t", "metric": "exact", "protocol": "pairs", **changed}
    return ComparedRun(name, outcomes=outcomes, **settings)


def test_two_runs_are_compared_example_by_example() -> None:
    first = run("old", {"a": 1, "b": 0, "c": 0, "d": 0.5, "e": 1, "f": None, "g": 1})
    second = run("new", {"g": None, "f": 1, "e": 1, "d": 1, "c": 1, "b": 1, "a": 0})
    test, better, worse = compare(first, second)
    assert (test.n, test.judged_by_both, test.judged_by_first_only, test.judged_by_second_only) == (7, 5, 1, 1)
    assert (better, worse, test.better, test.worse) == (("b", "c", "d"), ("a",), 3, 1)
    assert (test.gain, test.p) == (pytest.approx((4 - 2.5) / 5), pytest.approx(2 * 5 / 16))
    assert (test.first.accuracy, test.second.accuracy, test.first.name, test.clusters) == (0.5, 0.8, "old", 5)
    assert test.interval is not None and test.interval[0] < 0.3 < test.interval[1]
    back, *flipped = compare(second, first)
    assert (back.gain, back.p, *map(set, flipped)) == (pytest.approx(-0.3), test.p, set(worse), set(better))


def test_nothing_to_compare_has_no_gain_or_no_p() -> None:
    same = run("same", {"a": 1, "b": 0})
    test, better, worse = compare(same, same)
    assert (test.gain, test.p, better, worse) == (0.0, None, (), ())
    test, *_ = compare(run("one", {"a": 1, "b": None}), run("other", {"a": None, "b": 1}))
    assert (test.judged_by_both, test.gain, test.interval, test.p) == (0, None, None, None)


def test_examples_of_one_source_are_drawn_together() -> None:
    def clustered(name: str, seed: int) -> ComparedRun:
        source = random.Random(seed)
        right = [float(source.random() < 0.6) for _ in range(12)]
        outcomes = (ComparedExample(str(i), "A", right[i % 12], cluster=f"source {i % 12}") for i in range(240))
        return ComparedRun(name, "t", "exact", "pairs", tuple(outcomes))

    first, second = clustered("one", 1), clustered("other", 2)
    alone = [replace(each, outcomes=tuple(replace(o, cluster="") for o in each.outcomes)) for each in (first, second)]
    together, apart = compare(first, second)[0], compare(*alone)[0]
    assert (together.clusters, apart.clusters) == (12, 240) and together.gain == apart.gain
    assert together.interval is not None and apart.interval is not None
    assert together.interval[1] - together.interval[0] > 2 * (apart.interval[1] - apart.interval[0])


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        (run("other", {"a": 1, "b": 0}, task="u"), r"the task \('t' and 'u'\)"),
        (run("other", {"a": 1, "b": 0}, metric="no-tie"), "the metric"),
        (run("other", {"a": 1, "b": 0}, protocol="pointwise"), "the protocol"),
        (run("other", {"a": 1, "c": 0}), "the examples .one lacks 1, such as c; other lacks 1, such as b."),
        (run("other", {"a": 1}), "the examples .other lacks 1, such as b"),
        (
            ComparedRun("other", "t", "exact", "pairs", (ComparedExample("a", "A", 1), ComparedExample("b", "B", 1))),
            "the labels of 1 examples .b",
        ),
    ],
)
def test_runs_that_cannot_be_compared_say_what_differs(other: ComparedRun, problem: str) -> None:
    with pytest.raises(InputError, match=f"one and other cannot be compared; they differ in {problem}"):
        compare(run("one", {"a": 1, "b": 0}), other)


def test_all_that_differs_is_named_at_once_and_an_example_twice_is_refused() -> None:
    with pytest.raises(InputError, match=r"differ in the task .*, the metric .*, the examples"):
        compare(run("one", {"a": 1}), run("other", {"b": 1}, task="u", metric="m"))
    twice = ComparedRun("twice", "t", "exact", "pairs", (ComparedExample("a", "A", 1), ComparedExample("a", "A", 0)))
    with pytest.raises(InputError, match="twice contains duplicate examples"):
        compare(twice, twice)

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
    found = compare(first, second)
    assert (found.n, found.both, found.only_first, found.only_second) == (7, 5, 1, 1)
    assert (found.fixed, found.broken) == (("b", "c", "d"), ("a",))
    assert found.gain == pytest.approx((4 - 2.5) / 5)
    assert found.p_value == pytest.approx(2 * 5 / 16)
    assert (found.first_count.value, found.second_count.value) == (0.5, 0.8)
    assert found.interval is not None and found.interval.low < 0.3 < found.interval.high
    shown = found.to_json()
    assert shown["first"]["name"] == "old" and shown["fixed"] == ["b", "c", "d"] and shown["clusters"] == 5


def test_comparing_the_other_way_round_mirrors_everything() -> None:
    source = random.Random(9)
    credits = [{str(i): float(source.random() < p) for i in range(80)} for p in (0.5, 0.7)]
    one, other = run("one", credits[0]), run("other", credits[1])
    there, back = compare(one, other), compare(other, one)
    assert there.gain == pytest.approx(-(back.gain or 0)) and there.p_value == back.p_value
    assert (there.fixed, there.broken) == (back.broken, back.fixed)
    assert compare(one, other) == there


def test_a_run_against_itself_has_no_gain_and_no_p() -> None:
    same = run("same", {"a": 1, "b": 0})
    found = compare(same, same)
    assert (found.gain, found.p_value, found.fixed, found.broken) == (0.0, None, (), ())


def test_nothing_judged_by_both_has_no_gain() -> None:
    found = compare(run("one", {"a": 1, "b": None}), run("other", {"a": None, "b": 1}))
    assert (found.both, found.gain, found.interval, found.p_value) == (0, None, None, None)


def test_a_large_gain_shows_and_chance_does_not() -> None:
    source = random.Random(4)
    names = [str(place) for place in range(200)]
    old = run("old", {name: float(source.random() < 0.5) for name in names})
    better = run("better", {name: float(source.random() < 0.8) for name in names})
    found = compare(old, better)
    assert found.p_value is not None and found.p_value < 0.001
    assert found.interval is not None and found.interval.low > 0


def test_examples_of_one_source_are_drawn_together() -> None:
    def clustered(name: str, seed: int) -> ComparedRun:
        source = random.Random(seed)
        right = [float(source.random() < 0.6) for _ in range(12)]
        outcomes = (ComparedExample(str(i), "A", right[i % 12], cluster=f"source {i % 12}") for i in range(240))
        return ComparedRun(name, "t", "exact", "pairs", tuple(outcomes))

    first, second = clustered("one", 1), clustered("other", 2)
    alone = [replace(each, outcomes=tuple(replace(o, cluster="") for o in each.outcomes)) for each in (first, second)]
    together, apart = compare(first, second), compare(*alone)
    assert (together.clusters, apart.clusters) == (12, 240)
    assert together.gain == apart.gain and together.interval is not None and apart.interval is not None
    assert together.interval.high - together.interval.low > 2 * (apart.interval.high - apart.interval.low)


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


def test_all_that_differs_is_named_at_once() -> None:
    with pytest.raises(InputError, match=r"differ in the task .*, the metric .*, the examples"):
        compare(run("one", {"a": 1}), run("other", {"b": 1}, task="u", metric="m"))


def test_an_example_twice_is_refused() -> None:
    twice = ComparedRun("twice", "t", "exact", "pairs", (ComparedExample("a", "A", 1), ComparedExample("a", "A", 0)))
    with pytest.raises(InputError, match="twice contains duplicate examples"):
        compare(twice, twice)

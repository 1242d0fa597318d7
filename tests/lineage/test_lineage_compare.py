"""Comparing evals: pairs, intervals, directions, and what counts as a regression."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewardharness.errors import InputError
from rewardharness.files import sha256
from rewardharness.lineage import records as forms
from rewardharness.lineage.compare import Rule, check_regression, compare, paired_interval
from rewardharness.lineage.graph import EvolutionSummary, Graph, around, lineage_graph, tree
from rewardharness.lineage.records import BenchmarkRef, Direction, EvalComparison, Evaluation, MetricValue, Subject
from rewardharness.lineage.store import Lineage, LineageError, Record

HASH = sha256(b"some Library")


def an_eval(*metrics: MetricValue) -> Evaluation:
    return Evaluation(Subject(library=HASH), BenchmarkRef("bench", "all", "1"), metrics, protocol="p", judge="j")


def share(value: float, direction: Direction = "higher", **more: Any) -> MetricValue:
    return MetricValue("accuracy", direction, value, **more)


@pytest.fixture
def lineage(tmp_path: Path) -> Lineage:
    return Lineage(tmp_path)


def both(lineage: Lineage, base: Evaluation, new: Evaluation, items: Any = (None, None), **more: Any) -> EvalComparison:
    one, other = lineage.record("base", base, items[0]), lineage.record("new", new, items[1])
    assert isinstance(one.body, Evaluation) and isinstance(other.body, Evaluation)
    return compare(one, other, (lineage.items(one.body), lineage.items(other.body)), **more)


def hits(n: int, wrong: set[int]) -> dict[str, dict[str, float]]:
    return {"accuracy": {f"e{number}": float(number not in wrong) for number in range(n)}}


def test_items_are_compared_in_pairs(lineage: Lineage) -> None:
    base, new = hits(100, set(range(30))), hits(100, set(range(10)))
    found = both(lineage, an_eval(share(0.7)), an_eval(share(0.9)), (base, new))
    [difference] = found.metrics
    assert (difference.method, difference.n, difference.verdict) == ("paired items", 100, "better")
    assert difference.difference == pytest.approx(0.2)
    # Agresti and Min: 20 better, 0 worse of 100, one half added to each of the four cells
    assert difference.interval == pytest.approx((0.2 * 100 / 102 - 0.0795, 0.2 * 100 / 102 + 0.0795), abs=2e-3)


def test_only_common_examples_make_a_pair(lineage: Lineage) -> None:
    base = {"accuracy": {"a": 1.0, "b": 0.0, "c": 1.0}}
    new = {"accuracy": {"b": 1.0, "c": 1.0, "d": 0.0}}
    [difference] = both(lineage, an_eval(share(2 / 3)), an_eval(share(2 / 3)), (base, new)).metrics
    assert (difference.n, difference.difference) == (2, 0.5)


def test_without_items_two_intervals_are_added_in_squares(lineage: Lineage) -> None:
    # Newcombe 1998, table II, method 10: 56/70 against 48/80 has the interval 0.0524 to 0.3339
    base, new = share(48 / 80, interval=(0.4904, 0.7004)), share(56 / 70, interval=(0.6918, 0.8769))
    [difference] = both(lineage, an_eval(base), an_eval(new)).metrics
    assert difference.interval == pytest.approx((0.0524, 0.3339), abs=6e-4)
    assert (difference.method, difference.verdict) == ("two intervals", "better")


@pytest.mark.parametrize(("direction", "verdict"), [("higher", "better"), ("lower", "worse")])
def test_the_direction_is_that_of_the_record_not_of_name(lineage: Lineage, direction: Direction, verdict: str) -> None:
    metrics = [MetricValue("downtime_acc", direction, value, interval=(value, value)) for value in (0.5, 0.9)]
    [difference] = both(lineage, an_eval(metrics[0]), an_eval(metrics[1])).metrics
    assert difference.verdict == verdict


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"benchmark": BenchmarkRef("bench", "all", "2")}, "differ in the benchmark, bench/all/1 and bench/all/2"),
        ({"protocol": "q"}, "differ in the protocol"),
        ({"judge": "k"}, "differ in the judge"),
        ({"metrics": (share(0.5, "lower"),)}, "better higher in eval base, lower in eval new"),
        ({"metrics": (MetricValue("other", "higher", 1.0),)}, "no metric in common"),
    ],
)
def test_what_does_not_compare_is_refused(lineage: Lineage, change: dict[str, Any], why: str) -> None:
    with pytest.raises(LineageError, match=why):
        both(lineage, an_eval(share(0.5)), replace(an_eval(share(0.5)), **change))
    record = lineage.record("base", an_eval(share(0.5)))
    with pytest.raises(LineageError, match="with itself"):
        compare(record, record, ({}, {}))


def test_other_judges_are_compared_when_asked_and_said(lineage: Lineage) -> None:
    new = replace(an_eval(share(0.9)), judge="k")
    found = both(lineage, an_eval(share(0.1)), new, different_judges=True)
    [difference] = found.metrics  # two values alone prove nothing
    assert found.different_judges
    assert (difference.method, difference.interval, difference.verdict) == ("two values", None, "unclear")


def of(lineage: Lineage, base: float, new: float, wide: float | None = None, **more: Any) -> EvalComparison:
    def metric(value: float) -> MetricValue:
        return share(value, interval=None if wide is None else (value - wide, value + wide), **more)

    return both(lineage, an_eval(metric(base)), an_eval(metric(new)))


@pytest.mark.parametrize(
    ("rule", "new", "wide", "tolerance", "regressed", "certain"),
    [
        ("drop", 0.5, None, 0.0, True, None),
        ("drop", 0.88, None, 0.02, False, None),  # 0.9 - 0.88 is a little more than 0.02 in floating point
        ("drop", 0.87, 0.05, 0.02, True, False),
        ("drop", 0.95, 0.01, 0.0, False, True),
        ("proven", 0.87, 0.05, 0.02, False, False),
        ("proven", 0.6, 0.05, 0.02, True, True),
        ("ruled-out", 0.91, 0.05, 0.0, True, False),
        ("ruled-out", 0.91, 0.05, 0.1, False, True),
        ("ruled-out", 0.6, 0.05, 0.1, True, True),
    ],
)
def test_what_counts_as_a_regression_is_the_rule_s(
    lineage: Lineage, rule: Rule, new: float, wide: float | None, tolerance: float, regressed: bool, certain: object
) -> None:
    found = of(lineage, 0.9, new, wide)
    [check] = check_regression(found, {"": tolerance}, rule=rule)
    assert (check.regressed, check.certain) == (regressed, certain)
    if wide is None:
        with pytest.raises(LineageError, match="needs an interval"):
            check_regression(found, {}, rule="proven")


def test_a_missing_metric_is_an_error_and_never_passes(lineage: Lineage) -> None:
    two = an_eval(share(0.5), MetricValue("extra", "higher", 1.0))
    found = both(lineage, two, an_eval(share(0.5), MetricValue("fresh", "higher", 1.0)))
    with pytest.raises(LineageError, match="has no extra; a missing metric is not a pass"):
        check_regression(found, {})
    with pytest.raises(LineageError, match="has no typo"):
        check_regression(found, {}, metrics=["typo"])
    assert [each.name for each in check_regression(found, {}, metrics=["accuracy"])] == ["accuracy"]
    assert (found.only_base, found.only_new) == (("extra",), ("fresh",))


def test_judging_fewer_examples_is_a_regression_of_its_own(lineage: Lineage) -> None:
    found = both(lineage, an_eval(share(0.5, n=100, judged=98)), an_eval(share(0.9, n=100, judged=60)))
    checks = check_regression(found, {"": 0.5})
    assert [(each.name, each.regressed) for each in checks] == [("accuracy", False), ("coverage of accuracy", True)]
    assert not any(each.regressed for each in check_regression(found, {}, coverage_tolerance=0.4))
    untold = both(Lineage(lineage.folder / "more"), an_eval(share(0.5, n=100, judged=98)), an_eval(share(0.9)))
    with pytest.raises(LineageError, match="the new eval has none"):
        check_regression(untold, {})


@pytest.mark.parametrize("tolerances", [{"": -0.1}, {"typo": 0.1}, {"accuracy": float("nan")}])
def test_tolerances_that_make_no_sense_are_refused(lineage: Lineage, tolerances: dict[str, float]) -> None:
    with pytest.raises(InputError, match="tolerance"):
        check_regression(of(lineage, 0.9, 0.9), tolerances)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), min_size=1, max_size=200))
def test_a_paired_interval_holds_the_mean_and_never_shrinks_to_a_point(differences: list[float]) -> None:
    interval = paired_interval(differences, shares=True)
    assert interval is not None
    low, high = interval
    mean = sum(differences) / len(differences)
    assert -1 <= low < high <= 1 and low - 1e-9 <= mean <= high + 1e-9
    turned = paired_interval([-each for each in differences], shares=True)
    assert turned == pytest.approx((-high, -low))


def test_a_paired_interval_of_shares_covers_as_often_as_it_says() -> None:
    draw = random.Random(0)
    covered = 0
    for _ in range(1000):
        pairs = [(draw.random() < 0.7, draw.random() < 0.8) for _ in range(60)]
        interval = paired_interval([float(b) - float(a) for a, b in pairs], shares=True)
        assert interval is not None
        covered += interval[0] <= 0.1 <= interval[1]
    assert 0.93 <= covered / 1000 <= 0.98


def test_values_that_are_no_shares_have_an_interval_from_thirty_on() -> None:
    assert paired_interval([1.0] * 29, shares=False) is None
    low, high = paired_interval([float(number % 5) for number in range(100)], shares=False) or (0, 0)
    assert low == pytest.approx(2 - 1.96 * 1.4213 / 10, abs=1e-3) and high == pytest.approx(4 - low)


FIRST, SECOND, DATA, FILE = (sha256(name.encode()) for name in ("first", "second", "data", "file"))
EDIT: dict[str, Any] = {"parent": FIRST, "library": SECOND, "operator": "add", "entries": ["skill-a"]}
EDIT |= {"cited": ["p1", "p2"], "evidence": {"reason": "2 fixed"}}
EVOLUTION = EvolutionSummary("run", DATA, "pairs", FIRST, SECOND, (EDIT,))


@pytest.fixture
def records(tmp_path: Path) -> list[Record]:
    lineage = Lineage(tmp_path)
    release = forms.ReleaseRef("r1", str(tmp_path / "release.json"), FILE, SECOND)
    plan = forms.Manifest(
        "training", forms.NamedRevision("base"), forms.RewardRef(release), forms.NamedRevision("pairs", DATA)
    )
    manifest = lineage.record("grpo", plan)
    result = lineage.record(
        "grpo", forms.RunOutcome(manifest.id, "succeeded", artifacts=(forms.Artifact("last", "hf://o/n@1"),))
    )
    retry = lineage.record("retry", forms.Manifest("training", forms.NamedRevision("base"), parents=(result.id,)))
    lineage.record("retry", forms.RunOutcome(retry.id, "failed", forms.RunFailure("data", "no rows")))
    metrics = [(forms.MetricValue("accuracy", "higher", value, n=10, judged=9),) for value in (0.5, 0.75)]
    before = lineage.record(
        "before",
        forms.Evaluation(forms.Subject(model=forms.NamedRevision("base")), forms.BenchmarkRef("bench"), metrics[0]),
    )
    subject = forms.Subject(result=result.id, artifact="last")
    after = lineage.record("after", forms.Evaluation(subject, forms.BenchmarkRef("bench"), metrics[1]))
    lineage.record("both", compare(before, after, ({}, {})))
    return list(lineage.read_all().values())


def path(graph: Graph, *kinds: str) -> list[str]:
    """Nodes along edges from a kind to the next, each the only one."""
    here = [node for node in graph.nodes if node.kind == kinds[0]][:1]
    for kind in kinds[1:]:
        targets = {edge.target for edge in graph.edges if edge.source == here[-1].id}
        here += [node for node in graph.nodes if node.id in targets and node.kind == kind][:1]
    return [node.kind for node in here]


def test_the_way_leads_from_an_example_to_a_comparison(records: list[Record]) -> None:
    graph = lineage_graph(records, [EVOLUTION])
    way = ("example", "edit", "library", "release", "manifest", "result", "artifact", "eval", "comparison")
    assert path(graph, *way) == list(way)
    assert path(graph, "data", "example") == ["data", "example"]
    assert path(graph, "data", "manifest") == ["data", "manifest"], "the same data, by its digest"
    known = {node.id for node in graph.nodes}
    assert all({edge.source, edge.target} <= known for edge in graph.edges)
    assert len(known) == len(graph.nodes) and len(set(graph.edges)) == len(graph.edges)


def test_the_tree_says_all_of_it_once(records: list[Record]) -> None:
    lines = tree(lineage_graph(records, [EVOLUTION]))
    text = "\n".join(lines)
    for words in (
        "data pairs",
        "evidence for: edit add skill-a: 2 fixed (because of p1, p2)",
        f"produced: Library {SECOND[:12]}",
        "released as: release r1",
        "rewards: training grpo",
        "produced: artifact last (not hashed) at hf://o/n@1",
        "eval after: bench: accuracy 0.75, n 9 of 10, higher is better",
        "accuracy +0.25 unclear (two values)",
        "result retry: failed in data: no rows",
        "parent of: training retry",
    ):
        assert words in text
    assert sum("resulted in: result grpo" in line for line in lines) == 1


def test_around_a_node_is_what_led_to_it_and_what_came_of_it(records: list[Record]) -> None:
    graph = lineage_graph(records, [EVOLUTION])
    part = around(graph, [f"library:{SECOND}"])
    kinds = {node.kind for node in part.nodes}
    assert {"data", "example", "edit", "release", "manifest", "eval", "comparison"} <= kinds
    assert "model" not in kinds, "the base model neither led to the Library nor came of it"


def test_a_library_without_its_evolution_still_tells_its_edits() -> None:
    graph = lineage_graph([], libraries={SECOND: [EDIT]})
    assert path(graph, "example", "edit", "library") == ["example", "edit", "library"]
    both = lineage_graph([], [EVOLUTION], {SECOND: [EDIT]})
    assert [node.kind for node in both.nodes].count("example") == 2, "the same edit is one edit"


def test_rings_and_nonsense_in_foreign_lines_do_no_harm() -> None:
    lines = [{"parent": "a", "library": "b"}, {"parent": "b", "library": "a"}, {"parent": 1}, {}]
    lines += [{"parent": "a", "library": "c", "entries": 3, "cited": {"x": 1}, "evidence": [], "note": float("nan")}]
    drawn = tree(lineage_graph([], libraries={"a": lines}))
    assert len(drawn) == len(set(drawn)) and any("see above" in line for line in drawn)


values = st.recursive(st.none() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=3))
lines = st.fixed_dictionaries(
    {"parent": st.sampled_from("abc"), "library": st.sampled_from("abc")},
    optional={"operator": values, "entries": values, "cited": values, "evidence": st.dictionaries(st.text(), values)},
)


@settings(max_examples=25, deadline=None)
@given(st.lists(lines, max_size=8))
def test_any_lineage_is_drawn(foreign: list[dict[str, Any]]) -> None:
    graph = lineage_graph([], libraries={"a": foreign})
    shown = [node for node in graph.nodes if node.kind != "example"]
    assert len([line for line in tree(graph) if "see above" not in line]) >= len(shown)
    for node in graph.nodes:
        assert {node.id} <= {each.id for each in around(graph, [node.id]).nodes}

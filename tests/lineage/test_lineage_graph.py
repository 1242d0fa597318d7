"""The graph of a lineage: from preferences to evals, whatever foreign lines say."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewardharness.files import sha256
from rewardharness.lineage import records as forms
from rewardharness.lineage.compare import compare
from rewardharness.lineage.graph import EvolutionSummary, Graph, around, lineage_graph, tree
from rewardharness.lineage.store import Lineage, Record

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


@settings(max_examples=60, deadline=None)
@given(st.lists(lines, max_size=8))
def test_any_lineage_is_drawn(foreign: list[dict[str, Any]]) -> None:
    graph = lineage_graph([], libraries={"a": foreign})
    shown = [node for node in graph.nodes if node.kind != "example"]
    assert len([line for line in tree(graph) if "see above" not in line]) >= len(shown)
    for node in graph.nodes:
        assert {node.id} <= {each.id for each in around(graph, [node.id]).nodes}

"""What of a lineage is drawn, and where: every thing in a place of its own, and nothing lost without a word."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from app.lineage_drawing import COLUMNS, MOST_EDITS, MOST_NODES, UNKNOWN, Drawn, drawn, layout
from rewardharness.files import sha256
from rewardharness.runs.forms import Manifest, Model, Reward
from rewardharness.runs.graph import Graph, lineage_graph
from rewardharness.runs.lineage import Record


def name(number: int) -> str:
    return sha256(f"library {number}".encode())


def chain(count: int) -> list[dict[str, Any]]:
    return [
        {
            "parent": name(number),
            "library": name(number + 1),
            "operator": "add",
            "entries": [f"skill-{number}"],
            "cited": [f"p{number}"],
            "evidence": {"fixes": 2, "breaks": 1},
        }
        for number in range(count)
    ]


def evolved(count: int) -> Graph:
    return lineage_graph([], libraries={name(count): chain(count)})


def kinds(found: Drawn) -> dict[str, int]:
    counts: dict[str, int] = {}
    for node in found.graph.nodes:
        counts[node.kind] = counts.get(node.kind, 0) + 1
    return counts


def assert_sound(found: Drawn) -> None:
    """Every node has a place of its own in the column of its kind; edges lead between nodes that are drawn."""
    places = layout(found.graph)
    known = {node.id for node in found.graph.nodes}
    assert set(places.places) == known and len(set(places.places.values())) == len(known)
    for node in found.graph.nodes:
        assert node.kind in COLUMNS[places.columns[places.places[node.id][0]]]
    assert all({edge.source, edge.target} <= known and edge.source != edge.target for edge in found.graph.edges)
    assert len({(edge.source, edge.target) for edge in found.graph.edges}) == len(found.graph.edges)


def test_few_edits_are_drawn_one_by_one_from_top_to_bottom() -> None:
    found = drawn(evolved(MOST_EDITS))
    assert_sound(found)
    assert kinds(found) == {"library": MOST_EDITS + 1, "edit": MOST_EDITS, "data": 1}
    assert [node.detail["id"] for node in found.inside[UNKNOWN]] == [f"p{number}" for number in range(MOST_EDITS)]
    places = layout(found.graph).places
    rows = {edge.target: places[edge.target][1] - places[edge.source][1] for edge in found.graph.edges}
    assert places[UNKNOWN] == (0, 1)
    for edge in found.graph.edges:
        if edge.relation == "edited by":
            assert rows[edge.target] == 1 or places[edge.target][1] > places[edge.source][1]
        if edge.relation == "gave":
            assert places[edge.source][1] == places[edge.target][1]


def test_many_edits_stand_together_but_those_that_led_to_the_library() -> None:
    found = drawn(evolved(40))
    assert_sound(found)
    assert kinds(found) == {"library": MOST_EDITS + 1, "edit": MOST_EDITS, "data": 1} and not found.left_out
    [folded] = [node for node in found.graph.nodes if node.id.startswith("edits:")]
    assert folded.label == "29 more edits"
    assert [node.detail["entries"] for node in found.inside[folded.id]] == [[f"skill-{each}"] for each in range(29)]
    into = {edge.source for edge in found.graph.edges if edge.target == folded.id}
    out = {edge.target for edge in found.graph.edges if edge.source == folded.id}
    assert into == {UNKNOWN, f"library:{name(0)}"} and out == {f"library:{name(29)}"}


def test_what_was_used_on_the_way_stays_in_sight() -> None:
    plan = Manifest("training", Model("base"), Reward(library=name(10)))
    record = Record("manifest", "early", plan, sha256(b"early"), "2026-01-01T00:00:00Z")
    found = drawn(lineage_graph([record], libraries={name(40): chain(40)}))
    assert_sound(found)
    shown = {node.id for node in found.graph.nodes}
    assert {f"library:{name(10)}", f"library:{name(40)}", f"library:{name(0)}", f"manifest:{record.id}"} <= shown
    folded = [node for node in found.graph.nodes if node.id.startswith("edits:")]
    assert len(folded) > 1 and sum(len(found.inside[node.id]) for node in folded) + kinds(found)["edit"] == 40 + len(
        folded
    )


def test_too_many_things_are_left_out_and_counted() -> None:
    lines = [{"parent": name(2 * each), "library": name(2 * each + 1), "operator": "add"} for each in range(400)]
    graph = lineage_graph([], libraries={name(1): lines})
    found = drawn(graph, [f"library:{name(1)}"])
    assert_sound(found)
    assert f"library:{name(1)}" in {node.id for node in found.graph.nodes}
    assert len(found.graph.nodes) == 3 and found.left_out == 400 * 3 - 3
    assert len(drawn(graph).graph.nodes) == MOST_NODES


def test_a_training_stands_right_of_what_it_was_made_with() -> None:
    body = Manifest("training", Model("base"), Reward(library=name(3)))
    plans = [Record("manifest", f"m{each}", body, sha256(bytes([each])), "") for each in range(3)]
    found = drawn(lineage_graph(plans, libraries={name(3): chain(3)}))
    assert_sound(found)
    places = layout(found.graph)
    assert places.columns == ("Preferences, data", "Edits", "Library", "Release, model", "Training")
    for edge in found.graph.edges:
        if edge.relation in {"rewards", "base of", "taught"}:
            assert places.places[edge.source][0] < places.places[edge.target][0]


values = st.recursive(st.none() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=3))
foreign = st.fixed_dictionaries(
    {"parent": st.sampled_from("abcdef"), "library": st.sampled_from("abcdef")},
    optional={"operator": values, "entries": values, "cited": st.lists(st.text(max_size=2), max_size=3) | values},
)


@settings(max_examples=80, deadline=None)
@given(st.lists(foreign, max_size=40))
def test_whatever_foreign_lines_say_no_edit_is_lost(lines: list[dict[str, Any]]) -> None:
    graph = lineage_graph([], libraries={"a": lines})
    found = drawn(graph)
    assert_sound(found)
    shown = {node.id for node in found.graph.nodes} | {each.id for own in found.inside.values() for each in own}
    assert {node.id for node in graph.nodes if node.kind in {"edit", "example"}} <= shown

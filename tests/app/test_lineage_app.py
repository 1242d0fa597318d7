"""What the Lineage tab reads and shows, without a browser."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hostile import HOSTILE, OWN_TAGS, Reader
from hypothesis import given, settings
from hypothesis import strategies as st
from lineage_parts import ATTACK, Scene

from app.lineage import page
from app.lineage.services import LineageServices, LineageView
from rewardharness.errors import InputError
from rewardharness.library.opening import open_library
from rewardharness.library.store import EMPTY, Library
from rewardharness.lineage.graph import MAX_NODES, lineage_graph, mermaid
from rewardharness.settings import Settings

pytestmark = pytest.mark.slow


TAGS = OWN_TAGS | {"dl", "dt", "dd"}
ATTRIBUTES = {"class", "scope", "title"}
LINE = re.compile(
    r'n\d+\["[A-Za-z0-9 #;]*"\]:::\w+|n\d+ -->\|"[A-Za-z0-9 #;]*"\| n\d+'
    r"|classDef [\w -:#,]+|flowchart TD|%%\{init: .*\}%%"
)
"""What a line of a flowchart may be: labels have no character that Mermaid or Markdown could interpret."""


def services(home: Path, *, local: bool = True) -> LineageServices:
    return LineageServices(Settings.from_env({"RH_HOME": str(home)}), local=local)


def read(markup: str) -> str:
    """Return the text of markup; fail on elements or attributes that are not ours."""
    reader = Reader(markup)
    assert reader.open == [] and "\n" not in markup
    assert set(reader.tags) <= TAGS and reader.attributes <= ATTRIBUTES
    return reader.text


def shown(view: LineageView) -> str:
    """Return all text of a view."""
    fence, *lines, end = page.diagram(view).split("\n")
    assert (fence, end) == ("```mermaid", "```") and all(LINE.fullmatch(line) for line in lines)
    return read(page.as_table(view.graph)) + (read(page.details(view.chosen)) if view.chosen else "")


def kinds(view: LineageView) -> list[str]:
    return [node.kind for node in view.graph.nodes]


def test_records_are_shown_with_their_evolution(lineage_scene: Scene) -> None:
    view = services(lineage_scene.home).of_records()
    counts = {kind: kinds(view).count(kind) for kind in kinds(view)}
    assert all(counts[kind] == 2 for kind in ("manifest", "result", "eval", "data"))
    assert all(counts[kind] == 1 for kind in ("comparison", "release", "model", "artifact"))
    assert counts["library"] == counts["edit"] + 1 and "example" not in counts
    assert view.chosen is None
    text = shown(view)
    for words in (f"failed in preflight: No GPU is free {ATTACK}", "released as", "400 steps", "because of p"):
        assert words in text


def test_one_item_is_shown_with_its_details(lineage_scene: Scene) -> None:
    lineages = services(lineage_scene.home)
    ids = {label.split(":")[0]: id_ for label, id_ in lineages.of_records().choices}
    view = lineages.of_records(chosen=ids["eval after"])
    assert view.chosen is not None and view.chosen.id == ids["eval after"] and "model" in kinds(view)
    assert "before" not in {node.detail.get("name") for node in view.graph.nodes}
    text = shown(view)
    assert "Protocolboth orders" in text and "Judged50" in text and "Directionhigher" in text
    plan = lineages.of_records(chosen=ids["training grpo-1"])
    assert "Kl0.04" in shown(plan) and "Target0.8" in shown(plan)
    assert lineages.of_records(chosen="eval:none").chosen is None


def test_records_in_another_folder(lineage_scene: Scene, tmp_path: Path) -> None:
    elsewhere = services(tmp_path)
    assert elsewhere.of_records().choices == () and not (tmp_path / "lineage").exists()
    view = elsewhere.of_records(f" {lineage_scene.home / 'lineage'} ")
    assert {"manifest", "release", "library", "eval"} <= set(kinds(view))
    assert "edit" not in kinds(view), "the evolution run is not in this home"
    with pytest.raises(InputError, match="There is no folder"):
        elsewhere.of_records(str(tmp_path / "nowhere"))


def test_the_lineage_of_a_library(lineage_scene: Scene) -> None:
    library = Library.load(lineage_scene.run / "library")
    view = services(lineage_scene.home).of_library(library)
    assert set(kinds(view)) == {"edit", "library"}
    assert view.choices[0][1] == f"library:{library.id}"
    assert " fixed, 0 broken" in shown(view) and str(lineage_scene.home) not in shown(view)


def test_visitors_of_a_space_see_no_records(lineage_scene: Scene) -> None:
    remote = services(lineage_scene.home, local=False)
    records = str(lineage_scene.home / "lineage")
    for ask in (remote.of_records, lambda: remote.of_records(records)):
        with pytest.raises(InputError, match="only on the computer"):
            ask()
    assert remote.of_library(open_library("builtin")).graph.edges == ()


def test_the_nearest_of_many_nodes_are_drawn() -> None:
    ids = [f"{number:064x}" for number in range(2 * MAX_NODES)]
    library = EMPTY
    for parent, child in pairwise(ids):
        library = library.with_lineage({"parent": parent, "library": child, "operator": "add", "entries": ["x"]})
    view = services(Path("unused")).of_library(library, f"library:{ids[0]}")
    assert len(view.graph.nodes) == MAX_NODES and view.hidden > 0
    assert {f"library:{ids[number]}" for number in range(MAX_NODES // 2)} <= {node.id for node in view.graph.nodes}
    assert f"{view.hidden} more are not drawn" in read(page.hidden(view))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(HOSTILE) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(HOSTILE), st.dictionaries(st.sampled_from(["evidence", "added", "cited", "x"]), json_values))
def test_untrusted_lines_stay_text(name: str, fields: dict[str, Any]) -> None:
    line = {"parent": "a", "library": "b", "operator": name, "entries": [name], **fields}
    graph = lineage_graph([], libraries={"b": [line]})
    assert all(LINE.fullmatch(text) for text in mermaid(graph).split("\n"))
    read(page.as_table(graph))
    for node in graph.nodes:
        read(page.details(node))

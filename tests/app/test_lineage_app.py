"""What the Lineage tab gathers and says, without a browser."""

import math
from pathlib import Path
from typing import Any

import pytest
from hostile import HOSTILE, OWN_TAGS, Reader
from hypothesis import given, settings
from hypothesis import strategies as st
from lineage_parts import ATTACK, Scene

from app import lineage_views
from app.lineage_drawing import drawn
from app.lineage_picture import picture
from app.lineage_services import Gathered, LineageServices
from rewardharness.errors import InputError
from rewardharness.files import sha256, write_text
from rewardharness.library.opening import open_library
from rewardharness.library.store import EMPTY, Library
from rewardharness.runs.comparing import compare
from rewardharness.runs.forms import (
    Artifact,
    Benchmark,
    Curve,
    Data,
    Eval,
    Expected,
    Failure,
    Manifest,
    Metric,
    Model,
    Release,
    Result,
    Reward,
    Source,
    Subject,
    Trainer,
)
from rewardharness.runs.graph import lineage_graph
from rewardharness.runs.lineage import Lineage, LineageError, Record
from rewardharness.settings import Settings

TAGS = OWN_TAGS | set("button svg path dl dt dd".split())
ATTRIBUTES = {"class", "style", "role", "scope", "title", "type", "id", "popover", "popovertarget", "autofocus"}
ATTRIBUTES |= {"popovertargetaction", "aria-labelledby", "aria-hidden", "viewbox", "preserveaspectratio", "focusable"}
ATTRIBUTES |= {"d"}


def services(home: Path, *, local: bool = True) -> LineageServices:
    return LineageServices(Settings.from_env({"RH_HOME": str(home)}), local=local)


def read(markup: str) -> Reader:
    """Read markup; fails if anything but our own elements is in it, or an id stands twice."""
    reader = Reader(markup)
    assert reader.open == [] and "\n" not in markup
    assert set(reader.tags) <= TAGS and reader.attributes <= ATTRIBUTES
    return reader


def shown(found: Gathered) -> Reader:
    reader = read(picture(found.drawn, "Everything", found.chosen))
    table = read(lineage_views.as_table(found.drawn))
    assert table.tags.count("tr") == 1 + len(found.drawn.graph.nodes)
    return reader


def test_the_records_of_this_computer_are_drawn_with_its_evolution(lineage_scene: Scene) -> None:
    found = services(lineage_scene.home).of_records()
    kinds = [node.kind for node in found.drawn.graph.nodes]
    counted = {kind: kinds.count(kind) for kind in set(kinds)}
    assert {kind: counted[kind] for kind in ("manifest", "result", "eval", "comparison", "release", "model")} == {
        "manifest": 2,
        "result": 2,
        "eval": 2,
        "comparison": 1,
        "release": 1,
        "model": 1,
    }
    assert counted["data"] == 2 and counted["edit"] >= 1 and counted["library"] == counted["edit"] + 1
    assert found.pair == ("before", "after") and set(found.evals) == {"before", "after"}
    assert "comparison gain" in dict(found.records)
    text = shown(found).text
    for words in (
        "Failed in the stage preflight",
        f"No GPU is free {ATTACK}",
        "accuracy 0.9 [0.786, 0.957]",
        "higher is better",
        "50 of 51",
        "0.7864 to 0.9565",
        "in pairs, over 50 common examples",
        "Comparison: better",
        "Because of",
        " examples cited",
        "target 0.8",
        "400 steps, reward 0 → 0.4",
        "Lines that it brought",
        lineage_scene.release,
    ):
        assert words in text


def test_a_record_can_be_looked_at_alone(lineage_scene: Scene) -> None:
    lineages = services(lineage_scene.home)
    nodes = dict(lineages.of_records().records)
    found = lineages.of_records(about=nodes["eval before"])
    assert {node.kind for node in found.drawn.graph.nodes} == {"model", "eval", "comparison"}
    assert found.chosen == nodes["eval before"] and len(found.records) == 7
    assert "Eval: edits, chosen" in shown(found).text
    assert lineages.of_records(about="eval:nobody").chosen == ""


def test_another_folder_of_records_is_read_where_it_is_typed(lineage_scene: Scene, tmp_path: Path) -> None:
    elsewhere = services(tmp_path)
    assert elsewhere.of_records().records == () and not (tmp_path / "lineage").exists()
    found = elsewhere.of_records(f" {lineage_scene.home / 'lineage'} ")
    assert {node.kind for node in found.drawn.graph.nodes} >= {"manifest", "release", "library", "eval"}
    assert "edit" not in {node.kind for node in found.drawn.graph.nodes}, "the evolution is on another computer"
    with pytest.raises(InputError, match="There is no folder"):
        elsewhere.of_records(str(tmp_path / "nowhere"))


def test_a_library_tells_its_own_lineage_and_nothing_else(lineage_scene: Scene) -> None:
    library = Library.load(lineage_scene.run / "library")
    found = services(lineage_scene.home).of_library(library)
    assert {node.kind for node in found.drawn.graph.nodes} == {"data", "edit", "library"}
    assert found.chosen == f"library:{library.id}" and found.records == () and found.pair is None
    text = shown(found).text
    assert "of data that are not named" in text and "Library, chosen" in text and " fixed, 0 broken" in text
    assert str(lineage_scene.home) not in text


def test_strangers_see_no_records(lineage_scene: Scene) -> None:
    strangers = services(lineage_scene.home, local=False)
    for ask in (
        lambda: strangers.of_records(),
        lambda: strangers.of_records(str(lineage_scene.home / "lineage")),
        lambda: strangers.compare("", "before", "after"),
    ):
        with pytest.raises(InputError, match="only on the computer"):
            ask()
    assert strangers.of_library(open_library("builtin")).drawn.graph.edges == ()


def test_two_evals_are_compared_in_words_and_nothing_is_kept(lineage_scene: Scene) -> None:
    lineages = services(lineage_scene.home)
    before = sorted((lineage_scene.home / "lineage").rglob("*"))
    text = read(lineage_views.compared(*lineages.compare("", "before", "after"))).text
    assert "after is better than before in accuracy, by 0.3" in text
    assert "+0.1597 to +0.4172" in text and "98.0% and 98.0%" in text
    worse = read(lineage_views.compared(*lineages.compare("", "after", "before"))).text
    assert "before is worse than after in accuracy, by 0.3" in worse
    assert sorted((lineage_scene.home / "lineage").rglob("*")) == before
    for one, other, says in (("", "after", "Two evals are needed"), ("after", "after", "compared with itself")):
        with pytest.raises((InputError, LineageError), match=says):
            lineages.compare("", one, other)


@pytest.mark.parametrize(
    ("values", "direction", "says"),
    [
        ((0.5, 0.5), "higher", "have the same loss"),
        ((0.5, 0.6), "lower", "is unclear: it is worse by 0.1, but no interval is known"),
        ((0.5, 0.4), "lower", "is unclear: it is better by 0.1, but no interval is known"),
    ],
)
def test_what_is_not_proven_is_called_unclear(
    values: tuple[float, float], direction: Any, says: str, tmp_path: Path
) -> None:
    lineage = Lineage(tmp_path)
    one, other = (
        lineage.record(
            f"e{number}", Eval(Subject(model=Model("m")), Benchmark("b"), (Metric("loss", direction, value),))
        )
        for number, value in enumerate(values)
    )
    assert says in read(lineage_views.compared(one, other, compare(one, other, ({}, {})))).text


def test_a_record_that_was_changed_is_named(lineage_scene: Scene, tmp_path: Path) -> None:
    folder = tmp_path / "lineage"
    folder.mkdir()
    for each in (lineage_scene.home / "lineage").glob("*.json"):
        write_text(folder / each.name, each.read_text("utf-8").replace('"steps": 400', '"steps": 4000'))
    with pytest.raises(LineageError, match=r"result\.grpo-2\.json"):
        services(tmp_path).of_records()


def test_the_page_says_how_to_begin() -> None:
    text = read(lineage_views.no_records("/home/me/.rewardharness/lineage")).text
    assert "rh lineage record-manifest" in text and "/home/me/.rewardharness/lineage" in text
    assert "choose a Library above" in text
    assert "lineage.jsonl" in read(lineage_views.no_lineage(f"the Library {HOSTILE!r}")).text


def test_what_is_not_drawn_is_counted_in_words() -> None:
    lines = [{"parent": sha256(bytes([0, n])), "library": sha256(bytes([1, n])), "operator": "add"} for n in range(99)]
    library = EMPTY
    for line in lines:
        library = library.with_lineage(line)
    found = LineageServices(Settings.from_env({}), local=False).of_library(library)
    assert f"{found.drawn.left_out} more are not drawn" in shown(found).text and found.drawn.left_out > 99


def hostile_records(folder: Path) -> list[Record]:
    lineage = Lineage(folder)
    release = Release(HOSTILE, HOSTILE, sha256(b"file"), sha256(b"library"))
    trainer = Trainer(HOSTILE, HOSTILE, {HOSTILE: [HOSTILE, 1]})
    expected = (Expected(HOSTILE, "higher", 1.0),)
    model, data = Model(HOSTILE, HOSTILE), Data(HOSTILE, HOSTILE)
    plan = lineage.record(
        "one", Manifest("training", model, Reward(release), data, trainer, (1,), expected, notes=HOSTILE)
    )
    lineage.record("one", Result(plan.id, "failed", Failure("data", HOSTILE), notes=HOSTILE))
    other = lineage.record("two", Manifest("other", model, notes=HOSTILE))
    curve = Curve(2, 1, (0, 0.1), (9, 0.2), (0, 0.1), (9, 0.2), 0.2, sha256(b"curve"))
    left = (Artifact(HOSTILE, HOSTILE), Artifact("b", HOSTILE, sha256(b"b"), 7))
    result = lineage.record("two", Result(other.id, "stopped", None, left, 9, curve, 3.5, HOSTILE))
    subject, about = Subject(result=result.id, artifact="b"), Benchmark(HOSTILE, HOSTILE, HOSTILE)
    evals = [
        lineage.record(
            f"e{number}",
            Eval(
                subject,
                about,
                (Metric(HOSTILE, "lower", number), Metric("m", "higher", 0.5, 9, 8, (0.1, 0.9))),
                HOSTILE,
                HOSTILE,
                Source(HOSTILE, sha256(b"source")),
                notes=HOSTILE,
            ),
        )
        for number in range(2)
    ]
    lineage.record("both", compare(evals[0], evals[1], ({}, {})))
    return list(lineage.read_all().values())


def test_hostile_records_stay_text(tmp_path: Path) -> None:
    line = {
        "parent": HOSTILE,
        "library": sha256(b"library"),
        "operator": HOSTILE,
        "entries": [HOSTILE],
        "data": HOSTILE,
    }
    line |= {"cited": [HOSTILE], "statement": HOSTILE, "source": HOSTILE, "added": {HOSTILE: [HOSTILE]}}
    line |= {"evidence": {"reason": HOSTILE, "fixes": 1, "breaks": 0, "fixed": [HOSTILE], "broken": [HOSTILE]}}
    records = hostile_records(tmp_path)
    found = drawn(lineage_graph(records, libraries={sha256(b"library"): [line, {**line, "cited": 3, "entries": {}}]}))
    reader = read(picture(found, HOSTILE))
    assert reader.text.count("<script>window.owned=1</script>") > 20
    assert "javascript" not in "".join(reader.attributes)
    read(lineage_views.as_table(found))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
KEYS = "operator entries statement source cited evidence data judge added accepted reason".split()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(KEYS), values), max_size=4))
def test_any_line_of_a_library_can_be_shown(lines: list[dict[str, Any]]) -> None:
    library = EMPTY
    for number, line in enumerate(lines):
        if not any(isinstance(each, float) and not math.isfinite(each) for each in _flat(line)):
            ends = {"parent": sha256(bytes([number])), "library": sha256(bytes([number + 1]))}
            library = library.with_lineage(ends | line)
    found = LineageServices(Settings.from_env({}), local=False).of_library(library)
    assert set(Reader(picture(found.drawn, "It")).tags) <= TAGS


def _flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [each for own in value.values() for each in _flat(own)]
    if isinstance(value, list):
        return [each for own in value for each in _flat(own)]
    return [value]

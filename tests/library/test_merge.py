import json

from hypothesis import given, settings
from hypothesis import strategies as st

from rewardharness.library.diff import merge_libraries, three_way
from rewardharness.library.entry import Entry
from rewardharness.library.store import EMPTY, Library

VALUES = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 3))


def library(lineage: str = "", meta: dict[str, str] | None = None, **descriptions: str) -> Library:
    entries = tuple(Entry(name, "skill", text, "Look.") for name, text in descriptions.items())
    return Library(entries, meta=meta or {}, lineage_text=lineage)


def test_what_both_changed_is_a_conflict_unless_they_agree() -> None:
    base = library(a="x", b="x", c="x", d="x")
    merge = merge_libraries(base, library(a="1", b="1", c="1", e="1"), library(a="2", b="1", d="2", e="2"))
    assert [*merge[1]] == [
        "a: both sides changed it differently.",
        "c: your side changed it, and the other side removed it.",
        "d: your side removed it, and the other side changed it.",
        "e: both sides added it, with different content.",
    ]
    assert [entry.name for entry in merge[0].entries] == ["a", "b", "d", "e"]


def test_a_skill_that_becomes_a_tool_is_one_change() -> None:
    base = library(a="x")
    tool = Library((Entry("a", "tool", "x", "Call.", measure="sharpness"),))
    assert merge_libraries(base, tool, base)[0] == tool
    assert merge_libraries(base, base, tool)[0] == tool
    assert merge_libraries(base, tool, library(a="y"))[1]


def test_lineages_are_joined_and_nothing_is_there_twice() -> None:
    lines = [json.dumps({"edit": number}) for number in range(4)]
    base, ours, theirs = (library("\n".join(found)) for found in (lines[:1], lines[:3], [lines[0], lines[3]]))
    merged = merge_libraries(base, ours, theirs)[0]
    assert [record["edit"] for record in merged.lineage] == [0, 3, 1, 2]
    assert merge_libraries(base, ours, merged)[0].lineage_text == merged.lineage_text
    assert merge_libraries(EMPTY, library("not json\n"), EMPTY)[0].lineage_text == "not json\n"


def test_the_registry_is_merged_key_by_key() -> None:
    base, ours = library(meta={"id": "x", "status": "a"}), library(meta={"id": "y", "status": "a"})
    assert merge_libraries(base, ours, library(meta={"id": "x", "status": "b"}))[0].meta == {"id": "y", "status": "b"}
    [conflict] = merge_libraries(base, ours, library(meta={"id": "z", "status": "a"}))[1]
    assert conflict == "library.id of the registry: both sides changed it."


@settings(max_examples=50)
@given(VALUES, VALUES, VALUES)
def test_three_way_merging_is_fair(base: dict[str, int], ours: dict[str, int], theirs: dict[str, int]) -> None:
    merged, conflicts = three_way(base, ours, theirs)
    for key in "abcd":
        was, our, their = base.get(key), ours.get(key), theirs.get(key)
        assert merged.get(key) in (our, their)
        if our in (was, their) or their == was:
            assert key not in conflicts
            assert merged.get(key) == (our if their == was else their)
        else:
            assert key in conflicts
    assert three_way(base, ours, base) == (ours, [])
    assert three_way(base, base, theirs) == (theirs, [])
    assert sorted(three_way(base, theirs, ours)[1]) == sorted(conflicts)

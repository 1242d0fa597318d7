"""Rows become examples: what is read, what is left out and said to be, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from made_tables import picture

from rewardharness.data.columns import complete
from rewardharness.data.fields import FieldMap, parse_fields, read_examples, read_fields
from rewardharness.data.row_store import Rows
from rewardharness.data.rows import RowSource, open_rows
from rewardharness.data.source import Dataset
from rewardharness.errors import DataError, InputError
from rewardharness.settings import Settings

PAIR = FieldMap(source="source", instruction="words", candidates=("left", "right"), preference=("vote",))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with pictures 0.png to 9.png."""
    folder = tmp_path / "set"
    folder.mkdir()
    for number in range(10):
        (folder / f"{number}.png").write_bytes(picture(number))
    return folder


def pair(number: int, **more: Any) -> dict[str, Any]:
    row = {"source": "0.png", "words": f"edit {number}", "left": "1.png", "right": f"{number % 8 + 2}.png"}
    return {**row, "vote": "left", **more}


def table(folder: Path, settings: Settings, *rows: dict[str, Any]) -> Rows:
    path = folder / "t.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return open_rows(RowSource(path=path), settings)


def read(rows: Rows, fields: FieldMap = PAIR) -> Dataset:
    return read_examples(rows, fields, name="set")


# What is read --------------------------------------------------------------------------------------------------------


def test_all_fields_are_taken_over(folder: Path, settings: Settings) -> None:
    more = {"n": 7, "kind": "expert", "sort": ["add", "color"], "src": 3}
    fields = FieldMap(id="n", label_kind="kind", category="sort", source_id="src").over(PAIR)
    [example] = read(table(folder, settings, pair(1, **more)), fields).examples
    assert (example.id, example.label_kind, example.category, example.source_id) == ("7", "expert", "add, color", "3")
    assert [image.name for image in (example.source, *example.candidates)] == ["0.png", "1.png", "3.png"]


def test_ids_are_made_from_the_content(folder: Path, settings: Settings) -> None:
    before = read(table(folder, settings, pair(1), pair(2), pair(1)))
    after = read(table(folder, settings, pair(0), pair(2), pair(1)))
    ids = [example.id for example in before.examples]
    assert ids[2] == f"{ids[0]}#2" and [example.id for example in after.examples][1:] == [ids[1], ids[0]]
    assert any("have the same images and instruction" in problem for problem in before.problems)


def test_repeated_ids_are_reported_and_nothing_is_dropped(folder: Path, settings: Settings) -> None:
    rows = table(folder, settings, *(pair(number, n=number % 2) for number in range(5)))
    dataset = read(rows, FieldMap(id="n").over(PAIR))
    assert [example.id for example in dataset.examples] == ["0", "1", "0#2", "1#2", "0#3"]
    assert dataset.problems == ("Duplicate ids got a number suffix (id#2): '0' (rows 3, 5), '1' (row 4).",)


def test_groups_come_from_columns_or_from_a_list(folder: Path, settings: Settings) -> None:
    listed = {"many": ["1.png", "2.png", "3.png", "4.png"], "vote": "D"}
    two = {"many": ["1.png", "2.png"], "vote": "b"}
    rows = table(folder, settings, {**pair(1), **listed}, {**pair(2), **two})
    four, two = read(rows, FieldMap(candidates=("many",)).over(PAIR)).examples
    assert (len(four.candidates), four.preference, two.preference) == (4, "D", "B")
    rows = table(folder, settings, pair(1, third="5.png", vote="C>A=B"), pair(2, third=None))
    three, two = read(rows, FieldMap(candidates=("left", "right", "third")).over(PAIR)).examples
    assert (len(three.candidates), three.preference, len(two.candidates)) == (3, "C", 2)
    for cells, columns in (({"x": "one", "y": None}, ("x", "y")), ({"x": ["one"]}, ("x",))):
        [named] = read(table(folder, settings, pair(1, **cells)), FieldMap(editors=columns).over(PAIR)).examples
        assert [image.editor for image in named.candidate_images] == ["one", ""]


def test_scores_and_ranks_make_labels(folder: Path, settings: Settings) -> None:
    votes = [(3, 2), (2, "2.0"), (1, 3), (None, 3)]
    rows = table(folder, settings, *(pair(number, a=one, b=other) for number, (one, other) in enumerate(votes)))
    fields = FieldMap(scores=("a", "b")).over(PAIR)
    assert fields.preference == (), "one kind of label is read"
    assert [each.preference for each in read(rows, fields).examples] == ["A", "tie", "B", None]
    fields = FieldMap(ranks=("a", "b")).over(PAIR)
    assert [each.preference for each in read(rows, fields).examples] == ["B", "tie", "A", None]
    level = pair(1, many=["1.png", "2.png", "3.png"], s=[1, 4, 4])
    rows = table(folder, settings, level, pair(2, many=["1.png", "2.png"], s=[5]))
    dataset = read(rows, FieldMap(candidates=("many",), scores=("s",)).over(PAIR))
    assert [each.preference for each in dataset.examples] == [None, None]
    assert dataset.problems == ("Unlabeled because several candidates are tied for first place: row 1.",)


def test_where_the_first_always_wins_places_change_by_chance(folder: Path, settings: Settings) -> None:
    rows = table(folder, settings, *(pair(number, n=number) for number in range(60)))
    fields = FieldMap(first_wins=True, id="n").over(PAIR)
    examples = read(rows, fields).examples
    for example in examples:
        assert example.preference is not None
        assert example.candidates[example.labels.index(example.preference)].name == "1.png"
    assert 15 < sum(example.preference == "A" for example in examples) < 45
    assert read(rows, fields).digest == read(rows, fields).digest


# What is said and refused --------------------------------------------------------------------------------------------


def test_labels_that_are_not_understood_are_named_with_their_rows(folder: Path, settings: Settings) -> None:
    rows = table(folder, settings, pair(1), pair(2, vote=1), pair(3, vote="best"), pair(4, vote=1))
    with pytest.raises(DataError) as caught:
        read(rows)
    assert caught.value.message == (
        "set: 3 rows cannot be used: rows 2, 4: the column 'vote' (label) contains '1', which is not a known label; "
        "row 3: the column 'vote' (label) contains 'best', which is not a known label."
    )
    assert "--field values=1:A" in caught.value.next_step and "--skip-bad-rows" in caught.value.next_step
    values = parse_fields({"values": "left:A,1:B,best:tie"}, "--field")
    assert [each.preference for each in read(rows, values.over(PAIR)).examples] == ["A", "B", "tie", "B"]
    rows = table(folder, settings, pair(1, vote=None), pair(2, vote=" "), pair(3, vote="right"))
    assert [each.preference for each in read(rows).examples] == [None, None, "B"]
    bare = FieldMap(preference=("-",)).over(PAIR).settled()
    assert [each.preference for each in read(rows, bare).examples] == [None, None, None]


BAD = [pair(1, source=None), pair(2, left=None), pair(3, right=None), pair(4, words=" "), pair(5, source="none.png")]
BAD += [pair(6, source="https://example.com/a.png"), pair(7, left=3), pair(8, vote="best")]
SAID = [
    ("row 2", "the column 'source' (source) is empty"),
    ("row 3", "the column 'left' (candidate) is empty"),
    ("row 4", "1 image in the columns 'left', 'right' (candidates)"),
    ("row 5", "the column 'words' (instruction) is empty"),
    ("row 7", "the column 'source' (source) contains 'https://example.com/a.png', which is not a readable image"),
    ("row 8", "the column 'left' (candidate) contains '3', which is not a readable image"),
    ("row 9", "the column 'vote' (label) contains 'best', which is not a known label"),
]


def test_bad_rows_are_refused_with_column_and_value(folder: Path, settings: Settings) -> None:
    rows = table(folder, settings, pair(0), *BAD, pair(9))
    with pytest.raises(DataError) as caught:
        read(rows)
    assert caught.value.message.startswith("set: 7 rows cannot be used: row 2: the column 'source' (source) is empty;")
    assert caught.value.message.endswith("and 2 more.") and "--skip-bad-rows" in caught.value.next_step


def test_bad_rows_are_left_out_by_choice_and_named(folder: Path, settings: Settings) -> None:
    rows = table(folder, settings, pair(0), *BAD, pair(9, source=None), pair(9))
    dataset = read_examples(rows, PAIR, name="set", skip_bad_rows=True)
    assert [example.instruction for example in dataset.examples] == ["edit 0", "edit 5", "edit 9"]
    assert [(each.place, each.reason) for each in dataset.skipped] == [*SAID, ("row 10", SAID[0][1])]
    assert dataset.problems[0].startswith("8 bad rows were skipped and count as not judged: row 2: the column 'source'")
    assert dataset.problems[-1] == f"{dataset.examples[1].id}: the image none.png is missing."


def test_nothing_that_can_be_judged_is_an_error(folder: Path, settings: Settings) -> None:
    rows = table(folder, settings, pair(1, many=[f"{number}.png" for number in range(5)]))
    fields = FieldMap(candidates=("many",)).over(PAIR)
    with pytest.raises(DataError, match=r"row 1: 5 images in the column 'many' \(candidates\)") as caught:
        read_examples(rows, fields, name="set", skip_bad_rows=True)
    assert "--skip-bad-rows" not in caught.value.next_step, "nothing would be left"


def test_columns_that_are_not_there_or_hold_something_else_are_named(folder: Path, settings: Settings) -> None:
    rows = table(folder, settings, pair(1, link="https://example.com/a.png"))
    with pytest.raises(DataError, match="has no column 'wrong' for source") as caught:
        read(rows, FieldMap(source="wrong").over(PAIR))
    assert "source, words, left, right, vote, link" in caught.value.next_step
    with pytest.raises(DataError, match=r"'link' \(source\) has no images. It contains 'https://example.com/a.png'"):
        read(rows, FieldMap(source="link").over(PAIR))
    with pytest.raises(DataError, match="no column for the field 'instruction' was found") as caught:
        read(rows, FieldMap(instruction="-").over(PAIR).settled())
    assert "--field instruction=COLUMN" in caught.value.next_step


# Maps ----------------------------------------------------------------------------------------------------------------


def test_a_map_is_read_from_yaml(tmp_path: Path) -> None:
    path = tmp_path / "map.yaml"
    text = "source: before\ncandidates: [left, right]\npreference: vote\nvalues: {leftvote: A, 1: B, no: ~}\n"
    path.write_text(f"{text}first_wins: no\n", encoding="utf-8")
    fields = read_fields(path)
    assert (fields.source, fields.candidates, fields.preference) == ("before", ("left", "right"), ("vote",))
    assert fields.values == {"leftvote": "A", "1": "B", "false": None} and not fields.first_wins


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("source: [", r"not valid YAML \(line"),
        ("- a\n", "not a mapping"),
        ("sauce: a\n", "unknown field 'sauce'"),
        ("source: 3\n", "source is not a column name"),
        ("candidates: 3\n", "candidates is not a list"),
        ("first_wins: maybe\n", "first_wins is 'maybe'"),
        ("values: {a: Z}\n", "cannot be mapped to 'Z'"),
        ("a: " + "[" * 500, "not valid YAML"),
    ],
)
def test_a_map_that_cannot_be_read_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "map.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=said):
        read_fields(tmp_path / "map.yaml")


names = st.text("abcdefgh", min_size=1, max_size=6)
meanings = st.dictionaries(names, st.sampled_from(["A", "B", "tie"]))


@examples(max_examples=40)
@given(names, names, st.lists(names, min_size=1, max_size=4), meanings)
def test_options_and_yaml_say_the_same(source: str, label: str, candidates: list[str], values: dict[str, str]) -> None:
    written: dict[str, Any] = {"source": source, "preference": label, "candidates": " , ".join(candidates)}
    spelled: dict[str, Any] = {"source": source, "preference": [label], "candidates": candidates}
    if values:
        written["values"] = ",".join(f"{key}:{meaning}" for key, meaning in values.items())
        spelled["values"] = values
    assert parse_fields(written, "a") == parse_fields(spelled, "b")


def test_what_is_given_goes_before_what_is_known() -> None:
    base = FieldMap("s", "i", ("a", "b"), preference=("p",), values={"x": "A"}, category="c")
    assert FieldMap(source="t").over(base) == FieldMap("t", "i", ("a", "b"), ("p",), values={"x": "A"}, category="c")
    assert FieldMap(scores=("n", "m")).over(base) == FieldMap("s", "i", ("a", "b"), scores=("n", "m"), category="c")
    assert FieldMap(category="-").over(base).settled().category == ""


def test_our_own_files_on_the_hub_are_read_together(folder: Path, settings: Settings) -> None:
    ours = {"id": "p1", "source": "0.png", "candidate_a": "1.png", "candidate_b": "2.png", "instruction": "x"}
    many = {"id": "g1", "source": "0.png", "candidates": ["3.png", "4.png", "5.png"], "instruction": "y", "best": 2}
    (folder / "pairs.jsonl").write_text(json.dumps({**ours, "preference": "tie", "label_kind": "k"}), encoding="utf-8")
    (folder / "groups.jsonl").write_text(json.dumps(many), encoding="utf-8")
    rows = open_rows(RowSource(path=folder), settings)
    dataset = read(rows, complete(rows, FieldMap()).fields)
    found = {each.id: (each.preference, len(each.candidates), each.label_kind) for each in dataset.examples}
    assert found == {"p1": ("tie", 2, "k"), "g1": ("C", 3, "")}


def test_references_are_checked(folder: Path, settings: Settings) -> None:
    fields = replace(PAIR, references=("two",))
    with pytest.raises(DataError, match="row 1: 5 source and reference images"):
        read(table(folder, settings, pair(1, two=["1.png", "2.png", "3.png", "4.png"])), fields)
    with pytest.raises(DataError, match=r"the column 'two' \(reference\) is empty"):
        rows = table(folder, settings, pair(1, two=None, three="9.png"), pair(2, two="8.png", three="9.png"))
        read(rows, replace(PAIR, references=("two", "three")))
    with pytest.raises(DataError, match="no column 'none' for references"):
        read(table(folder, settings, pair(1)), replace(PAIR, references=("none",)))


def test_references_change_the_digest_and_the_derived_id(folder: Path, settings: Settings) -> None:
    fields = replace(PAIR, references=("two",))
    sets = [read(table(folder, settings, pair(1, two=two)), fields) for two in ("8.png", "9.png")]
    assert len({data.digest for data in sets}) == len({data.examples[0].id for data in sets}) == 2
    rows = table(folder, settings, pair(1, two="8.png", id="a"), pair(1, two="9.png", id="b"))
    same = read(rows, replace(fields, id="id"))
    assert not any("same images" in problem for problem in same.problems)

import json
from pathlib import Path

import pytest
from fixtures_shared import SHARED
from hypothesis import given, settings
from hypothesis import strategies as st

from rewardharness.data.folder import read_folder
from rewardharness.errors import DataError

REAL = Path(__file__).parents[3] / "shared" / "data" / "pairs"
PAIR = {"id": "p1", "source": "s.png", "candidate_a": "a.png", "candidate_b": "b.png", "instruction": "Add a cat"}


def put(folder: Path, name: str, *rows: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def error(folder: Path) -> DataError:
    with pytest.raises(DataError) as caught:
        read_folder(folder)
    assert caught.value.next_step
    return caught.value


def test_images_are_not_opened_and_a_missing_one_keeps_its_row(tmp_path: Path):
    (tmp_path / "s.png").write_bytes(b"not an image")
    put(tmp_path, "pairs.jsonl", PAIR)
    data = read_folder(tmp_path)
    missing = ("p1: the image a.png is missing.", "p1: the image b.png is missing.")
    assert len(data.examples) == 1 and data.problems == missing


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_tables_are_read_with_any_separator(tmp_path: Path, delimiter: str, encoding: str):
    rows = [
        ["Instruction", " source ", "candidate_a", "candidate_b", "preference", "rater"],
        ['"Add; a cat, and\na ""dög"""', "s.png", "a.png", "b.png", "b", "x"],
        ["", "", "", "", "", ""],
        ["Make it red", "s.png", "a.png", "b.png", "", "y"],
    ]
    (tmp_path / "labels.csv").write_text("\r\n".join(map(delimiter.join, rows)), encoding=encoding, newline="")
    data = read_folder(tmp_path)
    read = [(each.instruction, each.preference) for each in data.examples]
    assert read == [('Add; a cat, and\na "dög"', "B"), ("Make it red", None)] and "'rater'" in data.problems[0]


def test_rows_without_an_id_get_one_that_stays_when_rows_above_them_go(tmp_path: Path):
    head, one, two = "instruction,source,candidate_a,candidate_b", "One,s,a,b", "Two,s,a,b"
    (tmp_path / "x.csv").write_text("\n".join([head, one, two, two]), encoding="utf-8")
    before = [each.id for each in read_folder(tmp_path).examples]
    (tmp_path / "x.csv").write_text("\n".join([head, two]), encoding="utf-8")
    assert [each.id for each in read_folder(tmp_path).examples] == [before[1]]
    assert before[2] == f"{before[1]}-2"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"preference": "C"}, "'C' is not one of A, B, tie"),
        ({"preference": 1}, "`preference` is not a text"),
        ({"instruction": "  "}, "the instruction is empty"),
        ({"instruction": "\ud800"}, "surrogate"),
        ({"source": "\ud800.png"}, "source"),
        ({"source": ""}, "the source is empty"),
        ({"source": "a\0b"}, "control character"),
        ({"source": "../x.png"}, "is outside the folder"),
        ({"source": "/etc/passwd"}, "not a relative path"),
        ({"candidate_a": "C:/x.png"}, "candidate A 'C:/x.png' is not a relative path"),
        ({"candidate_a": "a\\b.png"}, "not a relative path with forward slashes"),
        ({"candidate_b": None}, "1 candidate; 2 to 4"),
        ({"candidate_d": "d.png"}, "candidate_d is set, but an earlier candidate is empty"),
        ({"candidates": ["a"] * 5}, "5 candidates; 2 to 4"),
        ({"candidates": ["a"]}, "1 candidate; 2 to 4"),
        ({"candidates": "ab"}, "not a list"),
        ({"candidates": ["a", "b", "c"], "best": 3}, "not an index from 0 to 2"),
        ({"candidates": ["a", "b", "c"], "best": True}, "not an index"),
        ({"candidates": ["a", "b", "c"], "preference": "tie"}, "not one of A, B, C"),
        ({"references": ["1.png", "2.png", "3.png", "4.png"]}, "5 source and reference images; at most 4 are possible"),
        ({"references": "t.png"}, "`references` is not a list of file names"),
        ({"source": []}, "`source` is not a list of file names"),
        ({"references": ["../t.png"]}, "the image 2 '../t.png' is outside the folder"),
        ({"references": [""]}, "the image 2 is empty"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(tmp_path: Path, change: dict[str, object], problem: str):
    put(tmp_path, "pairs.jsonl", PAIR | {"id": "p0"}, PAIR | change)
    message = error(tmp_path).message
    assert problem in message and "pairs.jsonl line 2" in message


def test_all_bad_rows_are_counted_and_the_first_five_shown(tmp_path: Path):
    put(tmp_path, "pairs.jsonl", "{", *(PAIR | {"id": str(n), "instruction": ""} for n in range(6)), PAIR, PAIR, "[]")
    message = error(tmp_path).message
    assert message.startswith("9 rows cannot be used: pairs.jsonl line 1: not valid JSON")
    assert "pairs.jsonl lines 2, 3, 4, 5, 6, 7: the instruction is empty" in message, "equal ones together"
    assert message.endswith("pairs.jsonl line 10: not a JSON object.")
    put(tmp_path, "pairs.jsonl", PAIR, *(PAIR | {"id": str(n), "preference": f"odd {n}"} for n in range(9)))
    caught = error(tmp_path)
    assert "'odd 4'" in caught.message and "'odd 5'" not in caught.message and caught.message.endswith("and 4 more.")
    assert "--skip-bad-rows" in caught.next_step


def test_bad_rows_are_skipped_by_choice_and_named(tmp_path: Path):
    put(tmp_path, "pairs.jsonl", PAIR, "{", PAIR | {"id": "x", "preference": "C"}, PAIR | {"id": "p2"}, PAIR)
    dataset = read_folder(tmp_path, skip_bad_rows=True)
    assert [each.id for each in dataset.examples] == ["p1", "p2"]
    places = [(each.place, each.before) for each in dataset.skipped]
    assert places == [("pairs.jsonl line 2", 1), ("pairs.jsonl line 3", 1), ("pairs.jsonl line 5", 2)]
    assert dataset.problems[0].startswith("3 bad rows were skipped and count as not judged: pairs.jsonl line 2: not")
    assert "the preference 'C' is not one of A, B, tie" in dataset.problems[0]
    assert dataset.first(1).skipped == (), "none stands before the first example"
    assert dataset.skipped_json()["n"] == 3 and dataset.first(2).skipped == dataset.skipped
    put(tmp_path, "pairs.jsonl", PAIR, PAIR | {"id": "p2"})
    whole = read_folder(tmp_path, skip_bad_rows=True)
    assert whole.skipped == () and whole.digest == dataset.digest
    put(tmp_path, "pairs.jsonl", "{", PAIR | {"preference": "C"})
    with pytest.raises(DataError, match=r"None of the 2 rows can be used: pairs\.jsonl line 1") as caught:
        read_folder(tmp_path, skip_bad_rows=True)
    assert "--skip-bad-rows" not in caught.value.next_step


def test_an_id_may_not_occur_twice_also_across_files(tmp_path: Path):
    put(tmp_path, "pairs.jsonl", PAIR)
    put(tmp_path, "groups.jsonl", PAIR)
    assert "groups.jsonl line 1: the id 'p1' occurs twice, first in pairs.jsonl line 1" in error(tmp_path).message


def test_a_link_out_of_the_folder_is_refused_and_one_inside_is_not(tmp_path: Path):
    folder = put(tmp_path / "set", "pairs.jsonl", PAIR)
    (tmp_path / "secret.png").write_bytes(b"x")
    (folder / "b.png").write_bytes(b"x")
    (folder / "a.png").symlink_to(folder / "b.png")
    (tmp_path / "link").symlink_to(folder, target_is_directory=True)
    assert len(read_folder(folder).examples) == len(read_folder(tmp_path / "link").examples) == 1
    (folder / "s.png").symlink_to(tmp_path / "secret.png")
    caught = error(folder)
    assert "is a link to a file outside the folder" in caught.message
    assert "relative" in caught.next_step
    (folder / "s.png").unlink()
    (folder / "s.png").symlink_to(folder / "s.png")
    try:
        assert read_folder(folder).problems
    except DataError as loop:
        assert "cannot be resolved" in loop.message


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("instruction,source,candidate_a\nx,s,a", "has no column candidate_b"),
        ("", "is empty"),
        ("source,source,instruction,candidate_a,candidate_b\n", "column source twice"),
        ("instruction,source,candidate_a,candidate_b\nAdd a cat, a dog,s,a,b", "5 cells"),
        ('instruction,source,candidate_a,candidate_b\n\n"Add,s,a,b\nx,s,a,b', "line 3"),
        ("instruction,source,candidate_a,candidate_b\nx,s,a", "1 candidate"),
        ("instruction,source,candidate_a,candidate_b\n", "no examples"),
        ('instruction,source,candidate_a,candidate_b\n"one\ntwo",s,a,b\n,s,a,b\n', "x.csv line 4: the instruction is"),
        ("instruction,source,candidate_a,candidate_b\nü,s,a,b", "not UTF-8"),
    ],
)
def test_a_bad_table_is_named(tmp_path: Path, text: str, problem: str):
    (tmp_path / "x.csv").write_text(text, encoding="latin-1")
    assert problem in error(tmp_path).message


def test_what_is_no_dataset_says_what_to_do(tmp_path: Path):
    assert "has no pairs.jsonl" in error(tmp_path).message
    assert "does not exist" in error(tmp_path / "nothing").message
    for name in ("one.csv", "two.csv"):
        put(tmp_path, name, "x")
    assert "several tables: one.csv, two.csv" in error(tmp_path).message
    assert "is a file" in error(tmp_path / "one.csv").message
    put(tmp_path, "pairs.jsonl", PAIR)
    assert read_folder(tmp_path).problems[0].startswith("one.csv was ignored")


KEYS = st.sampled_from([*PAIR, "best", "candidates"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner),
    max_leaves=12,
)


@settings(max_examples=50, suppress_health_check=SHARED)
@given(st.text() | VALUES.map(json.dumps))
def test_any_line_is_read_or_named(tmp_path: Path, line: str):
    (tmp_path / "pairs.jsonl").write_text(line, encoding="utf-8", errors="surrogatepass")
    try:
        assert read_folder(tmp_path).examples
    except DataError as caught:
        assert caught.next_step


@settings(max_examples=60, suppress_health_check=SHARED)
@given(st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"])), min_size=1, max_size=6))
def test_any_table_is_read_or_named_and_an_instruction_comes_back(tmp_path: Path, cells: list[str]):
    text = "instruction,source,candidate_a,candidate_b,preference\n" + ",".join(cells)
    (tmp_path / "x.csv").write_text(text, encoding="utf-8", newline="")
    try:
        assert read_folder(tmp_path).examples
    except DataError as caught:
        assert caught.next_step
    if cells[0].strip():
        put(tmp_path / "lines", "pairs.jsonl", PAIR | {"instruction": cells[0]})
        assert read_folder(tmp_path / "lines").examples[0].instruction == cells[0].strip()


@pytest.mark.real_data
@pytest.mark.skipif(not REAL.is_dir(), reason="no real preference data next to this repository")
def test_real_preference_data_is_read():
    data = read_folder(REAL)
    assert len(data.examples) == 152
    assert sum(len(each.candidates) > 2 for each in data.examples) == 14
    assert data.problems == ()
    assert all(each.preference in each.labels for each in data.examples)
    assert len({each.source_id for each in data.examples}) < 152


@pytest.mark.parametrize(
    ("row", "sources"),
    [
        ({"references": ["t.png", "u.png"]}, ["s.png", "t.png", "u.png"]),
        ({"source": ["s.png", "t.png"]}, ["s.png", "t.png"]),
        ({"source": ["s.png", "t.png"], "references": ["u.png"]}, ["s.png", "t.png", "u.png"]),
        ({"references": []}, ["s.png"]),
        ({"references": None}, ["s.png"]),
    ],
)
def test_references_are_read(tmp_path: Path, row: dict[str, object], sources: list[str]) -> None:
    example = read_folder(put(tmp_path, "pairs.jsonl", PAIR | row)).examples[0]
    assert [image.name for image in example.sources] == sources
    assert example.source_id == "s.png"


def test_a_table_has_a_column_for_each_reference(tmp_path: Path) -> None:
    text = "instruction,source,reference_2,reference_3,candidate_a,candidate_b\nGo,s.png,t.png,,a.png,b.png\n"
    (tmp_path / "t.csv").write_text(text)
    data = read_folder(tmp_path)
    assert [image.name for image in data.examples[0].sources] == ["s.png", "t.png"]
    assert "t.png" in str(data.problems)
    (tmp_path / "t.csv").write_text(text.replace("t.png,,", ",t.png,"))
    assert "reference_3 is set, but an earlier reference is empty" in str(error(tmp_path))

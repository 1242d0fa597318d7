"""Tables that are text: what a column holds, and what is said of lines that are wrong."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardharness.data import tables
from rewardharness.data.tables import is_inside, read_text_table
from rewardharness.errors import DataError


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_json_lines_with_columns_that_not_all_rows_have(tmp_path: Path) -> None:
    text = (
        '{"id": 1, "source": "a.png"}\n\n{"id": 2, "source": null, "edits": ["b.JPG", "c/d.webp"], "note": "x.png y"}\n'
    )
    table = read_text_table(written(tmp_path, "t.jsonl", text))
    assert table.columns == {"id": None, "source": "image", "edits": {"list": "image"}, "note": None}
    assert table.count == 2 and [row["id"] for row in table.rows()] == [1, 2]
    assert [row["id"] for row in table.rows()] == [1, 2], "it can be read again"
    rows = [{"id": "1"}, {"id": "2"}]
    for text in (json.dumps(rows, indent=2), "\n".join(map(json.dumps, rows))):
        assert read_text_table(written(tmp_path, "a.json", text)).count == 2, "JSON may be a list or lines"


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_csv_with_any_separator(tmp_path: Path, mark: str) -> None:
    lines = [["id", "text", "source"], ["007", '"one, two; three"', "a.png"], ["8", "", ""]]
    path = written(tmp_path, "t.csv", "\n".join(mark.join(line) for line in lines))
    table = read_text_table(path)
    first, second = table.rows()
    assert first == {"id": "007", "text": "one, two; three", "source": "a.png"}
    assert second == {"id": "8", "text": None, "source": None} and table.columns["source"] == "image"
    short = read_text_table(written(tmp_path, "s.csv", mark.join("abc") + "\n" + mark.join("12")))
    assert list(short.rows()) == [{"a": "1", "b": "2", "c": None}], "cells at the end may be missing"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("t.jsonl", '{"a": 1}\n{"a": \n[1]\n', "line 2 is not valid JSON.*line 3 is not a JSON object"),
        ("t.json", '[{"a": 1}, 2]', "item 2 is not a JSON object"),
        ("t.json", "[1", "not valid JSON"),
        ("t.csv", "a,b\n1,2,3\n", "line 2 has 3 cells"),
        ("t.csv", "a,a\n1,2\n", "duplicate or unnamed column: 'a'"),
        ("t.csv", "a,\n1,2\n", "duplicate or unnamed column: ''"),
        ("t.tsv", 'a\tb\n"x\t1\n', "line 2"),
        ("t.csv", "", "t.csv is empty"),
        ("t.jsonl", " \n", "t.jsonl is empty"),
        ("t.csv", "a,b\n", "t.csv has no rows"),
        ("t.jsonl", "[" * 100_000, "too deep|not valid JSON"),
    ],
)
def test_lines_that_are_wrong_are_named(tmp_path: Path, name: str, text: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        read_text_table(written(tmp_path, name, text))


@pytest.mark.parametrize(
    "name", ["/etc/a.png", "../a.png", "a/../../b.png", "~/a.png", "C:\\a.png", "C:/a.png", "https://a/b.png"]
)
def test_names_that_lead_away_are_no_images(tmp_path: Path, name: str) -> None:
    assert not is_inside(name)
    path = written(tmp_path, "t.jsonl", json.dumps({"a": name}) + "\n" + json.dumps({"a": "b.png"}))
    assert read_text_table(path).columns == {"a": None}


def test_cells_lines_and_texts_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "t.csv", f"a,b\n1,{'x' * 140_000}\n")
    assert len(next(read_text_table(path).rows())["b"]) == 140_000
    monkeypatch.setattr("rewardharness.data.tables.MAX_CELL", 1000)
    with pytest.raises(DataError, match="line 2: field larger than field limit"):
        read_text_table(path)
    monkeypatch.setattr(tables, "MAX_LINE", 1000)
    lines = written(tmp_path, "t.jsonl", json.dumps({"a": "x" * 2000}))
    with pytest.raises(DataError, match="has a line of more than"):
        list(tables.lines_from(lines, 0))
    monkeypatch.setattr(tables, "MAX_TEXT", 10)
    with pytest.raises(DataError, match="the maximum for a text table") as caught:
        read_text_table(lines)
    assert "Parquet" in caught.value.next_step


@given(st.text(max_size=20))
def test_a_name_that_is_inside_stays_inside(name: str) -> None:
    folder = Path("/one/two")
    if is_inside(name):
        assert "\x00" not in name and (folder / name.strip()).resolve().is_relative_to(folder)

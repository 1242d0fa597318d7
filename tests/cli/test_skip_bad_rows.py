"""Bad rows: refused with row, column and value; or left out by choice, named, and counted as not judged."""

import json
from pathlib import Path

import pytest
from drawn_pairs import draw_pairs

from rewardharness.cli.main import main
from rewardharness.schema import Json

SAID = "row 2: the column 'instruction' (instruction) is empty"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of nine rows: the second has no instruction, and the label of the third cannot be read."""
    monkeypatch.setenv("RH_HOME", str(tmp_path / "home"))
    draw_pairs(tmp_path, 9)
    rows = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text(encoding="utf-8").splitlines()]
    rows[1]["instruction"] = " "
    rows[2]["preference"] = "purple"
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (tmp_path / "pairs.jsonl").unlink()
    return path


def told(capsys: pytest.CaptureFixture[str], *words: object, status: int) -> tuple[Json, str]:
    assert main([str(word) for word in (*words, "--json")]) == status, capsys.readouterr().err
    found = capsys.readouterr()
    return json.loads(found.out), found.err


@pytest.mark.parametrize(
    "words",
    [
        ["data", "show", "{}"],
        ["score-folder", "{}"],
        ["rank-folder", "{}"],
        ["filter-dataset", "{}", "--min-margin", "0", "-o", "kept.jsonl"],
        ["preference-data", "{}", "-o", "out"],
        ["evolve", "--data", "{}"],
        ["benchmark", "{}"],
    ],
    ids=lambda words: words[0],
)
def test_a_bad_row_is_refused_and_the_way_on_is_named(
    table: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert main([word.format(table) for word in words]) == 1
    said = capsys.readouterr().err
    assert "row 2" in said and "'instruction'" in said and "--skip-bad-rows" in said


def test_skipped_rows_are_said_recorded_and_counted(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = table.parent / "run"
    words = ["score-folder", table, "--skip-bad-rows", "--run", run, "--quiet"]
    found, said = told(capsys, *words, status=3)
    assert (found["n"], found["judged"], found["failures"]) == (9, 7, {"bad_row": 2})
    assert found["coverage"] == pytest.approx(7 / 9) and found["by_label_kind"]["drawn"]["n"] == 7
    assert found["skipped_rows"]["n"] == 2 and found["skipped_rows"]["first"][0]["place"] == "row 2"
    assert f"2 bad rows were skipped and count as not judged: {SAID}; row 3: " in said and "'purple'" in said
    record = json.loads((run / "record.json").read_text(encoding="utf-8"))
    assert record["about"]["skipped_rows"] == 2
    assert record["sittings"][0]["arguments"]["skipped_rows"] == found["skipped_rows"]
    before = (run / "results.jsonl").read_bytes()
    assert told(capsys, *words, status=3)[0]["skipped_rows"] == found["skipped_rows"]
    assert (run / "results.jsonl").read_bytes() == before, "a run that goes on makes the same choice"
    assert main([str(word) for word in words if word != "--skip-bad-rows"]) == 1


def test_a_replay_makes_the_same_choice(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = table.parent / "run"
    told(capsys, "score-folder", table, "--skip-bad-rows", "--run", run, "--quiet", status=3)
    found, _ = told(capsys, "replay", run, status=0)
    assert found["same"] and found["n"] == 7


def test_a_limit_counts_the_rows_that_it_reaches(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["score-folder", table, "--skip-bad-rows", "--quiet", "--limit"]
    assert told(capsys, *words, 1, status=0)[0]["n"] == 1
    assert told(capsys, *words, 2, status=3)[0]["n"] == 4


def test_the_data_are_shown_with_what_is_left_out(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, _ = told(capsys, "data", "show", table, "--skip-bad-rows", status=0)
    assert (found["n"], found["skipped_rows"]["n"]) == (7, 2) and SAID in found["problems"][0]


def test_bulk_commands_count_them_too(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    skip = ["--skip-bad-rows", "--quiet"]
    kept = ["filter-dataset", table, "--min-margin", "0", "-o", table.parent / "kept.jsonl", *skip]
    found, _ = told(capsys, *kept, status=3)
    assert (found["n"], found["reasons"]) == (9, {"bad_row": 2, "kept": 7})
    found, _ = told(capsys, "rank-folder", table, *skip, status=3)
    assert (len(found["edits"]), found["skipped_rows"]["n"]) == (8, 1), "samples need no label"
    found, _ = told(capsys, "preference-data", table, "-o", table.parent / "out", "--margin", "0.01", *skip, status=3)
    assert (found["edits"], found["skipped_rows"]["first"][0]["place"]) == (8, "row 2")
    assert "8, and 1 bad row" in (table.parent / "out" / "README.md").read_text(encoding="utf-8")


def test_a_benchmark_counts_them_among_what_was_not_judged(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, said = told(capsys, "benchmark", table, "--skip-bad-rows", "--no-baseline", "--quiet", status=0)
    assert found["rows"][0]["items"] == found["rows"][0]["judged"] == 7
    assert "bad row: Rows that cannot be used were skipped (2; not judged)" in said
    (part,) = found["counted"]
    assert part == {"part": "drawn", "rows": 9, "counted": 7, "left_out": {"bad row": 2}}

"""Bad rows: refused with row, column and value; or left out by choice, named, and counted as not judged."""

import html
import json
import re
from pathlib import Path

import pytest
from commands import Rh
from drawn_pairs import draw_pairs

from rewardharness.schema import Json

pytestmark = pytest.mark.usefixtures("small_library")
SAID = "row 2: the column 'instruction' (instruction) is empty"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of nine rows: the second has no instruction, and the label of the third cannot be read."""
    monkeypatch.setenv("RH_HOME", str(tmp_path / "home"))
    return drawn(tmp_path, 9)


def drawn(folder: Path, n: int) -> Path:
    draw_pairs(folder, n)
    rows = [json.loads(line) for line in (folder / "pairs.jsonl").read_text(encoding="utf-8").splitlines()]
    rows[1]["instruction"] = " "
    rows[2]["preference"] = "purple"
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "pairs.jsonl").unlink()
    return path


def told(rh: Rh, *words: object, status: int) -> tuple[Json, str]:
    shown = rh(*words, "--json", status=status)
    return shown.json, shown.err


@pytest.mark.parametrize(
    "words",
    [
        ["data", "show", "{}"],
        ["score", "{}"],
        ["data", "rank", "{}"],
        ["data", "filter", "{}", "--min-margin", "0", "-o", "kept.jsonl"],
        ["data", "pairs", "{}", "-o", "out"],
        ["evolve", "--data", "{}"],
        ["benchmark", "{}"],
    ],
    ids=lambda words: words[0],
)
def test_a_bad_row_is_refused_and_the_way_on_is_named(table: Path, rh: Rh, words: list[str]) -> None:
    said = rh(*(word.format(table) for word in words), status=1).err
    assert "row 2" in said and "'instruction'" in said and "--skip-bad-rows" in said


def test_skipped_rows_are_said_recorded_and_counted(table: Path, rh: Rh) -> None:
    run = table.parent / "run"
    words = ["score", table, "--skip-bad-rows", "--run", run, "--quiet"]
    found, said = told(rh, *words, status=3)
    assert (found["n"], found["judged"], found["failures"]) == (9, 7, {"bad_row": 2})
    assert found["coverage"] == pytest.approx(7 / 9) and found["by_label_kind"]["drawn"]["n"] == 7
    assert found["skipped_rows"]["n"] == 2 and found["skipped_rows"]["first"][0]["place"] == "row 2"
    assert f"2 bad rows were skipped and count as not judged: {SAID}; row 3: " in said and "'purple'" in said
    record = json.loads((run / "record.json").read_text(encoding="utf-8"))
    assert record["about"]["skipped_rows"] == 2
    assert record["sessions"][0]["arguments"]["skipped_rows"] == found["skipped_rows"]
    before = (run / "results.jsonl").read_bytes()
    assert told(rh, *words, status=3)[0]["skipped_rows"] == found["skipped_rows"]
    assert (run / "results.jsonl").read_bytes() == before, "a run that goes on makes the same choice"
    rh(*(word for word in words if word != "--skip-bad-rows"), status=1)


def test_a_replay_makes_the_same_choice(table: Path, rh: Rh) -> None:
    run = table.parent / "run"
    told(rh, "score", table, "--skip-bad-rows", "--run", run, "--quiet", status=3)
    found, _ = told(rh, "runs", "replay", run, status=0)
    assert found["same"] and found["n"] == 7


def test_a_limit_counts_the_rows_that_it_reaches(table: Path, rh: Rh) -> None:
    words = ["score", table, "--skip-bad-rows", "--quiet", "--limit"]
    assert told(rh, *words, 1, status=0)[0]["n"] == 1
    assert told(rh, *words, 2, status=3)[0]["n"] == 4


def test_the_data_are_shown_with_what_is_left_out(table: Path, rh: Rh) -> None:
    found, _ = told(rh, "data", "show", table, "--skip-bad-rows", status=0)
    assert (found["n"], found["skipped_rows"]["n"]) == (7, 2) and SAID in found["problems"][0]


def test_bulk_commands_count_them_too(table: Path, rh: Rh) -> None:
    skip = ["--skip-bad-rows", "--quiet"]
    kept = ["data", "filter", table, "--min-margin", "0", "-o", table.parent / "kept.jsonl", *skip]
    found, _ = told(rh, *kept, status=3)
    assert (found["n"], found["reasons"]) == (9, {"bad_row": 2, "kept": 7})
    found, _ = told(rh, "data", "rank", table, *skip, status=3)
    assert (len(found["edits"]), found["skipped_rows"]["n"]) == (8, 1), "samples need no label"
    found, _ = told(rh, "data", "pairs", table, "-o", table.parent / "out", "--margin", "0.01", *skip, status=3)
    assert (found["edits"], found["skipped_rows"]["first"][0]["place"]) == (8, "row 2")
    assert "8, and 1 bad row" in (table.parent / "out" / "README.md").read_text(encoding="utf-8")


def test_a_benchmark_counts_them_among_what_was_not_judged(table: Path, rh: Rh) -> None:
    words = ["benchmark", table, "--skip-bad-rows", "--no-baseline", "--quiet"]
    found, said = told(rh, *words, status=3)
    (row,) = found["rows"]
    assert (row["items"], row["judged"], row["failures"]) == (9, 7, {"bad_row": 2})
    assert row["coverage"] == pytest.approx(7 / 9) and row["numbers"][0]["n"] == 7 and row["missing"] == 0
    assert (found["skipped_rows"]["n"], found["skipped_rows"]["first"][0]["place"]) == (2, "row 2")
    assert "bad row: Rows that cannot be used were skipped (2; not judged)" in said
    (part,) = found["counted"]
    assert part == {"part": "drawn", "rows": 9, "counted": 7, "left_out": {"bad row": 2}}
    record = json.loads((Path(found["folder"]) / "record.json").read_text(encoding="utf-8"))
    assert record["sessions"][0]["arguments"]["skipped_rows"] == found["skipped_rows"]
    said = rh(*words, status=3).out
    assert "7 of 9 (77.8%)" in said and "bad_row: 2" in said and "--retry-failed" not in said, "nothing to try again"
    found, _ = told(rh, *words, "--limit", "4", status=0)
    assert (found["rows"][0]["items"], found["skipped_rows"]["n"]) == (4, 2), "a sample is drawn of the others"
    assert "skipped before sampling: 2" in (Path(found["folder"]) / "report.md").read_text(encoding="utf-8")


def test_a_benchmark_of_several_kinds_of_label_counts_them_too(table: Path, rh: Rh) -> None:
    rows = [json.loads(line) for line in table.read_text(encoding="utf-8").splitlines()]
    for row in rows[5:]:
        row["label_kind"] = "another"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    words = ["benchmark", table, "--skip-bad-rows", "--no-baseline", "--quiet"]
    found, _ = told(rh, *words, status=3)
    assert (found["rows"][0]["items"], found["rows"][0]["judged"], found["skipped_rows"]["n"]) == (9, 7, 2)
    parts = {each["part"]: each for each in found["counted"]}
    assert [(each["rows"], each["counted"]) for each in parts.values()] == [(4, 4), (3, 3), (2, 0)]
    assert parts["of no part"]["left_out"] == {"bad row": 2}
    assert re.search(r"of no part +│ 2 +│ 0 +│ bad row 2", rh(*words, status=3).out)
    for name in ("report.html", "report.md"):
        assert "of no part" in (Path(found["folder"]) / name).read_text(encoding="utf-8")


def test_the_report_of_an_evolution_says_what_stands_neither_in_the_pool_nor_in_the_audit(
    table: Path, rh: Rh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rewardharness.evolution.job.TIMED", 2)
    more = drawn(table.parent, 12)
    words = ["evolve", "--data", more, "--skip-bad-rows", "--proposals", "1", "--quiet"]
    found, _ = told(rh, *words, "--dry-run", status=0)
    assert found["skipped_rows"]["n"] == 2
    found, _ = told(rh, *words, status=0)
    assert found["skipped_rows"]["n"] == 2 and found["skipped_rows"]["first"][0]["place"] == "row 2"
    assert found["pool"]["final"]["n"] + found["audit"]["n"] == 10
    line = "Neither in the training examples nor in the test set: 2 bad rows were skipped and count as not judged: "
    line += SAID
    assert line in rh(*words).out
    page = (Path(found["folder"]) / "report.html").read_text(encoding="utf-8")
    assert html.escape(line) in page

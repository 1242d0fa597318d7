"""Where the Library of a row was evolved on the very data that are judged, every report says so; nowhere else."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import bench_parts
import pytest
from bench_parts import baseline, entry, made, settings
from drawn_pairs import draw_pairs

from rewardharness.benchmark.figures import cautions, make_facts
from rewardharness.benchmark.items import BenchmarkData
from rewardharness.benchmark.loading import open_benchmark
from rewardharness.benchmark.report import markdown, report_page, write_report
from rewardharness.benchmark.result import BenchmarkResult, read_result
from rewardharness.benchmark.run import ENTRIES_FILE, BenchmarkEntry, manifest
from rewardharness.benchmark.task import open_task
from rewardharness.codec import to_json
from rewardharness.data.opening import open_data
from rewardharness.judging.release_card import read_report
from rewardharness.library.opening import open_library
from rewardharness.library.store import Library

CAUTION = "The Library mine was evolved on the same data, so expect lower accuracy on other"


def drawn(folder: Path) -> Path:
    draw_pairs(folder / "data", 4)
    return folder / "data"


def opened_data(data: Path) -> BenchmarkData:
    return open_benchmark(open_task(str(data)), settings(data.parent))


def evolved(*digests: Any) -> Library:
    library = open_library("builtin")
    for digest in digests:
        library = library.with_lineage({"operator": "add", "data": "boxes: 12 examples", "data_digest": digest})
    return library


def table(library: Library) -> list[BenchmarkEntry]:
    """The judge, the same without a Library, and a judge that reads none."""
    return [entry(library=library, name="mine"), entry(role="empty"), baseline("random", "baseline")]


def judged(opened_task: BenchmarkData, library: Library, run: Path) -> BenchmarkResult:
    return bench_parts.judged(opened_task, table(library), run)


def test_a_library_that_was_evolved_on_the_data_is_named_wherever_its_numbers_are(tmp_path: Path) -> None:
    data = drawn(tmp_path)
    digest = open_data(str(data), settings(tmp_path)).digest
    opened_task, library = opened_data(data), evolved("0" * 64, digest)
    result = judged(opened_task, library, tmp_path / "run")
    assert [bool(row.evolved_on) for row in result.rows] == [True, False, False]
    assert result.dataset_digest == opened_task.dataset == digest and cautions(result.rows) == [f"{CAUTION} data."]
    written = write_report(tmp_path / "run", result)
    assert json.loads(written[0].read_text("utf-8"))["rows"][0]["evolved_on"] is True
    for text in (markdown(result), report_page(result)):
        assert text.count(CAUTION) == 1
    facts = make_facts(result, library)
    assert facts and all(each.evolved_on for each in facts)
    figures = read_report(tmp_path / "run" / "report.json")
    assert all(each.name.endswith("; the Library was evolved on the same data") for each in figures)


@pytest.mark.parametrize("lines", [(), ("f" * 64,), ("", 7, None, ["0" * 64], {"a": 1}, "x" * 64, "0" * 65)])
def test_of_other_data_and_of_what_is_no_digest_nothing_is_said(tmp_path: Path, lines: tuple[Any, ...]) -> None:
    result = judged(opened_data(drawn(tmp_path)), evolved(*lines), tmp_path / "run")
    assert not any(row.evolved_on for row in result.rows) and cautions(result.rows) == []
    assert "was evolved on" not in markdown(result) + report_page(result)
    assert not any(each.evolved_on for each in make_facts(result, evolved()))


def test_the_rows_of_a_task_have_no_such_digest_and_nothing_empty_is_one(tmp_path: Path) -> None:
    opened_task = made("editreward-bench", tmp_path)
    assert opened_task.dataset == "" and "dataset_digest" not in to_json(opened_task.record)
    assert not cautions(judged(opened_task, evolved(""), tmp_path / "run").rows)


def test_what_a_run_is_about_does_not_hang_on_it(tmp_path: Path) -> None:
    """Where a run was begun before, the same command goes on with it; then it is said."""
    opened_task = opened_data(drawn(tmp_path))
    plain, known = table(evolved()), table(evolved(opened_task.dataset))
    about = manifest(opened_task, plain[0])
    assert about == manifest(opened_task, known[0]) == manifest(replace(opened_task, dataset=""), plain[0])
    assert [each.key for each in plain] == [each.key for each in known]
    old = judged(replace(opened_task, dataset=""), evolved(opened_task.dataset), tmp_path / "run")
    assert not old.dataset_digest and not cautions(old.rows), "as older versions left it"
    assert not cautions(read_result(tmp_path / "run").rows)
    assert cautions(judged(opened_task, evolved(opened_task.dataset), tmp_path / "run").rows)
    before = (tmp_path / "run" / ENTRIES_FILE).read_text("utf-8")
    assert cautions(judged(opened_task, evolved(), tmp_path / "run").rows), "the same entries without their lineage"
    assert (tmp_path / "run" / ENTRIES_FILE).read_text("utf-8") == before


def test_a_library_is_named_once_and_that_of_a_release_as_such() -> None:
    row = replace(entry(name="mine").record, evolved_on=True)
    assert len(cautions([row, replace(row, name="another"), replace(row, library_id="2", library="yours")])) == 2
    [released] = cautions([replace(row, release="abc", library="release abc")])
    assert released.startswith("The Library of release abc was")

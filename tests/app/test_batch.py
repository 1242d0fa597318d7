"""Batches: the services with a real process, the views, and the tab in a browser."""

import csv
import json
import os
import time
import zipfile
from pathlib import Path

import pytest
from app_parts import Served
from benchmark_parts import make_labelled
from hostile import HOSTILE, OWN_TAGS, Reader, read_own
from playwright.sync_api import BrowserContext, Page, expect
from screenshots import photograph
from visits import open_tab, visit

from app.batch import views as batch_views
from app.batch.page import BatchResults
from app.batch.service import BatchServices
from app.run_panel.following import MOVING
from app.run_panel.new_jobs import NewJob
from app.run_panel.views import run_title
from app.score.judges import Judges
from app.table.page import TablePlace
from app.table.rows import ORDERS, ResultRow, Verdict, export, neighbor, ordered, rows_table, select
from app.table.rows import numbers as selection
from rewardharness.bulk.config import ScoreConfig
from rewardharness.errors import HarnessError, InputError
from rewardharness.schema import Example, Judgment, TextInput
from rewardharness.settings import Settings


def make(tmp_path: Path, *, local: bool = True, **limits: str) -> BatchServices:
    settings = Settings.from_env({"RH_HOME": str(tmp_path / "home"), "RH_WORKERS": "1", **limits})
    return BatchServices(settings, tmp_path / "scratch", Judges(settings, local=local), local=local)


def text_of(markup: str) -> str:
    return "".join(read_own(line).text for line in markup.split("\n\n"))


def finished(batches: BatchServices, data: Path | str) -> str:
    expected = batches.expect(NewJob(ScoreConfig(data=str(data), skip_bad_rows=True)))
    name = batches.start(expected)
    while batches.look(name).state in MOVING:
        time.sleep(0.01)
    return name


@pytest.mark.slow
def test_a_batch_is_a_run_with_a_table_that_is_filtered_sorted_and_saved(tmp_path: Path) -> None:
    batches, data = make(tmp_path), make_labelled(tmp_path / "pairs")
    name = finished(batches, data)
    status, results, place = batches.look(name), BatchResults(batches), TablePlace(name)
    rows = results.rows(place)
    assert status.state == "finished" and status.judged == status.wanted == len(rows) > 4
    assert [each.status.name for each in batches.runs()] == [name] and run_title(status).startswith("pairs · ")
    against = select(rows, "against")
    assert 0 < len(against) < len(rows) and all(row.label != row.verdicts[0].choice for row in against)
    assert len(against) + len(select(rows, "with")) + len(select(rows, "failed")) == len(rows)
    sizes = [row.verdicts[0].size or 0.0 for row in ordered(rows, "margin")]
    assert sizes == sorted(sizes, reverse=True) == [row.verdicts[0].size or 0.0 for row in ordered(rows, "near")][::-1]
    for order in ORDERS:
        assert len(ordered(rows, order)) == len(rows)
    judged = list(results.judged(place, rows))
    lines = export(results.file(place, "jsonl"), judged).read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    assert [record["id"] for record in records] == [row.id for row in rows] and any(each["reason"] for each in records)
    with export(results.file(place, "csv"), judged).open(encoding="utf-8", newline="") as stream:
        assert [line["id"] for line in csv.DictReader(stream)] == [record["id"] for record in records]
    assert export(results.file(place, "parquet"), judged).read_bytes()[:4] == b"PAR1"
    assert "Agreement with labels" in batch_views.summary(batches.report(name), "rh score")
    archive = export(results.file(place, "zip"), judged[:5])
    again = finished(batches, archive)
    assert [row.id for row in results.rows(TablePlace(again))] == [row.id for row in rows[:5]]
    shown = text_of(results.compared(TablePlace(name, beside=again)))
    assert "5 of 5" in shown and "equal: both agree" in shown
    opened = results.case(place, against[0])
    assert opened.example is not None and "against the label" in text_of(opened.words) and opened.chains[0][1]
    later, without = make(tmp_path), make(tmp_path)
    later.read_ahead()  # the latest run, so that its table opens without reading the data
    archive.unlink()
    assert [each.number for each in later.judged(again)] == list(range(5))
    without.read_ahead()  # what cannot be read is told when the table is opened
    with pytest.raises(HarnessError, match="does not exist"):
        without.judged(again)


@pytest.mark.parametrize(
    ("chosen", "numbers"),
    [
        ({}, [0, 1, 2, 3]),
        ({"agreement": "against"}, [1, 2]),
        ({"agreement": "failed"}, [3]),
        ({"agreement": "fixed"}, [0]),
        ({"agreement": "broken"}, [2]),
        ({"margin": "close"}, [1, 2]),
        ({"margin": "clear"}, [0]),
        ({"kind": "=add", "agreement": "against"}, [2]),
        ({"kind": "="}, [3]),
    ],
)
def test_rows_are_chosen_by_agreement_margin_and_kind(chosen: dict[str, str], numbers: list[int]) -> None:
    verdicts = [
        (Verdict("A", 1.0, 0.6), Verdict("B", 0.0, 0.1)),
        (Verdict("B", 0.0, -0.05), Verdict("B", 0.0, 0.2)),
        (Verdict("tie", 0.5, 0.2), Verdict("A", 1.0, 0.2)),
        (Verdict("", failure="timeout"), Verdict("A", 1.0, 0.9)),
    ]
    kinds = [("add",), ("remove",), ("add", "drawn"), ("",)]
    rows = [ResultRow(n, f"r{n}", "x", kinds[n], "A", verdict) for n, verdict in enumerate(verdicts)]
    assert [row.number for row in select(rows, **chosen)] == numbers
    assert [rows[neighbor(rows, 3, step)].number for step in (-1, 0, 1)] == [2, 3, 0]
    assert selection("[2, 3, true, null, 1e9]") == {2, 3} and selection("x") == selection("{}") == set()


def packed(folder: Path, **extra: bytes) -> Path:
    archive = folder.with_suffix(".zip")
    with zipfile.ZipFile(archive, "w") as target:
        for path in folder.iterdir():
            target.write(path, path.name)
        for name, content in extra.items():
            target.writestr(name.replace("_", "."), content, zipfile.ZIP_DEFLATED)
    return archive


@pytest.mark.slow
def test_a_visitor_judges_an_archive_within_limits_and_it_is_removed(tmp_path: Path) -> None:
    visitors = make(tmp_path, local=False, RH_BATCH_PAIRS="3")
    folder = visitors.take_upload(packed(make_labelled(tmp_path / "pairs")))
    assert Path(folder).is_relative_to(tmp_path / "home" / "visitors")
    with pytest.raises(InputError, match="4 examples are not allowed"):
        visitors.expect(NewJob(ScoreConfig(data=folder, limit=4)))
    name = finished(visitors, folder)
    results, place = BatchResults(visitors), TablePlace(name)
    rows = results.rows(place)
    assert name.startswith("visitor-") and len(rows) == 3 and str(tmp_path) not in repr(visitors.report(name))
    assert run_title(visitors.look(name)).startswith("Your archive · ") and results.others(place) == []
    saved = export(results.file(place, "jsonl"), results.judged(place, rows))
    assert str(tmp_path) not in saved.read_text(encoding="utf-8")
    assert [each.status.name for each in visitors.runs([name])] == [name] and visitors.runs() == []
    visitors.tidy()
    assert results.rows(place) == rows
    day = time.time() - 25 * 3600
    os.utime(tmp_path / "home" / "jobs" / f"{name}.lock", (day, day))
    os.utime(next((tmp_path / "home" / "visitors").iterdir()), (day, day))
    visitors.tidy()
    assert visitors.runs([name]) == [] and not list((tmp_path / "home" / "visitors").iterdir())
    assert not [path for path in tmp_path.rglob("*") if name in path.name]
    with pytest.raises(HarnessError, match="no such run"):
        results.rows(place)


@pytest.mark.parametrize("data", ["demo", "feedback", "/etc", "hf:org/name", "{home}/visitors/../runs"])
def test_a_visitor_names_no_data_of_the_app(tmp_path: Path, data: str) -> None:
    (tmp_path / "home" / "runs").mkdir(parents=True)
    visitors = make(tmp_path, local=False)
    with pytest.raises(InputError, match="only what they upload"):
        visitors.expect(NewJob(ScoreConfig(data=data.replace("{home}", str(tmp_path / "home")))))


def test_an_archive_of_a_visitor_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    visitors, data = make(tmp_path, local=False, RH_BATCH_MB="1"), make_labelled(tmp_path / "pairs")
    for extra, message in (
        ({"setup_py": b""}, "another kind: 'setup.py'"),
        ({"large_png": bytes(11_000_000)}, "more than 1 MB"),
    ):
        with pytest.raises(InputError, match=message):
            visitors.take_upload(packed(data, **extra))
    text = tmp_path / "text.zip"
    text.write_bytes(b"no archive")
    with pytest.raises(InputError, match="no zip archive"):
        visitors.take_upload(text)
    assert not list((tmp_path / "home").glob("visitors/*"))


def test_a_visitor_is_told_what_is_wrong_with_the_archive_without_its_place(tmp_path: Path) -> None:
    visitors, data = make(tmp_path, local=False), make_labelled(tmp_path / "pairs")
    for table in data.glob("*.jsonl"):
        table.write_text("", encoding="utf-8")
    with pytest.raises(HarnessError) as caught:
        visitors.expect(NewJob(ScoreConfig(data=visitors.take_upload(packed(data)))))
    assert str(tmp_path) not in f"{caught.value.message}{caught.value.next_step}"
    assert "archive" in caught.value.message or "started here" in caught.value.message


def test_an_owner_can_forbid_batches_of_visitors_and_data_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    for local, limits, data, words in (
        (False, {"RH_BATCH_PAIRS": "0"}, "demo", "own computer"),
        (True, {}, str(tmp_path / "nowhere"), "nowhere"),
    ):
        with pytest.raises(HarnessError, match=words):
            make(tmp_path, local=local, **limits).expect(NewJob(ScoreConfig(data=data)))


def test_an_upload_stays_for_as_long_as_its_run(tmp_path: Path) -> None:
    batches, upload = make(tmp_path), tmp_path / "pairs.csv"
    upload.write_text("id\n", encoding="utf-8")
    place = Path(batches.take_upload(upload))
    upload.unlink()
    assert place.name == "pairs.csv" and place.is_relative_to(tmp_path / "home") and place.is_file()


def test_foreign_text_stays_text_and_no_cell_is_a_formula(tmp_path: Path) -> None:
    evil = ResultRow(0, HOSTILE, HOSTILE, (HOSTILE,), HOSTILE, (Verdict(HOSTILE, 0.0, 0.1, {HOSTILE: 0.5}),) * 2)
    markup = rows_table([evil], 0, {0: [(HOSTILE, "result/x/0-120.webp")]}, [HOSTILE] * 2, {0})
    reader = Reader(markup.replace("<input ", "<br ").replace("<img ", "<br "))
    assert set(reader.tags) <= OWN_TAGS | {"figure", "figcaption", "button"} and reader.open == []
    assert not {name for name in reader.attributes if name.startswith("on")}
    example = Example("=1+1", "=HYPERLINK(1)", None, (TextInput("a", "x"),))
    path = export(tmp_path / "rows.csv", [(example, Judgment("=1+1", "judge", "p", "l"))])
    with path.open(encoding="utf-8", newline="") as stream:
        [line] = csv.DictReader(stream)
    assert line["instruction"] == "'=HYPERLINK(1)"
    for ending, words in (("exe", "Unknown format"), ("zip", "No row has two to four")):
        with pytest.raises(InputError, match=words):
            export(tmp_path / f"rows.{ending}", [(example, Judgment("=1+1", "judge", "p", "l"))])


@pytest.mark.browser
def test_a_zip_is_uploaded_judged_and_looked_through(browser: BrowserContext, served: Served, tmp_path: Path) -> None:
    archive = packed(make_labelled(tmp_path / "pairs"))
    with visit(browser, served.url) as page:
        open_tab(page, "Batch")
        page.locator("#batch-upload input[type=file]").set_input_files(archive)
        expect(page.locator("#batch-upload")).to_contain_text("pairs")
        page.locator("#batch-see").click()
        expect(page.locator("#batch-cost")).to_contain_text("What to expect")
        page.locator("#batch-start").click()
        expect(page.locator("#batch-run")).to_contain_text("Finished")
        table, position = page.locator("#batch-table"), page.locator("#batch-position")
        expect(table.locator("img").first).to_be_visible()
        choose(page, "show", "Judge and label agree")
        expect(table).to_contain_text("agrees")
        expect(table.locator("tbody .pill.warning")).to_have_count(0)
        names = table.locator("button.open")
        before = names.first.inner_text()
        choose(page, "order", "Smallest margin first")
        expect(names.first).not_to_have_text(before)
        names.first.click()
        expect(position).to_contain_text("1 of")
        expect(page.locator("#batch-case-viewer .pane.right img")).to_be_visible()
        expect(page.locator("#batch-case-words")).to_contain_text("as the label says")
        photograph(page, "batch-example")
        page.keyboard.press("j")
        expect(position).to_contain_text("2 of")
        page.keyboard.press("k")
        expect(position).to_contain_text("1 of")
        page.locator("#batch-close").click()
        expect(position).to_be_hidden()
        for row in range(2):
            table.locator("input[type=checkbox]").nth(row).check()
        expect(table).to_contain_text("2 rows selected")
        with page.expect_download() as download:
            page.locator("#batch-save").click()
        lines = Path(download.value.path()).read_text(encoding="utf-8").splitlines()
        assert lines[0].startswith("id,instruction,") and len(lines) == 3
        photograph(page, "batch-table")
        page.locator("#batch-again").click()
        expect(page.locator("#batch-upload")).to_contain_text("results")
        page.locator("#batch-see").click()
        expect(page.locator("#batch-cost")).to_contain_text("2 examples of")


def choose(page: Page, name: str, words: str) -> None:
    """Choose in a list that drops down."""
    page.locator(f"#batch-{name} input").click()
    page.get_by_role("option").filter(has_text=words).first.click()

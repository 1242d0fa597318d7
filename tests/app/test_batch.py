"""Batches: the services with a real process, the views, and the tab in a browser."""

import csv
import json
import os
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from app_parts import Served
from benchmark_parts import make_labelled
from hostile import HOSTILE, OWN_TAGS, Reader
from playwright.sync_api import BrowserContext, expect
from visits import open_tab, visit

from app.batch import views as batch_views
from app.batch.service import ORDERS, BatchServices
from app.run_panel.following import MOVING
from app.run_panel.new_jobs import NewJob
from app.score.judges import Judges
from rewardharness.bulk.config import ScoreConfig
from rewardharness.errors import HarnessError, InputError
from rewardharness.settings import Settings


def make(tmp_path: Path, *, local: bool = True, **limits: str) -> BatchServices:
    settings = Settings.from_env({"RH_HOME": str(tmp_path / "home"), "RH_WORKERS": "1", **limits})
    return BatchServices(settings, tmp_path / "scratch", Judges(settings, local=local), local=local)


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
    status = batches.look(name)
    assert status.state == "finished" and status.judged == status.wanted == len(batches.rows(name)) > 4
    assert [each.status.name for each in batches.runs()] == [name]
    rows = batches.rows(name)
    against = batches.rows(name, "against")
    assert 0 < len(against) < len(rows)
    assert all(row.example.preference != row.judgment.preference for row in against)
    margins = [row.judgment.margin or 0.0 for row in batches.rows(name, order="margin")]
    assert margins == sorted(margins, reverse=True)
    assert margins[::-1] == [row.judgment.margin or 0.0 for row in batches.rows(name, order="close")]
    for order in ORDERS:
        assert len(batches.rows(name, order=order)) == len(rows)
    lines = batches.export(name, "jsonl", rows).read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    assert [record["id"] for record in records] == [row.example.id for row in rows]
    with batches.export(name, "csv", rows).open(encoding="utf-8", newline="") as stream:
        assert [line["id"] for line in csv.DictReader(stream)] == [record["id"] for record in records]
    assert batches.export(name, "parquet", rows).read_bytes()[:4] == b"PAR1"
    assert "Agreement with labels" in batch_views.summary(batches.report(name), "rh score")


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
    rows = visitors.rows(name)
    assert name.startswith("visitor-") and len(rows) == 3 and str(tmp_path) not in repr(visitors.report(name))
    assert str(tmp_path) not in visitors.export(name, "jsonl", rows).read_text(encoding="utf-8")
    assert [each.status.name for each in visitors.runs([name])] == [name] and visitors.runs() == []
    visitors.tidy()
    assert visitors.rows(name) == rows
    day = time.time() - 25 * 3600
    os.utime(tmp_path / "home" / "jobs" / f"{name}.lock", (day, day))
    os.utime(next((tmp_path / "home" / "visitors").iterdir()), (day, day))
    visitors.tidy()
    assert visitors.runs([name]) == [] and not list((tmp_path / "home" / "visitors").iterdir())
    assert not [path for path in tmp_path.rglob("*") if name in path.name]
    with pytest.raises(HarnessError, match="no such run"):
        visitors.rows(name)


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


@pytest.mark.slow
def test_foreign_text_stays_text_and_no_cell_is_a_formula(tmp_path: Path) -> None:
    batches = make(tmp_path)
    name = finished(batches, make_labelled(tmp_path / "pairs"))
    [row, *_] = batches.rows(name)
    evil = replace(
        row,
        example=replace(row.example, id=HOSTILE, instruction="=HYPERLINK(1)", preference=HOSTILE),
        judgment=replace(row.judgment, reasons=(HOSTILE,), preference=HOSTILE),
    )
    reader = Reader(batch_views.rows_table([evil], 0, lambda image: "").replace("\n", ""))
    assert set(reader.tags) <= OWN_TAGS | {"figure", "figcaption"} and reader.open == []
    with batches.export(name, "csv", [evil]).open(encoding="utf-8", newline="") as stream:
        [line] = csv.DictReader(stream)
    assert line["instruction"] == "'=HYPERLINK(1)"


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
        table = page.locator("#batch-table")
        expect(table.locator("img").first).to_be_visible()
        everything = table.locator("tbody tr").count()
        page.locator("#batch-show input").click()
        page.get_by_role("option", name="Judge and label disagree").click()
        expect(table.locator("tbody tr")).not_to_have_count(everything)
        expect(table.locator("tbody .pill.warning").first).to_be_visible()
        with page.expect_download() as download:
            page.locator("#batch-csv").click()
        assert Path(download.value.path()).read_text(encoding="utf-8").startswith("id,instruction,")

"""Visitors of a Space share its disk and its place for runs: what one does takes nothing from another."""

import itertools
import os
import sys
import time
import zipfile
from pathlib import Path

import pytest
from benchmark_parts import make_labelled

from app.batch import service as batch_services
from app.batch.archives import MAX_ARCHIVES, MAX_OWN
from app.batch.service import BatchServices
from app.library.libraries import Visitor
from app.run_panel import jobs
from app.run_panel.jobs import MAX_VISITOR_RUNS, BusyError, Jobs
from app.run_panel.new_jobs import NewJob
from app.score.judges import Judges
from rewardharness.bulk.config import ScoreConfig
from rewardharness.errors import InputError
from rewardharness.evolution.config import EvolveConfig
from rewardharness.files import hold
from rewardharness.settings import Settings

HOSTILE = "b" * 32
NUMBERS = itertools.count()


def make(tmp_path: Path, **limits: str) -> BatchServices:
    settings = Settings.from_env({"RH_HOME": str(tmp_path / "home"), "RH_WORKERS": "1", **limits})
    return BatchServices(settings, tmp_path / "scratch", Judges(settings, local=False), local=False)


def tiny(tmp_path: Path, size: int = 1) -> Path:
    """An archive unlike the others."""
    path = tmp_path / "tiny.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("a.csv", f"{next(NUMBERS)}".encode() + os.urandom(20_000) * (size // 20_000))
    return path


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs end when they start."""
    monkeypatch.setattr(Jobs, "_spawn", lambda self, name, *_: (self.runs / name).mkdir(parents=True, exist_ok=True))


def held(tmp_path: Path) -> list[str]:
    return [each.name for each in (tmp_path / "home" / "visitors").iterdir()]


@pytest.mark.usefixtures("at_once")
def test_archives_of_kept_runs_stay_and_who_has_most_loses_first(tmp_path: Path) -> None:
    batches = make(tmp_path)
    victim = Path(batches.take_upload(tiny(tmp_path), "a"))
    Jobs(tmp_path / "home").start(f"visitor-{'1' * 32}", "score", ScoreConfig(str(victim)), {}, visitor="a")
    other = Path(batches.take_upload(tiny(tmp_path), "c"))
    for _ in range(2 * MAX_ARCHIVES):
        batches.take_upload(tiny(tmp_path), HOSTILE)
    assert victim.is_dir() and other.is_dir()
    assert sum(name.startswith(HOSTILE) for name in held(tmp_path)) == MAX_OWN
    for number in range(2 * MAX_ARCHIVES):  # the variation: from many addresses, which only their runs protect
        batches.take_upload(tiny(tmp_path), f"{number:032x}")
    assert victim.is_dir() and len(held(tmp_path)) == MAX_ARCHIVES


@pytest.mark.usefixtures("at_once")
def test_an_address_has_a_limit_of_bytes_and_no_room_is_said(tmp_path: Path) -> None:
    batches = make(tmp_path, RH_BATCH_MB="1")
    for _ in range(5):
        batches.take_upload(tiny(tmp_path, 9_900_000), HOSTILE)
    assert len(held(tmp_path)) == 3
    lock = hold(tmp_path / "home" / "jobs" / f"visitor-{'2' * 32}.lock")
    places = [Path(batches.take_upload(tiny(tmp_path), HOSTILE)) for _ in range(2)]
    for name, place in zip("12", places, strict=True):
        path = tmp_path / "home" / "jobs" / f"visitor-{name * 32}.json"
        path.write_text('{"job": "score", "data": "' + str(place) + '"}', encoding="utf-8")
    for _ in range(2 * MAX_OWN):
        batches.take_upload(tiny(tmp_path), HOSTILE)
    os.close(lock)
    assert places[1].is_dir() and not places[0].is_dir(), "an address loses its own ended runs, and no running one"
    for number in range(MAX_ARCHIVES - 1):
        place = batches.take_upload(tiny(tmp_path), f"{number:032x}")
        path = tmp_path / "home" / "jobs" / f"visitor-{number:032x}.json"
        path.write_text('{"job": "score", "data": "' + place + '"}', encoding="utf-8")
    with pytest.raises(InputError, match="no room"):
        batches.take_upload(tiny(tmp_path), "c")


@pytest.mark.usefixtures("at_once")
def test_runs_of_one_address_remove_none_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Jobs(tmp_path)

    def start(owner: str) -> Path:
        name = home.new_name(None)
        home.start(name, "evolve", EvolveConfig("demo"), {}, visitor=owner)
        return home.folder(name)

    mine = start("a")
    theirs = [start(HOSTILE) for _ in range(MAX_VISITOR_RUNS + 5)]
    assert mine.is_dir() and sum(folder.is_dir() for folder in theirs) == MAX_VISITOR_RUNS
    monkeypatch.setattr(jobs, "MAX_RUNS", MAX_VISITOR_RUNS + 1)
    with pytest.raises(BusyError, match="no room"):
        start("c")
    day = time.time() - 25 * 3600
    os.utime(mine, (day, day))
    assert start("c").is_dir() and not mine.is_dir(), "its time was over"


@pytest.mark.usefixtures("at_once")
def test_who_had_the_place_waits_while_others_do(tmp_path: Path) -> None:
    tabs = Jobs(tmp_path), Jobs(tmp_path)  # a Jobs for each tab

    def start(owner: str, tab: int = 0) -> None:
        name = tabs[tab].new_name(None)
        tabs[tab].start(name, "evolve", EvolveConfig("demo"), {}, visitor=owner)

    start(HOSTILE)
    lock = hold(tmp_path / "jobs" / "visitors.lock")
    with pytest.raises(BusyError, match="is active"):
        start("a", 1)
    os.close(lock)
    for tab in range(2):
        with pytest.raises(BusyError, match="Other visitors wait"):
            start(HOSTILE, tab)
    start("a")
    start(HOSTILE)
    start(HOSTILE)


def test_a_batch_has_a_budget_of_seconds_and_pixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches, data = make(tmp_path), make_labelled(tmp_path / "pairs")
    path = tmp_path / "pairs.zip"
    with zipfile.ZipFile(path, "w") as packed:
        for file in data.iterdir():
            packed.write(file, file.name)
    job = NewJob(ScoreConfig(batches.take_upload(path, "a")))
    monkeypatch.setattr(batch_services, "MAX_PIXELS", 1000)
    with pytest.raises(InputError, match="megapixels"):
        batches.expect(job)
    monkeypatch.undo()
    sleeping = [sys.executable, "-c", "import time; time.sleep(600)"]
    monkeypatch.setattr(Jobs, "_command", lambda *_: sleeping)
    monkeypatch.setattr(jobs, "RUN_SECONDS", {"score": 0.05})
    name = batches.start(batches.expect(job, Visitor(owner="a")))
    until = time.monotonic() + 60
    while batches._jobs.alive_since(name) and time.monotonic() < until:
        time.sleep(0.01)
    assert not batches._jobs.alive_since(name)

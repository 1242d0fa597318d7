"""A small benchmark for tests of the app: squares to recolour or remove, two Libraries, and services to run them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from app_parts import draw_ground, draw_square, make_services, write_pairs
from drawn_pairs import TIMID
from PIL import Image

from app.run_panel.new_jobs import NewJob, prepare
from app.score.judges import BY_MEASURING, JudgeChoice, Judges
from app.services import AppServices
from rewardharness.benchmark.config import BenchmarkConfig
from rewardharness.cli.main import main
from rewardharness.codec import to_json
from rewardharness.files import write_json
from rewardharness.library.store import Library
from rewardharness.settings import Settings

PAIRS = 15
REMOVALS = 3
"""How many of them ask for a removal, of which the timid Library makes nothing; the others ask for another colour."""

MISLABELLED = "p03"
"""Id of the pair whose label is wrong."""


def make_labelled(folder: Path, *, hostile: str = "") -> Path:
    """Draw pairs of an edit and the untouched source. People prefer the one that did something.

    Args:
        folder: Where.
        hostile: What the pair with the wrong label says besides, and the kind of edit that it says it is; empty:
            nothing.
    """
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    rows = []
    for number in range(PAIRS):
        ground, removal = draw_ground(random), number % 5 == 4
        source = draw_square(ground, (20, 20, 20))
        edited = ground if removal else draw_square(source, (200, 30, 30))
        better = "AB"[number % 2]
        shown = {"s": source, "a": edited if better == "A" else source, "b": edited if better == "B" else source}
        for letter, pixels in shown.items():
            Image.fromarray(pixels).save(folder / f"{letter}{number}.png")
        name = f"p{number:02d}"
        asked, kind = ("Remove the square.", "remove") if removal else ("Make the square red.", "color")
        if name == MISLABELLED:
            better = "AB"[better == "A"]
            asked, kind = (f"{asked} {hostile}", hostile) if hostile else (asked, kind)
        row = {"id": name, "source": f"s{number}.png", "instruction": asked, "category": kind, "label_kind": "drawn"}
        rows.append(row | {f"candidate_{each}": f"{each}{number}.png" for each in "ab"} | {"preference": better})
    return write_pairs(folder, rows)


def make_timid(folder: Path) -> Path:
    """Write a Library by which the best edit is none."""
    Library((TIMID,)).save(folder)
    return folder


def app_services(home: Path, scratch: Path, *, local: bool = True, **env: str) -> AppServices:
    """The services of an app."""
    return make_services(scratch, local=local, home=home, **env)


def on(data: Path | str, judge: JudgeChoice = BY_MEASURING, **options: Any) -> NewJob:
    """A benchmark on a folder."""
    return NewJob(BenchmarkConfig(str(data), **options), judge)


def judged(home: Path, job: NewJob, name: str) -> str:
    """Run a benchmark to its end in this process, which is quicker; return its name."""
    settings = Settings.from_env({"RH_HOME": str(home), "RH_WORKERS": "2"})
    config = prepare(job, Judges(settings, local=True), settings, local=True).config
    file = home / "jobs" / f"{name}.json"
    write_json(file, {"job": "benchmark", **to_json(config)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RH_HOME", str(home))
        patch.setenv("RH_WORKERS", "2")
        folder = str(home / "runs" / name)
        status = main(["benchmark", "--config", str(file), "--yes", "--quiet", "--run", folder])
    assert status in {0, 3}, status
    return name

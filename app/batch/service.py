"""Operations of the Batch tab: runs that judge a dataset, and their results."""

import csv
import json
import logging
import shutil
import threading
import time
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from app.batch.archives import Archives
from app.benchmark.runs import library_name
from app.run_panel.following import FollowedRun, RunFollower, keep
from app.run_panel.new_jobs import PreparedJob
from app.run_panel.service import Expected, RunService
from app.score.judges import Judges
from app.viewer.pictures import shrunk
from rewardharness.bulk.config import ScoreConfig
from rewardharness.bulk.job import ScoreJob
from rewardharness.data.export import Kind, write_lines, write_parquet
from rewardharness.errors import HarnessError, ImageError, InputError
from rewardharness.files import sha256_file
from rewardharness.jobs import JobConfig
from rewardharness.judging.report import make_report, report_json
from rewardharness.judgments import judgment_from_json
from rewardharness.runs.reader import RunStatus
from rewardharness.schema import TIE, Example, ImageInput, Json, Judgment
from rewardharness.settings import Settings

log = logging.getLogger(__name__)

TIDY_SECONDS = 600
"""Seconds between two removals of old batches of visitors."""

PAGE = 25
"""Rows of a page of the table."""

SIDE = 120
"""Longest side of a thumbnail in pixels."""

MAX_PIXELS = 600_000_000
"""Maximum number of pixels that a visitor's batch judges; an image counts in each example."""

MAX_OPENED = 3
"""Maximum number of runs whose data and results are cached."""

FILTERS = {
    "all": "All",
    "against": "Judge and label disagree",
    "close": "Close: a tie, or a margin below 0.1",
    "failed": "Not judged",
}
"""Which rows are shown, by name."""

ORDERS = {
    "given": "As in the data",
    "margin": "Largest margin first",
    "close": "Smallest margin first",
    "reward": "Highest reward first",
    "low": "Lowest reward first",
}
"""Orders of the table, by name."""

EXPORTS = ("jsonl", "csv", "parquet")
"""Formats in which results can be saved."""

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
"""Formats of images in archives."""


def _pixels(example: Example) -> int:
    """Return the pixels of the images of an example, by their headers. An image that cannot be read has none."""
    pixels = 0
    for image in (each for each in example.images if isinstance(each, ImageInput)):
        with suppress(Exception), Image.open(image.path or BytesIO(image.data or b""), formats=FORMATS) as opened:
            pixels += opened.width * opened.height
    return pixels


class BatchFollower(RunFollower[FollowedRun]):
    """Incremental reader of one run."""

    fields = None
    wanted = 0

    def read(self, run: RunStatus) -> tuple[RunStatus, dict[str, Any]]:
        """See `Follower.read`."""
        return run, {"judged": len(self.run.results()), "wanted": self.wanted}


@dataclass(frozen=True)
class BatchRow:
    """An example and its judgment."""

    example: Example
    judgment: Judgment

    @property
    def reward(self) -> float | None:
        """The highest reward; None without one."""
        rewards = [each.reward for each in self.judgment.scores.values() if each.reward is not None]
        return max(rewards, default=None)

    def fits(self, name: str) -> bool:
        """Whether a filter of `FILTERS` shows it."""
        judgment, label = self.judgment, self.example.preference
        if name == "failed":
            return not judgment.judged
        if name == "against":
            return judgment.judged and label is not None and label != judgment.preference
        if name == "close":
            return judgment.judged and (judgment.preference == TIE or (judgment.margin or 0.0) < 0.1)
        return True

    def place(self, order: str) -> float:
        """Return the key of an order of `ORDERS`; rows without the value come last."""
        value = self.judgment.margin if order in {"margin", "close"} else self.reward
        if order == "given" or value is None:
            return float("inf") if order != "given" else 0.0
        return -value if order in {"margin", "reward"} else value


class BatchServices(RunService[FollowedRun, BatchFollower]):
    """Batches and their results. Holds nothing of any visitor."""

    job = "score"
    kind = BatchFollower

    def __init__(self, settings: Settings, scratch: Path, judges: Judges, *, local: bool) -> None:
        super().__init__(settings, scratch, judges, local=local)
        self._examples: OrderedDict[str, tuple[Example, ...]] = OrderedDict()
        self._archives = Archives(settings)

    def keep_tidy(self) -> None:
        """Remove what visitors have given once its time is over, in the background, for as long as the app runs."""

        def work() -> None:
            while True:
                try:
                    self.tidy()
                except Exception:
                    log.exception("old batches cannot be removed")
                time.sleep(TIDY_SECONDS)

        threading.Thread(target=work, name="tidy batches", daemon=True).start()

    def tidy(self) -> None:
        """Remove batches and archives of visitors whose time is over."""
        for name in self._archives.tidy(self._jobs):
            self._examples.pop(name, None)
            shutil.rmtree(self._scratch / "batches" / name, ignore_errors=True)

    def take_upload(self, path: Path, owner: str = "") -> str:
        """Copy an upload to where it stays as long as its run may be resumed, and return the new path.

        That of a visitor is unpacked, and removed after a time.

        Args:
            path: The upload.
            owner: Pseudonym of the address that it comes from.

        Raises:
            HarnessError: If a visitor's upload cannot be taken.
        """
        if not self.local:
            return str(self._archives.take(path, self._jobs, owner))
        folder = self._settings.home / "uploads" / sha256_file(path)[:16]
        target = folder / path.name
        if not target.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            part = target.with_suffix(".part")
            shutil.copyfile(path, part)
            part.replace(target)
        return str(target)

    def _preview(self, config: ScoreConfig, settings: Settings) -> Json:
        job = ScoreJob.open(config, settings)
        examples = job.dataset.examples
        if not self.local and sum(map(_pixels, examples)) > MAX_PIXELS:
            message = f"The images of these examples have more than {MAX_PIXELS // 1_000_000} megapixels."
            raise InputError(message, next_step="Judge fewer examples, or scale the images down.")
        return {
            "data": job.dataset.name if self.local else "your archive",
            "examples": len(examples),
            "labeled": sum(each.preference is not None for each in examples),
            "skipped": len(job.dataset.skipped),
            "judge": job.judge.name,
            "model": job.judge.traits.uses_model,
            "library": library_name(config.library or ""),
            "hours": 0 if self.local else self._settings.batch_hours,
        }

    def _public(self, error: HarnessError, prepared: PreparedJob) -> HarnessError:
        """See `RunService._public`. A visitor sees what is wrong with the archive, without its path."""
        place = Path(str(getattr(prepared.config, "data", "")))
        message, step = error.message, error.next_step
        for path in (place.resolve(), place):
            message, step = message.replace(str(path), "your archive"), step.replace(str(path), "your archive")
        if str(self._settings.home) in message + step:
            return super()._public(error, prepared)
        return InputError(message, next_step=step)

    def _final_config(self, name: str, expected: Expected) -> JobConfig:
        """See `RunService._final_config`."""
        config = expected.job.config
        if not self.local and isinstance(config, ScoreConfig):
            if not self._archives.holds(Path(config.data)):
                raise InputError("The archive was removed.", next_step="Upload it again.")
            self._archives.touch(Path(config.data))
        return config

    def look(self, name: str) -> FollowedRun:
        """See `RunService.look`. The number of examples is known once the run was started or shown here."""
        self._check(name)
        if name in self._examples:
            self._follower(name).wanted = len(self._examples[name])
        return super().look(name)

    def start(self, expected: Expected) -> str:
        """See `RunService.start`."""
        name = super().start(expected)
        self._follower(name).wanted = int(expected.preview["examples"])
        return name

    def _opened(self, name: str) -> tuple[Example, ...]:
        found = self._examples.get(name)
        if found is None:
            config = self._jobs.config(name)[1]
            if not isinstance(config, ScoreConfig):
                raise InputError(f"{name} judges no dataset.", next_step="Choose another run.")
            dataset, _ = ScoreJob.read(config, self._settings, None)
            found = dataset.examples if isinstance(dataset.examples, tuple) else tuple(dataset.examples)
        keep(self._examples, name, found, MAX_OPENED)
        return found

    def rows(self, name: str, chosen: str = "all", order: str = "given") -> list[BatchRow]:
        """Return the judged examples of a run.

        Args:
            name: The run.
            chosen: One of `FILTERS`.
            order: One of `ORDERS`.

        Raises:
            HarnessError: If the run or its data cannot be read.
        """
        self.look(name)
        results = self._follower(name).run.results()
        rows = [
            BatchRow(example, judgment_from_json(results[example.id], steps=False))
            for example in self._opened(name)
            if example.id in results
        ]
        shown = [row for row in rows if row.fits(chosen)]
        return sorted(shown, key=lambda row: row.place(order)) if order in ORDERS else shown

    def report(self, name: str) -> Json:
        """Return the agreement of the judgments so far with the labels, as `rh score --json` does."""
        return report_json(make_report((row.example, row.judgment) for row in self.rows(name)))

    def export(self, name: str, ending: str, rows: Sequence[BatchRow]) -> Path:
        """Write rows for download.

        Args:
            name: The run.
            ending: One of `EXPORTS`.
            rows: The rows.

        Raises:
            InputError: If the format is unknown.
            MissingPackageError: If a package that writes Parquet is not installed.
        """
        if ending not in EXPORTS:
            raise InputError("Unknown format.", next_step=f"Choose from: {', '.join(EXPORTS)}.")
        path = self._scratch / "batches" / name / f"{name}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        records = ({name: value(row) for name, (_, value) in _COLUMNS.items()} for row in rows)
        if ending == "csv":
            _write_csv(path, records)
        else:
            (write_parquet if ending == "parquet" else write_lines)(path, COLUMNS, records)
        return path


@lru_cache(maxsize=2000)
def thumbnail(image: ImageInput) -> str:
    """Return a small version of an image as a data URL; empty if it cannot be read."""
    try:
        small = shrunk(image, SIDE)
    except ImageError:
        return ""
    out = BytesIO()
    small.save(out, "WEBP", quality=70, method=0)
    return f"data:image/webp;base64,{b64encode(out.getvalue()).decode('ascii')}"


def _rewards(row: BatchRow) -> list[float | None]:
    scores = row.judgment.scores
    return [scores[label].reward if label in scores else None for label in row.example.labels]


_COLUMNS: dict[str, tuple[Kind, Callable[[BatchRow], Any]]] = {
    "id": ("text", lambda row: row.example.id),
    "instruction": ("text", lambda row: row.example.instruction),
    "preference": ("text", lambda row: row.example.preference),
    "judged_preference": ("text", lambda row: row.judgment.preference),
    "margin": ("float", lambda row: row.judgment.margin),
    "confidence": ("float", lambda row: row.judgment.confidence),
    "rewards": ("floats", _rewards),
    "reason": ("text", lambda row: row.judgment.reasons[0] if row.judgment.reasons else None),
    "failure": ("text", lambda row: row.judgment.failure.code if row.judgment.failure else None),
    "judge": ("text", lambda row: row.judgment.judge),
    "protocol": ("text", lambda row: row.judgment.protocol),
    "library_id": ("text", lambda row: row.judgment.library_id),
}
"""Kind and value of each column of a saved table; `preference` is the label."""

COLUMNS: dict[str, Kind] = {name: kind for name, (kind, _) in _COLUMNS.items()}


def _write_csv(path: Path, records: Iterator[Json]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(COLUMNS))
        writer.writeheader()
        for record in records:
            writer.writerow({name: _csv_cell(value) for name, value in record.items()})


def _csv_cell(value: object) -> object:
    """Return a cell; a spreadsheet would run text that begins like a formula, so it gets an apostrophe."""
    if isinstance(value, list):
        return json.dumps(value)
    return f"'{value}" if isinstance(value, str) and value[:1] in tuple("=+-@\t") else value

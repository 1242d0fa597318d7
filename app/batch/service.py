"""Operations of the Batch tab: runs that judge a dataset, and their results."""

import logging
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from app.batch.archives import Archives
from app.benchmark.runs import library_name
from app.library.libraries import BUILTIN
from app.run_panel.following import FollowedRun, RunFollower, keep
from app.run_panel.new_jobs import PreparedJob
from app.run_panel.service import Expected, RunService
from app.score.judges import Judges
from app.table.rows import write_pairs
from rewardharness.bulk.config import ScoreConfig
from rewardharness.bulk.job import ScoreJob
from rewardharness.data.folder import read_folder
from rewardharness.demo.dataset import make_demo
from rewardharness.errors import HarnessError, InputError
from rewardharness.files import sha256_file
from rewardharness.garbage import collection_paused
from rewardharness.jobs import JobConfig
from rewardharness.judging.report import make_report, report_json
from rewardharness.judgments import judgment_from_json
from rewardharness.runs.reader import RunStatus
from rewardharness.runs.results import Results
from rewardharness.runs.store import RESULTS
from rewardharness.schema import Example, ImageInput, Json, Judgment
from rewardharness.settings import Settings

log = logging.getLogger(__name__)

TIDY_SECONDS = 600
"""Seconds between two removals of old batches of visitors."""

MAX_PIXELS = 600_000_000
"""Maximum number of pixels that a visitor's batch judges; an image counts in each example."""

SAMPLE = 12
"""Pairs of the sample archive."""

MAX_OPENED = 3
"""Maximum number of runs whose data and results are cached."""

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "HEIF")
"""Formats of images in archives."""


def _pixels(example: Example) -> int:
    """Return the pixels of the images of an example, by their headers. An image that cannot be read has none."""
    pixels = 0
    for image in (media for media in example.images if isinstance(media, ImageInput)):
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
class JudgedExample:
    """An example and its judgment."""

    number: int
    """Place in the data."""
    example: Example
    judgment: Judgment
    """Without steps, reasons and entries."""


@collection_paused()
def _judged(examples: Iterable[Example], results: Results) -> list[JudgedExample]:
    numbered = enumerate(examples)
    return [
        JudgedExample(number, example, results.judgment(example.id))
        for number, example in numbered
        if example.id in results
    ]


class BatchServices(RunService[FollowedRun, BatchFollower]):
    """Batches and their results. Holds nothing of any visitor."""

    job = "score"
    kind = BatchFollower

    def __init__(self, settings: Settings, scratch: Path, judges: Judges, *, local: bool) -> None:
        super().__init__(settings, scratch, judges, local=local)
        self._examples: OrderedDict[str, tuple[Example, ...]] = OrderedDict()
        self._judged: OrderedDict[str, tuple[tuple[int, int], Sequence[JudgedExample]]] = OrderedDict()
        self._archives, self._drawing, self._reading = Archives(settings), threading.Lock(), threading.Lock()

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
            self._judged.pop(name, None)
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
        archive = Path(config.data)  # it is unpacked to a folder that is named by its content
        return {
            "data": (archive.name if archive.is_file() else job.dataset.name) if self.local else "your archive",
            "examples": len(examples),
            "labeled": sum(example.preference is not None for example in examples),
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
        examples = self._examples.get(name)
        if examples is None:
            config = self._jobs.config(name)[1]
            if not isinstance(config, ScoreConfig):
                raise InputError(f"{name} judges no dataset.", next_step="Choose another run.")
            dataset, _ = ScoreJob.read(config, self._settings, None)
            examples = dataset.examples if isinstance(dataset.examples, tuple) else tuple(dataset.examples)
        keep(self._examples, name, examples, MAX_OPENED)
        return examples

    def judged(self, name: str) -> Sequence[JudgedExample]:
        """Return the judged examples of a run, in the order of the data.

        Raises:
            HarnessError: If the run or its data cannot be read.
        """
        with self._reading:
            return self._read(name)

    def _read(self, name: str) -> Sequence[JudgedExample]:
        self.look(name)
        results, examples = self._follower(name).run.results(), self._opened(name)
        assert isinstance(results, Results)  # as the follower keeps all fields
        file = self._jobs.folder(name) / RESULTS
        stamp = (len(results), file.stat().st_mtime_ns if file.is_file() else 0)
        known = self._judged.get(name)
        if known is None or known[0] != stamp:
            known = stamp, _judged(examples, results)
        keep(self._judged, name, known, MAX_OPENED)
        return known[1]

    def read_ahead(self) -> None:
        """Read the latest run with results, so that its table opens at once."""
        latest = next((item.status for item in self.runs() if item.status.judged), None) if self.local else None
        if latest is not None:
            with suppress(HarnessError):
                self.judged(latest.name)

    def judgments(self, name: str, examples: Iterable[str], *, steps: bool = False) -> list[Judgment]:
        """Return the judgments of examples with reasons, and with steps if wanted.

        Raises:
            HarnessError: If the run cannot be read.
        """
        self.look(name)
        results = self._follower(name).run.results()
        return [judgment_from_json(results[example], steps=steps) for example in examples]

    def judge(self, name: str) -> str:
        """Return judge and Library of a run."""
        manifest = self.look(name).manifest
        with suppress(HarnessError):
            library = getattr(self._jobs.config(name)[1], "library", None) or BUILTIN
            return f"{manifest.get('judge')}, {library_name(library)}"
        return str(manifest.get("judge"))

    def same_data(self, name: str) -> list[tuple[str, str]]:
        """Return title and name of the other runs on the data of a run; none for visitors."""
        digest = self.look(name).manifest.get("data")
        runs = [item.status for item in self.runs() if not item.error] if self.local else []
        others = [run for run in runs if run.name != name and run.judged and run.manifest.get("data") == digest]
        return [(f"{self.judge(run.name)} · {run.begun}", run.name) for run in others]

    def report(self, name: str) -> Json:
        """Return the agreement of the judgments so far with the labels, as `rh score --json` does."""
        return report_json(make_report((entry.example, entry.judgment) for entry in self.judged(name)))

    def file(self, name: str, ending: str) -> Path:
        """Return where an export is written."""
        return self._scratch / "batches" / name / f"results.{ending}"

    def sample(self) -> Path:
        """Return a small archive that can be judged, of generated pairs.

        Raises:
            MissingPackageError: If scikit-image is not installed.
        """
        path = self._scratch / "sample" / "sample-pairs.zip"
        with self._drawing:
            if not path.is_file():
                folder = path.parent / "pairs"
                make_demo(folder, pairs=SAMPLE, groups=0, seed=7)
                write_pairs(path, read_folder(folder).examples)
        return path

"""The tracking of one run: receives its results and events, and passes numbers on to its trackers."""

import logging
import math
import re
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rewardharness.errors import DataError, HarnessError
from rewardharness.files import read_json, write_json
from rewardharness.leaks import masked
from rewardharness.settings import Settings
from rewardharness.telemetry import without_file
from rewardharness.tracking.trackers import (
    Config,
    Numbers,
    Tracker,
    TrackerSpec,
    check_packages,
    parse_trackers,
)

_IDENTITY = frozenset(
    "command task task_protocol judge judge_name protocol judge_protocol judge_revision library_id release data "
    "orchestrator method".split()
)
"""Fields of a manifest whose text is tracked. `data` is a digest."""
_RENAMED = {"judge_name": "judge", "judge_protocol": "protocol"}
_CHOICES = ("protocol", "schedule", "parents", "operators", "objective", "groups", "method", "prompt_language")
"""Options of a job whose text is tracked: a choice from a fixed list."""
_ODD = re.compile(r"[^\w.+-]+")


def run_config(manifest: Mapping[str, Any], options: Any = None) -> Config:
    """Return what is tracked of the configuration of a run.

    Args:
        manifest: The manifest of the run.
        options: The configuration of its job, a dataclass; None for no further options.
    """
    config: dict[str, str | int | float | bool] = {}
    for field in fields(options) if is_dataclass(options) else ():
        value = getattr(options, field.name)
        if isinstance(value, bool | int | float) or (isinstance(value, str) and field.name in _CHOICES):
            config[field.name] = value
    for name, value in manifest.items():
        if isinstance(value, bool | int | float) or (isinstance(value, str) and name in _IDENTITY):
            config[_RENAMED.get(name, name)] = value
    if "judge" in config:
        config["judge"] = without_file(str(config["judge"]))
    return config


def score_numbers(report: Mapping[str, Any]) -> dict[str, float]:
    """Return the result of judging a dataset; `report` is as `report_json` writes it."""
    numbers = known_numbers({f"final/{name}": report[name] for name in ("n", "judged", "coverage")})
    numbers["final/failures"] = sum(report["failures"].values())
    for kind, accuracy in report["by_label_kind"].items():
        numbers |= share_numbers(f"final/{_word(kind or 'unnamed')}", accuracy, "accuracy")
    return numbers | share_numbers("final/groups", report["groups"], "best_accuracy")


def benchmark_numbers(result: Mapping[str, Any]) -> dict[str, float]:
    """Return the result of a benchmark: the rows of the judge, and of the same model without a Library."""
    numbers: dict[str, float] = {}
    for start, role in (("final", "judge"), ("without_library", "empty")):
        row = next((row for row in result["rows"] if row["role"] == role), None)
        if row is None:
            continue
        numbers |= known_numbers({f"{start}/coverage": row["coverage"], f"{start}/judged": row["judged"]})
        for number in reversed(row["numbers"]):  # of several with one name, the first counts
            parts = (number["part"], number["metric"], number["dimension"])
            numbers |= share_numbers("/".join((start, *(_word(word) for word in parts if word))), number, "value")
    return numbers


def spending_numbers(spent: Mapping[str, Any]) -> dict[str, float]:
    """Return what an evolution has spent, as `Spent.to_json` writes it."""
    both = (spent["judge"], spent["orchestrator"])
    return {
        "spent/judgments": spent["judgments"],
        "spent/seconds": spent["seconds"],
        "spent/requests": sum(usage["calls"] for usage in both),
        "spent/input_tokens": sum(usage["input_tokens"] for usage in both),
        "spent/output_tokens": sum(usage["output_tokens"] for usage in both),
    }


class ResultCount:
    """Counts the judgments of a run from its result lines."""

    def __init__(self, lines: Iterable[Mapping[str, Any]] = ()) -> None:
        self.done = self.failures = 0
        self._usage = dict.fromkeys(("calls", "input_tokens", "output_tokens"), 0)
        for line in lines:
            self.add(line)

    def add(self, line: Mapping[str, Any]) -> None:
        """Count one line."""
        self.done += 1
        self.failures += line.get("failure") is not None
        usage = line.get("usage") or {}
        for name in self._usage:
            self._usage[name] += int(usage.get(name) or 0)

    def numbers(self, per_second: float) -> Numbers:
        """Return the numbers so far."""
        return {
            "progress/judgments": self.done,
            "progress/failures": self.failures,
            "progress/coverage": (self.done - self.failures) / self.done if self.done else 0.0,
            "progress/per_second": per_second,
            "usage/requests": self._usage["calls"],
            "usage/input_tokens": self._usage["input_tokens"],
            "usage/output_tokens": self._usage["output_tokens"],
        }


def share_numbers(name: str, score: Mapping[str, Any], key: str) -> dict[str, float]:
    """Return a share with its numbers of examples and the bounds of its 95% CI; nothing if it is unknown."""
    if score[key] is None:
        return {}
    low, high = score["interval"] or (None, None)
    numbers = {"n": score["n"], "judged": score.get("judged"), "ci_low": low, "ci_high": high}
    return known_numbers({name: score[key], **{f"{name}/{part}": value for part, value in numbers.items()}})


def known_numbers(numbers: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers that are known."""
    return {name: value for name, value in numbers.items() if value is not None and math.isfinite(value)}


def _word(text: str) -> str:
    """Return a label as a part of a name."""
    return _ODD.sub("_", text)[:60]


log = logging.getLogger(__name__)

QUEUE = 1000
"""Records that wait for a tracker, at most; further ones are dropped."""
PATIENCE = 10.0
"""Seconds that the end of a run waits for its trackers."""


class Logger:
    """Passes records to a tracker in a thread.

    Args:
        name: Name of the tracker, for warnings.
        open_run: Opens the run in the tracker; called in the thread.
        size: Records that wait, at most.
    """

    def __init__(self, name: str, open_run: Callable[[], Tracker], *, size: int = QUEUE) -> None:
        self.name = name
        self._open = open_run
        self._size = size
        self._waiting: deque[tuple[Numbers, int]] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._warned = False
        self._put = self._sent = 0
        self._thread = threading.Thread(target=self._work, name=f"tracker {name}", daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        """Number of records that the tracker did not get so far."""
        return self._put - self._sent

    def put(self, numbers: Numbers, step: int) -> None:
        """Queue a record; it is dropped if the queue is full. Never waits for the tracker."""
        with self._changed:
            self._put += 1
            if len(self._waiting) < self._size:
                self._waiting.append((numbers, step))
                self._changed.notify()

    def end(self) -> None:
        """Have the tracker finish the run once it has all records. Does not wait."""
        with self._changed:
            self._closing = True
            self._changed.notify()

    def join(self, ends: float) -> None:
        """Wait for the tracker until a time of `time.monotonic`, and warn about records that it did not get."""
        self._thread.join(max(0.0, ends - time.monotonic()))
        if self._thread.is_alive():
            log.warning("%s did not finish in time; %d of %d records were dropped.", self.name, self.dropped, self._put)
        elif self.dropped:
            log.warning("%s: %d of %d records were dropped.", self.name, self.dropped, self._put)

    def _work(self) -> None:
        try:
            tracker = self._open()
        except Exception as error:
            self._warn("cannot be used", error)
            return
        while (record := self._next()) is not None:
            try:
                tracker.log(*record)
                self._sent += 1
            except Exception as error:
                self._warn("did not accept a record", error)
        try:
            tracker.finish()
        except Exception as error:
            self._warn("could not finish the run", error)

    def _next(self) -> tuple[Numbers, int] | None:
        """Wait for the next record; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            return self._waiting.popleft() if self._waiting else None

    def _warn(self, what: str, error: Exception) -> None:
        """Warn about the first error; the others only count as dropped records."""
        if not self._warned:
            self._warned = True
            reason = error.message if isinstance(error, HarnessError) else f"{type(error).__name__}: {error}"
            log.warning("%s %s (%s). The run continues.", self.name, what, masked(reason))


TRACKING = "tracking.json"
"""File of a run folder with the id of the run in trackers."""
PAUSE = 1.0
"""Seconds between two records of progress, at least."""


class RunTracking:
    """Passes the numbers of one run on to its trackers.

    Args:
        specs: The trackers; empty for none.
        folder: Folder for the files of trackers.
        clock: Monotonic time in seconds.
    """

    def __init__(
        self, specs: tuple[TrackerSpec, ...], folder: Path, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._specs, self._folder, self._clock = specs, folder, clock
        self._loggers: list[Logger] = []
        self._count = ResultCount()
        self._before = self._step = 0
        self._begun = self._logged = float("-inf")

    @property
    def active(self) -> bool:
        """Whether there is a tracker."""
        return bool(self._specs)

    @property
    def begun(self) -> bool:
        """Whether the run began."""
        return bool(self._loggers)

    def begin(
        self, run: Path, manifest: Mapping[str, Any], options: Any = None, known: Iterable[Mapping[str, Any]] = ()
    ) -> None:
        """Open the run in all trackers. The caller holds the lock of the run folder.

        Args:
            run: The run folder.
            manifest: Its manifest.
            options: The configuration of the job, a dataclass.
            known: Result lines of earlier sessions.
        """
        if not self._specs:
            return
        tracked = _run_id(run), run_config(manifest, options), self._folder
        self._count = ResultCount(known)
        self._before = self._step = self._count.done
        self._begun = self._clock()
        self._loggers = [Logger(spec.name, partial(spec.open, *tracked)) for spec in self._specs]

    def result(self, line: Mapping[str, Any]) -> None:
        """Count a result line, and log the progress from time to time. The step is the number of judgments."""
        if not self._loggers:
            return
        self._count.add(line)
        self._step = self._count.done
        if self._is_due():
            self._put(self._progress())

    def progress(self, numbers: Numbers) -> None:
        """Log numbers that change often, from time to time."""
        if self._loggers and self._is_due():
            self._put(numbers)

    def log(self, numbers: Numbers, step: int | None = None) -> None:
        """Log numbers.

        Args:
            numbers: The numbers by name.
            step: A step that does not decrease; None for the last one.
        """
        self._step = self._step if step is None else max(self._step, step)
        self._put(numbers)

    def finish(self, numbers: Numbers) -> None:
        """Log the last progress and the result of the run."""
        last = self._progress() if self._count.done else {}
        self.log({**last, **numbers})

    def close(self) -> None:
        """Finish the run in all trackers; wait for them up to `PATIENCE` in total."""
        ends = time.monotonic() + PATIENCE
        for logger in self._loggers:
            logger.end()
        for logger in self._loggers:
            logger.join(ends)

    def _put(self, numbers: Numbers) -> None:
        for logger in self._loggers:
            logger.put(numbers, self._step)

    def _is_due(self) -> bool:
        now = self._clock()
        if now - self._logged < PAUSE:
            return False
        self._logged = now
        return True

    def _progress(self) -> Numbers:
        seconds = self._clock() - self._begun
        return self._count.numbers((self._count.done - self._before) / seconds if seconds > 0 else 0.0)


@contextmanager
def track_run(track: str | Iterable[str] | None, settings: Settings) -> Iterator[RunTracking]:
    """Provide the tracking of one run, and close it at the end.

    Args:
        track: Trackers as `parse_trackers` reads them; None for those of the settings.
        settings: The settings.

    Raises:
        InputError: If a tracker is unknown.
        MissingPackageError: If its package is not installed.
    """
    specs = parse_trackers(settings.track if track is None else track)
    check_packages(specs)
    tracking = RunTracking(specs, settings.home)
    try:
        yield tracking
    finally:
        tracking.close()


def _run_id(folder: Path) -> str:
    """Return the id of a run in trackers, which its folder holds."""
    file = folder / TRACKING
    try:
        return str(read_json(file)["run"])
    except (OSError, DataError, KeyError, TypeError):
        made = f"{folder.resolve().name}-{secrets.token_hex(4)}"
        write_json(file, {"run": made})
        return made

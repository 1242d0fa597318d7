"""The benchmark job: opens a task and the judges in its table, judges, and writes the report."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rewardharness.benchmark.calibrating import calibrate_benchmark
from rewardharness.benchmark.config import BenchmarkConfig
from rewardharness.benchmark.entries import judge_opener, make_entries, open_entries
from rewardharness.benchmark.facts import write_for_library
from rewardharness.benchmark.items import BenchmarkData
from rewardharness.benchmark.loading import open_benchmark
from rewardharness.benchmark.report import build_report, markdown, write_report
from rewardharness.benchmark.result import BenchmarkResult, BenchmarkRow, read_result
from rewardharness.benchmark.run import (
    BenchmarkEntry,
    estimate,
    judge_benchmark,
    manifest,
    read_judgments,
)
from rewardharness.benchmark.task import Task, open_task
from rewardharness.benchmark.thresholds import DEVELOPMENT, fit_rules, write_rules
from rewardharness.codec import to_json
from rewardharness.data.opening import DEMO, FEEDBACK
from rewardharness.data.rows import Progress
from rewardharness.files import content_id, write_json
from rewardharness.judging.calibration import ConfidenceCalibration
from rewardharness.judging.config import MEASURED
from rewardharness.judging.interface import check_task
from rewardharness.judging.judge import Judge
from rewardharness.library.opening import open_library
from rewardharness.library.store import Library
from rewardharness.report_html import render_fragment
from rewardharness.runs.records import Recording, record_run
from rewardharness.runs.results import Results
from rewardharness.runs.spending import UNLIMITED, Cost, SpendingLimits, ledger_usage
from rewardharness.runs.stop import StopRequest
from rewardharness.runs.store import RunFolder, results_of
from rewardharness.schema import Json, Usage
from rewardharness.settings import Settings
from rewardharness.task import common_task
from rewardharness.tracking.numbers import benchmark_numbers
from rewardharness.tracking.run import RunTracking, track_run
from rewardharness.views import data_frame


@dataclass(frozen=True)
class BenchmarkReport:
    """Result of a benchmark; its text is the report in Markdown."""

    result: BenchmarkResult = field(repr=False)
    """The content of `report.json`: task, protocol, rows with n, coverage, numbers and intervals."""
    folder: Path
    """The run folder, with the report as JSON, Markdown and HTML."""
    files: tuple[Path, ...] = ()
    """The files of the report."""
    calibration: ConfidenceCalibration | None = None
    """The calibration that was fitted on the labels, if one was requested."""

    @property
    def rows(self) -> tuple[BenchmarkRow, ...]:
        """The rows of the table, the judge first."""
        return self.result.rows

    def to_pandas(self) -> Any:
        """Return the rows as a `pandas.DataFrame`.

        Raises:
            MissingPackageError: If pandas is not installed.
        """
        return data_frame(to_json(self.rows))

    def _repr_html_(self) -> str:
        page = build_report(self.result)
        return render_fragment(page.title, *(block for section in page.sections for block in section.blocks))

    def __str__(self) -> str:
        return markdown(self.result)


@dataclass(frozen=True)
class BenchmarkJob:
    """A benchmark that is ready to run.

    Raises:
        InputError: If a judge or its Library is for another task.
    """

    data: BenchmarkData
    entries: tuple[BenchmarkEntry, ...]
    """The rows of the table, the judge first."""
    settings: Settings
    config: BenchmarkConfig | None = None
    """The configuration that it was opened from; None for one of Python objects."""
    development: BenchmarkData | None = None
    """Data on which tie thresholds are fitted."""
    chosen_folder: Path | None = None
    """The run folder, if it was chosen."""

    def __post_init__(self) -> None:
        task = common_task(item.example for item in self.data.items.values())
        for entry in self.entries:
            check_task(task, entry.open(False), entry.library)

    @cached_property
    def manifest(self) -> Json:
        """The manifest of the run."""
        return manifest(self.data, self.entries[0])

    @cached_property
    def folder(self) -> Path:
        """The run folder; it may hold a run that is resumed."""
        return self.chosen_folder or self.settings.home / "runs" / f"benchmark-{content_id(self.manifest)[:12]}"

    @cached_property
    def limits(self) -> SpendingLimits:
        """The budget of the run, with prices."""
        return UNLIMITED if self.config is None else self.config.make_limits(self.settings)

    def cost(self, *, restart: bool = False, retry_failed: bool = False) -> Cost:
        """Return the expected cost of what the run folder does not hold yet."""
        places = [(self.data, self.folder), (self.development, self.folder / DEVELOPMENT)]
        costs = [
            estimate(data, self.entries, Results() if restart else results_of(folder), retry_failed=retry_failed)
            for data, folder in places
            if data is not None
        ]
        return sum(costs, Cost())

    def preview(self, *, restart: bool = False) -> Json:
        """Return what the run is about and its cost estimate."""
        cost = self.cost(restart=restart)
        return {
            **{name: value for name, value in to_json(self.data.record).items() if name != "questions"},
            "counting": Counter(question.part for question in self.data.questions if question.counts),
            "contenders": to_json([entry.record for entry in self.entries]),
            **cost.to_json(self.limits),
            "folder": str(self.folder),
        }

    def run(
        self,
        stop: StopRequest | None = None,
        progress: Progress | None = None,
        *,
        restart: bool = False,
        retry_failed: bool = False,
        concurrency: int | None = None,
        arguments: Mapping[str, Any] | None = None,
        track: str | Iterable[str] | None = None,
    ) -> BenchmarkReport:
        """Judge what the run folder does not hold yet, fit tie thresholds, and write the report.

        Args:
            stop: Ends the run when asked; None to look only at the stop file of the run folder.
            progress: Called after each judgment.
            restart: Start over; an earlier run in the folder is renamed.
            retry_failed: Judge again all that failed before, not only what the model was the cause of.
            concurrency: Examples that are judged at the same time; None for that of the configuration or judge.
            arguments: Arguments of the command, for the record of the run; None to write no record.
            track: Trackers that the run is logged to; None for those of the settings.

        Raises:
            InputError: If a tracker is unknown.
            MissingPackageError: If the package of a tracker is not installed.
            RunError: If the folder holds another run.
            LibraryError: If the results cannot be written into the Library folder of the configuration.
            RunPaused: If a model cannot be asked. The same call resumes the run.
            Stopped: If a stop was requested or the budget is spent. The same call resumes the run.
        """
        stop = stop or StopRequest()
        record = None if arguments is None else self._record(arguments)
        with track_run(track, self.settings) as tracking:
            self._judge_all(tracking, stop, progress, restart, retry_failed, concurrency, record)
            result = read_result(self.folder)
            if tracking.active:
                tracking.finish(benchmark_numbers(to_json(result)))
        files = write_report(self.folder, result)
        if self.config is not None and self.config.for_library is not None:
            files.append(write_for_library(self.config.for_library, result))
        made = self._calibrate(files)
        return BenchmarkReport(result, self.folder, tuple(files), made)

    def _judge_all(
        self,
        tracking: RunTracking,
        stop: StopRequest,
        progress: Progress | None,
        restart: bool,
        retry_failed: bool,
        concurrency: int | None,
        record: Recording | None,
    ) -> None:
        """Judge what the run folders do not hold yet, and fit tie thresholds."""
        at_once = concurrency or (self.config.concurrency if self.config is not None else None) or 0

        def judge(data: BenchmarkData, folder: Path, label: str, record: Recording | None = None) -> None:
            about, main = manifest(data, self.entries[0]), folder == self.folder
            count, asked = tracking.result, stop if main else None
            with RunFolder(folder, about, restart=restart, record=record, on_result=count, stop=asked) as run:
                if main:
                    tracking.begin(folder, self._tracked(about), self.config, run.results().values())
                options = {"progress": progress, "stop": stop, "limits": self.limits, "retry_failed": retry_failed}
                spent = Usage() if main else ledger_usage(results_of(self.folder).values())
                judge_benchmark(run, data, self.entries, label=label, concurrency=at_once, spent=spent, **options)

        judge(self.data, self.folder, "judging", record)
        if self.development is not None:
            judge(self.development, self.folder / DEVELOPMENT, "judging development data")
            judgments = read_judgments(self.folder / DEVELOPMENT)
            write_rules(self.folder, *fit_rules(self.data, self.development, self.entries, judgments))

    def _tracked(self, about: Json) -> Json:
        """Return the manifest for trackers: a task that is made from data of the user bears the name of its folder."""
        own = bool(self.data.task.data.examples) and self.data.task.data.examples not in (DEMO, FEEDBACK)
        return {**about, "task": "own data"} if own else about

    def _calibrate(self, files: list[Path]) -> ConfidenceCalibration | None:
        """Fit the calibration that the configuration requests, and write its file."""
        if self.config is None or self.config.calibrate is None:
            return None
        first = self.entries[0]
        made = calibrate_benchmark(self.data, read_judgments(self.folder).get(first.key, {}), first.identity)
        write_json(self.config.calibrate, made.to_json())
        files.append(self.config.calibrate)
        return made

    def _record(self, arguments: Mapping[str, Any]) -> Recording:
        return record_run(arguments, self.settings, config=self.config, skipped_rows=self.data.skipped)


def open_job(
    config: BenchmarkConfig, settings: Settings, *, folder: Path | None = None, progress: Progress | None = None
) -> BenchmarkJob:
    """Open the data, judges and Library of a configuration.

    Args:
        config: The configuration.
        settings: Keys, and the default judge and Library.
        folder: The run folder; None for one below `RH_HOME/runs` that follows from the configuration.
        progress: Called while data are read.

    Raises:
        InputError: If there is no such task, protocol or judge, or a key is missing.
        DataError: If the data cannot be read.
        LibraryError: If the Library cannot be opened.
        ReleaseError: If the release was changed, or this version cannot reproduce it.
    """
    config = config.with_defaults(settings)
    task = _task(config.task, config)
    data = open_benchmark(
        task,
        settings,
        protocol=config.task_protocol,
        source=config.source,
        revision=config.revision,
        limit=config.limit,
        seed=config.seed,
        progress=progress,
    )
    development = None
    if config.development:
        task = _task(config.development, config)
        protocol = data.protocol if data.protocol in task.protocols else None
        development = open_benchmark(task, settings, protocol=protocol, progress=progress)
    return BenchmarkJob(data, tuple(open_entries(config, settings)), settings, config, development, folder)


def _task(spec: str, config: BenchmarkConfig) -> Task:
    task = open_task(spec)
    skip = config.skip_bad_rows and task.data.examples
    return replace(task, data=replace(task.data, skip_bad_rows=True)) if skip else task


def benchmark(  # noqa: PLR0913  (one argument per choice, as on the command line)
    task: Path | str,
    *,
    judge: Judge | str = MEASURED,
    library: Library | Path | str | None = None,
    baselines: Sequence[Judge | str] = (),
    without_library: bool = True,
    protocol: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    source: Path | str | None = None,
    concurrency: int | None = None,
    folder: Path | str | None = None,
    restart: bool = False,
    retry_failed: bool = False,
    track: str | Sequence[str] | None = None,
) -> BenchmarkReport:
    """Judge a benchmark and compare with its human labels, next to the same model without a Library.

    The run is resumable: the same call judges only what is missing.

    Args:
        task: A task such as `genai-bench` (see `rh benchmark list`), a task file, or labeled data: a folder, a table or
            a dataset on the Hub.
        judge: The judge, or its name. Ties are among its answers where the labels have ties.
        library: The Library, as `Judge.score` accepts it.
        baselines: Further judges in the table, such as `"random"` and `"closer"`.
        without_library: Whether the same model without a Library is in the table.
        protocol: One of the task's protocols; None for its first.
        limit: Size of a stratified sample in pairs or groups, of attacks in edits; None for all.
        seed: Seed of the sample.
        source: A local copy of the data.
        concurrency: Examples that are judged side by side; None for what suits each judge.
        folder: The run folder; None for one below `RH_HOME/runs` that follows from the run.
        restart: Judge everything again; previous results are kept aside.
        retry_failed: Judge again all that failed before, not only what the model was the cause of.
        track: Trackers that the run is logged to, such as `"trackio:my-project"`; None for `RH_TRACK`.

    Raises:
        InputError: If there is no such task, protocol, judge or tracker.
        DataError: If the data cannot be read.
        RunError: If the folder holds another run.
    """
    settings = Settings.from_env()
    copy = Path(source) if source is not None else None
    data = open_benchmark(open_task(str(task)), settings, protocol=protocol, source=copy, limit=limit, seed=seed)
    opened = open_library(settings.library if library is None else library)
    named = opened.name or opened.id[:12] if library is None or isinstance(library, Library) else str(library)
    openers = [judge_opener(entry, settings) for entry in (judge, *baselines)]
    entries = make_entries(openers, opened, named, without_library=without_library)
    job = BenchmarkJob(data, tuple(entries), settings, chosen_folder=Path(folder) if folder is not None else None)
    return job.run(restart=restart, retry_failed=retry_failed, concurrency=concurrency, track=track)

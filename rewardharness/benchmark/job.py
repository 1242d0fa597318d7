"""The benchmark job: opens a task and the judges in its table, judges, and writes the report."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

from rewardharness.benchmark.calibration import calibrate_benchmark
from rewardharness.benchmark.config import BenchmarkConfig
from rewardharness.benchmark.figures import write_for_library
from rewardharness.benchmark.items import BenchmarkData
from rewardharness.benchmark.loading import open_benchmark
from rewardharness.benchmark.report import build_report, markdown, write_report
from rewardharness.benchmark.result import BenchmarkResult, BenchmarkRow, read_result
from rewardharness.benchmark.run import COMMAND, BenchmarkEntry, batches, manifest, read_judgments, write_about
from rewardharness.benchmark.task import Task, open_task
from rewardharness.benchmark.thresholds import DEVELOPMENT, fit_rules, write_rules
from rewardharness.codec import to_json
from rewardharness.data.opening import ATTACKS, OWN
from rewardharness.errors import InputError
from rewardharness.files import write_json
from rewardharness.judging.batches import JUDGING, Batch, JudgingJob
from rewardharness.judging.calibration import ConfidenceCalibration
from rewardharness.judging.config import MEASURED, ReleaseConfig, model_options
from rewardharness.judging.evaluate import Executor
from rewardharness.judging.interface import check_task
from rewardharness.judging.judge import Judge
from rewardharness.judging.opening import is_model, open_judge, open_release, pinned_release
from rewardharness.judging.release import Release
from rewardharness.library.opening import open_library
from rewardharness.library.store import EMPTY, Library
from rewardharness.report_html import render_fragment
from rewardharness.runs.job import Progress, Session
from rewardharness.runs.results import Results
from rewardharness.runs.spending import Cost, ledger_usage
from rewardharness.runs.store import RunFolder, results_of
from rewardharness.schema import Json, Usage
from rewardharness.settings import Settings
from rewardharness.task import common_task
from rewardharness.tracking.run import RunTracking, benchmark_numbers
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
class BenchmarkJob(JudgingJob[BenchmarkReport]):
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
    attacks: BenchmarkData | None = None
    """Exploits, for their rate beside the accuracy."""
    chosen_folder: Path | None = None
    concurrency: int = 0
    """Examples that are judged at the same time; 0 for what suits each judge."""
    label: str = JUDGING
    """What is being done, for progress."""

    name: ClassVar[str] = COMMAND

    def __post_init__(self) -> None:
        task = common_task(item.example for item in self.data.items.values())
        for entry in self.entries:
            check_task(task, entry.open(False), entry.library)

    @classmethod
    def open(
        cls,
        config: BenchmarkConfig,
        settings: Settings,
        *,
        folder: Path | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """See `Job.open`."""
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
        entries, attacks = tuple(open_entries(config, settings)), _attacks(data, config.attacks, config.seed, settings)
        return cls(data, entries, settings, config, development, attacks, folder, config.concurrency or 0)

    @cached_property
    def manifest(self) -> Json:
        """The manifest of the run."""
        return manifest(self.data, self.entries[0])

    @property
    def tracked(self) -> Json:
        """The manifest for trackers: a task that is made from data of the user bears the name of its folder."""
        own = bool(self.data.task.data.examples) and self.data.task.data.examples not in OWN
        return {**self.manifest, "task": "own data"} if own else self.manifest

    @property
    def resolved(self) -> Json:
        """The skipped rows."""
        return {"skipped_rows": self.data.skipped}

    @property
    def batches(self) -> list[Batch]:
        """The items of each entry."""
        return batches(self.data, self.entries, self.label, self.concurrency)

    @cached_property
    def fitting(self) -> "BenchmarkJob | None":
        """The judging of the data on which tie thresholds are fitted."""
        return None if self.development is None else self._inner(self.development, DEVELOPMENT)

    @cached_property
    def attacking(self) -> "BenchmarkJob | None":
        """The judging of exploits."""
        return None if self.attacks is None else self._inner(self.attacks, ATTACKS)

    def _inner(self, data: BenchmarkData, name: str) -> "BenchmarkJob":
        """Return the judging of further data in a folder of the run."""
        folder, label = self.folder / name, f"judging {name}"
        return replace(self, data=data, development=None, attacks=None, chosen_folder=folder, label=label)

    def cost(self, *, restart: bool = False, retry_failed: bool = False) -> Cost:
        """Return the expected cost of what the run folder does not hold yet."""
        own = super().cost(restart=restart, retry_failed=retry_failed)
        inner = filter(None, (self.fitting, self.attacking))
        return sum((job.cost(restart=restart, retry_failed=retry_failed) for job in inner), own)

    def preview(self, *, restart: bool = False, retry_failed: bool = False) -> Json:
        """See `Job.preview`."""
        return {
            **{name: value for name, value in to_json(self.data.record).items() if name != "questions"},
            "counting": Counter(question.part for question in self.data.questions if question.counts),
            "contenders": to_json([entry.record for entry in self.entries]),
            **self.cost(restart=restart, retry_failed=retry_failed).priced(self.limits),
            "folder": str(self.folder),
        }

    def prepare(self, run: RunFolder) -> None:
        """Write the items and the entries."""
        write_about(run.path, self.data, self.entries)

    def judge_all(
        self, session: Session, executor: Executor | None, tracking: RunTracking, spent: Usage | None = None
    ) -> Results:
        """See `JudgingJob.judge_all`; then judge exploits, and fit tie thresholds."""
        results = super().judge_all(session, executor, tracking, spent)
        used = ledger_usage(results_of(self.folder).values())
        if self.attacking is not None:
            used += ledger_usage(self.attacking.judge_all(session, executor, tracking, used).values())
        if self.fitting is not None:
            self.fitting.judge_all(session, executor, tracking, used)
            judgments = read_judgments(self.fitting.folder)
            write_rules(self.folder, *fit_rules(self.data, self.fitting.data, self.entries, judgments))
        return results

    def conclude(self, results: Results) -> BenchmarkReport:
        """Write the report, the results for a Library, and a calibration.

        Raises:
            LibraryError: If the results cannot be written into the Library folder of the configuration.
        """
        result, config, made = read_result(self.folder), self.config, None
        files = write_report(self.folder, result)
        if config is not None and config.for_library is not None:
            files.append(write_for_library(config.for_library, result))
        if config is not None and config.calibrate is not None:
            first = self.entries[0]
            made = calibrate_benchmark(self.data, read_judgments(self.folder).get(first.key, {}), first.identity)
            write_json(config.calibrate, made.to_json())
            files.append(config.calibrate)
        return BenchmarkReport(result, self.folder, tuple(files), made)

    def numbers(self, result: BenchmarkReport) -> dict[str, float]:
        """Return the numbers of the judge, and of the same model without a Library."""
        return benchmark_numbers(to_json(result.result))


def _task(spec: str, config: BenchmarkConfig) -> Task:
    task = open_task(spec)
    skip = config.skip_bad_rows and task.data.examples
    return replace(task, data=replace(task.data, skip_bad_rows=True)) if skip else task


def _attacks(data: BenchmarkData, limit: int | None, seed: int, settings: Settings) -> BenchmarkData | None:
    """Open attacks on generated edits; None without a number of edits."""
    if limit is None:
        return None
    if data.task.name == ATTACKS or data.task.scores:
        raise InputError(f"{data.task.name} has no accuracy to show exploits beside.", next_step="Leave out --attacks.")
    return open_benchmark(open_task(ATTACKS), settings, limit=limit, seed=seed)


def benchmark(  # noqa: PLR0913  (one argument per choice, as on the command line)
    task: Path | str,
    *,
    judge: Judge | str = MEASURED,
    library: Library | Path | str | None = None,
    baselines: Sequence[Judge | str] = (),
    without_library: bool = True,
    transfer: bool = False,
    protocol: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    attacks: int | None = None,
    source: Path | str | None = None,
    concurrency: int | None = None,
    folder: Path | str | None = None,
    restart: bool = False,
    retry_failed: bool = False,
    track: str | Sequence[str] | None = None,
    executor: Executor | None = None,
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
        transfer: Whether the baselines that read a Library are there without it, too, for the gain of each.
        protocol: One of the task's protocols; None for its first.
        limit: Size of a stratified sample in pairs or groups, of attacks in edits; None for all.
        seed: Seed of the sample.
        attacks: Number of generated edits that are judged against all exploits, too; None for none.
        source: A local copy of the data.
        concurrency: Examples that are judged side by side; None for what suits each judge.
        folder: The run folder; None for one below `RH_HOME/runs` that follows from the run.
        restart: Judge everything again; previous results are kept aside.
        retry_failed: Judge again all that failed before, not only what the model was the cause of.
        track: Trackers that the run is logged to, such as `"trackio:my-project"`; None for `RH_TRACK`.
        executor: What judges, such as a `RayExecutor`; None for this process.

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
    entries = make_entries(openers, opened, named, without_library=without_library, transfer=transfer)
    place = Path(folder) if folder is not None else None
    exploits = _attacks(data, attacks, seed, settings)
    many = concurrency or 0
    job = BenchmarkJob(data, tuple(entries), settings, attacks=exploits, chosen_folder=place, concurrency=many)
    return job.run(Session(restart=restart, retry_failed=retry_failed, track=track), executor)


NO_LIBRARY = "no Library"
"""Library name of an entry without one."""


def make_entries(
    judges: Sequence[Callable[[bool], Judge]],
    library: Library,
    library_name: str,
    *,
    without_library: bool = True,
    transfer: bool = False,
    head: Sequence[BenchmarkEntry] = (),
    evolved_on: frozenset[str] = frozenset(),
) -> list[BenchmarkEntry]:
    """Make the rows of a table; none twice.

    Args:
        judges: Functions that open the judges, told whether ties are among the labels. The first is the one that the
            run is about, unless `head` has rows; the others are baselines.
        library: The Library of all judges that read one.
        library_name: Its name in the table.
        without_library: Whether the first judge is also there without a Library. The pixel-based judge, which judges
            nothing without one, is not.
        transfer: Whether so are the other judges that read a Library.
        head: Rows that come first, such as those of a release.
        evolved_on: Digests of the data that the Library of a release was evolved on.
    """
    entries = list(head)
    for judge in judges:
        first, traits = not entries, judge(False).traits
        read = (library, library_name) if traits.uses_library else (EMPTY, NO_LIBRARY)
        evolved = evolved_on if traits.uses_library else frozenset()
        entries.append(BenchmarkEntry("judge" if first else "baseline", *read, judge, release_data=evolved))
        if (first or transfer) and without_library and traits.uses_library and traits.uses_model:
            entries.append(BenchmarkEntry("empty", EMPTY, NO_LIBRARY, judge))
    keys = [entry.key for entry in entries]
    return [entry for place, entry in enumerate(entries) if entry.key not in keys[:place]]


def open_entries(config: BenchmarkConfig, settings: Settings) -> list[BenchmarkEntry]:
    """Open the rows of the table of a configuration, the judge first."""
    first = config.for_judge(config.judge)
    release, bare = pinned_release(first, settings), not config.no_baseline
    judges = [_baseline(config, judge) for judge in config.baseline_judges]
    if release is None:
        head, judges = [], [str(config.judge), *judges]
        library, name = config.open_library(settings), config.library or settings.library
    else:
        head, library = _release_entries(first, release, settings, bare=bare), release.library
        name = f"the Library of {head[0].library_name}"
    openers = [_config_opener(config, judge, settings, release) for judge in judges]
    evolved_on = release.evolved_on if release is not None else frozenset()
    bare_rows: dict[str, bool] = {"without_library": bare, "transfer": config.transfer}
    return make_entries(openers, library, name, **bare_rows, head=head, evolved_on=evolved_on)


def _baseline(config: BenchmarkConfig, judge: str) -> str:
    """Return a further judge; one that starts with `+` extends the judge of the run."""
    if judge.startswith("+"):
        if config.judge is None:
            raise InputError(f"{judge!r} extends --judge, and there is none.", next_step="Give --judge.")
        judge = f"{config.judge}{judge}"
    return judge


def _release_entries(
    config: ReleaseConfig, release: Release, settings: Settings, *, bare: bool
) -> list[BenchmarkEntry]:
    """Return the rows of a release: itself, and its model with its settings and without a Library."""

    def judge(ties: bool) -> Judge:
        return open_release(release, settings, config)

    name, ties = f"release {release.id[:12]}", bool(release.settings["ties"])
    rows = [BenchmarkEntry("judge", release.library, name, judge, release.id, ties, release.evolved_on)]
    if release.library.id != EMPTY.id and bare and judge(ties).traits.uses_model:
        without = f"{NO_LIBRARY} (judge and settings of {name}, not the release)"
        rows.append(BenchmarkEntry("empty", EMPTY, without, judge, release.id, ties))
    return rows


def _config_opener(
    config: BenchmarkConfig, spec: str, settings: Settings, release: Release | None
) -> Callable[[bool], Judge]:
    """Return a function that opens a judge. `logprob` has no ties. With a release, models use its settings."""
    own = (config if spec == config.judge or is_model(spec) else replace(config, evidence=None)).for_judge(spec)
    pinned = release.model if release is not None else None
    model = own.model if pinned is None else replace(pinned, **model_options(spec))
    router = config.router
    if release is not None and release.router is not None:  # a URL alone is the endpoint of the release's router
        at_url = router is not None and router.startswith(("http://", "https://"))
        router = f"{release.router}@{router}" if at_url else router or release.router

    def open_with(ties: bool) -> Judge:
        ties = ties and model.protocol != "logprob"
        return open_judge(replace(own, router=router), settings, model=model, ties=ties)

    return open_with


def judge_opener(judge: Judge | str, settings: Settings) -> Callable[[bool], Judge]:
    """Return a function that opens a judge, told whether ties are among the labels."""
    if isinstance(judge, str):
        return lambda ties: open_judge(judge, settings, ties=ties)
    return judge.with_ties

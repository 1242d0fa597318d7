"""`rh benchmark`: judge a task with labels that others made. Looking at tasks and reports is in `benchmark_reports`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from rewardharness.benchmark.config import BenchmarkConfig
from rewardharness.cli import output
from rewardharness.cli.benchmark_reports import compare, list_tasks, print_result, ratings, report, show, votes
from rewardharness.cli.command import make_app
from rewardharness.cli.examples import Bars, note_same_name
from rewardharness.cli.options import NO_OPTIONS, RunOptions
from rewardharness.cli.output import NOT_JUDGED
from rewardharness.cli.remote import judging_on, run_remotely
from rewardharness.cli.reproduce import reproduce
from rewardharness.cli.work import run_job, session_options
from rewardharness.errors import DataError
from rewardharness.judging.config import JudgeConfig
from rewardharness.remote.config import ON_THIS_COMPUTER, RemoteConfig
from rewardharness.runs.spending import BudgetConfig
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.benchmark.job import BenchmarkJob, BenchmarkReport
    from rewardharness.benchmark.result import BenchmarkRow
    from rewardharness.schema import Json

app = make_app(
    "benchmark",
    "Judge a benchmark and measure agreement with people. The word `run` may be omitted.",
    {"Judge": JudgeConfig, "Budget": BudgetConfig, "Run": (RunOptions, RemoteConfig)},
    job="benchmark",
)
for command in (list_tasks, show, report, compare, votes, ratings, reproduce):
    app.command(command, name="list" if command is list_tasks else None)


@app.command(name="run")
def run_task(
    config: Annotated[BenchmarkConfig, Parameter(name="*")],
    *,
    options: RunOptions = NO_OPTIONS,
    where: Annotated[RemoteConfig, Parameter(name="*")] = ON_THIS_COMPUTER,
) -> int:
    """Judge a task and measure agreement with its human labels, with n, coverage and intervals.

    Prints the cost first. The same command resumes an interrupted run. The table also has the same model without a
    Library, and further judges on request.

    Example: `rh benchmark genai-bench --limit 100 --baselines random,closer`
    """
    settings = Settings.from_env()
    if where.is_remote:
        return run_remotely(config, options, where, settings)
    with judging_on(where, options):
        return run(config, options, settings)


def run(config: BenchmarkConfig, options: RunOptions, settings: Settings) -> int:
    """Run a benchmark and print its report. Returns the exit status."""
    config = config.with_defaults(settings)
    job = open_job(config, options, settings)
    if not options.quiet or options.dry_run:
        _print_entries(job)

    def show(report: "BenchmarkReport") -> int:
        print_result(report.result, report.folder, as_json=options.json)
        if not options.json:
            output.say("Reports: " + ", ".join(str(path) for path in report.files))
            if report.calibration is not None:
                output.say(report.calibration.words)
        first = report.rows[0]
        if first.judged == first.items:
            return 0
        if not options.json:
            _print_failure(job, first)
        return NOT_JUDGED

    return run_job(
        job,
        options,
        lambda stop, progress: job.run(stop, progress, **session_options(config, options)),
        show,
        lambda: job.preview(restart=options.restart),
        strict=True,
    )


def open_job(config: BenchmarkConfig, options: RunOptions, settings: Settings) -> "BenchmarkJob":
    """Open everything that a run needs, with progress bars and warnings."""
    from rewardharness.benchmark.job import open_job
    from rewardharness.benchmark.task import open_task

    for spec in filter(None, (config.task, config.development)):
        note_same_name(spec)
        hub = open_task(spec).data.hub
        if hub and not config.source and not options.quiet:
            output.note(f"Reading {hub} from the Hub; --source names a local copy.")
    with Bars(options.quiet) as bars, _without_field_option():
        job = open_job(config, settings, folder=options.run_folder, progress=bars.show)
    if config.skip_bad_rows and not job.data.task.data.examples:
        output.note(f"{job.data.task.name} always skips rows that cannot be used; --skip-bad-rows has no effect.")
    for data in filter(None, (job.data, job.development)):
        for problem in data.problems:
            part = f"{problem.part}: " if problem.part else ""
            consequence = f" ({problem.n}; {problem.consequence})" if problem.consequence else ""
            output.note(f"{part}{problem.code}: {problem.message}{consequence}")
    return job


def manifest_of(config: BenchmarkConfig, options: RunOptions, settings: Settings) -> "Json":
    """Return the manifest that a run would have, without judging anything."""
    return open_job(config, options, settings).manifest


def _print_failure(job: "BenchmarkJob", row: "BenchmarkRow") -> None:
    """Print why the first of the examples that failed has no judgment, and what to do about it."""
    from rewardharness.benchmark.run import read_judgments
    from rewardharness.judging.report import BAD_ROW

    if set(row.failures) == {BAD_ROW}:
        return
    for item, judgment in read_judgments(job.folder).get(row.key, {}).items():
        if judgment.failure is not None:
            output.say(f"Not judged, such as {item}: {judgment.failure.code}: {judgment.failure.message}")
            break
    output.say("The same command judges again what the model was the cause of; with --retry-failed, all that failed.")


@contextmanager
def _without_field_option() -> Iterator[None]:
    """Replace the hint at --field, which is an option of other commands, in an error."""
    try:
        yield
    except DataError as error:
        if "--field" not in error.next_step:
            raise
        task = "Name columns and labels in a task file, see docs/reference/benchmarks.md."
        step = f"{task} With rh score: {error.next_step}"
        raise DataError(error.message, next_step=step) from None


def _print_entries(job: "BenchmarkJob") -> None:
    """Print what will be judged."""
    data, entries = job.data, job.entries
    drawn = f", a sample of {data.sampled[0]} of {data.sampled[1]} pairs or groups" if data.sampled else ""
    output.note(f"{data.task.title}: {len(data.items)} examples, protocol {data.protocol}{drawn}; {data.revision}.")
    names = "; ".join(f"{entry.record.judge_label} with {entry.library_name}" for entry in entries)
    output.note(f"Benchmark entries ({len(entries)}): {names}.")
    output.note(f"Run folder: {job.folder}")

"""`rh benchmark`: judge a task with labels that others made. Looking at tasks and reports is in `benchmark_reports`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from rewardharness.benchmark.config import BenchmarkConfig
from rewardharness.cli import output
from rewardharness.cli.benchmark_reports import (
    compare,
    leaderboard,
    list_tasks,
    print_result,
    publish,
    ratings,
    report,
    show,
    votes,
)
from rewardharness.cli.command import make_app
from rewardharness.cli.options import NO_OPTIONS, RunOptions
from rewardharness.cli.output import NOT_JUDGED
from rewardharness.cli.reproduce import reproduce
from rewardharness.cli.run import View, note_same_name, run_job, run_remotely
from rewardharness.errors import DataError
from rewardharness.jobs import open_job
from rewardharness.judging.config import JudgeConfig
from rewardharness.remote.config import ON_THIS_COMPUTER, RemoteConfig
from rewardharness.runs.job import Progress
from rewardharness.runs.spending import BudgetConfig
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.benchmark.job import BenchmarkJob, BenchmarkReport
    from rewardharness.benchmark.result import BenchmarkRow

app = make_app(
    "benchmark",
    "Judge a benchmark and measure agreement with people. The word `run` may be omitted.",
    {"Judge": JudgeConfig, "Budget": BudgetConfig, "Run": (RunOptions, RemoteConfig)},
    job="benchmark",
)
for command in (list_tasks, show, report, compare, publish, leaderboard, votes, ratings, reproduce):
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
        return run_remotely(config, options, where, settings, VIEW)
    return run_job(config, options, settings, VIEW, where)


class BenchmarkView(View):
    """What `rh benchmark` says."""

    strict = True

    def open(self, config: BenchmarkConfig, options: RunOptions, settings: Settings, progress: Progress) -> Any:
        """Open the benchmark."""
        from rewardharness.benchmark.task import open_task

        for spec in filter(None, (config.task, config.development)):
            note_same_name(spec)
            hub = open_task(spec).data.hub
            if hub and not config.source and not options.quiet:
                output.note(f"Reading {hub} from the Hub; --source names a local copy.")
        try:
            return open_job(config, settings, folder=options.run_folder, progress=progress)
        except DataError as error:
            if "--field" not in error.next_step:  # an option of other commands
                raise
            task = "Name columns and labels in a task file, see docs/reference/benchmarks.md."
            step = f"{task} With rh score: {error.next_step}"
            raise DataError(error.message, next_step=step) from None

    def opened(self, job: "BenchmarkJob", options: RunOptions) -> None:
        """Print the problems of the data."""
        if job.config is not None and job.config.skip_bad_rows and not job.data.task.data.examples:
            output.note(f"{job.data.task.name} always skips rows that cannot be used; --skip-bad-rows has no effect.")
        for data in filter(None, (job.data, job.development)):
            for problem in data.problems:
                part = f"{problem.part}: " if problem.part else ""
                consequence = f" ({problem.n}; {problem.consequence})" if problem.consequence else ""
                output.note(f"{part}{problem.code}: {problem.message}{consequence}")

    def begin(self, job: "BenchmarkJob", options: RunOptions) -> None:
        """Print what will be judged."""
        if options.quiet and not options.dry_run:
            return
        data, entries = job.data, job.entries
        drawn = f", a sample of {data.sampled[0]} of {data.sampled[1]} pairs or groups" if data.sampled else ""
        output.note(f"{data.task.title}: {len(data.items)} examples, protocol {data.protocol}{drawn}; {data.revision}.")
        names = "; ".join(f"{entry.record.judge_label} with {entry.library_name}" for entry in entries)
        output.note(f"Benchmark entries ({len(entries)}): {names}.")
        output.note(f"Run folder: {job.folder}")

    def show(self, job: "BenchmarkJob", result: "BenchmarkReport", options: RunOptions) -> int:
        """Print the report."""
        print_result(result.result, result.folder, as_json=options.json)
        if not options.json:
            output.say("Reports: " + ", ".join(str(path) for path in result.files))
            if result.calibration is not None:
                output.say(result.calibration.words)
        first = result.rows[0]
        if first.judged == first.items:
            return 0
        if not options.json:
            _print_failure(job, first)
        return NOT_JUDGED

    def show_folder(self, folder: Path, options: RunOptions) -> None:
        """Print the report of a job on the Hub."""
        from rewardharness.benchmark.result import read_result

        print_result(read_result(folder), folder, as_json=options.json)


VIEW = BenchmarkView()


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

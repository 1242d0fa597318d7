"""`rh benchmark`: judge a task with labels that others made; show tasks, reports and comparisons."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from rewardharness.benchmark.config import BenchmarkConfig
from rewardharness.cli import output
from rewardharness.cli.command import make_app
from rewardharness.cli.output import NOT_JUDGED
from rewardharness.cli.report import print_report, print_section
from rewardharness.cli.reproduce import reproduce
from rewardharness.cli.run import NO_OPTIONS, RunOptions, View, note_same_name, run_job
from rewardharness.codec import to_json
from rewardharness.errors import DataError, InputError
from rewardharness.jobs import open_job
from rewardharness.judging.config import JudgeConfig
from rewardharness.remote.config import ON_THIS_COMPUTER, RemoteConfig
from rewardharness.runs.job import Progress
from rewardharness.runs.spending import BudgetConfig
from rewardharness.runs.store import run_named
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.benchmark.job import BenchmarkJob, BenchmarkReport
    from rewardharness.benchmark.metrics import Share
    from rewardharness.benchmark.result import BenchmarkResult, BenchmarkRow
    from rewardharness.benchmark.votes import VoteReport

MOST_FLIPS = 10
"""Maximum number of printed examples on which two runs differ; the JSON has all."""

app = make_app(
    "benchmark",
    "Judge a benchmark and measure agreement with people. The word `run` may be omitted.",
    {"Judge": JudgeConfig, "Budget": BudgetConfig, "Run": (RunOptions, RemoteConfig)},
    job="benchmark",
)


@app.command(name="list")
def list_tasks(*, json: bool = False) -> int:
    """List the built-in tasks, and the benchmarks of editors.

    Args:
        json: Print one JSON object.
    """
    from rewardharness.benchmark.task import list_tasks
    from rewardharness.editors.benchmark import list_benchmarks

    tasks, benchmarks = list_tasks(), list_benchmarks()
    if json:
        output.emit({"tasks": to_json(tasks), "editors": to_json(benchmarks)})
        return 0
    made = {task.name: "generated" if task.data.examples else "local copy" for task in tasks}
    rows = [(task.name, task.title, ", ".join(task.protocols), task.data.hub or made[task.name]) for task in tasks]
    output.table(("task", "title", "protocols", "data"), rows)
    editors = [
        (benchmark.name, benchmark.title, benchmark.profile, benchmark.hub or "local copy") for benchmark in benchmarks
    ]
    output.table(("for rh arena", "title", "judge", "data"), editors, title="Benchmarks of editors")
    output.say("Labeled data can be used as well: a folder, a table, org/name on the Hub, or a task file (.yaml).")
    return 0


@app.command
def show(task: str, /, *, json: bool = False) -> int:
    """Show a task: data, columns, labels, protocols, metrics and notes.

    Args:
        task: A task, a task file (.yaml) or data.
        json: Print one JSON object.
    """
    from rewardharness.benchmark.task import METRICS, PROTOCOLS, open_task

    opened = open_task(task)
    if json:
        output.emit(to_json(opened))
        return 0
    output.say(f"{opened.name}: {opened.title}")
    for line in (opened.about, opened.paper, opened.license and f"License: {opened.license}"):
        if line:
            output.say(line)
    where = f"{opened.data.hub} on the Hub" if opened.data.hub else opened.data.examples or "a local copy (--source)"
    pinned = opened.data.revision or "none pinned"
    output.say(f"Data: {where}; revision: {pinned}. {opened.data.revision_note}".strip())
    if opened.access:
        output.say(f"Access: {opened.access}")
    if opened.columns is not None and opened.label is not None:
        columns = [*opened.columns.required(), *opened.label.required()]
        output.say(f"Columns: {', '.join(dict.fromkeys(columns))}. Label: rule `{opened.label.rule}`.")
    cells = [
        (part.name, f"{part.config} {part.split} {part.file}".strip(), ", ".join(part.labels)) for part in opened.parts
    ]
    if cells:
        rows = [(*cell[:2], "human score") for cell in cells] if opened.scores else cells
        output.table(("part", "config, split, file", "labels"), rows)
    output.table(("--task-protocol", "one example"), [(name, PROTOCOLS[name]) for name in opened.protocols])
    output.table(("metric", "definition"), [(name, METRICS[name]) for name in opened.metrics])
    for note in opened.notes:
        output.say(f"- {note}")
    return 0


@app.command
def report(
    run: Path,
    /,
    *,
    format_: Annotated[str, Parameter(name="--format")] = "html,json,md",
    for_library: Path | None = None,
    json: bool = False,
) -> int:
    """Write the report of a run again, without judging.

    Args:
        run: Name or folder of a run.
        format_: Formats, separated by commas.
        for_library: Write the results into this Library folder.
        json: Print one JSON object.
    """
    from rewardharness.benchmark.figures import write_for_library
    from rewardharness.benchmark.report import FORMATS, write_report
    from rewardharness.benchmark.result import read_result

    formats = [name.strip() for name in format_.split(",") if name.strip()]
    unknown = [name for name in formats if name not in FORMATS]
    if unknown or not formats:
        raise InputError(f"Unknown format: {', '.join(unknown) or 'none'}.", next_step="Choose html, json or md.")
    folder = run_named(run, Settings.from_env().home)
    result = read_result(folder)
    written = write_report(folder, result, formats)
    if for_library is not None:
        written.append(write_for_library(for_library, result))
    print_result(result, folder, as_json=json)
    if not json:
        output.say("Reports: " + ", ".join(str(path) for path in written))
    return 0


def print_result(result: "BenchmarkResult", folder: Path, *, as_json: bool) -> None:
    """Print the report of a run, or its result as JSON."""
    from rewardharness.benchmark.report import build_report

    if as_json:
        output.emit({**to_json(result), "folder": str(folder)})
    else:
        print_report(build_report(result))


@app.command
def compare(first: Path, second: Path, /, *, json: bool = False) -> int:
    """Compare two runs of one task: exact McNemar test, Newcombe's interval of the gain, and changed answers.

    Args:
        first: Name or run folder of the reference.
        second: Name or run folder of what is compared with it.
        json: Print one JSON object.
    """
    from rewardharness.benchmark.comparison import compare_runs
    from rewardharness.benchmark.report import comparison_section

    home = Settings.from_env().home
    comparison = compare_runs(run_named(first, home), run_named(second, home))
    if json:
        output.emit(to_json(comparison))
        return 0
    output.say(f"{comparison.task}, protocol {comparison.protocol}.")
    print_section(comparison_section(comparison))
    for part in comparison.parts:
        for flip in part.flips[:MOST_FLIPS]:
            instruction = output.shorten(flip.instruction, 60)
            answers = f"label {flip.truth}, {flip.first} -> {flip.second}"
            output.say(f"{'+' if flip.better else '-'} {flip.id}: {instruction} | {answers}")
        if len(part.flips) > MOST_FLIPS:
            output.say(f"{part.part}: {len(part.flips) - MOST_FLIPS} more; --json has all.")
    return 0


@app.command
def publish(
    run: Path,
    repo: str,
    /,
    *,
    private: bool = False,
    create_pr: Annotated[bool, Parameter(name="--create-pr")] = False,
    dry_run: bool = False,
    json: bool = False,
) -> int:
    """Publish the numbers of a run in a leaderboard, a dataset on the Hub, which is created if it does not exist.

    Args:
        run: Name or folder of a run.
        repo: The dataset, as org/name; or model:org/name for .eval_results of the judge's model or Library, which the
            Hub shows if the judged dataset is registered as a benchmark.
        private: Create it as a private dataset.
        create_pr: Open a pull request in a model repository.
        dry_run: Print the rows, and publish nothing.
        json: Print one JSON object.
    """
    from rewardharness.benchmark.figures import PREFIX, eval_results, publish_eval_results, yaml_of
    from rewardharness.benchmark.leaderboard import leaderboard_section, publish, rows_of
    from rewardharness.benchmark.result import read_result
    from rewardharness.library.hub import usual_access

    settings = Settings.from_env()
    result, access = read_result(run_named(run, settings.home)), usual_access(settings)
    if repo.startswith(PREFIX):
        entries, task = eval_results(result, access), result.task.name
        page = "" if dry_run else publish_eval_results(entries, task, repo, access, create_pr=create_pr)
        if json:
            output.emit({"entries": entries, "page": page})
        else:
            output.say(yaml_of(entries) + (f"Published: {page}" if page else "Dry run: nothing was published."))
        return 0
    rows = rows_of(result)
    page = "" if dry_run else publish(rows, repo, access, private=private)
    if json:
        output.emit({"rows": to_json(rows), "page": page})
        return 0
    print_section(leaderboard_section(rows))
    output.say(f"{output.count(len(rows), 'row')} published: {page}" if page else "Dry run: nothing was published.")
    return 0


@app.command
def leaderboard(repo: str, /, *, task: str | None = None, json: bool = False) -> int:
    """Show a leaderboard.

    Args:
        repo: A dataset that `rh benchmark publish` made, as org/name.
        task: Show this task only.
        json: Print one JSON object.
    """
    from rewardharness.benchmark.leaderboard import leaderboard_section, read_leaderboard
    from rewardharness.library.hub import usual_access

    board = read_leaderboard(repo, usual_access(Settings.from_env()))
    rows = [row for row in board.rows if task in (None, row.task)]
    if json:
        output.emit({"repo": repo, "rows": to_json(rows), "skipped": board.skipped})
        return 0
    print_section(leaderboard_section(rows))
    if board.skipped:
        output.note(f"{output.count(board.skipped, 'file')} could not be read.")
    return 0


@app.command
def votes(*files: Path, json: bool = False) -> int:
    """Score raw replies of models on GenAI-Bench, as in the published table and strictly.

    Args:
        files: Files with one JSON object per line, as published; a folder means its .jsonl files.
        json: Print one JSON object.
    """
    from rewardharness.benchmark.votes import score_votes

    empty: list[Path] = []
    reports = score_votes(*files, on_empty=empty.append)
    status = NOT_JUDGED if empty else 0
    if json:
        output.emit({"files": to_json(reports), "empty": [str(path) for path in empty]})
        return status
    for votes_ in reports:
        _print_votes(votes_)
    if empty:
        output.say(f"{len(reports)} of {len(reports) + len(empty)} files counted.")
    for path in empty:
        output.note(f"Warning: {path} has no replies and is skipped.")
    return status


def _print_votes(report_: "VoteReport") -> None:
    rows = []
    for count in (report_.published, report_.strict):
        cells = [_of_all(share) for share in (count.four_way, count.three_way, count.no_tie)]
        problems = ", ".join(f"{reason} {n}" for reason, n in count.problems.items() if n) or "none"
        rows.append((count.reading, *cells, problems))
    headings = ("reading", "4-way [95% CI]", "3-way", "no tie", "no vote")
    output.table(headings, rows, title=f"{report_.file}: {report_.n} votes")


def _of_all(share: "Share") -> str:
    """Return a share in percent with two decimals, as in the published table."""
    if share.of_all is None:
        return "-"
    bounds = share.of_all_interval
    interval = "" if bounds is None else f" [{100 * bounds[0]:.1f}, {100 * bounds[1]:.1f}]"
    return f"{100 * share.of_all:.2f}{interval} of {share.n}"


@app.command
def ratings(folder: Path, /, *, json: bool = False) -> int:
    """Read tables of ImagenHub raters: means per editor, and inter-rater agreement.

    Args:
        folder: Folder with the files *_rater1.tsv and so on of one task.
        json: Print one JSON object.
    """
    from rewardharness.benchmark.ratings import read_ratings

    table = read_ratings(folder).summary()
    if json:
        output.emit(to_json(table))
        return 0
    output.say(f"{table.task}: {table.raters} raters, {table.rated} of {table.edits} edits rated by all.")
    for heading, rows in (
        (("editor", "n", "mean overall, sqrt(SC x PQ) [95% CI]"), table.mean_overall),
        (("human raters", "n", "Spearman, Fisher's mean over editors [95% CI]"), table.between_humans),
    ):
        output.table(heading, [(name, str(row.n), output.share(row.mean, row.interval)) for name, row in rows.items()])
    undefined = sorted({editor for row in table.between_humans.values() for editor in row.undefined})
    if undefined:
        why = "one side gave nearly all of their edits the same score, or too few were rated (see --json)"
        output.say(f"Not in every mean: {', '.join(undefined)}, because {why}.")
    for cell in table.broken:
        output.say(f"Invalid: {cell}")
    return 0


app.command(reproduce)


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
    return run_job(config, options, Settings.from_env(), VIEW, where)


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

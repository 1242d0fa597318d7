"""`rh benchmark`: judge a task with labels that others made. Looking at tasks and reports is in `benchmark_reports`."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from rewardharness.benchmark.config import BenchmarkConfig
from rewardharness.cli import output
from rewardharness.cli.benchmark_reports import compare, list_tasks, print_result, ratings, report, show, votes
from rewardharness.cli.command import make_app
from rewardharness.cli.examples import Bars, mind_the_name
from rewardharness.cli.leave import ask_leave
from rewardharness.cli.options import PaidRunOptions, RunOptions, record_arguments
from rewardharness.cli.score import NOT_JUDGED
from rewardharness.errors import DataError
from rewardharness.judging.config import JudgeConfig
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.benchmark.items import BenchmarkData
    from rewardharness.benchmark.run import BenchmarkEntry, Cost
    from rewardharness.evolution.stop import StopRequest
    from rewardharness.judging.judge import Judge
    from rewardharness.judging.release import Release
    from rewardharness.schema import Json, Judgment

INTERRUPTED = 130
"""Exit status after Ctrl-C or `rh runs stop`."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class BenchmarkOptions(PaidRunOptions):
    """Run folder, printing and confirmation."""

    retry_failed: bool = False
    """Judge again what could not be judged before."""


_NO_OPTIONS = BenchmarkOptions()

app = make_app(
    "benchmark",
    "Judge a benchmark and measure agreement with people. The word `run` may be omitted.",
    {"Judge": JudgeConfig, "Run": PaidRunOptions},
    job=True,
)
for command in (list_tasks, show, report, compare, votes, ratings):
    app.command(command, name="list" if command is list_tasks else None)


@app.command(name="run")
def run_task(
    config: Annotated[BenchmarkConfig, Parameter(name="*")], *, options: BenchmarkOptions = _NO_OPTIONS
) -> int:
    """Judge a task and measure agreement with its human labels, with n, coverage and intervals.

    Prints the cost first. The same command resumes an interrupted run. The table also has the same model without a
    Library, and further judges on request.

    Example: `rh benchmark genai-bench --limit 100 --baselines random,closer`
    """
    return run(config, options, Settings.from_env())


def run(config: BenchmarkConfig, options: BenchmarkOptions, settings: Settings) -> int:
    """Run a benchmark and print its report. Returns the exit status."""
    from rewardharness.benchmark.report import read_result, write_for_library, write_report
    from rewardharness.benchmark.run import estimate, manifest, read_known
    from rewardharness.benchmark.thresholds import DEVELOPMENT
    from rewardharness.evolution.stop import Stopped, StopRequest
    from rewardharness.files import content_id
    from rewardharness.judging.report import BAD_ROW

    config = config.with_defaults(settings)
    exam = _open(config.task, config, options, settings)
    development = _open(config.development, config, options, settings, exam) if config.development else None
    contenders = _contenders(config, settings)
    about = manifest(exam, contenders[0])
    folder = options.run_folder or settings.home / "runs" / f"benchmark-{content_id(about)[:12]}"
    costs = [estimate(exam, contenders, {} if options.restart else read_known(folder))]
    if development is not None:
        known = {} if options.restart else read_known(folder / DEVELOPMENT)
        costs.append(estimate(development, contenders, known))
    if not options.quiet or options.dry_run:
        _tell(exam, contenders, costs, folder)
    if options.dry_run:
        if options.json:
            output.emit(_expected(exam, contenders, costs, folder))
        return 0
    ask_leave(any(cost.requests for cost in costs), options.yes, "Set a --limit")
    stop = StopRequest(folder)
    try:
        with stop.listening(lambda: output.note("Ending after the judgments under way; Ctrl-C again ends at once.")):
            _judge(config, options, settings, (exam, development), contenders, stop)
    except (Stopped, KeyboardInterrupt):
        output.note(f"Stopped; nothing is lost. The same command goes on in {folder}.")
        return INTERRUPTED
    result = read_result(folder)
    written = write_report(folder, result)
    if config.for_library is not None:
        written.append(write_for_library(config.for_library, result))
    if options.json:
        output.emit({**result, "folder": str(folder)})
    else:
        print_result(result)
        output.say("Reports: " + ", ".join(str(path) for path in written))
    first = result["rows"][0]
    if first["judged"] == first["items"]:
        return 0
    if not options.json and set(first["failures"]) != {BAD_ROW}:
        _tell_why_not(folder, first["key"])
    return NOT_JUDGED


def _tell_why_not(folder: Path, key: str) -> None:
    """Say why something has no judgment, in the words of the first, and what to do about it."""
    from rewardharness.benchmark.run import read_judgments

    for item, judgment in read_judgments(folder).get(key, {}).items():
        if judgment.failure is not None:
            output.say(f"Not judged, such as {item}: {judgment.failure.code}: {judgment.failure.message}")
            break
    output.say("Once that is mended, the same command with --retry-failed judges again what could not be judged.")


def manifest_of(config: BenchmarkConfig, options: RunOptions, settings: Settings) -> "Json":
    """Return the manifest that a run would have, without judging anything."""
    from rewardharness.benchmark.run import manifest

    config = config.with_defaults(settings)
    return manifest(_open(config.task, config, options, settings), _contenders(config, settings)[0])


def _open(
    spec: str,
    config: BenchmarkConfig,
    options: RunOptions,
    settings: Settings,
    beside: "BenchmarkData | None" = None,
) -> "BenchmarkData":
    """Open a task, or the development data beside one; says what is odd about the data."""
    from rewardharness.benchmark.loading import open_benchmark
    from rewardharness.benchmark.task import open_task

    mind_the_name(spec)
    task = open_task(spec)
    if config.skip_bad_rows and not task.data.examples:
        output.note(f"{task.name} always goes on without rows that cannot be used: --skip-bad-rows changes nothing.")
    elif config.skip_bad_rows:
        task = replace(task, data=replace(task.data, skip_bad_rows=True))
    if task.data.hub and not config.source and not options.quiet:
        output.note(f"Reading {task.data.hub} from the Hub; a copy on this disk is named with --source.")
    with Bars(options.quiet) as bars, _no_fields():
        if beside is not None:
            protocol = beside.protocol if beside.protocol in task.protocols else None
            return open_benchmark(task, settings, protocol=protocol, progress=bars.show)
        exam = open_benchmark(
            task,
            settings,
            protocol=config.task_protocol,
            source=config.source,
            revision=config.revision,
            limit=config.limit,
            seed=config.seed,
            progress=bars.show,
        )
    for problem in exam.problems:
        part = f"{problem.part}: " if problem.part else ""
        follows = f" ({problem.n}; {problem.consequence})" if problem.consequence else ""
        output.note(f"{part}{problem.code}: {problem.message}{follows}")
    return exam


@contextmanager
def _no_fields() -> Iterator[None]:
    """Here columns are named in a task file: say so where an error speaks of the option of other commands."""
    try:
        yield
    except DataError as error:
        if "--field" not in error.next_step:
            raise
        step = f"Name columns and labels in a task file, see docs/benchmarks.md. With score-folder: {error.next_step}"
        raise DataError(error.message, next_step=step) from None


def _contenders(config: BenchmarkConfig, settings: Settings) -> "list[BenchmarkEntry]":
    """Make the rows of the table, the judge first; none twice."""
    from rewardharness.benchmark.job import make_entries

    release = config.find_release(settings)
    if release is None:
        head: list[BenchmarkEntry] = []
        library, name, judges = config.open_library(settings), config.library or settings.library, [config]
    else:
        head, library, judges = _release_rows(config, release, settings), release.library, []
        name = f"the Library of {head[0].library_name}"
    judges += [replace(config, judge=judge) for judge in config.baseline_judges]
    return make_entries(
        [_opener(judge, settings, release) for judge in judges],
        library,
        name,
        without_library=not config.no_baseline,
        head=head,
        evolved_on=release.evolved_on if release is not None else frozenset(),
    )


def _release_rows(config: BenchmarkConfig, release: "Release", settings: Settings) -> "list[BenchmarkEntry]":
    """Return the rows of a release: itself, and its model with its settings and without a Library."""
    from rewardharness.benchmark.job import NO_LIBRARY
    from rewardharness.benchmark.run import BenchmarkEntry
    from rewardharness.library.store import EMPTY

    def judge(ties: bool) -> "Judge":
        return config.open_release(release, settings)

    name, ties = f"release {release.id[:12]}", bool(release.settings["ties"])
    rows = [BenchmarkEntry("judge", release.library, name, judge, release.id, ties, release.evolved_on)]
    if release.library.id != EMPTY.id and not config.no_baseline and judge(ties).uses_model:
        bare = f"{NO_LIBRARY} (judge and settings of {name}, not the release)"
        rows.append(BenchmarkEntry("empty", EMPTY, bare, judge, release.id, ties))
    return rows


def _opener(config: BenchmarkConfig, settings: Settings, release: "Release | None" = None) -> "Callable[[bool], Judge]":
    """Return a function that opens a judge; `logprob` has no ties. With a release, models use its settings."""
    from rewardharness.judging.opening import JudgeOptions, open_judge

    how = release.how if release is not None else None
    router = config.router
    if release is not None and release.router is not None:  # a URL alone is the endpoint of the release's router
        at_url = router is not None and router.startswith(("http://", "https://"))
        router = f"{release.router}@{router}" if at_url else router or release.router

    def open_it(ties: bool) -> "Judge":
        asked = ties and (how.protocol if how is not None else config.protocol) != "logprob"
        if how is None:
            return config.open_judge(settings, ties=asked)
        options = JudgeOptions(ties=asked, subagent=how, router=router, cache=not config.no_cache)
        return open_judge(config.judge or settings.judge, settings, options)

    return open_it


def _tell(exam: "BenchmarkData", contenders: "Sequence[BenchmarkEntry]", costs: "Sequence[Cost]", folder: Path) -> None:
    """Say what is going to be judged, and what that costs."""
    drawn = f", a sample of {exam.sampled[0]} of {exam.sampled[1]} pairs or groups" if exam.sampled else ""
    output.note(f"{exam.task.title}: {len(exam.items)} examples, protocol {exam.protocol}{drawn}; {exam.revision}.")
    names = "; ".join(f"{each.identity.judge} with {each.library_name}" for each in contenders)
    output.note(f"{len(contenders)} in the table: {names}.")
    judgments, known = sum(cost.judgments for cost in costs), sum(cost.known for cost in costs)
    requests = sum(cost.requests for cost in costs)
    words = f"{judgments} judgments, {known} of them known."
    if requests:
        words += f" The others take at least {requests} requests to models; Tools come on top, remembered answers free."
    elif judgments > known:
        words += " No model is asked, so they cost time alone."
    output.note(words)
    output.note(f"Run folder: {folder}")


def _expected(
    exam: "BenchmarkData", contenders: "Sequence[BenchmarkEntry]", costs: "Sequence[Cost]", folder: Path
) -> "Json":
    """Say the same as JSON."""
    return {
        **{name: value for name, value in exam.to_json().items() if name != "questions"},
        "counting": Counter(each.part for each in exam.questions if not each.excluded and each.truth is not None),
        "contenders": [each.to_json() for each in contenders],
        "judgments": sum(cost.judgments for cost in costs),
        "known": sum(cost.known for cost in costs),
        "requests": sum(cost.requests for cost in costs),
        "folder": str(folder),
    }


def _judge(
    config: BenchmarkConfig,
    options: BenchmarkOptions,
    settings: Settings,
    exams: "tuple[BenchmarkData, BenchmarkData | None]",
    contenders: "Sequence[BenchmarkEntry]",
    stop: "StopRequest",
) -> None:
    """Judge what is not known yet, and fit thresholds where there are development data.

    Raises:
        Stopped: If somebody asked for an end.
    """
    from rewardharness.benchmark.run import judge_benchmark, manifest, read_judgments
    from rewardharness.benchmark.thresholds import DEVELOPMENT, fit_rules, write_rules
    from rewardharness.evolution.stop import STOP_FILE
    from rewardharness.runs.records import record_run
    from rewardharness.runs.store import RunFolder

    def concurrency(judge: "Judge") -> int:
        return int(config.concurrency or judge.concurrency)

    def judge(exam: "BenchmarkData", place: Path, label: str, record: Any) -> None:
        with RunFolder(place, manifest(exam, contenders[0]), restart=options.restart, record=record) as run:
            (place / STOP_FILE).unlink(missing_ok=True)  # of an earlier sitting
            total = len(exam.items) * len(contenders)
            done = total - _left(exam, contenders, run.results(), options.retry_failed)
            with output.Progress(total, label, done=done, quiet=options.quiet) as bar:

                def step(contender: "BenchmarkEntry", judgment: "Judgment") -> None:
                    bar.step(contender.identity.judge)

                judge_benchmark(
                    run,
                    exam,
                    contenders,
                    concurrency=concurrency,
                    on_judgment=step,
                    retry=options.retry_failed,
                    should_stop=stop,
                )
                if _left(exam, contenders, run.results(), False):
                    stop.check()

    exam, development = exams
    folder = stop.folder
    assert folder is not None
    record = record_run(record_arguments(config, options), settings, config=config, skipped_rows=exam.skipped)
    judge(exam, folder, "judging", record)
    if development is not None:
        judge(development, folder / DEVELOPMENT, "judging development data", None)
        rules, notes = fit_rules(exam, development, contenders, read_judgments(folder / DEVELOPMENT))
        write_rules(folder, rules, notes)


def _left(exam: "BenchmarkData", contenders: "Sequence[BenchmarkEntry]", known: "dict[str, Json]", retry: bool) -> int:
    """How many judgments are to be made."""
    from rewardharness.benchmark.run import line_id
    from rewardharness.judgments import judgment_from_json

    done = {name for name, line in known.items() if not (retry and judgment_from_json(line).failure)}
    return sum(line_id(each.key, name) not in done for each in contenders for name in exam.items)

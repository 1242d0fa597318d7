"""`rh benchmark`: judge a task with labels that others made. Looking at tasks and reports is in `benchmark_reports`."""

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewardharness.cli import benchmark_reports, output
from rewardharness.cli.counts import positive
from rewardharness.cli.examples import Bars, add_skip, mind_the_name
from rewardharness.cli.judging import add_options, explicit_judge, make_judge, open_judging
from rewardharness.cli.leave import ask_leave
from rewardharness.cli.score import NOT_JUDGED
from rewardharness.errors import DataError
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.benchmark.items import BenchmarkData
    from rewardharness.benchmark.run import BenchmarkEntry, Cost
    from rewardharness.evolution.stop import StopRequest
    from rewardharness.judging.judge import Judge
    from rewardharness.judging.release import Release
    from rewardharness.schema import Json, Judgment

RUN = "run"
"""The command that is meant when none is named."""

COMMANDS = (RUN, *benchmark_reports.COMMANDS)
INTERRUPTED = 130
"""Exit status after Ctrl-C or `rh runs stop`."""


def completed(words: Sequence[str]) -> list[str]:
    """Put in the word that may be left out: `rh benchmark TASK` is `rh benchmark run TASK`."""
    if len(words) > 1 and words[0] == "benchmark" and words[1] not in {*COMMANDS, "-h", "--help"}:
        return [words[0], RUN, *words[1:]]
    return list(words)


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands to the parser."""
    parser = commands.add_parser(
        "benchmark",
        help="judge a benchmark and count agreement with people",
        description="Judge a task with labels that others made; look at tasks, reports and comparisons.",
    )
    parts = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    one = parts.add_parser(RUN, help="judge a task; the word `run` may be left out", description=run.__doc__)
    one.add_argument(
        "task", metavar="TASK", help="a task (see `list`), a task file (.yaml), or data: a folder, a table, org/name"
    )
    one.add_argument("--source", type=Path, metavar="PATH", help="a local copy of its data: a table or a folder")
    one.add_argument("--revision", default="", metavar="REV", help="read this revision instead of the pinned one")
    one.add_argument(
        "--task-protocol",
        metavar="PROTOCOL",
        help="what one example is: pairs, ranking, both-orders, pointwise (default: the task's first). How the judge "
        "judges an example is --protocol",
    )
    one.add_argument("--limit", type=positive, metavar="N", help="judge a stratified sample of N pairs or whole groups")
    one.add_argument("--seed", type=int, default=0, help="of the sample (default: 0)")
    add_skip(one)
    add_options(one, release=True, ties=False)
    table = one.add_argument_group("who else is in the table")
    table.add_argument("--no-baseline", action="store_true", help="leave out the same model without a Library")
    table.add_argument(
        "--baselines",
        action="append",
        default=[],
        metavar="LIST",
        help="further judges, separated by commas: random,always-a,closer,farther,ssim; one with a colon stands alone, "
        "as in --baselines vllm:NAME@URL. They are given the same Library",
    )
    table.add_argument(
        "--development", metavar="TASK", help="labelled data that thresholds of ties are fitted on (a task or data)"
    )
    place = one.add_argument_group("run")
    place.add_argument("--run", dest="run_folder", type=Path, metavar="DIR", help="where results are kept and resumed")
    place.add_argument("--restart", action="store_true", help="judge everything anew; old results are kept aside")
    place.add_argument("--retry-failed", action="store_true", help="judge again what could not be judged before")
    place.add_argument("--concurrency", type=positive, metavar="N", help="examples under way at once")
    place.add_argument(
        "--for-library", type=Path, metavar="DIR", help="write the results into this Library folder, for its card"
    )
    place.add_argument("--yes", action="store_true", help="do not ask before spending")
    place.add_argument("--dry-run", action="store_true", help="say what it would cost, and do nothing")
    place.add_argument("--json", action="store_true", help="print the result as one JSON object")
    place.add_argument("--quiet", action="store_true", help="no progress")
    one.set_defaults(run=run)
    benchmark_reports.register(parts)


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Judge a task and count how far the judge agrees with its labels, with n, coverage and intervals.

    Says first what it will cost. Resumable: the same command goes on where it stopped. The same model without a Library
    stands beside it, and further judges if asked for.
    """
    from rewardharness.benchmark.report import read_result, write_for_library, write_report
    from rewardharness.benchmark.run import estimate, manifest, read_known
    from rewardharness.benchmark.thresholds import DEVELOPMENT
    from rewardharness.evolution.stop import Stopped, StopRequest
    from rewardharness.files import content_id
    from rewardharness.judging.report import BAD_ROW

    exam = _open(arguments.task, arguments, settings)
    development = _open(arguments.development, arguments, settings, exam) if arguments.development else None
    contenders = _contenders(arguments, settings)
    about = manifest(exam, contenders[0])
    folder = arguments.run_folder or settings.home / "runs" / f"benchmark-{content_id(about)[:12]}"
    costs = [estimate(exam, contenders, {} if arguments.restart else read_known(folder))]
    if development is not None:
        known = {} if arguments.restart else read_known(folder / DEVELOPMENT)
        costs.append(estimate(development, contenders, known))
    if not arguments.quiet or arguments.dry_run:
        _tell(exam, contenders, costs, folder)
    if arguments.dry_run:
        if arguments.json:
            output.emit(_expected(exam, contenders, costs, folder))
        return 0
    ask_leave(any(cost.requests for cost in costs), arguments.yes, "Set a --limit")
    stop = StopRequest(folder)
    try:
        with stop.listening(lambda: output.note("Ending after the judgments under way; Ctrl-C again ends at once.")):
            _judge(arguments, settings, (exam, development), contenders, stop)
    except (Stopped, KeyboardInterrupt):
        output.note(f"Stopped; nothing is lost. The same command goes on in {folder}.")
        return INTERRUPTED
    result = read_result(folder)
    written = write_report(folder, result)
    if arguments.for_library is not None:
        written.append(write_for_library(arguments.for_library, result))
    if arguments.json:
        output.emit({**result, "folder": str(folder)})
    else:
        benchmark_reports.print_result(result)
        output.say("Reports: " + ", ".join(str(path) for path in written))
    first = result["rows"][0]
    if first["judged"] == first["items"]:
        return 0
    if not arguments.json and set(first["failures"]) != {BAD_ROW}:
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


def manifest_of(arguments: argparse.Namespace, settings: Settings) -> "Json":
    """Say what a run would be about, without judging anything."""
    from rewardharness.benchmark.run import manifest

    return manifest(_open(arguments.task, arguments, settings), _contenders(arguments, settings)[0])


def _open(
    spec: str, arguments: argparse.Namespace, settings: Settings, beside: "BenchmarkData | None" = None
) -> "BenchmarkData":
    """Open a task, or the development data beside one; says what is odd about the data."""
    from rewardharness.benchmark.loading import open_benchmark
    from rewardharness.benchmark.task import open_task

    mind_the_name(spec)
    task = open_task(spec)
    if arguments.skip_bad_rows and not task.data.examples:
        output.note(f"{task.name} always goes on without rows that cannot be used: --skip-bad-rows changes nothing.")
    elif arguments.skip_bad_rows:
        task = replace(task, data=replace(task.data, skip_bad_rows=True))
    if task.data.hub and not arguments.source and not arguments.quiet:
        output.note(f"Reading {task.data.hub} from the Hub; a copy on this disk is named with --source.")
    with Bars(arguments.quiet) as bars, _no_fields():
        if beside is not None:
            protocol = beside.protocol if beside.protocol in task.protocols else None
            return open_benchmark(task, settings, protocol=protocol, progress=bars.show)
        exam = open_benchmark(
            task,
            settings,
            protocol=arguments.task_protocol,
            source=arguments.source,
            revision=arguments.revision,
            limit=arguments.limit,
            seed=arguments.seed,
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


def _contenders(arguments: argparse.Namespace, settings: Settings) -> "list[BenchmarkEntry]":
    """Say who is in the table, the judge first; nobody twice."""
    from rewardharness.benchmark.job import make_entries
    from rewardharness.library.opening import open_library

    head: list[BenchmarkEntry] = []
    release, judges = None, [arguments.judge]
    if arguments.release is not None:
        head, release = _released(arguments, settings)
        library, name, judges = head[0].library, f"the Library of {head[0].library_name}", []
    else:
        name = arguments.library or settings.library
        library = open_library(name)
    judges += _names(arguments.baselines)
    return make_entries(
        [_opener(judge, arguments, settings, release) for judge in judges],
        library,
        name,
        without_library=not arguments.no_baseline,
        head=head,
        evolved_on=release.evolved_on if release is not None else frozenset(),
    )


def _released(arguments: argparse.Namespace, settings: Settings) -> "tuple[list[BenchmarkEntry], Release]":
    """A release, and beside it its judge with its settings and without a Library, which is not the release."""
    from rewardharness.benchmark.job import NO_LIBRARY
    from rewardharness.benchmark.run import BenchmarkEntry
    from rewardharness.judging.opening import JudgeOptions
    from rewardharness.judging.release_opening import open_release
    from rewardharness.library.store import EMPTY

    _, library, release = open_judging(arguments, settings)
    assert release is not None
    options = JudgeOptions(router=arguments.router, cache=not arguments.no_cache)

    def judge(ties: bool) -> "Judge":
        return open_release(release, settings, endpoint=explicit_judge(arguments, settings), options=options)[0]

    named, ties = f"release {release.id[:12]}", bool(release.settings["ties"])
    found = [BenchmarkEntry("judge", library, named, judge, release.id, ties, release.evolved_on)]
    if library.id != EMPTY.id and not arguments.no_baseline and judge(ties).uses_model:
        bare = f"{NO_LIBRARY} (judge and settings of {named}, not the release)"
        found.append(BenchmarkEntry("empty", EMPTY, bare, judge, release.id, ties))
    return found, release


def _names(given: Sequence[str]) -> list[str]:
    """Split what --baselines says; an address may hold commas of its own."""
    parts = [part for text in given for part in ([text] if ":" in text else text.split(","))]
    return [part.strip() for part in parts if part.strip()]


def _opener(
    spec: str, arguments: argparse.Namespace, settings: Settings, release: "Release | None" = None
) -> "Callable[[bool], Judge]":
    """How a judge is opened; `logprob` knows no ties. Beside a release models judge as that one does, ties apart."""
    from rewardharness.judging.opening import JudgeOptions, open_judge

    how = release.how if release is not None else None
    router = arguments.router
    if release is not None and release.router is not None:  # an address alone says where that one is served
        at_url = router is not None and router.startswith(("http://", "https://"))
        router = f"{release.router}@{router}" if at_url else router or release.router

    def open_it(ties: bool) -> "Judge":
        protocol = how.protocol if how is not None else arguments.protocol
        asked = ties and protocol != "logprob"
        if how is None:
            return make_judge(argparse.Namespace(**{**vars(arguments), "judge": spec, "ties": asked}), settings)
        options = JudgeOptions(ties=asked, subagent=how, router=router, cache=not arguments.no_cache)
        return open_judge(spec, settings, options)

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
    arguments: argparse.Namespace,
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
        return int(arguments.concurrency or judge.concurrency)

    def judge(exam: "BenchmarkData", place: Path, label: str, record: Any) -> None:
        with RunFolder(place, manifest(exam, contenders[0]), restart=arguments.restart, record=record) as run:
            (place / STOP_FILE).unlink(missing_ok=True)  # of an earlier sitting
            total = len(exam.items) * len(contenders)
            done = total - _left(exam, contenders, run.results(), arguments.retry_failed)
            with output.Progress(total, label, done=done, quiet=arguments.quiet) as bar:

                def step(contender: "BenchmarkEntry", judgment: "Judgment") -> None:
                    bar.step(contender.identity.judge)

                judge_benchmark(
                    run,
                    exam,
                    contenders,
                    concurrency=concurrency,
                    on_judgment=step,
                    retry=arguments.retry_failed,
                    should_stop=stop,
                )
                if _left(exam, contenders, run.results(), False):
                    stop.check()

    exam, development = exams
    folder = stop.folder
    assert folder is not None
    taken = None if arguments.release is not None else arguments.library or settings.library
    record = record_run(vars(arguments), settings, library=taken, skipped_rows=exam.skipped)
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

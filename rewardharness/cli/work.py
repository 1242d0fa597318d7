"""What the commands that run a job share: opening it, its cost and the question, progress, and stopping."""

import gc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rewardharness.bulk.config import ExamplesConfig, SamplesConfig
from rewardharness.cli import output
from rewardharness.cli.command import WORDS
from rewardharness.cli.confirm import confirm
from rewardharness.cli.examples import Bars, note_same_name
from rewardharness.cli.options import RunOptions, record_arguments
from rewardharness.data.rows import Progress
from rewardharness.errors import shell
from rewardharness.garbage import collection_paused
from rewardharness.settings import Settings
from rewardharness.waiting import shown

if TYPE_CHECKING:
    from rewardharness.bulk.judging_job import JudgingJob
    from rewardharness.runs.job import Job
    from rewardharness.runs.spending import Cost, SpendingLimits
    from rewardharness.runs.stop import StopRequest

    J = TypeVar("J", bound=JudgingJob[Any])
R = TypeVar("R")

INTERRUPTED = 130
"""Exit status after Ctrl-C, `rh runs stop`, or the end of a budget."""


def open_job(job_type: "type[J]", config: ExamplesConfig, options: RunOptions, settings: Settings) -> "J":
    """Open data, judge and Library, with progress bars and warnings. Nothing is judged."""
    if not isinstance(config, SamplesConfig) and not getattr(config, "single", False):
        note_same_name(config.data)
    with Bars(options.quiet) as bars, collection_paused():
        job = job_type.open(config, settings, folder=options.run_folder, progress=bars.show)
        gc.freeze()  # all of it stays to the end of the command
    for problem in job.dataset.problems:
        output.note(f"{job.dataset.name}: {problem}")
    return job


def manifest_of(config: ExamplesConfig, options: RunOptions, settings: Settings) -> Mapping[str, Any]:
    """Return the manifest that a run would have, without judging anything."""
    from rewardharness.bulk.job import job_of

    return open_job(job_of(config), config, options, settings).manifest


def run_examples(job: "JudgingJob[Any]", run: Callable[..., R], options: RunOptions, show: Callable[[R], int]) -> int:
    """Run a job that judges examples, with its method `run`. Returns the exit status."""

    def plan() -> dict[str, Any]:
        cost = job.cost(restart=options.restart, retry_failed=options.retry_failed)
        if not options.json:
            what = f"{output.count(len(job.dataset.examples), 'edit')} of {job.dataset.name}"
            judged = f"{output.count(cost.judgments, 'judgment')} by {job.judge.name}"
            output.say(f"{what}: {judged}, Library {job.opened.library.id[:12]}.")
            output.say(f"Results would be written to {job.folder}. Nothing was judged.")
        return {"folder": str(job.folder), "data": job.dataset.name, **cost.to_json(job.limits)}

    def work(stop: "StopRequest", progress: Progress) -> R:
        return run(progress, stop=stop, **session_options(job.config, options))

    return run_job(job, options, work, show, plan)


def session_options(config: Any, options: RunOptions) -> dict[str, Any]:
    """Return the arguments of the `run` of a job that follow from the options of its command."""
    return {
        "restart": options.restart,
        "retry_failed": options.retry_failed,
        "arguments": record_arguments(config, options),
        "track": options.track or None,
    }


def run_job(
    job: "Job",
    options: RunOptions,
    run: "Callable[[StopRequest, Progress], R]",
    show: Callable[[R], int],
    plan: Callable[[], Mapping[str, Any]],
    *,
    paid: bool = False,
    strict: bool = False,
) -> int:
    """Print the cost of a job, ask, run it, and show its result.

    Args:
        job: The job.
        options: Options of the command.
        run: Runs the job.
        show: Shows the result, and returns the exit status.
        plan: Prints what a dry run would do, except with `--json`, and returns its JSON.
        paid: Whether something else than the judge may cost money.
        strict: Whether the question must be answered where there is no terminal, with `--yes`.

    Returns:
        The exit status.
    """
    from rewardharness.runs.stop import Stopped, StopRequest

    cost = job.cost(restart=options.restart, retry_failed=options.retry_failed)
    if options.dry_run or not options.quiet:
        print_cost(cost, job.limits, job.folder)
    if options.dry_run:
        found = plan()
        if options.json:
            output.emit(found)
        return 0
    confirm(paid or bool(cost.requests and cost.money(job.limits) != 0), options.yes, "Set a limit", strict=strict)
    stop = StopRequest()
    notice = "Stopping after the judgments in progress; Ctrl-C again stops at once."
    try:
        with stop.listening(lambda: output.note(notice)), Bars(options.quiet) as bars, shown(bars.wait):
            result = run(stop, bars.show)
    except (Stopped, KeyboardInterrupt) as error:
        why = f": {error}" * bool(str(error))
        first = "Raise the budget and resume" if why else "Resume"
        output.note(f"Stopped{why}; nothing is lost. {first} with: {_resume_command(options, job.folder)}")
        return INTERRUPTED
    return show(result)


def print_cost(cost: "Cost", limits: "SpendingLimits", place: Path | str = "") -> None:
    """Print the expected cost of a job."""
    from rewardharness.judging.evidence import crops_words

    for line in (*cost.words(limits, place), *([crops_words(cost.crops)] if cost.crops else [])):
        output.note(line)


def _resume_command(options: RunOptions, folder: Path) -> str:
    words = [word for word in WORDS.get() if word != "--restart"]
    if options.run_folder is None and folder not in map(Path, words):
        words += ["--run", str(folder)]
    return shell("rh {}", words)

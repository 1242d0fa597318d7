"""`rh evolve`: evolve a Library from preferences."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from rewardharness.cli import output
from rewardharness.cli.command import make_app
from rewardharness.cli.evolve_report import print_places, print_plan, show_report
from rewardharness.cli.examples import Bars, note_same_name
from rewardharness.cli.options import RunOptions
from rewardharness.cli.progress import counter, event_line
from rewardharness.cli.remote import judging_on, run_remotely
from rewardharness.cli.work import run_job, session_options
from rewardharness.codec import to_json
from rewardharness.data.config import DataConfig
from rewardharness.data.rows import Progress
from rewardharness.evolution.config import EvolveConfig, SearchBudgetConfig
from rewardharness.judging.config import JudgeConfig
from rewardharness.remote.config import ON_THIS_COMPUTER, RemoteConfig
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.evolution.events import Event
    from rewardharness.evolution.job import EvolutionJob, EvolutionResult
    from rewardharness.evolution.report import EvolutionReport
    from rewardharness.runs.stop import StopRequest


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class EvolveOptions(RunOptions):
    """Run folder, printing, confirmation, and the estimate before a run."""

    check: bool = False
    """Only estimate the gain on unseen sources."""


NO_OPTIONS = EvolveOptions()

app = make_app(
    "evolve",
    "Evolve a Library from labeled preferences. Example: `rh evolve demo`",
    {"Search": EvolveConfig, "Judge": JudgeConfig, "Data": DataConfig, "Budget": SearchBudgetConfig}
    | {"Run": (EvolveOptions, RemoteConfig)},
    job="evolve",
)
app["--help"].show = False


@app.default
def evolve(
    config: Annotated[EvolveConfig, Parameter(name="*")],
    *,
    options: EvolveOptions = NO_OPTIONS,
    where: Annotated[RemoteConfig, Parameter(name="*")] = ON_THIS_COMPUTER,
) -> int:
    """Evolve a Library from labeled preferences.

    Proposes edits, accepts those that the evidence supports, and compares the result on held-out examples. The same
    command resumes an interrupted run, also after `kill -9`.

    Example: `rh evolve demo --proposals 20`
    """
    settings = Settings.from_env()
    if where.is_remote:
        return run_remotely(config, options, where, settings)
    with judging_on(where, options):
        return estimate_gain(config, options, settings) if options.check else run(config, options, settings)


def estimate_gain(config: EvolveConfig, options: EvolveOptions, settings: Settings) -> int:
    """Print what evolution would bring on the data. Returns the exit status."""
    from rewardharness.evolution.check import check

    job = open_job(config.with_defaults(settings), options, settings)
    found = check(job.plan, counter(options.quiet))
    if options.json:
        output.emit(to_json(found))
    else:
        for line in found.lines:
            output.say(line)
    return 0


def run(config: EvolveConfig, options: EvolveOptions, settings: Settings) -> int:
    """Run an evolution and print its report. Returns the exit status."""
    from rewardharness.evolution.loop import Callbacks

    config = config.with_defaults(settings)
    job = open_job(config, options, settings)
    if not options.restart and (report := job.finished_report()) is not None:
        return _show_finished(options, job, report)
    resumed = job.started and not options.restart
    if not resumed:
        job.plan.check_budget()
    if not options.quiet or options.dry_run:
        print_plan(job, resumed)

    def work(stop: "StopRequest", progress: Progress) -> "EvolutionResult":
        callbacks = Callbacks(stop, _event_printer(options.quiet), counter(options.quiet))
        return job.run(callbacks, **session_options(config, options))

    def show(result: "EvolutionResult") -> int:
        show_report(result.report, job.folder, as_json=options.json)
        return 0

    asked = replace(options, yes=options.yes or resumed)
    paid = not job.plan.orchestrator.name.startswith("built-in")
    return run_job(job, asked, work, show, lambda: job.preview(restart=options.restart), paid=paid, strict=True)


def open_job(config: EvolveConfig, options: RunOptions, settings: Settings) -> "EvolutionJob":
    """Open everything that a run needs, with progress bars and warnings."""
    from rewardharness.evolution.job import open_job

    note_same_name(config.data)
    with Bars(options.quiet) as bars:
        job = open_job(config, settings, folder=options.run_folder, progress=bars.show)
    for problem in job.plan.dataset.problems:
        output.note(f"{job.plan.dataset.name}: {problem}")
    for warning in () if options.quiet else job.warnings:
        output.note(warning)
    return job


def manifest_of(config: EvolveConfig, options: RunOptions, settings: Settings) -> dict[str, Any]:
    """Return the manifest that a run would have, without judging anything."""
    return open_job(config, options, settings).plan.manifest


def _show_finished(options: RunOptions, job: "EvolutionJob", report: "EvolutionReport") -> int:
    """Print the report of a finished run."""
    if not options.quiet or options.dry_run:
        output.note(f"The run in {job.folder} is complete; nothing is left to judge. --restart starts over.")
    if not options.dry_run:
        show_report(report, job.folder, as_json=options.json)
    elif options.json:
        output.emit(job.preview(finished=True))
    else:
        print_places(job.folder)
    return 0


def _event_printer(quiet: bool) -> Callable[["Event"], None]:
    """Return a function that prints events on standard error."""
    from rewardharness.evolution.events import Paused

    def show(event: "Event") -> None:
        line = event_line(event)
        if line and not quiet and not isinstance(event, Paused):  # the command prints the reason when it ends
            output.note(line)

    return show

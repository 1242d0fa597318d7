"""`rh evolve`: evolve a Library from preferences."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from rewardharness.cli import output
from rewardharness.cli.command import WORDS, make_app
from rewardharness.cli.confirm import confirm
from rewardharness.cli.evolve_report import print_cost, print_places, show_report
from rewardharness.cli.examples import Bars, note_same_name
from rewardharness.cli.options import PaidRunOptions, RunOptions, record_arguments
from rewardharness.cli.progress import counter, event_line
from rewardharness.cli.remote import judging_on, run_remotely
from rewardharness.data.config import DataConfig
from rewardharness.evolution.config import BudgetConfig, EvolveConfig
from rewardharness.judging.config import JudgeConfig
from rewardharness.remote.config import ON_THIS_COMPUTER, RemoteConfig
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.evolution.events import Event
    from rewardharness.evolution.job import EvolutionJob

INTERRUPTED = 130


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class EvolveOptions(PaidRunOptions):
    """Run folder, printing, confirmation, and the estimate before a run."""

    check: bool = False
    """Only estimate the gain on unseen sources."""


NO_OPTIONS = EvolveOptions()

app = make_app(
    "evolve",
    "Evolve a Library from labeled preferences. Example: `rh evolve demo`",
    {"Search": EvolveConfig, "Judge": JudgeConfig, "Data": DataConfig, "Budget": BudgetConfig}
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
        output.emit(found.to_json())
    else:
        for line in found.lines:
            output.say(line)
    return 0


def run(config: EvolveConfig, options: EvolveOptions, settings: Settings) -> int:
    """Run an evolution and print its report. Returns the exit status."""
    from rewardharness.evolution.loop import Callbacks
    from rewardharness.runs.stop import Stopped

    config = config.with_defaults(settings)
    job = open_job(config, options, settings)
    if not options.restart and (report := job.finished_report()) is not None:
        return _show_finished(options, job, report)
    resumed = job.started and not options.restart
    if not resumed:
        job.plan.check_budget()
    if not options.quiet or options.dry_run:
        print_cost(job, resumed)
    if options.dry_run:
        if options.json:
            output.emit(job.preview(restart=options.restart))
        return 0
    if not resumed:
        costs = bool(job.plan.estimate.requests) or not job.plan.orchestrator.name.startswith("built-in")
        confirm(costs, options.yes, "Set a smaller budget")
    callbacks = Callbacks(on_event=_event_printer(options.quiet), on_progress=counter(options.quiet))
    notice = "Stopping after the judgments in progress; Ctrl-C again stops at once."
    try:
        with callbacks.stop.listening(lambda: output.note(notice)):
            result = job.run(
                callbacks,
                restart=options.restart,
                arguments=record_arguments(config, options),
                track=options.track or None,
            )
    except (Stopped, KeyboardInterrupt):
        output.note(f"Stopped; nothing is lost. Resume with: {_resume_command(options, job.folder)}")
        return INTERRUPTED
    show_report(result.report, job.folder, as_json=options.json)
    return 0


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


def _show_finished(options: RunOptions, job: "EvolutionJob", report: dict[str, Any]) -> int:
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


def _resume_command(options: RunOptions, folder: Path) -> str:
    words = [word for word in WORDS.get() if word != "--restart"]
    if options.run_folder is None and "--run" not in words:
        words += ["--run", str(folder)]
    return "rh " + shlex.join(words)

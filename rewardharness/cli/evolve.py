"""`rh evolve`: evolve a Library from preferences."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from cyclopts import Parameter

from rewardharness.cli import output
from rewardharness.cli.command import make_app
from rewardharness.cli.report import counter
from rewardharness.cli.run import RunOptions, View, executor_of, open_job, run_job
from rewardharness.codec import to_json
from rewardharness.data.config import DataConfig
from rewardharness.errors import shell
from rewardharness.evolution.config import EvolveConfig, SearchBudgetConfig
from rewardharness.judging.config import JudgeConfig
from rewardharness.library.opening import THINNED
from rewardharness.remote.config import ON_THIS_COMPUTER, RemoteConfig
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.evolution.job import EvolutionJob, EvolutionResult
    from rewardharness.evolution.report import EvolutionReport
    from rewardharness.runs.spending import Cost


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
    if options.check and not where.is_remote:
        return estimate_gain(config, options, settings, where)
    return run_job(config, options, settings, VIEW, where)


def estimate_gain(config: EvolveConfig, options: EvolveOptions, settings: Settings, where: RemoteConfig) -> int:
    """Print what evolution would bring on the data. Returns the exit status."""
    from rewardharness.evolution.diagnosis import check

    job = cast("EvolutionJob", open_job(config, options, settings, VIEW))
    with executor_of(config, where) as executor:
        diagnosis = check(job, counter(options.quiet), executor)
    if options.json:
        output.emit(to_json(diagnosis))
    else:
        for line in diagnosis.lines:
            output.say(line)
    return 0


class EvolveView(View):
    """What `rh evolve` says."""

    strict = True

    def opened(self, job: "EvolutionJob", options: RunOptions) -> None:
        """Print the problems of the data and of the corrections."""
        super().opened(job, options)
        for warning in () if options.quiet else job.warnings:
            output.note(warning)

    def begin(self, job: "EvolutionJob", options: RunOptions) -> None:
        """Print what the run is about and what it is expected to cost."""
        resumed = job.started and not options.restart
        if not resumed:
            job.check_budget()
        if options.quiet and not options.dry_run:
            return
        pool, audit = job.parts
        output.note(
            f"{job.dataset.name}: {len(pool)} training examples, {len(audit)} held out for the test at the end. "
            f"Judge {job.judge.name}; Orchestrator {job.orchestrator.name}; schedule {job.schedule.name}."
        )
        if job.config and (whole := THINNED.get(job.config.library or "")):
            output.note(
                f"Starts from {job.config.library}, half of the built-in criteria; --library {whole} has all of them."
            )
        output.note(f"Run folder: {job.folder}{' (resumed)' if resumed else ''}")
        output.note(job.estimate.words(job.seconds))
        if not _is_builtin(job):
            output.note(f"Requests to the Orchestrator {job.orchestrator.name} are not included.")

    def costs(self, job: "EvolutionJob", cost: "Cost", options: RunOptions) -> bool:
        """Return whether nobody has confirmed the cost: that of a resumed run was."""
        resumed = job.started and not options.restart
        return not resumed and (not _is_builtin(job) or super().costs(job, cost, options))

    def plan(self, job: "EvolutionJob", preview: Mapping[str, Any]) -> None:
        """Print where the results of a finished run are."""
        if preview["finished"]:
            print_places(job.folder)

    def show(self, job: "EvolutionJob", result: "EvolutionResult", options: RunOptions) -> int:
        """Print the report."""
        show_report(result.report, job.folder, as_json=options.json)
        return 0

    def show_folder(self, folder: Path, options: RunOptions) -> None:
        """Print the report of a job on the Hub."""
        from rewardharness.evolution.report import read_report

        show_report(read_report(folder), folder, as_json=options.json)


VIEW = EvolveView()


def show_report(report: "EvolutionReport", folder: Path, *, as_json: bool = False) -> None:
    """Print a report as JSON or as text."""
    from rewardharness.cli.report import print_report
    from rewardharness.evolution.report_page import report_sections

    if as_json:
        output.emit({**to_json(report), "folder": str(folder)})
        return
    print_report(report_sections(report))
    print_places(folder)
    if report.library.final_id != report.library.start_id:
        library = (folder / "library").absolute()
        output.say(shell("Open the app with it: RH_LIBRARY={} rh app --open", library))
        output.say(shell("Publish it: rh push-library {} --repo your-name/your-library", library))
        output.say(shell("Compare it on a benchmark: rh benchmark other_pairs/ --library {}", library))


def print_places(folder: Path) -> None:
    """Print where the Library and the report are."""
    output.say(f"Library: {folder / 'library'}   Report: {folder / 'report.html'}")


def _is_builtin(job: "EvolutionJob") -> bool:
    return job.orchestrator.name.startswith("built-in")

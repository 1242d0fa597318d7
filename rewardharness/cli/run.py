"""Running a job, here or on rented hardware: its options, its cost and the question, progress, stopping, its result."""

import gc
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from cyclopts import Parameter

from rewardharness.cli import output
from rewardharness.cli.command import WORDS
from rewardharness.cli.output import INTERRUPTED
from rewardharness.errors import InputError, shell
from rewardharness.files import RUN_MANIFEST
from rewardharness.garbage import collection_paused
from rewardharness.remote.config import ON_THIS_COMPUTER, RAY, ClusterConfig, RemoteConfig
from rewardharness.settings import Settings
from rewardharness.telemetry import shown

if TYPE_CHECKING:
    from rewardharness.bulk.edits_job import EditsJob
    from rewardharness.jobs import JobConfig
    from rewardharness.remote.job import RemotePlan, RemoteRun
    from rewardharness.runs.job import Job, Progress
    from rewardharness.runs.spending import Cost, SpendingLimits


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Run folder, printing and confirmation."""

    config: Path | None = None
    """YAML or JSON file of options, as a run's config.json."""
    run_folder: Annotated[Path | None, Parameter(name="--run")] = None
    """Run folder (default: one below RH_HOME/runs)."""
    restart: bool = False
    """Start over; earlier results are renamed."""
    retry_failed: bool = False
    """Judge all that failed before again."""
    dry_run: bool = False
    """Print what would be done, and its cost."""
    track: tuple[str, ...] = ()
    """Log numbers to trackio, wandb or tensorboard[:PROJECT]."""
    json: bool = False
    """Print one JSON object."""
    quiet: bool = False
    """Print no progress."""
    yes: bool = False
    """Do not ask before spending, or before a run folder names who gets data."""
    replays: Annotated[Mapping[str, str] | None, Parameter(parse=False)] = None
    """The run that this one replays."""


NO_OPTIONS = RunOptions()


def confirm_sending(
    config: "JobConfig | type[JobConfig]", values: Mapping[str, Any], settings: Settings, yes: bool
) -> None:
    """Ask before images and a key go to what a run folder names: it may come from another person.

    Args:
        config: The configuration in the run folder, or its class.
        values: Its values by field.
        settings: The settings, whose judge is known.
        yes: Whether the command line confirms.

    Raises:
        InputError: If the answer is no, or there is no terminal.
    """
    from rewardharness.jobs import sent_to

    places = sent_to(config, values, (settings.judge,))
    if places:
        output.note(f"This run sends images, and your key if one is set, to {', '.join(places)}.")
    confirm(bool(places), yes, "Check config.json in the run folder")


def confirm(costs: bool, yes: bool, smaller: str, *, strict: bool = True) -> None:
    """Ask on the terminal for confirmation.

    Args:
        costs: Whether anything may cost money.
        yes: Whether the command line confirms.
        smaller: How to reduce the cost, as the beginning of a sentence.
        strict: Whether it is an error that there is no terminal; otherwise nothing is asked then.

    Raises:
        InputError: If the answer is no, or there is no terminal.
    """
    if yes or not costs:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        if not strict:
            return
        raise InputError("This may cost money, and there is no terminal to confirm it.", next_step="Add --yes.")
    output.note("Continue? [y/N] ")
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise InputError("Nothing was done.", next_step=f"{smaller}, or answer yes.")


def note_same_name(spec: str) -> None:
    """Print which data are used if a folder has the name of a built-in dataset."""
    from rewardharness.data.opening import OWN

    if spec in OWN and Path(spec).is_dir():
        output.note(f"`{spec}` is the built-in dataset; for the folder of that name, write ./{spec}")


class View:
    """What the command line says about the jobs of one type."""

    strict: ClassVar[bool] = False
    """Whether the question before spending must be answered where there is no terminal, with `--yes`."""

    def open(self, config: Any, options: RunOptions, settings: Settings, progress: "Progress") -> "Job[Any, Any]":
        """Open the job."""
        from rewardharness.jobs import open_job as open_config

        note_same_name(getattr(config, "data", ""))
        return open_config(config, settings, folder=options.run_folder, progress=progress)

    def opened(self, job: Any, options: RunOptions) -> None:
        """Print the problems of the data."""
        for problem in job.dataset.problems:
            output.note(f"{job.dataset.name}: {problem}")

    def begin(self, job: Any, options: RunOptions) -> None:
        """Print what would be done, before its cost; called if there is something left to do."""

    def costs(self, job: Any, cost: "Cost", options: RunOptions) -> bool:
        """Return whether the run may cost money that nobody has confirmed yet."""
        return bool(cost.requests and cost.money(job.limits) != 0)

    def plan(self, job: Any, preview: Mapping[str, Any]) -> None:
        """Print what a dry run found."""

    def show(self, job: Any, result: Any, options: RunOptions) -> int:
        """Print the result, by default where it is. Returns the exit status."""
        self.show_folder(job.folder, options)
        return 0

    def show_folder(self, folder: Path, options: RunOptions) -> None:
        """Print the result of a job on the Hub."""
        if options.json:
            output.emit({"folder": str(folder)})
        else:
            output.say(f"Results: {folder}   Show them: {shell('rh runs show {}', folder)}")


class EditsView(View):
    """What the command line says about a job that judges edits."""

    def plan(self, job: "EditsJob[Any]", preview: Mapping[str, Any]) -> None:
        """Print what would be judged."""
        what = f"{output.count(len(job.dataset.examples), 'edit')} of {job.dataset.name}"
        judged = f"{output.count(preview['judgments'], 'judgment')} by {job.judge.name}"
        output.say(f"{what}: {judged}, Library {job.opened.library.id[:12]}.")
        output.say(f"Results would be written to {job.folder}. Nothing was judged.")


def open_job(config: "JobConfig", options: RunOptions, settings: Settings, view: View) -> "Job[Any, Any]":
    """Open data, judge and Library, with progress bars and warnings. Nothing is judged."""
    with output.Bars(options.quiet) as bars, collection_paused():
        job = view.open(config, options, settings, bars.show)
        gc.freeze()  # all of it stays to the end of the command
    view.opened(job, options)
    return job


def run_job(
    config: "JobConfig", options: RunOptions, settings: Settings, view: View, where: ClusterConfig = ON_THIS_COMPUTER
) -> int:
    """Open a job, print its cost, ask, run it, and print its result. Returns the exit status."""
    if isinstance(where, RemoteConfig) and where.is_remote:
        return _run_remotely(config, options, where, settings, view)
    from rewardharness.cli.report import counter, event_printer
    from rewardharness.runs.job import Session, Stopped, StopRequest
    from rewardharness.runs.store import check_manifest

    job, again = open_job(config, options, settings, view), options.restart
    if not again and (done := job.finished()) is not None:
        if not options.quiet or options.dry_run:
            output.note(f"The run in {job.folder} is complete; nothing is left to judge. --restart starts over.")
        return _show_plan(job, options, view) if options.dry_run else view.show(job, done, options)
    if not again and (job.folder / RUN_MANIFEST).is_file():
        check_manifest(job.folder, job.manifest)  # the cost counts what is judged there
    view.begin(job, options)
    cost = job.cost(restart=again, retry_failed=options.retry_failed)
    if options.dry_run or not options.quiet:
        print_cost(cost, job.limits, job.folder)
    if options.dry_run:
        return _show_plan(job, options, view)
    confirm(view.costs(job, cost, options), options.yes, "Set a limit", strict=view.strict)
    stop, given = StopRequest(), {**vars(job.config), **vars(options)}
    notice = "Stopping after the judgments in progress; Ctrl-C again stops at once."
    try:
        with (
            stop.listening(lambda: output.note(notice)),
            output.Bars(options.quiet) as bars,
            shown(bars.wait),
            executor_of(config, where) as executor,
        ):
            session = Session(
                bars.show,
                stop,
                again,
                options.retry_failed,
                {"words": WORDS.get(), **{name: value for name, value in given.items() if name != "replays" or value}},
                options.track or None,
                event_printer(options.quiet),
                counter(options.quiet),
            )
            result = job.run(session, executor)
    except (Stopped, KeyboardInterrupt) as error:
        why = f": {error}" * bool(str(error))
        first = "Raise the budget and resume" if why else "Resume"
        output.note(f"Stopped{why}; nothing is lost. {first} with: {_resume_command(options, job.folder)}")
        return INTERRUPTED
    return view.show(job, result, options)


def _show_plan(job: "Job[Any, Any]", options: RunOptions, view: View) -> int:
    preview = job.preview(restart=options.restart, retry_failed=options.retry_failed)
    if options.json:
        output.emit(preview)
    else:
        view.plan(job, preview)
    return 0


def executor_of(config: Any, where: ClusterConfig) -> AbstractContextManager[Any]:
    """Return what judges: a cluster, or None for this process."""
    if where.on != RAY and getattr(config, "engine", "") != RAY:
        return nullcontext()
    from rewardharness.judging.on_ray import RayExecutor

    return RayExecutor(getattr(config, "address", None), getattr(config, "workers", None))


def print_cost(cost: "Cost", limits: "SpendingLimits", place: Path | str = "") -> None:
    """Print the expected cost of a job."""
    from rewardharness.judging.evidence import crops_words

    for line in (*cost.words(limits, place), *([crops_words(cost.crops)] if cost.crops else [])):
        output.note(line)


def _resume_command(options: RunOptions, folder: Path) -> str:
    arguments = [word for word in WORDS.get() if word != "--restart"]
    if options.run_folder is None and folder not in map(Path, arguments):
        arguments += ["--run", str(folder)]
    return shell("rh {}", arguments)


def _run_remotely(config: "JobConfig", options: RunOptions, where: RemoteConfig, settings: Settings, view: View) -> int:
    """Run a command as a job on the Hub, or follow the job that runs it already. Returns the exit status."""
    from rewardharness.hub.jobs import COMPLETED, JobsClient
    from rewardharness.library.hub import usual_access
    from rewardharness.remote.job import client_of, plan_job, read_remote, start_job

    for name in ("check", "retry_failed"):
        if getattr(options, name, False):
            option = name.replace("_", "-")
            raise InputError(f"--{option} runs on this computer.", next_step=f"Leave out --on {where.on}.")
    client = JobsClient(usual_access(settings), where.namespace or "")
    plan = plan_job(config, where, settings, client, folder=options.run_folder, restart=options.restart)
    before = read_remote(plan.folder)
    if options.dry_run:
        if options.json:
            output.emit(plan.preview)
        else:
            _print_plan(plan)
        return 0
    if before is not None and before.job and not options.restart:
        status = client_of(before, settings).look(before.job)
        if status.stage == COMPLETED:
            output.note(f"The job of {plan.folder} has completed. --restart starts over.")
        if status.stage == COMPLETED or not status.ended:
            return follow_job(plan.folder, settings, view, options)
    if not options.quiet:
        _print_plan(plan, short=True)
    confirm(True, options.yes, "Choose a cheaper --flavor or a shorter --timeout")
    run = start_job(plan, client)
    output.note(f"Job {run.job}: {run.url}")
    return follow_job(plan.folder, settings, view, options)


def follow_job(folder: Path, settings: Settings, view: View, options: RunOptions = NO_OPTIONS) -> int:
    """Print the log of the job of a run folder until it ends, fetch the run folder, and print the result."""
    from rewardharness.remote.job import Follower, client_of, end_of

    run = _job_of(folder)
    show = (lambda line: None) if options.quiet else (lambda line: output.note(f"job: {line}"))
    try:
        run = Follower(folder, client_of(run, settings), show).follow()
    except KeyboardInterrupt:
        output.note(f"Job {run.job} goes on, and costs money. Its page: {run.url}")
        output.note(shell("Follow it: rh runs follow {}   Cancel it: rh runs stop {}", folder, folder))
        return INTERRUPTED
    output.note(f"Job {run.job}: {run.stage.lower()}; {run.cost}.")
    end_of(run, folder)
    view.show_folder(folder, options)
    if run.push_to and not options.json:
        output.say(f"Library on the Hub: {run.push_to}")
    return 0


def stop_job(folder: Path, settings: Settings) -> None:
    """Cancel the job of a run folder."""
    from rewardharness.remote.job import client_of

    run = _job_of(folder)
    client = client_of(run, settings)
    if client.look(run.job).ended:
        output.say(f"Job {run.job} has ended.")
        return
    client.cancel(run.job)
    output.say(f"Job {run.job} is canceled. The same command resumes the run.")


def print_remote(folder: Path) -> None:
    """Print which job a run is one of."""
    run = _job_of(folder)
    output.say(f"job: {run.job}, {run.stage.lower()} when it was last followed, {run.cost}")
    output.say(f"page: {run.url}")
    output.say(
        f"repository: datasets/{run.repo}, folder {run.path}" + (f"; Library: {run.push_to}" * bool(run.push_to))
    )
    output.say(shell("Follow it: rh runs follow {}", folder))


def _job_of(folder: Path) -> "RemoteRun":
    from rewardharness.remote.job import read_remote

    run = read_remote(folder)
    assert run is not None
    return run


def _print_plan(plan: "RemotePlan", *, short: bool = False) -> None:
    """Print a job on the Hub. Secrets are named only."""
    show = output.note if short else output.say
    spec, run = plan.spec, plan.run
    if not short:
        show(f"Image: {spec.image}")
        show(shell("Command: {}", spec.command))
        show(f"Environment: {' '.join(f'{name}={value}' for name, value in spec.environment.items())}")
        show(f"Secrets: {', '.join(sorted(spec.secrets))} (by name; values are never shown)")
        size = f"{len(plan.archive):,} bytes" if plan.archive else "uploaded already"
        show(f"Inputs: {run.inputs} ({size})")
    show(f"Hardware: {spec.flavor}, account {run.namespace}, for at most {spec.timeout / 3600:g} h")
    show(f"Writes: datasets/{run.repo} (private), folder {run.path}" + (f"; Library {run.push_to}" * bool(run.push_to)))
    if run.price is not None and plan.most is not None:
        show(f"Price: ${run.price:.2f} per hour; at most ${plan.most:.2f} with this --timeout.")
    for warning in plan.warnings:
        show(f"Note: {warning}")
    show(f"Run folder: {plan.folder}" + ("" if short else ". Nothing was started."))

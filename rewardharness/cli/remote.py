"""Commands that run as a Hugging Face Job: preview, confirmation, start, log and result."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from rewardharness.cli import output
from rewardharness.cli.confirm import confirm
from rewardharness.cli.options import RunOptions
from rewardharness.cli.output import INTERRUPTED
from rewardharness.errors import InputError, shell
from rewardharness.remote.config import RAY, RemoteConfig
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.jobs import JobConfig
    from rewardharness.remote.job import RemotePlan, RemoteRun


def judging_on(where: RemoteConfig, options: RunOptions) -> AbstractContextManager[None]:
    """Return the context in which a command judges: with `--on ray` on a cluster, except for a dry run."""
    if where.on != RAY or options.dry_run:
        return nullcontext()
    from rewardharness.judging.on_ray import judging_on_ray

    return judging_on_ray()


def run_remotely(config: "JobConfig", options: RunOptions, where: RemoteConfig, settings: Settings) -> int:
    """Run a command as a job, or follow the job that runs it already. Returns the exit status."""
    from rewardharness.hub.jobs import COMPLETED, JobsClient
    from rewardharness.library.hub import usual_access
    from rewardharness.remote.job import client_of, plan_job, read_remote, start_job

    _check(options, where)
    client = JobsClient(usual_access(settings), where.namespace or "")
    plan = plan_job(config, where, settings, client, folder=options.run_folder, restart=options.restart)
    before = read_remote(plan.folder)
    if options.dry_run:
        if options.json:
            output.emit(plan.to_json())
        else:
            _print_plan(plan)
        return 0
    if before is not None and before.job and not options.restart:
        status = client_of(before, settings).look(before.job)
        if not status.ended:
            return follow_job(plan.folder, settings, options)
        if status.stage == COMPLETED:
            output.note(f"The job of {plan.folder} has completed. --restart starts over.")
            return follow_job(plan.folder, settings, options)
    if not options.quiet:
        _print_plan(plan, short=True)
    confirm(True, bool(getattr(options, "yes", False)), "Choose a cheaper --flavor or a shorter --timeout")
    run = start_job(plan, client)
    output.note(f"Job {run.job}: {run.url}")
    return follow_job(plan.folder, settings, options)


def follow_job(folder: Path, settings: Settings, options: RunOptions) -> int:
    """Print the log of the job of a run folder until it ends, fetch the run folder, and print the result."""
    from rewardharness.remote.job import Follower, client_of, end_of, read_remote

    run = read_remote(folder)
    assert run is not None

    def show(line: str) -> None:
        if not options.quiet:
            output.note(f"job: {line}")

    try:
        run = Follower(folder, client_of(run, settings), show).follow()
    except KeyboardInterrupt:
        output.note(f"Job {run.job} goes on, and costs money. Its page: {run.url}")
        output.note(shell("Follow it: rh runs follow {}   Cancel it: rh runs stop {}", folder, folder))
        return INTERRUPTED
    output.note(f"Job {run.job}: {run.stage.lower()}; {run.cost}.")
    end_of(run, folder)
    _show_result(run, folder, as_json=options.json)
    return 0


def stop_job(folder: Path, settings: Settings) -> None:
    """Cancel the job of a run folder."""
    from rewardharness.remote.job import client_of, read_remote

    run = read_remote(folder)
    assert run is not None
    client = client_of(run, settings)
    if client.look(run.job).ended:
        output.say(f"Job {run.job} has ended.")
        return
    client.cancel(run.job)
    output.say(f"Job {run.job} is canceled. The same command resumes the run.")


def print_remote(folder: Path) -> None:
    """Print which job a run is one of."""
    from rewardharness.remote.job import read_remote

    run = read_remote(folder)
    assert run is not None
    output.say(f"job: {run.job}, {run.stage.lower()} when it was last followed, {run.cost}")
    output.say(f"page: {run.url}")
    output.say(
        f"repository: datasets/{run.repo}, folder {run.path}" + (f"; Library: {run.push_to}" * bool(run.push_to))
    )
    output.say(shell("Follow it: rh runs follow {}", folder))


def _check(options: RunOptions, where: RemoteConfig) -> None:
    for name in ("check", "retry_failed"):
        if getattr(options, name, False):
            option = name.replace("_", "-")
            raise InputError(f"--{option} runs on this computer.", next_step=f"Leave out --on {where.on}.")


def _print_plan(plan: "RemotePlan", *, short: bool = False) -> None:
    """Print a job. Secrets are named only."""
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


def _show_result(run: "RemoteRun", folder: Path, *, as_json: bool) -> None:
    """Print the result of a finished run, as its command prints it."""
    from rewardharness.benchmark.result import read_result
    from rewardharness.cli.benchmark_reports import print_result
    from rewardharness.cli.evolve_report import show_report
    from rewardharness.evolution.report import read_report

    job = run.asked["job"]
    if job == "evolve":
        show_report(read_report(folder), folder, as_json=as_json)
    elif job == "benchmark":
        print_result(read_result(folder), folder, as_json=as_json)
    elif as_json:
        output.emit({"folder": str(folder)})
    else:
        output.say(f"Results: {folder}   Show them: {shell('rh runs show {}', folder)}")
    if run.push_to and not as_json:
        output.say(f"Library on the Hub: {run.push_to}")

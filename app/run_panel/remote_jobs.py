"""Evolutions as jobs on the Hub: what may run there, who pays, and the status that the page shows."""

from dataclasses import dataclass, replace
from pathlib import Path

from app.library.libraries import RightsError, Visitor
from app.run_panel.new_jobs import BUILTIN, NO_OWN_KEYS, NewJob, PreparedJob, options_of
from rewardharness.codec import from_json, to_json
from rewardharness.data.opening import DEMO, FEEDBACK, HUB
from rewardharness.errors import InputError
from rewardharness.evolution.config import EvolveConfig
from rewardharness.hub.jobs import JobsClient
from rewardharness.library.hub import split_spec, usual_access
from rewardharness.library.opening import THIN
from rewardharness.remote.job import REMOTE, RemoteRun, plan_job, read_remote
from rewardharness.schema import Json
from rewardharness.settings import Settings

SHOWN_LINES = 12
"""Number of shown lines of the log."""
LOG_TAIL = 16384
"""Bytes at the end of a log that are read."""
LOG_LINE = "job: "
"""Beginning of the lines of the job in the log of the process that follows it."""


@dataclass(frozen=True)
class RemoteStatus:
    """The job of a run, and the end of its log."""

    run: RemoteRun
    lines: tuple[str, ...] = ()


def token_of(visitor: Visitor) -> dict[str, str]:
    """Return the environment of a visitor's run on the Hub: their token, and none of the keys of the app.

    Raises:
        RightsError: If the visitor is not logged in.
    """
    if not visitor.token:
        raise RightsError("You are not logged in.", next_step="Log in first; the job is paid by your account.")
    return {**NO_OWN_KEYS, "HF_TOKEN": visitor.token}


def expect_remote(job: NewJob, settings: Settings, visitor: Visitor, *, local: bool) -> tuple[PreparedJob, Json]:
    """Return a job on the Hub, and its preview with the highest cost. Nothing is spent.

    Args:
        job: The job as the form describes it. Its judge is one that the job serves, or the pixel-based one.
        settings: The settings.
        visitor: Who pays, unless the user is at this computer.
        local: Whether the user is at this computer.

    Raises:
        HarnessError: If it cannot run there, or the account may not start jobs.
    """
    config = from_json(type(job.config), to_json(job.config))
    if not isinstance(config, EvolveConfig):
        raise InputError("Only evolutions run as jobs from this page.", next_step="Use the command line.")
    access, environment = usual_access(settings), dict[str, str]()
    if not local:
        environment = token_of(visitor)
        config = _visitor_config(config, settings)
        access = replace(access, token=visitor.token)
    folder = settings.home / "runs" / "preview"  # a name is given when the run starts
    plan = plan_job(config, job.where, settings, JobsClient(access), folder=folder)
    data = Path(config.data).name if Path(config.data).is_absolute() else config.data.removeprefix(HUB)
    preview = {"remote": plan.preview, "data": data, "corrections": 0}
    return PreparedJob(config, environment, job.where), preview


def _visitor_config(config: EvolveConfig, settings: Settings) -> EvolveConfig:
    """Return the configuration of a visitor's job: nothing of this computer goes into it."""
    data = config.data
    if data == FEEDBACK and settings.feedback_repo:
        data = f"{HUB}{settings.feedback_repo}"
    if data != DEMO and not data.startswith(HUB):
        step = "Choose the demonstration set or a dataset on the Hub."
        raise InputError("These data are not on the Hub.", next_step=step)
    judge = config.judge or ""
    if judge != "measured" and (not judge.startswith("vllm:") or "@http" in judge):
        raise InputError("The job can serve a model only.", next_step="Type its name on the Hub.")
    named = config.library == settings.library and split_spec(settings.library) is not None
    library = config.library if named or config.library == THIN else BUILTIN
    kept = options_of(config, "field", "schedule", "proposals", "iterations", "seed", "budget_seconds")
    return EvolveConfig(data, library=library, judge=judge, **kept)


def is_remote(folder: Path) -> bool:
    """Return whether a run folder is one of a job on the Hub."""
    return (folder / REMOTE).is_file()


def remote_status(folder: Path, log: Path) -> RemoteStatus | None:
    """Return the job of a run and the end of its log; None for a run of this computer."""
    run = read_remote(folder)
    if run is None:
        return None
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - LOG_TAIL))
            text = stream.read().decode("utf-8", "replace")
    except OSError:
        text = ""
    lines = [line.removeprefix(LOG_LINE) for line in text.splitlines() if line.startswith(LOG_LINE)]
    return RemoteStatus(run, tuple(lines[-SHOWN_LINES:]))

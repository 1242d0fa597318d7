"""A run as a Hugging Face Job: plan it, start it, follow it, and copy its run folder here.

The repository of results, a private dataset `NAMESPACE/rewardharness-runs`, has a folder per run: the inputs, `run/`
(the run folder) and `cache/`. The local run folder holds `remote.json`, which names the job, and a copy of `run/`.
"""

import json
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from rewardharness.codec import from_json, to_json
from rewardharness.errors import HarnessError, InputError, RunError
from rewardharness.evolution.config import EvolveConfig
from rewardharness.files import content_id, hold, read_json, sha256, write_bytes, write_json
from rewardharness.hub.errors import HubError, MissingRepoError, UnreachableError
from rewardharness.hub.jobs import COMPLETED, Hardware, JobsClient, JobSpec, JobStatus
from rewardharness.hub.repository import MAIN, Access, Repo
from rewardharness.jobs import JobConfig, name_of
from rewardharness.library.hub import usual_access
from rewardharness.models.serving import Gpu, plan_servers
from rewardharness.remote.config import RemoteConfig
from rewardharness.remote.inputs import keys_of, pack, read_inputs, served_model
from rewardharness.runs.job import STOP_FILE
from rewardharness.runs.records import CONFIG
from rewardharness.runs.store import LOCK, MANIFEST
from rewardharness.settings import Settings

REMOTE = "remote.json"
"""File of a run folder that names its job."""
RESULTS_REPO = "rewardharness-runs"
PLAIN_IMAGE, VLLM_IMAGE = "python:3.12", "vllm/vllm-openai:v0.33.0"
PLAIN_FLAVOR, GPU_FLAVOR = "cpu-upgrade", "a10g-large"
INTERVAL = 120.0
"""Seconds between two pushes of the run folder, which are lost if a job is killed."""
POLL = 3.0
"""Seconds between two looks at a job."""
PATIENCE = 1800.0
"""Seconds after which following ends with an error if the Hub cannot be reached."""
LAST_LINES = 5.0
"""Seconds to wait for the end of the log of a job that has ended."""
_OWN = frozenset({REMOTE, CONFIG, LOCK, STOP_FILE})
"""Files of a local run folder that are not copied from the repository."""


class JobEndError(HarnessError):
    """A job has ended without completing its run."""

    title = "The job did not complete the run"


@dataclass(frozen=True)
class RemoteRun:
    """Content of `remote.json`."""

    path: str
    """Folder of the run in the repository."""
    repo: str
    namespace: str
    inputs: str
    """Path of the archive of the inputs in the repository."""
    asked: Mapping[str, Any]
    """What was asked for; another command in the folder is refused."""
    flavor: str
    price: float | None = None
    """US dollars per hour; None if unknown."""
    push_to: str = ""
    timeout: str = ""
    image: str = ""
    """Image that was chosen; empty for the default one."""
    job: str = ""
    """Id of the latest job; empty before the first."""
    url: str = ""
    stage: str = ""
    seconds: float = 0.0
    """Duration of the latest job."""

    @property
    def words(self) -> list[str]:
        """The options that resume it, as words of a command line."""
        named = {"flavor": self.flavor, "namespace": self.namespace, "timeout": self.timeout, "image": self.image}
        return RemoteConfig(on="hf-jobs", **{name: value for name, value in named.items() if value}).words

    @property
    def cost(self) -> str:
        """Duration and cost of the latest job, as text."""
        money = "" if self.price is None else f", about ${self.price * self.seconds / 3600:.2f}"
        return f"{self.seconds / 60:.0f} min on {self.flavor}{money}"


@dataclass(frozen=True)
class RemotePlan:
    """A job that can be started."""

    run: RemoteRun
    spec: JobSpec
    folder: Path
    """The local run folder."""
    archive: bytes = field(repr=False)
    """The inputs; empty if they are on the Hub already."""
    warnings: tuple[str, ...] = ()

    @property
    def most(self) -> float | None:
        """The highest cost in US dollars: that of the whole timeout."""
        return None if self.run.price is None else self.run.price * self.spec.timeout / 3600

    @property
    def preview(self) -> dict[str, Any]:
        """What a dry run shows. Secrets are named only."""
        run, spec = self.run, self.spec
        return {
            "folder": str(self.folder),
            **{name: to_json(getattr(spec, name)) for name in ("image", "command", "flavor", "environment")},
            "timeout_seconds": spec.timeout,
            "secrets": sorted(spec.secrets),
            "writes": [f"datasets/{run.repo}", *filter(None, (run.push_to,))],
            "inputs": {"path": run.inputs, "bytes": len(self.archive)},
            "price_per_hour": run.price,
            "highest_cost": self.most,
            "warnings": list(self.warnings),
        }


def read_remote(folder: Path) -> RemoteRun | None:
    """Return the job of a run folder; None if its run is not one of a job."""
    return from_json(RemoteRun, read_json(folder / REMOTE)) if (folder / REMOTE).is_file() else None


def plan_job(
    config: JobConfig,
    where: RemoteConfig,
    settings: Settings,
    client: JobsClient,
    *,
    folder: Path | None = None,
    restart: bool = False,
) -> RemotePlan:
    """Plan a job. Nothing is written or spent.

    Args:
        config: The configuration of the command.
        where: Hardware and account.
        settings: Default judge and Library, and keys.
        client: Jobs of the account.
        folder: The local run folder; None for one below `RH_HOME/runs` that follows from the configuration.
        restart: Start over, with new inputs.

    Raises:
        InputError: If the job could not run elsewhere, or the hardware does not exist.
        RunError: If the folder holds another run.
        HubError: If the Hub refuses, or cannot be reached.
    """
    if where.push_to and not isinstance(config, EvolveConfig):
        raise InputError("--push-to is for an evolved Library.", next_step="Leave it out.")
    config = config.with_defaults(settings)
    job = name_of(config)
    asked = json.loads(json.dumps({"job": job, **to_json(config)}))  # as it is read from a file
    folder = folder or settings.home / "runs" / f"{job}-{content_id(asked)[:12]}"
    before = read_remote(folder)
    changed = before is not None and (before.asked != asked or (where.push_to or before.push_to) != before.push_to)
    if changed and not restart:
        raise RunError(f"{folder} holds the run of another job.", next_step="Choose another folder, or --restart.")
    if before is None and (folder / MANIFEST).exists():
        raise RunError(f"{folder} holds a run of this computer.", next_step="Choose another folder with --run.")
    model = served_model(config)
    hardware, warnings = _hardware(where, model, client)
    if before is not None and not restart:
        run, archive = replace(before, flavor=hardware.name, price=hardware.price), b""
    else:
        repo = f"{client.namespace}/{RESULTS_REPO}"
        word = re.sub(r"[^A-Za-z0-9_-]+", "-", folder.resolve().name).strip("-")[:50] or "run"
        path = f"{word}-{content_id(asked)[:8]}"
        about = {"run": path, "repo": repo, "push_to": where.push_to or "", "interval": INTERVAL}
        archive = pack(read_inputs(config, settings, client.access), about)
        place = f"{path}/inputs-{sha256(archive)[:12]}.zip"
        run = RemoteRun(path, repo, client.namespace, place, asked, hardware.name, hardware.price, where.push_to or "")
    run = replace(run, timeout=where.timeout, image=where.image or "")
    return RemotePlan(run, _spec(run, config, where, settings, client, restart), folder, archive, warnings)


def _hardware(where: RemoteConfig, model: str, client: JobsClient) -> tuple[Hardware, tuple[str, ...]]:
    """Return the hardware of a job, and warnings about it."""
    name = where.flavor or (GPU_FLAVOR if model else PLAIN_FLAVOR)
    listed = {flavor.name: flavor for flavor in client.hardware()}
    if name not in listed:
        known = ", ".join(f"{flavor.name} (${flavor.price:.2f} per hour)" for flavor in listed.values())
        raise InputError(f"Unknown hardware {name[:60]!r}.", next_step=f"Choose --flavor from: {known}.")
    hardware = listed[name]
    if not model:
        return hardware, ("No model is served; the GPU is not used.",) if hardware.gpus else ()
    if not hardware.gpus:
        raise InputError(f"{name} has no GPU, and the job serves {model}.", next_step="Choose --flavor with a GPU.")
    try:
        plan_servers(model, [Gpu(str(number), hardware.title, hardware.gpu_memory) for number in range(hardware.gpus)])
    except InputError as error:
        return hardware, (error.message,)
    return hardware, ()


def _spec(
    run: RemoteRun, config: JobConfig, where: RemoteConfig, settings: Settings, client: JobsClient, restart: bool
) -> JobSpec:
    start = files("hub_templates").joinpath("job_start.txt").read_text(encoding="utf-8")
    endpoint = (settings.hub_endpoint or "https://huggingface.co").rstrip("/")
    url = f"{endpoint}/datasets/{run.repo}/resolve/{MAIN}/{run.inputs}"
    learned = {"RH_LEARNED_TEXT": settings.learned_text, "RH_LEARNED_IMAGE": settings.learned_image}
    environment = {"PYTHONUNBUFFERED": "1", "HF_ENDPOINT": settings.hub_endpoint, **learned}
    return JobSpec(
        where.image or (VLLM_IMAGE if served_model(config) else PLAIN_IMAGE),
        ("python3", "-c", start, url, *(["--restart"] if restart else [])),
        run.flavor,
        where.seconds,
        {name: value for name, value in environment.items() if value},
        {"HF_TOKEN": client.token, **keys_of(config, settings)},
        name=run.path[:60],
    )


def start_job(plan: RemotePlan, client: JobsClient) -> RemoteRun:
    """Upload the inputs and start the job. Its id is in the run folder when this returns.

    Raises:
        HubError: If the Hub refuses, or cannot be reached.
    """
    run, folder = plan.run, plan.folder
    repo = Repo(run.repo, client.access, "dataset")
    repo.create(private=True)
    _check_private(repo, "runs contain your data", "--namespace")
    if run.push_to:
        with suppress(MissingRepoError):  # the job creates it
            _check_private(Repo(run.push_to, client.access), "a job pushes to private repositories only", "--push-to")
    if plan.archive:
        repo.commit({run.inputs: plan.archive}, (), None, (f"{run.path}: inputs", ""))
    status = client.start(plan.spec)
    run = replace(run, job=status.id, url=status.url, stage=status.stage, seconds=0.0)
    write_json(folder / CONFIG, run.asked)
    write_json(folder / REMOTE, to_json(run))
    return run


def _check_private(repo: Repo, why: str, option: str) -> None:
    if not repo.head().private:
        step = f"Make it private on {repo.page}/settings, or give another {option}."
        raise HubError(f"{repo.name} is public; {why}.", next_step=step)


def client_of(run: RemoteRun, settings: Settings) -> JobsClient:
    """Return the jobs of the account of a run."""
    return JobsClient(usual_access(settings), run.namespace)


@dataclass
class Follower:
    """Follows the job of a run folder, and copies its run folder here.

    Args:
        folder: The local run folder.
        client: Jobs of the account.
        show: Receives the lines of the log.
    """

    folder: Path
    client: JobsClient
    show: Callable[[str], None]

    def follow(self) -> RemoteRun:
        """Wait until the job ends. A file `stop` in the run folder cancels it.

        Raises:
            RunError: If another process follows it.
            HubError: If the Hub refuses.
        """
        run = read_remote(self.folder)
        assert run is not None and run.job
        with _held(self.folder), tempfile.TemporaryDirectory() as scratch:
            copy = _Copy(self.folder, run, replace(self.client.access, cache=Path(scratch)))
            log = threading.Thread(target=self._show_log, args=(run.job,), name=f"log {run.job}", daemon=True)
            log.start()
            clock, reached = threading.Event(), time.monotonic()
            while True:
                try:
                    status = self.client.look(run.job)
                    run = self._keep(run, status)
                    copy.update()
                    reached = time.monotonic()
                    if status.ended:
                        break
                except UnreachableError:  # the job goes on meanwhile
                    if time.monotonic() - reached > PATIENCE:
                        raise
                if (self.folder / STOP_FILE).exists():
                    self.client.cancel(run.job)
                    (self.folder / STOP_FILE).unlink(missing_ok=True)
                clock.wait(POLL)
            log.join(LAST_LINES)
        (self.folder / STOP_FILE).unlink(missing_ok=True)
        return run

    def _keep(self, run: RemoteRun, status: JobStatus) -> RemoteRun:
        """Store the status of the job in the run folder."""
        new = replace(run, stage=status.stage, seconds=status.seconds)
        if new.stage != run.stage:
            self.show(f"{status.stage.lower()} {status.message}".strip())
        if new != run:
            write_json(self.folder / REMOTE, to_json(new))
        return new

    def _show_log(self, job: str) -> None:
        with suppress(HubError):  # the status is followed all the same
            for line in self.client.logs(job, follow=True):
                self.show(line)


def end_of(run: RemoteRun, folder: Path) -> None:
    """Check that the job of a run has completed.

    Raises:
        JobEndError: If it was canceled or ended with an error.
    """
    if run.stage != COMPLETED:
        what = "was canceled" if run.stage == "CANCELED" else "ended with an error; its log says why"
        step = f"The same command resumes the run. The page of the job: {run.url}"
        raise JobEndError(f"The job of {folder.name} {what}.", next_step=step)


class _Copy:
    """A copy of the run folder in the repository."""

    def __init__(self, folder: Path, run: RemoteRun, access: Access) -> None:
        self._folder, self._prefix = folder, f"{run.path}/run/"
        self._repo, self._commit = Repo(run.repo, access, "dataset"), ""

    def update(self) -> None:
        """Copy what has changed."""
        head = self._repo.head(MAIN).commit
        if head == self._commit:
            return
        tree = self._repo.tree(head)
        places = {path: place for path in tree if (place := self._place(path)) is not None}
        wanted = [path for path, place in places.items() if not tree[path].matches(place)]
        for path, file in self._repo.fetch(head, wanted, tree).items():
            write_bytes(places[path], file.read_bytes())
        kept = {*places.values()}
        for file in [entry for entry in self._folder.rglob("*") if entry.is_file()] if kept else ():
            if file not in kept and file.name not in _OWN:
                file.unlink()
        self._commit = head

    def _place(self, path: str) -> Path | None:
        """Return the local file of a path in the repository; None for one that is not copied."""
        parts = path.removeprefix(self._prefix).split("/")
        if not path.startswith(self._prefix) or ".." in parts or "" in parts or parts[0] in _OWN:
            return None
        return self._folder.joinpath(*parts)


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold the lock of a run folder, so that it counts as running."""
    try:
        lock = hold(folder / LOCK)
    except BlockingIOError:
        problem = f"Another process follows the job of {folder}."
        raise RunError(problem, next_step="Follow it with: rh runs follow") from None
    try:
        yield
    finally:
        os.close(lock)

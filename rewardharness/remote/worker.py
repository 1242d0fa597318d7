"""The work of a job: serve the model, run the command, and push the run folder to the Hub while it runs.

`hub_templates/job_start.txt` starts it in the folder of the unpacked inputs:

    job.json    configuration, model, and the repositories that are written
    package/    the code of this package, and packages/ what it needs
    inputs/     local files of the configuration
    home/       RH_HOME, with the cached judgments, which are pushed too
    RUN/        the run folder; a resumed job downloads it first
"""

import os
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rewardharness.codec import from_json, to_json
from rewardharness.errors import describe
from rewardharness.files import read_json, write_bytes, write_json
from rewardharness.hub.errors import HubError
from rewardharness.hub.repository import MAIN, Repo
from rewardharness.jobs import JOBS
from rewardharness.judging.cache import FILE as CACHE
from rewardharness.library.hub import usual_access
from rewardharness.models.serving import Gpu, ServingOptions, find_gpus, find_vllm, plan_servers, run_servers
from rewardharness.remote.inputs import with_server
from rewardharness.runs.store import LOCK
from rewardharness.settings import Settings, child_environment

PAUSE = 0.5
"""Seconds between two looks at the command."""
GRACE = 20.0
"""Seconds that a command has to stop after SIGTERM."""
STOPPED = 143
"""Exit status of a job that was canceled."""


class _Done(Exception):
    """The command has ended; the servers are stopped."""


@dataclass
class Worker:
    """One job.

    Args:
        root: The folder of the job.
        settings: Settings of the job.
        note: Prints a line into the log.
    """

    root: Path
    settings: Settings
    note: Callable[[str], None]
    about: Mapping[str, Any] = field(init=False)
    repo: Repo = field(init=False)
    status: int = field(default=0, init=False)
    """Exit status of the command."""
    _pushed: dict[str, tuple[int, int]] = field(default_factory=dict, init=False)
    """Time and size of the pushed files."""

    def __post_init__(self) -> None:
        self.about = read_json(self.root / "job.json")
        self.repo = Repo(str(self.about["repo"]), usual_access(self.settings), "dataset")

    @property
    def run_folder(self) -> Path:
        """The run folder."""
        return self.root / str(self.about["run"])

    @property
    def _prefix(self) -> str:
        return f"{self.about['run']}/"

    def work(self, *, restart: bool) -> int:
        """Do the job. Returns the exit status."""
        if not restart:
            self._fetch()
        model = str(self.about["model"])
        if not model:
            self._run("", restart)
        else:
            gpus = find_gpus(self.settings.visible_gpus) or (Gpu("0", "unknown", 0),)
            plan = plan_servers(model, gpus, ServingOptions(port=_free_port()))
            self.note(f"Serving {model} with vLLM.")

            def ready() -> None:
                self._run(plan.judge, restart)
                raise _Done

            with suppress(_Done):
                run_servers(plan, find_vllm(), ready)
        return self.status

    def _fetch(self) -> None:
        """Download what an earlier job of this run has pushed."""
        head = self.repo.head(MAIN).commit
        tree = self.repo.tree(head)
        wanted = [path for path in tree if path.startswith((f"{self._prefix}run/", f"{self._prefix}cache/"))]
        for path, file in self.repo.fetch(head, wanted, tree).items():
            kind, _, name = path.removeprefix(self._prefix).partition("/")
            place = self.run_folder / name if kind == "run" else self.root / "home" / "cache" / name
            write_bytes(place, file.read_bytes())
        if wanted:
            self.note("Resuming the run of an earlier job.")

    def _run(self, judge: str, restart: bool) -> None:
        """Run the command and push its files, at intervals and at the end."""
        arguments = self._words(judge, restart)
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "rewardharness", *arguments],
            cwd=self.root,
            env=child_environment(
                {"PYTHONPATH": f"{self.root}/package:{self.root}/packages", "RH_HOME": str(self.root / "home")}
            ),
        )
        due = time.monotonic() + float(self.about["interval"])
        try:
            while child.poll() is None:
                if time.monotonic() >= due:
                    self._push()
                    due = time.monotonic() + float(self.about["interval"])
                time.sleep(PAUSE)
            self.status = child.returncode
        except KeyboardInterrupt:  # the job is canceled
            self.note("The job ends; the run can be resumed.")
            child.terminate()
            try:
                child.wait(GRACE)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            self.status = STOPPED
        self._push()
        library = self.run_folder / "library"
        if self.status == 0 and self.about["push_to"] and library.is_dir():
            self._push_library(library, str(self.about["push_to"]))

    def _words(self, judge: str, restart: bool) -> Sequence[str]:
        job = str(self.about["job"])
        fields = {name: value for name, value in self.about["config"].items() if name != "job"}
        config = with_server(from_json(JOBS[job].config, fields), str(self.about["model"]), judge)
        file = self.root / "config.json"
        write_json(file, {"job": job, **to_json(config)})
        arguments = [job, "--config", str(file), "--run", str(self.run_folder), *(["--restart"] if restart else [])]
        return [*arguments, "--yes"]

    def _push(self) -> None:
        """Push the files that have changed. A push that fails is repeated at the next interval."""
        now = {f"run/{path.relative_to(self.run_folder).as_posix()}": path for path in self._run_files()}
        if copy := self._cache_copy():
            now[f"cache/{CACHE}"] = copy
        marks, added = dict[str, tuple[int, int]](), dict[str, bytes | Path]()
        for name, path in now.items():
            with suppress(FileNotFoundError):  # the command replaces files meanwhile
                stat = path.stat()
                mark = stat.st_mtime_ns, stat.st_size
                if mark != self._pushed.get(name):
                    added[f"{self._prefix}{name}"] = path.read_bytes()
                marks[name] = mark
        try:
            gone = self._pushed.keys() - marks.keys()
            if added or gone:
                title = f"{self.about['run']}: {len(added)} files"
                self.repo.commit(added, [f"{self._prefix}{name}" for name in gone], None, (title, ""))
                self._pushed = marks
        except (HubError, OSError) as error:
            self.note(f"The run folder was not pushed: {describe(error).detail}")

    def _run_files(self) -> Iterator[Path]:
        """Yield the files of the run folder, which the command may be replacing."""
        for where, folders, names in os.walk(self.run_folder):
            folders[:] = [name for name in folders if not name.endswith(".tmp")]
            yield from (Path(where, name) for name in names if name != LOCK and not name.endswith(".tmp"))

    def _cache_copy(self) -> Path | None:
        """Copy the cached judgments, which the command may be writing, if they have changed."""
        source, copy = self.root / "home" / "cache" / CACHE, self.root / CACHE
        if not source.is_file():
            return None
        files = [file for file in (source, source.with_name(f"{CACHE}-wal")) if file.is_file()]
        if not copy.is_file() or max(file.stat().st_mtime for file in files) > copy.stat().st_mtime:
            one, other = sqlite3.connect(source), sqlite3.connect(copy)
            try:
                one.backup(other)
            finally:
                one.close()
                other.close()
        return copy

    def _push_library(self, library: Path, repo: str) -> None:
        from rewardharness.library.hub import PushOptions, push

        done = push(library, repo, PushOptions(private=True), access=usual_access(self.settings))
        self.note(f"Library: {repo}, commit {done.commit}.")


def _free_port() -> int:
    """Return a port that no program of the image uses. Servers of further GPUs take the next ones."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

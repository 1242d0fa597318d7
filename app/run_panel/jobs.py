"""Processes of jobs: start, stop, resume, and find them again.

A run is a `rh evolve` or `rh benchmark` process in its own session, so that it outlives the page and the app. The app
stores these files in `jobs/`, next to the run folders:

    NAME.json   the configuration that the run was started with
    NAME.log    standard error of its latest process
    NAME.lock   locked by the process while it is alive

Everything else is read from the run folder. The app writes nothing to it but the request to stop, as `rh runs stop`
does. Keys are passed in the environment of the process only.
"""

import os
import re
import secrets
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import rewardharness
from rewardharness.codec import to_json
from rewardharness.errors import HarnessError, InputError, RunError, shell
from rewardharness.files import hold, read_json, write_json, write_text
from rewardharness.jobs import JobConfig, read_config, sent_to
from rewardharness.remote.job import REMOTE, read_remote
from rewardharness.runs.job import STOP_FILE
from rewardharness.runs.records import CONFIG, MASK, RECORD, read_record
from rewardharness.runs.store import MANIFEST
from rewardharness.settings import child_environment

PATIENCE = 120.0
"""Seconds for which a visitor who was told to wait has priority over one who had a run since."""

HOUR = 3600


class BusyError(RunError):
    """A run cannot start because it or another one is running."""

    title = "This cannot start now"


class Turns:
    """When addresses waited for the place, and when they had it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, float] = {}
        self._had: dict[str, float] = {}

    @contextmanager
    def take(self, owner: str) -> Iterator[None]:
        """Take the place inside, where an error says that it is not free.

        Args:
            owner: Pseudonym of an address.

        Raises:
            BusyError: If others wait who had no run since the last one of the address.
        """
        with self._lock:
            now = time.monotonic()
            self._waiting = {other: when for other, when in self._waiting.items() if now - when <= PATIENCE}
            self._had = {other: when for other, when in self._had.items() if now - when <= HOUR}
            last = self._had.get(owner, 0.0)
            first = [other for other in self._waiting if other != owner and self._had.get(other, 0.0) < last]
            self._waiting[owner] = now
            if first:
                raise BusyError(
                    "Other visitors wait who had no run since yours.", next_step="Try again in two minutes."
                )
            yield
            del self._waiting[owner]
            self._had[owner] = now


@lru_cache(maxsize=16)
def turns_of(home: Path) -> Turns:
    """Return the turns of an app: its tabs share the place."""
    return Turns()


NAME = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""Valid names of runs."""

VISITOR = re.compile(r"visitor-[0-9a-f]{32}")
"""Names of visitors' runs. The name gives access to the run, so it cannot be guessed."""

MAX_VISITOR_RUNS = 20
"""Maximum number of runs of one address; older ones are removed when it starts another one."""

MAX_RUNS = 400
"""Maximum number of visitors' runs. A run whose time is over gives way to another one."""

RUN_SECONDS: Mapping[str, float] = {"score": 180.0}
"""Seconds after which a visitor's run of a job type is ended; it can be resumed. Others have limits of their own."""

GRACE = 5.0
"""Seconds that a run has to end when its time is over."""

LOG_TAIL = 4000
"""Number of bytes at the end of a log that are read."""

_PLACE = Path(rewardharness.__file__).parents[1]
_ERROR = re.compile(r"^rh: (?P<title>[^:\n]{1,80}): (?P<detail>.*?)(?:\n {2}Next: (?P<step>.*))?\Z", re.DOTALL)

_WRONG_USE = re.compile(
    r"^rh [a-z -]+: (?P<detail>.*?)(?:\n {2}Next: (?P<step>[^\n]*))?\nHelp: rh [a-z -]+\Z", re.DOTALL
)
"""What a command prints about wrong arguments, such as those of a configuration that it cannot use."""


class CommandError(HarnessError):
    """The error that a process of ours printed.

    Args:
        title: Kind of error.
        message: What happened.
        next_step: What to do about it.
    """

    def __init__(self, title: str, message: str, *, next_step: str = "") -> None:
        super().__init__(message, next_step=next_step)
        self.title = title


class Jobs:
    """The processes of runs.

    Args:
        home: The folder with `runs/` and `jobs/`.
        hours: Hours for which the run of a visitor is kept whatever others do.
    """

    def __init__(self, home: Path, hours: int = 24) -> None:
        self.home = home
        self._hours = hours
        self.runs = home / "runs"
        self._beside = home / "jobs"
        self._turn = threading.Lock()

    def folder(self, name: str) -> Path:
        """Return the run folder of a name.

        Raises:
            RunError: If the name is not valid.
        """
        if not NAME.fullmatch(name):
            raise RunError("This is not the name of a run.", next_step="Choose one of the list.")
        return self.runs / name

    def new_name(self, data: str | None) -> str:
        """Return a name for a new run. `data`: name of its data; None for a visitor's run, which cannot be guessed."""
        if data is None:
            return f"visitor-{secrets.token_hex(16)}"
        word = re.sub(r"[^a-z0-9]+", "-", data.lower()).strip("-")[:40] or "run"
        return f"{word}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"

    def start(
        self,
        name: str,
        job: str,
        config: JobConfig | Path,
        changes: Mapping[str, str],
        *,
        visitor: str | None = None,
        where: Path | None = None,
        remote: Sequence[str] = (),
    ) -> None:
        """Start a run.

        Args:
            name: Its name.
            job: The job type.
            config: The configuration, which is written to a file, or the file with it.
            changes: Variables of its environment that differ from those of this process, keys included.
            visitor: Pseudonym of the visitor who starts it: only one such run is active at a time. None for a user of
                this computer.
            where: The folder that relative paths refer to.
            remote: Options of a job on the Hub.

        Raises:
            BusyError: If it is running, another visitor's run is, or others wait who had none since.
        """
        with self._turn:
            locks = [self._take(f"{name}.lock", "This run is already running.", "Follow it.")]
            try:
                if visitor is not None:
                    with turns_of(self.home).take(visitor):
                        step = "Try again when it has ended, or run the app on your own computer."
                        locks.append(self._take("visitors.lock", "Another visitor's run is active.", step))
                    self._tidy(visitor)
                    os.truncate(locks[0], os.pwrite(locks[0], visitor.encode(), 0))
                os.utime(locks[0])
                file = self._beside / f"{name}.json"  # next to the log of the run
                if isinstance(config, Path):
                    file = config
                else:
                    write_json(file, {"job": job, **to_json(config)})
                arguments = [job, "--config", str(file.absolute()), "--run", str(self.folder(name)), "--yes"]
                arguments += remote or ["--quiet"]  # the page shows the log of a job on the Hub
                seconds = None if visitor is None else RUN_SECONDS.get(job)
                self._spawn(name, arguments, (changes, where or self._beside), locks, seconds)
            finally:
                for lock in locks:
                    os.close(lock)

    def config(self, name: str) -> tuple[str, JobConfig]:
        """Return the command and the configuration of a run.

        Raises:
            RunError: If the run has no complete configuration.
        """
        command, config = read_config(self.folder(name))
        if any(MASK in str(value) for value in vars(config).values()):
            raise RunError(
                f"{name} was started with a password, which its configuration does not keep.",
                next_step="Resume it on the command line. Give keys as keys, not in addresses.",
            )
        return command, config

    def foreign_places(self, name: str, own: str) -> list[str]:
        """Return where a run would send data as its folder says, which may come from another person.

        Args:
            name: The run.
            own: The judge of the settings. What the app was told when it started the run is known, too.

        Raises:
            RunError: If the run has no complete configuration.
        """
        config, record, remote = self.config(name)[1], self._beside / f"{name}.json", read_remote(self.folder(name))
        known = sent_to(config, read_json(record)) if record.is_file() else []
        places = sent_to(config, vars(config), (own,)) + ([remote.push_to] if remote and remote.push_to else [])
        return [place for place in places if place not in known]

    def resume_command(self, name: str) -> str:
        """Return the command that resumes a run.

        Raises:
            RunError: If the run has no complete configuration.
        """
        config = (self.folder(name) / CONFIG).absolute()
        return shell("rh {} --config {} --run {}", self.config(name)[0], config, self.folder(name))

    def resume(self, name: str, changes: Mapping[str, str], visitor: str | None = None) -> None:
        """Resume a run with its configuration.

        Args:
            name: The run.
            changes: Variables of its environment that differ from those of this process.
            visitor: Pseudonym of the visitor who resumes it; None for a user of this computer.

        Raises:
            RunError: If it is running, or has no complete configuration.
        """
        folder, asked = self.folder(name), Path(str(self.asked(name).get("folder") or "."))
        where, remote = asked if asked.is_dir() else None, read_remote(folder)
        arguments = () if remote is None else remote.words
        self.start(name, self.config(name)[0], folder / CONFIG, changes, visitor=visitor, where=where, remote=arguments)

    def stop(self, name: str) -> None:
        """Ask a run to stop after the judgments in progress."""
        folder = self.folder(name)
        if (folder / MANIFEST).exists() or (folder / REMOTE).exists():
            write_text(folder / STOP_FILE, "")

    def alive_since(self, name: str) -> float | None:
        """Return when the process of a run was started, by this app or an earlier one.

        Returns:
            Seconds since the epoch; None if no process is alive.
        """
        with self._turn:  # the test takes the lock for a moment, which must not look like a process
            return (self._beside / f"{name}.lock").stat().st_mtime if self._is_alive(name) else None

    def _is_alive(self, name: str) -> bool:
        lock = self._beside / f"{name}.lock"
        if not lock.exists():
            return False
        try:
            os.close(hold(lock))
        except BlockingIOError:
            return True
        return False

    def is_known(self, name: str) -> bool:
        """Whether a run of this name exists, or was started."""
        return (self.folder(name) / MANIFEST).is_file() or self.log(name).is_file()

    def asked(self, name: str) -> dict[str, Any]:
        """Return the arguments of the latest session of a run; empty without a record.

        Returns:
            The arguments of the command, and the `folder` that paths are relative to.

        Raises:
            RunError: If the record is damaged.
        """
        folder = self.folder(name)
        if not (folder / RECORD).is_file():
            return {}
        session = read_record(folder)["sessions"][-1]
        arguments = session["arguments"]
        return {**arguments, **(arguments.get("taken") or {}), "folder": session["folder"]}

    def log(self, name: str) -> Path:
        """Return the file with the standard error of a run."""
        return self._beside / f"{name}.log"

    def error(self, name: str) -> CommandError | None:
        """Return the error of the latest process of a run; None if it printed none."""
        try:
            with self.log(name).open("rb") as stream:
                stream.seek(max(0, stream.seek(0, os.SEEK_END) - LOG_TAIL))
                text = stream.read().decode("utf-8", "replace")
        except OSError:
            return None
        return _error_in(text)

    def _take(self, name: str, problem: str, remedy: str) -> int:
        try:
            return hold(self._beside / name)
        except BlockingIOError:
            raise BusyError(problem, next_step=remedy) from None

    def _spawn(
        self,
        name: str,
        arguments: Sequence[str],
        around: tuple[Mapping[str, str], Path],
        locks: Sequence[int],
        seconds: float | None,
    ) -> None:
        """Start the process. It inherits the locks and holds them until it ends, at the latest after some seconds."""
        changes, where = around
        log = os.open(self.log(name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            child = subprocess.Popen(
                self._command(arguments),
                cwd=where,
                env=self._environment(changes),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
                pass_fds=locks,
            )
        except OSError as error:
            raise InputError(f"The run cannot be started: {error}.", next_step="Try again.") from error
        finally:
            os.close(log)

        def wait() -> None:  # without it, the process would remain as a zombie
            for limit, end in ((seconds, child.terminate), (GRACE, child.kill)):
                try:
                    child.wait(limit)
                    return
                except subprocess.TimeoutExpired:
                    end()
            child.wait()

        threading.Thread(target=wait, name=f"run {name}", daemon=True).start()

    def _command(self, arguments: Sequence[str]) -> list[str]:
        # -P: nothing is imported from its working directory.
        return [sys.executable, "-P", "-m", "rewardharness", *arguments]

    def _environment(self, changes: Mapping[str, str]) -> dict[str, str]:
        environment = child_environment({"RH_HOME": str(self.home.absolute()), **changes})
        places = [str(_PLACE), *filter(None, [environment.get("PYTHONPATH")])]
        return {**environment, "PYTHONPATH": os.pathsep.join(places), "PYTHONUNBUFFERED": "1"}

    def visitor_data(self, *, alive: bool = False) -> list[str]:
        """Return the data of visitors' runs. `alive`: only of those whose process is alive."""
        with self._turn:
            files = [path for path in self._beside.glob("visitor-*.json") if not alive or self._is_alive(path.stem)]
            return [str(read_json(file).get("data")) for file in files]

    def remove_visitors(self, job: str, before: float) -> list[str]:
        """Remove the ended runs of visitors of a job type that were started before a time, and return their names."""
        removed = []
        with self._turn:
            for file in self._beside.glob("visitor-*.json"):
                name, lock = file.stem, file.with_suffix(".lock")
                if not VISITOR.fullmatch(name) or not lock.exists() or lock.stat().st_mtime >= before:
                    continue
                if read_json(file).get("job") == job and not self._is_alive(name):
                    self._remove(name)
                    removed.append(name)
        return removed

    def _tidy(self, owner: str) -> None:
        """Remove the oldest ended runs of an address, and those whose time is over if there are too many.

        Raises:
            BusyError: If there is no room for another run.
        """
        folders = [folder for folder in self.runs.glob("visitor-*") if VISITOR.fullmatch(folder.name)]
        folders.sort(key=lambda folder: folder.stat().st_mtime, reverse=True)
        own = [folder for folder in folders if self._owner(folder.name) == owner]
        over = [folder for folder in folders if folder.stat().st_mtime < time.time() - self._hours * HOUR]
        for folder in {*own[MAX_VISITOR_RUNS - 1 :], *(over if len(folders) >= MAX_RUNS else ())}:
            if not self._is_alive(folder.name):
                self._remove(folder.name)
                folders.remove(folder)
        if len(folders) >= MAX_RUNS:
            raise BusyError("There is no room for another run.", next_step="Try again in an hour.")

    def _owner(self, name: str) -> str:
        """Return the pseudonym of the address that started a run; empty if unknown."""
        lock = self._beside / f"{name}.lock"
        return lock.read_text(encoding="ascii") if lock.is_file() else ""

    def _remove(self, name: str) -> None:
        shutil.rmtree(self.folder(name), ignore_errors=True)
        for ending in ("log", "lock", "json"):
            (self._beside / f"{name}.{ending}").unlink(missing_ok=True)


def _error_in(text: str) -> CommandError | None:
    """Return the error at the end of a log; None if there is none."""
    refused = _WRONG_USE.match(text[text.rfind("\nrh ") + 1 :].rstrip())
    if refused is not None:
        return CommandError("Wrong arguments", refused["detail"].strip(), next_step=refused["step"] or "")
    begin = text.rfind("\nrh: ")
    match = _ERROR.match(text[begin + 1 :].rstrip() if begin >= 0 or text.startswith("rh: ") else "")
    if match is None:
        last = text.rstrip().rpartition("\n")[2]
        internal = "Traceback (most recent call last)" in text
        return CommandError("Internal error", last[:500], next_step="Please report it.") if internal else None
    return CommandError(match["title"], match["detail"].strip(), next_step=(match["step"] or "").strip())

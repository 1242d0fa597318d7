"""Evolutions and benchmarks as processes of their own: started, asked to stop, taken up again, and found again.

A run is a real `rh evolve` or `rh benchmark` in a session of its own, so that it goes on when the page is closed, and
the app too. What this app keeps of it lies beside the run folders, in `jobs/`:

    NAME.log    what the process said on standard error, of its latest sitting
    NAME.lock   held by the process for as long as it lives, however it ends

All else is read from the run folder, which this app never writes to; asking a run to stop is what `rh runs stop` does.
Keys reach the process through its environment alone.
"""

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import rewardharness
from rewardharness.errors import HarnessError, InputError, RunError
from rewardharness.evolution.stop import STOP_FILE
from rewardharness.files import hold, write_text
from rewardharness.jobs import JobConfig, read_config
from rewardharness.runs.records import CONFIG, MASK, RECORD, read_record
from rewardharness.runs.store import MANIFEST
from rewardharness.settings import child_environment

NAME = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""What a run may be called."""

VISITOR = re.compile(r"visitor-[0-9a-f]{32}")
"""What a stranger's run is called. Who knows the name may see the run, so it cannot be guessed."""

KEPT_VISITS = 20
"""Strangers' runs that are kept, at most; older ones are removed when another begins."""

ASK_SECONDS = 300.0
"""Seconds that a command may take for which somebody waits: it may have to draw or fetch the data first."""

LOG_TAIL = 4000
"""Bytes of a log that are read, at most: its end."""

_PLACE = Path(rewardharness.__file__).parents[1]
_ERROR = re.compile(r"^rh: (?P<title>[^:\n]{1,80}): (?P<detail>.*?)(?:\n {2}Next: (?P<step>.*))?\Z", re.DOTALL)


class CommandError(HarnessError):
    """A command of ours that ended with an error, in its own words.

    Args:
        title: What kind of trouble it is.
        message: What happened.
        next_step: What to do about it.
    """

    def __init__(self, title: str, message: str, *, next_step: str = "") -> None:
        super().__init__(message, next_step=next_step)
        self.title = title


class BusyError(RunError):
    """A run cannot begin, because it or another one goes on."""

    title = "This cannot begin now"


class Jobs:
    """The processes of runs.

    Args:
        home: This project's own folder; runs lie in `runs/` and what belongs to their processes in `jobs/`.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.runs = home / "runs"
        self._beside = home / "jobs"
        self._turn = threading.Lock()

    def folder(self, name: str) -> Path:
        """The run folder of a name.

        Raises:
            RunError: If no run can have this name.
        """
        if not NAME.fullmatch(name):
            raise RunError("This is no name of a run.", next_step="Choose one of the list.")
        return self.runs / name

    def new_name(self, about: str, *, visitor: bool) -> str:
        """A name for a new run.

        Args:
            about: What it is about, in a word; foreign text.
            visitor: Whether it is a stranger's, and so must not be guessed.
        """
        if visitor:
            return f"visitor-{secrets.token_hex(16)}"
        word = re.sub(r"[^a-z0-9]+", "-", about.lower()).strip("-")[:40] or "run"
        stamp = time.strftime("%Y%m%d-%H%M%S")
        return f"{word}-{stamp}-{secrets.token_hex(2)}"

    def start(
        self,
        name: str,
        words: Sequence[str],
        changes: Mapping[str, str],
        *,
        visitor: bool = False,
        where: Path | None = None,
    ) -> None:
        """Start a run, or go on with it.

        Args:
            name: Its name.
            words: The words after `rh`; where the run lies and that nobody is asked is added here.
            changes: What its environment has beside this one's, keys included.
            visitor: Whether a stranger starts it: only one such run goes on at a time.
            where: The folder that paths among the words count from.

        Raises:
            BusyError: If it is under way, or another stranger's is.
        """
        command = [*words, "--run", str(self.folder(name)), "--yes", "--quiet"]
        with self._turn:
            locks = [self._take(f"{name}.lock", "This run is under way already.", "Follow it.")]
            try:
                if visitor:
                    step = "Try again when it has ended, or run the app on your own computer."
                    locks.append(self._take("visitors.lock", "Somebody else's run is under way here.", step))
                    self._tidy()
                os.utime(locks[0])
                self._spawn(name, command, (changes, where or self._somewhere()), locks)
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

    def again(self, name: str) -> list[str]:
        """Return the words after `rh` that resume a run, without those that `start` adds.

        Raises:
            RunError: If the run has no complete configuration.
        """
        return [self.config(name)[0], "--config", str((self.folder(name) / CONFIG).absolute())]

    def resume(self, name: str, changes: Mapping[str, str], *, visitor: bool = False) -> None:
        """Resume a run with its configuration.

        Raises:
            RunError: If it is running, or has no complete configuration.
        """
        where = Path(str(self.asked(name).get("folder") or "."))
        self.start(name, self.again(name), changes, visitor=visitor, where=where if where.is_dir() else None)

    def stop(self, name: str) -> None:
        """Ask a run to end after the judgments under way."""
        folder = self.folder(name)
        if (folder / MANIFEST).exists():
            write_text(folder / STOP_FILE, "")

    def alive_since(self, name: str) -> float | None:
        """When the process of a run was started that is still there, by this app or an earlier one.

        Returns:
            Seconds, as times of files are counted; None if there is no such process.
        """
        with self._turn:  # who only looks takes the lock for a moment, which must not look like a process
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
        """Whether there is a run of this name, or there was a process for one."""
        return (self.folder(name) / MANIFEST).is_file() or self.log(name).is_file()

    def asked(self, name: str) -> dict[str, Any]:
        """How a run was asked for the last time, as its record says; empty when that is not known.

        Returns:
            The arguments of the command, and the `folder` that paths are relative to.

        Raises:
            RunError: If the record is damaged.
        """
        folder = self.folder(name)
        if not (folder / RECORD).is_file():
            return {}
        sitting = read_record(folder)["sittings"][-1]
        given = sitting["arguments"]
        return {**given, **(given.get("taken") or {}), "folder": sitting["folder"]}

    def log(self, name: str) -> Path:
        """The file that the process of a run writes to what it has to say."""
        return self._beside / f"{name}.log"

    def trouble(self, name: str) -> CommandError | None:
        """The error that the latest process of a run ended with; None when it said none."""
        try:
            with self.log(name).open("rb") as stream:
                stream.seek(max(0, stream.seek(0, os.SEEK_END) - LOG_TAIL))
                text = stream.read().decode("utf-8", "replace")
        except OSError:
            return None
        return _error_in(text)

    def ask(self, words: Sequence[str], changes: Mapping[str, str]) -> Any:
        """Have a command answered that prints one JSON value, and wait for it.

        Raises:
            CommandError: If it ends with an error.
        """
        try:
            done = subprocess.run(
                self._command(words),
                cwd=self._somewhere(),
                env=self._environment(changes),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=ASK_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            message = f"There was no answer within {ASK_SECONDS:g} seconds."
            raise CommandError(
                "This takes too long", message, next_step=f"Try the command line: rh {words[0]}."
            ) from None
        lines = done.stdout.decode("utf-8", "replace").splitlines()
        if done.returncode == 0 and lines:
            return json.loads(lines[-1])
        said = done.stderr.decode("utf-8", "replace")
        error = _error_in(said)
        raise error or CommandError("The command failed", f"rh {words[0]} ended with status {done.returncode}.")

    def _take(self, name: str, problem: str, remedy: str) -> int:
        try:
            return hold(self._beside / name)
        except BlockingIOError:
            raise BusyError(problem, next_step=remedy) from None

    def _spawn(
        self, name: str, words: Sequence[str], around: tuple[Mapping[str, str], Path], locks: Sequence[int]
    ) -> None:
        """Start the process. It inherits the locks, and so holds them until it ends."""
        changes, where = around
        log = os.open(self.log(name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            child = subprocess.Popen(
                self._command(words),
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
        # Somebody has to take note of its end, or it would stay behind as a zombie.
        threading.Thread(target=child.wait, name=f"run {name}", daemon=True).start()

    def _command(self, words: Sequence[str]) -> list[str]:
        # -P: what lies in the folder where it is started is not imported.
        return [sys.executable, "-P", "-m", "rewardharness", *words]

    def _environment(self, changes: Mapping[str, str]) -> dict[str, str]:
        environment = child_environment({"RH_HOME": str(self.home.absolute()), **changes})
        places = [str(_PLACE), *filter(None, [environment.get("PYTHONPATH")])]
        return {**environment, "PYTHONPATH": os.pathsep.join(places), "PYTHONUNBUFFERED": "1"}

    def _somewhere(self) -> Path:
        """The folder that processes are started in: one that stays, whatever becomes of this app's own."""
        self._beside.mkdir(parents=True, exist_ok=True)
        return self._beside

    def _tidy(self) -> None:
        """Remove the oldest of strangers' runs that are over: a Space that many visit must not fill up."""
        found = [each for each in self.runs.glob("visitor-*") if VISITOR.fullmatch(each.name)]
        found.sort(key=lambda each: each.stat().st_mtime, reverse=True)
        for each in found[KEPT_VISITS - 1 :]:
            if not self._is_alive(each.name):
                shutil.rmtree(each, ignore_errors=True)
                for ending in ("log", "lock"):
                    (self._beside / f"{each.name}.{ending}").unlink(missing_ok=True)


def _error_in(text: str) -> CommandError | None:
    """The error that a command ended with, of what it said."""
    begin = text.rfind("\nrh: ")
    found = _ERROR.match(text[begin + 1 :].rstrip() if begin >= 0 or text.startswith("rh: ") else "")
    if found is None:
        last = text.rstrip().rpartition("\n")[2]
        defect = "Traceback (most recent call last)" in text
        return CommandError("An unexpected error", last[:500], next_step="Please report it.") if defect else None
    return CommandError(found["title"], found["detail"].strip(), next_step=(found["step"] or "").strip())

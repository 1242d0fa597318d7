"""The record of a run: command, code version, data, times and outcome of each session.

`record.json` is stored in the run folder. It is written when a run starts and completed when it ends; resuming a run
adds a session. A command keeps a record with one line:

    with RunFolder(folder, manifest, restart=arguments.restart, record=record_run(vars(arguments), settings)) as run:

Secrets are masked as `…`: keys from the settings, values that look like keys, and users, passwords and queries in
addresses. Folder names are kept unchanged. Review a record before you publish it.
"""

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from rewardharness import __version__
from rewardharness.errors import RunError, describe
from rewardharness.files import content_id, read_json, sha256, write_json
from rewardharness.leaks import masked
from rewardharness.runs.store import note_elsewhere
from rewardharness.settings import Settings

RECORD = "record.json"
CONFIG = "config.json"
"""Configuration of the job in a run folder: job type and fields."""
SCHEMA = 1
MASK = "…"
"""Replaces each secret."""

Condition = Literal["done", "stopped", "paused", "interrupted", "failed", "killed"]
"""How a session ended. `stopped`: on request; `paused`: after an error that the same command can resume from;
`interrupted`: Ctrl-C; `killed`: the process ended without cleanup, as after `kill -9`."""

_NO_ARGUMENTS = frozenset({"words", "judge_from_settings", "replays"})
_SESSION_FIELDS = {"words": list, "arguments": dict, "folder": str, "package": dict}
_USER = re.compile(r"(?<=://)[^\s,]*@")
_QUERY = re.compile(r"(?<=[?&#])([^=\s&#,]*)=[^\s&#,]*")


@dataclass
class Recording:
    """Content that a run folder writes to its `record.json`. Created by `record_run`."""

    command: str
    """First word of the command line, used when the manifest names no command."""
    session: dict[str, Any]
    """Fields of the session that are available before it starts."""
    config: dict[str, Any] | None = None
    """Content of `config.json`; None to write none."""
    also: dict[str, Any] = field(default_factory=dict)
    """Additional fields of the record, such as the run that is replayed."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Texts that are masked wherever they occur."""
    home: Path | None = None
    """Folder of the project's state, which lists run folders elsewhere."""
    _record: dict[str, Any] = field(default_factory=dict, repr=False)

    def begin(self, folder: Path, manifest: Mapping[str, Any], *, resumed: bool) -> None:
        """Write the start of a session. The caller holds the lock of the folder.

        Raises:
            RunError: If the existing record is damaged.
        """
        path = folder / RECORD
        now = _now()
        record: dict[str, Any] = {
            "schema": SCHEMA,
            "command": manifest.get("command", self.command),
            "created": now,
            "whole": not resumed,
            "about": dict(manifest),
            **self.also,
            "sessions": [],
        }
        if path.exists():
            record = read_record(folder)
            for earlier in record["sessions"]:
                if earlier["ended"] is None:  # this process holds the lock, so the earlier process has ended
                    earlier["condition"] = "killed"
        session = {"started": now, "ended": None, "condition": None, "reason": "", **self.session}
        self._record = {**record, "sessions": [*record["sessions"], session]}
        if self.config is not None:
            write_json(folder / CONFIG, {"job": record["command"], **self.config})
        write_json(path, self._record)
        if self.home is not None:
            note_elsewhere(folder, self.home)

    def end(self, folder: Path, error: BaseException | None) -> None:
        """Write the end of the session. After an error, a write that fails does not hide the error."""
        last = self._record["sessions"][-1]
        last["ended"], last["condition"] = _now(), condition_of(error)
        without_reason = error is None or last["condition"] in {"stopped", "interrupted"}
        last["reason"] = "" if without_reason or error is None else _masked(describe(error).detail, self.secrets)
        with suppress(OSError) if error is not None else nullcontext():
            write_json(folder / RECORD, self._record)


def record_run(arguments: Mapping[str, Any], settings: Settings, *, config: Any = None, **resolved: Any) -> Recording:
    """Describe the command of a run for the record in its folder.

    Args:
        arguments: Parsed arguments of the command. `words` holds the command line, `replays` the replayed run.
        settings: Settings of the process; their secrets are masked wherever they occur.
        config: Configuration of the job, a dataclass.
        resolved: Values that the command uses for omitted arguments, such as `library`.

    Returns:
        The recording that `RunFolder` writes.
    """
    from rewardharness.codec import to_json  # reading a record does not need it

    secrets = tuple(
        str(value)
        for setting in fields(settings)
        if setting.name.endswith(("_key", "_token")) and (value := getattr(settings, setting.name))
    )
    kept = {name: value for name, value in arguments.items() if name not in _NO_ARGUMENTS and not callable(value)}
    command_line = [_masked(word, secrets) for word in arguments.get("words", ())]
    folder = Path.cwd()
    return Recording(
        command=command_line[0] if command_line else "",
        session={
            "words": command_line,
            "arguments": {name: _plain(value, secrets) for name, value in sorted({**kept, **resolved}.items())},
            "folder": str(folder),
            **surroundings(folder),
        },
        config=None if config is None else _plain(to_json(config), secrets),
        also={"replays": arguments["replays"]} if "replays" in arguments else {},
        secrets=secrets,
        home=settings.home,
    )


def read_record(folder: Path) -> dict[str, Any]:
    """Read the record of a run.

    Raises:
        RunError: If there is no record, or this version cannot read it.
    """
    path = folder / RECORD
    if not path.is_file():
        raise RunError(
            f"{folder} has no record of how it was run.",
            next_step="An earlier version wrote it. Run the command again.",
        )
    record = read_json(path)
    if not isinstance(record, dict) or not _is_valid(record):
        raise RunError(
            f"{path} is not a run record that this version can read.",
            next_step="Move the file away; the run resumes without it.",
        )
    return record


def _is_valid(record: Mapping[str, Any]) -> bool:
    sessions = record.get("sessions")
    return (
        record.get("schema") == SCHEMA
        and isinstance(record.get("about"), dict)
        and isinstance(record.get("created"), str)
        and isinstance(sessions, list)
        and all(
            isinstance(session, dict)
            and session.keys() >= {"started", "ended", "condition"}
            and all(isinstance(session.get(name), kind) for name, kind in _SESSION_FIELDS.items())
            and all(isinstance(word, str) for word in session["words"])
            for session in sessions
        )
        and bool(sessions)
    )


def condition_of(error: BaseException | None) -> Condition:
    """Return how a session ended. An error can name its condition; see `evolution.progress`."""
    if error is None:
        return "done"
    condition = getattr(error, "condition", None)
    if condition in {"stopped", "paused"}:
        return "stopped" if condition == "stopped" else "paused"
    return "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"


def _plain(value: Any, secrets: tuple[str, ...]) -> Any:
    """Convert an argument to JSON, with secrets masked."""
    if isinstance(value, str | Path):
        return _masked(str(value), secrets)
    if isinstance(value, list | tuple):
        return [_plain(item, secrets) for item in value]
    if isinstance(value, dict):
        return {str(name): _plain(item, secrets) for name, item in value.items()}
    return (
        value
        if value is None or isinstance(value, bool | int | float)
        else _masked(json.dumps(value, default=str), secrets)
    )


def _masked(text: str, secrets: tuple[str, ...]) -> str:
    for secret in secrets:
        text = text.replace(secret, MASK)
    if "://" in text:
        text = _QUERY.sub(rf"\1={MASK}", _USER.sub(f"{MASK}@", text))
    return masked(text)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


DISTRIBUTION = "reward-harness-library"
GIT_SECONDS = 5.0
"""Timeout of a git command in seconds."""

_PACKAGE = Path(__file__).parent.parent
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_QUIET = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")


def surroundings(folder: Path) -> dict[str, Any]:
    """Describe the environment of a run, without names of people or machines.

    Args:
        folder: The working directory.
    """
    return {
        "package": {"version": __version__, "sources": sources_id()},
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "packages": installed_packages(),
        "git": git_state(folder),
    }


@cache
def sources_id() -> str:
    """Return a content id of the code and prompts of this package. Unlike the version, it changes with every edit."""
    sources = sorted([*_PACKAGE.rglob("*.py"), *_PACKAGE.glob("prompts/*.md")])
    return content_id([[path.relative_to(_PACKAGE).as_posix(), sha256(path.read_bytes())] for path in sources])


@cache
def installed_packages() -> dict[str, str]:
    """Return the installed versions of the dependencies of this package, including optional ones."""
    try:
        needed = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:  # the checkout is not installed
        needed = []
    versions = {}
    for requirement in needed:
        name = _NAME.match(requirement)
        if name is None or re.search(r"extra\s*==\s*['\"]dev['\"]", requirement):
            continue
        try:
            versions[name[0]] = metadata.version(name[0])
        except metadata.PackageNotFoundError:
            continue
    return dict(sorted(versions.items()))


def git_state(folder: Path) -> dict[str, Any] | None:
    """Return the commit of a folder, and whether tracked files have changed since.

    Code that the repository configures is never run: no hooks, no file system monitor, no content filters.

    Returns:
        `commit`, None before the first commit, and `dirty`, None if it cannot be determined. None outside of a
        repository, or without git.
    """
    listed = _git(folder, "config", "--null", "--name-only", "--get-regexp", r"^filter\..*\.(clean|process|required)$")
    filters = [name for name in (listed or "").split("\0") if name]
    off = [word for name in filters for word in ("-c", f"{name}={'false' if name.endswith('.required') else ''}")]
    status = _git(
        folder, *off, "status", "--porcelain=v2", "--branch", "--untracked-files=no", "--ignore-submodules=all"
    )
    if status is None:
        commit = _git(folder, "rev-parse", "--verify", "HEAD")
        return None if commit is None else {"commit": commit.strip(), "dirty": None}
    lines = status.splitlines()
    commit = next((line.split()[-1] for line in lines if line.startswith("# branch.oid ")), "")
    valid = re.fullmatch(r"[0-9a-f]{40,64}", commit) is not None
    return {"commit": commit if valid else None, "dirty": any(not line.startswith("#") for line in lines)}


def _git(folder: Path, *arguments: str) -> str | None:
    """Run git and return its output; None if it fails."""
    try:
        done = subprocess.run(
            ["git", *_QUIET, *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None

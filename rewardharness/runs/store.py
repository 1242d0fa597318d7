"""A run folder: a manifest that pins what the run is about, and results that are appended one by one.

    run.json        the manifest, written once
    results.jsonl   one line per result, appended; a line torn by a crash is passed over when read
    record.json     how it was asked for, by which code, when, and how it ended; see `records`
    run.lock        held while a process writes, so that a second process is told

Kinds of runs may keep more in it. Opening a folder again continues the run, provided that the manifest is the same.
"""

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rewardharness.errors import RunError
from rewardharness.files import (
    RUN_MANIFEST,
    append_jsonl,
    hold,
    is_held,
    read_json,
    read_jsonl,
    remove_stale,
    write_json,
)
from rewardharness.runs.records import Recording

MANIFEST = RUN_MANIFEST
RESULTS = "results.jsonl"
LOCK = "run.lock"
OLD = ".old"
"""Ending of what a restart has put aside."""

_TRIES = 5
_PAUSE = 0.02


class RunFolder:
    """A run folder that is open for writing. Use it as a context manager.

    Args:
        path: The folder; made when missing.
        manifest: What the run is about. A folder with another manifest is refused.
        restart: Begin anew: what the run has written is kept aside, as in `results.jsonl.old`.
        record: How it was asked for, for its record; see `records.record_run`.

    Raises:
        RunError: If another process holds the folder, its manifest differs, or it is not a run folder.
    """

    def __init__(
        self, path: Path, manifest: Mapping[str, Any], *, restart: bool = False, record: Recording | None = None
    ) -> None:
        self.path = path
        self._record = record
        self._lock = _lock(path)
        try:
            self.resumed = self._settle(dict(manifest), restart)
            if record is not None:
                record.begin(path, manifest, resumed=self.resumed)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._record is not None:
                self._record.end(self.path, error)
        finally:
            self.close()

    @property
    def results_file(self) -> Path:
        """The file that results are appended to."""
        return self.path / RESULTS

    def results(self) -> dict[str, dict[str, Any]]:
        """Return the results so far by id; of several lines with one id, the last."""
        return {str(record["id"]): record for _, record in read_jsonl(self.results_file) if "id" in record}

    def append(self, record: Mapping[str, Any]) -> None:
        """Add one result. It carries an `id`."""
        append_jsonl(self.results_file, record)

    def close(self) -> None:
        """Give the folder free for other processes."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _settle(self, manifest: dict[str, Any], restart: bool) -> bool:
        _clear(self.path)
        file = self.path / MANIFEST
        if file.exists() and not restart:
            check_manifest(self.path, manifest)
            return True
        foreign = [name.name for name in self.path.iterdir() if name.name not in {MANIFEST, RESULTS, LOCK}]
        if foreign and not file.exists():
            raise RunError(
                f"{self.path} holds other files ({', '.join(sorted(foreign)[:3])}) and is not a run folder.",
                next_step="Name a new or an empty folder.",
            )
        _put_aside(self.path)
        write_json(file, manifest)
        return False


def read_manifest(path: Path) -> dict[str, Any]:
    """Read what a run is about.

    Raises:
        RunError: If the folder holds no run.
    """
    if not (path / MANIFEST).is_file():
        raise RunError(f"{path} holds no run.", next_step="List the runs with: rh runs list")
    manifest = read_json(path / MANIFEST)
    if not isinstance(manifest, dict):
        raise RunError(f"{path / MANIFEST} is no manifest.", next_step="Remove the folder, or name another.")
    return manifest


def check_manifest(path: Path, manifest: Mapping[str, Any]) -> None:
    """Make sure that a run folder holds the run that is meant. When it was started does not count.

    Raises:
        RunError: If it holds no run, or another one.
    """
    known = read_manifest(path)
    differing = sorted(key for key in {*known, *manifest} if known.get(key) != manifest.get(key) and key != "started")
    before, now = known.get("command", "another command"), manifest.get("command")
    if now and before != now:
        raise RunError(
            f"{path} holds a run of {before}; this is {now}.",
            next_step="Choose another folder for it.",
        )
    if differing:
        raise RunError(
            f"{path} holds a run that differs in: {', '.join(differing)}.",
            next_step="Choose another folder, or begin this one anew with --restart.",
        )


def find_runs(folder: Path, *, below: bool = False) -> list[Path]:
    """Find the run folders in a folder, those that were written to last first.

    Args:
        folder: Where to look.
        below: Look at the folder itself too, and at all levels below it. What lies inside of a run is its own.
    """
    found = list(_runs_below(folder)) if below else [file.parent for file in folder.glob(f"*/{MANIFEST}")]
    return sorted(found, key=lambda path: (-max(each.stat().st_mtime for each in path.iterdir()), str(path)))


def _runs_below(folder: Path) -> Iterator[Path]:
    for where, folders, files in os.walk(folder):
        if MANIFEST in files:
            yield Path(where)
            folders.clear()
        for each in (Path(where, name) for name in folders):  # the walk follows no links, or it might never end
            if each.is_symlink() and (each / MANIFEST).is_file():
                yield each


def is_running(path: Path) -> bool:
    """Whether a process is writing to a run folder at this moment."""
    return is_held(path / LOCK)


def _clear(path: Path) -> None:
    """Remove what a killed process was about to put in place. Nobody else writes here while this process holds it.

    A folder without a manifest may be somebody else's: there, only a manifest that was never finished goes.
    """
    known = (path / MANIFEST).exists()
    remove_stale(path, age=0, name=None if known else MANIFEST)
    for each in path.iterdir() if known else ():
        if each.is_dir():
            remove_stale(each, age=0)


def _put_aside(path: Path) -> None:
    """Rename what an earlier run has written; what was put aside before goes."""
    for each in sorted(path.iterdir()):
        if each.name in {MANIFEST, LOCK} or each.name.endswith(OLD):
            continue
        old = each.with_name(each.name + OLD)
        if old.is_dir():
            shutil.rmtree(old)
        os.replace(each, old)


def _lock(path: Path) -> int:
    """Hold the folder for this process; the lock goes with the process, however it ends."""
    try:
        for _ in range(_TRIES - 1):
            try:
                return hold(path / LOCK)
            except BlockingIOError:  # perhaps only somebody who looks whether it runs, as `is_running` does
                time.sleep(_PAUSE)
        return hold(path / LOCK)
    except BlockingIOError:
        raise RunError(
            f"Another process is writing to {path}.", next_step="Wait for it, stop it, or choose another folder."
        ) from None
    except OSError as error:
        raise RunError(
            f"{path} cannot be used: {error.strerror}.", next_step="Name a folder you may write to."
        ) from error

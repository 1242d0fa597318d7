"""Run folders: a manifest that fixes the configuration of a run, and results that are appended line by line.

    run.json        the manifest, written once
    results.jsonl   one line per result, appended; readers skip an incomplete last line
    record.json     command, code version, times and outcome of each session; see `records`
    run.lock        locked while a process writes, so that a second process is refused

Some kinds of runs store additional files. Opening a folder again with the same manifest resumes the run.
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rewardharness.errors import RunError
from rewardharness.files import (
    RUN_MANIFEST,
    append_jsonl,
    content_id,
    hold,
    is_held,
    read_json,
    read_jsonl,
    read_text,
    remove_stale,
    write_json,
    write_text,
)

if TYPE_CHECKING:
    from rewardharness.runs.job import StopRequest
    from rewardharness.runs.records import Recording
    from rewardharness.runs.results import Results

MANIFEST = RUN_MANIFEST
RESULTS = "results.jsonl"
OUTCOME = "outcome.json"
"""File of a run folder with the decisions, which a replay compares."""
LOCK = "run.lock"
ELSEWHERE = "runs-elsewhere"
"""Folder in `RH_HOME` with one file per run folder that `--run` put elsewhere."""
OLD = ".old"
"""Suffix of the files that a restart renames."""

_TRIES = 5
_PAUSE = 0.02


class RunFolder:
    """A run folder that is open for writing. Use it as a context manager.

    Args:
        path: The folder; created if it does not exist.
        manifest: Configuration of the run. A folder with a different manifest is refused.
        restart: Start over. Files of the earlier run are renamed, such as `results.jsonl` to `results.jsonl.old`.
        record: Record of the command; see `records.record_run`.
        on_result: Called with each result after it is written.
        stop: Request to stop, which a file in the folder makes from now on.

    Raises:
        RunError: If another process holds the folder, its manifest differs, it has links, or it is not a run folder.
    """

    def __init__(
        self,
        path: Path,
        manifest: Mapping[str, Any],
        *,
        restart: bool = False,
        record: "Recording | None" = None,
        on_result: Callable[[Mapping[str, Any]], None] | None = None,
        stop: "StopRequest | None" = None,
    ) -> None:
        self.path = path
        self._record = record
        self._on_result = on_result
        if link := next(filter(Path.is_symlink, path.rglob("*")), None):
            step = "Replace it by what it leads to, or choose another folder."
            raise RunError(f"{link} is a link, through which the run would write elsewhere.", next_step=step)
        self._lock = _lock(path)
        try:
            self.resumed = self._prepare(dict(manifest), restart)
            if stop is not None:
                stop.begin(path)
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
        """File that results are appended to."""
        return self.path / RESULTS

    def results(self) -> "Results":
        """Return the results by id. If an id occurs in several lines, the last line counts."""
        return results_of(self.path)

    def append(self, record: Mapping[str, Any]) -> None:
        """Append one result. The result must have an `id`."""
        append_jsonl(self.results_file, record)
        if self._on_result is not None:
            self._on_result(record)

    def close(self) -> None:
        """Release the lock of the folder."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _prepare(self, manifest: dict[str, Any], restart: bool) -> bool:
        _clear(self.path)
        file = self.path / MANIFEST
        if file.exists() and not restart:
            check_manifest(self.path, manifest)
            return True
        foreign = [name.name for name in self.path.iterdir() if name.name not in {MANIFEST, RESULTS, LOCK}]
        if foreign and not file.exists():
            raise RunError(
                f"{self.path} holds other files ({', '.join(sorted(foreign)[:3])}) and is not a run folder.",
                next_step="Choose a new or empty folder.",
            )
        _rename_old(self.path)
        write_json(file, manifest)
        return False


def read_result(path: Path, name: str) -> dict[str, Any] | None:
    """Read the result with an id from a run folder; None if there is none. If there are several, the last counts."""
    result = None
    for _, record in read_jsonl(path / RESULTS):
        if record.get("id") == name:
            result = record
    return result


def read_manifest(path: Path) -> dict[str, Any]:
    """Read the manifest of a run.

    Raises:
        RunError: If the folder holds no run.
    """
    if not (path / MANIFEST).is_file():
        raise RunError(f"{path} holds no run.", next_step="List the runs with: rh runs list")
    manifest = read_json(path / MANIFEST)
    if not isinstance(manifest, dict):
        raise RunError(f"{path / MANIFEST} is not a manifest.", next_step="Remove the folder, or choose another.")
    return manifest


def check_manifest(path: Path, manifest: Mapping[str, Any]) -> None:
    """Check that a run folder holds a run with this manifest. The start time is not compared.

    Raises:
        RunError: If the folder holds no run, or a different one.
    """
    stored = read_manifest(path)
    differing = sorted(key for key in {*stored, *manifest} if stored.get(key) != manifest.get(key) and key != "started")
    changes = [_change(key, stored.get(key), manifest.get(key)) for key in differing]
    before, now = stored.get("command", "another command"), manifest.get("command")
    if now and before != now:
        raise RunError(
            f"{path} holds a run of {before}; this is {now}.",
            next_step="Choose another folder.",
        )
    if differing:
        raise RunError(
            f"{path} holds a run that differs in: {', '.join(changes)}.",
            next_step="Choose another folder, or start this run over with --restart.",
        )


def _change(key: str, before: object, now: object) -> str:
    """Say what of a manifest differs, with both values if they are short."""
    texts = [json.dumps(value, ensure_ascii=False) for value in (before, now) if not isinstance(value, dict | list)]
    is_short = len(texts) == 2 and max(map(len, texts)) <= 40
    return f"{key} ({texts[0]} there, {texts[1]} here)" if is_short else key


def run_named(which: str | Path, home: Path) -> Path:
    """Return a run folder by its path, or by its name in the folder of runs, where it need not exist.

    Args:
        which: Path or name.
        home: Folder of the project's state.
    """
    return Path(which) if Path(which).is_dir() else home / "runs" / which


def find_runs(folder: Path, *, below: bool = False) -> list[Path]:
    """Find the run folders in a folder, most recently modified first.

    Args:
        folder: The folder to search.
        below: Search the folder itself and all levels below it. Folders inside a run are not searched.
    """
    runs: list[Path] = []
    for place, folders, files in os.walk(folder):
        here = Path(place)
        if MANIFEST in files and (below or here != folder):
            runs.append(here)
        elif below or here == folder:  # links are not followed further, as they may form cycles
            links = [here / name for name in folders if (here / name).is_symlink()]
            runs += [link for link in links if (link / MANIFEST).is_file()]
        if here in runs or not (below or here == folder):
            folders.clear()
    return sorted(runs, key=lambda run: (-_changed(run), str(run)))


def note_elsewhere(run: Path, home: Path) -> None:
    """Remember a run folder that is not in the folder of runs, so that `runs_elsewhere` finds it."""
    path = run.resolve()
    if not path.is_relative_to((home / "runs").resolve()):
        with suppress(OSError):
            write_text(home / ELSEWHERE / content_id(str(path))[:16], str(path))


def runs_elsewhere(home: Path) -> list[Path]:
    """Return the remembered run folders that still exist."""
    notes = (home / ELSEWHERE).glob("*") if (home / ELSEWHERE).is_dir() else ()
    paths = (Path(read_text(note)) for note in notes if note.is_file())
    return [run for run in paths if (run / MANIFEST).is_file()]


def extent(run: Path) -> tuple[float, int]:
    """Return when a run folder was last changed, in seconds of the epoch, and its size in bytes."""
    stats = [path.lstat() for path in run.rglob("*") if path.is_file() and not path.is_symlink()]
    return max((stat.st_mtime for stat in stats), default=0.0), sum(stat.st_size for stat in stats)


def remove_run(run: Path) -> None:
    """Delete a run folder.

    Raises:
        RunError: If it holds no run, is a link, or a process is writing to it.
    """
    read_manifest(run)
    if run.is_symlink():
        raise RunError(f"{run} is a link.", next_step=f"Name the folder itself: {run.resolve()}")
    os.close(_lock(run))
    shutil.rmtree(run)


def _changed(run: Path) -> float:
    """Return when a file of a run folder was last changed."""
    times = [0.0]
    with suppress(OSError):  # removed in the meantime
        for entry in os.scandir(run):
            with suppress(OSError):  # likewise, or a link to nothing
                times.append(entry.stat().st_mtime)
    return max(times)


def is_running(path: Path) -> bool:
    """Return whether a process is writing to a run folder."""
    return is_held(path / LOCK)


def _clear(path: Path) -> None:
    """Remove temporary files of a killed process. The caller holds the lock of the folder.

    A folder without a manifest may belong to another program: there, only an unfinished manifest is removed.
    """
    is_run = (path / MANIFEST).exists()
    remove_stale(path, age=0, name=None if is_run else MANIFEST)
    for child in path.iterdir() if is_run else ():
        if child.is_dir():
            remove_stale(child, age=0)


def _rename_old(path: Path) -> None:
    """Rename the files of an earlier run, replacing those renamed before."""
    for file in sorted(path.iterdir()):
        if file.name in {MANIFEST, LOCK} or file.name.endswith(OLD):
            continue
        old = file.with_name(file.name + OLD)
        if old.is_dir():
            shutil.rmtree(old)
        os.replace(file, old)


def _lock(path: Path, tries: int = _TRIES) -> int:
    """Lock the folder until the lock is released or the process ends."""
    try:
        return hold(path / LOCK)
    except BlockingIOError:
        if tries > 1:  # `is_running` may hold the lock for a moment
            time.sleep(_PAUSE)
            return _lock(path, tries - 1)
        step = "Wait for it, stop it, or choose another folder."
        raise RunError(f"Another process is writing to {path}.", next_step=step) from None
    except OSError as error:
        step = "Choose a folder that you can write to."
        raise RunError(f"{path} cannot be used: {error.strerror}.", next_step=step) from error


def results_of(folder: Path) -> "Results":
    """Read the results of a run folder by id; none without a run. If an id occurs in several lines, the last counts."""
    from rewardharness.runs.results import read_results

    return read_results(folder / RESULTS)

"""Reading and writing files: UTF-8 text, atomic writes, jsonl, content ids.

The only module that writes. A write either happens whole or not at all, also when the process is killed in
the middle of it; a line appended to a jsonl file is either complete or is recognised as torn when read.
"""

import ctypes
import fcntl
import hashlib
import io
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from rewardharness.errors import DataError

RUN_MANIFEST = "run.json"
"""File that marks a run folder, see `runs.store`."""
OUTPUT_MANIFEST = "manifest.json"
"""File of an output folder of `rh score`, see `bulk.shards`."""

LARGE_READ = 1 << 20
"""Buffer in bytes with which a file of long lines is read."""

_NO_REPLACE, _EXCHANGE = 1, 2  # flags of renameat2
_TEMPORARY = re.compile(r"\.(.+)\.[a-z0-9_]{8}\.tmp")
_STALE = 3600.0
"""Age in seconds above which an unlocked temporary file is one of a killed process."""


def user_path(spec: str | Path) -> Path:
    """Return a path that a user wrote, with `~` replaced where such a user exists."""
    return Path(os.path.expanduser(spec))


def is_run(folder: Path) -> bool:
    """Whether a folder is a run folder."""
    return (folder / RUN_MANIFEST).is_file()


def is_output(folder: Path) -> bool:
    """Whether a folder is an output folder of `rh score`."""
    return (folder / OUTPUT_MANIFEST).is_file() and (folder / "running").is_dir()


def data_files(folder: Path) -> Iterator[Path]:
    """Yield the files of a data folder at all levels, except those of run and output folders: results are no data."""
    for where, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not is_run(Path(where, name)) and not is_output(Path(where, name))]
        yield from (path for path in (Path(where, name) for name in names) if path.is_file())


MAX_READ = 1 << 30
"""Default limit of the size of a text file that is read as a whole, in bytes."""


def read_text(path: Path, limit: int = MAX_READ) -> str:
    """Read a UTF-8 text file.

    Args:
        path: The file. A device is read up to the limit.
        limit: Maximum size in bytes.

    Raises:
        DataError: If the file is missing, too large or not UTF-8.
    """
    try:
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            data = b"" if size > limit else stream.read((size or limit) + 1)
        if size > limit or len(data) > limit:
            message = f"{path} is larger than {megabytes(limit)} MB, the maximum for a file of this kind."
            raise DataError(message, next_step="Name another file, or make it smaller.")
        return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig").read()
    except FileNotFoundError:
        raise DataError(f"{path} does not exist.", next_step="Check the path.") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text (byte {error.start}).", next_step="Save it as UTF-8.") from None


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file atomically: readers see the old content or the new, never a part."""
    name = _written_beside(path, data)
    try:
        os.replace(name, path)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        _name(error, path)
        raise


def write_once(path: Path, data: bytes) -> bool:
    """Write a file that is not there yet, whole or not at all. A file that is there stays as it is.

    Returns:
        Whether it was written; False when there was a file of that name already, also one written at this moment.
    """
    name = _written_beside(path, data)
    try:
        os.link(name, path)  # fails where a file is, as O_EXCL does, and the file is whole from the first moment
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        if not _rename(Path(name), path, _NO_REPLACE):
            if path.exists():
                return False
            raise
    finally:
        Path(name).unlink(missing_ok=True)
    _sync_folder(path.parent)
    return True


def _written_beside(path: Path, data: bytes) -> str:
    """Write data to a new file in the folder of another, down to the disk; return its name."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _clean_once(path.parent.absolute())
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    except OSError as error:
        _name(error, path)
        raise
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, 0o644)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return name


def _name(error: BaseException, path: Path) -> None:
    """Let an error speak of the file that was meant, not of the one beside it that only this module knows."""
    if isinstance(error, OSError):
        error.filename, error.filename2 = str(path), None


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically, newlines as given."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON atomically, with a final newline."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        DataError: If the file is missing, is not UTF-8 or is not JSON.
    """
    text = read_text(path)
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise DataError(f"{path} is not valid JSON: {error}.", next_step="Repair or remove the file.") from None


def replace_folder(path: Path, files: Mapping[str, bytes], *, kept: Iterable[str] = ()) -> None:
    """Write a folder as a whole: readers see the old folder or the new one, never a mixture.

    The new folder is made beside the old one, then the two change places in one step. Where the system has no such
    step they are renamed one after the other; a process killed just between the two leaves the old folder under
    another name, from which `recover_folder` brings it back.

    Args:
        path: The folder; it need not exist.
        files: Content of each new file, by relative path with `/`.
        kept: Relative paths of files and links of the old folder that the new one has as well.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _clean_once(path.parent.absolute())
    new = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp"))
    try:
        for name in kept:
            _take_over(path / name, new / name)
        for name, data in files.items():
            target = new / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
        os.chmod(new, path.stat().st_mode & 0o7777 if path.exists() else 0o755)
        for folder, _, _ in os.walk(new):
            _sync_folder(Path(folder))
        _swap(new, path)
        _sync_folder(path.parent)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def remove_stale(folder: Path, *, age: float = _STALE, name: str | None = None) -> None:
    """Remove temporary files and folders of this module that killed processes left in a folder.

    The first write of a process to a folder does so by itself.

    Args:
        folder: The folder; folders in it are not entered.
        age: Seconds since their last change at least; 0 if this process has locked the folder.
        name: Only those that were to become a file or folder of this name.
    """
    latest = time.time() - age
    for path in folder.glob(".*.tmp"):
        match = _TEMPORARY.fullmatch(path.name)
        with suppress(OSError):  # removed by another process, or not ours to remove
            if match is None or name not in (None, match[1]) or path.lstat().st_mtime > latest:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()


@lru_cache(maxsize=1024)
def _clean_once(folder: Path) -> None:
    remove_stale(folder)


def recover_folder(path: Path) -> None:
    """Bring back a folder that a killed `replace_folder` left under another name. Usually does nothing."""
    if not os.path.lexists(path) and _aside(path).is_dir():
        os.rename(_aside(path), path)


def _aside(path: Path) -> Path:
    return path.parent / f".{path.name}.before"


def _take_over(old: Path, new: Path) -> None:
    """Give a file a second name; copy it where the file system cannot."""
    new.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(old, new, follow_symlinks=False)
    except OSError:
        shutil.copy2(old, new, follow_symlinks=False)


def _swap(new: Path, path: Path) -> None:
    """Put a new folder in place of an old one. What was old is then under the new one's name, or gone."""
    if not path.exists():
        os.rename(new, path)
        return
    if _exchange(new, path):
        return
    old = _aside(path)
    shutil.rmtree(old, ignore_errors=True)
    os.rename(path, old)
    try:
        os.rename(new, path)
    except BaseException:
        os.rename(old, path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Let two folders change places in one step; False where the system cannot."""
    return _rename(one, other, _EXCHANGE)


def _rename(one: Path, other: Path, flags: int) -> bool:
    """Rename as only a Linux call can; False where it fails, or where the system has no such call."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    at_cwd = -100  # AT_FDCWD
    return call is not None and call(at_cwd, os.fsencode(one), at_cwd, os.fsencode(other), flags) == 0


def _sync_folder(path: Path) -> None:
    # Some file systems cannot. The files themselves are on the disk by then; only a power cut could undo the rename.
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def append_jsonl(path: Path, record: Mapping[str, Any]) -> None:
    """Append one JSON object as one line, in a single write.

    A line torn by a crash is closed off first, so that it can never swallow the record that follows it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    line = (json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")
    with path.open("ab+") as stream:
        end = stream.seek(0, os.SEEK_END)
        if end:
            stream.seek(end - 1)
            if stream.read(1) != b"\n":
                line = b"\n" + line
        stream.write(line)
        stream.flush()


def read_jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read a jsonl file of objects, passing over a line that a crash left torn.

    Only files that this project appends to are read with this; data that people hand in is read strictly.

    Yields:
        Line number, counted from 1, and the object on it.
    """
    if not path.exists():
        return
    with path.open("rb", buffering=LARGE_READ) as stream:
        for number, line in enumerate(stream, 1):
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                yield number, record


def hold(path: Path) -> int:
    """Lock a file for this process, without waiting. The lock goes when the process ends, however it ends.

    Returns:
        A handle for `os.close`, which gives the lock back.

    Raises:
        BlockingIOError: If another process holds it.
        OSError: If the file cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(handle)
        raise
    return handle


def is_held(path: Path) -> bool:
    """Whether a process holds a file. Nothing is written, so it can be asked on a disk that is read-only, too."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def sha256(data: bytes) -> str:
    """Return the SHA-256 of bytes as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    """Return the SHA-256 of a file of any size as 64 hexadecimal digits.

    Raises:
        OSError: If it cannot be read.
    """
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


_EDGE = 1 << 16


def quick_digest(path: Path) -> str:
    """Return a SHA-256 over the size, the first and the last 64 KiB of a file of any size.

    Unlike modification times, it is the same on every machine. A change in the middle that keeps the size goes
    unnoticed; formats with a footer or lengths, such as Parquet, rarely change so.

    Raises:
        OSError: If it cannot be read.
    """
    with path.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(0)
        edges = stream.read(_EDGE)
        stream.seek(max(0, size - _EDGE))
        return content_id([size, sha256(edges), sha256(stream.read(_EDGE))])


_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def content_id(value: Any) -> str:
    """Return a SHA-256 over the canonical JSON of a value (sorted keys, no spaces, UTF-8)."""
    return sha256(_canonical(value).encode())


SPARE_BYTES = 256 << 20
"""Space that is left free on a disk."""


def check_space(folder: Path, needed: int, action: str) -> None:
    """Check that a disk has enough free space.

    Args:
        folder: Folder that is written to; it need not exist.
        needed: Bytes. With 0 nothing is checked.
        action: What needs the space, as in `download org/name`.

    Raises:
        DataError: If less than `SPARE_BYTES` would remain.
    """
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if needed and free < needed + SPARE_BYTES:
        wanted = f"{megabytes(needed)} MB, plus {megabytes(SPARE_BYTES)} MB to remain free"
        message = f"Not enough disk space to {action}: it needs {wanted}, and {folder} has {megabytes(free)} MB."
        step = "Free some space, or set RH_HOME and HF_HOME to folders on a larger disk; then run it again."
        raise DataError(message, next_step=step)


def megabytes(count: int) -> int:
    """Convert bytes to whole megabytes, rounded up."""
    return -(-count // 1_000_000)

"""Reading and writing files: UTF-8 text, atomic writes, jsonl, content ids.

The only module that writes. A write either happens whole or not at all, also when the process is killed in
the middle of it; a line appended to a jsonl file is either complete or is recognised as torn when read.
"""

import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rewardharness.errors import DataError


def read_text(path: Path) -> str:
    """Read a UTF-8 text file.

    Raises:
        DataError: If the file is missing or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"{path} does not exist.", next_step="Check the path.") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text (byte {error.start}).", next_step="Save it as UTF-8.") from None


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file atomically: readers see the old content or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


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
    with path.open("rb") as stream:
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


def sha256(data: bytes) -> str:
    """Return the SHA-256 of bytes as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def content_id(value: Any) -> str:
    """Return a SHA-256 over the canonical JSON of a value (sorted keys, no spaces, UTF-8)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return sha256(text.encode("utf-8"))

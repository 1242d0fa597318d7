"""Reads files of a folder that is not trusted: no link is followed, nothing outside is reached, sizes are bounded."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import NoReturn

from rewardharness.errors import shown
from rewardharness.library.problems import FormatError, Problem

MAX_TOTAL = 10 * 1024 * 1024
"""Bytes that are read from one Library, at most."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def odd_kind(mode: int) -> str | None:
    """Name what something is that is not a regular file, as in `a link`; None for a regular file."""
    return next((word for test, word in _KINDS if test(mode)), None)


@dataclass
class Folder:
    """A folder that is not trusted, and how much was read from it."""

    root: Path
    """May itself be a link: the user named it."""
    total: int = field(default=0, init=False)
    """Bytes read so far; at most `MAX_TOTAL`."""

    def read(self, where: str, limit: int) -> str | None:
        """Read a UTF-8 text file.

        Every step of the path is opened relative to the one before and never through a link, so that the file is
        inside the folder whatever changes on disk meanwhile.

        Args:
            where: The file, relative, with `/`.
            limit: Its size in bytes, at most.

        Returns:
            The exact text, or None when there is no such file.

        Raises:
            FormatError: If it is not a regular file, is too large, is not UTF-8 or cannot be read.
        """
        try:
            data = self._bytes(where, limit)
            return None if data is None else data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            problem = Problem(
                "error", where, line, f"This is not UTF-8 text (byte {error.start}).", "Save it as UTF-8."
            )
            raise FormatError(problem) from None
        except OSError as error:
            message = f"It cannot be read: {error.strerror or error}."
            raise FormatError(Problem("error", where, None, message, "Check the file and its mode.")) from None

    def _bytes(self, where: str, limit: int) -> bytes | None:
        steps = PurePosixPath(where).parts
        handle = os.open(self.root, _FOLDER)
        try:
            for number, step in enumerate(steps, 1):
                last = number == len(steps)
                try:
                    mode = os.stat(step, dir_fd=handle, follow_symlinks=False).st_mode
                except FileNotFoundError:
                    return None
                if not (stat.S_ISREG(mode) if last else stat.S_ISDIR(mode)):
                    _refuse(where, f"`{shown(step)}` is {odd_kind(mode) or 'a file'}.", "Put a real file there.")
                inner = os.open(step, _FILE if last else _FOLDER | os.O_NOFOLLOW, dir_fd=handle)
                os.close(handle)
                handle = inner
            return self._contents(handle, where, limit)
        finally:
            os.close(handle)

    def _contents(self, handle: int, where: str, limit: int) -> bytes:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            _refuse(where, "It is no regular file.", "Put a real file there.")
        if status.st_size > limit:
            _refuse(where, f"It has {status.st_size} bytes; at most {limit} are read.", "Shorten it.")
        allowed = min(limit, MAX_TOTAL - self.total)
        with os.fdopen(os.dup(handle), "rb") as stream:
            data = stream.read(allowed + 1)
        if len(data) > allowed:
            _refuse(where, f"With it the Library is larger than {MAX_TOTAL} bytes.", "Make the Library smaller.")
        self.total += len(data)
        return data

    def list(self, passed_over: frozenset[str] = frozenset()) -> Iterator[tuple[str, os.stat_result]]:
        """List everything that is not a folder, at any depth, without following links.

        Args:
            passed_over: Names of folders that are not looked into.

        Yields:
            Relative path with `/`, and the status of the thing itself; names in order within a folder.

        Raises:
            OSError: If a folder cannot be listed.
        """
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            with os.scandir(self.root / folder) as scan:
                items = sorted(scan, key=lambda item: item.name)
            deeper = []
            for item in items:
                status = item.stat(follow_symlinks=False)
                if not stat.S_ISDIR(status.st_mode):
                    yield f"{folder}{item.name}", status
                elif item.name not in passed_over:
                    deeper.append(f"{folder}{item.name}/")
            waiting.extend(reversed(deeper))


def _refuse(where: str, message: str, remedy: str) -> NoReturn:
    raise FormatError(Problem("error", where, None, message, remedy))

"""Reads files of an untrusted folder: links are not followed, and sizes are limited."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from rewardharness.errors import shown
from rewardharness.library.problems import FormatError, Problem

MAX_TOTAL = 10 * 1024 * 1024
"""Maximum number of bytes that are read from one Library."""

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


def special_kind(mode: int) -> str | None:
    """Return the type of a file that is not regular, such as `a link`; None for a regular file."""
    return next((name for test, name in _KINDS if test(mode)), None)


@dataclass
class Folder:
    """An untrusted folder, with the number of bytes read from it."""

    root: Path
    """The folder. It may be a link because the user named it."""
    total: int = field(default=0, init=False)
    """Bytes read so far; at most `MAX_TOTAL`."""

    def read(self, where: str, limit: int) -> str | None:
        """Read a UTF-8 text file.

        Each part of the path is opened relative to its parent and never through a link, so the file is always inside
        the folder, even if the folder changes concurrently.

        Args:
            where: Relative path of the file, with `/`.
            limit: Maximum size in bytes.

        Returns:
            The exact text, or None if the file does not exist.

        Raises:
            FormatError: If the file is not regular, is too large, is not UTF-8, or cannot be read.
        """
        try:
            data = self._bytes(where, limit)
            return None if data is None else data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            raise _refusal(where, f"This is not UTF-8 text (byte {error.start}).", "Save it as UTF-8.", line) from None
        except OSError as error:
            message = f"The file cannot be read: {error.strerror or error}."
            raise _refusal(where, message, "Check the file and its permissions.") from None

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
                    message = f"`{shown(step)}` is {special_kind(mode) or 'a file'}."
                    raise _refusal(where, message, "Replace it with a regular file or folder.")
                inner = os.open(step, _FILE if last else _FOLDER | os.O_NOFOLLOW, dir_fd=handle)
                os.close(handle)
                handle = inner
            return self._contents(handle, where, limit)
        finally:
            os.close(handle)

    def _contents(self, handle: int, where: str, limit: int) -> bytes:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise _refusal(where, "This is not a regular file.", "Use a regular file.")
        if status.st_size > limit:
            raise _refusal(where, f"The file has {status.st_size} bytes; the limit is {limit}.", "Shorten it.")
        allowed = min(limit, MAX_TOTAL - self.total)
        with os.fdopen(handle, "rb", closefd=False) as stream:
            data = stream.read(allowed + 1)
        if len(data) > allowed:
            message = f"The Library is larger than {MAX_TOTAL} bytes."
            raise _refusal(where, message, "Reduce the size of the Library.")
        self.total += len(data)
        return data

    def list(self, skipped: frozenset[str] = frozenset()) -> Iterator[tuple[str, os.stat_result]]:
        """List everything that is not a folder, at any depth, without following links.

        Args:
            skipped: Names of folders that are not listed.

        Yields:
            Relative path with `/` and file status, sorted by name within each folder.

        Raises:
            OSError: If a folder cannot be listed.
        """
        folders = [""]
        while folders:
            folder = folders.pop()
            with os.scandir(self.root / folder) as scan:
                items = sorted(scan, key=lambda item: item.name)
            subfolders = []
            for item in items:
                status = item.stat(follow_symlinks=False)
                if not stat.S_ISDIR(status.st_mode):
                    yield f"{folder}{item.name}", status
                elif item.name not in skipped:
                    subfolders.append(f"{folder}{item.name}/")
            folders.extend(reversed(subfolders))


def _refusal(where: str, message: str, remedy: str, line: int | None = None) -> FormatError:
    return FormatError(Problem("error", where, line, message, remedy))

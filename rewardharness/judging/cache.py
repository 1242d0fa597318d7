"""Remembers judgments by content, so that nothing is asked twice: on disk, across processes and commands.

Standard SQLite in WAL mode with JSON values. What `put` has returned from survives `kill -9`. Only real answers are
kept; a failure is asked again. The key covers everything that can change an answer and nothing that cannot: no
address, no key, no time-out, no degree of concurrency.

A cache never costs a judgment: a damaged file is set aside, a row that cannot be read counts as missing, and where
nothing can be written judgments go on without a cache. Each cache warns once.
"""

import asyncio
import json
import logging
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
log = logging.getLogger(__name__)

FILE = "judgments.sqlite3"
SCHEMA = 1
"""Version of the table; another one on disk is set aside."""
_ELSEWHERE = "Set RH_HOME to a folder on a local disk with free space, or pass --no-cache."
_TABLE = """
CREATE TABLE IF NOT EXISTS judgment (
    key TEXT PRIMARY KEY, value TEXT NOT NULL, judge TEXT NOT NULL, created REAL NOT NULL
) WITHOUT ROWID
"""


@dataclass(frozen=True)
class CacheStats:
    """What a cache holds."""

    path: Path
    judgments: int
    bytes: int
    """Size on disk."""
    by_judge: dict[str, int]
    """Judgments per judge."""


class JudgmentCache:
    """A cache of judgments in a folder. Safe for several threads and processes on one machine.

    Args:
        folder: Where the file lies; made when missing, readable by its owner alone. Where that fails, answers are kept
            in memory.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._lock = threading.Lock()
        self._under_way: dict[str, asyncio.Future[dict[str, Any] | None]] = {}
        self._complained = False
        self.hits = 0
        """Answers that were remembered since this object was made."""
        self._database = self._open()

    def __reduce__(self) -> tuple[type["MemoryCache"], tuple[()]]:
        """In another process it is an empty cache in memory: no two machines write one file."""
        return MemoryCache, ()

    def get(self, key: str, check: Callable[[dict[str, Any]], object] = dict) -> dict[str, Any] | None:
        """Return what is remembered under a key, or None.

        Args:
            key: Content id of the question.
            check: Reads an answer; where that fails, nothing counts as remembered.
        """
        try:
            rows = self._run("SELECT value FROM judgment WHERE key = ?", (key,))
            value: dict[str, Any] | None = json.loads(rows[0][0]) if rows else None
            if value is not None:
                check({**value})
            return value
        except sqlite3.Error as error:
            self._complain(f"it cannot be read ({error})", _ELSEWHERE)
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError):
            self._complain("an answer in it cannot be read and is asked for again")
        return None

    def put(self, key: str, value: dict[str, Any], judge: str) -> None:
        """Remember an answer. When this returns, the answer survives the end of the process."""
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        self._run("INSERT OR REPLACE INTO judgment VALUES (?, ?, ?, ?)", (key, text, judge, time.time()))

    async def remember(
        self,
        key: str,
        judge: str,
        make: Callable[[], Awaitable[dict[str, Any] | None]],
        check: Callable[[dict[str, Any]], object] = dict,
    ) -> tuple[dict[str, Any] | None, bool]:
        """Look an answer up, or have it made; equal questions asked at once are answered once.

        Args:
            key: Content id of the question.
            judge: Who answers, for statistics.
            make: Makes the answer; None when it failed, which is not remembered.
            check: Reads an answer; where that fails, nothing counts as remembered.

        Returns:
            The answer, and whether it was remembered or shared rather than made for this call.
        """
        known = self.get(key, check)
        if known is not None:
            self.hits += 1
            return known, True
        waiting = self._under_way.get(key)
        if waiting is not None:
            shared = await asyncio.shield(waiting)
            if shared is not None:
                self.hits += 1
                return shared, True
            return await self.remember(key, judge, make, check)
        future = asyncio.get_running_loop().create_future()
        self._under_way[key] = future
        value = None
        try:
            value = await make()
            if value is not None:
                self.keep(key, value, judge)
            return value, False
        finally:
            del self._under_way[key]
            future.set_result(value)

    def keep(self, key: str, value: dict[str, Any], judge: str) -> None:
        """Put an answer that was paid for; where that fails, as on a full disk, the answer counts all the same."""
        try:
            self.put(key, value, judge)
        except (sqlite3.Error, ValueError) as error:
            self._complain(f"an answer cannot be stored ({error})", _ELSEWHERE)

    def stats(self) -> CacheStats:
        """Say what the cache holds."""
        rows = self._run("SELECT judge, COUNT(*) FROM judgment GROUP BY judge")
        size = sum(file.stat().st_size for file in self.path.parent.glob(f"{FILE}*") if file.is_file())
        by_judge = {str(judge): int(count) for judge, count in rows}
        return CacheStats(self.path, sum(by_judge.values()), size, by_judge)

    def clear(self, judge: str | None = None) -> int:
        """Forget everything, or everything of one judge; return how many judgments that were."""
        before = self.stats().judgments
        self._run("DELETE FROM judgment WHERE judge = coalesce(?, judge)", (judge,))
        return self._shrink(before)

    def prune(self, since: float, most_bytes: int | None) -> int:
        """Delete old answers.

        Args:
            since: Time before which answers are deleted, in seconds of the epoch.
            most_bytes: Size that the newest answers may have together; None for any.

        Returns:
            The number of deleted answers.
        """
        before = self.stats().judgments
        self._run("DELETE FROM judgment WHERE created < ?", (since,))
        if most_bytes is not None:
            sizes = "SUM(LENGTH(CAST(value AS BLOB))) OVER (ORDER BY created DESC, key)"
            old = f"SELECT key FROM (SELECT key, {sizes} AS total FROM judgment) WHERE total > ?"
            self._run(f"DELETE FROM judgment WHERE key IN ({old})", (most_bytes,))
        return self._shrink(before)

    def _shrink(self, before: int) -> int:
        self._run("VACUUM")
        return before - self.stats().judgments

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    def _run(self, statement: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """Execute a statement; a file that proves to be damaged is set aside, and the statement runs on a new one."""
        with self._lock:
            try:
                return self._database.execute(statement, values).fetchall()
            except sqlite3.DatabaseError as error:
                if not _is_damage(error):
                    raise
                self._database.close()
                self._database = self._open(damaged=self._file)
                return self._database.execute(statement, values).fetchall()

    def _open(self, damaged: int | None = None) -> sqlite3.Connection:
        """Open the file, or a database in memory where that cannot be done.

        Args:
            damaged: Inode of a file that is damaged. It is set aside, unless another process has done so already.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if damaged is None or not self.path.exists() or damaged != self.path.stat().st_ino:
                try:
                    return self._connected()
                except sqlite3.DatabaseError as error:
                    if not _is_damage(error):
                        raise
            aside = f"{FILE}.damaged-{int(time.time())}"
            self._complain(f"it is damaged and was renamed to {aside}")
            for part in ("", "-wal", "-shm"):  # a log that is left behind would be read into the new file
                if (beside := self.path.with_name(FILE + part)).exists():
                    beside.rename(self.path.with_name(aside + part))
            return self._connected()
        except (OSError, sqlite3.Error) as error:
            self._complain(f"it cannot be used ({error}), so answers are kept in memory alone", _ELSEWHERE)
            return _connect(":memory:")

    def _connected(self) -> sqlite3.Connection:
        database = _connect(self.path)
        self._file = self.path.stat().st_ino
        return database

    def _complain(self, what: str, step: str = "") -> None:
        """Warn once."""
        if not self._complained:
            self._complained = True
            log.warning("%s: %s. Judging continues.%s", self.path, what, step and f" {step}")


class MemoryCache(JudgmentCache):
    """A cache without a file."""

    def __init__(self) -> None:
        super().__init__(Path())

    def _open(self, damaged: int | None = None) -> sqlite3.Connection:
        return _connect(":memory:")


async def remembered(
    cache: JudgmentCache | None,
    key: Callable[[], str],
    judge: str,
    ask: Callable[[], Awaitable[T]],
    write: Callable[[T], dict[str, Any] | None],
    read: Callable[[dict[str, Any]], T],
) -> tuple[T, bool]:
    """Return an answer, and whether it was cached or shared rather than asked for.

    Args:
        cache: The cache; None to ask always.
        key: Returns the content id of the question.
        judge: Who answers.
        ask: Asks.
        write: Converts an answer to JSON; None for a failure, which is not cached.
        read: Reads what `write` returned.
    """
    if cache is None:
        return await ask(), False
    made: list[T] = []

    async def make() -> dict[str, Any] | None:
        made.append(await ask())
        return write(made[0])

    value, _ = await cache.remember(key(), judge, make, read)
    return (made[0], False) if made else (read(value or {}), True)


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    """Whether the file is no usable database; a busy, full or unreachable one has an error of another class."""
    return type(error) is sqlite3.DatabaseError


def _connect(path: Path | str) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
    try:
        # WAL: readers never wait for the writer. NORMAL: safe against the end of the process at any moment.
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        version = database.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, SCHEMA):
            raise sqlite3.DatabaseError(f"version {version} of the cache is not known")
        database.execute(_TABLE)
        database.execute(f"PRAGMA user_version = {SCHEMA}")
        if isinstance(path, Path):
            path.chmod(0o600)
    except BaseException:
        database.close()
        raise
    return database

"""Remembers judgments by content, so that nothing is asked twice: on disk, across processes and commands.

Standard SQLite in WAL mode with JSON values. What `put` has returned from survives `kill -9`. Only real answers are
kept; a failure is asked again. The key covers everything that can change an answer and nothing that cannot: no
address, no key, no time-out, no degree of concurrency.
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
from typing import Any

from rewardharness.errors import RunError

log = logging.getLogger(__name__)

FILE = "judgments.sqlite3"
SCHEMA = 1
"""Version of the table; another one on disk is set aside."""
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
        folder: Where the file lies; made when missing, readable by its owner alone.

    Raises:
        RunError: If the folder cannot be used.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._lock = threading.Lock()
        self._under_way: dict[str, asyncio.Future[dict[str, Any] | None]] = {}
        self._complained = False
        self.hits = 0
        """Answers that were remembered since this object was made."""
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._database = self._open()
        except (OSError, sqlite3.OperationalError) as error:
            raise RunError(
                f"The judgment cache {self.path} cannot be used: {error}.",
                next_step="Set RH_HOME to a folder on a local disk that you may write to, or pass --no-cache.",
            ) from error

    def get(self, key: str) -> dict[str, Any] | None:
        """Return what is remembered under a key, or None."""
        with self._lock:
            row = self._database.execute("SELECT value FROM judgment WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        value = json.loads(row[0])
        return value if isinstance(value, dict) else None

    def put(self, key: str, value: dict[str, Any], judge: str) -> None:
        """Remember an answer. When this returns, the answer survives the end of the process."""
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        with self._lock:
            self._database.execute(
                "INSERT OR REPLACE INTO judgment VALUES (?, ?, ?, ?)", (key, text, judge, time.time())
            )

    async def remember(
        self, key: str, judge: str, make: Callable[[], Awaitable[dict[str, Any] | None]]
    ) -> tuple[dict[str, Any] | None, bool]:
        """Look an answer up, or have it made; equal questions asked at once are answered once.

        Args:
            key: Content id of the question.
            judge: Who answers, for statistics.
            make: Makes the answer; None when it failed, which is not remembered.

        Returns:
            The answer, and whether it was remembered or shared rather than made for this call.
        """
        known = self.get(key)
        if known is not None:
            self.hits += 1
            return known, True
        waiting = self._under_way.get(key)
        if waiting is not None:
            shared = await asyncio.shield(waiting)
            if shared is not None:
                self.hits += 1
                return shared, True
            return await self.remember(key, judge, make)
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
        """Put an answer that was paid for; where the disk is full it counts all the same, and that is said once."""
        try:
            self.put(key, value, judge)
        except sqlite3.OperationalError as error:
            if not self._complained:
                self._complained = True
                log.warning("judgments are not remembered any more: %s: %s", self.path, error)

    def stats(self) -> CacheStats:
        """Say what the cache holds."""
        with self._lock:
            rows = self._database.execute("SELECT judge, COUNT(*) FROM judgment GROUP BY judge").fetchall()
        size = sum(file.stat().st_size for file in self.path.parent.glob(f"{FILE}*") if file.is_file())
        by_judge = {str(judge): int(count) for judge, count in rows}
        return CacheStats(self.path, sum(by_judge.values()), size, by_judge)

    def clear(self, judge: str | None = None) -> int:
        """Forget everything, or everything of one judge; return how many judgments that were."""
        with self._lock:
            if judge is None:
                count = self._database.execute("DELETE FROM judgment").rowcount
            else:
                count = self._database.execute("DELETE FROM judgment WHERE judge = ?", (judge,)).rowcount
            self._database.execute("VACUUM")
        return int(count)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    def _open(self) -> sqlite3.Connection:
        """Open the file; one that is damaged or of another version is set aside under another name."""
        try:
            return _connect(self.path)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            self.path.rename(self.path.with_name(f"{FILE}.damaged-{int(time.time())}"))
            return _connect(self.path)


def _connect(path: Path) -> sqlite3.Connection:
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
        path.chmod(0o600)
    except BaseException:
        database.close()
        raise
    return database

"""Request log with one line of JSON per request, without images, prompts, ids of edits or secrets."""

import logging
import queue
import threading
from collections.abc import Callable
from pathlib import Path

from rewardharness.files import append_jsonl
from rewardharness.schema import Json

log = logging.getLogger(__name__)

_MOST = 10_000
"""Maximum number of lines that wait to be written; more are dropped and counted."""


class RequestLog:
    """Writes lines in a background thread, so that a slow disk does not slow down requests.

    The file is reopened for each line, so that it can be rotated at any time.

    Args:
        path: The file.
        on_drop: Called for each line that is not written.
    """

    def __init__(self, path: Path, on_drop: Callable[[], None]) -> None:
        self._path = path
        self._on_drop = on_drop
        self._complained = False
        self._waiting: queue.Queue[Json | None] = queue.Queue(_MOST)
        self._thread = threading.Thread(target=self._write, name="request-log", daemon=True)
        self._thread.start()

    def put(self, record: Json) -> None:
        """Queue a line for writing."""
        try:
            self._waiting.put_nowait(record)
        except queue.Full:
            self._on_drop()

    def close(self) -> None:
        """Write all queued lines."""
        self._waiting.put(None)
        self._thread.join()

    def _write(self) -> None:
        while (record := self._waiting.get()) is not None:
            try:
                append_jsonl(self._path, record)
            except OSError as error:
                self._on_drop()
                if not self._complained:
                    self._complained = True
                    log.warning("the request log cannot be written: %s", error.strerror)

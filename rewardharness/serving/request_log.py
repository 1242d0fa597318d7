"""One line of JSON per request: who judged, how long it took, what came of it. No images, prompts, ids or secrets."""

import logging
import queue
import threading
from collections.abc import Callable
from pathlib import Path

from rewardharness.files import append_jsonl
from rewardharness.schema import Json

log = logging.getLogger(__name__)

_MOST = 10_000
"""Lines that may wait to be written; more are dropped, and counted."""


class RequestLog:
    """Writes lines in a thread of its own, so that a slow disk slows nobody down.

    The file is opened anew for each line: it may be moved away at any time.

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
        """Have a line written soon."""
        try:
            self._waiting.put_nowait(record)
        except queue.Full:
            self._on_drop()

    def close(self) -> None:
        """Write what is waiting."""
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

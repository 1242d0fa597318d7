"""Kills the opening of a table at every one of its writes, and opens it again each time. Run by test_rows.

    opened_while_killed.py FOLDER WRITES     reads org/name from the Hub of HF_ENDPOINT

Prints one JSON list: for each write, how many writes were left to do for the next opening.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import datasets  # noqa: F401  (imported once, before anything is forked)
import huggingface_hub  # noqa: F401
import pyarrow.parquet  # noqa: F401

from rewardharness.data.rows import RowSource, open_rows
from rewardharness.settings import Settings

_replace = os.replace
SOURCE = RowSource(hub="ann/edits")


def in_child(work: Callable[[], str]) -> str | None:
    """Run something in a process of its own; None when that was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, work().encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        said = stream.read()
    return None if os.WIFSIGNALED(os.waitpid(child, 0)[1]) else said


def opened(home: Path, kill_at: int) -> str:
    """Open the table; says how many writes it took and what it holds."""
    count = 0

    def replace(old: str, new: str) -> None:
        nonlocal count
        if str(new).startswith(str(home)):
            count += 1
            if count == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
        _replace(old, new)

    os.replace = replace  # type: ignore[assignment]
    cache = str(home.parent / "cache")
    settings = Settings.from_env({**os.environ, "RH_HOME": str(home), "HF_HUB_CACHE": cache})
    rows = list(open_rows(SOURCE, settings))
    images = [row[name].path.read_bytes().hex() for row in rows for name in ("source_image", "left_image")]
    return json.dumps([count, len(rows), images])


def main() -> None:
    folder = Path(sys.argv[1])
    whole = in_child(lambda: opened(folder / "home", 0))
    assert whole is not None
    total, *content = json.loads(whole)
    left = []
    for number in range(1, total + 1):
        shutil.rmtree(folder / "home")
        assert in_child(lambda number=number: opened(folder / "home", number)) is None, "it was not killed"  # type: ignore[misc]
        again = in_child(lambda: opened(folder / "home", 0))
        assert again is not None, "it could not be opened again"
        count, *found = json.loads(again)
        assert found == content, "it is not what it was"
        left.append(count)
    sys.stdout.write(json.dumps([total, left]))


if __name__ == "__main__":
    main()

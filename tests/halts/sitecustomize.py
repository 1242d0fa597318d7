"""Halts the process that is about to do to a file what a test has asked for.

Every Python that has this folder on its path loads this when it starts; see `halting.py` beside the folder.
"""

import contextlib
import json
import os
import signal
import sys
from pathlib import Path


def _look(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and str(arguments[1]).startswith("a"):
        path = Path(os.fsdecode(arguments[0]))  # type: ignore[arg-type]
    elif event == "os.rename":
        path = Path(os.fsdecode(arguments[1]))  # type: ignore[arg-type]
    else:
        return
    asked = Path(os.environ["HALT_AT"])
    with contextlib.suppress(FileNotFoundError):  # nothing is asked for, or another process was faster
        name, times, text = json.loads(asked.read_text("utf-8"))
        if path.name == name and _is_meant(event, path, times, text):
            mine = asked.with_name(f"halting-{os.getpid()}")
            asked.rename(mine)  # whatever goes on with its work does not halt again
            mine.write_text(str(os.getpid()), "utf-8")
            mine.replace(asked.with_name("halted"))
            os.kill(os.getpid(), signal.SIGSTOP)


def _is_meant(event: str, path: Path, times: int | None, text: str) -> bool:
    if times is None:
        return event == "os.rename"
    return event == "open" and path.read_text("utf-8").count(text) >= times


if "HALT_AT" in os.environ:
    sys.addaudithook(_look)

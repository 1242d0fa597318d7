"""Finds a process of `rh` in the midst of its work, however fast it is: it halts by itself at a line it is to write.

    halt.at("results.jsonl", 4)                     # the next one that is about to append a fifth line
    subprocess.Popen(command)
    process = halt.reached()
    process.kill()                                  # or: process.resume()

A test that waits for a line and sends a signal then comes too late on some machines: all is over.
"""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

_HALTS = Path(__file__).parent / "halts"


class Halt:
    """Where a process halts.

    Args:
        folder: Where this is written down for the processes.
    """

    def __init__(self, folder: Path) -> None:
        self._asked = folder / "halt-at"
        self._halted = folder / "halted"

    @property
    def environment(self) -> Mapping[str, str]:
        """What a process needs in its environment to halt."""
        places = [str(_HALTS), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {"HALT_AT": str(self._asked), "PYTHONPATH": os.pathsep.join(places)}

    def at(self, name: str, times: int, text: str = "\n") -> None:
        """Have a process halt, the first that is about to append to a file of a name with a text in it so many times.

        Args:
            name: Name of the file.
            times: How often at least; with the usual text, after how many lines.
            text: The text.
        """
        self._ask(name, times, text)

    def before(self, name: str) -> None:
        """Have a process halt, the first that is about to put a whole file of a name in its place."""
        self._ask(name, None, "")

    def _ask(self, name: str, times: int | None, text: str) -> None:
        self.end()
        written = self._asked.with_name("halt-at.new")  # a process that looks meanwhile finds all of it or nothing
        written.write_text(json.dumps([name, times, text]), "utf-8")
        written.replace(self._asked)

    def reached(self) -> psutil.Process:
        """Wait until a process has halted. One that ends before is waited for in vain, up to the limit of a test."""
        while not self._halted.exists():
            time.sleep(0.002)
        process = psutil.Process(int(self._halted.read_text("utf-8")))
        while process.status() != psutil.STATUS_STOPPED:
            time.sleep(0.002)
        return process

    def end(self) -> None:
        """Halt nothing any more, and kill what is left halted."""
        self._asked.unlink(missing_ok=True)
        if self._halted.exists():
            pid = int(self._halted.read_text("utf-8"))
            self._halted.unlink()
            if psutil.pid_exists(pid) and psutil.Process(pid).status() == psutil.STATUS_STOPPED:
                psutil.Process(pid).kill()

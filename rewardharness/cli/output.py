"""The only printer: text, tables, JSON and progress, on a terminal or into a pipe."""

import re
import shutil
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from json import dumps as json_text
from typing import Any, Self

from rewardharness.errors import Description

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
WRONG_USE, NOT_JUDGED, INTERRUPTED = 2, 3, 130
STATUSES: Mapping[int, str] = {
    0: "success",
    1: "something that is named cannot be used, or the command failed",
    WRONG_USE: "wrong arguments",
    NOT_JUDGED: "some examples were not judged",
    INTERRUPTED: "interrupted",
}
"""Meaning of the exit statuses. What the command line alone shows to be wrong, such as a number out of range, is 2. A
missing or damaged file of a single edit is 1: nothing was there to be judged. A result with gaps is 3."""
SILENT_SECONDS = 4.0
"""Seconds between two lines of progress that is not shown on a terminal."""
LONGEST_WORD = 20
"""Characters of a word in a table that is not broken if it fits."""


def plain(text: str) -> str:
    """Make foreign text harmless for a terminal: control and direction characters are shown as `?`."""
    return _CONTROL.sub("?", text)


def say(text: str = "") -> None:
    """Print a line of the result on standard output."""
    print(plain(text))


def note(text: str) -> None:
    """Print a line about the work on standard error."""
    print(plain(text), file=sys.stderr, flush=True)


def emit(value: Any) -> None:
    """Print one JSON value on one line of standard output."""
    print(json_text(value, ensure_ascii=False, allow_nan=False))


def show(as_json: bool, record: Any, text: str) -> None:
    """Print a result as JSON, or as text."""
    if as_json:
        emit(record)
    else:
        say(text)


def fail(description: Description, *, json: bool = False) -> None:
    """Print an error: as text on standard error, and with `json` as an object on standard output."""
    note(f"rh: {description}")
    if json:
        emit({"error": asdict(description)})


def wrong_use(command: str, message: str, next_step: str, *, json: bool = False) -> None:
    """Print what is wrong with the arguments of a command, in the same two forms."""
    note(f"rh {command}: {message}")
    if next_step:
        note(f"  Next: {next_step}")
    note(f"Help: rh {command} --help")
    if json:
        emit({"error": {"title": "Wrong arguments", "detail": message, "next_step": next_step}})


def width() -> int:
    """How many characters a line of a table may have: those of the terminal, 120 elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 120


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Print a table; numbers are expected as finished text."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(title=title or None, title_justify="left", header_style="bold")
    cells = [[plain(cell) for cell in row] for row in rows]
    for heading, room in zip(headings, _widths([headings, *cells], width()), strict=True):
        grid.add_column(heading, overflow="fold", width=room)
    for row in cells:
        grid.add_row(*map(Text, row))
    Console(width=width()).print(grid)


def _widths(rows: Sequence[Sequence[str]], room: int) -> list[int]:
    """Return widths of columns that wrap about equally often, and break no word up to `LONGEST_WORD` if there is room.

    Names in the first column stay whole, so that they can be found and copied, unless they would take all room.
    """
    from rich.cells import cell_len

    columns = list(zip(*rows, strict=True))
    most = [max(1, *map(cell_len, column)) for column in columns]
    words = [max((cell_len(word) for cell in column for word in cell.split()), default=1) for column in columns]
    for longest in range(LONGEST_WORD, 0, -1):
        widths = [min(word, longest) for word in words]
        widths[0] = most[0] if most[0] <= room // 3 else widths[0]
        spare = room - sum(widths) - 3 * len(columns) - 1
        if spare >= 0:
            break
    for _ in range(min(spare, sum(most) - sum(widths))):
        fullest = max(range(len(columns)), key=lambda number: most[number] / max(1, widths[number]))
        widths[fullest] += 1
    return widths


class Bars:
    """Progress of long work, on standard error: a bar on a terminal, a line now and then elsewhere.

    Args:
        quiet: Show nothing.
    """

    def __init__(self, quiet: bool = False) -> None:
        self._quiet, self._label, self._waiting = quiet, "", ""
        self._done = self._first = self._total = 0
        self._bar: Any = None
        self._started, self._said, self._ended = time.monotonic(), 0.0, threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        if self._bar is not None:
            self._bar.stop()

    def show(self, label: str, done: int, total: int) -> None:
        """Show that so many steps of a piece of work are done."""
        if self._quiet:
            return
        if not self._label:
            self._begin()
        if label != self._label:
            self._label, self._first, self._started = label, done, time.monotonic()
            self._done, self._total = done, total
            if self._bar is not None:
                self._bar.reset(self._task, total=total, completed=done, description=label)
        ended, self._done, self._total = self._done < done == total, done, total
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total)
        elif ended:
            self._note()

    def wait(self, text: str) -> None:
        """Show what is waited for, empty for nothing: with the work, or before it in a line of its own now and then."""
        self._waiting = plain(text)
        if self._bar is not None:
            self._bar.update(self._task, waiting=self._waiting)
        elif text and not self._label and not self._quiet and time.monotonic() - self._said >= SILENT_SECONDS:
            self._said = time.monotonic()
            note(f"Waiting: {text}.")

    def _begin(self) -> None:
        if not sys.stderr.isatty():
            threading.Thread(target=self._tell, daemon=True).start()
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.progress import TimeRemainingColumn as Left

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        more = (TextColumn("left"), Left(), TextColumn("{task.fields[waiting]}"))
        self._bar = Progress(*columns, *more, console=Console(stderr=True))
        self._task = self._bar.add_task("", waiting="")
        self._bar.start()

    def _tell(self) -> None:
        while not self._ended.wait(SILENT_SECONDS):
            self._note()

    def _note(self) -> None:
        made, rest = self._done - self._first, self._total - self._done
        left = f", about {rest * (time.monotonic() - self._started) / made:.0f} s left" if made else ""
        waits = f"; {self._waiting}" if self._waiting else ""
        note(f"{self._label}: {self._done}/{self._total}{left}{waits}.")


def share(value: float | None, interval: Sequence[float] | None = None) -> str:
    """Write a share with its interval, or `-` when there is none."""
    if value is None:
        return "-"
    return f"{value:.3f}" + (f" [{interval[0]:.3f}, {interval[1]:.3f}]" if interval else "")


def shorten(text: str, width: int) -> str:
    """Cut a text to one line of at most `width` characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def count(number: int, noun: str) -> str:
    """Write a number with its noun in the singular or plural."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"

"""The only printer: text, tables, JSON and progress, on a terminal or into a pipe."""

import re
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import zip_longest
from json import dumps as json_text
from types import TracebackType
from typing import Any, Self

from rewardharness.errors import Description

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_STYLE = re.compile("\x1b\\[[0-9;]*m")
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
LONG_TABLE = 100
"""Rows above which a table is laid out by its widest rows, which is faster and looks the same."""
SILENT_SECONDS = 4.0
"""Seconds between two lines of progress that is not shown on a terminal."""


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

    console = Console(width=width())
    rows = [[plain(cell) for cell in row] for row in rows]
    if len(rows) <= LONG_TABLE:
        console.print(_grid(headings, rows, title))
        return
    with console.capture() as captured:
        console.print(_grid(headings, _widest(rows), title))
    lines = captured.get().splitlines()
    border = next((number for number, line in enumerate(lines) if "┡" in line), None)
    if border is None:  # an output that cannot encode these characters
        console.print(_grid(headings, rows, title))
        return
    widths = [len(part) - 2 for part in re.split("[╇┡┩]", _STYLE.sub("", lines[border]))[1:-1]]
    body = (line for row in rows for line in _lines(console, row, widths))
    print("\n".join([*lines[: border + 1], *body, lines[-1]]))


def _grid(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> Any:
    """Lay out a table of plain cells."""
    from rich.table import Table
    from rich.text import Text

    grid = Table(title=title or None, title_justify="left", header_style="bold")
    # Names in the first column are not broken, so that they can be found and copied, unless they would take all room.
    names = max((len(row[0]) for row in rows), default=0) <= width() // 3
    for number, heading in enumerate(headings):
        grid.add_column(heading, overflow="fold", no_wrap=names and number == 0)
    for row in rows:
        grid.add_row(*map(Text, row))
    return grid


def _widest(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Return the rows that determine the widths of all columns: those with the longest cells and the longest words."""
    from rich.cells import cell_len

    columns = range(len(rows[0]))
    longest = [max(rows, key=lambda row: cell_len(row[column])) for column in columns]
    words = [max(rows, key=lambda row: max(map(cell_len, row[column].split()), default=0)) for column in columns]
    return [*longest, *words]


def _lines(console: Any, row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    """Format a row of a long table, of which only the cells that are wider than their columns are laid out."""
    from rich.cells import cell_len, set_cell_size
    from rich.text import Text

    cells = []
    for cell, room in zip(row, widths, strict=True):
        fits = cell_len(cell) <= room and "\n" not in cell
        cells.append([cell] if fits else [str(line) for line in Text(cell).wrap(console, room, overflow="fold")])
    for parts in zip_longest(*cells, fillvalue=""):
        padded = (set_cell_size(part, room) for part, room in zip(parts, widths, strict=True))
        yield f"│ {' │ '.join(padded)} │"


class Progress:
    """Progress of long work, on standard error: a bar on a terminal, a line now and then elsewhere.

    Args:
        total: How many steps there are.
        label: What is being done.
        done: How many were done before.
        quiet: Show nothing.
    """

    def __init__(self, total: int, label: str, *, done: int = 0, quiet: bool = False) -> None:
        self._total, self._label, self._done, self._first, self._quiet = total, label, done, done, quiet
        self._waiting = ""
        self._bar: Any = None
        self._started, self._ended = time.monotonic(), threading.Event()

    def __enter__(self) -> Self:
        if sys.stderr.isatty() and not self._quiet:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                TextColumn("{task.fields[waiting]}"),
                console=Console(stderr=True),
            )
            self._task = self._bar.add_task(self._label, total=self._total, completed=self._done, waiting="")
            self._bar.start()
        elif not self._quiet:
            threading.Thread(target=self._tell, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._bar is not None:
            self._bar.stop()

    def step(self) -> None:
        """Count one step."""
        self._done += 1
        if self._bar is not None:
            self._bar.update(self._task, advance=1)
        elif self._done == self._total and not self._quiet:
            self._note()

    def wait(self, text: str) -> None:
        """Show what the work waits for; empty for nothing."""
        self._waiting = plain(text)
        if self._bar is not None:
            self._bar.update(self._task, waiting=self._waiting)

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

"""The report of a job: sections of text, tables and charts.

A job builds its report once; the terminal, Markdown, HTML and the app render it. All texts may be untrusted: renderers
escape them.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Value:
    """A number in a table, with what a renderer needs to draw it."""

    text: str
    value: float | None
    interval: tuple[float, float] | None = None
    chance: float | None = None
    """Chance level; None if there is none."""
    low: float = 0.0
    """Lower end of the axis: 0 for shares, -1 for correlations."""
    high: float = 1.0
    """Upper end of the axis."""


@dataclass(frozen=True)
class Mark:
    """A word that is highlighted as good or bad, and text after it."""

    word: str
    good: bool
    text: str = ""

    def __str__(self) -> str:
        return f"{self.word}: {self.text}" if self.text else self.word


Cell = str | Value | Mark


@dataclass(frozen=True)
class Text:
    """Paragraphs, or the items of a list."""

    lines: tuple[str, ...]
    kind: Literal["text", "headline", "note", "warning", "list", "legend"] = "text"
    """`legend` explains drawings and is left out where nothing is drawn."""


@dataclass(frozen=True)
class Table:
    """A table. The first cell of a row names it."""

    headings: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""
    kind: str = ""
    """Name of the layout, for a renderer with style sheets."""
    shown: int | None = None
    """Rows that are shown at first where space is short; None for all."""


@dataclass(frozen=True)
class Point:
    """A point of a chart."""

    x: float
    y: float
    interval: tuple[float, float]
    """Interval of `y`."""
    n: int
    """Judgments behind the point."""


@dataclass(frozen=True)
class Chart:
    """Points in the unit square, with the diagonal."""

    title: str
    x: str
    """Name of the horizontal axis."""
    y: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Steps:
    """A curve of steps over a count."""

    title: str
    x: str
    """What is counted."""
    points: tuple[tuple[int, float], ...]
    """Count and value in [0, 1], in order."""
    marks: frozenset[int] = frozenset()
    """Indices of the points with a dot."""
    note: str = ""


@dataclass(frozen=True)
class Picture:
    """An image with its name."""

    name: str
    webp: bytes
    good: bool = False
    """Whether it is framed as the better one."""


@dataclass(frozen=True)
class Pictures:
    """Images side by side. Only HTML shows them."""

    items: tuple[Picture, ...]


Block = Text | Table | Chart | Steps | Pictures


@dataclass(frozen=True)
class Section:
    """A section of a report. Sections without blocks are left out of files."""

    key: str
    title: str
    blocks: tuple[Block, ...]
    empty: str = ""
    """Shown instead of the blocks where the section has a fixed place."""
    shown: int | None = None
    """Tables that are shown at first where space is short; None for all."""
    detail: bool = False
    """Whether a terminal leaves the section out."""


@dataclass(frozen=True)
class Report:
    """The report of a job."""

    title: str
    sections: tuple[Section, ...]

    def section(self, key: str) -> Section:
        """Return a section."""
        return next(section for section in self.sections if section.key == key)


def cell_text(cell: Cell) -> str:
    """Return a cell as text."""
    return cell.text if isinstance(cell, Value) else str(cell)

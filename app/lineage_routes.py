"""Leads the lines of a lineage around the boxes: through the gaps between columns, between rows, and past free places.

A line that skips columns crosses each of them in a track: one runs along every row and one below it. Lines that share a
track have lanes of their own there, but those that come from the same box: they fork where they part.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rewardharness.runs.graph import Edge

Point = tuple[float, float]

Curve = tuple[Point, Point, Point, Point]
"""A cubic Bézier curve: start, two points that bend it, end."""

LANE = 12
"""Height from lane to lane, at most."""


@dataclass(frozen=True)
class Grid:
    """How large everything is. Columns begin at 0 and rows too, rows downwards."""

    width: float
    """Width of a column."""
    gap: float
    """Width of the space between columns."""
    row: float
    """Height from row to row."""
    box: float
    """Height of a box; it is as wide as its column."""

    def left(self, column: int) -> float:
        """Left side of a column."""
        return column * (self.width + self.gap)

    def right(self, column: int) -> float:
        """Right side of a column."""
        return self.left(column) + self.width

    def centre(self, column: int) -> float:
        """Middle of a column."""
        return self.left(column) + self.width / 2

    def level(self, track: int) -> float:
        """Middle of a track: the even ones run along the rows, the odd ones below them."""
        row, below = divmod(track, 2)
        return row * self.row + ((self.box + self.row) / 2 if below else self.box / 2)

    def height(self, track: int) -> float:
        """Height of a track."""
        return self.row - self.box if track % 2 else self.box


@dataclass(frozen=True)
class _Run:
    """The columns that a line crosses, in its own order, and the track in each."""

    columns: tuple[int, ...]
    tracks: tuple[int, ...]


def routes(places: Mapping[str, tuple[int, int]], edges: Sequence[Edge], grid: Grid) -> list[tuple[Curve, ...]]:
    """Lead every edge from its source to its target so that it passes behind no box.

    Args:
        places: Column and row of each box, each in a place of its own.
        edges: What to draw; both ends have places.
        grid: How large everything is.

    Returns:
        For each edge the curves that it consists of, each from the end of the one before. They stay between the rows
        and columns, above the end of the space below the last row; lines within the first column bend out of it to the
        left by less than half a gap.
    """
    runs = [_run(places[edge.source], places[edge.target], places) for edge in edges]
    levels = _levels(edges, runs, grid)
    return [
        _curves(
            places[edge.source],
            places[edge.target],
            run.columns,
            [levels[edge.source, each] for each in run.tracks],
            grid,
        )
        for edge, run in zip(edges, runs, strict=True)
    ]


def _run(start: tuple[int, int], end: tuple[int, int], places: Mapping[str, tuple[int, int]]) -> _Run:
    """Choose the tracks of a line, column by column: near where it is, and on the way to where it ends."""
    (column, row), (to_column, to_row) = start, end
    taken = set(places.values())
    last = max(each for _, each in taken)
    inner = range(column + 1, to_column) if column < to_column else range(column - 1, to_column, -1)
    down = to_column < column and to_row > row  # out below the one box, in above the other
    here, aim = (2 * row + 1, 2 * to_row - 1) if down else (2 * row, 2 * to_row)
    first, tracks = here, []
    for each in inner:
        free = [track for track in range(2 * last + 2) if track % 2 or (each, track // 2) not in taken]
        here = min(free, key=lambda track: (1.5 * abs(track - here) + abs(track - aim), -track))
        tracks.append(here)
    if down:
        return _Run((column, *inner, to_column), (first, *tracks, aim))
    return _Run(tuple(inner), tuple(tracks))


def _levels(edges: Sequence[Edge], runs: Sequence[_Run], grid: Grid) -> dict[tuple[str, int], float]:
    """Say how high the line of a source runs in a track: no two that lie beside each other run in the same lane."""
    spans: dict[int, dict[str, tuple[int, int]]] = defaultdict(dict)
    for edge, run in zip(edges, runs, strict=True):
        for column, track in zip(run.columns, run.tracks, strict=True):
            first, last = spans[track].get(edge.source, (column, column))
            spans[track][edge.source] = (min(first, column), max(last, column))
    levels = {}
    for track, own in spans.items():
        ends: list[int] = []  # of each lane: the last column that is taken
        lanes = {}
        for source, (first, last) in sorted(own.items(), key=lambda each: each[1]):
            lane = next((number for number, end in enumerate(ends) if end < first), len(ends))
            ends[lane : lane + 1] = [last]
            lanes[source] = lane
        apart = min(LANE, grid.height(track) / (len(ends) + 1))
        for source, lane in lanes.items():
            levels[source, track] = grid.level(track) + (lane - (len(ends) - 1) / 2) * apart
    return levels


def _curves(
    start: tuple[int, int], end: tuple[int, int], columns: Sequence[int], levels: Sequence[float], grid: Grid
) -> tuple[Curve, ...]:
    """Draw a line along its tracks. It leaves to the right or, where its target stands further left, below or left."""
    (column, row), (to_column, to_row) = start, end
    y, to_y = grid.level(2 * row), grid.level(2 * to_row)
    if column == to_column and to_row == row + 1:
        x = grid.centre(column)
        return (_swing((x, row * grid.row + grid.box), (x, to_row * grid.row)),)
    if column == to_column:
        x, out = grid.left(column), grid.left(column) - grid.gap / 2
        return (((x, y), (out, y), (out, to_y), (x, to_y)),)
    ahead = column < to_column
    near, far = (grid.left, grid.right) if ahead else (grid.right, grid.left)
    points: list[Point] = [(far(column), y)]
    for each, level in zip(columns, levels, strict=True):
        points += [(near(each), level), (far(each), level)]
    points.append((near(to_column), to_y))
    if column not in columns:
        return tuple(_swing(*each) for each in pairwise(points))
    points = points[2:-2]
    x, to_x = grid.centre(column), grid.centre(to_column)
    leaves = ((x, row * grid.row + grid.box), (x, levels[0]), (x, levels[0]), points[0])
    comes = (points[-1], (to_x, levels[-1]), (to_x, levels[-1]), (to_x, to_row * grid.row))
    return (leaves, *(_swing(*each) for each in pairwise(points)), comes)


def _swing(start: Point, end: Point) -> Curve:
    """From one height to another, level at both ends."""
    middle = (start[0] + end[0]) / 2
    return (start, (middle, start[1]), (middle, end[1]), end)

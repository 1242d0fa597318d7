"""Lines of a lineage pass behind no box, whatever stands where, and those of different sources do not run together."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from app.lineage_routes import Curve, Grid, Point, routes
from rewardharness.runs.graph import Edge

GRID = Grid(width=150, gap=22, row=116, box=96)
Places = dict[str, tuple[int, int]]

cells = st.tuples(st.integers(0, 6), st.integers(0, 5))


@st.composite
def lineages(draw: st.DrawFn) -> tuple[Places, list[Edge]]:
    """Boxes in some of 7 columns and 6 rows, and edges between any of them, in any direction."""
    places = {str(number): cell for number, cell in enumerate(draw(st.lists(cells, min_size=2, unique=True)))}
    ids = st.sampled_from(sorted(places))
    pairs = draw(st.lists(st.tuples(ids, ids).filter(lambda pair: pair[0] != pair[1]), max_size=60, unique=True))
    return places, [Edge(source, target, "led to") for source, target in pairs]


def along(line: tuple[Curve, ...], steps: int = 24) -> list[Point]:
    """Points of a line, by the formula of a cubic Bézier curve."""
    found = []
    for curve in line:
        for step in range(steps + 1):
            t = step / steps
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3)
            x, y = (sum(w * point[axis] for w, point in zip(weights, curve, strict=True)) for axis in (0, 1))
            found.append((round(x, 6), round(y, 6)))
    return found


def box(place: tuple[int, int]) -> tuple[float, float, float, float]:
    """Left, top, right, bottom."""
    left, top = place[0] * (GRID.width + GRID.gap), place[1] * GRID.row
    return left, top, left + GRID.width, top + GRID.box


def inside(point: Point, place: tuple[int, int], slack: float = 0.01) -> bool:
    left, top, right, bottom = box(place)
    return left + slack < point[0] < right - slack and top + slack < point[1] < bottom - slack


def on_edge(point: Point, place: tuple[int, int]) -> bool:
    left, top, right, bottom = box(place)
    return point in {
        (left, (top + bottom) / 2),
        (right, (top + bottom) / 2),
        ((left + right) / 2, top),
        ((left + right) / 2, bottom),
    }


@settings(max_examples=150, deadline=None)
@given(lineages())
def test_no_line_passes_behind_a_box(lineage: tuple[Places, list[Edge]]) -> None:
    places, edges = lineage
    lines = routes(places, edges, GRID)
    assert len(lines) == len(edges)
    lowest = GRID.row * (1 + max(row for _, row in places.values()))
    for edge, line in zip(edges, lines, strict=True):
        assert on_edge(line[0][0], places[edge.source]) and on_edge(line[-1][-1], places[edge.target])
        assert all(one[-1] == other[0] for one, other in pairwise(line))
        points = along(line)
        assert all(y < lowest and x > -GRID.gap / 2 for x, y in points)
        behind = {place for place in places.values() for point in points if inside(point, place)}
        assert not behind, f"{places[edge.source]} to {places[edge.target]} passes behind {behind}"


@settings(max_examples=150, deadline=None)
@given(lineages())
def test_lines_of_different_sources_never_run_along_each_other(lineage: tuple[Places, list[Edge]]) -> None:
    places, edges = lineage
    seen: dict[tuple[float, float, float], str] = {}
    for edge, line in zip(edges, routes(places, edges, GRID), strict=True):
        for start, _, _, end in line:
            if start[1] == end[1] and abs(start[0] - end[0]) == GRID.width:  # across a column
                crossed = (min(start[0], end[0]), max(start[0], end[0]), start[1])
                assert seen.setdefault(crossed, edge.source) == edge.source


def test_a_line_goes_straight_where_nothing_stands_in_between() -> None:
    places = {"a": (0, 1), "b": (1, 0), "c": (3, 1)}
    [line] = routes(places, [Edge("a", "c", "taught")], GRID)
    assert {y for _, y in along(line)} == {GRID.row + GRID.box / 2}


def test_a_line_that_skips_boxes_runs_below_them_and_others_fork_from_it() -> None:
    places = {"data": (0, 0), "library": (1, 0), "release": (2, 0), "plan": (3, 0), "other": (3, 1)}
    edges = [Edge("data", "plan", "taught"), Edge("data", "other", "taught"), Edge("library", "plan", "rewards")]
    first, second, third = routes(places, edges, GRID)
    between = {y for x, y in along(first) if GRID.left(1) <= x <= GRID.right(2)}
    assert len(between) == 1 and GRID.box < min(between) < GRID.row
    assert first[:4] == second[:4], "lines from the same box fork where they part"
    assert not between & {y for x, y in along(third) if GRID.left(2) <= x <= GRID.right(2)}


def test_what_came_of_a_thing_further_left_and_lower_is_reached_from_above() -> None:
    places = {"library": (2, 0), "near": (1, 1), "far": (1, 3), "old": (1, 2), "newer": (2, 1), "last": (2, 2)}
    edges = [Edge("library", "near", "edited by"), Edge("library", "far", "edited by")]
    for edge, line in zip(edges, routes(places, edges, GRID), strict=True):
        assert line[0][0] == (GRID.centre(2), GRID.box)
        assert line[-1][-1] == (GRID.centre(1), places[edge.target][1] * GRID.row)

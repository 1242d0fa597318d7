"""Draws a lineage: buttons that open what is known of a thing, over lines in SVG. Pure: markup out, without scripts.

Where it is narrow the stylesheet puts the same buttons below each other, as a tree. Everything that a lineage says is
foreign text.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from app.lineage_details import details
from app.lineage_drawing import Drawn, layout
from app.lineage_routes import Curve, Grid, routes
from app.lineage_words import words
from app.markup import bullets, callout, escape, paragraph
from rewardharness.runs.graph import Branch, Edge, Node, branches

ROW, BOX = 116, 96
"""Height of a row and of what stands in it, in pixels."""

WIDE, GAP = 1000, 22
"""Width of the picture and of the space between columns, in thousandths of its width."""

WIDEST = 300
"""Width of a column, in pixels, at most."""

DEEPEST = 8
"""Steps by which the tree is indented, at most: a phone is narrow."""

NAMED = 3
"""Things that are named where the tree comes to them once more, at most."""

_KINDS = {"library": "Library", "manifest": "plan"}


def picture(found: Drawn, title: str, chosen: str = "") -> str:
    """Draw a lineage.

    Args:
        found: What is drawn; at least one node.
        title: What it is the lineage of.
        chosen: Id of the node that was asked for, if one was.
    """
    return _Picture(found, chosen).markup(title)


class Kin:
    """What each thing came from, and what it led to."""

    def __init__(self, found: Drawn) -> None:
        self._names = {node.id: called(node, found) for node in found.graph.nodes}
        self._into: dict[str, list[Edge]] = defaultdict(list)
        self._out: dict[str, list[Edge]] = defaultdict(list)
        for edge in found.graph.edges:
            self._into[edge.target].append(edge)
            self._out[edge.source].append(edge)

    def before(self, id_: str) -> str:
        """What a thing came from, as a list."""
        return bullets(
            f'{self._names[edge.source]} <span class="faint">{escape(edge.relation)} this</span>'
            for edge in self._into[id_]
        )

    def after(self, id_: str) -> str:
        """What a thing led to, as a list."""
        return bullets(
            f'<span class="faint">{escape(edge.relation)}</span> {self._names[edge.target]}' for edge in self._out[id_]
        )


def called(node: Node, found: Drawn) -> str:
    """What to call a thing in a sentence."""
    title = words(node, found.inside.get(node.id, ())).title
    return escape(f"{_KINDS.get(node.kind, node.kind)} {title}")


class _Picture:
    def __init__(self, found: Drawn, chosen: str) -> None:
        self._found, self._chosen = found, chosen
        self._kin, self._layout = Kin(found), layout(found.graph)
        self._steps = list(branches(found.graph))
        self._indents = _indents(self._steps)
        self._numbers = {node.id: number for number, node in enumerate(found.graph.nodes)}
        count = max(1, len(self._layout.columns))
        self._grid = Grid((WIDE - GAP * (count - 1)) / count, GAP, ROW, BOX)
        self._height = self._layout.rows * ROW  # lines run below the last row too

    def markup(self, title: str) -> str:
        found, columns = self._found, self._layout.columns
        count = "1 thing" if len(found.graph.nodes) == 1 else f"{len(found.graph.nodes)} things"
        said = f"{title}: {count}. What was there before stands left of what came of it, or above; open one to see all."
        left = ""
        if found.left_out:
            more = f"{found.left_out} more are not drawn"
            lone = self._chosen.startswith("library:")  # then there are no records to choose from
            remedy = "They belong to other Libraries." if lone else "Choose a record above to see what belongs to it."
            left = callout("warning", more, paragraph(remedy))
        share = f"{self._grid.width / WIDE:.2%}"
        heads = "".join(f'<span style="width:{share}">{head}</span>' for head in columns)
        things = "".join(self._things())
        drawing = (
            f'<div class="drawing" style="max-width:{len(columns) * WIDEST}px"><div class="heads" aria-hidden="true">'
            f'{heads}</div><div class="field" style="height:{self._height}px">{self._ties()}'
            f'<ul class="things">{things}</ul></div></div>'
        )
        return f'<div class="rh lineage">{paragraph(said, "faint")}{left}{drawing}</div>'

    def _things(self) -> Iterator[str]:
        """All of them, as the tree has them. Where it comes to things once more, it names them in one line."""
        names: dict[tuple[str | None, str], list[str]] = defaultdict(list)
        for step in self._steps:
            if step.again:
                names[step.parent, step.relation].append(called(step.node, self._found))
        for step in self._steps:
            if not step.again:
                yield self._thing(step)
            elif found := names.pop((step.parent, step.relation), None):
                yield self._again(step, found)

    def _thing(self, step: Branch) -> str:
        node = step.node
        inside = self._found.inside.get(node.id, ())
        few, name = words(node, inside), f"lineage-{self._numbers[node.id]}"
        column, row = self._layout.places[node.id]
        place = f"left:{self._grid.left(column) / WIDE:.2%};top:{row * ROW}px;width:{self._grid.width / WIDE:.2%}"
        style = f"--depth:{self._indents[node.id]};{place}"
        relation = f'<span class="relation">{escape(step.relation)}</span>' if step.relation else ""
        line = f'<span class="line">{escape(few.line)}</span>' if few.line else ""
        here = " here" if node.id == self._chosen else ""
        kind = f"{few.kind}, chosen" if here else few.kind
        card = (
            f'<button type="button" class="card" popovertarget="{name}"><span class="kind">{escape(kind)}</span>'
            f'<span class="what">{escape(few.title)}</span>{line}</button>'
        )
        told = self._opened(name, f"{few.kind}, {few.title}", node, details(node, inside))
        return f'<li class="thing {node.kind} {few.tone}{here}" style="{style}">{relation}{card}{told}</li>'

    def _again(self, step: Branch, names: Sequence[str]) -> str:
        depth = min(DEEPEST, self._indents[step.parent or ""] + 1)
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        said = f'<span class="relation">{escape(step.relation)}</span> {", ".join(names[:NAMED])}{more} (above)'
        return f'<li class="again" style="--depth:{depth}">{said}</li>'

    def _opened(self, name: str, title: str, node: Node, told: str) -> str:
        """What opens when a thing is chosen. Browsers close it by Escape, and give the focus back."""
        ways = [("Came from", self._kin.before(node.id)), ("Led to", self._kin.after(node.id))]
        around = "".join(f"<h4>{heading}</h4>{way}" for heading, way in ways if way)
        close = (
            f'<button type="button" class="close" popovertarget="{name}" popovertargetaction="hide" '
            "autofocus>Close</button>"
        )
        return (
            f'<div popover id="{name}" class="detail" role="dialog" aria-labelledby="{name}-title">'
            f'<div class="bar"><h3 id="{name}-title">{escape(title)}</h3>{close}</div>{told}{around}</div>'
        )

    def _ties(self) -> str:
        """The lines between things, behind them."""
        led = routes(self._layout.places, self._found.graph.edges, self._grid)
        paths = "".join(f'<path d="{_path(each)}"/>' for each in led)
        return (
            f'<svg class="ties" viewBox="0 0 {WIDE} {self._height}" preserveAspectRatio="none" aria-hidden="true" '
            f'focusable="false">{paths}</svg>'
        )


def _path(curves: Sequence[Curve]) -> str:
    """Write curves as SVG does."""
    said = "".join("C" + " ".join(f"{x:.1f} {y:.1f}" for x, y in curve[1:]) for curve in curves)
    x, y = curves[0][0]
    return f"M{x:.1f} {y:.1f}{said}"


def _indents(steps: Sequence[Branch]) -> Mapping[str, int]:
    """How far things are indented in the tree: further only below what led to several."""
    children: dict[str | None, int] = defaultdict(int)
    for each in steps:
        children[each.parent] += 1
    indents: dict[str, int] = {}
    for each in steps:
        if not each.again:
            above = 0 if each.parent is None else indents[each.parent] + (children[each.parent] > 1)
            indents[each.node.id] = min(above, DEEPEST)
    return indents

"""Decides what of a lineage is drawn, and where: columns by kind, from preferences to comparisons; rows by descent.

Small things stand inside others: examples in their data, artifacts in the result that left them, and of many edits all
but those that led straight to what was used stand together in one.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rewardharness.runs.graph import Edge, Graph, Node, around

MOST_EDITS = 12
"""Edits that are drawn one by one, at most."""

MOST_NODES = 120
"""Things that are drawn, at most."""

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "Preferences, data": ("data",),
    "Edits": ("edit",),
    "Library": ("library",),
    "Release, model": ("release", "model"),
    "Training": ("manifest", "result"),
    "Evals": ("eval",),
    "Compared": ("comparison",),
}
"""Headings of the columns, and the kinds of nodes that stand in them, from left to right."""

UNKNOWN = "data:"
"""Id of the data that examples are from where no data are named."""

_CHAIN = ("edit", "library")


@dataclass(frozen=True)
class Drawn:
    """What is drawn."""

    graph: Graph
    """Nodes as they are drawn; one of several edits has an id of its own."""
    inside: Mapping[str, tuple[Node, ...]] = field(default_factory=dict)
    """What stands inside a node."""
    left_out: int = 0
    """Nodes that are not drawn because there are too many."""


@dataclass(frozen=True)
class Layout:
    """Where everything stands."""

    columns: tuple[str, ...]
    """Headings of those that hold anything."""
    places: Mapping[str, tuple[int, int]]
    """Column and row of each node, counted from 0."""

    @property
    def rows(self) -> int:
        """Rows in all."""
        return 1 + max((row for _, row in self.places.values()), default=-1)


def drawn(graph: Graph, starts: Sequence[str] = ()) -> Drawn:
    """Choose what is drawn of a lineage.

    Args:
        graph: The lineage.
        starts: Ids of nodes by importance: where there are too many nodes, all that belongs to the first of these is
            drawn. Where none is named, the last nodes go first.
    """
    host: dict[str, str] = {}
    made: dict[str, Node] = {}
    for edge in graph.edges:
        if edge.relation in {"left", "holds"}:  # an artifact of its result, an example of its data
            host.setdefault(edge.target, edge.source)
    for node in graph.nodes:
        if node.kind == "example" and node.id not in host:
            made[UNKNOWN] = Node(UNKNOWN, "data", "examples", {"name": "", "revision": ""})
            host[node.id] = UNKNOWN
    for together in _folded(graph):
        edits = [node for node in graph.nodes if node.id in together and node.kind == "edit"]
        name = f"edits:{edits[0].id}"
        made[name] = Node(name, "edit", f"{len(edits)} more edits", {})
        host |= dict.fromkeys(together, name)
    whole = _hosted(graph, host, made)
    part = _part(whole.graph, starts or [node.id for node in reversed(whole.graph.nodes)])
    return replace(whole, graph=part, left_out=len(whole.graph.nodes) - len(part.nodes))


def _hosted(graph: Graph, host: Mapping[str, str], made: Mapping[str, Node]) -> Drawn:
    """Put nodes into their hosts; edges lead to the host then, each pair once."""
    nodes: dict[str, Node] = {}
    inside: dict[str, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        name = host.get(node.id, node.id)
        if name in made:
            nodes.setdefault(name, made[name])
        if name == node.id:
            nodes[name] = node
        elif node.kind != "library":
            inside[name].append(node)
    edges: dict[tuple[str, str], Edge] = {}
    for edge in graph.edges:
        source, target = host.get(edge.source, edge.source), host.get(edge.target, edge.target)
        if source != target:
            relation = "taught" if source == UNKNOWN else edge.relation
            edges.setdefault((source, target), Edge(source, target, relation))
    return Drawn(
        Graph(tuple(nodes.values()), tuple(edges.values())), {name: tuple(each) for name, each in inside.items()}
    )


def _folded(graph: Graph) -> list[set[str]]:
    """Find edits that are drawn as one, with the Libraries between them that nothing else is made of."""
    kinds = {node.id: node.kind for node in graph.nodes}
    edits = [id_ for id_, kind in kinds.items() if kind == "edit"]
    if len(edits) <= MOST_EDITS:
        return []
    steps = _steps_to_use(graph, kinds)
    latest = sorted(reversed(edits), key=lambda id_: steps.get(id_, len(kinds)))
    hidden = set(latest[MOST_EDITS - 1 :])
    near: dict[str, set[str]] = defaultdict(set)
    rooted = set(kinds)
    for edge in graph.edges:
        if kinds[edge.source] in _CHAIN and kinds[edge.target] in _CHAIN:
            rooted.discard(edge.target)
        near[edge.source].add(edge.target)
        near[edge.target].add(edge.source)
    hidden |= {id_ for id_, kind in kinds.items() if kind == "library" and id_ not in rooted and near[id_] <= hidden}
    found = []
    while hidden:
        together: set[str] = set()
        waiting = [next(iter(sorted(hidden)))]
        while waiting:
            here = waiting.pop()
            if here in hidden:
                hidden.remove(here)
                together.add(here)
                waiting += near[here]
        if sum(kinds[id_] == "edit" for id_ in together) > 1:
            found.append(together)
    return found


def _steps_to_use(graph: Graph, kinds: Mapping[str, str]) -> dict[str, int]:
    """Say how many steps lead from an edit, or a Library, to a Library that was used or that no edit followed."""
    before: dict[str, list[str]] = defaultdict(list)
    ends = {id_ for id_, kind in kinds.items() if kind == "library"}
    for edge in graph.edges:
        if kinds[edge.source] in _CHAIN and kinds[edge.target] in _CHAIN:
            before[edge.target].append(edge.source)
            if kinds[edge.target] == "edit":
                ends.discard(edge.source)
    ends |= {edge.source for edge in graph.edges if kinds[edge.source] == "library" and kinds[edge.target] != "edit"}
    steps = dict.fromkeys(ends, 0)
    here = list(ends)
    while here:
        further = []
        for id_ in here:
            for each in before[id_]:
                if each not in steps:
                    steps[each] = steps[id_] + 1
                    further.append(each)
        here = further
    return steps


def _part(graph: Graph, starts: Iterable[str]) -> Graph:
    """Keep what belongs to the first of some nodes, as much as can be drawn."""
    if len(graph.nodes) <= MOST_NODES:
        return graph
    known = {node.id for node in graph.nodes}
    kept: dict[str, None] = {}
    for start in starts:
        more = [node.id for node in around(graph, [start]).nodes] if start in known else []
        if kept and len({*kept, *more}) > MOST_NODES:
            break
        kept |= dict.fromkeys(more)
    shown = set(list(kept)[:MOST_NODES])
    return Graph(
        tuple(node for node in graph.nodes if node.id in shown),
        tuple(edge for edge in graph.edges if {edge.source, edge.target} <= shown),
    )


def layout(graph: Graph) -> Layout:
    """Give every node a column and a row, near what it came from."""
    kinds = {node.id: node.kind for node in graph.nodes}
    held = [name for name, own in COLUMNS.items() if any(kind in own for kind in kinds.values())]
    column = {kind: held.index(name) for name in held for kind in COLUMNS[name]}
    grid = _Grid({id_: column[kind] for id_, kind in kinds.items()}, graph)
    grid.descend(_CHAIN, kinds)
    grid.beside("data", kinds, grid.after)
    grid.beside("release", kinds, grid.before)
    grid.descend(("manifest", "result"), kinds)
    grid.beside("model", kinds, grid.after)
    grid.beside("data", kinds, grid.after)
    grid.beside("eval", kinds, grid.before)
    grid.beside("model", kinds, grid.after)
    grid.beside("comparison", kinds, grid.before)
    for kind in dict.fromkeys(kinds.values()):
        grid.beside(kind, kinds, lambda id_: [0])  # what stands beside nothing
    return Layout(tuple(held), grid.places)


class _Grid:
    """Rows as they fill."""

    def __init__(self, columns: Mapping[str, int], graph: Graph) -> None:
        self.columns = columns
        self.places: dict[str, tuple[int, int]] = {}
        self._sources: dict[str, list[str]] = defaultdict(list)
        self._targets: dict[str, list[str]] = defaultdict(list)
        for edge in graph.edges:
            self._sources[edge.target].append(edge.source)
            self._targets[edge.source].append(edge.target)

    def before(self, id_: str) -> list[int]:
        """Rows of what a node came from."""
        return [self.places[each][1] for each in self._sources[id_] if each in self.places]

    def after(self, id_: str) -> list[int]:
        """Rows of what came of a node."""
        return [self.places[each][1] for each in self._targets[id_] if each in self.places]

    def beside(self, kind: str, kinds: Mapping[str, str], rows: Callable[[str], list[int]]) -> None:
        """Put nodes of a kind beside others: in the nearest free row. Those that stand beside nothing wait."""
        waiting = [id_ for id_ in kinds if kinds[id_] == kind and id_ not in self.places and rows(id_)]
        for id_ in sorted(waiting, key=lambda each: min(rows(each))):
            near = rows(id_)
            self._put(id_, min(near) if kind == "data" else sum(near) // len(near), least=0)

    def descend(self, own: Sequence[str], kinds: Mapping[str, str]) -> None:
        """Put nodes of two kinds in the order of their descent, one line to its end before the next."""
        ids = [id_ for id_ in kinds if kinds[id_] in own]
        mine = set(ids)
        missing = {id_: sum(each in mine for each in self._sources[id_]) for id_ in ids}
        waiting = [id_ for id_ in reversed(ids) if not missing[id_]]
        while waiting or missing:
            here = waiting.pop() if waiting else next(iter(missing))  # foreign lines may form rings
            if missing.pop(here, None) is None:
                continue
            self._descend(here, mine)
            for each in reversed(self._targets[here]):
                if each in missing:
                    missing[each] -= 1
                    if not missing[each]:
                        waiting.append(each)

    def _descend(self, id_: str, mine: set[str]) -> None:
        """Put a node no higher than what it descends from, and lower where that stands in the same column or right."""
        least = max(self.before(id_), default=0)
        for each in self._sources[id_]:
            if each in mine and each in self.places:
                column, row = self.places[each]
                least = max(least, row if column < self.columns[id_] else row + 1)
        self._put(id_, least, least=least)

    def _put(self, id_: str, wanted: int, *, least: int) -> None:
        column = self.columns[id_]
        taken = {row for own, row in self.places.values() if own == column}
        far = 0
        while True:
            for row in (wanted + far, wanted - far):
                if row >= least and row not in taken:
                    self.places[id_] = (column, row)
                    return
            far += 1

"""What the Lineage tab reads: the lineage of records or of a Library.

Visitors of a Space see the lineage of a Library that they choose. Records and folders are shown only on the computer
that runs the app.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import shorten

from rewardharness.errors import InputError
from rewardharness.files import user_path
from rewardharness.library.store import Library
from rewardharness.lineage.graph import MAX_NODES, Graph, Node, around, lineage_graph, read_evolutions
from rewardharness.lineage.store import Lineage
from rewardharness.runs.store import find_runs
from rewardharness.settings import Settings

_LABEL = 100


@dataclass(frozen=True)
class LineageView:
    """A lineage as the tab shows it."""

    graph: Graph
    """The nodes that are drawn, without single examples."""
    choices: tuple[tuple[str, str], ...] = ()
    """All nodes: label and id, records first."""
    chosen: Node | None = None
    """The node whose details are shown."""
    hidden: int = 0
    """Number of nodes that are not drawn because there are too many."""


class LineageServices:
    """Reads lineages for the app. Stateless.

    Args:
        settings: The settings.
        local: Whether visitors use this computer. Only they may see records.
    """

    def __init__(self, settings: Settings, *, local: bool) -> None:
        self._settings = settings
        self.local = local
        self.default_folder = settings.home / "lineage"
        """Folder of the records if none is typed."""

    def of_records(self, folder: str = "", chosen: str = "") -> LineageView:
        """Read records with all their causes and effects, including the evolutions on this computer.

        Args:
            folder: Folder of the records, as typed; empty for the default.
            chosen: Id of a node; only its causes and effects are drawn. Empty for all.

        Raises:
            InputError: If visitors may not see records, or there is no such folder.
            LineageError: If a record is damaged.
        """
        newest = list(self._open(folder).read_all().values())[::-1]
        graph = lineage_graph(newest[::-1], read_evolutions(find_runs(self._settings.home / "runs")))
        starts = [f"{record.kind}:{record.id}" for record in newest]
        return _view(around(graph, starts), starts, chosen)

    def of_library(self, library: Library, chosen: str = "") -> LineageView:
        """Read the lineage that a Library contains, and nothing else."""
        return _view(lineage_graph([], libraries={library.id: library.lineage}), [f"library:{library.id}"], chosen)

    def _open(self, folder: str) -> Lineage:
        if not self.local:
            step = "Choose a Library, or run the app on your own computer."
            raise InputError("Records are shown only on the computer that runs the app.", next_step=step)
        path = user_path(folder.strip()) if folder.strip() else self.default_folder
        if folder.strip() and not path.is_dir():
            raise InputError(f"There is no folder {str(path)!r}.", next_step="Enter the folder with the records.")
        return Lineage(path)


def _view(graph: Graph, starts: Sequence[str], chosen: str) -> LineageView:
    graph = graph.without_examples()
    nodes = {node.id: node for node in graph.nodes}
    ordered = [nodes[id_] for id_ in dict.fromkeys([*starts, *nodes]) if id_ in nodes]
    choices = tuple((shorten(node.label, _LABEL, placeholder="…"), node.id) for node in ordered)
    wanted = around(graph, [chosen]) if chosen in nodes else graph
    kept = _nearest(wanted, [chosen] if chosen in nodes else starts)
    return LineageView(wanted.subset(kept), choices, nodes.get(chosen), len(wanted.nodes) - len(kept))


def _nearest(graph: Graph, starts: Sequence[str]) -> list[str]:
    """Return at most `MAX_NODES` nodes, in the order of a breadth-first search from the starts."""
    neighbors: dict[str, list[str]] = {node.id: [] for node in graph.nodes}
    for edge in graph.edges:
        neighbors[edge.source].append(edge.target)
        neighbors[edge.target].append(edge.source)
    kept: dict[str, None] = {}
    for start in [*starts, *neighbors]:
        queue = [start] if start in neighbors and start not in kept else []
        for id_ in queue:
            if id_ not in kept and len(kept) < MAX_NODES:
                kept[id_] = None
                queue += [other for other in neighbors[id_] if other not in kept]
    return list(kept)

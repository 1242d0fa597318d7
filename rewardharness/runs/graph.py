"""The way from human preferences to a trained model, as nodes and edges: a pure function, and its picture in text.

    data, examples -> edit -> Library -> release -> manifest -> result -> artifact -> eval -> comparison

Edges go from what was there before to what came of it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from rewardharness.files import content_id
from rewardharness.runs.forms import Comparison, Eval, Manifest, Release, Result
from rewardharness.runs.lineage import SHORT, Record
from rewardharness.runs.typed import to_json

NodeKind = Literal[
    "data",
    "example",
    "edit",
    "library",
    "release",
    "model",
    "manifest",
    "result",
    "artifact",
    "eval",
    "comparison",
]

_CITED = 6
"""Examples that a label names at most."""


@dataclass(frozen=True)
class Evolution:
    """An evolution that ran, as far as its folder tells."""

    name: str
    data: str
    """Digest of the dataset."""
    data_name: str
    start: str
    """Id of the Library it began with."""
    final: str | None
    """Id of the one it ended with; None while it has no report."""
    edits: tuple[Mapping[str, Any], ...] = ()
    """Lines that it added to `lineage.jsonl`."""


@dataclass(frozen=True)
class Node:
    """A thing in the lineage."""

    id: str
    """As in `library:HASH`; that of a record is its kind and id."""
    kind: NodeKind
    label: str
    """For people, one line. May hold foreign text."""
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Edge:
    """What a thing was to another."""

    source: str
    target: str
    relation: str
    """As in `rewards`: read source, relation, target."""


@dataclass(frozen=True)
class Graph:
    """Nodes and edges, in the order in which they were found."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    def to_json(self) -> dict[str, Any]:
        """Put it into JSON."""
        return {"nodes": to_json(self.nodes), "edges": to_json(self.edges)}


def lineage_graph(
    records: Iterable[Record],
    evolutions: Iterable[Evolution] = (),
    libraries: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
) -> Graph:
    """Draw what is known of a lineage.

    Args:
        records: Records of one lineage folder.
        evolutions: Runs of `rh evolve`.
        libraries: Lines of `lineage.jsonl` by Library id, of Libraries whose evolution is not at hand.
    """
    known = tuple(records)
    drawing = _Drawing({record.id: record.kind for record in known})
    for evolution in evolutions:
        data = drawing.data(evolution.data_name, evolution.data)
        for line in evolution.edits:
            drawing.edit(line, data)
        drawing.library(evolution.start)
        if evolution.final is not None:
            drawing.library(evolution.final)
    for id_, lines in (libraries or {}).items():
        drawing.library(id_)
        for line in lines:
            drawing.edit(line, None)
    for record in known:
        drawing.record(record)
    return Graph(tuple(drawing.nodes.values()), tuple(dict.fromkeys(drawing.edges)))


def around(graph: Graph, ids: Iterable[str]) -> Graph:
    """The part of a graph that led to some nodes, or came of them."""
    kept: set[str] = set()
    for forward in (True, False):
        follow: dict[str, list[str]] = defaultdict(list)
        for edge in graph.edges:
            one, other = (edge.source, edge.target) if forward else (edge.target, edge.source)
            follow[one].append(other)
        reached: set[str] = set()
        waiting = list(ids)
        while waiting:
            here = waiting.pop()
            if here not in reached:
                reached.add(here)
                waiting += follow[here]
        kept |= reached
    return Graph(
        tuple(node for node in graph.nodes if node.id in kept),
        tuple(edge for edge in graph.edges if {edge.source, edge.target} <= kept),
    )


@dataclass(frozen=True)
class Branch:
    """A node where it stands in a tree."""

    node: Node
    depth: int
    parent: str | None = None
    """Id of the node that it stands below; None for a root."""
    relation: str = ""
    """What its parent was to it."""
    again: bool = False
    """Whether it stands above already, with all that came of it."""


def branches(graph: Graph) -> Iterator[Branch]:
    """Put a graph into a tree, roots first. What has several causes stands below the first, and again below others."""
    nodes = {node.id: node for node in graph.nodes}
    below: dict[str, list[Edge]] = defaultdict(list)
    for edge in graph.edges:
        below[edge.source].append(edge)
    caused = {edge.target for edge in graph.edges}
    drawn: set[str] = set()
    roots = sorted((id_ for id_ in nodes if id_ not in caused), key=lambda id_: _rank(nodes[id_], below[id_]))
    for root in [*roots, *nodes]:  # the second: foreign lines may form rings
        if root in drawn:
            continue
        waiting = [Branch(nodes[root], 0)]
        while waiting:
            here = waiting.pop()
            id_ = here.node.id
            yield replace(here, again=id_ in drawn)
            if id_ not in drawn:
                drawn.add(id_)
                waiting += [
                    Branch(nodes[edge.target], here.depth + 1, id_, edge.relation) for edge in reversed(below[id_])
                ]


def tree(graph: Graph) -> list[str]:
    """Draw a graph as a text tree. Single examples are left out: the edits that they caused name them."""
    kept = {node.id for node in graph.nodes if node.kind != "example"}
    shown = Graph(
        tuple(node for node in graph.nodes if node.id in kept),
        tuple(edge for edge in graph.edges if {edge.source, edge.target} <= kept),
    )
    causes = {edge.source for edge in shown.edges}
    lines = []
    for branch in branches(shown):
        said = f"- {branch.relation}: " if branch.parent is not None else ""
        more = " (see above)" if branch.again and branch.node.id in causes else ""
        lines.append(f"{'  ' * branch.depth}{said}{branch.node.label}{more}")
    return lines


def _rank(node: Node, edges: Sequence[Edge]) -> int:
    """Order of roots: preferences that taught something, what judges, other data, models."""
    if any(edge.relation == "taught" for edge in edges):
        return 0
    return {"edit": 1, "library": 1, "release": 1, "data": 2}.get(node.kind, 3)


class _Drawing:
    def __init__(self, kinds: Mapping[str, str]) -> None:
        self.kinds = kinds
        self.nodes: dict[str, Node] = {}
        self.edges: list[Edge] = []

    def add(self, kind: NodeKind, id_: str, label: str, detail: Mapping[str, Any] | None = None) -> str:
        name = f"{kind}:{id_}"
        self.nodes.setdefault(name, Node(name, kind, label, detail or {}))
        return name

    def link(self, source: str, target: str, relation: str) -> None:
        self.edges.append(Edge(source, target, relation))

    def data(self, name: str, revision: str) -> str:
        shown = f" {revision[:SHORT]}" if revision else ""
        return self.add("data", revision or name, f"data {name}{shown}", {"name": name, "revision": revision})

    def library(self, id_: str) -> str:
        return self.add("library", id_, f"Library {id_[:SHORT]}", {"id": id_})

    def model(self, name: str, revision: str) -> str:
        at = f"@{revision}" if revision else ""
        return self.add("model", name + at, f"model {name}{at}", {"name": name, "revision": revision})

    def release(self, release: Release) -> str:
        node = self.add("release", release.id, f"release {release.id[:SHORT]}", to_json(release))
        if release.library is not None:
            self.link(self.library(release.library), node, "released as")
        return node

    def edit(self, line: Mapping[str, Any], data: str | None) -> None:
        """Draw a line of `lineage.jsonl`. It may be foreign: what does not fit is passed over."""
        parent, child = line.get("parent"), line.get("library")
        if not (isinstance(parent, str) and isinstance(child, str)):
            return
        cited = [each for each in _list(line.get("cited")) if isinstance(each, str)]
        names = ", ".join(str(each) for each in _list(line.get("entries")))
        evidence = line.get("evidence")
        reason = evidence.get("reason") if isinstance(evidence, dict) else None
        behind = f" (because of {', '.join(cited[:_CITED])}{', ...' if len(cited) > _CITED else ''})" if cited else ""
        label = (
            f"edit {line.get('operator') or '?'} {names}: {reason or line.get('statement') or 'no evidence'}{behind}"
        )
        try:
            id_ = content_id(dict(line))
        except ValueError:  # numbers or text that JSON does not have
            return
        known = f"edit:{id_}" in self.nodes
        node = self.add("edit", id_, label, dict(line))
        self.link(self.library(parent), node, "edited by")
        self.link(node, self.library(child), "gave")
        if data is None and known:
            return
        if data is not None:
            self.link(data, node, "taught")
        for each in cited:
            example = self.add("example", f"{data or '?'}/{each}", f"example {each}", {"id": each})
            self.link(example, node, "motivated")
            if data is not None:
                self.link(data, example, "holds")

    def record(self, record: Record) -> None:
        """Draw a record and what it names."""
        body = record.body
        detail = {"name": record.name, "record": record.id, "created": record.created, **to_json(body)}
        match body:
            case Manifest():
                node = self.add("manifest", record.id, f"{body.activity} {record.name}", detail)
                self.manifest(node, body)
            case Result():
                node = self.add("result", record.id, f"result {record.name}: {_outcome(body)}", detail)
                self.link(f"manifest:{body.manifest}", node, "came out as")
                for artifact in body.artifacts:
                    digest = f" {artifact.sha256[:SHORT]}" if artifact.sha256 else " (not hashed)"
                    name = f"{record.id}/{artifact.name}"
                    label = f"artifact {artifact.name}{digest} at {artifact.location}"
                    self.link(node, self.add("artifact", name, label, to_json(artifact)), "left")
            case Eval():
                node = self.add("eval", record.id, f"eval {record.name}: {_measured(body)}", detail)
                self.link(self.subject(body), node, "measured in")
            case Comparison():
                label = f"comparison {record.name}: {_compared(body)}"
                node = self.add("comparison", record.id, label, detail)
                self.link(f"eval:{body.base}", node, "base of")
                self.link(f"eval:{body.new}", node, "compared in")

    def manifest(self, node: str, body: Manifest) -> None:
        """Draw what a manifest builds on."""
        self.link(self.model(body.base_model.name, body.base_model.revision), node, "base of")
        if body.reward is not None and body.reward.release is not None:
            self.link(self.release(body.reward.release), node, "rewards")
        elif body.reward is not None and body.reward.library is not None:
            self.link(self.library(body.reward.library), node, "rewards")
        if body.data is not None:
            self.link(self.data(body.data.name, body.data.revision), node, "used by")
        for parent in body.parents:
            self.link(f"{self.kinds.get(parent, 'manifest')}:{parent}", node, "led to")

    def subject(self, body: Eval) -> str:
        """Draw what an eval is about."""
        subject = body.subject
        if subject.release is not None:
            return self.release(subject.release)
        if subject.library is not None:
            return self.library(subject.library)
        if subject.model is not None:
            return self.model(subject.model.name, subject.model.revision)
        return f"artifact:{subject.result}/{subject.artifact}"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _outcome(body: Result) -> str:
    if body.failure is not None:
        return f"failed in {body.failure.stage}: {body.failure.message}"
    steps = "" if body.steps is None else f", {body.steps} steps"
    curve = body.curve
    reward = "" if curve is None else f", reward {curve.first[1]:.4g} at first and {curve.late_mean:.4g} late"
    return f"{body.status}{steps}{reward}"


def _measured(body: Eval) -> str:
    parts = []
    for metric in body.metrics[:_CITED]:
        interval = "" if metric.interval is None else " [{:.4g}, {:.4g}]".format(*metric.interval)
        count = metric.judged if metric.judged is not None else metric.n
        of = "" if count is None else f", n {count}" + (f" of {metric.n}" if metric.n and metric.n != count else "")
        parts.append(f"{metric.name} {metric.value:.4g}{interval}{of}, {metric.direction} is better")
    more = "; ..." if len(body.metrics) > _CITED else ""
    task = f"/{body.benchmark.task}" if body.benchmark.task else ""
    return f"{body.benchmark.name}{task}: {'; '.join(parts)}{more}"


def _compared(body: Comparison) -> str:
    parts = []
    for each in body.metrics[:_CITED]:
        interval = "" if each.interval is None else " [{:+.4g}, {:+.4g}]".format(*each.interval)
        parts.append(f"{each.name} {each.difference:+.4g}{interval} {each.verdict} ({each.method})")
    return "; ".join(parts) + ("; ..." if len(body.metrics) > _CITED else "")

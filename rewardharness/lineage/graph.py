"""The lineage as a graph from human preferences to trained models; text tree and Mermaid flowchart of it.

data, examples -> edit -> Library -> release -> manifest -> result -> artifact -> eval -> comparison
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from textwrap import shorten
from typing import Any

from rewardharness.codec import to_json
from rewardharness.errors import HarnessError
from rewardharness.evolution.checkpoint import CHAMPION, version_folder
from rewardharness.evolution.report import REPORT
from rewardharness.files import content_id, read_json, read_jsonl
from rewardharness.library.reader import LINEAGE_FILE
from rewardharness.lineage import records
from rewardharness.lineage.records import EvalComparison, Evaluation, Manifest, NamedRevision, ReleaseRef, RunOutcome
from rewardharness.lineage.store import SHORT, Record
from rewardharness.runs.store import read_manifest

MAX_NODES = 80
"""Maximum number of nodes in a Mermaid flowchart."""

_LISTED = 6
_LABEL = 90


@dataclass(frozen=True)
class EvolutionSummary:
    """The part of an evolution run that a lineage needs."""

    name: str
    data: str
    """Digest of the dataset."""
    data_name: str
    start: str
    """Id of the starting Library."""
    final: str | None
    """Id of the final Library; None without a report."""
    edits: tuple[Mapping[str, Any], ...] = ()
    """Lines that the run added to `lineage.jsonl`."""


@dataclass(frozen=True)
class Node:
    """A thing in the lineage."""

    id: str
    """`KIND:ID`, as in `library:HASH`."""
    kind: str
    label: str
    """One line. May contain untrusted text."""
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Edge:
    """A relation between two nodes, from cause to effect."""

    source: str
    target: str
    relation: str
    """Read: source, relation, target, as in `release rewards manifest`."""


@dataclass(frozen=True)
class Graph:
    """Nodes and edges."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    def subset(self, ids: Iterable[str]) -> "Graph":
        """Return the nodes with these ids and the edges between them."""
        kept = set(ids)
        return Graph(
            tuple(node for node in self.nodes if node.id in kept),
            tuple(edge for edge in self.edges if edge.source in kept and edge.target in kept),
        )

    def without_examples(self) -> "Graph":
        """Return the graph without single examples; the edits that cite them name them."""
        return self.subset(node.id for node in self.nodes if node.kind != "example")


def lineage_graph(
    records: Iterable[Record],
    evolutions: Iterable[EvolutionSummary] = (),
    libraries: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
) -> Graph:
    """Build the graph of a lineage.

    Args:
        records: Records of one lineage folder.
        evolutions: Runs of `rh evolve`.
        libraries: Lines of `lineage.jsonl` by Library id, for Libraries without their evolution run.
    """
    known = tuple(records)
    builder = _Builder({record.id: record.kind for record in known})
    for evolution in evolutions:
        data = builder.data(NamedRevision(evolution.data_name, evolution.data))
        for line in evolution.edits:
            builder.edit(line, data)
        builder.library(evolution.start)
        if evolution.final is not None:
            builder.library(evolution.final)
    for id_, lines in (libraries or {}).items():
        builder.library(id_)
        for line in lines:
            builder.edit(line, None)
    for record in known:
        builder.record(record)
    return Graph(tuple(builder.nodes.values()), tuple(dict.fromkeys(builder.edges)))


def around(graph: Graph, ids: Iterable[str]) -> Graph:
    """Return all causes and effects of some nodes, nearest first."""
    starts = list(ids)
    kept = dict.fromkeys(starts)
    for forward in (True, False):
        follow: dict[str, list[str]] = defaultdict(list)
        for edge in graph.edges:
            source, target = (edge.source, edge.target) if forward else (edge.target, edge.source)
            follow[source].append(target)
        reached = dict.fromkeys(starts)
        queue = list(starts)
        for node in queue:
            new = [target for target in follow[node] if target not in reached]
            reached |= dict.fromkeys(new)
            queue += new
        kept |= reached
    return graph.subset(kept)


def tree(graph: Graph) -> list[str]:
    """Render a graph as an indented list. A node with several causes appears below each of them."""
    graph = graph.without_examples()
    nodes = {node.id: node for node in graph.nodes}
    below: dict[str, list[Edge]] = defaultdict(list)
    for edge in graph.edges:
        below[edge.source].append(edge)
    targets = {edge.target for edge in graph.edges}
    roots = sorted((id_ for id_ in nodes if id_ not in targets), key=lambda id_: _root_order(nodes[id_], below[id_]))
    lines: list[str] = []
    seen: set[str] = set()
    for root in [*roots, *nodes]:  # untrusted lines may form cycles, which have no root
        stack = [] if root in seen else [(root, 0, "")]
        while stack:
            id_, depth, relation = stack.pop()
            repeated = " (see above)" if id_ in seen and below[id_] else ""
            lines.append("  " * depth + (f"- {relation}: " if relation else "") + nodes[id_].label + repeated)
            if id_ not in seen:
                seen.add(id_)
                stack += [(edge.target, depth + 1, edge.relation) for edge in reversed(below[id_])]
    return lines


def mermaid(graph: Graph, chosen: str = "") -> str:
    """Render a graph as a Mermaid flowchart (https://mermaid.js.org/syntax/flowchart.html).

    Labels are untrusted text: every character other than a letter, digit or space becomes an entity code.

    Args:
        graph: At most `MAX_NODES` nodes.
        chosen: Id of the node to emphasize.
    """
    numbers = {node.id: f"n{number}" for number, node in enumerate(graph.nodes)}
    lines = ['%%{init: {"flowchart": {"useMaxWidth": false, "htmlLabels": true}}}%%', "flowchart TD"]
    for node in graph.nodes:
        style = "chosen" if node.id == chosen else "bad" if node.detail.get("status") == "failed" else node.kind
        lines.append(f'{numbers[node.id]}["{_entities(shorten(node.label, _LABEL, placeholder="…"))}"]:::{style}')
    lines += [
        f'{numbers[edge.source]} -->|"{_entities(edge.relation)}"| {numbers[edge.target]}'
        for edge in graph.edges
        if edge.source in numbers and edge.target in numbers
    ]
    lines += ["classDef chosen stroke-width:3px", "classDef bad stroke:#c0392b,stroke-width:2px"]
    return "\n".join(lines)


def _entities(text: str) -> str:
    return "".join(
        letter if letter == " " or (letter.isascii() and letter.isalnum()) else f"#{ord(letter)};" for letter in text
    )


def _root_order(node: Node, edges: Sequence[Edge]) -> int:
    """Preferences that caused an edit come first, then judges, other data, models."""
    if any(edge.relation == "evidence for" for edge in edges):
        return 0
    return {"edit": 1, "library": 1, "release": 1, "data": 2}.get(node.kind, 3)


class _Builder:
    def __init__(self, kinds: Mapping[str, str]) -> None:
        self.kinds = kinds
        self.nodes: dict[str, Node] = {}
        self.edges: list[Edge] = []

    def add(self, kind: str, id_: str, label: str, detail: Mapping[str, Any]) -> str:
        name = f"{kind}:{id_}"
        self.nodes.setdefault(name, Node(name, kind, label, detail))
        return name

    def link(self, source: str, target: str, relation: str) -> None:
        self.edges.append(Edge(source, target, relation))

    def data(self, data: NamedRevision) -> str:
        revision = data.revision if len(data.revision) < 40 else data.revision[:SHORT]  # a commit or digest
        label = f"data {data.name} {revision}".rstrip()
        return self.add("data", data.revision or data.name, label, to_json(data))

    def model(self, model: NamedRevision) -> str:
        name = f"{model.name}@{model.revision}" if model.revision else model.name
        return self.add("model", name, f"model {name}", to_json(model))

    def library(self, id_: str) -> str:
        return self.add("library", id_, f"Library {id_[:SHORT]}", {"id": id_})

    def release(self, release: ReleaseRef) -> str:
        node = self.add("release", release.id, f"release {release.id[:SHORT]}", to_json(release))
        if release.library is not None:
            self.link(self.library(release.library), node, "released as")
        return node

    def edit(self, line: Mapping[str, Any], data: str | None) -> None:
        """Add a line of `lineage.jsonl`. It is untrusted; what does not fit is ignored."""
        parent, library = line.get("parent"), line.get("library")
        if not isinstance(parent, str) or not isinstance(library, str):
            return
        try:
            id_ = content_id(dict(line))
        except ValueError:  # numbers or text that JSON does not have
            return
        cited, entries = _strings(line.get("cited")), _strings(line.get("entries"))
        evidence = line.get("evidence")
        reasons = (evidence.get("reason") if isinstance(evidence, dict) else None, line.get("statement"))
        reason = next((text for text in reasons if isinstance(text, str) and text), "no evidence")
        more = ", ..." if len(cited) > _LISTED else ""
        because = f" (because of {', '.join(cited[:_LISTED])}{more})" if cited else ""
        label = f"edit {line.get('operator') or ''} {', '.join(entries)}: {reason}{because}"
        known = f"edit:{id_}" in self.nodes
        node = self.add("edit", id_, label, dict(line))
        self.link(self.library(parent), node, "edited by")
        self.link(node, self.library(library), "produced")
        if data is not None:
            self.link(data, node, "evidence for")
        for name in cited if data is not None or not known else ():
            example = self.add("example", f"{data or ''}/{name}", f"example {name}", {"id": name})
            self.link(example, node, "cited in")
            if data is not None:
                self.link(data, example, "holds")

    def record(self, record: Record) -> None:
        """Add a record."""
        name, body = record.name, record.body
        detail = {"name": name, "record": record.id, "created": record.created, **to_json(body)}

        def add(label: str) -> str:
            return self.add(record.kind, record.id, label, detail)

        match body:
            case Manifest():
                self._manifest(add(f"{body.activity} {name}"), body)
            case RunOutcome():
                node = add(f"result {name}: {_outcome(body)}")
                self.link(f"manifest:{body.manifest}", node, "resulted in")
                for artifact in body.artifacts:
                    digest = f" {artifact.sha256[:SHORT]}" if artifact.sha256 else " (not hashed)"
                    label = f"artifact {artifact.name}{digest} at {artifact.location}"
                    id_ = f"{record.id}/{artifact.name}"
                    self.link(node, self.add("artifact", id_, label, to_json(artifact)), "produced")
            case Evaluation():
                task = f"/{body.benchmark.task}" if body.benchmark.task else ""
                node = add(f"eval {name}: {body.benchmark.name}{task}: {_listed(map(_metric, body.metrics))}")
                self.link(self._subject(body.subject), node, "measured in")
            case EvalComparison():
                node = add(f"comparison {name}: {_listed(map(_difference, body.metrics))}")
                self.link(f"eval:{body.base}", node, "base of")
                self.link(f"eval:{body.new}", node, "compared in")

    def _manifest(self, node: str, body: Manifest) -> None:
        self.link(self.model(body.base_model), node, "base of")
        if body.reward is not None:
            release, library = body.reward.release, body.reward.library
            self.link(self.release(release) if release else self.library(library or ""), node, "rewards")
        if body.data is not None:
            self.link(self.data(body.data), node, "used by")
        for parent in body.parents:
            self.link(f"{self.kinds.get(parent, 'manifest')}:{parent}", node, "parent of")

    def _subject(self, subject: records.Subject) -> str:
        if subject.release is not None:
            return self.release(subject.release)
        if subject.library is not None:
            return self.library(subject.library)
        return self.model(subject.model) if subject.model else f"artifact:{subject.result}/{subject.artifact}"


def _strings(value: Any) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _listed(parts: Iterable[str]) -> str:
    first = list(islice(parts, _LISTED + 1))
    return "; ".join([*first[:_LISTED], *(["..."] if len(first) > _LISTED else [])])


def _outcome(body: RunOutcome) -> str:
    if body.failure is not None:
        return f"failed in {body.failure.stage}: {body.failure.message}"
    steps = "" if body.steps is None else f", {body.steps} steps"
    curve = body.curve
    reward = "" if curve is None else f", reward {curve.first[1]:.4g} at first and {curve.late_mean:.4g} late"
    return f"{body.status}{steps}{reward}"


def _metric(metric: records.MetricValue) -> str:
    interval = "" if metric.interval is None else " [{:.4g}, {:.4g}]".format(*metric.interval)
    count = metric.judged if metric.judged is not None else metric.n
    of = "" if count is None else f", n {count}" + (f" of {metric.n}" if metric.n and metric.n != count else "")
    return f"{metric.name} {metric.value:.4g}{interval}{of}, {metric.direction} is better"


def _difference(metric: records.MetricDifference) -> str:
    interval = "" if metric.interval is None else " [{:+.4g}, {:+.4g}]".format(*metric.interval)
    return f"{metric.name} {metric.difference:+.4g}{interval} {metric.verdict} ({metric.method})"


def read_evolution(folder: Path) -> EvolutionSummary:
    """Read one evolution, finished or not.

    Raises:
        RunError: If the folder is not a run folder.
        RunError: If its report is damaged.
    """
    manifest = read_manifest(folder)
    report = read_json(folder / REPORT) if (folder / REPORT).exists() else {}  # of any version
    before = sum(1 for _ in read_jsonl(version_folder(folder, 0) / LINEAGE_FILE))
    lines = [line for _, line in read_jsonl(folder / CHAMPION / LINEAGE_FILE)]
    return EvolutionSummary(
        name=folder.name,
        data=str(manifest.get("data", "")),
        data_name=str(manifest.get("data_name", "")),
        start=str(manifest.get("library_id", "")),
        final=report.get("library", {}).get("final_id"),
        edits=tuple(lines[before:]),
    )


def read_evolutions(folders: Iterable[Path]) -> list[EvolutionSummary]:
    """Read the evolutions among some run folders. Other runs, and damaged ones, are skipped."""
    evolutions = []
    for folder in folders:
        try:
            if read_manifest(folder).get("command") == "evolve":
                evolutions.append(read_evolution(folder))
        except HarnessError:
            continue
    return evolutions

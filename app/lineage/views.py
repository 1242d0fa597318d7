"""Markup of the Lineage tab. Everything in a lineage is untrusted text."""

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from app.lineage.services import LineageView
from app.markup import block, bullets, callout, escape, faint, hashed, notice, paragraph, preformatted, table
from rewardharness.errors import shell
from rewardharness.lineage.graph import Graph, Node, mermaid

LISTED = 60
"""Maximum number of items of a list, and of lines of a document, in the details."""

_HASH = re.compile(r"[0-9a-f]{64}")
_DEPTH = 3


def introduction(*, local: bool) -> str:
    """Return the introduction of the tab."""
    text = (
        "Which human preferences are behind a reward, what was trained with it, and is the result better? From "
        "examples to Library edits, releases, trainings, results and evals."
        if local
        else "How a Library evolved: the examples behind each edit, what it fixed and broke, and the versions."
    )
    return faint(text)


def no_records(folder: str) -> str:
    """Return the empty state of a folder without records."""
    plan = "record-manifest grpo-1 --base-model org/base --release reward.release --data prompts --trainer trl"
    outcome = "record-result grpo-1 --status succeeded --artifact last=out/checkpoint --curve log.jsonl"
    metrics = "record-eval after --artifact grpo-1/last --benchmark edits --metric accuracy,higher,correct=71,judged=98"
    steps = {
        "Before a training, record the plan:": plan,
        "Afterwards, record the outcome:": outcome,
        "Then record its metrics:": metrics,
    }
    pasted = [(text, escape(shell("rh lineage {}", words.split()))) for text, words in steps.items()]
    lines = [f'{text} <code class="command">{command}</code>' for text, command in pasted]
    begin = paragraph(f"There are no records in {folder}. Create them on the command line:")
    other = paragraph("To see how a Library evolved, choose a Library above; this needs no records.")
    return block(callout("note", "No records yet", begin, bullets(lines), other))


def no_lineage(name: str, *, local: bool) -> str:
    """Return the empty state of a Library without lineage."""
    text = f"{name[:1].upper()}{name[1:]} has no lineage: evolution adds a line to it for every accepted edit."
    where = "in a folder" if local else "on the Hugging Face Hub"
    return notice("empty", "This Library has no lineage", text, f"Choose an evolved Library {where} to see its edits.")


def diagram(view: LineageView) -> str:
    """Return the lineage as a Mermaid flowchart in Markdown."""
    return f"```mermaid\n{mermaid(view.graph, view.chosen.id if view.chosen else '')}\n```"


def hidden(view: LineageView) -> str:
    """Return a note on nodes that are not drawn; empty if all are."""
    text = f"{view.hidden} more are not drawn. Choose one under About to see what is connected to it."
    return faint(text) if view.hidden else ""


def as_table(graph: Graph) -> str:
    """Return the lineage as a table."""
    labels = {node.id: node.label for node in graph.nodes}
    before: dict[str, list[str]] = defaultdict(list)
    after: dict[str, list[str]] = defaultdict(list)
    for edge in graph.edges:
        before[edge.target].append(f"{edge.relation} {_short(labels[edge.source])}")
        after[edge.source].append(f"{edge.relation} {_short(labels[edge.target])}")
    listed = [(node.label, (before[node.id], after[node.id])) for node in graph.nodes]
    rows = [[escape(label), *(bullets(map(escape, side)) for side in sides)] for label, sides in listed]
    return block(table(["Item", "Causes", "Effects"], rows, "cards"))


def details(node: Node | None) -> str:
    """Return all fields of a node; empty without one."""
    return block(f"<h4>{escape(node.label)}</h4>{_facts(node.detail, 0)}") if node else ""


def _facts(fields: Mapping[str, Any], depth: int) -> str:
    rows = [(str(name).replace("_", " "), _fact(value, depth)) for name, value in fields.items()]
    named = [(name[:1].upper() + name[1:], text) for name, text in rows[:LISTED] if text]  # names may be those of data
    items = "".join(f"<dt>{escape(name)}</dt><dd>{text}</dd>" for name, text in named)
    return f'<dl class="facts">{items}</dl>'


def _fact(value: Any, depth: int) -> str:
    if value is None or value == "" or value == [] or value == () or value == {}:
        return ""
    if isinstance(value, str):
        return hashed(value) if _HASH.fullmatch(value) else escape(value)
    if isinstance(value, bool | int | float):
        return escape(f"{value:,.6g}" if isinstance(value, float) else str(value))
    if depth >= _DEPTH:
        lines = json.dumps(value, indent=2, ensure_ascii=False).split("\n")
        return preformatted("\n".join(lines[:LISTED] + ["…"] * (len(lines) > LISTED)), "wrap")
    if isinstance(value, Mapping):
        return _facts(value, depth + 1)
    return _items(value, depth)


def _items(values: Sequence[Any], depth: int) -> str:
    more = f" and {len(values) - LISTED} more" if len(values) > LISTED else ""
    if all(isinstance(value, str | int | float) for value in values):
        return ", ".join(f"<code>{_fact(value, depth)}</code>" for value in values[:LISTED]) + more
    return bullets(_fact(value, depth + 1) or "none" for value in values[:LISTED]) + more


def _short(label: str) -> str:
    return label if len(label) <= 60 else f"{label[:59]}…"

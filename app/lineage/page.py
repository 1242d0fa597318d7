"""The Lineage tab: widgets, events, and markup. Everything in a lineage is untrusted text."""

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import gradio as gr

from app.failures import explaining_at
from app.library.chooser import Chooser
from app.library.libraries import Choice
from app.lineage.services import LineageView
from app.markup import block, bullets, callout, escape, faint, hashed, notice, paragraph, preformatted, table
from app.services import AppServices
from app.widgets import QUIET, Updates, Widgets, button, markup, textbox
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
    pasted = [(text, escape(shell("rh lineage {}", command.split()))) for text, command in steps.items()]
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


RECORDS, OTHER, LIBRARY = "records", "folder", "library"
"""What is shown: the records in the default folder, those in another folder, or the lineage of a Library."""

EVERYTHING = ""
"""Value of `about` for the whole lineage."""


class _Tab(Widgets):
    """The widgets and their handlers. Stateless."""

    def __init__(self, services: AppServices, tab: gr.Tab) -> None:
        self._services, local = services, services.local
        markup(introduction(local=local))
        kinds = [("Records on this computer", RECORDS), ("Records in a folder", OTHER), ("A Library", LIBRARY)]
        kinds = kinds if local else kinds[-1:]
        self.kind = gr.Radio(kinds, value=kinds[0][1], label="Show", elem_id="lineage-kind", visible=local)
        with gr.Column(visible=not local) as self.library:
            self.chooser = Chooser(services, "lineage-library", "Library whose lineage is shown", aloud=False)
        with gr.Row(elem_id="lineage-what"):
            self.folder = textbox(
                "Folder with records", "lineage-folder", info="It contains files such as manifest.NAME.json.",
                placeholder="/home/me/lineage", visible=False, min_width=280,
            )  # fmt: skip
            self.about = gr.Dropdown(
                [("Everything", EVERYTHING)], value=EVERYTHING, label="About", min_width=240, elem_id="lineage-about",
                info="Shows the causes, effects and details of one item.",
            )  # fmt: skip
            refresh = button("Refresh", "lineage-refresh", min_width=140)
        self.message = markup(elem_id="lineage-message")
        self.diagram = markup(elem_id="lineage-diagram")
        self.hidden = markup(elem_id="lineage-hidden")
        self.details = markup(elem_id="lineage-details")
        with gr.Accordion("Table", open=False, visible=False, elem_id="lineage-as-table") as self.table_part:
            self.table = markup(elem_id="lineage-table")
        shown: dict[str, Any] = {
            "fn": self.show,
            "inputs": [self.kind, self.folder, self.about, *self.chooser.inputs],
            "outputs": self.parts,
            "concurrency_limit": 2,
            "concurrency_id": "lineage",
            **QUIET,
        }
        triggers = [self.folder.submit, self.about.input, self.chooser.folder.submit, self.chooser.kind.input]
        gr.on([tab.select, refresh.click, *triggers], **shown)
        for loaded in self.chooser.events:
            loaded.then(**shown)
        self.kind.input(self.choose, self.kind, self.parts, queue=False, **QUIET).then(**shown)

    @property
    def tab(self) -> "_Tab":
        """Where errors are shown."""
        return self

    def choose(self, kind: str) -> Updates:
        """Show the fields of a choice."""
        return {
            self.folder: gr.Textbox(visible=kind == OTHER),
            self.library: gr.Column(visible=kind == LIBRARY),
            self.about: gr.Dropdown([("Everything", EVERYTHING)], value=EVERYTHING),
        }

    @explaining_at("tab")
    def show(self, kind: str, folder: str, about: str | None, *values: Any) -> Updates:
        """Read the chosen lineage and show it."""
        choice, folder = Choice(*values), (folder or "").strip() if kind == OTHER else ""
        services, chosen = self._services.lineage, about or EVERYTHING
        if choice.is_pending if kind == LIBRARY else kind == OTHER and not folder:
            return self.empty()
        if kind != LIBRARY:
            view = services.of_records(folder, chosen)
            nothing = no_records(folder or str(services.default_folder))
            return self._filled(view) if view.choices else self.empty(nothing)
        library = self._services.libraries.open(choice)
        if not library.lineage:
            return self.empty(no_lineage(self._services.libraries.name(choice), local=self._services.local))
        return self._filled(services.of_library(library, chosen))

    def _filled(self, view: LineageView) -> Updates:
        chosen = view.chosen.id if view.chosen else EVERYTHING
        return {
            self.message: "",
            self.about: gr.Dropdown([("Everything", EVERYTHING), *view.choices], value=chosen, visible=True),
            self.diagram: diagram(view),
            self.hidden: hidden(view),
            self.details: details(view.chosen),
            self.table_part: gr.Accordion(visible=True),
            self.table: as_table(view.graph),
        }

    def empty(self, message: str = "") -> Updates:
        """Show a message instead of a lineage."""
        return {
            self.message: message,
            self.about: gr.Dropdown(visible=False),
            **dict.fromkeys((self.diagram, self.hidden, self.details, self.table), ""),
            self.table_part: gr.Accordion(visible=False),
        }


def build_lineage_tab(services: AppServices, tab: gr.Tab) -> None:
    """Build the tab.

    Args:
        services: The services.
        tab: The tab; its content is read when it is selected.
    """
    _Tab(services, tab)

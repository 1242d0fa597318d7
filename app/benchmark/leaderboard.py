"""The section of the Benchmark tab with a leaderboard from the Hub, and the publication of a run in it."""

from dataclasses import dataclass
from typing import Any

import gradio as gr

from app.library.chooser import HUB_EVENTS, asking_hub
from app.library.libraries import Visitor
from app.markup import block, callout, count, escape, faint, notice, plain
from app.run_panel.views import sections
from app.services import AppServices
from app.widgets import QUIET, Updates, Widgets, button, markup, state, textbox
from rewardharness.benchmark.leaderboard import (
    CATEGORY,
    ORDERS,
    PREFIX,
    Leaderboard,
    LeaderboardRow,
    leaderboard_section,
    publish,
    read_leaderboard,
    rows_of,
)
from rewardharness.errors import InputError

MOST_ROWS, MOST_TABLES = 200, 500
"""Maximum number of rows of a table, and of tables to choose from."""

_HINT = notice("empty", "No leaderboard is shown", "Enter a dataset that runs were published in, and press Load.")
_LOADING = notice("empty busy", "Loading…", "The Hub is being asked.")
_EMPTY = notice("empty", "The leaderboard has no rows yet", "Publish a finished run in it.")


@dataclass(frozen=True)
class Publication:
    """A previewed publication: exactly this is published."""

    repo: str
    rows: tuple[LeaderboardRow, ...]
    private: bool


class LeaderboardPanel(Widgets):
    """The widgets. Holds nothing of any visitor.

    Args:
        services: The services.
        run: The widget with the name of the shown run.
    """

    def __init__(self, services: AppServices, run: Any) -> None:
        self._services = services
        with gr.Row():
            name = "leaderboard-repo"
            self.repo = textbox("Dataset on the Hub", name, placeholder="org/name", max_length=120, min_width=240)
            load = button("Load", "leaderboard-load", min_width=120)
        with gr.Row(visible=False) as self.choice:
            self.table = gr.Dropdown([], label="Table", elem_id="leaderboard-of", scale=3, min_width=200)
            orders = [(title, name) for name, (title, _) in ORDERS.items()]
            name = "leaderboard-order"
            self.order = gr.Dropdown(orders, value="accuracy", label="Best first by", elem_id=name, min_width=140)
        self.shown = markup(_HINT, elem_id="leaderboard-shown")
        self.loaded, self.prepared = state(), state()
        hub, connected = services.hub, [self.table, self.order]
        loading = {"fn": lambda: _LOADING, "inputs": None, "outputs": self.shown, "queue": False, **QUIET}
        asked = gr.on([load.click, self.repo.submit], **loading)
        outputs, inputs = [self.loaded, self.choice, self.table, self.shown], [self.repo, self.order]
        asked.then(asking_hub(services, self.load, self._failed), inputs, outputs, **HUB_EVENTS)
        events = [widget.input for widget in connected]
        gr.on(events, self.show, [self.loaded, *connected], self.shown, queue=False, **QUIET)
        if not hub.may_publish:
            return
        if hub.with_login:
            name = "leaderboard-login"
            gr.LoginButton("Log in with Hugging Face", logout_value="Log out ({})", size="md", elem_id=name)
        with gr.Row():
            preview = button("Publish the shown run", "leaderboard-preview", min_width=200)
            self.private = gr.Checkbox(label="Private, for a new dataset", elem_id="leaderboard-private")
        self.told = markup(elem_id="leaderboard-told")
        self.confirm = button("Publish", "leaderboard-confirm", variant="primary", visible=False)
        own = [self.told, self.confirm, self.prepared]
        asked = asking_hub(services, self.preview, self._told)
        preview.click(asked, [self.repo, self.private, run], own, **HUB_EVENTS)
        done = self.confirm.click(asking_hub(services, self.publish, self._told), self.prepared, own, **HUB_EVENTS)
        done.then(asking_hub(services, self.load, self._failed), inputs, outputs, **HUB_EVENTS)
        changes = [self.repo.input, self.private.input]
        gr.on(changes, lambda: self._told(""), None, own, queue=False, **QUIET)

    def load(self, visitor: Visitor, typed: str, order: str) -> Updates:
        """Load a leaderboard with the rights of the visitor, and show its first table."""
        board = read_leaderboard(_named(typed), self._services.hub.access(visitor))
        tables = list(_tables(board).values())[:MOST_TABLES]
        choices = [(plain(title), number) for number, title in enumerate(tables)]
        return {
            self.loaded: board,
            self.choice: gr.Row(visible=bool(tables)),
            self.table: gr.Dropdown(choices, value=0 if choices else None),
            self.shown: self.show(board, 0, order),
        }

    def _failed(self, text: str) -> Updates:
        return {self.loaded: None, self.choice: gr.Row(visible=False), self.shown: text}

    def show(self, board: Leaderboard | None, table: int | None, order: str) -> str:
        """Return one table of a leaderboard as markup."""
        tables = list(_tables(board)) if board is not None else []
        if board is None or not tables:
            return _EMPTY if board is not None else _HINT
        chosen = tables[table if table is not None and 0 <= table < len(tables) else 0]
        rows = [row for row in board.rows if row.board == chosen]
        left = f"{len(rows) - MOST_ROWS} more rows are not shown. " if len(rows) > MOST_ROWS else ""
        left += f"{count(board.skipped, 'file')} could not be read." if board.skipped else ""
        section = leaderboard_section(rows[:MOST_ROWS], order if order in ORDERS else "accuracy")
        return sections(section) + (faint(left) if left else "")

    def preview(self, visitor: Visitor, typed: str, private: bool, run: str) -> Updates:
        """Show what would be published; nothing is written."""
        repo, benchmarks = _named(typed), self._services.benchmarks
        self._services.hub.check_rights(repo, visitor)
        if not run or benchmarks.look(run).state != "finished":
            raise InputError(
                "No finished run is shown.", next_step="Start a benchmark, or open one of the earlier runs."
            )
        rows = rows_of(benchmarks.open(run).result)
        if not rows:
            raise InputError("The run has no numbers to publish.", next_step="Open another run.")
        where = f"to {repo}, a dataset on the Hub; a new one would be {'private' if private else 'public'}."
        text = f"They name the judges and Libraries and hold their numbers; no images. They would be added {where}"
        return {
            self.told: notice("note", f"{count(len(rows), 'row')} to publish", text),
            self.confirm: gr.Button(f"Publish to {repo}", visible=True),
            self.prepared: Publication(repo, rows, bool(private)),
        }

    def publish(self, visitor: Visitor, prepared: Publication | None) -> Updates:
        """Publish what was previewed."""
        if prepared is None:
            raise InputError("The preview has expired.", next_step="Press “Publish the shown run” again.")
        hub = self._services.hub
        hub.check_rights(prepared.repo, visitor)
        page = publish(prepared.rows, prepared.repo, hub.access(visitor), private=prepared.private)
        title = f"{count(len(prepared.rows), 'row')} published"
        link = f'<p><a href="{escape(page)}" target="_blank" rel="noopener">{escape(page)}</a></p>'
        return self._told(block(callout("note good", title, link)))

    def _told(self, text: str) -> Updates:
        return {self.told: text, self.confirm: gr.Button(visible=False), self.prepared: None}


def _tables(board: Leaderboard) -> dict[tuple[str, ...], str]:
    """Return the tables of a leaderboard and their titles, those of single categories last."""
    return {row.board: row.title for row in sorted(board.rows, key=lambda row: row.metric == CATEGORY)}


def _named(typed: str) -> str:
    """Return the dataset that is typed: `org/name`, the same after `leaderboard:`, or the address of its page."""
    repo = (typed or "").strip().removeprefix(PREFIX)
    repo = repo.partition("huggingface.co/datasets/")[2].strip("/") or repo
    if not repo:
        raise InputError("The dataset is missing.", next_step="Enter it as org/name.")
    return repo

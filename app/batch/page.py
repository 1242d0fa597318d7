"""The Batch tab: judge many edits in a run, and look at the results as a table."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gradio as gr

from app.batch import views as batch_views
from app.batch.service import EXPORTS, FILTERS, ORDERS, PAGE, thumbnail
from app.failures import explaining_at
from app.library.chooser import Chooser
from app.library.libraries import Visitor
from app.run_panel.events import Known, RunEvents
from app.run_panel.following import MOVING, FollowedRun
from app.run_panel.new_jobs import MissingError, NewJob, data_spec, whole
from app.run_panel.page import JobForm, RunPanel, Start
from app.score.judge_form import JudgeForm
from app.services import AppServices
from app.widgets import QUIET, Updates, Widgets, button, markup, section, state, textbox
from rewardharness.bulk.config import ScoreConfig

STEPS = 20
"""Number of times that the table of a running batch is updated."""


class BatchForm(JobForm):
    """The form of a new batch."""

    def __init__(self, services: AppServices) -> None:
        self.services = services
        local = services.local
        with section("New batch", open=True, elem_id="batch-new") as self.section:
            with gr.Row(equal_height=False):
                with gr.Column(scale=1, min_width=300):
                    label = "A zip archive or a table" if local else "A zip archive"
                    types = [".zip", *([".csv", ".tsv", ".jsonl", ".parquet"] if local else [])]
                    upload = gr.File(label=label, file_types=types, type="filepath", height=140, elem_id="batch-upload")
                with gr.Column(scale=1, min_width=300):
                    place = textbox(
                        "Or a folder, a table or a dataset", "batch-place", placeholder="/home/me/edits", visible=local,
                        info="A path on this computer, or org/name on the Hub; demo for generated pairs.",
                    )  # fmt: skip
                    info = "0: all." if local else f"0: all. At most {services.settings.batch_pairs}."
                    limit = gr.Number(0, label="First examples", info=info, minimum=0, elem_id="batch-limit")
                    critique = gr.Checkbox(label="Say what is wrong with each candidate", elem_id="batch-critique")
            with gr.Column(visible=local):
                self.chooser = Chooser(services, "batch-library", "Library", address="", aloud=False)
            if local:
                self.judge = JudgeForm(services, "batch-")
            self.start = Start("batch")
        self.fields = {"place": place, "upload": upload, "limit": limit, "critique": critique}
        self.connect(services)

    def make(self, values: Mapping[str, Any], visitor: Visitor) -> NewJob:
        """See `JobForm.make`."""
        if values["upload"]:
            spec = self.services.batches.take_upload(Path(values["upload"]), visitor.owner)
        elif self.services.local:
            spec = data_spec(values["place"] or "")
        else:
            raise MissingError("There is no archive.", next_step="Upload a zip archive with images and a table.")
        limit = whole(values["limit"], "{:g} examples are not possible.")
        return NewJob(ScoreConfig(data=spec, limit=limit, critique=bool(values["critique"]), skip_bad_rows=True))


class BatchView(Widgets):
    """The widgets that show a batch."""

    def __init__(self) -> None:
        self.summary = markup(elem_id="batch-summary")
        shown, orders = ([(text, name) for name, text in names.items()] for names in (FILTERS, ORDERS))
        with gr.Row(elem_id="batch-choose"):
            self.show = gr.Dropdown(shown, value="all", label="Show", elem_id="batch-show")
            self.order = gr.Dropdown(orders, value="given", label="Order", elem_id="batch-order")
        self.table = gr.HTML(elem_id="batch-table", js_on_load=None)
        with gr.Row(elem_id="batch-pages"):
            self.before = button("Earlier rows", "batch-before", interactive=False)
            self.after = button("Later rows", "batch-after", interactive=False)
            self.saves = tuple(
                gr.DownloadButton(f"Save as {ending.upper()}", size="md", scale=0, elem_id=f"batch-{ending}")
                for ending in EXPORTS
            )
        self.message = markup(elem_id="batch-told-table")
        self.page = state(0)


class BatchEvents(RunEvents[FollowedRun, BatchView]):
    """Handlers of the Batch tab. Holds nothing of any visitor."""

    name, title, parameter = "batch", "Batch", "batch"
    texts = batch_views

    @property
    def tick_inputs(self) -> Sequence[Any]:
        """See `RunEvents.tick_inputs`."""
        return [self.view.show, self.view.order, self.view.page]

    def show_new(self, status: FollowedRun) -> Updates:
        """See `RunEvents.show_new`."""
        return {self.panel.area: gr.Column(visible=False), self.view.page: 0, self.view.message: ""}

    def show_actions(self, status: FollowedRun) -> Updates:
        """See `RunEvents.show_actions`."""
        saves, batches = self.view.saves, self.services.batches
        if status.state in MOVING or not status.judged:
            return {save: gr.DownloadButton(value=None, interactive=False) for save in saves}
        rows = batches.rows(status.name)
        paths = [batches.export(status.name, ending, rows) for ending in EXPORTS]
        return {save: gr.DownloadButton(value=path, interactive=True) for save, path in zip(saves, paths, strict=True)}

    def show_details(
        self, status: FollowedRun, known: Known | None, held: Sequence[str], *values: Any
    ) -> tuple[Updates, Any]:
        """See `RunEvents.show_details`. The value is the step of the shown table."""
        step = STEPS * status.judged // status.wanted if status.wanted else status.judged
        if not status.judged or (known is not None and known[1] == step and known[0][1] == status.state):
            return {}, step
        chosen, order, page = values
        table = self._table(status.name, chosen or "all", order or "given", int(page or 0))
        command = self.service.command(status.name) if status.state not in MOVING else ""
        summary = batch_views.summary(self.services.batches.report(status.name), command)
        return {self.panel.area: gr.Column(visible=True), **table, self.view.summary: summary}, step

    def _table(self, name: str, chosen: str, order: str, page: int) -> Updates:
        rows = self.services.batches.rows(name, chosen, order)
        last = max(0, (len(rows) - 1) // PAGE)
        page = min(max(0, page), last)
        return {
            self.view.page: page,
            self.view.table: batch_views.rows_table(rows, page, thumbnail),
            self.view.before: gr.Button(interactive=page > 0),
            self.view.after: gr.Button(interactive=page < last),
        }

    @explaining_at("view.message")
    def turn(self, step: int, name: str, chosen: str, order: str, page: int) -> Updates:
        """Show another page: `step` further, or the first one for 0."""
        if not name:
            return {self.view.message: ""}
        return self._table(name, chosen, order, page + step if step else 0)

    def connect(self) -> None:
        """See `RunEvents.connect`."""
        super().connect()
        view, inputs = self.view, [self.panel.current, *self.tick_inputs]
        table: dict[str, Any] = {"concurrency_limit": 4, "concurrency_id": "batches", **QUIET}
        turns = ((view.show.input, 0), (view.order.input, 0), (view.before.click, -1), (view.after.click, 1))
        for event, step in turns:
            event(partial(self.turn, step), inputs, self.outputs, **table)


def build_batch_tab(services: AppServices) -> None:
    """Draw the tab and connect its widgets."""
    settings = services.settings
    limits = None if services.local else (settings.batch_pairs, settings.batch_megabytes, settings.batch_hours)
    markup(batch_views.introduction(limits), elem_id="batch-introduction")
    form, panel = BatchForm(services), RunPanel(services, "batch")
    with panel.area:
        view = BatchView()
    BatchEvents(services, services.batches, form, panel, view).connect()

"""The Batch tab: judge many edits in a run, and look at the results as a table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr

from app import batch_views
from app.batch_services import EXPORTS, FILTERS, ORDERS, PAGE, BatchServices, thumbnail
from app.counting import CountedStatus
from app.following import MOVING
from app.judges import BY_MEASURING
from app.libraries import Choice
from app.new_jobs import MissingError, NewJob, data_spec
from app.run_panel.events import Known, RunEvents
from app.run_panel.page import JobForm, RunPanel, draw_runs, draw_start
from app.services import AppServices
from app.tabs.chooser import make_chooser
from app.tabs.guard import explain
from app.tabs.parts import KEPT, QUIET, Updates, Widgets, markup
from app.tabs.score.judge import draw_judge
from rewardharness.bulk.config import ScoreConfig
from rewardharness.errors import InputError

STEPS = 20
"""Number of times that the table of a running batch is updated."""


@dataclass(frozen=True)
class BatchForm(JobForm):
    """The form of a new batch."""

    place: gr.Textbox
    upload: gr.File
    limit: gr.Number
    critique: gr.Checkbox

    @property
    def own(self) -> list[Any]:
        """See `JobForm.own`."""
        return [self.place, self.upload, self.limit, self.critique]

    def read(self, services: AppServices, values: Sequence[Any]) -> NewJob:
        """Read the job that the form describes.

        Raises:
            InputError: If a value is missing or out of range.
        """
        place, upload, limit, critique, *rest = values
        if upload:
            spec = services.batches.take_upload(Path(upload))
        elif services.local:
            spec = data_spec(place or "")
        else:
            raise MissingError("There is no archive.", next_step="Upload a zip archive with images and a table.")
        if limit and limit != int(limit):
            raise InputError(f"{limit:g} examples are not possible.", next_step="Give a whole number.")
        library = services.libraries.spelled(Choice(*rest[: len(self.chooser.parts)]))
        config = ScoreConfig(
            data=spec, library=library, limit=int(limit or 0) or None, critique=bool(critique), skip_bad_rows=True
        )
        judge = self.judge.read(rest[len(self.chooser.parts) :]) if self.judge is not None else BY_MEASURING
        return NewJob(config, judge)


@dataclass(frozen=True)
class BatchView(Widgets):
    """The widgets that show a batch."""

    summary: gr.Markdown
    show: gr.Dropdown
    order: gr.Dropdown
    page: gr.State
    before: gr.Button
    after: gr.Button
    table: gr.HTML
    saves: tuple[gr.DownloadButton, ...]
    told: gr.Markdown


class BatchEvents(RunEvents[CountedStatus]):
    """Handlers of the Batch tab. Holds nothing of any visitor."""

    name, title, parameter = "batch", "Batch", "batch"
    texts = batch_views

    def __init__(self, services: AppServices, form: BatchForm, panel: RunPanel, view: BatchView) -> None:
        super().__init__(services, services.batches, form, panel, view)
        self.batches: BatchServices = services.batches
        self.view = view
        self.tick_inputs = [view.show, view.order, view.page]

    def show_new(self, status: CountedStatus) -> Updates:
        """See `RunEvents.show_new`."""
        return {self.panel.area: gr.Column(visible=False), self.view.page: 0, self.view.told: ""}

    def show_actions(self, status: CountedStatus) -> Updates:
        """See `RunEvents.show_actions`."""
        saves = self.view.saves
        if status.state in MOVING or not status.judged:
            return {button: gr.DownloadButton(value=None, interactive=False) for button in saves}
        rows = self.batches.rows(status.name)
        paths = [self.batches.export(status.name, ending, rows) for ending in EXPORTS]
        return {
            button: gr.DownloadButton(value=path, interactive=True) for button, path in zip(saves, paths, strict=True)
        }

    def show_details(
        self, status: CountedStatus, known: Known | None, held: Sequence[str], *values: Any
    ) -> tuple[Updates, Any]:
        """See `RunEvents.show_details`. The value is the step of the shown table."""
        step = STEPS * status.judged // status.wanted if status.wanted else status.judged
        if not status.judged or (known is not None and known[1] == step and known[0][1] == status.state):
            return {}, step
        chosen, order, page = values
        table = self._table(status.name, chosen or "all", order or "given", int(page or 0))
        return {self.panel.area: gr.Column(visible=True), **table, **self._summary(status)}, step

    def _summary(self, status: CountedStatus) -> Updates:
        command = self.batches.command(status.name) if status.state not in MOVING else ""
        return {self.view.summary: batch_views.summary(self.batches.report(status.name), command)}

    def _table(self, name: str, chosen: str, order: str, page: int) -> Updates:
        rows = self.batches.rows(name, chosen, order)
        last = max(0, (len(rows) - 1) // PAGE)
        page = min(max(0, page), last)
        return {
            self.view.page: page,
            self.view.table: batch_views.rows_table(rows, page, thumbnail),
            self.view.before: gr.Button(interactive=page > 0),
            self.view.after: gr.Button(interactive=page < last),
        }

    def turn(self, step: int) -> Callable[..., Updates]:
        """Return a handler that shows another page: `step` further, or the first one for 0."""

        def show(name: str, chosen: str, order: str, page: int) -> Updates:
            if not name:
                return {self.view.told: ""}
            try:
                return self._table(name, chosen, order, page + step if step else 0)
            except Exception as error:
                return {self.view.told: explain(error)}

        return show

    def connect(self) -> None:
        """See `RunEvents.connect`."""
        super().connect()
        view, current, everything = self.view, self.panel.current, self.outputs
        asked = [current, view.show, view.order]
        table: dict[str, Any] = {"concurrency_limit": 4, "concurrency_id": "batches", **QUIET}
        for widget in (view.show, view.order):
            widget.input(self.turn(0), [*asked, view.page], everything, **table)
        for button, step in ((view.before, -1), (view.after, 1)):
            button.click(self.turn(step), [*asked, view.page], everything, **table)


def build_batch_tab(services: AppServices) -> None:
    """Draw the tab and connect its widgets."""
    settings = services.settings
    limits = None if services.local else (settings.batch_pairs, settings.batch_megabytes, settings.batch_hours)
    markup(batch_views.introduction(limits), elem_id="batch-introduction")
    form = _draw_form(services)
    with draw_runs(services, "batch") as panel:
        view = _draw_view()
    BatchEvents(services, form, panel, view).connect()


def _draw_form(services: AppServices) -> BatchForm:
    local = services.local
    tables = [".csv", ".tsv", ".jsonl", ".parquet"] if local else []
    with gr.Accordion("New batch", open=True, elem_classes="slim", elem_id="batch-new") as section:
        with gr.Row(equal_height=False):
            with gr.Column(scale=1, min_width=300):
                upload = gr.File(
                    label="A zip archive or a table" if local else "A zip archive",
                    file_types=[".zip", *tables],
                    type="filepath",
                    height=140,
                    elem_id="batch-upload",
                )
            with gr.Column(scale=1, min_width=300):
                place = gr.Textbox(
                    "",
                    label="Or a folder, a table or a dataset",
                    info="A path on this computer, or org/name on the Hub; demo for generated pairs.",
                    placeholder="/home/me/edits",
                    max_lines=1,
                    max_length=1000,
                    visible=local,
                    elem_id="batch-place",
                )
                most = "" if local else f" At most {services.settings.batch_pairs}."
                limit = gr.Number(0, label="First examples", info=f"0: all.{most}", minimum=0, elem_id="batch-limit")
                critique = gr.Checkbox(label="Say what is wrong with each candidate", elem_id="batch-critique")
        with gr.Column(visible=local):
            chooser = make_chooser(services, "batch-library", "Library", address="", aloud=False)
        judge = draw_judge(services, "batch-") if local else None
        start = draw_start("batch")
    form = BatchForm(section, chooser, judge, start, place, upload, limit, critique)
    form.connect(services)
    return form


def _draw_view() -> BatchView:
    summary = markup(elem_id="batch-summary")
    with gr.Row(elem_id="batch-choose"):
        show = gr.Dropdown(
            [(text, name) for name, text in FILTERS.items()], value="all", label="Show", elem_id="batch-show"
        )
        order = gr.Dropdown(
            [(text, name) for name, text in ORDERS.items()], value="given", label="Order", elem_id="batch-order"
        )
    table = gr.HTML(elem_id="batch-table", js_on_load=None)
    with gr.Row(elem_id="batch-pages"):
        before = gr.Button("Earlier rows", size="md", scale=0, interactive=False, elem_id="batch-before")
        after = gr.Button("Later rows", size="md", scale=0, interactive=False, elem_id="batch-after")
        saves = tuple(
            gr.DownloadButton(f"Save as {ending.upper()}", size="md", scale=0, elem_id=f"batch-{ending}")
            for ending in EXPORTS
        )
    told = markup(elem_id="batch-told-table")
    return BatchView(summary, show, order, gr.State(0, time_to_live=KEPT), before, after, table, saves, told)

"""The Batch tab: judge many edits in a run, and look at the results as a table."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gradio as gr

from app.batch import views as batch_views
from app.batch.service import MAX_OPENED, BatchServices, JudgedExample
from app.evolve.runs import ExampleCase, Seen
from app.failures import explaining_at
from app.library.chooser import Chooser
from app.library.libraries import Visitor
from app.run_panel.events import Known, RunEvents
from app.run_panel.following import MOVING, FollowedRun, keep
from app.run_panel.new_jobs import MissingError, NewJob, data_spec, whole
from app.run_panel.page import JobForm, RunPanel, Start
from app.run_panel.views import sections
from app.score.judge_form import JudgeForm
from app.services import AppServices
from app.table.page import ResultTable, TablePlace
from app.table.rows import Judged, ResultRow, verdict_of
from app.viewer.example_views import OpenedExample, opened
from app.widgets import QUIET, Updates, Widgets, button, markup, section, textbox
from rewardharness.benchmark.comparison import (
    ComparedExample,
    ComparedRun,
    Flip,
    PartComparison,
    RunComparison,
    compare,
)
from rewardharness.benchmark.metrics import split
from rewardharness.benchmark.report import comparison_section
from rewardharness.benchmark.run import EntryRecord
from rewardharness.bulk.config import ScoreConfig
from rewardharness.judging.report import credit

_KnownRows = tuple[Sequence[JudgedExample], Sequence[JudgedExample], list[ResultRow]]
"""Rows with what they were made of: the results of the run, and of the run beside it."""


class BatchResults:
    """See `TableSource`.

    Args:
        batches: The runs.
    """

    def __init__(self, batches: BatchServices) -> None:
        self._batches = batches
        self._rows: OrderedDict[TablePlace, _KnownRows] = OrderedDict()

    def rows(self, place: TablePlace) -> Sequence[ResultRow]:
        """See `TableSource.rows`."""
        judged, others = self._batches.judged(place.run), self._beside(place)
        known = self._rows.get(place)
        if known is None or known[0] is not judged or known[1] is not others:
            known = judged, others, _make_rows(judged, others)
        keep(self._rows, place, known, MAX_OPENED)
        return known[2]

    def _beside(self, place: TablePlace) -> Sequence[JudgedExample]:
        return self._batches.judged(place.beside) if place.beside else ()

    def judges(self, place: TablePlace) -> Sequence[str]:
        """See `TableSource.judges`."""
        return [self._batches.judge(name) for name in (place.run, place.beside) if name]

    def others(self, place: TablePlace) -> list[tuple[str, str]]:
        """See `TableSource.others`. Those of the same data; a visitor has none."""
        return self._batches.same_data(place.run)

    def compared(self, place: TablePlace) -> str:
        """See `TableSource.compared`."""
        names = (place.beside, place.run)
        before, after = ({entry.example.id: entry for entry in self._batches.judged(name)} for name in names)
        pairs = [(before[name], entry) for name, entry in after.items() if name in before and entry.example.preference]
        parts = []
        for kind, some in split(pairs, lambda pair: pair[1].example.label_kind or "labels").items():
            sides = zip(*some, strict=True)
            runs = [
                ComparedRun(name, "", "", "", tuple(map(_outcome, side)))
                for name, side in zip(names, sides, strict=True)
            ]
            test, better, worse = compare(*runs)
            flips = tuple(Flip(name, "", "", "", "", better=name in better) for name in (*better, *worse))
            parts.append(PartComparison(**{**vars(test), "part": kind}, flips=flips))
        blank: dict[str, Any] = dict.fromkeys(("library", "protocol", "revision", "library_id"), "")
        judges = {name: self._batches.judge(name) for name in names}
        first, second = (EntryRecord(key=name, role="baseline", name=judge, **blank) for name, judge in judges.items())
        return sections(comparison_section(RunComparison("", "", first, second, True, tuple(parts))))

    def judged(self, place: TablePlace, rows: Sequence[ResultRow]) -> Iterable[Judged]:
        """See `TableSource.judged`."""
        known = {entry.number: entry.example for entry in self._batches.judged(place.run)}
        examples = [known[row.number] for row in rows]
        return zip(examples, self._batches.judgments(place.run, (example.id for example in examples)), strict=True)

    def case(self, place: TablePlace, row: ResultRow) -> OpenedExample:
        """See `TableSource.case`."""
        example, _ = next(iter(self.judged(place, [row])))
        seen = []
        for name in filter(None, (place.beside, place.run)):
            [judgment] = self._batches.judgments(name, [example.id], steps=True)
            seen.append(Seen(self._batches.judge(name), judgment))
        return opened(ExampleCase(example, example.preference, tuple(seen)))

    def file(self, place: TablePlace, ending: str) -> Path:
        """See `TableSource.file`."""
        return self._batches.file(place.run, ending)


def _make_rows(judged: Sequence[JudgedExample], others: Sequence[JudgedExample]) -> list[ResultRow]:
    """Return a row for each example; with other judgments, for those that both have."""
    beside = {counterpart.example.id: counterpart for counterpart in others}
    rows = []
    for entry in judged:
        example, other = entry.example, beside.get(entry.example.id)
        if other is not None or not others:
            sides = (entry, *((other,) if other is not None else ()))
            verdicts = tuple(verdict_of(side.example, side.judgment) for side in sides)
            kinds = tuple(filter(None, (example.category, example.label_kind)))
            rows.append(ResultRow(entry.number, example.id, example.instruction, kinds, example.preference, verdicts))
    return rows


def _outcome(entry: JudgedExample) -> ComparedExample:
    example, judgment = entry.example, entry.judgment
    agrees = credit(example, judgment) if judgment.judged else None
    return ComparedExample(example.id, str(example.preference), agrees, example.source_id)


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
                    self.sample = button("Get a sample archive", "batch-sample")
                    self.drawn = gr.DownloadButton("Sample", visible="hidden", elem_id="batch-drawn")
                with gr.Column(scale=1, min_width=300):
                    place = textbox(
                        "Or a folder, a table or a dataset", "batch-place", placeholder="/home/me/edits", visible=local,
                        info="A path on this computer, or org/name on the Hub; demo for generated pairs.",
                    )  # fmt: skip
                    info = "0 = all examples." if local else f"0 = all, at most {services.settings.batch_pairs}."
                    limit = gr.Number(0, label="First examples", info=info, minimum=0, elem_id="batch-limit")
                    critique = gr.Checkbox(label="Say what is wrong with each candidate", elem_id="batch-critique")
            with gr.Column(visible=local):
                self.chooser = Chooser(services, "batch-library", "Library", address="", aloud=False)
            if local:
                self.judge = JudgeForm(services, "batch-")
            self.start = Start("batch")
        self.fields = {"place": place, "upload": upload, "limit": limit, "critique": critique}
        self.connect(services)

    def take(self, path: Path) -> Updates:
        """Fill in an archive, to be judged with another judge or Library."""
        return {self.section: gr.Accordion(open=True), self.fields["upload"]: str(path), **self.start.without_preview()}

    def connect(self, services: AppServices) -> None:
        """See `JobForm.connect`."""
        super().connect(services)
        drawn = self.sample.click(self._draw_sample, None, [self.drawn, self.start.cost], concurrency_limit=1, **QUIET)
        drawn.success(None, None, None, js="() => document.querySelector('#batch-drawn').click()", **QUIET)

    @explaining_at("start.cost")
    def _draw_sample(self) -> Updates:
        return {self.drawn: gr.DownloadButton(value=self.services.batches.sample())}

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

    def __init__(self, services: AppServices) -> None:
        self.summary = markup(elem_id="batch-summary")
        self.rows = ResultTable("batch", BatchResults(services.batches), services.results, label=services.voting.label)


class BatchEvents(RunEvents[FollowedRun, BatchView]):
    """Handlers of the Batch tab. Holds nothing of any visitor."""

    name, parameter = "batch", "batch"
    texts = batch_views

    @property
    def tick_inputs(self) -> Sequence[Any]:
        """See `RunEvents.tick_inputs`."""
        return self.view.rows.inputs

    def connect(self) -> None:
        """See `RunEvents.connect`."""
        super().connect()
        self.panel.section.expand(self.services.batches.read_ahead, None, None, **QUIET)

    def show_new(self, status: FollowedRun) -> Updates:
        """See `RunEvents.show_new`."""
        return {self.panel.area: gr.Column(visible=False)}

    def show_actions(self, status: FollowedRun) -> Updates:
        """See `RunEvents.show_actions`."""
        return {}

    def show_details(
        self, status: FollowedRun, known: Known | None, held: Sequence[str], *values: Any
    ) -> tuple[Updates, Any]:
        """See `RunEvents.show_details`. The value is the step of the shown table."""
        step = STEPS * status.judged // status.wanted if status.wanted else status.judged
        if not status.judged or (known is not None and known[1] == step and known[0][1] == status.state):
            return {}, step
        table = self.view.rows
        rows = table.begin(TablePlace(status.name)) if known is None else table.refresh(status.name, *values)
        command = self.service.command(status.name) if status.state not in MOVING else ""
        summary = batch_views.summary(self.services.batches.report(status.name), command)
        return {self.panel.area: gr.Column(visible=True), **rows, self.view.summary: summary}, step


def build_batch_tab(services: AppServices) -> None:
    """Draw the tab and connect its widgets."""
    settings = services.settings
    limits = None if services.local else (settings.batch_pairs, settings.batch_megabytes, settings.batch_hours)
    markup(batch_views.introduction(limits), elem_id="batch-introduction")
    form, panel = BatchForm(services), RunPanel(services, "batch")
    with panel.area:
        view = BatchView(services)
    events = BatchEvents(services, services.batches, form, panel, view)
    events.connect()
    view.rows.connect(panel.current, [*events.outputs, *form.fields.values()], form.take, events.look)

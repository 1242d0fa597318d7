"""Widgets that show a benchmark, with what they do: its numbers, single questions, and the comparison of two rows."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import gradio as gr

from app.benchmark import views
from app.benchmark.form import BenchmarkForm
from app.benchmark.leaderboard import LeaderboardPanel
from app.benchmark.runs import BenchmarkStatus, OpenedBenchmark
from app.benchmark.service import BenchmarkServices
from app.failures import explaining_at
from app.library.chooser import Chooser
from app.markup import plain
from app.run_panel.events import Known, RunEvents
from app.run_panel.following import MOVING
from app.run_panel.page import RunPanel
from app.run_panel.service import Listed
from app.run_panel.views import no_runs
from app.services import AppServices
from app.table.page import ResultTable, TablePlace
from app.table.rows import Judged, ResultRow, Verdict
from app.viewer.example_views import OpenedExample
from app.widgets import Updates, Widgets, markup, section
from rewardharness.benchmark.answers import QuestionAnswer
from rewardharness.benchmark.result import BenchmarkResult
from rewardharness.schema import LABELS


class Questions:
    """See `TableSource`. `beside` is the name of a run and the key of a row, joined by a slash.

    Args:
        benchmarks: The runs.
    """

    def __init__(self, benchmarks: BenchmarkServices) -> None:
        self._benchmarks = benchmarks

    def rows(self, place: TablePlace) -> Sequence[ResultRow]:
        """See `TableSource.rows`."""
        sides = [self._benchmarks.answers(*row) for row in _rows(place)]
        beside = {reply.question.id: _verdict(reply, credit) for reply, credit in sides[-1]}
        return [
            ResultRow(
                number,
                reply.question.id,
                reply.question.instruction,
                tuple(dict.fromkeys((reply.question.part, reply.question.category, reply.question.dimension))),
                str(reply.question.truth),
                (_verdict(reply, credit), *([beside[reply.question.id]] if place.beside else [])),
            )
            for number, (reply, credit) in enumerate(sides[0])
            if reply.question.id in beside
        ]

    def judges(self, place: TablePlace) -> Sequence[str]:
        """See `TableSource.judges`."""
        return [self._benchmarks.row_title(*row) for row in _rows(place)]

    def others(self, place: TablePlace) -> list[tuple[str, str]]:
        """See `TableSource.others`."""
        rows = self._benchmarks.other_rows(place.run, place.column)
        return [(plain(title), "/".join(row)) for title, row in rows]

    def compared(self, place: TablePlace) -> str:
        """See `TableSource.compared`."""
        shown, beside = _rows(place)
        return views.compared(self._benchmarks.compare(beside, shown))

    def judged(self, place: TablePlace, rows: Sequence[ResultRow]) -> Iterable[Judged]:
        """See `TableSource.judged`."""
        replies = self._benchmarks.answers(place.run, place.column)
        return self._benchmarks.examples(place.run, place.column, [replies[row.number][0] for row in rows])

    def case(self, place: TablePlace, row: ResultRow) -> OpenedExample:
        """See `TableSource.case`."""
        case = self._benchmarks.case(row.id, *reversed(_rows(place)))
        chains = [(side.title if place.beside else "", views.chain(side)) for side in case.sides]
        return OpenedExample(views.words(case), case.example, chains, row.verdicts[0].choice)

    def file(self, place: TablePlace, ending: str) -> Path:
        """See `TableSource.file`."""
        return self._benchmarks.file(place.run, ending)


def _rows(place: TablePlace) -> list[tuple[str, str]]:
    """Return the shown row, and the one that it is compared with."""
    name, _, key = place.beside.rpartition("/")
    return [(place.run, place.column), *([(name, key)] if place.beside else [])]


def _verdict(reply: QuestionAnswer, credit: float | None) -> Verdict:
    rewards = dict(zip(LABELS, reply.values, strict=False))
    return Verdict(reply.choice or "", credit, reply.margin, rewards, reply.failure)


class BenchmarkPanel(Widgets):
    """The widgets, drawn in the context of `draw_runs`."""

    def __init__(self, services: AppServices) -> None:
        # The row of the details: kinds of edit, confidence, questions.
        info = "For kinds of edit, confidence and single questions."
        self.row = gr.Dropdown([], label="Details of", info=info, visible=False, elem_id="benchmark-row")
        with gr.Tabs(elem_id="benchmark-tabs"):
            with gr.Tab("Table"):
                self.summary = markup(elem_id="benchmark-summary")
                self.table = markup(elem_id="benchmark-table")
                with section("Coverage and cost", open=True):
                    self.judging = markup(elem_id="benchmark-judging")
                with section("Published numbers", open=True):
                    self.published = markup(elem_id="benchmark-published")
                self.download = gr.DownloadButton(
                    "Download the report (HTML)", visible=False, elem_id="benchmark-download", size="md", scale=0,
                    min_width=240,
                )  # fmt: skip
            with gr.Tab("Questions"):
                source = Questions(services.benchmarks)
                first = ("against", "margin")
                label = services.voting.label
                self.questions = ResultTable("benchmark-questions", source, services.results, self.row, first, label)
            with gr.Tab("Kinds"):
                self.kinds = markup(elem_id="benchmark-kinds")
            with gr.Tab("Confidence"):
                with gr.Row(equal_height=False, elem_id="benchmark-charts"):
                    self.margins = markup(elem_id="benchmark-margins")
                    # HTML, because Markdown removes the SVG. It contains no foreign text.
                    self.curve = gr.HTML(elem_id="benchmark-curve", js_on_load=None)
                self.calibration = markup(elem_id="benchmark-calibration")
            with gr.Tab("About"):
                self.about = markup(elem_id="benchmark-about")
                self.data = markup(elem_id="benchmark-data")

    def show(self, result: BenchmarkResult) -> Updates:
        """Show the results of all rows."""
        return {
            self.summary: views.summary(result),
            self.table: views.rows_table(result),
            self.judging: views.section(result, "judging"),
            self.published: views.section(result, "published"),
            self.data: views.about_data(result),
        }

    def show_row(self, opened: OpenedBenchmark, name: str, key: str) -> Updates:
        """Show a row in detail, and its questions."""
        result = opened.result
        return {
            self.kinds: views.section(result, "categories", key),
            self.margins: views.section(result, "margins", key),
            self.curve: views.reliability(result, key),
            self.calibration: views.section(result, "confidence", key),
            **self.questions.begin(TablePlace(name, key)),
        }


STEPS = 10
"""Number of times that the table of a running benchmark is updated."""


class BenchmarkEvents(RunEvents[BenchmarkStatus, BenchmarkPanel]):
    """Handlers of the Benchmark tab. Holds nothing of any visitor."""

    name, parameter = "benchmark", "benchmark"
    texts = views

    def show_new(self, status: BenchmarkStatus) -> Updates:
        """See `RunEvents.show_new`."""
        return {self.panel.area: gr.Column(visible=False)}

    def show_actions(self, status: BenchmarkStatus) -> Updates:
        """See `RunEvents.show_actions`."""
        return {self.view.about: views.about_run(status, self.service.command(status.name))}

    def show_details(
        self, status: BenchmarkStatus, known: Known | None, held: Sequence[str], *values: Any
    ) -> tuple[Updates, Any]:
        """See `RunEvents.show_details`. The value is the step of the shown table."""
        table_step = -1 if known is None else int(known[1])
        step = STEPS * status.judged // status.wanted if status.wanted else 0
        changed = known is None or known[0][1] != status.state
        if not status.judged or not (changed or step != table_step):
            return {}, table_step
        return self._results(status, new=table_step < 0 or status.state not in MOVING), step

    def _results(self, status: BenchmarkStatus, *, new: bool) -> Updates:
        """Show the results. `new`: also those that a user may be looking at."""
        view, name, benchmarks = self.view, status.name, self.services.benchmarks
        opened = benchmarks.open(name)
        result = opened.result
        if not result.rows:
            return {self.panel.area: gr.Column(visible=False)}
        updates: Updates = {self.panel.area: gr.Column(visible=True), **view.show(result)}
        if not new:
            return updates
        page = benchmarks.report_file(name) if status.state not in MOVING else None
        rows = [(row.label, row.key) for row in result.rows]
        return {
            **updates,
            view.download: gr.DownloadButton(value=page, visible=page is not None),
            view.row: gr.Dropdown(rows, value=rows[0][1], visible=len(rows) > 1),
            **view.show_row(opened, name, rows[0][1]),
        }

    def show_list(self, listed: Sequence[Listed[BenchmarkStatus]]) -> Updates:
        """See `RunEvents.show_list`. Arenas are below the list, or below the text that there are no runs."""
        arenas = self.services.benchmarks.arenas()
        if not arenas:
            return {}
        nothing = "" if listed else no_runs(self.name, local=self.services.local)
        return {self.panel.nothing: gr.Markdown(nothing + views.arenas(arenas), visible=True)}

    @explaining_at("panel.message")
    def choose_row(self, name: str, key: str) -> Updates:
        """Show another row in detail."""
        return self.view.show_row(self.services.benchmarks.open(name), name, key)

    def connect(self) -> None:
        """See `RunEvents.connect`."""
        super().connect()
        where = [self.panel.current, self.view.row]
        self.view.row.input(self.choose_row, where, self.outputs, **self.look)


def build_benchmark_tab(services: AppServices) -> Chooser:
    """Draw the tab and connect its widgets. Returns the choice of the Library."""
    markup(views.introduction(local=services.local), elem_id="benchmark-introduction")
    form, panel = BenchmarkForm(services), RunPanel(services, "benchmark")
    with panel.area:
        view = BenchmarkPanel(services)
    events = BenchmarkEvents(services, services.benchmarks, form, panel, view)
    events.connect()
    with section("Leaderboard", elem_id="leaderboard"):
        LeaderboardPanel(services, panel.current)
    view.questions.connect(panel.current, [*events.outputs, *form.fields.values()], form.take, events.look)
    return form.chooser

"""Events of the Benchmark tab."""

from collections.abc import Sequence
from typing import Any

import gradio as gr

from app import benchmark_tables, benchmark_views
from app.benchmark_runs import BenchmarkStatus, OpenedBenchmark
from app.following import MOVING
from app.run_panel.events import Known, RunEvents
from app.run_panel.page import RunPanel
from app.services import AppServices
from app.tabs.benchmark import comparing, questions
from app.tabs.benchmark.form import BenchmarkForm
from app.tabs.benchmark.view import BenchmarkView
from app.tabs.guard import explain
from app.tabs.parts import QUIET, Updates

STEPS = 10
"""Number of times that the table of a running benchmark is updated."""

ARROWS = """() => {
  document.addEventListener("keydown", (event) => {
    const place = {ArrowLeft: "benchmark-previous", ArrowRight: "benchmark-next"}[event.key];
    if (!place || !document.activeElement || !document.activeElement.closest("#benchmark-steps")) return;
    event.preventDefault();
    document.querySelector(`button#${place}`).click();
  });
}"""
"""On the buttons that step through questions, the arrow keys do so too."""


class BenchmarkEvents(RunEvents[BenchmarkStatus]):
    """Handlers of the Benchmark tab. Holds nothing of any visitor."""

    name, title, parameter = "benchmark", "Benchmark", "benchmark"
    texts = benchmark_views

    def __init__(self, services: AppServices, form: BenchmarkForm, panel: RunPanel, view: BenchmarkView) -> None:
        super().__init__(services, services.benchmarks, form, panel, view)
        self.benchmarks, self.view = services.benchmarks, view

    def show_new(self, status: BenchmarkStatus) -> Updates:
        """See `RunEvents.show_new`."""
        return {self.panel.area: gr.Column(visible=False)}

    def show_actions(self, status: BenchmarkStatus) -> Updates:
        """See `RunEvents.show_actions`."""
        return {self.view.numbers.about: benchmark_views.about_run(status, self.benchmarks.command(status.name))}

    def show_details(
        self, status: BenchmarkStatus, known: Known | None, held: Sequence[str], *values: Any
    ) -> tuple[Updates, Any]:
        """See `RunEvents.show_details`. The value is the step of the shown table."""
        shown = -1 if known is None else int(known[1])
        step = STEPS * status.judged // status.wanted if status.wanted else 0
        changed = known is None or known[0][1] != status.state
        if not status.judged or not (changed or step != shown):
            return {}, shown
        return self._results(status, held, new=shown < 0 or status.state not in MOVING), step

    def _results(self, status: BenchmarkStatus, held: Sequence[str], *, new: bool) -> Updates:
        """Show the results. `new`: also those that a user may be looking at."""
        numbers, name = self.view.numbers, status.name
        opened = self.benchmarks.open(name)
        result = opened.result
        if not result["rows"]:
            return {self.panel.area: gr.Column(visible=False)}
        updates: Updates = {
            self.panel.area: gr.Column(visible=True),
            numbers.summary: benchmark_views.summary(result),
            numbers.table: benchmark_tables.rows_table(result),
            numbers.judging: benchmark_tables.section(result, "judging"),
            numbers.published: benchmark_tables.section(result, "published"),
            numbers.data: benchmark_tables.about_data(result),
        }
        if not new:
            return updates
        page = self.benchmarks.report_file(name) if status.state not in MOVING else None
        choices = benchmark_tables.row_choices(result)
        key = choices[0][1]
        answered = [str(row["key"]) for row in result["rows"] if row["judged"]]
        others = [run.status.name for run in self.benchmarks.runs(held) if not run.error]
        names = [name, *(other for other in others if other != name)]
        return {
            **updates,
            numbers.download: gr.DownloadButton(value=page, visible=page is not None),
            numbers.row: gr.Dropdown(choices, value=key, visible=len(choices) > 1),
            **self._row(opened, key),
            **questions.begin(self.benchmarks, self.view.questions, name, key),
            **comparing.begin(self.benchmarks, self.view.comparing, names, answered),
        }

    def _row(self, opened: OpenedBenchmark, key: str) -> Updates:
        numbers, result = self.view.numbers, opened.result
        return {
            numbers.kinds: benchmark_tables.section(result, "categories", key),
            numbers.margins: benchmark_tables.section(result, "margins", key),
            numbers.curve: benchmark_tables.reliability(result, key),
            numbers.calibration: benchmark_tables.section(result, "confidence", key),
        }

    def choose_row(self, name: str, key: str) -> Updates:
        """Show another row in detail."""
        try:
            opened = self.benchmarks.open(name)
            return {**self._row(opened, key), **questions.begin(self.benchmarks, self.view.questions, name, key)}
        except Exception as error:
            return {self.panel.message: explain(error)}

    def connect(self) -> None:
        """See `RunEvents.connect`."""
        super().connect()
        view, current = self.view, self.panel.current
        view.numbers.row.input(self.choose_row, [current, view.numbers.row], self.outputs, **self.look)
        gr.on(None, None, None, None, js=ARROWS, **QUIET)
        questions.connect(self.benchmarks, view.questions, [current, view.numbers.row], self.look)
        comparing.connect(self.benchmarks, view.comparing, self.look)

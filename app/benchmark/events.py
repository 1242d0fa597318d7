"""Events of the Benchmark tab."""

from collections.abc import Sequence
from typing import Any

import gradio as gr

from app.benchmark import views
from app.benchmark.form import BenchmarkForm
from app.benchmark.page import BenchmarkView
from app.benchmark.runs import BenchmarkStatus
from app.failures import explaining_at
from app.run_panel.events import Known, RunEvents
from app.run_panel.following import MOVING
from app.run_panel.page import RunPanel
from app.services import AppServices
from app.widgets import QUIET, Updates, markup

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


class BenchmarkEvents(RunEvents[BenchmarkStatus, BenchmarkView]):
    """Handlers of the Benchmark tab. Holds nothing of any visitor."""

    name, title, parameter = "benchmark", "Benchmark", "benchmark"
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
        shown = -1 if known is None else int(known[1])
        step = STEPS * status.judged // status.wanted if status.wanted else 0
        changed = known is None or known[0][1] != status.state
        if not status.judged or not (changed or step != shown):
            return {}, shown
        return self._results(status, held, new=shown < 0 or status.state not in MOVING), step

    def _results(self, status: BenchmarkStatus, held: Sequence[str], *, new: bool) -> Updates:
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
        rows = views.row_choices(result)
        answered = [row.key for row in result.rows if row.judged]
        others = [run.status.name for run in benchmarks.runs(held) if not run.error]
        return {
            **updates,
            view.download: gr.DownloadButton(value=page, visible=page is not None),
            view.row: gr.Dropdown(rows, value=rows[0][1], visible=len(rows) > 1),
            **view.show_row(opened, name, rows[0][1]),
            **view.comparing.begin([name, *(other for other in others if other != name)], answered),
        }

    @explaining_at("panel.message")
    def choose_row(self, name: str, key: str) -> Updates:
        """Show another row in detail."""
        return self.view.show_row(self.services.benchmarks.open(name), name, key)

    def connect(self) -> None:
        """See `RunEvents.connect`."""
        super().connect()
        where = [self.panel.current, self.view.row]
        self.view.row.input(self.choose_row, where, self.outputs, **self.look)
        gr.on(None, None, None, None, js=ARROWS, **QUIET)
        self.view.questions.connect(where, self.look)
        self.view.comparing.connect(self.look)


def build_benchmark_tab(services: AppServices) -> None:
    """Draw the tab and connect its widgets."""
    markup(views.introduction(local=services.local), elem_id="benchmark-introduction")
    form, panel = BenchmarkForm(services), RunPanel(services, "benchmark")
    with panel.area:
        view = BenchmarkView(services.benchmarks)
    BenchmarkEvents(services, services.benchmarks, form, panel, view).connect()

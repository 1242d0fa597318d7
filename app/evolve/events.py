"""Events of the Evolve tab."""

from collections.abc import Sequence
from typing import Any

import gradio as gr

from app.evolve import charts, proposal_views, views
from app.evolve.form import RunForm
from app.evolve.page import RunView
from app.evolve.runs import EvolutionStatus
from app.failures import explaining_at
from app.run_panel.events import Known, RunEvents
from app.run_panel.page import RunPanel
from app.run_panel.service import Listed
from app.services import AppServices
from app.widgets import QUIET, Updates, markup
from rewardharness.errors import InputError


class EvolveEvents(RunEvents[EvolutionStatus, RunView]):
    """Handlers of the Evolve tab. Holds nothing of any visitor."""

    name, title, parameter = "evolve", "Evolve", "run"
    texts = views

    @property
    def tick_inputs(self) -> Sequence[Any]:
        """See `RunEvents.tick_inputs`."""
        return [self.view.edits.chosen]

    def show_list(self, listed: Sequence[Listed[EvolutionStatus]]) -> Updates:
        """Offer the finished runs for comparison."""
        finished = [run.status.name for run in listed if run.status.state == "finished"]
        visible = len(finished) > 1 and self.services.local
        return {self.view.comparison: gr.Row(visible=visible), self.view.several: gr.Dropdown(finished)}

    def show_new(self, status: EvolutionStatus) -> Updates:
        """See `RunEvents.show_new`."""
        edits = self.view.edits
        return {
            self.panel.area: gr.Column(visible=True),
            edits.chosen: "",
            edits.head: proposal_views.no_item(status),
            edits.change_part: gr.Accordion(visible=False),
            edits.example_part: gr.Accordion(visible=False),
            **self.view.labels.empty(),
            self.view.labels.message: "",
        }

    def show_actions(self, status: EvolutionStatus) -> Updates:
        """See `RunEvents.show_actions`. A job on the Hub can be stopped also before its first judgment."""
        view, name, evolve = self.view, status.name, self.services.evolve
        report = evolve.report(name) if status.state == "finished" else None
        folder = str(status.folder / "library") if self.services.local else ""
        page = evolve.report_file(name) if report is not None else None
        stoppable = status.state == "running" or (status.state == "starting" and status.remote is not None)
        return {
            self.panel.stop: gr.Button(visible=stoppable),
            view.about: views.about(status, evolve.command(name), evolve.log(name)),
            view.report: views.report(report, folder),
            view.download: gr.DownloadButton(value=page, visible=page is not None),
        }

    def show_details(
        self, status: EvolutionStatus, known: Known | None, held: Sequence[str], *values: Any
    ) -> tuple[Updates, Any]:
        """See `RunEvents.show_details`."""
        new = known is None
        if known is not None and known[0][1:4] == status.mark[1:4]:  # only the number of judgments has changed
            return {}, None
        view, name, edits = self.view, status.name, self.view.edits
        items, points = proposal_views.items(status), charts.points(status)
        report = self.services.evolve.report(name) if status.state == "finished" else None
        label, selected = f"Edits, newest first ({len(items)})", {"value": None} if new else {}
        updates: Updates = {
            edits.choices: gr.Radio(proposal_views.choices(items), label=label, **selected),
            view.accuracy: charts.accuracy(points, report.audit if report else None),
            view.judgments: charts.judgments(points),
            view.findings: views.findings(status),
            **view.versions.list(name, new=new),
            **view.labels.list(name, new=new),
        }
        item = proposal_views.find(items, str(values[0]))
        if item is None:
            updates[edits.head] = proposal_views.no_item(status)
        elif item.decided == status.events[-1]:
            updates |= edits.show(name, item)  # the decision on the shown edit
        return updates, None

    @explaining_at("view.compared")
    def compare(self, names: list[str] | None) -> Updates:
        """Compare finished runs."""
        if not names or len(names) < 2:
            raise InputError("Two runs are needed.", next_step="Choose two or more that are finished.")
        rows, comparable = self.services.evolve.compare(names)
        return {self.view.compared: views.compared(rows, comparable=comparable)}

    def connect(self) -> None:
        """See `RunEvents.connect`."""
        super().connect()
        self.view.edits.connect(self.panel.current)
        self.view.labels.connect(self.panel.current)
        self.view.compare.click(self.compare, self.view.several, self.view.compared, **QUIET)


def build_evolve_tab(services: AppServices) -> None:
    """Draw the tab and connect its widgets."""
    markup(views.introduction(local=services.local), elem_id="evolve-introduction")
    form, panel = RunForm(services), RunPanel(services, "evolve")
    EvolveEvents(services, services.evolve, form, panel, RunView(services, panel)).connect()

"""Events of the Evolve tab."""

from collections.abc import Callable, Sequence
from typing import Any

import gradio as gr

from app import evolve_charts, evolve_views, example_views, proposal_views
from app.cases import Case
from app.evolve_runs import EvolutionStatus
from app.proposal_views import Item
from app.run_panel.events import Known, RunEvents
from app.run_panel.page import RunPanel
from app.run_panel.service import Listed
from app.services import AppServices
from app.tabs.evolve import labels as labels_part
from app.tabs.evolve import versions as versions_part
from app.tabs.evolve.form import RunForm
from app.tabs.evolve.labels import ABOUT, RIGHT
from app.tabs.evolve.view import RunView
from app.tabs.example_panel import ExamplePanel
from app.tabs.guard import explain
from app.tabs.parts import QUIET, Updates
from rewardharness.errors import InputError
from rewardharness.evolution.events import Proposed
from rewardharness.library.diff import diff_libraries

ABOUT_EDIT = "the predictions before and after the edit"
"""What is shown with the images of an example of an edit."""

TO_EDIT = """() => {
  const shown = document.querySelector('#evolve-edit');
  if (shown && innerWidth < 760) shown.scrollIntoView({behavior: 'smooth', block: 'start'});
}"""
"""Scrolls to the chosen edit if it is below the list."""


class EvolveEvents(RunEvents[EvolutionStatus]):
    """Handlers of the Evolve tab. Holds nothing of any visitor."""

    name, title, parameter = "evolve", "Evolve", "run"
    texts = evolve_views

    def __init__(self, services: AppServices, form: RunForm, panel: RunPanel, view: RunView) -> None:
        super().__init__(services, services.evolve, form, panel, view)
        self.evolve, self.view = services.evolve, view
        self.tick_inputs = [view.chosen]

    def show_list(self, listed: Sequence[Listed[EvolutionStatus]]) -> Updates:
        """Offer the finished runs for comparison."""
        finished = [run.status.name for run in listed if run.status.state == "finished"]
        return {
            self.view.comparison: gr.Row(visible=len(finished) > 1 and self.services.local),
            self.view.several: gr.Dropdown(finished),
        }

    def show_new(self, status: EvolutionStatus) -> Updates:
        """See `RunEvents.show_new`."""
        edits = self.view.edits
        return {
            self.panel.area: gr.Column(visible=True),
            self.view.chosen: "",
            edits.head: proposal_views.no_item(status),
            edits.change_part: gr.Accordion(visible=False),
            edits.example_part: gr.Accordion(visible=False),
            **self._no_label(),
            self.view.labels.message: "",
        }

    def show_actions(self, status: EvolutionStatus) -> Updates:
        """See `RunEvents.show_actions`."""
        view, name = self.view, status.name
        report = self.evolve.report(name) if status.state == "finished" else None
        folder = str(status.folder / "library") if self.services.local else ""
        page = self.evolve.report_file(name) if report is not None else None
        return {
            self.panel.stop: gr.Button(visible=_stoppable(status)),
            view.about: evolve_views.about(status, self.evolve.command(name), self.evolve.log(name)),
            view.report: evolve_views.report(report, folder),
            view.download: gr.DownloadButton(value=page, visible=page is not None),
        }

    def show_details(
        self, status: EvolutionStatus, known: Known | None, held: Sequence[str], *values: Any
    ) -> tuple[Updates, Any]:
        """See `RunEvents.show_details`. The value is the key of the edit that is shown."""
        new = known is None
        if known is not None and known[0][1:4] == status.mark[1:4]:  # only the number of judgments has changed
            return {}, None
        view, name = self.view, status.name
        items, points = proposal_views.items(status), evolve_charts.points(status)
        report = self.evolve.report(name) if status.state == "finished" else None
        selected = {"value": None} if new else {}
        updates: Updates = {
            view.edits.choices: gr.Radio(
                proposal_views.choices(items), label=f"Edits, newest first ({len(items)})", **selected
            ),
            view.accuracy: evolve_charts.accuracy(points, report["audit"] if report else None),
            view.judgments: evolve_charts.judgments(points),
            view.findings: evolve_views.findings(status),
            **versions_part.listed(view.versions, self.evolve.versions(name), new=new),
            **self._queue(name, new=new),
        }
        item = _item(items, str(values[0]))
        if item is None:
            updates[view.edits.head] = proposal_views.no_item(status)
        elif item.decided == status.events[-1]:
            updates |= self._edit(name, item)  # the decision on the shown edit
        return updates, None

    def _queue(self, name: str, *, new: bool) -> Updates:
        """Show the labels to check."""
        part, queue = self.view.labels, self.evolve.label_queue(name)
        choices = example_views.queue_choices(queue.left)
        text = example_views.queue(len(queue.left), queue.reviewed, local=self.services.local)
        selected = {"value": None} if new else {}
        return {
            part.queue: text if choices else example_views.empty_queue(queue.reviewed),
            part.choices: gr.Radio(choices, visible=bool(choices), **selected),
        }

    def choose_edit(self, name: str, key: str | None) -> Updates:
        """Show an edit."""
        try:
            item = _item(proposal_views.items(self.evolve.look(name)), key or "")
            return {self.panel.message: ""} if item is None else {self.view.chosen: item.key, **self._edit(name, item)}
        except Exception as error:
            return {self.view.edits.head: explain(error)}

    def _edit(self, name: str, item: Item) -> Updates:
        edits = self.view.edits
        try:
            if isinstance(item.event, Proposed):
                change = proposal_views.foreseen(item.event)
            else:
                change = proposal_views.change(diff_libraries(*self.evolve.difference(name, item.event)))
        except Exception as error:
            change = explain(error)
        examples = proposal_views.example_choices(item)
        return {
            edits.head: proposal_views.head(item),
            edits.change_part: gr.Accordion(visible=True),
            edits.change: change,
            edits.example_part: gr.Accordion(visible=item.decided is not None),
            edits.examples: gr.Radio(examples, value=None, visible=bool(examples)),
            **edits.panel.empty(example_views.no_example(ABOUT_EDIT) if examples else example_views.no_examples()),
        }

    def choose_example(self, name: str, key: str, example: str | None) -> Updates:
        """Show what the chosen edit changed for an example."""
        panel = self.view.edits.panel
        try:
            item = _item(proposal_views.items(self.evolve.look(name)), key)
            if item is None or item.decided is None or example is None:
                return panel.empty(example_views.no_example(ABOUT_EDIT))
            return self._fill(panel, self.evolve.case(name, item.decided, example))
        except Exception as error:
            return panel.empty(explain(error))

    def _fill(self, panel: ExamplePanel, case: Case) -> Updates:
        chains = [example_views.chain(seen.judgment, case.example.labels) for seen in case.seen]
        titles = example_views.titles(case)
        return panel.fill(example_views.words(case), self.evolve.pictures(case), list(zip(titles, chains, strict=True)))

    def choose_label(self, name: str, example: str | None) -> Updates:
        """Show an example of the queue."""
        part = self.view.labels
        try:
            if example is None:
                return self._no_label()
            case = self.evolve.queued_case(name, example)
            buttons = labels_part.offered(part, self.services, len(case.example.candidates), case.example.preference)
            return {**self._fill(part.panel, case), **buttons, part.message: ""}
        except Exception as error:
            return {**part.panel.empty(explain(error)), part.row: gr.Row(visible=False)}

    def _no_label(self) -> Updates:
        part = self.view.labels
        return {**part.panel.empty(example_views.no_example(ABOUT)), part.row: gr.Row(visible=False)}

    def correcting(self, preference: str) -> Callable[[str, str | None], Updates]:
        """Return the handler of a button of the queue.

        Args:
            preference: A letter, `tie`, or `RIGHT` for the given label.
        """

        def correct(name: str, example: str | None) -> Updates:
            part = self.view.labels
            try:
                if example is None:
                    raise InputError("No example is chosen.", next_step="Choose one in the queue.")
                changed = preference != RIGHT
                file = self.evolve.correct(name, example, preference if changed else None)
                text = evolve_views.corrected(file, changed=changed)
                return {**self._no_label(), **self._queue(name, new=True), part.message: text}
            except Exception as error:
                return {part.message: explain(error)}

        return correct

    def compare(self, names: list[str] | None) -> Updates:
        """Compare finished runs."""
        try:
            if not names or len(names) < 2:
                raise InputError("Two runs are needed.", next_step="Choose two or more that are finished.")
            rows, comparable = self.evolve.compare(names)
            return {self.view.compared: evolve_views.compared(rows, comparable=comparable)}
        except Exception as error:
            return {self.view.compared: explain(error)}

    def connect(self) -> None:
        """See `RunEvents.connect`."""
        super().connect()
        view, current, everything = self.view, self.panel.current, self.outputs
        edits, labels = view.edits, view.labels
        cases: dict[str, Any] = {"concurrency_limit": 4, "concurrency_id": "cases", **QUIET}
        chosen = edits.choices.input(self.choose_edit, [current, edits.choices], everything, **QUIET)
        chosen.then(None, None, None, js=TO_EDIT, **QUIET)
        edits.examples.input(self.choose_example, [current, view.chosen, edits.examples], everything, **cases)
        labels.choices.input(self.choose_label, [current, labels.choices], everything, **cases)
        for preference, button in labels.buttons.items():
            correct = self.correcting(preference)
            button.click(correct, [current, labels.choices], everything, **cases)
        view.compare.click(self.compare, view.several, everything, **QUIET)


def _stoppable(status: EvolutionStatus) -> bool:
    """Return whether a run can be stopped; a job on the Hub also before its first judgment."""
    return status.state == "running" or (status.state == "starting" and status.remote is not None)


def _item(items: list[Item], key: str) -> Item | None:
    return next((item for item in items if item.key == key), None)

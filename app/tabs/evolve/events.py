"""What happens on the Evolve tab: from clicks and ticks to services, and from records to what is shown."""

from collections.abc import Callable
from typing import Any

import gradio as gr

from app import evolve_charts, evolve_views, example_views, proposal_views
from app.evolve_services import Expected
from app.following import MOVING, Sight
from app.new_run import Keys
from app.proposal_views import Item
from app.services import AppServices
from app.tabs.evolve import labels as labels_part
from app.tabs.evolve import panel as panel_part
from app.tabs.evolve import runs as runs_part
from app.tabs.evolve import versions as versions_part
from app.tabs.evolve.form import RunForm
from app.tabs.evolve.labels import ABOUT, RIGHT
from app.tabs.evolve.runs import Runs
from app.tabs.evolve.view import RunView
from app.tabs.guard import explain
from app.tabs.parts import Updates
from rewardharness.errors import InputError
from rewardharness.evolution.events import Proposed
from rewardharness.library.diff import diff_libraries

DID = "what the judge said before and after the edit"
"""What stands beside the pictures of an example of an edit."""


class EvolveEvents:
    """Answers to what a visitor does. Holds nothing of any visitor.

    Args:
        services: The services.
        form: The form of a new run.
        runs: The list of runs.
        view: The parts that show a run.
    """

    def __init__(self, services: AppServices, form: RunForm, runs: Runs, view: RunView) -> None:
        self._services = services
        self.form, self.runs, self.view = form, runs, view

    @property
    def outputs(self) -> list[Any]:
        """All that events may change."""
        form = self.form
        own = [form.section, form.told, form.start, form.promised, form.key, *(form.judge.parts if form.judge else [])]
        return [*own, *self.runs.parts, *self.view.parts]

    def counting(self) -> Updates:
        """A sign that the cost is worked out."""
        form = self.form
        return {form.told: evolve_views.counting(), form.start: gr.Button(visible=False), form.promised: None}

    def expect(self, *values: Any) -> Updates:
        """Say what a run would cost, and offer to start it."""
        form = self.form
        try:
            found = self._services.evolve.expect(form.read(self._services, values))
        except Exception as error:  # Whatever goes wrong, the page must say so and stay usable.
            return {form.told: explain(error), form.promised: None, **form.put_away(values)}
        return {
            form.told: evolve_views.expected(found.told),
            form.start: gr.Button(f"Start: about {found.told['expected']['expected']:,} judgments", visible=True),
            form.promised: found,
            **form.put_away(values),
        }

    def start(self, promised: Expected | None) -> Updates:
        """Begin the run whose cost was shown."""
        form = self.form
        try:
            if promised is None:
                raise InputError("It is not known any more what was to start.", next_step="See what it costs first.")
            name = self._services.evolve.start(promised)
        except Exception as error:
            return {form.told: explain(error)}
        done = {form.told: evolve_views.cost_hint(), form.start: gr.Button(visible=False), form.promised: None}
        return {**done, form.key: "", **self.open(name)}

    def arrive(self, request: gr.Request) -> Updates:
        """The page was opened: show the run that the address names."""
        named = str(dict(request.query_params).get("run", ""))[:120].strip()
        return {**self._listed(""), **(self.open(named) if named else {})}

    def remember(self, remembered: str | None, current: str) -> Updates:
        """The browser told which run it showed last: show it, if none is shown yet."""
        if current or not isinstance(remembered, str) or not remembered:
            return {self.view.told: gr.skip()}
        shown = self.open(remembered)
        if self.view.current not in shown:
            return {self.view.browser: ""}  # the run is gone; that is no news to whoever comes back
        return shown

    def open(self, name: str | None) -> Updates:
        """Show a run."""
        view = self.view
        if not name:
            return {view.told: ""}
        try:
            sight = self._services.evolve.look(name)
            fresh: Updates = {
                view.current: name,
                view.browser: name,
                view.chosen: "",
                view.told: "",
                view.area: gr.Column(visible=True),
                self.form.section: gr.Accordion(open=False),
                **self._no_edit(sight),
                **self._no_label(),
                view.labels.told: "",
            }
            return {**fresh, **self._shown(sight, None, ""), **self._listed(name)}
        except Exception as error:
            return {view.told: explain(error)}

    def tick(self, name: str, known: tuple[Any, ...] | None, chosen: str) -> Updates:
        """Show what is new in the run that is shown."""
        view = self.view
        if not name:
            return {view.timer: gr.Timer(active=False)}
        try:
            sight = self._services.evolve.look(name)
            return {view.known: gr.skip()} if sight.mark == known else self._shown(sight, known, chosen)
        except Exception as error:
            return {view.told: explain(error), view.timer: gr.Timer(active=False)}

    def stop(self, name: str) -> Updates:
        """Ask the run that is shown to end."""
        return self._acted(lambda: self._services.evolve.stop(name))

    def resume(self, name: str, judge_key: str, other_key: str) -> Updates:
        """Go on with the run that is shown."""
        keys = Keys(judge_key or "", other_key or "")
        emptied = {self.view.judge_key: "", self.view.other_key: ""}
        return {**self._acted(lambda: self._services.evolve.resume(name, keys)), **emptied}

    def _acted(self, act: Callable[[], Sight]) -> Updates:
        try:
            sight = act()
        except Exception as error:
            return {self.view.told: explain(error)}
        return {self.view.told: "", **self._moves(sight), self.view.timer: gr.Timer(active=True)}

    def _shown(self, sight: Sight, known: tuple[Any, ...] | None, chosen: str) -> Updates:
        """What changes on the page when a run stands as it does now.

        Args:
            sight: The run.
            known: `Sight.mark` of what the page shows; None when it shows nothing of it.
            chosen: Key of the edit that is shown.
        """
        _, state, *before = known or ("", None, -1, "", -1)
        moved, happened = sight.state != state, list(sight.mark[2:4]) != before[:2]
        updates: Updates = {self.view.known: sight.mark, self.view.standing: evolve_views.standing(sight)}
        if moved:
            updates |= self._moves(sight)
        if moved or happened:
            updates |= self._happened(sight, chosen, anew=known is None)
        if moved and known is not None:
            updates |= self._listed(sight.name)
        return updates

    def _moves(self, sight: Sight) -> Updates:
        """What may be done with a run, by its state."""
        view, services = self.view, self._services.evolve
        rests = sight.state in {"stopped", "paused", "interrupted"} and services.goes_on(sight.name)
        judge, orchestrator = services.models(sight.name) if rests else ("", "")
        command = services.command(sight.name) if self._services.local else ""
        report = services.report(sight.name) if sight.state == "finished" else None
        place = str(sight.folder / "library") if self._services.local else ""
        page = services.report_file(sight.name) if report is not None else None
        return {
            view.standing: evolve_views.standing(sight),
            view.stop: gr.Button(visible=sight.state == "running"),
            view.resume: gr.Button(visible=rests),
            view.keys: gr.Row(visible=bool(judge or orchestrator)),
            view.judge_key: gr.Textbox(visible=bool(judge)),
            view.other_key: gr.Textbox(visible=bool(orchestrator)),
            view.timer: gr.Timer(active=sight.state in MOVING),
            view.about: evolve_views.about(sight, command, services.log(sight.name)),
            view.report: evolve_views.report(report, place),
            view.download: gr.DownloadButton(value=page, visible=page is not None),
        }

    def _happened(self, sight: Sight, chosen: str, *, anew: bool) -> Updates:
        """What changes when something has come to pass."""
        view, services = self.view, self._services.evolve
        items = proposal_views.items(sight)
        points = evolve_charts.points(sight)
        report = services.report(sight.name) if sight.state == "finished" else None
        updates: Updates = {
            view.edits.choices: gr.Radio(proposal_views.choices(items), label=f"Edits, newest first ({len(items)})"),
            view.accuracy: evolve_charts.accuracy(points, report["audit"] if report else None),
            view.judgments: evolve_charts.judgments(points),
            view.findings: evolve_views.findings(sight),
            **versions_part.listed(view.versions, services.versions(sight.name), anew=anew),
            **self._queue(sight.name, anew=anew),
        }
        if anew:
            updates[view.edits.choices] = gr.Radio(proposal_views.choices(items), value=None)
        item = _item(items, chosen)
        if item is None:
            updates[view.edits.head] = proposal_views.no_item(sight)
        if item is not None and item.decided == sight.events[-1]:
            updates |= self._edit(sight.name, item)  # it had been waiting
        return updates

    def _queue(self, name: str, *, anew: bool) -> Updates:
        """The labels to check."""
        part = self.view.labels
        found = self._services.evolve.puzzles(name)
        choices = example_views.queue_choices(found.left)
        words = example_views.queue(len(found.left), found.seen, local=self._services.local)
        shown: dict[str, Any] = {"visible": bool(choices), **({"value": None} if anew else {})}
        return {
            part.queue: words if choices else example_views.empty_queue(found.seen),
            part.choices: gr.Radio(choices, **shown),
        }

    def choose_edit(self, name: str, key: str | None) -> Updates:
        """Show an edit."""
        try:
            item = _item(proposal_views.items(self._services.evolve.look(name)), key or "")
            if item is None:
                return {self.view.told: ""}
            return {self.view.chosen: item.key, **self._edit(name, item)}
        except Exception as error:
            return {self.view.edits.head: explain(error)}

    def _edit(self, name: str, item: Item) -> Updates:
        view = self.view
        try:
            if isinstance(item.event, Proposed):
                change = proposal_views.foreseen(item.event)
            else:
                change = proposal_views.change(diff_libraries(*self._services.evolve.difference(name, item.event)))
        except Exception as error:
            change = explain(error)
        examples = proposal_views.example_choices(item)
        words = example_views.no_example(DID) if examples else example_views.no_examples()
        return {
            view.edits.head: proposal_views.head(item),
            view.edits.change_part: gr.Accordion(visible=True),
            view.edits.change: change,
            view.edits.example_part: gr.Accordion(visible=item.decided is not None),
            view.edits.examples: gr.Radio(examples, value=None, visible=bool(examples)),
            **panel_part.empty(view.edits.panel, words),
        }

    def _no_edit(self, sight: Sight) -> Updates:
        view = self.view
        return {
            view.edits.head: proposal_views.no_item(sight),
            view.edits.change_part: gr.Accordion(visible=False),
            view.edits.example_part: gr.Accordion(visible=False),
        }

    def choose_example(self, name: str, key: str, example: str | None) -> Updates:
        """Show what the chosen edit did to an example."""
        panel = self.view.edits.panel
        try:
            item = _item(proposal_views.items(self._services.evolve.look(name)), key)
            if item is None or item.decided is None or example is None:
                return panel_part.empty(panel, example_views.no_example(DID))
            return panel_part.fill(self._services, panel, self._services.evolve.case(name, item.decided, example))
        except Exception as error:
            return panel_part.empty(panel, explain(error))

    def choose_label(self, name: str, example: str | None) -> Updates:
        """Show an example of the queue."""
        part = self.view.labels
        try:
            if example is None:
                return self._no_label()
            case = self._services.evolve.puzzle(name, example)
            offered = labels_part.offered(part, self._services, len(case.example.candidates), case.example.preference)
            return {**panel_part.fill(self._services, part.panel, case), **offered, part.told: ""}
        except Exception as error:
            return {**panel_part.empty(part.panel, explain(error)), part.row: gr.Row(visible=False)}

    def _no_label(self) -> Updates:
        part = self.view.labels
        hidden = panel_part.empty(part.panel, example_views.no_example(ABOUT))
        return {**hidden, part.row: gr.Row(visible=False)}

    def correcting(self, preference: str) -> Callable[[str, str | None], Updates]:
        """Make the answer to a button of the queue.

        Args:
            preference: A letter, `tie`, or `RIGHT` for the label as it is.
        """

        def correct(name: str, example: str | None) -> Updates:
            part, services = self.view.labels, self._services.evolve
            try:
                if example is None:
                    raise InputError("No example is chosen.", next_step="Choose one in the queue.")
                right = preference == RIGHT
                file = services.correct(name, example, None if right else preference)
                said = evolve_views.corrected(file, changed=not right)
                return {**self._no_label(), **self._queue(name, anew=True), part.told: said}
            except Exception as error:
                return {part.told: explain(error)}

        return correct

    def list_runs(self, current: str) -> Updates:
        """Look for runs again."""
        return self._listed(current)

    def _listed(self, current: str) -> Updates:
        try:
            return runs_part.listed(self.runs, self._services.evolve.runs(), current)
        except Exception as error:
            return {self.runs.compared: explain(error)}

    def compare(self, names: list[str] | None) -> Updates:
        """Put finished runs side by side."""
        try:
            if not names or len(names) < 2:
                raise InputError("Two runs are needed.", next_step="Choose two or more that are finished.")
            rows, comparable = self._services.evolve.compare(names)
            return {self.runs.compared: evolve_views.compared(rows, comparable=comparable)}
        except Exception as error:
            return {self.runs.compared: explain(error)}


def _item(items: list[Item], key: str) -> Item | None:
    return next((each for each in items if each.key == key), None)

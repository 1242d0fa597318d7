"""Widgets that show an evolution, with what they do: its edits, the labels to check, and its versions."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import gradio as gr

from app.evolve import proposal_views, views
from app.evolve.form import RunForm
from app.evolve.proposal_views import EditItem
from app.evolve.runs import EvolutionStatus
from app.failures import explaining, explaining_at
from app.library.chooser import Chooser
from app.library.libraries import Order
from app.library.publish import draw_publishing
from app.run_panel.events import Known, RunEvents
from app.run_panel.page import RunPanel
from app.services import AppServices
from app.viewer import example_views
from app.viewer.example_views import ExamplePanel
from app.widgets import QUIET, Updates, Widgets, button, choices, markup, section, state
from rewardharness.errors import HarnessError, InputError
from rewardharness.evolution.checkpoint import CHAMPION
from rewardharness.evolution.events import Decided, Proposed
from rewardharness.evolution.report import EvolutionReport
from rewardharness.library.diff import diff_libraries
from rewardharness.library.hub import PushOptions
from rewardharness.schema import LABELS, TIE

RIGHT = "right"
"""Choice that the given label is correct."""

ABOUT_LABEL = "the prediction with the latest Library"
ABOUT_EDIT = "the predictions before and after the edit"
"""What is shown with the images of an example of the queue, and of an example of an edit."""

TO_EDIT = """() => {
  const shown = document.querySelector('#evolve-edit');
  if (shown && innerWidth < 760) shown.scrollIntoView({behavior: 'smooth', block: 'start'});
}"""
"""Scrolls to the chosen edit if it is below the list."""

VERSIONS = "versions"
"""Id of the tab with the versions."""

TO_FORM = "() => document.querySelector('#evolve-publish-about').scrollIntoView({behavior: 'smooth', block: 'start'})"
"""Scrolls to the form that publishes a version."""

CASES: dict[str, Any] = {"concurrency_limit": 4, "concurrency_id": "cases", **QUIET}
"""Options of events that show an example."""


class Story(Widgets):
    """What a run does now, or what it has shown at its end, in words and small pictures of examples."""

    def __init__(self, services: AppServices) -> None:
        self._evolve = services.evolve
        with gr.Column(elem_id="evolve-story"):
            self.words = markup(elem_id="evolve-now")
            self.pictures = gr.Gallery(
                label="Examples", show_label=False, columns=2, height="auto", object_fit="contain", format="jpeg",
                interactive=False, visible=False, elem_id="evolve-thumbnails", elem_classes="case-pictures", buttons=[],
            )  # fmt: skip

    def show(self, status: EvolutionStatus, report: EvolutionReport | None, *, pictures: bool) -> Updates:
        """Show the current proposal and the examples of the latest one; at the end, the held-out examples.

        Args:
            status: The run.
            report: Its report; None before the end.
            pictures: Whether the examples may have changed.
        """
        updates: Updates = {self.words: proposal_views.story(status, report)}
        if not pictures:
            return updates
        try:
            thumbnails = self._evolve.thumbnails(status.name)
        except HarnessError:  # the data were removed, for example
            thumbnails = []
        tiles = [(image, proposal_views.caption(instruction, right)) for image, instruction, right in thumbnails]
        return updates | {self.pictures: gr.Gallery(tiles, visible=bool(tiles), selected_index=None)}


class Gain(Widgets):
    """What a finished run has changed in the Library, and what can be done with it."""

    def __init__(self, services: AppServices) -> None:
        self._evolve, local = services.evolve, services.local
        with gr.Column(visible=False, elem_id="evolve-gain") as self.part:
            with gr.Row(elem_id="evolve-next"):
                score = local and services.fixed is None
                title = "Use this Library in Score"
                self.score = button(title, "evolve-to-score", variant="primary", visible=score)
                self.publish = button("Publish", "evolve-to-publish", visible=services.hub.may_publish)
                self.benchmark = button("Compare on a benchmark", "evolve-to-benchmark", visible=local)
            with section("What changed in the Library"):
                self.change = markup(elem_id="evolve-changed")

    @explaining_at("change")
    def show(self, name: str, report: EvolutionReport | None) -> Updates:
        """Show what the result changes; nothing before the end, and if it is the starting Library."""
        gained = report is not None and report.library.final_id != report.library.start_id
        updates: Updates = {self.part: gr.Column(visible=gained)}
        if gained:
            versions = [self._evolve.library(name, number) for number in (0, self._evolve.versions(name)[-1].number)]
            updates[self.change] = proposal_views.change(diff_libraries(*versions))
        return updates

    def connect(
        self, panel: RunPanel, view: "RunView", tabs: gr.Tabs, score: Chooser | None, benchmark: Chooser | None
    ) -> None:
        """Connect the buttons with the tabs that they lead to."""

        def use(tab: str, chooser: Chooser, name: str) -> Updates:
            return {tabs: gr.Tabs(selected=tab), **chooser.point_to(str(self._evolve.look(name).folder / CHAMPION))}

        for tab, start, chooser in (("score", self.score, score), ("benchmark", self.benchmark, benchmark)):
            if chooser is not None:
                start.click(partial(use, tab, chooser), panel.current, [tabs, *chooser.parts], **QUIET)

        def publish(name: str) -> Updates:
            number = self._evolve.versions(name)[-1].number
            chosen = {view.versions.choices: gr.Radio(value=number), **view.versions.choose(name, number)}
            return {view.tabs: gr.Tabs(selected=VERSIONS), **chosen}

        publishing = self.publish.click(publish, panel.current, [view.tabs, *view.versions.parts], **QUIET)
        publishing.then(None, None, None, js=TO_FORM, **QUIET)


class Edits(Widgets):
    """The proposed edits: the list, and the details of one next to it."""

    def __init__(self, services: AppServices) -> None:
        self._evolve = services.evolve
        self.chosen = state("")  # key of the shown edit; empty for none
        with gr.Row(equal_height=False):
            with gr.Column(scale=5, min_width=300):
                self.choices = choices("Edits, newest first", "evolve-edits")
            with gr.Column(scale=8, min_width=300, elem_id="evolve-edit"):
                self.head = markup(proposal_views.no_item(), elem_id="evolve-edit-head")
                with section("Change of the Library", open=True, visible=False) as self.change_part:
                    self.change = markup(elem_id="evolve-change")
                with section("Effect on examples", open=True, visible=False) as self.example_part:
                    self.examples = gr.Radio([], label="Examples", elem_id="evolve-examples")
                    self.panel = ExamplePanel(services.results, "evolve-case", 2)

    def _item(self, name: str, key: str | None) -> EditItem | None:
        return proposal_views.find(proposal_views.items(self._evolve.look(name)), key or "")

    @explaining_at("head")
    def choose(self, name: str, key: str | None) -> Updates:
        """Show an edit."""
        item = self._item(name, key)
        return {self.chosen: gr.skip()} if item is None else {self.chosen: item.key, **self.show(name, item)}

    def show(self, name: str, item: EditItem) -> Updates:
        """Show what an edit changes, and the examples that it is about."""
        examples = proposal_views.example_choices(item)
        return {
            self.head: proposal_views.head(item),
            self.change_part: gr.Accordion(visible=True),
            self.change: self._change(name, item),
            self.example_part: gr.Accordion(visible=item.decided is not None),
            self.examples: gr.Radio(examples, value=None, visible=bool(examples)),
            **self.panel.empty(example_views.no_example(ABOUT_EDIT) if examples else example_views.NO_EXAMPLES),
        }

    @explaining
    def _change(self, name: str, item: EditItem) -> str:
        if isinstance(item.event, Proposed):
            return proposal_views.foreseen(item.event)
        return proposal_views.change(diff_libraries(*self._evolve.difference(name, item.event)))

    @explaining_at("panel")
    def choose_example(self, name: str, key: str, example: str | None) -> Updates:
        """Show what the chosen edit changed for an example."""
        item = self._item(name, key)
        if item is None or item.decided is None or example is None:
            return self.panel.empty(example_views.no_example(ABOUT_EDIT))
        return self.panel.show(example_views.opened(self._evolve.case(name, item.decided, example)))

    def connect(self, current: gr.State) -> None:
        """Connect the widgets. `current`: name of the shown run."""
        chosen = self.choices.input(self.choose, [current, self.choices], self.parts, **QUIET)
        chosen.then(None, None, None, js=TO_EDIT, **QUIET)
        self.examples.input(self.choose_example, [current, self.chosen, self.examples], self.parts, **CASES)


class Labels(Widgets):
    """The labels to check: examples that were judged wrong with every Library."""

    def __init__(self, services: AppServices) -> None:
        self._evolve, self._local = services.evolve, services.local
        self.queue = markup(example_views.empty_queue(0), elem_id="evolve-queue")
        with gr.Row(equal_height=False):
            with gr.Column(scale=4, min_width=260):
                self.choices = choices("Examples", "evolve-queued", visible=False)
            with gr.Column(scale=9, min_width=300):
                self.panel = ExamplePanel(services.results, "evolve-puzzle", 1)
                with gr.Row(visible=False, elem_id="evolve-relabel") as self.row:
                    titles = {RIGHT: "The label is correct", **{label: f"{label} is better" for label in LABELS}}
                    titles[TIE] = "It is a tie"
                    ids = {label: f"evolve-label-{label}" for label in titles}
                    self.buttons = {label: button(title, ids[label], min_width=110) for label, title in titles.items()}
                self.message = markup(elem_id="evolve-relabelled")

    def list(self, name: str, *, new: bool) -> Updates:
        """Show the queue of a run. `new`: no example is chosen any more."""
        queue = self._evolve.label_queue(name)
        offered = example_views.queue_choices(queue.left)
        text = example_views.queue(len(queue.left), queue.reviewed, local=self._local)
        return {
            self.queue: text if offered else example_views.empty_queue(queue.reviewed),
            self.choices: gr.Radio(offered, visible=bool(offered), **({"value": None} if new else {})),
        }

    def empty(self) -> Updates:
        """Show no example."""
        return {**self.panel.empty(example_views.no_example(ABOUT_LABEL)), self.row: gr.Row(visible=False)}

    def choose(self, name: str, example: str | None) -> Updates:
        """Show an example of the queue, and its other labels."""
        hidden: Updates = {self.row: gr.Row(visible=False)}
        return hidden | (self.empty() if example is None else self._chosen(name, example))

    @explaining_at("panel")
    def _chosen(self, name: str, example: str) -> Updates:
        case = self._evolve.queued_case(name, example)
        letters, preference = case.example.labels, case.example.preference
        wanted = {RIGHT, *letters, *([TIE] if len(letters) == 2 else [])} - {preference}
        return {
            **self.panel.show(example_views.opened(case)),
            self.row: gr.Row(visible=self._local),
            **{widget: gr.Button(visible=label in wanted) for label, widget in self.buttons.items()},
            self.message: "",
        }

    @explaining_at("message")
    def correct(self, preference: str, name: str, example: str | None) -> Updates:
        """Store a reviewed label: a letter, `tie`, or `RIGHT` for the given one."""
        if example is None:
            raise InputError("No example is chosen.", next_step="Choose one in the queue.")
        changed = preference != RIGHT
        file = self._evolve.correct(name, example, preference if changed else None)
        return {**self.empty(), **self.list(name, new=True), self.message: views.corrected(file, changed=changed)}

    def connect(self, current: gr.State) -> None:
        """Connect the widgets. `current`: name of the shown run."""
        self.choices.input(self.choose, [current, self.choices], self.parts, **CASES)
        for label, widget in self.buttons.items():
            widget.click(partial(self.correct, label), [current, self.choices], self.parts, **CASES)


class Versions(Widgets):
    """The versions of a run: how to use one, and how to publish it on the Hub."""

    def __init__(self, services: AppServices, current: gr.State) -> None:
        self._evolve, self._local = services.evolve, services.local
        self.nothing = markup(views.NO_VERSIONS, elem_id="evolve-no-versions")
        self.choices = choices("Version", "evolve-versions", visible=False)
        self.use = markup(elem_id="evolve-use")
        with gr.Column(visible=False) as self.publish:
            markup(views.PUBLISHING, elem_id="evolve-publish-about")
            inputs, changes = [current, self.choices], [self.choices.input]
            form = draw_publishing(services, "evolve-publish", self._order, inputs, changes)
        self.bump = (form.bump,) if form is not None else ()
        changed = [self.use, self.publish, *self.bump]
        self.choices.input(self.choose, [current, self.choices], changed, **QUIET)

    def _order(self, repo: str, options: PushOptions, name: str, number: int | None) -> Order:
        if not name or number is None:
            raise InputError("No version is chosen.", next_step="Choose one in the list above.")
        return self._evolve.order(name, int(number), repo, options)

    def list(self, name: str, *, new: bool) -> Updates:
        """Show the versions of a run. `new`: whether another run is shown now, so that no version is chosen."""
        offered = proposal_views.version_choices(self._evolve.versions(name))
        updates: Updates = {self.use: "", self.publish: gr.Column(visible=False)} if new else {}
        return updates | {
            self.nothing: gr.Markdown(visible=not offered),
            self.choices: gr.Radio(offered, visible=bool(offered), **({"value": None} if new else {})),
        }

    def choose(self, name: str, number: int | None) -> Updates:
        """Show a version, and how it can be used."""
        hidden: Updates = {self.use: "", self.publish: gr.Column(visible=False)}
        return hidden | ({} if number is None else self._chosen(name, number))

    @explaining_at("use")
    def _chosen(self, name: str, number: int) -> Updates:
        version = next(item for item in self._evolve.versions(name) if item.number == number)
        places = [str(self._evolve.place(name, index)) if self._local else "" for index in (number, number - 1)]
        library, report = self._evolve.library(name, number), self._evolve.report(name)
        audited = report is not None and report.library.final_id == library.id
        audit = report.audit.final if report is not None and audited else None
        text = views.version(version, library, audit, places[0], places[1] if number else "")
        bumped = {field: gr.Dropdown(value=self._evolve.bump(name, number)) for field in self.bump}
        return {self.use: text, self.publish: gr.Column(visible=True), **bumped}


class RunView(Widgets):
    """The widgets, drawn in the details of the panel and below its list."""

    def __init__(self, services: AppServices, panel: RunPanel) -> None:
        with panel.area:
            self._draw_details(services, panel.current)

    def _draw_details(self, services: AppServices, current: gr.State) -> None:
        self.gain = Gain(services)
        with gr.Row(equal_height=False, elem_id="evolve-charts"):
            # HTML, because Markdown removes what the SVG needs to be scaled. It contains no foreign text.
            self.accuracy = gr.HTML(elem_id="evolve-accuracy", js_on_load=None)
            self.story = Story(services)
        with section("Configuration"):
            self.about = markup(elem_id="evolve-about")
        with gr.Tabs(elem_id="evolve-tabs") as self.tabs:
            with gr.Tab("Edits"):
                self.edits = Edits(services)
            with gr.Tab("Findings"):
                self.findings = markup(elem_id="evolve-findings")
            with gr.Tab("Labels to check"):
                self.labels = Labels(services)
            with gr.Tab("Versions", id=VERSIONS):
                self.versions = Versions(services, current)
            with gr.Tab("Report"):
                self.report = markup(views.report(None), elem_id="evolve-report")
                self.download = gr.DownloadButton(
                    "Download the report (HTML)", visible=False, elem_id="evolve-download", size="md", scale=0,
                    min_width=240,
                )  # fmt: skip


class EvolveEvents(RunEvents[EvolutionStatus, RunView]):
    """Handlers of the Evolve tab. Holds nothing of any visitor."""

    name, parameter = "evolve", "run"
    texts = views

    @property
    def tick_inputs(self) -> Sequence[Any]:
        """See `RunEvents.tick_inputs`."""
        return [self.view.edits.chosen]

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
        items = proposal_views.items(status)
        later = status.events[0 if known is None else int(str(known[0][2])) :]
        moved = new or status.state == "finished" or any(isinstance(event, Decided) for event in later)
        report = self.services.evolve.report(name) if status.state == "finished" else None
        label, selected = f"Edits, newest first ({len(items)})", {"value": None} if new else {}
        updates: Updates = {
            edits.choices: gr.Radio(proposal_views.choices(items), label=label, **selected),
            view.accuracy: proposal_views.accuracy(status),
            **view.story.show(status, report, pictures=moved),
            **view.gain.show(name, report),
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

    def connect(self) -> None:
        """See `RunEvents.connect`."""
        super().connect()
        self.view.edits.connect(self.panel.current)
        self.view.labels.connect(self.panel.current)


def build_evolve_tab(services: AppServices) -> tuple[RunForm, RunPanel, RunView]:
    """Draw the tab and connect its widgets. `Gain.connect` connects them with other tabs."""
    markup(views.introduction(local=services.local), elem_id="evolve-introduction")
    form, panel = RunForm(services), RunPanel(services, "evolve")
    view = RunView(services, panel)
    EvolveEvents(services, services.evolve, form, panel, view).connect()
    return form, panel, view

"""Widgets of the run panel: the preview and start buttons of a form, the list of runs, and the status of one run."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import gradio as gr

from app.library.chooser import Chooser
from app.library.libraries import ANONYMOUS, BUILTIN, Choice, Visitor
from app.run_panel import views
from app.run_panel.new_jobs import NewJob
from app.score.judge_form import JudgeForm, connect_judge
from app.score.judges import BY_MEASURING
from app.services import AppServices
from app.widgets import QUIET, Updates, Widgets, button, choices, markup, secret, section, state

TICK = 1.0
"""Seconds between two updates of a run."""


class Start(Widgets):
    """Preview and start of a new run. `name`: prefix of the element ids."""

    def __init__(self, name: str) -> None:
        with gr.Row(elem_id=f"{name}-actions"):
            self.preview = button("Preview run", f"{name}-see", min_width=180)
            self.start = button("Start", f"{name}-start", variant="primary", visible=False, min_width=180)
        self.cost = markup(views.PREVIEW_HINT, elem_id=f"{name}-cost")
        self.prepared = state()  # the previewed run; None if there is none

    def without_preview(self) -> Updates:
        """Remove the preview."""
        return {self.cost: views.PREVIEW_HINT, self.start: gr.Button(visible=False), self.prepared: None}


class JobForm(ABC):
    """The form of a new run. Subclasses draw it and set the attributes."""

    section: gr.Accordion
    fields: Mapping[str, Any]
    """The inputs of the job type by name; where a name is that of an option, it holds its value."""
    chooser: Chooser
    judge: JudgeForm | None = None
    """None for visitors."""
    start: Start
    secrets: tuple[Any, ...] = ()
    """Inputs of the job type that are cleared when a run starts."""

    @abstractmethod
    def make(self, values: Mapping[str, Any], visitor: Visitor) -> NewJob:
        """Make the job that the fields describe; `read` adds Library and judge if it names no release.

        Args:
            values: The values of `fields`.
            visitor: Who fills it in.

        Raises:
            InputError: If a value is missing or out of range.
        """

    def read(self, services: AppServices, values: Sequence[Any], visitor: Visitor = ANONYMOUS) -> NewJob:
        """Read the job that the form describes.

        Args:
            services: The services.
            values: The values of `inputs`.
            visitor: Who fills it in.

        Raises:
            InputError: If a value is missing or out of range.
        """
        own, library = len(self.fields), len(self.fields) + len(self.chooser.inputs)
        job = self.make(dict(zip(self.fields, values, strict=False)), visitor)
        if getattr(job.config, "release", None) is not None:
            return job
        chosen = services.libraries.spelled(Choice(*values[own:library]))
        chosen = job.config.library or chosen if chosen == BUILTIN else chosen
        config = replace(job.config, library=chosen)
        judge = self.judge.read(values[library:]) if self.judge is not None else BY_MEASURING
        return replace(job, config=config, judge=judge)

    @property
    def inputs(self) -> list[Any]:
        """All inputs: those of the job type, the Library, the judge."""
        return [*self.fields.values(), *self.chooser.inputs, *(self.judge.inputs if self.judge else [])]

    def put_away(self, values: Sequence[Any]) -> Updates:
        """Remove the key of the judge from the page, as on the Score tab."""
        return self.judge.put_away(values[len(values) - len(self.judge.inputs) :]) if self.judge else {}

    def connect(self, services: AppServices) -> None:
        """Remove the preview when the form changes."""

        def outdated(prepared: object) -> Updates:
            return {self.start.prepared: None} if prepared is None else self.start.without_preview()

        start = self.start
        changes = [
            widget.change if isinstance(widget, gr.File) else widget.input
            for widget in self.inputs
            if not isinstance(widget, gr.State)
        ]
        gr.on(changes, outdated, start.prepared, [start.cost, start.start, start.prepared], queue=False, **QUIET)
        if self.judge is not None:
            connect_judge(services, self.judge)


class RunPanel(Widgets):
    """The list of runs, the status of one, and `area` for the details of a job type.

    Args:
        services: The services.
        name: Prefix of the element ids.
    """

    def __init__(self, services: AppServices, name: str) -> None:
        local = services.local
        with section("Earlier runs", elem_id=f"{name}-runs") as self.section:  # a tab may add widgets below
            self.nothing = markup(views.no_runs(name, local=local), elem_id=f"{name}-no-runs")
            self.choices = choices("Open a run", f"{name}-list", visible=False)
            self.refresh = button("Refresh", f"{name}-refresh", min_width=140)
        self.current = state("")  # name of the shown run; empty for none
        self.known = state()  # status that the page shows: `FollowedRun.mark`, and what a tab adds
        stored = f"rewardharness-{name}-runs"  # not secret, so neither is the key that it is encrypted with
        # Names of the runs that this browser has shown, the latest first.
        self.browser = gr.BrowserState([], storage_key=stored, secret=stored)
        self.timer = gr.Timer(TICK, active=False)
        with gr.Column(elem_id=f"{name}-run"):
            self.status = markup(views.no_run(local=local), elem_id=f"{name}-standing")
            with gr.Row(elem_id=f"{name}-run-actions"):
                self.stop = button("Stop", f"{name}-stop", variant="stop", visible=False)
                self.resume = button("Resume", f"{name}-resume", variant="primary", visible=False)
            # Whether data may go to what only the run folder names.
            self.confirmed = gr.Checkbox(False, label=views.sends([]), visible=False, elem_id=f"{name}-confirmed")
            with gr.Row(visible=False) as self.keys:
                info = "If it needs one. Keys are not stored with a run."
                self.judge_key = secret("Key of the judge", f"{name}-resume-key", info, min_width=240)
                self.orchestrator_key = secret(
                    "Key of the Orchestrator", f"{name}-resume-other-key", info, min_width=240
                )
            self.message = markup(elem_id=f"{name}-told")
            self.area = gr.Column(visible=False)

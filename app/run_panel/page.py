"""Widgets of the run panel: the preview and start buttons of a form, the list of runs, and the status of one run."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import gradio as gr

from app.new_jobs import NewJob
from app.run_panel import views
from app.services import AppServices
from app.tabs.chooser import Chooser
from app.tabs.parts import KEPT, QUIET, Updates, Widgets, markup
from app.tabs.score.judge import JudgeForm, connect_judge

TICK = 1.0
"""Seconds between two updates of a run."""


KEYS = (("judge", "key"), ("Orchestrator", "other-key"))
"""Models that may need a key to resume, and the suffix of the element id."""


@dataclass(frozen=True)
class StartPart:
    """Preview and start of a new run."""

    preview: gr.Button
    cost: gr.Markdown
    start: gr.Button
    prepared: gr.State
    """The previewed run; None if there is none."""

    def without_preview(self) -> Updates:
        """Remove the preview."""
        return {self.cost: views.preview_hint(), self.start: gr.Button(visible=False), self.prepared: None}


def draw_start(name: str) -> StartPart:
    """Draw the buttons below a form. `name`: prefix of the element ids."""
    with gr.Row(elem_id=f"{name}-actions"):
        preview = gr.Button("Preview run", elem_id=f"{name}-see", size="md", scale=0, min_width=180)
        start = gr.Button(
            "Start", variant="primary", visible=False, elem_id=f"{name}-start", size="md", scale=0, min_width=180
        )
    cost = markup(views.preview_hint(), elem_id=f"{name}-cost")
    return StartPart(preview, cost, start, gr.State(None, time_to_live=KEPT))


@dataclass(frozen=True)
class JobForm(ABC):
    """The form of a new run. Subclasses add the widgets of a job type."""

    section: gr.Accordion
    chooser: Chooser
    judge: JudgeForm | None
    """None for visitors."""
    start: StartPart

    @property
    @abstractmethod
    def own(self) -> list[Any]:
        """The inputs of the job type."""

    @abstractmethod
    def read(self, services: AppServices, values: Sequence[Any]) -> NewJob:
        """Read the job that the form describes.

        Args:
            services: The services.
            values: The values of `inputs`.

        Raises:
            InputError: If a value is missing or out of range.
        """

    @property
    def secrets(self) -> list[Any]:
        """Inputs of the job type that are cleared when a run starts."""
        return []

    @property
    def inputs(self) -> list[Any]:
        """All inputs: those of the job type, the Library, the judge."""
        return [*self.own, *self.chooser.parts, *(self.judge.inputs if self.judge else [])]

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


@dataclass(frozen=True)
class RunPanel(Widgets):
    """Widgets of the list of runs and of the shown run."""

    section: gr.Accordion
    """The list; a tab may add widgets below it."""
    nothing: gr.Markdown
    choices: gr.Radio
    refresh: gr.Button
    current: gr.State
    """Name of the shown run; empty for none."""
    known: gr.State
    """Status that the page shows: `RunStatus.mark`, and what a tab adds."""
    browser: gr.BrowserState
    """Names of the runs that this browser has shown, the latest first."""
    timer: gr.Timer
    status: gr.Markdown
    stop: gr.Button
    resume: gr.Button
    keys: gr.Row
    judge_key: gr.Textbox
    orchestrator_key: gr.Textbox
    message: gr.Markdown
    area: gr.Column
    """The details of a job type."""


@contextmanager
def draw_runs(services: AppServices, name: str) -> Iterator[RunPanel]:
    """Draw the list of runs and the status of one; widgets that are drawn in the context are its details.

    Args:
        services: The services.
        name: Prefix of the element ids.
    """
    local = services.local
    with gr.Accordion("Earlier runs", open=False, elem_classes="slim", elem_id=f"{name}-runs") as section:
        nothing = markup(views.no_runs(name, local=local), elem_id=f"{name}-no-runs")
        choices = gr.Radio([], label="Open a run", visible=False, elem_id=f"{name}-list", elem_classes="choices")
        refresh = gr.Button("Refresh", size="md", scale=0, min_width=140, elem_id=f"{name}-refresh")
    current, known = gr.State("", time_to_live=KEPT), gr.State(None, time_to_live=KEPT)
    stored = f"rewardharness-{name}-runs"  # not secret, so neither is the key that it is encrypted with
    browser = gr.BrowserState([], storage_key=stored, secret=stored)
    timer = gr.Timer(TICK, active=False)
    with gr.Column(elem_id=f"{name}-run"):
        status = markup(views.no_run(local=local), elem_id=f"{name}-standing")
        with gr.Row(elem_id=f"{name}-run-actions"):
            stop = gr.Button("Stop", variant="stop", visible=False, elem_id=f"{name}-stop", size="md", scale=0)
            resume = gr.Button("Resume", variant="primary", visible=False, elem_id=f"{name}-resume", size="md", scale=0)
        with gr.Row(visible=False) as keys:
            judge_key, orchestrator_key = (_draw_key(who, f"{name}-resume-{part}") for who, part in KEYS)
        message = markup(elem_id=f"{name}-told")
        with gr.Column(visible=False) as area:
            yield RunPanel(
                section, nothing, choices, refresh, current, known, browser, timer, status, stop, resume, keys,
                judge_key, orchestrator_key, message, area,
            )  # fmt: skip


def _draw_key(model: str, name: str) -> gr.Textbox:
    return gr.Textbox(
        "",
        label=f"Key of the {model}",
        info="If it needs one. Keys are not stored with a run.",
        type="password",
        max_lines=1,
        max_length=500,
        min_width=240,
        elem_id=name,
        html_attributes=gr.InputHTMLAttributes(autocomplete="off", spellcheck=False),
    )

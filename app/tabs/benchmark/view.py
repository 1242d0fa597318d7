"""The parts that show a benchmark."""

from dataclasses import dataclass
from typing import Any

import gradio as gr

from app import benchmark_case_views, benchmark_views
from app.services import AppServices
from app.tabs.evolve.panel import Panel, draw_panel
from app.tabs.parts import KEPT, markup

TICK = 1.0
"""Seconds between two looks at a run that goes on."""

KEPT_IN_BROWSER = "rewardharness-benchmarks"
"""Name under which the browser remembers which runs were shown. It is no secret, so neither is what hides them."""


@dataclass(frozen=True)
class Standing:
    """How the shown run stands, and what may be done with it."""

    current: gr.State
    """Name of the run that is shown."""
    known: gr.State
    """What the page shows of it: `Progress.mark` and how much was counted."""
    browser: gr.BrowserState
    """Names of the runs that this browser has shown, the last first."""
    timer: gr.Timer
    said: gr.Markdown
    stop: gr.Button
    resume: gr.Button
    key: gr.Textbox
    told: gr.Markdown
    area: gr.Column
    row: gr.Dropdown
    """The row that kinds, confidence and questions are about."""


@dataclass(frozen=True)
class Numbers:
    """What came of the run."""

    summary: gr.Markdown
    table: gr.Markdown
    judging: gr.Markdown
    published: gr.Markdown
    download: gr.DownloadButton
    kinds: gr.Markdown
    margins: gr.Markdown
    curve: gr.HTML
    calibration: gr.Markdown
    about: gr.Markdown
    data: gr.Markdown


@dataclass(frozen=True)
class Questions:
    """Single questions, one after the other."""

    kind: gr.Dropdown
    part: gr.Dropdown
    category: gr.Dropdown
    number: gr.State
    """Which of them is shown, from 0."""
    position: gr.Markdown
    previous: gr.Button
    following: gr.Button
    panel: Panel


@dataclass(frozen=True)
class Comparing:
    """Two rows, question by question."""

    first: gr.Dropdown
    second: gr.Dropdown
    compare: gr.Button
    pair: gr.State
    """The two rows that are compared: name of a run and key of a row, each."""
    compared: gr.Markdown
    flips: gr.Radio
    panel: Panel


@dataclass(frozen=True)
class Runs:
    """The list of runs."""

    section: gr.Accordion
    nothing: gr.Markdown
    choices: gr.Radio
    refresh: gr.Button


@dataclass(frozen=True)
class BenchmarkView:
    """All of them."""

    runs: Runs
    standing: Standing
    numbers: Numbers
    questions: Questions
    comparing: Comparing

    @property
    def parts(self) -> list[Any]:
        """All parts, flat."""
        found: list[Any] = []
        for group in vars(self).values():
            for part in vars(group).values():
                found += part.parts if isinstance(part, Panel) else [part]
        return found


def draw_view(services: AppServices) -> BenchmarkView:
    """Draw the list of runs, and below it the run that is shown."""
    runs = _draw_runs(services)
    current, known = gr.State("", time_to_live=KEPT), gr.State(None, time_to_live=KEPT)
    browser = gr.BrowserState([], storage_key=KEPT_IN_BROWSER, secret=KEPT_IN_BROWSER)
    timer = gr.Timer(TICK, active=False)
    with gr.Column(elem_id="benchmark-run"):
        said = markup(benchmark_views.no_run(local=services.local), elem_id="benchmark-standing")
        with gr.Row(elem_id="benchmark-run-actions"):
            stop = gr.Button("Stop", variant="stop", visible=False, elem_id="benchmark-stop", size="md", scale=0)
            resume = gr.Button(
                "Go on", variant="primary", visible=False, elem_id="benchmark-resume", size="md", scale=0
            )
        key = gr.Textbox(
            "",
            label="Key of the judge",
            info="If it asks for one. Keys are not kept with a run.",
            type="password",
            max_lines=1,
            max_length=500,
            visible=False,
            elem_id="benchmark-resume-key",
            html_attributes=gr.InputHTMLAttributes(autocomplete="off", spellcheck=False),
        )
        told = markup(elem_id="benchmark-told")
        with gr.Column(visible=False) as area:
            row = gr.Dropdown(
                [],
                label="Look closer at",
                info="For kinds of edit, confidence and single questions.",
                visible=False,
                elem_id="benchmark-row",
            )
            with gr.Tabs(elem_id="benchmark-tabs"):
                with gr.Tab("Table"):
                    table = _draw_table()
                with gr.Tab("Questions"):
                    questions = _draw_questions()
                with gr.Tab("Compare"):
                    comparing = _draw_comparing()
                with gr.Tab("Kinds"):
                    kinds = markup(elem_id="benchmark-kinds")
                with gr.Tab("Confidence"):
                    confidence = _draw_confidence()
                with gr.Tab("About"):
                    about = markup(elem_id="benchmark-about")
                    data = markup(elem_id="benchmark-data")
    standing = Standing(current, known, browser, timer, said, stop, resume, key, told, area, row)
    numbers = Numbers(*table, kinds, *confidence, about, data)
    return BenchmarkView(runs, standing, numbers, questions, comparing)


def _draw_runs(services: AppServices) -> Runs:
    with gr.Accordion("Earlier benchmarks", open=False, elem_classes="slim", elem_id="benchmark-runs") as section:
        nothing = markup(benchmark_views.no_runs(local=services.local), elem_id="benchmark-no-runs")
        choices = gr.Radio(
            [], label="Open a benchmark", visible=False, elem_id="benchmark-list", elem_classes="choices"
        )
        refresh = gr.Button("Look again", size="md", scale=0, min_width=140, elem_id="benchmark-refresh")
    return Runs(section, nothing, choices, refresh)


def _draw_table() -> tuple[gr.Markdown, gr.Markdown, gr.Markdown, gr.Markdown, gr.DownloadButton]:
    summary = markup(elem_id="benchmark-summary")
    table = markup(elem_id="benchmark-table")
    with gr.Accordion("How judging went", open=True, elem_classes="slim"):
        judging = markup(elem_id="benchmark-judging")
    with gr.Accordion("Published numbers", open=True, elem_classes="slim"):
        published = markup(elem_id="benchmark-published")
    download = gr.DownloadButton(
        "Download the report (HTML)", visible=False, elem_id="benchmark-download", size="md", scale=0, min_width=240
    )
    return summary, table, judging, published, download


def _draw_confidence() -> tuple[gr.Markdown, gr.HTML, gr.Markdown]:
    with gr.Row(equal_height=False, elem_id="benchmark-charts"):
        margins = markup(elem_id="benchmark-margins")
        # Of numbers and fixed words alone; Markdown would take the picture out.
        curve = gr.HTML(elem_id="benchmark-curve", js_on_load=None)
    calibration = markup(elem_id="benchmark-calibration")
    return margins, curve, calibration


def _draw_questions() -> Questions:
    with gr.Row(elem_id="benchmark-filters"):
        kind = gr.Dropdown([], label="Show", min_width=200, elem_id="benchmark-kind")
        part = gr.Dropdown([], label="Part", min_width=150, visible=False, elem_id="benchmark-part")
        category = gr.Dropdown([], label="Kind of edit", min_width=150, elem_id="benchmark-category")
    with gr.Row(elem_id="benchmark-steps"):
        previous = gr.Button("Previous", size="md", scale=0, min_width=110, elem_id="benchmark-previous")
        following = gr.Button("Next", size="md", scale=0, min_width=110, elem_id="benchmark-next")
        position = markup(elem_id="benchmark-position")
    panel = draw_panel("benchmark-case", 1)
    return Questions(kind, part, category, gr.State(0, time_to_live=KEPT), position, previous, following, panel)


def _draw_comparing() -> Comparing:
    with gr.Row():
        first = gr.Dropdown([], label="First: compare with", min_width=240, elem_id="benchmark-first")
        second = gr.Dropdown([], label="Second: is this better?", min_width=240, elem_id="benchmark-second")
    compare = gr.Button("Compare", size="md", scale=0, min_width=140, elem_id="benchmark-compare")
    compared = markup(benchmark_case_views.comparison_hint(), elem_id="benchmark-compared")
    flips = gr.Radio([], label="What differs", visible=False, elem_id="benchmark-flips", elem_classes="choices")
    panel = draw_panel("benchmark-flip", 2)
    return Comparing(first, second, compare, gr.State(None, time_to_live=KEPT), compared, flips, panel)

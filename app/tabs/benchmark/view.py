"""Widgets that show a benchmark."""

from dataclasses import dataclass

import gradio as gr

from app import benchmark_case_views
from app.tabs.example_panel import ExamplePanel, draw_panel
from app.tabs.parts import KEPT, Widgets, markup


@dataclass(frozen=True)
class Numbers(Widgets):
    """Results of the run."""

    row: gr.Dropdown
    """The row of the details: kinds of edit, confidence, questions."""
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
class Questions(Widgets):
    """Single questions, shown one at a time."""

    kind: gr.Dropdown
    part: gr.Dropdown
    category: gr.Dropdown
    number: gr.State
    """Index of the shown question."""
    position: gr.Markdown
    previous: gr.Button
    following: gr.Button
    panel: ExamplePanel


@dataclass(frozen=True)
class Comparing(Widgets):
    """Comparison of two rows."""

    first: gr.Dropdown
    second: gr.Dropdown
    compare: gr.Button
    pair: gr.State
    """The compared rows: name of a run and key of a row, each."""
    compared: gr.Markdown
    flips: gr.Radio
    panel: ExamplePanel


@dataclass(frozen=True)
class BenchmarkView(Widgets):
    """The widgets."""

    numbers: Numbers
    questions: Questions
    comparing: Comparing


def draw_view() -> BenchmarkView:
    """Draw the widgets, in the context of `draw_runs`."""
    row = gr.Dropdown(
        [],
        label="Details of",
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
    return BenchmarkView(Numbers(row, *table, kinds, *confidence, about, data), questions, comparing)


def _draw_table() -> tuple[gr.Markdown, gr.Markdown, gr.Markdown, gr.Markdown, gr.DownloadButton]:
    summary = markup(elem_id="benchmark-summary")
    table = markup(elem_id="benchmark-table")
    with gr.Accordion("Coverage and cost", open=True, elem_classes="slim"):
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
        # HTML, because Markdown removes the SVG. It contains no foreign text.
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
        first = gr.Dropdown([], label="First row (baseline)", min_width=240, elem_id="benchmark-first")
        second = gr.Dropdown([], label="Second row", min_width=240, elem_id="benchmark-second")
    compare = gr.Button("Compare", size="md", scale=0, min_width=140, elem_id="benchmark-compare")
    compared = markup(benchmark_case_views.comparison_hint(), elem_id="benchmark-compared")
    flips = gr.Radio([], label="Differences", visible=False, elem_id="benchmark-flips", elem_classes="choices")
    panel = draw_panel("benchmark-flip", 2)
    return Comparing(first, second, compare, gr.State(None, time_to_live=KEPT), compared, flips, panel)

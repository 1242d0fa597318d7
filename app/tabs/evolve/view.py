"""Widgets that show an evolution."""

from dataclasses import dataclass

import gradio as gr

from app import evolve_views
from app.run_panel.page import RunPanel
from app.services import AppServices
from app.tabs.evolve.edits import Edits, draw_edits
from app.tabs.evolve.labels import Labels, draw_labels
from app.tabs.evolve.versions import Versions, draw_versions
from app.tabs.parts import KEPT, Widgets, markup

MAX_COMPARED = 6
"""Maximum number of runs in a comparison."""


@dataclass(frozen=True)
class RunView(Widgets):
    """The widgets."""

    comparison: gr.Row
    several: gr.Dropdown
    compare: gr.Button
    compared: gr.Markdown
    chosen: gr.State
    """Key of the shown edit; empty for none."""
    accuracy: gr.HTML
    judgments: gr.HTML
    about: gr.Markdown
    edits: Edits
    findings: gr.Markdown
    labels: Labels
    versions: Versions
    report: gr.Markdown
    download: gr.DownloadButton


def draw_view(services: AppServices, panel: RunPanel) -> RunView:
    """Draw the widgets, in the context of `draw_runs`."""
    with panel.section:
        comparison = _draw_comparison()
    with gr.Row(equal_height=False, elem_id="evolve-charts"):
        # HTML, because Markdown removes what the SVG needs to be scaled. It contains no foreign text.
        accuracy = gr.HTML(elem_id="evolve-accuracy", js_on_load=None)
        judgments = gr.HTML(elem_id="evolve-judgments", js_on_load=None)
    with gr.Accordion("Configuration", open=False, elem_classes="slim"):
        about = markup(elem_id="evolve-about")
    with gr.Tabs(elem_id="evolve-tabs"):
        with gr.Tab("Edits"):
            edits = draw_edits()
        with gr.Tab("Findings"):
            findings = markup(elem_id="evolve-findings")
        with gr.Tab("Labels to check"):
            labels = draw_labels()
        with gr.Tab("Versions"):
            versions = draw_versions(services, panel.current)
        with gr.Tab("Report"):
            report = markup(evolve_views.report(None), elem_id="evolve-report")
            download = gr.DownloadButton(
                "Download the report (HTML)", visible=False, elem_id="evolve-download", size="md", scale=0,
                min_width=240,
            )  # fmt: skip
    chosen = gr.State("", time_to_live=KEPT)
    return RunView(*comparison, chosen, accuracy, judgments, about, edits, findings, labels, versions, report, download)


def _draw_comparison() -> tuple[gr.Row, gr.Dropdown, gr.Button, gr.Markdown]:
    with gr.Row(equal_height=False, visible=False) as row:
        several = gr.Dropdown(
            [], multiselect=True, max_choices=MAX_COMPARED, label="Compare finished runs",
            elem_id="evolve-several", min_width=260,
        )  # fmt: skip
        compare = gr.Button("Compare", size="md", scale=0, min_width=140, elem_id="evolve-compare")
    return row, several, compare, markup(elem_id="evolve-compared")

"""Widgets of the labels to check: examples that were judged wrong with every Library."""

from collections.abc import Mapping
from dataclasses import dataclass

import gradio as gr

from app import example_views
from app.services import AppServices
from app.tabs.example_panel import ExamplePanel, draw_panel
from app.tabs.parts import Updates, Widgets, markup
from rewardharness.schema import LABELS, TIE

RIGHT = "right"
"""Choice that the given label is correct."""

ABOUT = "the prediction with the latest Library"
"""What is shown with the images of an example of the queue."""


@dataclass(frozen=True)
class Labels(Widgets):
    """The widgets."""

    queue: gr.Markdown
    choices: gr.Radio
    panel: ExamplePanel
    row: gr.Row
    buttons: Mapping[str, gr.Button]
    """By preference: a letter, `tie` or `RIGHT`."""
    message: gr.Markdown


def draw_labels() -> Labels:
    """Draw the widgets."""
    queue = markup(example_views.empty_queue(0), elem_id="evolve-queue")
    with gr.Row(equal_height=False):
        with gr.Column(scale=4, min_width=260):
            choices = gr.Radio([], label="Examples", visible=False, elem_id="evolve-queued", elem_classes="choices")
        with gr.Column(scale=9, min_width=300):
            panel = draw_panel("evolve-puzzle", 1)
            with gr.Row(visible=False, elem_id="evolve-relabel") as row:
                buttons = {
                    label: gr.Button(_words(label), size="md", scale=0, min_width=110, elem_id=f"evolve-label-{label}")
                    for label in (RIGHT, *LABELS, TIE)
                }
            message = markup(elem_id="evolve-relabelled")
    return Labels(queue, choices, panel, row, buttons, message)


def _words(label: str) -> str:
    if label == RIGHT:
        return "The label is correct"
    return "It is a tie" if label == TIE else f"{label} is better"


def offered(labels: Labels, services: AppServices, candidates: int, given: str | None) -> Updates:
    """Show the buttons for an example: its other labels, and the one that keeps the given label."""
    letters = LABELS[:candidates]
    wanted = {RIGHT, *letters, *([TIE] if candidates == 2 else [])} - {given}
    return {
        labels.row: gr.Row(visible=services.local),
        **{button: gr.Button(visible=name in wanted) for name, button in labels.buttons.items()},
    }

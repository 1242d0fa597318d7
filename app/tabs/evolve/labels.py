"""The queue of labels to check: examples that the judge got wrong with every Library that was tried."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr

from app import example_views
from app.services import AppServices
from app.tabs.evolve.panel import Panel, draw_panel
from app.tabs.parts import Updates, markup
from rewardharness.schema import LABELS, TIE

RIGHT = "right"
"""Says that a label is right."""

ABOUT = "what the judge says of it now"
"""What stands beside the pictures of an example of the queue."""


@dataclass(frozen=True)
class Labels:
    """The parts of the queue."""

    queue: gr.Markdown
    choices: gr.Radio
    panel: Panel
    row: gr.Row
    buttons: Mapping[str, gr.Button]
    """By what they say: a letter, `tie` or `RIGHT`."""
    told: gr.Markdown

    @property
    def parts(self) -> list[Any]:
        """All of them, flat."""
        return [self.queue, self.choices, *self.panel.parts, self.row, *self.buttons.values(), self.told]


def draw_labels(services: AppServices) -> Labels:
    """Draw the queue."""
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
            told = markup(elem_id="evolve-relabelled")
    return Labels(queue, choices, panel, row, buttons, told)


def _words(label: str) -> str:
    if label == RIGHT:
        return "The label is right"
    return "It is a tie" if label == TIE else f"{label} is better"


def offered(labels: Labels, services: AppServices, candidates: int, given: str | None) -> Updates:
    """Show the buttons that fit an example: those that would change its label, and the one that keeps it."""
    letters = LABELS[:candidates]
    wanted = {RIGHT, *letters, *([TIE] if candidates == 2 else [])} - {given}
    return {
        labels.row: gr.Row(visible=services.local),
        **{button: gr.Button(visible=name in wanted) for name, button in labels.buttons.items()},
    }

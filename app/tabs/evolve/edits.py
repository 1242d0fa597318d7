"""The list of proposed edits, and what shows one of them."""

from dataclasses import dataclass
from typing import Any

import gradio as gr

from app import proposal_views
from app.tabs.evolve.panel import Panel, draw_panel
from app.tabs.parts import markup


@dataclass(frozen=True)
class Edits:
    """The parts."""

    choices: gr.Radio
    head: gr.Markdown
    change_part: gr.Accordion
    change: gr.Markdown
    example_part: gr.Accordion
    examples: gr.Radio
    panel: Panel

    @property
    def parts(self) -> list[Any]:
        """All of them, flat."""
        own = [self.choices, self.head, self.change_part, self.change, self.example_part, self.examples]
        return [*own, *self.panel.parts]


def draw_edits() -> Edits:
    """Draw the list, and beside it the place for one edit."""
    with gr.Row(equal_height=False):
        with gr.Column(scale=5, min_width=300):
            choices = gr.Radio([], label="Edits, newest first", elem_id="evolve-edits", elem_classes="choices")
        with gr.Column(scale=8, min_width=300, elem_id="evolve-edit"):
            head = markup(proposal_views.no_item(), elem_id="evolve-edit-head")
            with gr.Accordion("What it changes", open=True, visible=False, elem_classes="slim") as change_part:
                change = markup(elem_id="evolve-change")
            with gr.Accordion("What it did to examples", open=True, visible=False, elem_classes="slim") as example_part:
                examples = gr.Radio([], label="Examples", elem_id="evolve-examples")
                panel = draw_panel("evolve-case", 2)
    return Edits(choices, head, change_part, change, example_part, examples, panel)

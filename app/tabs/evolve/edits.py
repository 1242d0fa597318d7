"""Widgets of the proposed edits: the list, and the details of one."""

from dataclasses import dataclass

import gradio as gr

from app import proposal_views
from app.tabs.example_panel import ExamplePanel, draw_panel
from app.tabs.parts import Widgets, markup


@dataclass(frozen=True)
class Edits(Widgets):
    """The widgets."""

    choices: gr.Radio
    head: gr.Markdown
    change_part: gr.Accordion
    change: gr.Markdown
    example_part: gr.Accordion
    examples: gr.Radio
    panel: ExamplePanel


def draw_edits() -> Edits:
    """Draw the list, and the details of one edit next to it."""
    with gr.Row(equal_height=False):
        with gr.Column(scale=5, min_width=300):
            choices = gr.Radio([], label="Edits, newest first", elem_id="evolve-edits", elem_classes="choices")
        with gr.Column(scale=8, min_width=300, elem_id="evolve-edit"):
            head = markup(proposal_views.no_item(), elem_id="evolve-edit-head")
            with gr.Accordion("Change of the Library", open=True, visible=False, elem_classes="slim") as change_part:
                change = markup(elem_id="evolve-change")
            with gr.Accordion("Effect on examples", open=True, visible=False, elem_classes="slim") as example_part:
                examples = gr.Radio([], label="Examples", elem_id="evolve-examples")
                panel = draw_panel("evolve-case", 2)
    return Edits(choices, head, change_part, change, example_part, examples, panel)

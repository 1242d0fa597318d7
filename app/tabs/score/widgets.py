"""Widgets of the Score tab."""

from dataclasses import dataclass
from typing import Any

import gradio as gr

from app.tabs.parts import Widgets
from app.tabs.score.setup import Setup

SOURCE, FIRST = "Source, before the edit", "Image 1: the source"
"""Label of the source image, alone and with references."""

BUTTON = ""
"""Trigger of a comparison that no sample starts: the button, or the Enter key in the instruction."""


@dataclass(frozen=True)
class ScoreInputs:
    """Widgets for images, instruction, Library and judge, and the buttons below them."""

    source: gr.Image
    candidates: tuple[gr.Image, ...]
    references: tuple[gr.Image, ...]
    """Image 2, image 3 and image 4; hidden until the visitor adds one."""
    dropped: gr.File
    """Hidden; receives several images at once and those from the clipboard."""
    place: gr.Number
    """Index in `pictures` of the image that they were dropped on; -1 for none."""
    refused: gr.Markdown
    """Which images cannot be used, and why."""
    scaled: gr.Markdown
    """Which images were scaled down before they were sent."""
    places: gr.State
    """Number of visible candidate fields."""
    further: gr.State
    """Number of visible reference fields."""
    more: gr.Button
    add_reference: gr.Button
    instruction: gr.Textbox
    critique: gr.Checkbox
    setup: Setup
    compare: gr.Button
    stop: gr.Button
    reset: gr.Button

    @property
    def inputs(self) -> list[Any]:
        """The inputs of a comparison, as `ScoreEvents.compare` takes them."""
        return [*self.pictures, self.instruction, *self.options]

    @property
    def options(self) -> list[Any]:
        """The inputs beside images and instruction."""
        return [self.critique, *self.setup.inputs]

    @property
    def parts(self) -> list[Any]:
        """The widgets that events change."""
        buttons = [self.more, self.add_reference, self.compare, self.stop]
        taken = [*self.pictures, self.dropped, self.refused, self.scaled, self.places, self.further, self.instruction]
        return [*taken, *buttons, *self.setup.parts]

    @property
    def pictures(self) -> list[gr.Image]:
        """The source, the candidates and the references."""
        return [self.source, *self.candidates, *self.references]

    @property
    def changes(self) -> list[Any]:
        """Events that may change the inputs of a comparison."""
        return [each.change for each in (*self.pictures, self.instruction)] + self.setup.changes


@dataclass(frozen=True)
class ScoreOutputs(Widgets):
    """Widgets that show the result and its details."""

    comparison: gr.State
    queue: gr.State
    """The visitor's waiting and running comparisons."""
    outdated: gr.Markdown
    """Warns that the inputs have changed since the result."""
    verdict: gr.Markdown
    status: gr.Markdown
    """Progress of a model; updated every half second."""
    live: gr.Markdown
    """Reasoning of a model; updated with every step."""
    details: gr.Column
    scores: gr.Markdown
    reasons: gr.Markdown
    critiques: gr.Markdown
    viewer: gr.HTML
    votes: tuple[gr.Button, ...]
    """One per candidate, then the one for a tie."""
    thanks: gr.Markdown
    chain: gr.Accordion
    look: gr.Radio
    """Candidate whose measurements are shown."""
    overall: gr.Markdown
    measured: gr.Markdown
    pictures: gr.Gallery
    consulted: gr.Markdown
    notes: gr.Markdown
    downloads: tuple[gr.Button, ...]
    """Links to the record, the report and the picture."""

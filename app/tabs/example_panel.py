"""Widgets that show one example of a run: its images, the instruction and label, and the reasoning of the judge."""

from collections.abc import Sequence
from dataclasses import dataclass

import gradio as gr
from PIL import Image

from app.tabs.parts import Updates, Widgets, markup


@dataclass(frozen=True)
class ExamplePanel(Widgets):
    """The widgets."""

    words: gr.Markdown
    pictures: gr.Gallery
    sections: tuple[gr.Accordion, ...]
    chains: tuple[gr.Markdown, ...]

    def fill(
        self, words: str, pictures: Sequence[tuple[Image.Image, str]], chains: Sequence[tuple[str, str]]
    ) -> Updates:
        """Show an example.

        Args:
            words: Instruction, label and predictions.
            pictures: Images with their titles.
            chains: Title and reasoning of each judgment.
        """
        updates: Updates = {
            self.words: words,
            self.pictures: gr.Gallery(list(pictures), visible=bool(pictures), selected_index=None),
        }
        for section, text, (title, chain) in zip(self.sections, self.chains, chains, strict=True):
            label = f"How the judge got there · {title}" if title else "How the judge got there"
            updates |= {section: gr.Accordion(label=label, visible=True), text: chain}
        return updates

    def empty(self, words: str) -> Updates:
        """Show a text instead of an example."""
        return {
            self.words: words,
            self.pictures: gr.Gallery([], visible=False),
            **{section: gr.Accordion(visible=False) for section in self.sections},
            **dict.fromkeys(self.chains, ""),
        }


def draw_panel(name: str, chains: int) -> ExamplePanel:
    """Draw the widgets.

    Args:
        name: Prefix of the element ids, unique in the page.
        chains: Number of judgments per example.
    """
    words = markup(elem_id=f"{name}-words")
    pictures = gr.Gallery(
        label="Pictures",
        show_label=False,
        columns=3,
        height="auto",
        object_fit="contain",
        format="png",
        interactive=False,
        visible=False,
        elem_id=f"{name}-pictures",
        elem_classes="case-pictures",
        buttons=[],
    )
    sections, texts = [], []
    for number in range(chains):
        with gr.Accordion("", open=False, visible=False, elem_classes="slim", elem_id=f"{name}-{number}") as section:
            texts.append(markup(elem_id=f"{name}-chain-{number}"))
        sections.append(section)
    return ExamplePanel(words, pictures, tuple(sections), tuple(texts))

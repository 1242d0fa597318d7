"""Shows one example of a run: its pictures side by side, what was asked, and how the judge got where it got."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from app import example_views
from app.cases import Case
from app.services import AppServices
from app.tabs.parts import Updates, markup


@dataclass(frozen=True)
class Panel:
    """The parts that show an example."""

    words: gr.Markdown
    pictures: gr.Gallery
    sections: tuple[gr.Accordion, ...]
    chains: tuple[gr.Markdown, ...]

    @property
    def parts(self) -> list[Any]:
        """All of them, flat."""
        return [self.words, self.pictures, *self.sections, *self.chains]


def draw_panel(name: str, chains: int) -> Panel:
    """Draw the parts.

    Args:
        name: Beginning of their ids, unique in the page.
        chains: How many judgments of an example are shown.
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
    return Panel(words, pictures, tuple(sections), tuple(texts))


def fill(services: AppServices, panel: Panel, case: Case) -> Updates:
    """Show an example."""
    titles = [f"How the judge got there · {title}" for title in example_views.titles(case)]
    updates: Updates = {
        panel.words: example_views.words(case),
        panel.pictures: gr.Gallery(services.evolve.pictures(case), visible=True),
    }
    for section, text, title, seen in zip(panel.sections, panel.chains, titles, case.seen, strict=True):
        updates[section] = gr.Accordion(label=title, visible=True)
        updates[text] = example_views.chain(seen, case.example.labels)
    return updates


def empty(panel: Panel, words: str) -> Updates:
    """Show words in the place of an example."""
    hidden: Sequence[gr.Accordion] = panel.sections
    return {
        panel.words: words,
        panel.pictures: gr.Gallery([], visible=False),
        **{section: gr.Accordion(visible=False) for section in hidden},
        **dict.fromkeys(panel.chains, ""),
    }
